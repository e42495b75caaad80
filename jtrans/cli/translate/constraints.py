"""Constraints on translations, from files with a line per input line or fields of JSON input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.errors import CorpusError, how_many

if TYPE_CHECKING:
    from jtrans.decoding.options import Constraints

TEXT, TEXTS = "a string", "a list of strings"
# field of an input object -> its type, and its field of `Constraints`
FIELDS = {
    "prefix": (TEXT, "prefix"),
    "prefix_tokens": (TEXTS, "prefix_tokens"),
    "phrases": (TEXTS, "required"),
    "forbidden": (TEXTS, "forbidden"),
}


def constraint_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constraints among the fields of an input object, by field of `Constraints`.

    null counts as missing: other programs write it for empty cells of a table.

    Raises:
        ValueError: saying what is wrong with a field.
    """
    constraints = {name: fields[name] for name in FIELDS if fields.get(name) is not None}
    for name, value in constraints.items():
        kind = FIELDS[name][0]
        items = [value] if kind is TEXT else value
        if not (isinstance(items, list) and all(isinstance(item, str) for item in items)):
            raise ValueError(f"an object whose field `{name}` is not {kind}")
    if constraints.get("prefix") and constraints.get("prefix_tokens"):
        raise ValueError("an object with both `prefix` and `prefix_tokens`")
    return {FIELDS[name][1]: value for name, value in constraints.items()}


@dataclass(frozen=True)
class ConstraintFile:
    """A file with one line for each line of the input."""

    option: str  # that names the file
    name: str  # its path
    lines: Sequence[str]

    @classmethod
    def read(cls, option: str, name: str, total: int | None) -> ConstraintFile:
        """Read a file; `total` is the number of input lines, None if unknown.

        Raises:
            CorpusError: the file is missing, not UTF-8 text, or does not have `total` lines.
        """
        from jtrans.corpora.lines import LineFile

        file = cls(option, name, LineFile(Path(name)))
        if total is not None and total != len(file.lines):
            raise file.other_lines(f"{total:,}")
        return file

    def other_lines(self, total: str) -> CorpusError:
        """Return the error for an input with another number of lines."""
        return CorpusError(
            f"{self.name} has {how_many(len(self.lines), 'line')}, but the input has {total}",
            where=self.option,
            hint="give one line per input line, empty for none",
            kind="corpus.line-counts",
        )


@dataclass
class ConstraintFiles:
    """The files of constraints, read in step; phrases are separated by tabs."""

    files: Mapping[str, ConstraintFile]  # by field of `Constraints`
    used: int = 0  # lines read so far

    def __bool__(self) -> bool:
        """Whether there is any file."""
        return bool(self.files)

    @property
    def names(self) -> list[str]:
        """The paths of the files."""
        return [file.name for file in self.files.values()]

    def keep(self, part: range) -> None:
        """Keep only the constraints of these lines, counted from 0."""
        from jtrans.corpora.lines import Part

        self.files = {
            kind: replace(file, lines=Part(file.lines, part)) for kind, file in self.files.items()
        }

    def digests(self) -> dict[str, str]:
        """Return the sha256 of each file."""
        from jtrans.files import lines_digest

        return {kind: lines_digest(file.lines) for kind, file in self.files.items()}

    def skip(self, count: int) -> None:
        """Skip the constraints of the next `count` lines."""
        self.used += count

    def begin_of(self, lines: Sequence[str]) -> tuple[Sequence[str], CorpusError | None]:
        """Return the next input lines that all files cover, and the error for the first beyond."""
        if not self.files:
            return lines, None
        shortest = min(self.files.values(), key=lambda file: len(file.lines))
        left = len(shortest.lines) - self.used
        return (lines, None) if left >= len(lines) else (lines[:left], shortest.other_lines("more"))

    def check_all_used(self) -> None:
        """Refuse lines beyond the end of the input.

        Raises:
            CorpusError: there are some.
        """
        for file in self.files.values():
            if len(file.lines) != self.used:
                raise file.other_lines(f"{self.used:,}")

    def next(self, fields: Sequence[Mapping[str, Any]], first: int) -> list[Constraints] | None:
        """Return the constraints of the next lines; None if there are none.

        Args:
            fields: the constraints in each input object (`constraint_fields`).
            first: the number of the first line, counted from 0.

        Raises:
            CorpusError: a line has the same constraint twice.
        """
        constraints = self.at(self.used, fields, first)
        self.skip(len(fields))
        return constraints

    def at(
        self, place: int, fields: Sequence[Mapping[str, Any]], first: int
    ) -> list[Constraints] | None:
        """Return what `next` does for the lines from `place` on, without using them up."""
        if not self.files and not any(fields):
            return None
        from jtrans.decoding.options import Constraints

        result = [Constraints(**values) for values in fields]
        for kind, file in self.files.items():
            for i, line in enumerate(file.lines[place : place + len(fields)]):
                if not line:
                    continue
                if getattr(result[i], kind) or (kind == "prefix" and result[i].prefix_tokens):
                    raise CorpusError(
                        f"line {first + i + 1:,} has a constraint in the input and in {file.name}",
                        where=file.option,
                        hint="leave out the file, or the field of the JSON object",
                        kind="corpus.jsonl",
                    )
                value: Any = line if kind == "prefix" else line.split("\t")
                result[i] = replace(result[i], **{kind: value})
        return result
