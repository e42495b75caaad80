"""What is learned from the training text: casing, BPE codes, vocabularies."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.files import file_digest, read_lines, write_bytes, write_lines
from jtrans.preparation.workers import run_jobs
from jtrans.text import bpe
from jtrans.text.pipeline import TextPipeline, TextSide
from jtrans.text.truecase import Truecaser, first_words
from jtrans.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from jtrans.preparation.options import PrepareOptions
    from jtrans.preparation.shards import ShardPart
    from jtrans.progress import Progress

WordCounts = Counter[str]
# Word types a worker splits into pieces at a time.
TYPES_AT_ONCE = 20_000


def learn_truecasers(
    parts: Sequence[ShardPart], folder: Path, *, workers: int, progress: Progress
) -> tuple[Path, Path]:
    """Learn how words are written within sentences; return the files of source and target."""
    paths = _casing_files(folder)
    if not all(path.exists() for path in paths):
        counts = _sum_counts(
            _count_inner, parts, len(parts), "Learning case", workers=workers, progress=progress
        )
        for path, count in zip(paths, counts, strict=True):
            write_lines(path, Truecaser.learn(count).small, durable=False)
    return paths


def write_truecasers(pipeline: TextPipeline, folder: Path) -> tuple[Path, Path] | None:
    """Write the truecasers of a pipeline as `learn_truecasers` does; None: it has none."""
    truecasers = pipeline.source.truecaser, pipeline.target.truecaser
    if truecasers == (None, None):
        return None
    paths = _casing_files(folder)
    for path, truecaser in zip(paths, truecasers, strict=True):
        write_lines(path, truecaser.small if truecaser else [], durable=False)
    return paths


def _casing_files(folder: Path) -> tuple[Path, Path]:
    return folder / "casing.source.txt", folder / "casing.target.txt"


def learn_pipeline(
    parts: Sequence[ShardPart],
    folder: Path,
    sides: tuple[TextSide, TextSide],
    options: PrepareOptions,
    casing: tuple[Path, Path] | None,
    *,
    workers: int,
    progress: Progress,
) -> tuple[TextPipeline, tuple[int, int]]:
    """Learn BPE codes and vocabularies from the training words that stay.

    Args:
        parts: the training text.
        folder: the work folder, where the codes are written.
        sides: source and target, with their segmenters.
        options: how much to learn.
        casing: the files of `learn_truecasers`, if words are truecased.
        workers: number of processes.
        progress: receives how far the work is.

    Returns:
        The whole pipeline, and how many different words each side has.
    """
    counts = count_words(parts, casing, workers=workers, progress=progress)
    codes = _codes(counts, folder, options, progress)
    truecasers = [None, None] if casing is None else [Truecaser(read_lines(p)) for p in casing]
    pieces = [
        _count_pieces(text, words, workers=workers)
        for text, words in zip(codes, counts, strict=True)
    ]
    if options.vocabulary == "joint":
        joint = Vocabulary.build(pieces[0] + pieces[1], min_count=options.min_count)
        vocabularies = [joint, joint]
    else:
        vocabularies = [Vocabulary.build(count, min_count=options.min_count) for count in pieces]
    source, target = (
        replace(side, codes=text, truecaser=truecaser, vocabulary=vocabulary)
        for side, text, truecaser, vocabulary in zip(
            sides, codes, truecasers, vocabularies, strict=True
        )
    )
    return TextPipeline(source, target), (len(counts[0]), len(counts[1]))


def count_words(
    parts: Sequence[ShardPart],
    casing: tuple[Path, Path] | None,
    *,
    workers: int,
    progress: Progress,
) -> tuple[WordCounts, WordCounts]:
    """Count the words of source and target, truecased with the files `casing`."""
    digests = None if casing is None else tuple(file_digest(path) for path in casing)
    jobs = ((part, casing, digests) for part in parts)
    return _sum_counts(
        _count_part, jobs, len(parts), "Counting words", workers=workers, progress=progress
    )


def _sum_counts(
    count: Callable[[Any], tuple[WordCounts, WordCounts]],
    jobs: Iterable[Any],
    size: int,
    task: str,
    *,
    workers: int,
    progress: Progress,
) -> tuple[WordCounts, WordCounts]:
    """Add up what `count` returns for each of `size` jobs, source and target."""
    totals = (Counter[str](), Counter[str]())
    with closing(run_jobs(count, jobs, workers=workers)) as results:
        for done, counts in enumerate(results, start=1):
            for total, side in zip(totals, counts, strict=True):
                total.update(side)
            progress.advance(task, done, size)
    return totals


def _count_part(
    job: tuple[ShardPart, tuple[Path, Path] | None, tuple[str, ...] | None],
) -> tuple[WordCounts, WordCounts]:
    part, casing, digests = job
    counts = []
    for side in (0, 1):
        words: Iterable[list[str]] = (line.split(" ") for line in part.words_lines(side))
        if casing is not None and digests is not None:
            words = map(_truecaser(casing[side], digests[side]).apply, words)
        counts.append(bpe.count_words(words))
    return counts[0], counts[1]


def _count_inner(part: ShardPart) -> tuple[WordCounts, WordCounts]:
    """Count the words that do not begin a sentence."""
    counts = (Counter[str](), Counter[str]())
    for side, count in enumerate(counts):
        for line in part.words_lines(side):
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
    """Learn the BPE codes of both sides, unless they are in the work folder."""
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
    merges = _bpe(codes)
    counts: Counter[str] = Counter()
    for word, count in entries:
        for piece in merges.pieces([word]):
            counts[piece] += count
    return counts


@functools.lru_cache(maxsize=2)
def _bpe(codes: str) -> bpe.Bpe:
    return bpe.Bpe(codes)


@functools.lru_cache(maxsize=2)
def _truecaser(path: Path, _digest: str) -> Truecaser:
    return Truecaser(read_lines(path))
