"""The statistics of a split, stored in corpus.json and shown by `jtrans prepare`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jtrans.data.ids import SIDES

# The ends of the bins in which sentences are counted by their number of pieces, without EOS.
LENGTH_BINS = (10, 20, 30, 40, 50, 75, 100)


def _zeros() -> dict[str, int]:
    return dict.fromkeys(SIDES, 0)


@dataclass
class Statistics:
    """Counts of a split or of a part of it; the counts of parts can be added."""

    pairs: int = 0  # sentence pairs
    words: dict[str, int] = field(default_factory=_zeros)  # words before BPE, by side
    tokens: dict[str, int] = field(default_factory=_zeros)  # pieces, with EOS, by side
    # pieces that are not in the vocabulary, by side
    unknown: dict[str, int] = field(default_factory=_zeros)
    # sentences in each bin of `LENGTH_BINS` and above, by side
    lengths: dict[str, list[int]] = field(
        default_factory=lambda: {side: [0] * (len(LENGTH_BINS) + 1) for side in SIDES}
    )
    joint: int = 0  # sum of S x T over the pairs, with EOS: the positions of a joint model
    unlabelled: int = 0  # sentences without labels, where the corpus has labels
    misaligned: int = 0  # of these, sentences whose tagged words have other characters

    @property
    def unknown_share(self) -> float:
        """The share of unknown tokens, both sides together."""
        return sum(self.unknown.values()) / max(1, sum(self.tokens.values()))

    def add_lengths(self, side: str, lengths: NDArray[np.int64]) -> None:
        """Count sentences of one side by their number of tokens, EOS included, [sentences]."""
        self.tokens[side] += int(lengths.sum())
        bins = np.searchsorted(LENGTH_BINS, lengths - 1)
        self._add_bins(side, np.bincount(bins, minlength=len(LENGTH_BINS) + 1).tolist())

    def __iadd__(self, other: Statistics) -> Statistics:
        """Add the counts of another part."""
        self.pairs += other.pairs
        self.joint += other.joint
        self.unlabelled += other.unlabelled
        self.misaligned += other.misaligned
        for side in SIDES:
            self.words[side] += other.words[side]
            self.tokens[side] += other.tokens[side]
            self.unknown[side] += other.unknown[side]
            self._add_bins(side, other.lengths[side])
        return self

    def _add_bins(self, side: str, counts: Sequence[int]) -> None:
        self.lengths[side] = [a + b for a, b in zip(self.lengths[side], counts, strict=True)]

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a split in corpus.json."""
        return {
            "pairs": self.pairs,
            "tokens": self.tokens,
            "unknown": self.unknown,
            "words": self.words,
            "lengths": {
                side: dict(zip(bin_names(), counts, strict=True))
                for side, counts in self.lengths.items()
            },
            "joint": self.joint,
        }


def joint_size(train: Statistics) -> dict[str, Any]:
    """Return the sum of S x T, the positions of a joint model, and mean S and T, EOS included."""
    return {
        "sum": train.joint,
        "mean_source": round(train.tokens["source"] / train.pairs, 3),
        "mean_target": round(train.tokens["target"] / train.pairs, 3),
    }


def bin_names() -> list[str]:
    """Name the bins of lengths: "1-10", "11-20" ... "101+"."""
    starts = [1, *(end + 1 for end in LENGTH_BINS)]
    names = [f"{start}-{end}" for start, end in zip(starts, LENGTH_BINS, strict=False)]
    return [*names, f"{starts[-1]}+"]


def describe(
    splits: dict[str, Statistics], types: tuple[int, int] | None, languages: tuple[str, str]
) -> dict[str, str]:
    """Return the statistics to show, by label: of train or, if there is none, of all splits.

    `types` are the numbers of different words of train, where known.
    """
    text = Statistics()
    for name, split in splits.items():
        if name == "train" or "train" not in splits:
            text += split
    names = dict(zip(SIDES, languages, strict=True))
    unknown = " · ".join(
        f"unknown in {name} {100 * split.unknown_share:.2f} %"
        for name, split in splits.items()
        if name != "train" or any(split.unknown.values())
    )
    size = joint_size(text)
    different = [f" ({count:,} different)" for count in types] if types else ["", ""]
    tokens = f"source {text.tokens['source']:,} tokens · target {text.tokens['target']:,}"
    if languages[0] == languages[1]:
        tokens = f"{text.tokens['source']:,} tokens"
    return {
        "Words": by_side(
            f"{names[side]} {text.words[side]:,}{note}"
            for side, note in zip(SIDES, different, strict=True)
        ),
        "Encoding": f"{tokens} · {unknown}" if unknown else tokens,
        "Lengths": by_side(f"{names[side]} {_shares(text.lengths[side])}" for side in SIDES),
        "Joint size": f"mean S {size['mean_source']:.1f} · T {size['mean_target']:.1f} · "
        f"sum of S x T {_short(size['sum'])} "
        f"({size['sum'] / text.tokens['target']:.1f} per target token)",
    }


def by_side(texts: Iterable[str]) -> str:
    """Join the descriptions of both sides; equal ones, of the same text, appear once."""
    return " · ".join(dict.fromkeys(texts))


def _shares(counts: Sequence[int]) -> str:
    total = sum(counts) or 1
    return ", ".join(
        f"{name} {100 * count / total:.0f} %"
        for name, count in zip(bin_names(), counts, strict=True)
        if count / total >= 0.005
    )


def _short(number: int) -> str:
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.1f} {letter}"
    return str(number)
