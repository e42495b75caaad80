"""Full-width letters, digits and signs become ASCII; the punctuation of Chinese stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtrans.text.pipeline import TextPipeline, TextSide
from jtrans.text.widths import is_mostly_wide, narrowed

WIDE = "".join(map(chr, range(0xFF01, 0xFF5F)))


@pytest.mark.parametrize(
    ("language", "line", "expected"),
    [
        ("zh", "用ｊｔｒａｎｓ，可以吗？５０％（约）", "用jtrans，可以吗？50%（约）"),
        ("zh-Hant", "ｗｗｗ．ａ．ｃｏｍ！", "www.a.com！"),
        ("yue", "３：１；［Ａ～Ｚ］", "3：1；［A～Z］"),
        ("ja", "ＡＢ，Ｃ．", "AB，C．"),
        ("en", "Ｒｅａｌｌｙ？Ｙｅｓ，（５％）．", "Really?Yes,(5%)."),
        ("zh", "。、《》“”…ａ", "。、《》“”…a"),
    ],
)
def test_what_is_the_same_becomes_narrow(language: str, line: str, expected: str) -> None:
    assert narrowed(line, language) == expected


@given(st.text(st.sampled_from(WIDE + "a1,。中 \u3000")), st.sampled_from(["zh", "ja", "en"]))
def test_narrow_lines_have_no_wide_letter_or_digit_and_stay(line: str, language: str) -> None:
    narrow = narrowed(line, language)
    assert len(narrow) == len(line) and narrowed(narrow, language) == narrow
    assert not any(character in WIDE and character.isalnum() for character in narrow)
    assert language != "en" or not set(narrow) & set(WIDE)


def test_an_accent_joins_the_letter_that_became_narrow() -> None:
    assert TextSide("zh", narrow=True).normalise("ｅ\u0301１\u3000２") == "é1 2"


def test_a_side_narrows_only_if_it_was_prepared_so(tmp_path: Path) -> None:
    sides = TextSide("zh"), TextSide("zh", narrow=True)
    line, expected = "有１２３个", (["有", "１", "２", "３", "个"], ["有", "123", "个"])
    for side, words in zip(sides, expected, strict=True):
        assert ("narrow" in side.to_json()) is side.narrow  # old pipelines keep their fingerprint
        TextPipeline(side, side).save(tmp_path / "pipeline.json")
        loaded = TextPipeline.load(tmp_path / "pipeline.json").source
        assert loaded == side and loaded.segment(line) == words


def test_text_is_mostly_wide_by_its_letters_and_digits() -> None:
    assert is_mostly_wide(["１２３，", "a"])
    assert not is_mostly_wide(["１２，（）！", "ab"])
    assert not is_mostly_wide(["，，，"])
