"""Selection of the pairs of each split: train is cleaned, and valid taken from it if missing.

The selection needs only what segmentation noted on each pair (a reason to drop it, a digest): it
takes a moment, and is repeated when an interrupted preparation continues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from jtrans.corpora.overlap import HeldOut, Keys, keys_by_unit, sentence_keys
from jtrans.errors import CorpusError, how_many
from jtrans.files import lines_digest
from jtrans.preparation.clean import REASON_CODES, STRICT_RATIO, decide
from jtrans.preparation.request import Request, further_references, no_text
from jtrans.preparation.shards import PairNotes, Shard, ShardPart
from jtrans.progress import Progress

# A larger share of dropped training pairs deserves a warning.
MANY_DROPPED = 0.2
# How to keep pairs that are dropped for a reason, given the options.
WAYS_OUT = {
    "empty": "",
    "too long": " (--max-length is {0.max_length})",
    "ratio": " (--max-ratio is {0.max_ratio:g})",
    "identical": " (--keep-identical keeps them)",
    "wrong script": " (--keep-wrong-script keeps them)",
    "duplicate": " (--no-deduplicate keeps them)",
    "in valid/test": " (--keep-leaked keeps them)",
}


@dataclass(frozen=True)
class PairSelection:
    """Which pairs go to which split."""

    splits: dict[str, list[ShardPart]]  # the pairs of each split, train first
    # the counts, as in corpus.json; empty, as `overlap` is, without training text
    cleaning: dict[str, Any]
    # how many pairs of valid and test had their source, target or both in train before pairs were
    # dropped, by split and unit
    overlap: dict[str, dict[str, int]]
    # the entry in corpus.json of a valid split that was taken from train, without its statistics;
    # None where the corpus has one of its own
    valid: dict[str, Any] | None


def select_pairs(
    shards: Mapping[str, Sequence[Shard]], request: Request, progress: Progress
) -> PairSelection:
    """Decide which training pairs stay, and report how many were dropped and why.

    Where there is no valid split, one in `valid_every` of the clean pairs goes there, or
    `valid_size` of them. Training pairs that are also in it are then dropped as leaked, as with any
    valid split.

    Raises:
        CorpusError: nothing is left of train, or of another split.
    """
    fields = ["reason", "unlike", "key"]  # the rest is read shard by shard
    notes = {
        name: np.concatenate([shard.notes()[fields] for shard in split])
        for name, split in shards.items()
    }
    whole = {
        name: _parts(split, name, np.ones(notes[name].size, np.bool_))
        for name, split in shards.items()
        if name != "train"
    }
    if "train" not in notes:
        _check_held_out(notes, request, progress)
        return PairSelection(whole, {}, {}, None)
    train, rules = notes["train"], request.options.rules
    held_out = _held_out(shards, request)
    if request.valid_size:
        taken = _choose_valid(shards["train"], train, held_out, request)
    else:
        taken = _take_valid(train, request)
    if taken.any():
        valid_keys = _train_keys(_parts(shards["train"], "valid", taken))
        held_out = {"valid": HeldOut.of(valid_keys["source"], [valid_keys["target"]]), **held_out}
    leaked = _find_leaked(shards["train"], held_out, rules.drop_leaked)
    stays = np.zeros(train.size, np.bool_)
    stays[~taken], dropped = decide(
        train["reason"][~taken], train["key"][~taken], rules=rules, leaked=leaked[~taken]
    )
    unlike = int(train["unlike"][~taken].sum())
    _report(int(stays.sum()), dropped, unlike, request, progress)
    _check_held_out(notes, request, progress)
    splits = {"train": _parts(shards["train"], "train", stays)}
    cleaning = {"kept": int(stays.sum()), "dropped": dropped, "strict_ratio": unlike}
    valid = None
    if taken.any():
        splits["valid"] = _parts(shards["train"], "valid", taken)
        cleaning["held_out"] = int(taken.sum())
        valid = _describe_valid(splits["valid"], request)
        chosen = f"1 of {request.valid_every}" if request.valid_every else "chosen among those"
        progress.say("Valid", f"{how_many(valid['lines'], 'pair')}: {chosen} that cleaning kept")
    overlap = _count_overlap(_parts(shards["train"], "train", ~taken), held_out)
    return PairSelection(splits | whole, cleaning, overlap, valid)


def _take_valid(train: PairNotes, request: Request) -> NDArray[np.bool_]:
    """Choose the training pairs for valid, [pairs], as the IWSLT14 scripts do.

    Those that are also in test are not excluded. None are chosen if the corpus has a valid split.
    """
    taken = np.zeros(train.size, np.bool_)
    if not request.valid_every:
        return taken
    clean, dropped = decide(train["reason"], train["key"], rules=request.options.rules)
    taken[np.flatnonzero(clean)[request.valid_every - 1 :: request.valid_every]] = True
    if not taken.any():
        raise CorpusError(
            f"{request.corpus.name} has no valid split, and cleaning leaves too few training pairs "
            f"({clean.sum():,}; {_counts(dropped)}) to take 1 of {request.valid_every} for it",
            hint="give more training text, or a valid split of your own",
            kind="corpus.empty",
        )
    return taken


def _choose_valid(
    shards: Sequence[Shard], train: PairNotes, held_out: Mapping[str, HeldOut], request: Request
) -> NDArray[np.bool_]:
    """Choose `valid_size` clean training pairs for valid, [pairs]: all different, none leaked.

    Digests of their text decide, so that more text, another order or other options for segmentation
    give nearly the same split. Pairs with a sentence that is also in another pair come last.
    """
    rules, size = request.options.rules, request.valid_size
    leaked = _find_leaked(shards, held_out, rules.drop_leaked)
    clean, dropped = decide(train["reason"], train["key"], rules=rules, leaked=leaked)
    keys = _train_keys(_parts(shards, "train", clean))
    pairs, first = np.unique(keys["pair"], return_index=True)
    pairs, first = pairs[pairs != 0], first[pairs != 0]
    shared = (_is_repeated(keys["source"]) | _is_repeated(keys["target"]))[first]
    first = first[np.lexsort((pairs, shared))]
    if len(first) <= size:
        is_lossy = sum(dropped.values()) > MANY_DROPPED * train.size
        raise CorpusError(
            f"--valid-size takes {how_many(size, 'pair')} from train, which has "
            f"{len(first):,} different ones after cleaning ({_counts(dropped)})",
            hint="take fewer, or give more training text"
            + (f"; most were dropped for: {_main_reason(dropped, request)}" if is_lossy else ""),
            kind="corpus.valid-size",
        )
    taken = np.zeros(train.size, np.bool_)
    taken[np.flatnonzero(clean)[first[:size]]] = True
    return taken


def _is_repeated(keys: Keys) -> NDArray[np.bool_]:
    """Return which keys occur more than once, [keys]."""
    _, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return counts[places] > 1


def _describe_valid(parts: Sequence[ShardPart], request: Request) -> dict[str, Any]:
    train = request.corpus.splits["train"]
    sides = {"source": train.source, "target": train.target} | dict(further_references(train))
    lines = {side: [line for part in parts for line in part.choose(text)]
             for side, text in sides.items()}  # fmt: skip
    return {
        "origin": [
            f"1 of {request.valid_every} clean pairs of train"
            if request.valid_every
            else f"{request.valid_size} clean pairs of train, chosen by their text"
        ],
        "lines": len(lines["source"]),
        **({"references": len(train.references)} if train.references else {}),
        "sha256": {side: lines_digest(chosen) for side, chosen in lines.items()},
    }


def _held_out(shards: Mapping[str, Sequence[Shard]], request: Request) -> dict[str, HeldOut]:
    """Return the sentences of valid and the test splits, with all their references."""
    held_out = {}
    for name, split in shards.items():
        if name != "train":
            notes = np.concatenate([shard.notes() for shard in split])
            others = request.corpus.splits[name].references[1:]
            targets = [notes["target"], *map(sentence_keys, others)]
            held_out[name] = HeldOut.of(notes["source"], targets)
    return held_out


def _train_keys(parts: Sequence[ShardPart]) -> dict[str, Keys]:
    """Return the keys of some training pairs by unit, [pairs] each."""
    notes = np.concatenate([part.shard.notes()[["source", "target"]][part.mask] for part in parts])
    return keys_by_unit(notes["source"], notes["target"])


def _find_leaked(
    shards: Sequence[Shard], held_out: Mapping[str, HeldOut], unit: str | Literal[False]
) -> NDArray[np.bool_]:
    """Return which training pairs share their `unit` with a held-out pair, [pairs]."""
    leaked = np.zeros(sum(map(len, shards)), np.bool_)
    if not unit or not held_out:
        return leaked
    known = np.concatenate([split.keys[unit].ravel() for split in held_out.values()])
    known = np.unique(known[known != 0])
    for part in _parts(shards, "train", ~leaked):
        place = slice(part.shard.start, part.shard.stop)
        leaked[place] = np.isin(_train_keys([part])[unit], known)
    return leaked


def _count_overlap(
    train: Sequence[ShardPart], held_out: Mapping[str, HeldOut]
) -> dict[str, dict[str, int]]:
    """Count how much of valid and test is in train, a shard at a time."""
    for part in train:
        keys = _train_keys([part])
        for split in held_out.values():
            split.meet(keys)
    return {name: split.counts() for name, split in held_out.items()}


def describe_overlap(overlap: Mapping[str, Mapping[str, int]], languages: tuple[str, str]) -> str:
    """Return the counts of `PairSelection.overlap` as a line to show."""
    units = {"source": "source", "target": "target", "pair": "pair"}
    if languages[0] == languages[1]:
        units = {"pair": "sentence"}  # source and target are the same text
    counts = (
        f"{name} " + ", ".join(how_many(split[unit], noun) for unit, noun in units.items())
        for name, split in overlap.items()
    )
    return f"in train before cleaning: {' · '.join(counts)}"


def _report(
    pairs: int, dropped: Mapping[str, int], unlike: int, request: Request, progress: Progress
) -> None:
    """Report how many pairs stay and why others are dropped; refuse a corpus with none left."""
    if not pairs:
        raise CorpusError(
            f"no training pair is left after cleaning: {_counts(dropped)}",
            hint=f"most were dropped for: {_main_reason(dropped, request)}; check that the "
            "training files hold sentences, in the given languages, and are not the valid or test "
            "files",
            kind="corpus.empty",
        )
    train = request.corpus.splits["train"]
    text = f"kept {pairs:,} · {_counts(dropped)}"
    if request.options.max_ratio > STRICT_RATIO:
        ratio = f"ratio {dropped['ratio']:,}"
        text = text.replace(ratio, f"{ratio} ({STRICT_RATIO} would drop {unlike:,})")
    progress.say("Cleaning", f"{text} · {train.skipped_text}" if train.skipped else text)
    total = pairs + sum(dropped.values())
    if total - pairs > MANY_DROPPED * total:
        progress.warn(
            f"{100 * (total - pairs) / total:.0f} % of the training pairs were dropped, most for: "
            f"{_main_reason(dropped, request)}"
        )


def _main_reason(dropped: Mapping[str, int], request: Request) -> str:
    """Return the most frequent reason, and how to keep the pairs that it drops."""
    reason = max(dropped, key=lambda name: dropped[name])
    return reason + WAYS_OUT[reason].format(request.options)


def _check_held_out(notes: Mapping[str, PairNotes], request: Request, progress: Progress) -> None:
    """Warn of empty lines of valid and test, which stay beside their references."""
    for name, split in notes.items():
        empty = int((split["reason"] == REASON_CODES["empty"]).sum())
        if name != "train" and empty == split.size:
            raise no_text(name, request.corpus.splits[name])
        if name != "train" and empty:
            progress.warn(f"{name} has {how_many(empty, 'pair')} with an empty side (kept)")


def _counts(dropped: Mapping[str, int]) -> str:
    return " · ".join(f"{reason} {count:,}" for reason, count in dropped.items())


def _parts(shards: Sequence[Shard], split: str, mask: NDArray[np.bool_]) -> list[ShardPart]:
    return [ShardPart(shard, mask[shard.start : shard.stop], split) for shard in shards]
