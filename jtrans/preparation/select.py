"""Which pairs go where: train is cleaned, and valid taken from it where there is none.

All is decided from what segmentation noted of each pair (a reason to drop it, a digest): that takes
a moment, and a preparation that goes on decides the same again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jtrans.errors import CorpusError
from jtrans.files import lines_digest
from jtrans.preparation.clean import REASON_CODES, decide, hold_out
from jtrans.preparation.learn import Part
from jtrans.preparation.request import no_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtrans.preparation.request import Request
    from jtrans.preparation.segment import Shard
    from jtrans.progress import Progress

# A larger share of dropped training pairs deserves a warning.
MANY_DROPPED = 0.2
# What can be done about a reason to drop, with the options as they are.
WAYS_OUT = {
    "empty": "",
    "too long": " (--max-length is {0.max_length})",
    "ratio": " (--max-ratio is {0.max_ratio:g})",
    "identical": " (--keep-identical keeps them)",
    "wrong script": " (--keep-wrong-script keeps them)",
    "duplicate": " (--no-deduplicate keeps them)",
    "in valid/test": " (--keep-leaked keeps them)",
}

Facts = dict[str, "np.ndarray[Any, np.dtype[np.void]]"]


@dataclass(frozen=True)
class Choice:
    """What goes where.

    Attributes:
        splits: the pairs of each split, train first.
        cleaning: the counts, as corpus.json keeps them.
        valid: what corpus.json keeps of a valid split taken from train, besides its statistics;
            None where valid was there.
    """

    splits: dict[str, list[Part]]
    cleaning: dict[str, Any]
    valid: dict[str, Any] | None


def choose_pairs(
    shards: Mapping[str, Sequence[Shard]], request: Request, progress: Progress
) -> Choice:
    """Decide which training pairs stay, and say what was dropped and why.

    Where there is no valid split, every so manieth of the pairs that stay goes there. Training
    pairs that stand in it are then dropped as leaked, as with a valid split of one's own.

    Raises:
        CorpusError: nothing is left of train, or of another split.
    """
    facts = {name: np.concatenate([s.facts() for s in part]) for name, part in shards.items()}
    train, rules = facts["train"], request.options.rules
    keys = [one["key"] for name, one in facts.items() if name != "train"]
    taken = np.zeros(train.size, np.bool_)
    if request.valid_every:
        taken = _take_valid(train, request)
        keys.append(train["key"][taken])
    kept = np.zeros(train.size, np.bool_)
    kept[~taken], dropped = decide(
        train["reason"][~taken], train["key"][~taken], rules=rules, held_out=np.concatenate(keys)
    )
    _say(int(kept.sum()), dropped, request, progress)
    _check_others(facts, request, progress)
    splits = {"train": _parts(shards["train"], "train", kept)}
    cleaning: dict[str, Any] = {"kept": int(kept.sum()), "dropped": dropped}
    valid = None
    if request.valid_every:
        splits["valid"] = _parts(shards["train"], "valid", taken)
        cleaning["held_out"] = int(taken.sum())
        valid = _describe_valid(splits["valid"], request)
        progress.say(
            "Valid", f"{valid['lines']:,} pairs: 1 of {request.valid_every} that cleaning kept"
        )
    for name, part in shards.items():
        splits.setdefault(name, _parts(part, name, np.ones(facts[name].size, np.bool_)))
    return Choice(splits, cleaning, valid)


def _take_valid(train: np.ndarray[Any, np.dtype[np.void]], request: Request) -> NDArray[np.bool_]:
    """Say which training pairs go to valid; that they stand in test is no reason against it."""
    nothing = train["key"][:0]
    clean, dropped = decide(
        train["reason"], train["key"], rules=request.options.rules, held_out=nothing
    )
    taken = np.zeros(train.size, np.bool_)
    taken[hold_out(np.flatnonzero(clean).tolist(), request.valid_every)[1]] = True
    if not taken.any():
        raise CorpusError(
            f"{request.corpus.name} has no valid split, and {clean.sum():,} training pairs after "
            f"cleaning ({_counts(dropped)}) are too few to take 1 of {request.valid_every} for it",
            hint="give more training text, or a valid split of your own",
            kind="corpus.empty",
        )
    return taken


def _describe_valid(parts: Sequence[Part], request: Request) -> dict[str, Any]:
    train = request.corpus.splits["train"]
    lines = [[line for part in parts for line in part.choose(side)]
             for side in (train.source, train.target)]  # fmt: skip
    return {
        "origin": [f"1 of {request.valid_every} clean pairs of train"],
        "lines": len(lines[0]),
        "sha256": {"source": lines_digest(lines[0]), "target": lines_digest(lines[1])},
    }


def _say(stays: int, dropped: Mapping[str, int], request: Request, progress: Progress) -> None:
    """Say what was dropped and why; refuse a corpus with nothing left."""
    if not stays:
        raise CorpusError(
            f"no training pair is left after cleaning: {_counts(dropped)}",
            hint="check that the training files hold sentences, in the languages named, and "
            "are not the valid or test files",
            kind="corpus.empty",
        )
    progress.say("Cleaning", f"kept {stays:,} · {_counts(dropped)}")
    gone = sum(dropped.values())
    if gone > MANY_DROPPED * (stays + gone):
        reason = max(dropped, key=lambda name: dropped[name])
        progress.warn(
            f"{100 * gone / (stays + gone):.0f} % of the training pairs were dropped, most for: "
            f"{reason}{WAYS_OUT[reason].format(request.options)}"
        )


def _check_others(facts: Facts, request: Request, progress: Progress) -> None:
    """Warn of empty lines of valid and test, which stay beside their references."""
    for name, one in facts.items():
        if name == "train":
            continue
        empty = int((one["reason"] == REASON_CODES["empty"]).sum())
        if empty == one.size:
            raise no_text(name, request.corpus.splits[name])
        if empty:
            progress.warn(f"{name} has {empty:,} pairs with an empty side (kept)")


def _counts(dropped: Mapping[str, int]) -> str:
    return " · ".join(f"{reason} {count:,}" for reason, count in dropped.items())


def _parts(shards: Sequence[Shard], split: str, mask: NDArray[np.bool_]) -> list[Part]:
    return [Part(shard, mask[shard.start : shard.stop], split) for shard in shards]
