"""Warnings about text that is not raw, or that segmenting and joining changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from jtrans.corpora.parallel import ParallelText
from jtrans.text.leftovers import find_leftover
from jtrans.text.pipeline import TextSide

SAMPLE = 300
# Raw news comes back from Moses in 93 to 98 % of lines, tokenised text in about 5 %.
MANY = 0.25


def leftover_warning(
    lines: Iterable[str], side: TextSide, *, is_target: bool, split: str
) -> str | None:
    """Return a warning about text with subword pieces or escapes, None for raw text.

    Text that is only split at white space may have escaped characters: published corpora have them.

    Args:
        lines: the lines of one side of a split, of which the first `SAMPLE` are examined.
        side: that side of the pipeline.
        is_target: whether it is the target side.
        split: the name of the split.
    """
    lines = list(islice(lines, SAMPLE))
    leftover = find_leftover(lines)
    if leftover is None or not leftover.is_certain:
        return None
    if side.segmenter == "whitespace" and "pieces" not in leftover.kind:
        return None
    later = "translations would have" if is_target else "all text to translate would need"
    effect = f"{later} them, too" if split == "train" else "scores would suffer"
    return (
        f"{split}.{side.language} has {leftover.kind} in {leftover.lines:,} of its first "
        f"{len(lines):,} lines, such as {leftover.example}; {effect}: undo them "
        "first, as prepare segments text and learns BPE itself"
    )


def round_trip_warning(
    splits: Mapping[str, ParallelText], target: TextSide, *, is_given: bool
) -> str | None:
    """Return a warning if many target lines have other spaces after segmenting and joining.

    Case is ignored: changing it is an option that the user chose.

    Args:
        splits: the text.
        target: the target side of the pipeline, which segments and joins.
        is_given: whether the pipeline was taken from another corpus.
    """
    shares: dict[str, str] = {}
    lost: list[tuple[str, str]] = []
    for name, text in splits.items():
        lines = [target.normalise(line) for line in islice(text.target, SAMPLE)]
        pairs = [(line, target.join(target.segment(line))) for line in lines]
        changed = [pair for pair in pairs if pair[0].lower() != pair[1].lower()]
        if len(changed) > MANY * len(lines):
            shares[name] = f"{100 * len(changed) / len(lines):.0f} % in {name}"
            lost += changed
    if not lost:
        return None
    before, after = min(lost, key=lambda pair: len(pair[0]))
    # Moses joins what was tokenised, and separates marks that were not
    joined = sum(after.count(" ") < before.count(" ") for before, after in lost)
    is_tokenised = target.segmenter.startswith("moses") and 2 * joined > len(lost)
    if is_given or "train" not in shares:  # the segmenter is fixed, or right for train
        advice = "; if the text is tokenised, detokenise it first: sacremoses detokenize"
        advice = advice if is_tokenised else ""
    elif is_tokenised:
        advice = "; if the text is tokenised, --target-segment whitespace leaves it as it is"
    else:
        advice = "; --target-segment unspaced keeps all spaces"
    return (
        f"{target.language} lines change when they are split into words and joined again, as "
        f"translations are: {before!r} becomes {after!r} ({', '.join(shares.values())}){advice}"
    )
