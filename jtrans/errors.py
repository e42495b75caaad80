"""Errors that are shown to users.

Every error says *what happened*, *where*, and *what to do*. It is raised where all three are
known, and the command line shows it once, as one paragraph, and exits with its code.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Self

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_CHECK_FAILED = 4


class JtransError(Exception):
    """An error that the user can cause and fix.

    Args:
        message: what happened, with the user's value and the limit it exceeds.
        where: the file, line, key or option.
        hint: what to do about it, ideally a command to paste.
        kind: a stable identifier such as ``config.unknown-key``, shown with ``--json``.
        exit_code: 2 for bad input (nothing was started), 1 for work that failed.
    """

    default_kind = "error"
    default_exit_code = EXIT_BAD_INPUT
    line: int | None = None  # number of the line at fault, from 1; None if no line is at fault

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        kind: str | None = None,
        exit_code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        self.kind = kind or self.default_kind
        self.exit_code = self.default_exit_code if exit_code is None else exit_code

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        """The lines that Python shows below the message in a traceback (PEP 678)."""
        notes = {"where": self.where, "hint": self.hint}
        return [f"{name}: {text}" for name, text in notes.items() if text]

    @classmethod
    def of_line(cls, line: int, message: str, *, hint: str, kind: str) -> Self:
        """Return the error for a line; its number is put in front of `message`."""
        error = cls(f"line {line:,}{message}", hint=hint, kind=kind)
        error.line = line
        return error


class ConfigError(JtransError):
    """A configuration, recipe or option that cannot be used."""

    default_kind = "config"


class CorpusError(JtransError):
    """Text that cannot be read or used."""

    default_kind = "corpus"


class CheckpointError(JtransError):
    """A run or checkpoint that cannot be read or does not fit."""

    default_kind = "checkpoint"


class DecodingError(JtransError):
    """A translation request that cannot be carried out."""

    default_kind = "decoding"


class WorkError(JtransError):
    """Work that was started and failed: diverged, out of memory, disk full."""

    default_kind = "work"
    default_exit_code = EXIT_FAILED


class InternalError(JtransError):
    """A state that must not happen: a bug in jtrans."""

    default_kind = "internal"
    default_exit_code = EXIT_FAILED

    def __init__(self, message: str) -> None:
        super().__init__(
            message, hint="this is a bug: please report it, with the output of `jtrans info`"
        )


@contextlib.contextmanager
def lines_of(*names: object) -> Iterator[None]:
    """Add ``NAME:LINE`` of every file to the error of a line of parallel files."""
    try:
        yield
    except JtransError as error:
        if error.line is not None and error.where is None:
            error.where = ", ".join(f"{name}:{error.line}" for name in names)
        raise


def usage_error(message: str, hint: str, where: str | None = None) -> ConfigError:
    """Return the error for options that exclude each other or cannot be parsed."""
    return ConfigError(message, where=where, hint=hint, kind="command.usage")


def option_error(message: str, hint: str, where: str | None = None) -> DecodingError:
    """Return the error for a decoding option that has no effect or an impossible value."""
    return DecodingError(message, where=where, hint=hint, kind="decoding.option")


def did_you_mean(name: str, valid: Iterable[str]) -> str | None:
    """Return the valid name closest to `name`, None if none is close."""
    near = difflib.get_close_matches(name, list(valid), n=5, cutoff=0.5)
    return next((other for other in near if _is_like(name, other)), None)


def _is_like(name: str, other: str) -> bool:
    """Return whether all words of one name resemble words of the other.

    Names that only begin or end alike, such as ``demo/lstm`` and ``demo/dlcl``, do not count.
    """
    ours, theirs = _words(name), _words(other)
    return any(
        all(difflib.get_close_matches(word, choice, n=1, cutoff=0.7) for word in words)
        for words, choice in ((ours, theirs), (theirs, ours))
    )


def _words(name: str) -> list[str]:
    """Return the words of a name; those of one or two letters only if there are no longer ones."""
    words = re.findall(r"[^/._-]+", name)
    return [word for word in words if len(word) > 2] or words or [name]


def name_hint(name: str, valid: Iterable[str], otherwise: str | None = None) -> str:
    """Return the hint for an unknown name: the closest valid name, else `otherwise`, else all."""
    names = list(valid)
    near = did_you_mean(name, names)
    return f"did you mean {near}?" if near else otherwise or f"one of: {', '.join(names)}"


def wrong_format(what: str, version: object, readable: int) -> str:
    """Return the message for a file format that this version does not read."""
    has = "no format" if version is None else f"format {version!r}"
    return f"{what} has {has}, this jtrans reads format {readable}"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, the name of its class if it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def how_many(count: int, noun: str, plural: str = "s") -> str:
    """Return a count with its noun: ``1 line``, ``2,048 lines``."""
    return f"{count:,} {noun}{'' if count == 1 else plural}"
