"""Encoding of segmented lines: ids, labels and statistics, shard by shard."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jtrans.corpora.parallel import Gold, Tagged
from jtrans.data.ids import SIDES
from jtrans.preparation.labels.project import project
from jtrans.preparation.labels.sources import open_labels
from jtrans.preparation.request import Preparation
from jtrans.preparation.shards import ShardPart
from jtrans.preparation.statistics import Statistics
from jtrans.preparation.work_folder import is_done, mark_done, read_record, write_array
from jtrans.text.pipeline import TextPipeline, TextSide
from jtrans.text.vocabulary import EOS, UNK
from jtrans.workers import run_jobs

_CACHE_LIMIT = 200_000  # words of each side and worker


@dataclass(frozen=True)
class Labelling:
    """The source of labels, and their names."""

    sources: tuple[str, ...]  # names for `open_labels`; empty for the corpus's own labels
    digest: str  # of the sources, see `labels_digest`
    label_names: dict[str, list[str]]  # the names of labels by kind, see `name_labels`


@dataclass(frozen=True)
class _EncodeJob:
    part: ShardPart
    pipeline: Path
    fingerprint: str
    labelling: Labelling | None
    tagged: Sequence[Tagged | None] | None  # the part's sentences, where the corpus has tags
    raw: Sequence[str] | None  # its source lines, if they must still be tagged


def encode_splits(
    preparation: Preparation,
    splits: Mapping[str, Sequence[ShardPart]],
    pipeline: TextPipeline,
    labelling: Labelling | None,
) -> dict[str, Statistics]:
    """Encode the pairs of all splits; finished parts are left as they are.

    Each part gets the ids and lengths of both sides (`source.ids.npy`, `source.lengths.npy` ...),
    an array for each kind of label, and `encoded.json` with its statistics.

    Raises:
        WorkError: a worker process died.
    """
    path = preparation.folder / "pipeline.json"
    pipeline.save(path)
    fingerprint = pipeline.fingerprint()

    def job(part: ShardPart) -> _EncodeJob:
        text = preparation.request.corpus.splits[part.shard.split]
        tagged = raw = None
        if labelling is not None and labelling.sources:
            raw = part.choose(text.source)
        elif labelling is not None and text.gold is not None:
            tagged = list(_gold_tags(text.gold, part.positions()))
        return _EncodeJob(part, path, fingerprint, labelling, tagged, raw)

    statistics = {}
    for name, parts in splits.items():
        todo = [part for part in parts if not is_done(_marker(part))]
        done = len(parts) - len(todo)
        workers = min(preparation.workers, len(todo))
        with run_jobs(encode_part, map(job, todo), workers=workers) as results:
            for _ in results:
                done += 1
                preparation.progress.advance("Encoding", done, len(parts))
        statistics[name] = Statistics()
        for part in parts:
            statistics[name] += Statistics(**read_record(_marker(part)))
    return statistics


def _marker(part: ShardPart) -> Path:
    return part.path("encoded.json")


def _gold_tags(gold: Gold, positions: Iterable[int]) -> Iterator[Tagged | None]:
    for i in positions:
        entities = gold.source_entities[i].split() if gold.source_entities else ()
        words, tags = gold.source_words[i].split(), gold.source_tags[i].split()
        is_sound = len(words) == len(tags) and len(entities) in (0, len(words))
        yield Tagged(words, tags, entities) if words and is_sound else None


def encode_part(job: _EncodeJob) -> None:
    """Write ids, lengths, labels and statistics of one part of the text."""
    encoders = _encoders(job.pipeline, job.fingerprint)
    lines = job.part.words_lines(0), job.part.words_lines(1)
    statistics = Statistics(pairs=len(lines[0]))
    lengths, files = [], []
    for name, encoder, side_lines in zip(SIDES, encoders, lines, strict=True):
        ids, side_lengths = encoder.encode(side_lines)
        for ending, numbers in (("ids", ids), ("lengths", side_lengths)):
            files.append(job.part.path(f"{name}.{ending}.npy"))
            write_array(files[-1], numbers)
        lengths.append(side_lengths)
        statistics.words[name] = sum(line.count(" ") + 1 for line in side_lines if line)
        statistics.unknown[name] = int((ids == UNK).sum())
        statistics.add_lengths(name, side_lengths)
    statistics.joint = int((lengths[0] * lengths[1]).sum())
    if job.labelling is not None:
        _write_labels(job, job.labelling, encoders[0].side, lines[0], statistics)
        files += [job.part.path(f"source.{kind}.npy") for kind in job.labelling.label_names]
    mark_done(_marker(job.part), files, vars(statistics))


def _write_labels(
    job: _EncodeJob,
    labelling: Labelling,
    side: TextSide,
    lines: Sequence[str],
    statistics: Statistics,
) -> None:
    """Write the labels of the source pieces; count the sentences without any."""
    tagged: Sequence[Tagged | None] = job.tagged or [None] * len(lines)
    if job.raw is not None:
        tagged = open_labels(labelling.sources, labelling.digest).tag(job.raw)
    labels = [
        project(tags, side, side.recase(line.split(" ")) if line else [], labelling.label_names)
        for tags, line in zip(tagged, lines, strict=True)
    ]
    for kind in labelling.label_names:
        flat = [sentence[kind] for sentence in labels] or [np.zeros(0, np.int8)]
        write_array(job.part.path(f"source.{kind}.npy"), np.concatenate(flat))
    for sentence, tags in zip(labels, tagged, strict=True):
        is_unlabelled = bool((sentence["pos"] < 0).all())
        statistics.unlabelled += is_unlabelled
        statistics.misaligned += is_unlabelled and tags is not None


class _Encoder:
    """Turns segmented lines of one side into ids; each word is looked up once."""

    def __init__(self, side: TextSide) -> None:
        self.side = side
        self._cache: dict[str, list[int]] = {}

    def encode(self, lines: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the ids of all lines, each ending in EOS, [ids], and their lengths, [lines]."""
        ids = array("i")
        ends = np.zeros(len(lines) + 1, dtype=np.int64)
        recase = self.side.recase if self.side.truecaser else None
        cache = self._cache
        for i, line in enumerate(lines, start=1):
            words = line.split(" ") if line else []
            for word in recase(words) if recase else words:
                word_ids = cache.get(word)
                if word_ids is None:
                    word_ids = self._look_up(word)
                ids.extend(word_ids)
            ids.append(EOS)
            ends[i] = len(ids)
        return np.array(ids, dtype=np.int32), np.diff(ends)

    def _look_up(self, word: str) -> list[int]:
        if len(self._cache) >= _CACHE_LIMIT:
            self._cache.clear()
        ids = self._cache[word] = self.side.vocabulary.ids(self.side.split([word]))
        return ids


@functools.lru_cache(maxsize=1)
def _encoders(path: Path, _fingerprint: str) -> tuple[_Encoder, _Encoder]:
    pipeline = TextPipeline.load(path)
    return _Encoder(pipeline.source), _Encoder(pipeline.target)
