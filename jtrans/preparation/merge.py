"""Prepared corpora put together to a larger one: training text prepared on several machines.

The parts must be made with the same text pipeline (`--pipeline`) and the same valid and test text.
Their training ids are put one after the other, a slice at a time; valid and test are taken from the
first. The result is what one preparation of all the text with that pipeline gives, but for two
things: the number of different words is missing, for it cannot be told from the parts; and what
counts as repeated are pairs of the same ids, none of them unknown, not of the same words.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jtrans import __version__
from jtrans.corpora.lines import LineFile
from jtrans.data.prepared import FORMAT, SIDES, IdStore, ParallelIds, PreparedCorpus
from jtrans.errors import CorpusError
from jtrans.files import short_digest, text_digest, write_json, write_lines
from jtrans.preparation.assemble import write_arrays
from jtrans.preparation.clean import Rules, decide
from jtrans.preparation.request import is_up_to_date, request_key
from jtrans.preparation.statistics import Statistics, describe, joint_size
from jtrans.preparation.work import WorkFolder
from jtrans.progress import Progress, Silent
from jtrans.text.bpe import MARK
from jtrans.text.vocabulary import EOS, UNK

if TYPE_CHECKING:
    from numpy.typing import NDArray

Side = Literal["source", "target"]

# Sentences in memory at a time.
SLICE = 50_000
GOLD = ("alignments.txt", "source.tags.txt")


@dataclass(frozen=True)
class Part:
    """The training pairs of a prepared corpus.

    Attributes:
        corpus: the prepared corpus.
        pairs: its training ids.
        kept: which of them stay, [pairs].
    """

    corpus: PreparedCorpus
    pairs: ParallelIds
    kept: NDArray[np.bool_]

    def slices(self, store: IdStore, *, kept: bool = True) -> Iterator[NDArray[Any]]:
        """Yield the ids, or labels, of the pairs that stay (or go), some sentences at a time."""
        flat, offsets = store.flat
        for start in range(0, len(store), SLICE):
            bounds = offsets[start : start + SLICE + 1]
            chosen = self.kept[start : start + SLICE] == kept
            yield flat[bounds[0] : bounds[-1]][np.repeat(chosen, np.diff(bounds))]

    def store(self, side: Side) -> IdStore:
        """Return the ids of one side."""
        return self.pairs.source if side == "source" else self.pairs.target


def join_prepared(
    folders: Sequence[Path],
    folder: Path,
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> PreparedCorpus:
    """Make the prepared corpus `folder` from others, whose training pairs follow one another.

    Args:
        folders: the others.
        folder: where to put it. The same parts put together again change nothing.
        force: whether another prepared corpus in `folder` is replaced.
        progress: hears of it.

    Raises:
        CorpusError: a part cannot be used or does not fit the first; nothing was written.
        WorkError: the disk is full.
    """
    progress = progress or Silent()
    corpora = [PreparedCorpus.open(one) for one in folders]
    _check_parts(corpora)
    facts = _facts(corpora)
    counts = (f"{one.folder} {one.info['splits']['train']['pairs']:,}" for one in corpora)
    progress.say("Reading", " · ".join(counts))
    if is_up_to_date(folder, facts, force=force):
        progress.say("Unchanged", f"{folder} holds these parts")
        return PreparedCorpus.open(folder)
    with WorkFolder(folder, request_key(facts)).opened() as work:
        made = work.folder / "made"
        if not made.exists():
            _make(made, corpora, {"name": folder.resolve().name, **facts}, progress)
        work.publish(made)
        work.remove()
    progress.say("Written", str(folder))
    return PreparedCorpus.open(folder)


def _check_parts(corpora: Sequence[PreparedCorpus]) -> None:
    """Refuse parts that do not fit the first one."""
    first, rules = corpora[0], [rule.name for rule in fields(Rules)]
    for i, other in enumerate(corpora[1:], start=1):
        if any(other.folder.resolve() == one.folder.resolve() for one in corpora[:i]):
            raise CorpusError(f"{other.folder} is given twice", hint="name each part once")
        if other.pipeline.fingerprint() != first.pipeline.fingerprint():
            raise _unfit(first, other, "text pipeline", f"with --pipeline {first.folder}")
        if _held_out(other) != _held_out(first):
            raise _unfit(first, other, "valid or test text", "with the same --valid and --test")
        if any(other.info["options"][rule] != first.info["options"][rule] for rule in rules):
            raise _unfit(first, other, "rules of cleaning", "with the same options")
        if other.label_names != first.label_names:
            raise _unfit(first, other, "labels", "with the same --labels")


def _unfit(first: PreparedCorpus, other: PreparedCorpus, what: str, how: str) -> CorpusError:
    return CorpusError(
        f"{first.folder} and {other.folder} differ in their {what}",
        hint=f"prepare {other.folder} again {how}, so that the two can be put together",
        kind="corpus.parts",
    )


def _held_out(corpus: PreparedCorpus) -> dict[str, Any]:
    splits = corpus.info["splits"].items()
    return {name: split["sha256"] for name, split in splits if name != "train"}


def _facts(corpora: Sequence[PreparedCorpus]) -> dict[str, Any]:
    """Return what decides the result, as `Request.facts`; digests of train are of digests."""
    infos = [corpus.info for corpus in corpora]
    trains = [info["splits"]["train"] for info in infos]
    train = {
        "origin": [str(corpus.folder) for corpus in corpora],
        "lines": sum(one["lines"] for one in trains),
        "sha256": {
            side: text_digest("\n".join(train["sha256"][side] for train in trains))
            for side in SIDES
        },
    }
    text = json.dumps(infos, sort_keys=True)
    return {
        "languages": infos[0]["languages"],
        "options": infos[0]["options"],
        "splits": {**infos[0]["splits"], "train": train},
        "parts_digest": text_digest(text),
    }


def _make(
    made: Path, corpora: Sequence[PreparedCorpus], facts: Mapping[str, Any], progress: Progress
) -> None:
    """Make the joined corpus in the folder `made`, which appears when it is complete."""
    making = made.with_name("making")
    shutil.rmtree(making, ignore_errors=True)
    _copy_held_out(corpora[0], making)
    parts = _choose(corpora)
    for side in SIDES:
        _write(making / f"train.{side}", [(part, part.store(side)) for part in parts], np.int32)
        lengths = [part.store(side).lengths[part.kept] for part in parts]
        offsets = np.concatenate([np.zeros(1, np.int64), *lengths]).cumsum()
        write_arrays(making / f"train.{side}.offsets.npy", [offsets], offsets.size, offsets.dtype)
    for kind in corpora[0].label_names:
        stores = [(part, part.pairs.labels[kind]) for part in parts]
        _write(making / f"train.source.{kind}", stores, np.int8)
    _write_gold(making / "text", parts, progress)
    train = _statistics(parts)
    cleaning = _cleaning(parts)
    progress.say(
        "Cleaning",
        f"kept {train.pairs:,} · "
        + " · ".join(f"{name} {count:,}" for name, count in cleaning["dropped"].items()),
    )
    for label, text in describe({"train": train}, None, corpora[0].languages).items():
        progress.say(label, text)
    write_json(making / "corpus.json", _info(corpora[0], facts, parts, train, cleaning))
    making.rename(made)


def _copy_held_out(corpus: PreparedCorpus, making: Path) -> None:
    """Copy the pipeline, and all files of valid and test."""
    (making / "text").mkdir(parents=True)
    shutil.copyfile(corpus.folder / "pipeline.json", making / "pipeline.json")
    for place in (Path(), Path("text")):
        for path in (corpus.folder / place).iterdir():
            if any(path.name.startswith(f"{name}.") for name in corpus.splits if name != "train"):
                shutil.copyfile(path, making / place / path.name)


def _choose(corpora: Sequence[PreparedCorpus]) -> list[Part]:
    """Say which pairs stay: all, or those that were not there before."""
    pairs = [corpus.pairs("train") for corpus in corpora]
    if corpora[0].info["options"]["deduplicate"]:
        keys = np.concatenate([_keys(one, number) for number, one in enumerate(pairs)])
        reasons = np.zeros(len(keys), np.uint8)
        kept, _ = decide(reasons, keys, rules=Rules(deduplicate=True), held_out=keys[:0])
    else:
        kept = np.ones(sum(map(len, pairs)), np.bool_)
    masks = np.split(kept, np.cumsum([len(one) for one in pairs])[:-1])
    return [Part(*one) for one in zip(corpora, pairs, masks, strict=True)]


def _keys(pairs: ParallelIds, number: int) -> NDArray[np.uint64]:
    """Return a digest of the ids of each pair, [pairs, 2]; unknown words are like no others."""
    keys = np.zeros((len(pairs.source), 2), dtype="<u8")
    for i in range(len(keys)):
        source, target = pairs.source[i], pairs.target[i]  # each ends in the only EOS it has
        data = source.tobytes() + target.tobytes()
        if (source == UNK).any() or (target == UNK).any():
            data += f"{number} {i}".encode("ascii")
        digest = short_digest(data)
        keys[i] = np.frombuffer(digest, dtype="<u8")
    return keys


def _write(stem: Path, stores: Sequence[tuple[Part, IdStore]], dtype: type) -> None:
    size = sum(int(store.lengths[part.kept].sum()) for part, store in stores)
    arrays = (ids for part, store in stores for ids in part.slices(store))
    write_arrays(stem.with_name(f"{stem.name}.npy"), arrays, size, np.dtype(dtype))


def _write_gold(folder: Path, parts: Sequence[Part], progress: Progress) -> None:
    for ending in GOLD:
        paths = [part.corpus.folder / "text" / f"train.{ending}" for part in parts]
        there = [path for path in paths if path.is_file()]
        if len(there) == len(paths):
            lines = (
                line
                for part, path in zip(parts, paths, strict=True)
                for line, stays in zip(LineFile(path), part.kept, strict=True)
                if stays
            )
            write_lines(folder / f"train.{ending}", lines, durable=False)
        elif there:
            progress.warn(f"train.{ending} left out: not all parts have it")


def _statistics(parts: Sequence[Part]) -> Statistics:
    train = Statistics(pairs=sum(int(part.kept.sum()) for part in parts))
    joint = []
    for side in SIDES:
        tokens = getattr(parts[0].corpus.pipeline, side).vocabulary.tokens
        is_end = np.array([not token.endswith(MARK) for token in tokens])
        is_end[EOS] = False
        lengths = np.concatenate([part.store(side).lengths[part.kept] for part in parts])
        joint.append(lengths)
        train.add_lengths(side, lengths)
        for part in parts:
            store = part.store(side)
            train.unknown[side] += sum(int((ids == UNK).sum()) for ids in part.slices(store))
            train.words[side] += part.corpus.info["splits"]["train"]["words"][side]
            # repeated pairs have no unknown pieces: their words can be counted by their ends
            gone = part.slices(store, kept=False)
            train.words[side] -= sum(int(is_end[ids].sum()) for ids in gone)
    train.joint = int((joint[0] * joint[1]).sum())
    if parts[0].corpus.label_names:
        train.unlabelled = sum(map(_unlabelled, parts))
    return train


def _unlabelled(part: Part) -> int:
    """Count the pairs that stay without a label."""
    flat, offsets = part.pairs.labels["pos"].flat
    highest = np.maximum.reduceat(flat, offsets[:-1])
    return int((highest[part.kept] < 0).sum())


def _cleaning(parts: Sequence[Part]) -> dict[str, Any]:
    dropped: Counter[str] = Counter()
    for part in parts:
        dropped.update(part.corpus.info["cleaning"]["dropped"])
        dropped["duplicate"] += int((~part.kept).sum())
    kept = sum(int(part.kept.sum()) for part in parts)
    order = parts[0].corpus.info["cleaning"]["dropped"]
    return {"kept": kept, "dropped": {reason: dropped[reason] for reason in order}}


def _info(
    first: PreparedCorpus,
    facts: Mapping[str, Any],
    parts: Sequence[Part],
    train: Statistics,
    cleaning: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the contents of corpus.json; no times, so that equal work gives equal bytes."""
    splits = {**facts["splits"], "train": {**facts["splits"]["train"], **train.to_json()}}
    info = {
        "format": FORMAT,
        **facts,
        "splits": splits,
        "cleaning": cleaning,
        "vocabulary": first.info["vocabulary"],
        "joint_size": joint_size(train),
        "pipeline_sha256": first.info["pipeline_sha256"],
        "jtrans": __version__,
    }
    if first.label_names:
        info["labels"] = first.info["labels"]
        info["unlabelled"] = {**first.info["unlabelled"], "train": train.unlabelled}
    return info
