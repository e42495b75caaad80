"""Addresses, times, C++ and emoji sequences: in one piece, and back as they were."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtrans.text.normalise import normalise
from jtrans.text.pipeline import TextPipeline, TextSide
from jtrans.text.protect import PROTECTED, hide
from jtrans.text.segment import SEGMENTERS as CLASSES
from jtrans.text.segment import resolve_segmenter

FAMILY, FLAG, THUMB, HEART = "👨\u200d👩\u200d👧", "🇩🇪", "👍🏽", "❤\ufe0f"
STRINGS = [
    "https://de.wikipedia.org/wiki/X_(Y)", "http://a.de/b?c=1&d=%20#e", "www.foo.de/~me",
    "ftp://ftp.a.org", "me@home-x.co.uk", "Vor.Nach+x@b.de", "C++", "C#", "C++11", "Notepad++",
    "12:30", "8:05:59", "16:9", "#topic", "@name", FAMILY, FLAG, THUMB, HEART, "1\ufe0f\u20e3",
    r"C:\Users\me\x.txt", r"\\server\my-share\a", "D:\\Temp\\", "mailto:me@x.org", "o'neil@b.de",
    "#C++",
    "😀😀", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "می\u200cخواهم",
]  # fmt: skip
WORDS = ["Haus", "the", "geht", "um", "oder", "5", "3.5", "Größe"]
SEGMENTERS = {
    language: CLASSES[resolve_segmenter("auto", language)](language, protect=True)
    for language in ("de", "en", "fr", "vi", "zh", "ja", "th")
}


@pytest.mark.parametrize("string", STRINGS)
@pytest.mark.parametrize("language", ["de", "zh", "ja"])
def test_a_protected_string_is_one_word(language: str, string: str) -> None:
    assert string in SEGMENTERS[language].segment(f"abc {string}, def")


@pytest.mark.parametrize(
    ("line", "strings"),
    [
        ("Siehe https://a.de. Und (http://b.de/c), ja?", ["https://a.de", "http://b.de/c"]),
        ("用C++写，见https://a.cn/b。", ["C++", "https://a.cn/b"]),
        ("https://www.a.kr에서", ["https://www.a.kr"]),
        (
            r"Öffne C:\temp\a.txt. Oder (\\srv\b), a\b, 'x@a.de', \\.",
            [r"C:\temp\a.txt", r"\\srv\b", "x@a.de"],
        ),
        ("2 + 2 = 4; Nr. 3: a:b, x#y &#39; a @ b", []),
    ],
)
def test_a_protected_string_ends_before_punctuation(line: str, strings: list[str]) -> None:
    assert [match.group() for match in PROTECTED.finditer(line)] == strings


PARTS = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(STRINGS),
    st.builds("({})".format, st.sampled_from(STRINGS)),
    st.builds("{}{}".format, st.sampled_from(STRINGS), st.sampled_from([",", ".", "!", ";"])),
)
LINES = st.lists(PARTS, min_size=1, max_size=8).map(" ".join)


@pytest.mark.parametrize("language", ["de", "en", "vi", "ja", "th"])
@given(line=LINES)
def test_protected_strings_come_back_in_ordinary_sentences(language: str, line: str) -> None:
    segmenter = SEGMENTERS[language]
    assert segmenter.join(segmenter.segment(normalise(line))) == line


@pytest.mark.parametrize("line", ["THISISPROTECTED000 um 12:30", "12:30 THISISPROTECTED001"])
def test_what_looks_like_a_stand_in_stays(line: str) -> None:
    segmenter = SEGMENTERS["de"]
    words = segmenter.segment(line)
    assert [word for word in words if word.startswith("THIS")] == [
        word for word in line.split() if word.startswith("THIS")
    ]


@pytest.mark.parametrize("line", [f"{FLAG}5 C++11 {FAMILY}12", " ".join(["12:30"] * 1200)])
def test_digits_may_follow_and_strings_be_many(line: str) -> None:
    segmenter = SEGMENTERS["de"]
    assert segmenter.join(segmenter.segment(line)) == line


@pytest.mark.parametrize(
    "unit", ["a", "1", "a-", "a'", "a.", "a+", "a@", "\\a", "1:", "x\u200d", "😀"]
)
def test_a_line_of_one_long_word_takes_no_time(unit: str) -> None:
    started = time.monotonic()
    for line in (f"{unit * 20_000} #x @", f"C:{unit * 20_000}", f"http://{unit * 20_000}"):
        hide(line)
    assert time.monotonic() - started < 5


@given(LINES)
def test_jieba_keeps_every_protected_string(line: str) -> None:
    words = SEGMENTERS["zh"].segment(line)
    back = SEGMENTERS["zh"].join(words)
    assert all(match.group() in back for match in PROTECTED.finditer(line))


def test_spaces_around_names_of_languages_stay_in_chinese() -> None:
    line = "他会 C++ and Java，12:30 PM 见 #topic one"
    assert "C++ and Java" in SEGMENTERS["zh"].join(SEGMENTERS["zh"].segment(line))


@given(LINES)
def test_words_are_those_of_sacremoses_with_these_patterns(line: str) -> None:
    from sacremoses import MosesTokenizer

    # sacremoses takes patterns of `re`, and replaces a string wherever it occurs
    strings = [match.group() for match in PROTECTED.finditer(line)]
    patterns = [re.escape(string) for string in dict.fromkeys(strings)]
    expected = MosesTokenizer("de").tokenize(line, escape=False, protected_patterns=patterns)
    if not any(a != b and a in b for a in strings for b in strings):
        assert SEGMENTERS["de"].segment(line) == expected


def test_pipelines_saved_before_tear_and_keep_what_they_did(tmp_path: Path) -> None:
    line = "Um 12:30\u200b Uhr bei C++."
    old = TextSide("de")
    assert old.segment(line) == ["Um", "12", ":", "30", "\u200b", "Uhr", "bei", "C", "+", "+", "."]
    new = TextSide("de", strip_invisible=True, protect=True)
    assert new.segment(line) == ["Um", "12:30", "Uhr", "bei", "C++", "."]
    pipelines = TextPipeline(old, old), TextPipeline(new, new)
    assert pipelines[0].to_json()["source"].keys().isdisjoint({"protect", "strip_invisible"})
    for number, pipeline in enumerate(pipelines):
        pipeline.save(tmp_path / f"{number}.json")
        loaded = TextPipeline.load(tmp_path / f"{number}.json")
        assert loaded == pipeline and loaded.source.segment(line) == pipeline.source.segment(line)
