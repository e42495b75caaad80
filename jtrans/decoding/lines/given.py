"""Given translations: what is scored instead of searched for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from jtrans.decoding.lines.json_lines import is_json_lines, not_translated, read_json
from jtrans.errors import DecodingError
from jtrans.text.vocabulary import EOS, PAD, SPECIALS, Vocabulary


@dataclass(frozen=True)
class GivenTranslation:
    """One translation of a line."""

    text: str  # raw text
    # the model's tokens, with ``</s>``, in place of the text; none: the text is segmented
    tokens: Sequence[str] = ()
    line: int = 0  # its place in the file, counted from 0
    rank: int = 0  # its place among the translations of the line, counted from 0


def given_translations(lines: Sequence[str], name: str) -> list[GivenTranslation]:
    """Return the translations in a file: one per line, or all of each line's JSON object.

    Args:
        lines: text, or what `jtrans translate --format jsonl` writes.
        name: name of the file, for messages.

    Raises:
        CorpusError: the lines are JSON objects, and one of them has no translations.
    """
    if not is_json_lines(lines):
        return [GivenTranslation(text, line=line) for line, text in enumerate(lines)]
    given: list[GivenTranslation] = []
    for line, text in enumerate(lines):
        try:
            entries = read_json(text)["translations"]
            read = [_read(entries[rank], line, rank) for rank in range(len(entries))]
        except (ValueError, TypeError, LookupError) as error:
            raise not_translated(line + 1, name) from error
        if not read:
            raise not_translated(line + 1, name)
        given += read
    return given


def best_texts(lines: Sequence[str], name: str) -> list[str]:
    """Return the best translations in a file, given as for `given_translations`.

    Raises:
        CorpusError: the lines are JSON objects, and one of them has no translations.
    """
    return [each.text for each in given_translations(lines, name) if not each.rank]


def _read(entry: Any, line: int, rank: int) -> GivenTranslation:
    text, tokens = entry["text"], entry.get("tokens", [])
    strings = [text, *tokens] if isinstance(tokens, list) else [None]
    if not all(isinstance(each, str) for each in strings):
        raise TypeError("a text must be a string, tokens a list of strings")
    return GivenTranslation(text, tokens, line, rank)


@dataclass(frozen=True)
class TokenReader:
    """Turns given tokens into ids, without segmenting anything."""

    vocabulary: Vocabulary = field(repr=False)  # the target vocabulary

    def read(self, tokens: Sequence[str], sentences: int, line: int) -> list[list[int]]:
        """Return the ids of the translation of each sentence of a line, each ending in EOS.

        Args:
            tokens: the model's, at least one.
            sentences: the number of sentences that the line is cut into; 1 if it is not too long.
            line: its number, counted from 1, for messages.

        Raises:
            DecodingError: the run lacks a token, or ``</s>`` does not end each sentence.
        """
        parts: list[list[int]] = [[]]
        for token in tokens:
            if token not in self._ids:
                raise _refusal(line, f"the run has no target token {token!r}")
            parts[-1].append(self._ids[token])
            if parts[-1][-1] == EOS:
                parts.append([])
        *whole, rest = parts
        if rest or len(whole) != sentences:
            raise _refusal(
                line,
                f"</s> must end the tokens{'' if sentences == 1 else f' of {sentences} sentences'} "
                f"and occur nowhere else: {' '.join(tokens)[-60:]}",
            )
        return whole

    @cached_property
    def _ids(self) -> dict[str, int]:
        # unlike the words of a text, given tokens may be specials and filler, which models write
        specials = {token: i for i, token in enumerate(SPECIALS)}
        ids = {token: i for i, token in enumerate(self.vocabulary.tokens)} | specials
        del ids[SPECIALS[PAD]]
        return ids


def _refusal(line: int, fault: str) -> DecodingError:
    return DecodingError.of_line(
        line,
        f": {fault}",
        hint="give the tokens of jtrans translate RUN --format jsonl, or only texts",
        kind="decoding.given-tokens",
    )
