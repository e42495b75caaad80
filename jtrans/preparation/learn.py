"""Learning of casing, BPE codes and vocabularies from the training text."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from jtrans.data.ids import SIDES
from jtrans.files import file_digest, read_lines, write_bytes, write_lines
from jtrans.preparation.request import Preparation
from jtrans.preparation.shards import ShardPart
from jtrans.preparation.work_folder import is_done, mark_done
from jtrans.text import bpe
from jtrans.text.pipeline import TextPipeline, TextSide
from jtrans.text.segment import IGNORED_BY
from jtrans.text.spacing import learn_spaces
from jtrans.text.truecase import Truecaser, first_words
from jtrans.text.vocabulary import Vocabulary
from jtrans.text.word_counts import write_word_counts
from jtrans.workers import run_jobs

# How often each word occurs, in source and target.
Counts = tuple[Counter[str], Counter[str]]
# Word types a worker splits into pieces at a time.
TYPES_AT_ONCE = 20_000
SAMPLE = 50_000  # lines, for the spaces of Chinese text


def learn_pipeline(
    preparation: Preparation, parts: Sequence[ShardPart]
) -> tuple[TextPipeline, tuple[int, int]]:
    """Learn casing, BPE codes and vocabularies from the training pairs that stay.

    Returns:
        The complete pipeline, and the number of different words on each side.
    """
    options = preparation.request.options
    casing = _learn_truecasers(preparation, parts) if options.truecase else ()
    counts = _count_words(preparation, parts, casing)
    codes = _codes(preparation, counts)
    truecasers = [
        Truecaser(read_lines(path)) if casing and _has_case(side) else None
        for path, side in zip(_casing_files(preparation), preparation.request.sides, strict=True)
    ]
    vocabularies = _build_vocabularies(preparation, codes, counts)
    if options.spell and options.bpe != "none" and options.min_count > 1:
        # counted again, with rare pieces split into smaller ones
        vocabularies = _build_vocabularies(preparation, codes, counts, vocabularies)
    both = vocabularies[0], vocabularies[-1]
    learned = zip(preparation.request.sides, codes, truecasers, both, strict=True)
    source, target = (
        replace(side, codes=text, truecaser=truecaser, vocabulary=vocabulary)
        for side, text, truecaser, vocabulary in learned
    )
    target = replace(target, spaces=_learn_spaces(preparation, parts))
    return TextPipeline(source, target), (len(counts[0]), len(counts[1]))


def _learn_spaces(preparation: Preparation, parts: Sequence[ShardPart]) -> tuple[str, ...]:
    """Learn from a sample where to write spaces that the target's segmenter does not keep."""
    side, raw = preparation.request.sides[1], preparation.request.corpus.splits["train"].target
    if side.segmenter != "jieba":
        return ()
    step = max(1, sum(int(part.mask.sum()) for part in parts) // SAMPLE)
    pairs = (
        pair for part in parts for pair in zip(part.choose(raw), part.words_lines(1), strict=True)
    )
    sample = islice(pairs, 0, None, step)
    return learn_spaces((side.normalise(line), words.split(" ")) for line, words in sample)


def _build_vocabularies(
    preparation: Preparation,
    codes: tuple[str | None, str | None],
    counts: Counts,
    known: Sequence[Vocabulary] = (),
) -> list[Vocabulary]:
    """Count the pieces of all words, and build the vocabulary of each side, or one for both.

    Pieces that are not in the vocabularies `known` are split into smaller ones.
    """
    options = preparation.request.options
    pieces = [
        _count_pieces(text, words, vocabulary, workers=preparation.workers)
        for text, words, vocabulary in zip(
            codes, counts, (known[0], known[-1]) if known else (None, None), strict=True
        )
    ]
    if options.vocabulary == "joint":
        pieces = [pieces[0] + pieces[1]]
    return [Vocabulary.build(count, min_count=options.min_count) for count in pieces]


def count_types(
    preparation: Preparation, parts: Sequence[ShardPart], pipeline: TextPipeline
) -> tuple[int, int]:
    """Count the different words of both sides, cased by an existing pipeline."""
    truecasers = pipeline.source.truecaser, pipeline.target.truecaser
    casing = () if truecasers == (None, None) else _casing_files(preparation)
    for path, truecaser in zip(casing, truecasers, strict=False):
        write_lines(path, truecaser.small if truecaser else [])
    counts = _count_words(preparation, parts, casing)
    return len(counts[0]), len(counts[1])


def word_count_files(preparation: Preparation) -> tuple[Path, Path]:
    """Return the files with the word counts of both sides, in the work folder."""
    source, target = (preparation.folder / f"{side}.words.gz" for side in SIDES)
    return source, target


def _learn_truecasers(preparation: Preparation, parts: Sequence[ShardPart]) -> tuple[Path, ...]:
    """Learn the case of words within sentences; return the files of source and target."""
    paths = _casing_files(preparation)
    marker = preparation.folder / "casing.json"
    if not is_done(marker):
        counts = _sum_counts(preparation, "Learning case", _count_inner, parts)
        for path, count, side in zip(paths, counts, preparation.request.sides, strict=True):
            small = Truecaser.learn(count).small if _has_case(side) else []
            write_lines(path, small)
        mark_done(marker, paths)
    return paths


def _has_case(side: TextSide) -> bool:
    return side.segmenter not in IGNORED_BY["truecase"]


def _casing_files(preparation: Preparation) -> tuple[Path, ...]:
    return tuple(preparation.folder / f"casing.{side}.txt" for side in SIDES)


def _count_words(
    preparation: Preparation, parts: Sequence[ShardPart], casing: tuple[Path, ...]
) -> Counts:
    """Count and keep the words of both sides, truecased with the files `casing`, if any."""
    files = [(path, file_digest(path)) for path in casing]
    jobs = [(part, files) for part in parts]
    counts = _sum_counts(preparation, "Counting words", _count_part, jobs)
    for path, words in zip(word_count_files(preparation), counts, strict=True):
        write_word_counts(path, words)
    return counts


def _sum_counts(
    preparation: Preparation, task: str, count: Callable[[Any], Counts], jobs: Sequence[Any]
) -> Counts:
    """Add up the results of `count` for all jobs."""
    totals = (Counter[str](), Counter[str]())
    with run_jobs(count, jobs, workers=preparation.workers) as results:
        for done, counts in enumerate(results, start=1):
            for total, side in zip(totals, counts, strict=True):
                total.update(side)
            preparation.progress.advance(task, done, len(jobs))
    return totals


def _count_part(job: tuple[ShardPart, Sequence[tuple[Path, str]]]) -> Counts:
    part, casing = job
    counts = []
    for side in (0, 1):
        words: Iterable[list[str]] = (line.split(" ") for line in part.words_lines(side))
        if casing:
            words = map(_truecaser(*casing[side]).apply, words)
        counts.append(bpe.count_words(words))
    return counts[0], counts[1]


def _count_inner(part: ShardPart) -> Counts:
    """Count the words that do not begin a sentence."""
    counts = (Counter[str](), Counter[str]())
    for side, count in enumerate(counts):
        for line in part.words_lines(side):
            words = line.split(" ")
            count.update(words)
            count.subtract(words[i] for i in first_words(words))
    return +counts[0], +counts[1]


def _codes(preparation: Preparation, counts: Counts) -> tuple[str | None, str | None]:
    """Learn the BPE codes of both sides, unless they are given or in the work folder.

    Separate codes are not learned for a side of single characters: it has nothing to merge.
    """
    options = preparation.request.options
    if options.bpe == "none":
        return None, None
    if preparation.request.codes is not None:
        return preparation.request.codes, preparation.request.codes
    if options.bpe == "joint":
        codes = _learn_codes(preparation, "joint", counts)
        return codes, codes
    characters = [side.segmenter == "character" for side in preparation.request.sides]
    source, target = (
        None if is_single and not all(characters) else _learn_codes(preparation, name, [words])
        for name, words, is_single in zip(SIDES, counts, characters, strict=True)
    )
    return source, target


def _learn_codes(preparation: Preparation, name: str, counts: Sequence[Counter[str]]) -> str:
    """Learn codes from the word counts of one text or two, and keep them in the work folder."""
    options = preparation.request.options
    path, marker = (preparation.folder / f"codes.{name}.{end}" for end in ("txt", "json"))
    if not is_done(marker):
        preparation.progress.advance("Learning BPE", 0)
        text = bpe.learn(counts, options.bpe_merges, min_frequency=options.bpe_min_frequency)
        write_bytes(path, text.encode("utf-8"), is_durable=False)
        mark_done(marker, [path])
    return path.read_bytes().decode("utf-8")


def _count_pieces(
    codes: str | None, words: Counter[str], known: Vocabulary | None, *, workers: int
) -> Counter[str]:
    if codes is None:
        return words
    entries = list(words.items())
    jobs = (
        (codes, known, entries[start : start + TYPES_AT_ONCE])
        for start in range(0, len(entries), TYPES_AT_ONCE)
    )
    workers = workers if len(entries) > TYPES_AT_ONCE else 1
    pieces: Counter[str] = Counter()
    with run_jobs(_count_pieces_of, jobs, workers=workers) as results:
        for count in results:
            pieces.update(count)
    return pieces


def _count_pieces_of(job: tuple[str, Vocabulary | None, list[tuple[str, int]]]) -> Counter[str]:
    codes, known, entries = job
    merges = bpe.Bpe(codes, known.known) if known else _bpe(codes)
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
