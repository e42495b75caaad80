"""The translations of a whole split, as stored in the result cache."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from jtrans.decoding.result_cache import CachedResult
from jtrans.progress import Progress

if TYPE_CHECKING:
    from jtrans.decoding.translator import Translator  # it loads torch


@dataclass(frozen=True)
class SplitTranslation:
    """A run's translations of the source lines of a split."""

    lines: list[str]  # raw text, one per source line
    words: list[list[str]]  # the words of each line before detokenisation
    tokens: int  # number of target tokens, including ``</s>``
    seconds: float  # the time taken

    @classmethod
    def read(cls, cached: CachedResult) -> SplitTranslation | None:
        """Return the cached content, None if it is incomplete."""
        content = cached.read() or {}
        try:
            return cls(*(content[item.name] for item in fields(cls)))
        except KeyError:
            return None

    @classmethod
    def make(
        cls, translator: Translator, source: Sequence[str], progress: Progress
    ) -> SplitTranslation:
        """Translate the raw source lines of a split."""
        started = time.perf_counter()
        results = [best[0] for best in translator.translate_nbest(source, 1, progress)]
        return cls(
            [result.text for result in results],
            [result.words for result in results],
            sum(len(result.tokens) for result in results),
            time.perf_counter() - started,
        )

    @property
    def tokens_per_second(self) -> float:
        """Target tokens per second."""
        return self.tokens / self.seconds if self.seconds else 0.0
