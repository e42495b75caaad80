"""Every figure of corpus.json for a real corpus, counted a second time in the plainest way."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from plugins.listener import Listener
from subword_nmt.apply_bpe import BPE

from jtrans.corpora.lines import read_line_file
from jtrans.corpora.parallel import Corpus, ParallelText
from jtrans.data.prepared import PreparedCorpus
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare
from jtrans.text.pipeline import TextSide

pytestmark = pytest.mark.realdata

LANGUAGES = ("de", "en")
BINS = {"1-10": (0, 10), "11-20": (11, 20), "21-30": (21, 30), "31-40": (31, 40),
        "41-50": (41, 50), "51-75": (51, 75), "76-100": (76, 100),
        "101+": (101, 10**9)}  # fmt: skip

Pair = tuple[list[str], list[str]]


@pytest.fixture(scope="module")
def texts(corpora_folder: Path) -> dict[str, list[list[str]]]:
    folder = corpora_folder / "multi30k"
    splits = ("train", "valid", "test")
    texts = {s: [read_line_file(folder / f"{s}.{one}.gz") for one in LANGUAGES] for s in splits}
    # something for every rule to find
    for side in (0, 1):
        texts["train"][side] += ["", *texts["train"][side][:7], *texts["valid"][side][:3]]
        texts["train"][side] += ["Same text here.", ["Ja.", "Yes, certainly, why not."][side]]
        texts["train"][side] += [["Москва большая", "Moscow big"][side], "wort " * 200]
    return texts


@pytest.fixture(scope="module")
def made(
    texts: dict[str, list[list[str]]], tmp_path_factory: pytest.TempPathFactory
) -> tuple[PreparedCorpus, Listener]:
    screen = Listener()
    splits = {name: ParallelText(text[0], text[1]) for name, text in texts.items()}
    prepared = prepare(
        Corpus("m30k", LANGUAGES, splits),
        tmp_path_factory.mktemp("m30k") / "out",
        options=PrepareOptions(bpe_merges=4000, lowercase=True, min_count=2, spell=False),
        workers=2,
        progress=screen,
    )
    return prepared, screen


@pytest.fixture(scope="module")
def words(texts: dict[str, list[list[str]]]) -> dict[str, list[Pair]]:
    """Segment line by line, by the public way."""
    sides = [TextSide(language, "moses", lowercase=True, protect=True) for language in LANGUAGES]
    return {
        name: [
            (sides[0].segment(one), sides[1].segment(other))
            for one, other in zip(*lines, strict=True)
        ]
        for name, lines in texts.items()
    }


@pytest.fixture(scope="module")
def cleaned(words: dict[str, list[Pair]]) -> tuple[list[Pair], Counter[str]]:
    """Clean with sets and sentences, in the documented order."""
    held_out = {_letters(*pair) for name in ("valid", "test") for pair in words[name]}
    seen: set[str] = set()
    kept, dropped = [], Counter[str]()
    for source, target in words["train"]:
        reason = _reason(source, target, seen, held_out)
        seen.add(str((source, target))) if reason in ("", "in valid/test") else None
        if reason:
            dropped[reason] += 1
        else:
            kept.append((source, target))
    return kept, dropped


def _reason(source: list[str], target: list[str], seen: set[str], held_out: set[str]) -> str:
    if not source or not target:
        return "empty"
    lengths = sorted([len(source), len(target)])
    if lengths[1] > 175:
        return "too long"
    if lengths[1] / lengths[0] > 3:
        return "ratio"
    if source == target:
        return "identical"
    if any("а" <= letter <= "я" for word in source for letter in word):
        return "wrong script"
    if str((source, target)) in seen:
        return "duplicate"
    return "in valid/test" if _letters(source, target) in held_out else ""


def _letters(*sides: list[str]) -> str:
    """Leave out what a leaked pair may differ in."""
    return str([[letter for letter in "".join(side) if letter.isalnum()] for side in sides])


def test_cleaning_counts(
    made: tuple[PreparedCorpus, Listener],
    words: dict[str, list[Pair]],
    cleaned: tuple[list[Pair], Counter[str]],
) -> None:
    prepared, screen = made
    kept, dropped = cleaned
    assert prepared.info["cleaning"]["kept"] == len(kept)
    assert {k: v for k, v in prepared.info["cleaning"]["dropped"].items() if v} == dropped
    assert set(dropped) == set(prepared.info["cleaning"]["dropped"])
    order = ["empty", "too long", "ratio", "identical", "wrong script", "duplicate"]
    shown = " · ".join(f"{reason} {dropped[reason]:,}" for reason in [*order, "in valid/test"])
    ratios = [max(n) / min(n) for n in (list(map(len, pair)) for pair in words["train"]) if min(n)]
    strict = sum(ratio > 1.5 for ratio in ratios)
    assert prepared.info["cleaning"]["strict_ratio"] == strict
    ratio = f"ratio {dropped['ratio']:,}"
    shown = shown.replace(ratio, f"{ratio} (1.5 would drop {strict:,})")
    assert screen.lines["Cleaning"] == f"kept {len(kept):,} · {shown}"


def _ids(prepared: PreparedCorpus, side: int, lines: Sequence[list[str]]) -> list[list[str | None]]:
    """Cut words into pieces with subword-nmt; None for those outside the vocabulary."""
    text_side = (prepared.pipeline.source, prepared.pipeline.target)[side]
    bpe = BPE(io.StringIO(text_side.codes))
    known = set(text_side.vocabulary.tokens)
    pieces = (bpe.segment_tokens(line) for line in lines)
    return [[piece if piece in known else None for piece in line] for line in pieces]


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_statistics_of_a_split(
    made: tuple[PreparedCorpus, Listener],
    words: dict[str, list[Pair]],
    cleaned: tuple[list[Pair], Counter[str]],
    split: str,
) -> None:
    prepared, _ = made
    pairs = cleaned[0] if split == "train" else words[split]
    info = prepared.info["splits"][split]
    joint = [1] * len(pairs)
    assert info["pairs"] == len(pairs)
    for side, name in enumerate(("source", "target")):
        lines = [pair[side] for pair in pairs]
        cut = _ids(prepared, side, lines)
        assert info["words"][name] == sum(map(len, lines))
        assert info["tokens"][name] == sum(len(line) + 1 for line in cut)
        assert info["unknown"][name] == sum(piece is None for line in cut for piece in line)
        assert info["lengths"][name] == {
            label: sum(low <= len(line) <= high for line in cut)
            for label, (low, high) in BINS.items()
        }
        joint = [n * (len(line) + 1) for n, line in zip(joint, cut, strict=True)]
    assert info["joint"] == sum(joint)


def test_types_vocabulary_and_means(
    made: tuple[PreparedCorpus, Listener], cleaned: tuple[list[Pair], Counter[str]]
) -> None:
    prepared, _ = made
    info, pairs = prepared.info, cleaned[0]
    for side, name in enumerate(("source", "target")):
        lines = [pair[side] for pair in pairs]
        assert info["types"][name] == len({word for line in lines for word in line})
        cut = _ids(prepared, side, lines)
        bpe = BPE(io.StringIO((prepared.pipeline.source, prepared.pipeline.target)[side].codes))
        counts = Counter(piece for line in lines for piece in bpe.segment_tokens(line))
        frequent = sum(count >= 2 for count in counts.values())
        assert info["vocabulary"][name] == -(-(frequent + 4) // 8) * 8
        mean = sum(len(line) + 1 for line in cut) / len(cut)
        assert info["joint_size"][f"mean_{name}"] == pytest.approx(mean, abs=6e-4)
    assert info["joint_size"]["sum"] == info["splits"]["train"]["joint"]


def test_the_screen_shows_what_corpus_json_holds(made: tuple[PreparedCorpus, Listener]) -> None:
    prepared, screen = made
    splits: dict[str, Any] = prepared.info["splits"]
    train, types = splits["train"], prepared.info["types"]
    assert screen.lines["Words"] == " · ".join(
        f"{language} {train['words'][side]:,} ({types[side]:,} different)"
        for language, side in zip(LANGUAGES, ("source", "target"), strict=True)
    )
    shares = [
        f"unknown in {name} "
        f"{100 * sum(one['unknown'].values()) / sum(one['tokens'].values()):.2f} %"
        for name, one in splits.items()
    ]
    assert screen.lines["Encoding"] == " · ".join(
        [
            f"source {train['tokens']['source']:,} tokens",
            f"target {train['tokens']['target']:,}",
            *shares,
        ]
    )
    per_token = train["joint"] / train["tokens"]["target"]
    assert f"sum of S x T {train['joint'] / 1e6:.1f} M" in screen.lines["Joint size"]
    assert f"({per_token:.1f} per target token)" in screen.lines["Joint size"]
    share = 100 * train["lengths"]["source"]["11-20"] / train["pairs"]
    assert f"11-20 {share:.0f} %" in screen.lines["Lengths"].split(" · ")[0]
