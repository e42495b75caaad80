"""Segmentation of text, shard by shard into a work folder, by many processes."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jtrans.files import read_lines, write_lines
from jtrans.preparation.clean import REASON_CODES, Rules, pair_keys, shape_reason
from jtrans.preparation.work import write_array
from jtrans.preparation.workers import run_jobs
from jtrans.progress import Progress
from jtrans.text.pipeline import TextSide

if TYPE_CHECKING:
    from jtrans.corpora.parallel import Corpus, ParallelText

# Pairs of a shard, by the size of the text: enough shards to share, not too many files.
SHARDS_WANTED = 32
SMALLEST_SHARD, LARGEST_SHARD = 1000, 20_000

FACTS = np.dtype([("reason", "u1"), ("key", "<u8", (2,))])

Sides = tuple[TextSide, TextSide]


@dataclass(frozen=True)
class Shard:
    """Some consecutive pairs of a split, and their segmented lines in the work folder.

    Attributes:
        folder: the work folder.
        split: of which split.
        index: which of its shards.
        start: position of its first pair in the split.
        stop: position after its last pair.
    """

    folder: Path
    split: str
    index: int
    start: int
    stop: int

    def path(self, ending: str) -> Path:
        """Return the path of one of its files."""
        return self.folder / f"{self.split}.{self.index:05d}.{ending}"

    def words_lines(self, side: int) -> list[str]:
        """Read the segmented lines of source (0) or target (1)."""
        return read_lines(self.path(("source.txt", "target.txt")[side]))

    def facts(self) -> np.ndarray[tuple[int], np.dtype[np.void]]:
        """Read what was found out about each pair, as `FACTS`."""
        facts: np.ndarray[tuple[int], np.dtype[np.void]] = np.load(self.path("facts.npy"))
        return facts


@dataclass(frozen=True)
class _Job:
    shard: Shard
    sides: Sides
    rules: Rules
    lines: tuple[Sequence[str], Sequence[str]]


def plan_shards(folder: Path, split: str, size: int) -> list[Shard]:
    """Cut a split into shards: the same ones whatever the number of workers."""
    each = min(max(-(-size // SHARDS_WANTED), SMALLEST_SHARD), LARGEST_SHARD)
    starts = range(0, size, each)
    return [Shard(folder, split, i, at, min(at + each, size)) for i, at in enumerate(starts)]


def segment_corpus(
    corpus: Corpus,
    folder: Path,
    sides: Sides,
    *,
    rules: Rules,
    workers: int,
    progress: Progress,
) -> dict[str, list[Shard]]:
    """Segment all splits into `folder`, and judge each pair; what is there already stays.

    Args:
        corpus: the text.
        folder: the work folder.
        sides: source and target.
        rules: of the training text.
        workers: processes to use.
        progress: hears how many pairs are done.

    Returns:
        The shards of each split.

    Raises:
        WorkError: a worker process died.
    """
    folder.mkdir(exist_ok=True)
    shards = {name: plan_shards(folder, name, len(text)) for name, text in corpus.splits.items()}
    total = sum(len(text) for text in corpus.splits.values())
    done = sum(s.stop - s.start for part in shards.values() for s in part if _is_done(s))
    progress.advance("Segmenting", done, total)
    with closing(
        run_jobs(_segment_shard, _jobs(corpus, shards, sides, rules), workers=workers)
    ) as (results):
        for size in results:
            done += size
            progress.advance("Segmenting", done, total)
    return shards


def _is_done(shard: Shard) -> bool:
    return shard.path("facts.npy").exists()  # written last


def _jobs(
    corpus: Corpus, shards: dict[str, list[Shard]], sides: Sides, rules: Rules
) -> Iterator[_Job]:
    for name, text in corpus.splits.items():
        for shard in shards[name]:
            if not _is_done(shard):
                yield _Job(shard, sides, rules, _lines(text, shard))


def _lines(text: ParallelText, shard: Shard) -> tuple[Sequence[str], Sequence[str]]:
    return text.source[shard.start : shard.stop], text.target[shard.start : shard.stop]


def _segment_shard(job: _Job) -> int:
    """Write the segmented lines of a shard and what is to be known of each pair."""
    is_train = job.shard.split == "train"
    limit = job.rules.max_characters if is_train else None
    source, target = (
        _segment_lines(side, lines, limit) for side, lines in zip(job.sides, job.lines, strict=True)
    )
    languages = job.sides[0].language, job.sides[1].language
    facts = np.zeros(len(source), FACTS)
    pairs = list(zip(source, target, strict=True))
    if pairs:
        facts["key"] = pair_keys(pairs)
    for i, pair in enumerate(pairs):
        reason = shape_reason(*pair, job.rules, languages)
        if limit and max(len(job.lines[0][i]), len(job.lines[1][i])) > limit:
            reason = "too long"
        facts["reason"][i] = REASON_CODES[reason]
    write_lines(job.shard.path("source.txt"), source, durable=False)
    write_lines(job.shard.path("target.txt"), target, durable=False)
    write_array(job.shard.path("facts.npy"), facts)
    return len(source)


def _segment_lines(side: TextSide, lines: Sequence[str], limit: int | None) -> list[str]:
    """Segment lines; those with more than `limit` characters are dropped anyway: not touched."""
    made = _made_side(side.language, side.segmenter, side.lowercase, side.dictionary)
    return ["" if limit and len(line) > limit else " ".join(made.segment(line)) for line in lines]


@functools.cache
def _made_side(language: str, segmenter: str, lowercase: bool, dictionary: str | None) -> TextSide:
    """Return one side for all chunks of this process: its segmenter takes time to build."""
    return TextSide(language, segmenter, lowercase, dictionary=dictionary)
