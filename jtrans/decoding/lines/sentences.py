"""Raw lines as the sentences that are searched: a line each, or several if it is too long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from jtrans.decoding.lines.constraints import (
    NO_CONSTRAINTS,
    ConstraintEncoder,
    EncodedConstraints,
    check_room,
)
from jtrans.decoding.lines.long_lines import cut
from jtrans.decoding.options import Constraints
from jtrans.errors import DecodingError
from jtrans.progress import Progress
from jtrans.text.pipeline import TextSide
from jtrans.text.vocabulary import UNK

# The most tokens of a part of a line that is too long, ``</s>`` counted: about the longest sentence
# of a training corpus. Models leave most of a longer part untranslated.
LONGEST_PART = 128
# Unknown tokens are rare in a run with subwords, and far from a quarter in one without: where there
# are so many, the text is in another language, or segmented in another way than the training text.
UNKNOWN_SHARE, LEAST_UNKNOWN = 0.25, 5
MANY_UNKNOWN = (
    "many tokens of the source are unknown to the run (a quarter or more of some lines): translate "
    "raw text in its source language, or text segmented as its training text was"
)


@dataclass(frozen=True)
class InputSentence:
    """A line, or a part of one that is too long."""

    text: str  # raw text
    ids: list[int]  # its ids, ending in EOS
    number: int  # line number, counted from 1
    constraints: EncodedConstraints  # those on its translation
    others: Sequence[list[int]]  # its ids for each further model of an ensemble, if they differ


def has_many_unknown(sentences: Sequence[InputSentence]) -> bool:
    """Return whether so many tokens are unknown that something is wrong with the text."""
    unknown = sum(each.ids.count(UNK) for each in sentences)
    tokens = sum(len(each.ids) - 1 for each in sentences)
    return unknown >= LEAST_UNKNOWN and unknown >= UNKNOWN_SHARE * tokens


@dataclass(frozen=True)
class SentenceReader:
    """Turns lines into sentences."""

    # one for each different way in which the models read the source, at least one
    sources: Sequence[TextSide]
    encoder: ConstraintEncoder
    longest: int  # most source tokens, ``</s>`` counted
    limit: Callable[[int], int]  # from source tokens to the most target tokens, both with ``</s>``
    indivisible: Sequence[str]  # requests that rule out a translation in parts, for messages
    progress: Progress  # is warned of lines that are cut

    def read(self, line: str, constraints: Constraints | None, number: int) -> list[InputSentence]:
        """Return the sentences of a line.

        Args:
            line: raw text.
            constraints: those on its translation; a prefix begins the first sentence.
            number: line number, counted from 1.

        Raises:
            DecodingError: constraints that cannot be fulfilled, or a line that is too long and
                needed as a whole.
        """
        encoded = self.encoder.encode(constraints, number) if constraints else NO_CONSTRAINTS
        ids, *others = (side.encode(line) for side in self.sources)
        length = max(map(len, (ids, *others)))
        if length <= self.longest:
            if constraints and len(ids) > 1:
                check_room(encoded, self.limit(len(ids)), number)
            return [InputSentence(line, ids, number, encoded, others)]
        parts = self._parts(line, length, constraints, number)
        later = replace(constraints, prefix="", prefix_tokens=()) if constraints else None
        per_part = [constraints, *[later] * (len(parts) - 1)]
        return [
            sentence
            for part, own in zip(parts, per_part, strict=True)
            for sentence in self.read(part, own, number)
        ]

    def _parts(
        self, line: str, tokens: int, constraints: Constraints | None, number: int
    ) -> list[str]:
        fault = f" has {tokens - 1:,} tokens, more than {self.longest - 1:,}"
        begin = f"{line[:40]} ..."
        required = ["required phrases"] if constraints and constraints.required else []
        for reason in [*self.indivisible, *required]:
            raise DecodingError.of_line(
                number,
                f"{fault}, and cannot be translated in parts with {reason}: {begin}",
                hint="divide the line into sentences",
                kind="decoding.long-line",
            )
        parts = cut(line, self._is_short)
        self.progress.warn(f"line {number:,}{fault}: translated in {len(parts):,} parts: {begin}")
        return parts

    def _is_short(self, text: str) -> bool:
        most = min(self.longest, LONGEST_PART)
        return all(len(side.encode(text)) <= most for side in self.sources)
