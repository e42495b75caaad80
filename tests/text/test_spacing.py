"""Spaces in Chinese text: counted in the training text, written by the segmenter's join."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtrans.text.normalise import normalise
from jtrans.text.pipeline import TextPipeline, TextSide
from jtrans.text.segment import Jieba
from jtrans.text.spacing import LEAST, border, learn_spaces

MIXED = st.text("ab1 ü我很好你叫，。,.-%`(é\u0301", max_size=40)
BORDERS = ["a字", "字a", "字`", "`字", ",a", "。a", "字("]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [("写", "Python", "字a"), ("ü1", "。", "a。"), ("C++", "和", "+字"), ("カ", "Ａ", "字字")],
)
def test_a_border_is_between_two_kinds_of_characters(left: str, right: str, expected: str) -> None:
    assert border(left, right) == expected


def learnt(*lines: str) -> tuple[str, ...]:
    segmenter = Jieba("zh")
    return learn_spaces((line, segmenter.segment(line)) for line in lines)


def test_spaces_are_where_most_of_the_text_has_them() -> None:
    spaced, close = ["我用 Python 写。"] * LEAST, ["我用Python写。"] * LEAST
    assert learnt(*spaced) == ("a字", "字a")
    assert learnt(*spaced, *close) == ()
    assert learnt(*spaced[1:]) == ()  # too few to make a rule
    assert learnt(*spaced, *close, "我用 Python") == ("字a",)


def test_lines_that_are_not_their_words_teach_nothing() -> None:
    assert learn_spaces([("我 a 我", ["我", "a"])] * LEAST) == ()
    assert learn_spaces([("", [""])]) == ()


def test_jieba_writes_the_spaces_that_were_learnt(tmp_path: Path) -> None:
    line, close = "我用 Python 写，a 好", "我用Python写，a好"
    plain, side = TextSide("zh"), TextSide("zh", spaces=("a字", "字a"))
    assert "spaces" not in plain.to_json()  # old pipelines keep their fingerprint
    for each, joined in ((plain, close), (side, line)):
        TextPipeline(each, each).save(tmp_path / "pipeline.json")
        target = TextPipeline.load(tmp_path / "pipeline.json").target
        assert target == each and target.segment(line) == plain.segment(line)
        assert target.join(target.segment(line)) == joined


@given(line=MIXED, spaces=st.sets(st.sampled_from(BORDERS)))
def test_spaces_change_no_word(line: str, spaces: set[str]) -> None:
    segmenter = Jieba("zh", None, sorted(spaces), protect=True)
    words = segmenter.segment(normalise(line))
    once = segmenter.join(words)
    assert once.replace(" ", "") == normalise(line).replace(" ", "")
    assert segmenter.join(segmenter.segment(once)) == once
