"""What is learned from the training text: small and capital letters, BPE codes, vocabularies."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jtrans.files import file_digest, read_lines, write_bytes, write_lines
from jtrans.preparation.workers import run_jobs
from jtrans.text import bpe
from jtrans.text.pipeline import TextPipeline, TextSide
from jtrans.text.truecase import Truecaser, first_words
from jtrans.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtrans.preparation.options import PrepareOptions
    from jtrans.preparation.segment import Shard
    from jtrans.progress import Progress

WordCounts = Counter[str]
# Word types a worker splits into pieces at a time.
TYPES_AT_ONCE = 20_000


@dataclass(frozen=True)
class Part:
    """The pairs of a shard that go to one split.

    Attributes:
        shard: the shard.
        kept: which of its pairs do, [pairs].
        split: the split: the shard's own, or valid where that is taken from train.
    """

    shard: Shard
    kept: NDArray[np.bool_]
    split: str

    def path(self, ending: str) -> Path:
        """Return the path of a file of these pairs."""
        return self.shard.folder / f"{self.split}.{self.shard.index:05d}.{ending}"

    def places(self) -> list[int]:
        """Return the positions of the pairs in the text they were read from."""
        places: list[int] = (np.flatnonzero(self.kept) + self.shard.start).tolist()
        return places

    def choose(self, lines: Sequence[str]) -> list[str]:
        """Return the lines of these pairs, of all lines of the text they were read from."""
        shard = lines[self.shard.start : self.shard.stop]
        return [shard[i] for i in np.flatnonzero(self.kept).tolist()]

    def words(self, side: int) -> list[str]:
        """Read their segmented lines, of source (0) or target (1)."""
        lines = self.shard.words_lines(side)
        return [lines[i] for i in np.flatnonzero(self.kept).tolist()]


def learn_truecasers(
    parts: Sequence[Part], folder: Path, *, workers: int, progress: Progress
) -> tuple[Path, Path]:
    """Learn how words are written within sentences; return where that is kept for each side."""
    paths = folder / "casing.source.txt", folder / "casing.target.txt"
    if not all(path.exists() for path in paths):
        counts = (Counter[str](), Counter[str]())
        with closing(run_jobs(_count_inner, parts, workers=workers)) as results:
            for done, pair in enumerate(results, start=1):
                for total, count in zip(counts, pair, strict=True):
                    total.update(count)
                progress.advance("Learning case", done, len(parts))
        for path, count in zip(paths, counts, strict=True):
            write_lines(path, Truecaser.learn(count).small, durable=False)
    return paths


def keep_truecasers(pipeline: TextPipeline, folder: Path) -> tuple[Path, Path] | None:
    """Keep what a pipeline knows of case where `learn_truecasers` would; None: it knows nothing."""
    truecasers = pipeline.source.truecaser, pipeline.target.truecaser
    if truecasers == (None, None):
        return None
    paths = folder / "casing.source.txt", folder / "casing.target.txt"
    for path, truecaser in zip(paths, truecasers, strict=True):
        write_lines(path, truecaser.small if truecaser else [], durable=False)
    return paths


def learn_pipeline(
    parts: Sequence[Part],
    folder: Path,
    sides: tuple[TextSide, TextSide],
    options: PrepareOptions,
    casing: tuple[Path, Path] | None,
    *,
    workers: int,
    progress: Progress,
) -> tuple[TextPipeline, tuple[int, int]]:
    """Learn codes and vocabularies from the training words that stay.

    Args:
        parts: the training text.
        folder: the work folder, where the codes are kept.
        sides: source and target, with their segmenters.
        options: how much to learn.
        casing: of `learn_truecasers`, if words are truecased.
        workers: processes to use.
        progress: hears of it.

    Returns:
        The whole pipeline, and how many different words each side has.
    """
    counts = count_words(parts, casing, workers=workers, progress=progress)
    codes = _codes(counts, folder, options, progress)
    truecasers = [None, None] if casing is None else [Truecaser(read_lines(p)) for p in casing]
    made = [
        replace(side, codes=text, truecaser=truecaser)
        for side, text, truecaser in zip(sides, codes, truecasers, strict=True)
    ]
    pieces = [
        _count_pieces(text, words, workers=workers)
        for text, words in zip(codes, counts, strict=True)
    ]
    types = len(counts[0]), len(counts[1])
    if options.vocabulary == "joint":
        joint = Vocabulary.build(pieces[0] + pieces[1], min_count=options.min_count)
        vocabularies = [joint, joint]
    else:
        vocabularies = [Vocabulary.build(one, min_count=options.min_count) for one in pieces]
    source, target = (
        replace(side, vocabulary=one) for side, one in zip(made, vocabularies, strict=True)
    )
    return TextPipeline(source, target), types


def count_words(
    parts: Sequence[Part], casing: tuple[Path, Path] | None, *, workers: int, progress: Progress
) -> tuple[WordCounts, WordCounts]:
    """Count the words of source and target, truecased with what `casing` holds."""
    digests = None if casing is None else tuple(file_digest(path) for path in casing)
    jobs = ((part, casing, digests) for part in parts)
    counts = (Counter[str](), Counter[str]())
    with closing(run_jobs(_count_part, jobs, workers=workers)) as results:
        for done, pair in enumerate(results, start=1):
            for total, count in zip(counts, pair, strict=True):
                total.update(count)
            progress.advance("Counting words", done, len(parts))
    return counts


def _count_part(
    job: tuple[Part, tuple[Path, Path] | None, tuple[str, ...] | None],
) -> tuple[WordCounts, WordCounts]:
    part, casing, digests = job
    counts = []
    for side in (0, 1):
        words: Iterable[list[str]] = (line.split(" ") for line in part.words(side))
        if casing is not None and digests is not None:
            words = map(_truecaser(casing[side], digests[side]).apply, words)
        counts.append(bpe.count_words(words))
    return counts[0], counts[1]


def _count_inner(part: Part) -> tuple[WordCounts, WordCounts]:
    """Count the words that do not begin a sentence."""
    counts = (Counter[str](), Counter[str]())
    for side, count in enumerate(counts):
        for line in part.words(side):
            words = line.split(" ")
            count.update(words)
            count.subtract(words[i] for i in first_words(words))
    return +counts[0], +counts[1]


def _codes(
    counts: tuple[WordCounts, WordCounts],
    folder: Path,
    options: PrepareOptions,
    progress: Progress,
) -> tuple[str | None, str | None]:
    """Learn the BPE codes of both sides, or take those learned before."""
    if options.bpe == "none":
        return None, None
    texts = []
    learned_from = (
        [("joint", counts)]
        if options.bpe == "joint"
        else [("source", counts[:1]), ("target", counts[1:])]
    )
    for name, words in learned_from:
        path = folder / f"codes.{name}.txt"
        if not path.exists():
            progress.advance("Learning BPE", 0)
            text = bpe.learn(words, options.bpe_merges, min_frequency=options.bpe_min_frequency)
            write_bytes(path, text.encode("utf-8"), durable=False)
        texts.append(path.read_bytes().decode("utf-8"))
    return texts[0], texts[-1]


def _count_pieces(codes: str | None, words: WordCounts, *, workers: int) -> Counter[str]:
    if codes is None:
        return words
    entries = list(words.items())
    jobs = (
        (codes, entries[start : start + TYPES_AT_ONCE])
        for start in range(0, len(entries), TYPES_AT_ONCE)
    )
    workers = workers if len(entries) > TYPES_AT_ONCE else 1
    pieces: Counter[str] = Counter()
    with closing(run_jobs(_count_pieces_of, jobs, workers=workers)) as results:
        for count in results:
            pieces.update(count)
    return pieces


def _count_pieces_of(job: tuple[str, list[tuple[str, int]]]) -> Counter[str]:
    codes, entries = job
    side = _bpe(codes)
    counts: Counter[str] = Counter()
    for word, count in entries:
        for piece in side.pieces([word]):
            counts[piece] += count
    return counts


@functools.lru_cache(maxsize=2)
def _bpe(codes: str) -> bpe.Bpe:
    return bpe.Bpe(codes)


@functools.lru_cache(maxsize=2)
def _truecaser(path: Path, _digest: str) -> Truecaser:
    return Truecaser(read_lines(path))
