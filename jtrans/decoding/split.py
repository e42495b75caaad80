"""The translations of a whole split, from the run's result cache where they are there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jtrans.decoding.result_cache import cached_translations
from jtrans.progress import Progress, Silent

if TYPE_CHECKING:
    from jtrans.decoding.options import SearchOptions
    from jtrans.decoding.translator import Translator
    from jtrans.runs import Checkpoint, Run

CONTENT = ("lines", "words", "tokens", "seconds")  # what the cache holds of a translation


@dataclass(frozen=True)
class SplitTranslation:
    """What a run gave for the source lines of a split.

    Args:
        checkpoint: the name of the checkpoint that made it.
        lines: raw text, one per source line.
        words: the same before detokenisation.
        tokens: target tokens, ``</s>`` counted.
        seconds: how long it took.
    """

    checkpoint: str
    lines: list[str]
    words: list[list[str]]
    tokens: int
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Target tokens per second."""
        return self.tokens / self.seconds if self.seconds else 0.0


def translate_split(
    run: Run,
    split: str,
    source: Sequence[str],
    options: SearchOptions,
    *,
    checkpoint: Checkpoint,
    precision: str,
    load: Callable[[], Translator],
    progress: Progress | None = None,
) -> SplitTranslation:
    """Return the run's translations of a split, from its result cache if they are there.

    Args:
        run: an existing run.
        split: the split's name.
        source: its raw source lines.
        options: of the search.
        checkpoint: of the run.
        precision: as the user asked for it; part of the identity in the cache.
        load: called only when there is something to translate.
        progress: for reporting how far the work is.
    """
    progress = progress or Silent()
    cached = cached_translations(run, checkpoint, split, source, options, precision)
    content = cached.read()
    if content is None or not content.keys() >= set(CONTENT):
        content = _translate(load(), source, progress)
        cached.write(content, progress)
    return SplitTranslation(checkpoint.name, **{name: content[name] for name in CONTENT})


def _translate(translator: Translator, source: Sequence[str], progress: Progress) -> dict[str, Any]:
    started = time.perf_counter()
    results = [best[0] for best in translator.translate_nbest(source, 1, progress)]
    return {
        "lines": [result.text for result in results],
        "words": [result.words for result in results],
        "tokens": sum(len(result.tokens) for result in results),
        "seconds": time.perf_counter() - started,
    }
