"""Merging of prepared corpora, such as parts of a text prepared on several machines.

They must be prepared with the same text pipeline (`--pipeline`) and the same valid and test text.
Their training ids are concatenated, a slice at a time; valid and test are taken from the first. The
result is that of a single preparation of all the text with that pipeline, with two exceptions. The
number of different words and the overlap with valid and test are missing, because the parts do not
record which words and sentences they have. Pairs count as duplicates if they have the same ids,
none of them unknown, rather than the same words.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jtrans.corpora.lines import LineFile
from jtrans.corpora.provenance import tool_versions
from jtrans.data.ids import SIDES, IdStore, ParallelIds, Side
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import CorpusError
from jtrans.files import short_digest, text_digest, whole_folder, write_lines
from jtrans.preparation.assemble import corpus_info, seal, write_array_parts, write_ids
from jtrans.preparation.clean import Rules, decide
from jtrans.preparation.request import request_key
from jtrans.preparation.statistics import Statistics, describe
from jtrans.preparation.up_to_date import is_up_to_date
from jtrans.preparation.work_folder import WorkFolder
from jtrans.progress import Progress, Silent
from jtrans.text.pipeline import TextSide
from jtrans.text.vocabulary import EOS, UNK
from jtrans.text.word_counts import write_word_counts

# Sentences in memory at a time.
SLICE = 50_000
GOLD = ("alignments.txt", "source.tags.txt")


@dataclass(frozen=True)
class MergedPart:
    """The training pairs of a prepared corpus; `mask`, [pairs], is True for those that stay."""

    corpus: PreparedCorpus
    pairs: ParallelIds
    mask: NDArray[np.bool_]

    def slices(self, store: IdStore, *, is_dropped: bool = False) -> Iterator[NDArray[Any]]:
        """Yield the ids or labels of the pairs that stay (or are dropped), by slice, [ids]."""
        flat, offsets = store.flat
        for start in range(0, len(store), SLICE):
            bounds = offsets[start : start + SLICE + 1]
            chosen = self.mask[start : start + SLICE] != is_dropped
            yield flat[bounds[0] : bounds[-1]][np.repeat(chosen, np.diff(bounds))]

    def store(self, side: Side) -> IdStore:
        """Return the ids of one side."""
        return self.pairs.source if side == "source" else self.pairs.target

    def lengths(self, side: Side) -> NDArray[np.int64]:
        """Return the lengths of one side of the pairs that stay, [pairs]."""
        lengths: NDArray[np.int64] = self.store(side).lengths[self.mask]
        return lengths


def merge_prepared(
    folders: Sequence[Path],
    folder: Path,
    *,
    force: bool = False,
    progress: Progress | None = None,
    command: str = "",
) -> PreparedCorpus:
    """Merge prepared corpora into the prepared corpus `folder`; training pairs are concatenated.

    Args:
        folders: the prepared corpora to merge.
        folder: the output folder; merging the same corpora again changes nothing.
        force: whether another prepared corpus in `folder` is replaced.
        progress: receives progress reports.
        command: the command that merged the corpora, to record.

    Raises:
        CorpusError: a part cannot be used, does not fit the first, or is `folder`; nothing was
            written.
        WorkError: the disk is full.
    """
    progress = progress or Silent()
    corpora = [PreparedCorpus.open(part) for part in folders]
    _check_parts(corpora)
    if any(part.folder.resolve() == folder.resolve() for part in corpora):
        raise CorpusError(
            f"{folder} is one of the parts, which a merge leaves as they are",
            where="--out",
            hint="choose another --out",
            kind="corpus.parts",
        )
    request = _request(corpora)
    counts = (f"{part.folder} {part.info['splits']['train']['pairs']:,}" for part in corpora)
    progress.say("Reading", " · ".join(counts))

    def make(work: WorkFolder) -> None:
        if not work.result.exists():
            record = {"name": folder.resolve().name, **request}
            _merge(work.result, corpora, record, progress, _provenance(corpora, command))

    def is_there() -> bool:
        return is_up_to_date(folder, request, progress, force=force)

    if WorkFolder(folder, request_key(request)).fill(make, is_there):
        progress.say("Written", str(folder))
    else:
        progress.say("Unchanged", f"{folder} holds these parts")
    return PreparedCorpus.open(folder)


def _check_parts(corpora: Sequence[PreparedCorpus]) -> None:
    """Check that the parts match the first one."""
    first, rules = corpora[0], [rule.name for rule in fields(Rules)]
    if without := next((part for part in corpora if "train" not in part.splits), None):
        raise CorpusError(
            f"{without.folder} has no training text, and nothing else is merged",
            hint="leave it out",
            kind="corpus.parts",
        )
    for i, other in enumerate(corpora[1:], start=1):
        if any(other.folder.resolve() == earlier.folder.resolve() for earlier in corpora[:i]):
            raise CorpusError(f"{other.folder} is given twice", hint="name each part once")
        if other.pipeline.fingerprint() != first.pipeline.fingerprint():
            raise _unfit(first, other, "text pipeline", f"with --pipeline {first.folder}")
        if _held_out(other) != _held_out(first):
            how = "with the same --valid and --test"
            if first.info.get("valid_size") or first.info.get("valid_every"):  # of its train
                how = f"with --valid {first.folder / 'text' / 'valid'} and the same --test"
            raise _unfit(first, other, "valid or test text", how)
        options, expected = other.info["options"], first.info["options"]
        # an option that a version did not have was off
        if any(options.get(rule, False) != expected.get(rule, False) for rule in rules):
            raise _unfit(first, other, "cleaning rules", "with the same options")
        if other.label_names != first.label_names:
            raise _unfit(first, other, "labels", "with the same --labels")


def _unfit(first: PreparedCorpus, other: PreparedCorpus, part: str, how: str) -> CorpusError:
    return CorpusError(
        f"{first.folder} and {other.folder} differ in their {part}",
        hint=f"prepare {other.folder} again {how}, so that the two can be merged",
        kind="corpus.parts",
    )


def _held_out(corpus: PreparedCorpus) -> dict[str, Any]:
    splits = corpus.info["splits"].items()
    return {name: split["sha256"] for name, split in splits if name != "train"}


def _request(corpora: Sequence[PreparedCorpus]) -> dict[str, Any]:
    """Return all that determines the result, as `Request.record`; train has digests of digests."""
    # without provenance: a part is the same wherever its text was and whoever prepared it
    infos = [
        {key: value for key, value in corpus.info.items() if key != "provenance"}
        for corpus in corpora
    ]
    trains = [info["splits"]["train"] for info in infos]
    train = {
        "origin": [str(corpus.folder) for corpus in corpora],
        "lines": sum(train["lines"] for train in trains),
        "sha256": {
            side: text_digest("\n".join(train["sha256"][side] for train in trains))
            for side in SIDES
        },
    }
    skipped: Counter[str] = sum((Counter(train.get("skipped", {})) for train in trains), Counter())
    if skipped:
        train["skipped"] = dict(skipped)
    text = json.dumps(infos, sort_keys=True)
    return {
        "languages": infos[0]["languages"],
        "options": infos[0]["options"],
        "splits": {**infos[0]["splits"], "train": train},
        "parts_digest": text_digest(text),
    }


def _merge(
    folder: Path,
    corpora: Sequence[PreparedCorpus],
    record: Mapping[str, Any],
    progress: Progress,
    provenance: Mapping[str, Any],
) -> None:
    """Merge the corpora in `folder`, which appears only when complete."""
    parts, uncompared = _choose(corpora)
    with whole_folder(folder) as temporary:
        _copy_held_out(corpora[0], temporary)
        for side in SIDES:
            ids = (ids for part in parts for ids in part.slices(part.store(side)))
            write_ids(temporary / f"train.{side}", ids, [part.lengths(side) for part in parts])
        size = sum(int(part.lengths("source").sum()) for part in parts)
        for kind in corpora[0].label_names:
            ids = (ids for part in parts for ids in part.slices(part.pairs.labels[kind]))
            write_array_parts(temporary / f"train.source.{kind}.npy", ids, size, np.int8)
        _write_gold(temporary / "text", parts, progress)
        _write_word_counts(temporary, parts, progress)
        train = _statistics(parts)
        cleaning = _cleaning(parts)
        splits = {**record["splits"], "train": {**record["splits"]["train"], **train.to_json()}}
        first = corpora[0].info
        results = {"splits": splits, "cleaning": cleaning, "vocabulary": first["vocabulary"]}
        labels: dict[str, Any] = {}
        if corpora[0].label_names:
            labels["labels"] = first["labels"]
            labels["unlabelled"] = {**first["unlabelled"], "train": train.unlabelled}
        info = corpus_info(record, results, train, first["pipeline_sha256"], labels)
        seal(temporary, {**info, "provenance": provenance})
    counts = [f"{reason} {count:,}" for reason, count in cleaning["dropped"].items()]
    if uncompared:
        counts.append(f"not compared because of unknown words {uncompared:,}")
    progress.say("Cleaning", " · ".join([f"kept {train.pairs:,}", *counts]))
    for label, text in describe({"train": train}, None, corpora[0].languages).items():
        progress.say(label, text)


def _provenance(corpora: Sequence[PreparedCorpus], command: str) -> dict[str, Any]:
    """Return the provenance of the merged corpus, which holds that of each part."""
    parts = [corpus.info.get("provenance", {}) for corpus in corpora]
    return {"command": command, "parts": parts, "tools": tool_versions()}


def _copy_held_out(corpus: PreparedCorpus, temporary: Path) -> None:
    """Copy the pipeline, and all files of valid and test."""
    (temporary / "text").mkdir()
    shutil.copyfile(corpus.folder / "pipeline.json", temporary / "pipeline.json")
    names = tuple(f"{name}." for name in corpus.splits if name != "train")
    for place in (Path(), Path("text")):
        for path in (corpus.folder / place).iterdir():
            # a split may be called "corpus"
            if path.name.startswith(names) and path.name != "corpus.json":
                shutil.copyfile(path, temporary / place / path.name)


def _choose(corpora: Sequence[PreparedCorpus]) -> tuple[list[MergedPart], int]:
    """Decide which pairs stay: all, or those that did not occur before.

    Returns:
        The parts, and how many pairs stay because they have unknown words, which may differ.
    """
    pairs = [corpus.pairs("train") for corpus in corpora]
    uncompared = 0
    if corpora[0].info["options"]["deduplicate"]:
        of_parts, counts = zip(*map(_keys, pairs, range(len(pairs))), strict=True)
        keys, uncompared = np.concatenate(of_parts), sum(counts)
        reasons = np.zeros(len(keys), np.uint8)
        mask, _ = decide(reasons, keys, rules=Rules(deduplicate=True))
    else:
        mask = np.ones(sum(map(len, pairs)), np.bool_)
    masks = np.split(mask, np.cumsum([len(train) for train in pairs])[:-1])
    return [MergedPart(*part) for part in zip(corpora, pairs, masks, strict=True)], uncompared


def _keys(pairs: ParallelIds, number: int) -> tuple[NDArray[np.uint64], int]:
    """Return a digest of the ids of each pair, [pairs, 2], and how many have unknown words.

    The digests of pairs with unknown words all differ.
    """
    keys, unknown = np.zeros((len(pairs.source), 2), dtype="<u8"), 0
    for i in range(len(keys)):
        source, target = pairs.source[i], pairs.target[i]  # each ends in the only EOS it has
        data = source.tobytes() + target.tobytes()
        if (source == UNK).any() or (target == UNK).any():
            data += f"{number} {i}".encode("ascii")
            unknown += 1
        digest = short_digest(data)
        keys[i] = np.frombuffer(digest, dtype="<u8")
    return keys, unknown


def _write_gold(folder: Path, parts: Sequence[MergedPart], progress: Progress) -> None:
    for ending in GOLD:
        paths = [part.corpus.folder / "text" / f"train.{ending}" for part in parts]
        present = [path for path in paths if path.is_file()]
        if len(present) == len(paths):
            lines = (
                line
                for part, path in zip(parts, paths, strict=True)
                for line, stays in zip(LineFile(path), part.mask, strict=True)
                if stays
            )
            write_lines(folder / f"train.{ending}", lines)
        elif present:
            progress.warn(f"train.{ending} left out: not all parts have it")


def _write_word_counts(folder: Path, parts: Sequence[MergedPart], progress: Progress) -> None:
    """Add up the word counts of the parts, without the words of pairs that are dropped."""
    totals = {side: Counter[str]() for side in SIDES}
    for part in parts:
        for side, total in totals.items():
            counts = part.corpus.word_counts(side)
            if counts is None:
                progress.warn(f"word counts left out: {part.corpus.folder} has none")
                return
            total.update(counts)
            # duplicates have no unknown pieces: their words can be read from their ids
            text: TextSide = getattr(part.corpus.pipeline, side)
            for ids in part.slices(part.store(side), is_dropped=True):
                for sentence in np.split(ids, np.flatnonzero(ids == EOS) + 1)[:-1]:
                    total.subtract(text.words(sentence))
    for side, total in totals.items():
        write_word_counts(folder / f"train.{side}.words.gz", +total)


def _statistics(parts: Sequence[MergedPart]) -> Statistics:
    train = Statistics(pairs=sum(int(part.mask.sum()) for part in parts))
    side_lengths = []
    for side in SIDES:
        text: TextSide = getattr(parts[0].corpus.pipeline, side)
        is_end = np.array([not text.is_inner(token) for token in text.vocabulary.tokens])
        is_end[EOS] = False
        lengths = np.concatenate([part.lengths(side) for part in parts])
        side_lengths.append(lengths)
        train.add_lengths(side, lengths)
        for part in parts:
            store = part.store(side)
            train.unknown[side] += sum(int((ids == UNK).sum()) for ids in part.slices(store))
            train.words[side] += part.corpus.info["splits"]["train"]["words"][side]
            # duplicates have no unknown pieces: their words can be counted by their last pieces
            dropped = part.slices(store, is_dropped=True)
            train.words[side] -= sum(int(is_end[ids].sum()) for ids in dropped)
    train.joint = int((side_lengths[0] * side_lengths[1]).sum())
    if parts[0].corpus.label_names:
        train.unlabelled = sum(map(_unlabelled, parts))
    return train


def _unlabelled(part: MergedPart) -> int:
    """Count the pairs that stay and have no label."""
    flat, offsets = part.pairs.labels["pos"].flat
    highest = np.maximum.reduceat(flat, offsets[:-1])
    return int((highest[part.mask] < 0).sum())


def _cleaning(parts: Sequence[MergedPart]) -> dict[str, Any]:
    dropped: Counter[str] = Counter()
    for part in parts:
        dropped.update(part.corpus.info["cleaning"]["dropped"])
        dropped["duplicate"] += int((~part.mask).sum())
    pairs = sum(int(part.mask.sum()) for part in parts)
    order = parts[0].corpus.info["cleaning"]["dropped"]
    others = ("strict_ratio", "held_out")
    sums = {
        name: sum(part.corpus.info["cleaning"].get(name, 0) for part in parts) for name in others
    }
    if not sums["held_out"]:  # as in a preparation with a valid split of its own
        del sums["held_out"]
    return {"kept": pairs, "dropped": {reason: dropped[reason] for reason in order}, **sums}
