"""Segmentation of text, shard by shard into the work folder, by several processes."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from jtrans.corpora.overlap import sentence_keys
from jtrans.data.ids import SIDES
from jtrans.files import write_lines
from jtrans.preparation.clean import (
    REASON_CODES,
    STRICT_RATIO,
    Rules,
    is_unlike,
    pair_keys,
    shape_reason,
)
from jtrans.preparation.request import Preparation, Request
from jtrans.preparation.shards import PAIR_NOTE, Shard, plan_shards
from jtrans.preparation.work_folder import mark_done, write_array
from jtrans.text.pipeline import TextSide
from jtrans.workers import run_jobs


@dataclass(frozen=True)
class _SegmentJob:
    shard: Shard
    sides: tuple[TextSide, TextSide]
    rules: Rules
    lines: tuple[Sequence[str], Sequence[str]]


def segment_corpus(preparation: Preparation) -> dict[str, list[Shard]]:
    """Segment all splits, and judge each pair; finished shards are left as they are.

    Returns:
        The shards of each split.

    Raises:
        WorkError: a worker process died.
    """
    request, progress = preparation.request, preparation.progress
    folder = preparation.folder / "shards"
    folder.mkdir(exist_ok=True)
    splits = request.corpus.splits
    shards = {name: plan_shards(folder, name, len(text)) for name, text in splits.items()}
    total = sum(len(text) for text in splits.values())
    todo = [shard for split in shards.values() for shard in split if not shard.is_segmented()]
    done = total - sum(map(len, todo))
    progress.advance("Segmenting", done, total)
    jobs = _jobs(request, todo)
    with run_jobs(segment_shard, jobs, workers=preparation.workers) as results:
        for size in results:
            done += size
            progress.advance("Segmenting", done, total)
    return shards


def _jobs(request: Request, shards: Sequence[Shard]) -> Iterator[_SegmentJob]:
    for shard in shards:
        text, pairs = request.corpus.splits[shard.split], slice(shard.start, shard.stop)
        lines = text.source[pairs], text.target[pairs]
        yield _SegmentJob(shard, request.sides, request.options.rules, lines)


def segment_shard(job: _SegmentJob) -> int:
    """Write the segmented lines of a shard, and a note on each pair; return the number of pairs."""
    is_train = job.shard.split == "train"
    limit = job.rules.max_characters if is_train else None
    source, target = (
        _segment_lines(side, lines, limit) for side, lines in zip(job.sides, job.lines, strict=True)
    )
    languages = job.sides[0].language, job.sides[1].language
    units = job.sides[0].units_per_word, job.sides[1].units_per_word
    notes = np.zeros(len(source), PAIR_NOTE)
    pairs = list(zip(source, target, strict=True))
    if pairs:
        notes["key"] = pair_keys(pairs)
    for i, pair in enumerate(pairs):
        reason = shape_reason(*pair, job.rules, languages, units)
        if limit and max(len(job.lines[0][i]), len(job.lines[1][i])) > limit:
            reason = "too long"
        notes["reason"][i] = REASON_CODES[reason]
        if reason not in ("empty", "too long"):
            notes["unlike"][i] = is_unlike(*pair, STRICT_RATIO, units)
    for side, lines in zip(SIDES, job.lines, strict=True):
        notes[side] = sentence_keys("" if limit and len(line) > limit else line for line in lines)
    files = [job.shard.path(ending) for ending in ("source.txt", "target.txt", "notes.npy")]
    write_lines(files[0], source)
    write_lines(files[1], target)
    write_array(files[2], notes)
    mark_done(job.shard.path("segmented.json"), files)
    return len(source)


def _segment_lines(side: TextSide, lines: Sequence[str], limit: int | None) -> list[str]:
    """Segment lines, except those of more than `limit` characters, which are dropped anyway."""
    side = _reused_side(json.dumps(side.to_json()))
    return ["" if limit and len(line) > limit else " ".join(side.segment(line)) for line in lines]


@functools.cache
def _reused_side(value: str) -> TextSide:
    """Return a side shared by all shards of this process: its segmenter takes time to build."""
    return TextSide.from_json(json.loads(value))
