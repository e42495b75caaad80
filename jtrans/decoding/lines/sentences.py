"""Raw lines as the sentences that are searched: a line each, or several if it is too long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from jtrans.decoding.lines.constraints import (
    ConstraintEncoder,
    Constraints,
    EncodedConstraints,
    check_room,
)
from jtrans.decoding.lines.long_lines import cut
from jtrans.errors import DecodingError
from jtrans.progress import Progress
from jtrans.text.pipeline import TextSide


@dataclass(frozen=True)
class InputSentence:
    """A line, or a part of one that is too long.

    Args:
        text: raw text.
        ids: its ids, ending in EOS.
        constraints: of its translation; None for none.
        number: of the line, counted from 1.
    """

    text: str
    ids: list[int]
    constraints: EncodedConstraints | None
    number: int


@dataclass(frozen=True)
class SentenceReader:
    """Turns lines into sentences.

    Args:
        source: of the pipeline.
        encoder: of constraints.
        longest: most source tokens, ``</s>`` counted.
        limit: from source tokens to the most target tokens, both with ``</s>``.
        whole: what is asked for and needs lines as a whole.
        progress: is warned of lines that are cut.
    """

    source: TextSide
    encoder: ConstraintEncoder
    longest: int
    limit: Callable[[int], int]
    whole: Sequence[str]
    progress: Progress

    def read(self, line: str, constraints: Constraints | None, number: int) -> list[InputSentence]:
        """Return the sentences of a line.

        Args:
            line: raw text.
            constraints: of its translation; a prefix begins the first sentence.
            number: of the line, counted from 1.

        Raises:
            DecodingError: constraints that cannot be fulfilled, or a line that is too long and
                needed as a whole.
        """
        encoded = self.encoder.encode(constraints, number) if constraints else None
        ids = self.source.encode(line)
        if len(ids) <= self.longest:
            if encoded and len(ids) > 1:
                check_room(encoded, self.limit(len(ids)), number)
            return [InputSentence(line, ids, encoded, number)]
        parts = self._parts(line, len(ids), constraints, number)
        later = replace(constraints, prefix="", prefix_tokens=()) if constraints else None
        own = [constraints, *[later] * (len(parts) - 1)]
        return [
            sentence
            for part, given in zip(parts, own, strict=True)
            for sentence in self.read(part, given, number)
        ]

    def _parts(
        self, line: str, tokens: int, constraints: Constraints | None, number: int
    ) -> list[str]:
        fault = f"line {number:,} has {tokens - 1:,} tokens, more than {self.longest - 1:,}"
        begin = f"{line[:40]} ..."
        required = ["required phrases"] if constraints and constraints.required else []
        for reason in [*self.whole, *required]:
            raise DecodingError(
                f"{fault}, and cannot be translated in parts with {reason}: {begin}",
                hint="divide the line into sentences",
                kind="decoding.long-line",
            )
        parts = cut(line, lambda text: len(self.source.encode(text)) <= self.longest)
        self.progress.warn(f"{fault}: translated in {len(parts):,} parts: {begin}")
        return parts
