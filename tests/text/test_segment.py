"""Words from lines and lines from words, for every segmenter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from jtrans.errors import ConfigError
from jtrans.text.normalise import normalise
from jtrans.text.segment import (
    SEGMENTERS,
    Character,
    Jieba,
    Moses,
    MosesEscaped,
    resolve_segmenter,
)

SEGMENTER_BY_NAME = {name: segmenter("zh") for name, segmenter in SEGMENTERS.items()}
MOSES = {language: Moses(language) for language in ("de", "en", "fr", "sv", "vi")}
EUROPEAN = st.text("abST19äéß .,;:!?()-\"'’“”„‘%$&/_@–…°", max_size=40)
UNSPACED = st.text("▁ aé1.'-\u06ddーカが゙漢、นิาขក្មែကျွབོད་།한", max_size=40)
MIXED = st.text("ab1 ü我很好你叫，。,.-%１é\u0301", max_size=40)


@pytest.mark.parametrize(
    ("language", "line", "words"),
    [
        ("en", "It's 5,300 o'clock.", "It 's 5,300 o 'clock ."),
        ("de", "Das ist z. B. gut (sehr)...", "Das ist z. B. gut ( sehr ) ..."),
        ("fr", "L'eau, n'est-ce pas?", "L' eau , n' est-ce pas ?"),
        ("vi", "Tên bạn là gì?", "Tên bạn là gì ?"),
        ("en", "a < b & c", "a < b & c"),
    ],
)
def test_moses_cuts_as_the_published_tokeniser_without_escapes(
    language: str, line: str, words: str
) -> None:
    assert MOSES[language].segment(line) == words.split()


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("de", "Zwei Männer (mit „Helm“) stehen um 11:27 Uhr da; oder?"),
        ("en", "The dog's owner said \"come here\", didn't she?"),
        ("en", "It’s 9:30, they’re late & don’t care."),
        ("fr", "L'homme d’en face n’a qu’une idée."),
        ("de", "[a] <b> {c} 5% $3 a@b.de &amp;"),
        ("vi", "Hai người đàn ông, một chiếc xe."),
    ],
)
def test_moses_restores_ordinary_sentences(language: str, line: str) -> None:
    segmenter = MOSES[language]
    expected = line.replace("&amp;", "& amp;").replace("<b>", "< b >")
    assert segmenter.join(segmenter.segment(line)) == expected


@pytest.mark.parametrize("language", sorted(MOSES))
@given(line=EUROPEAN)
def test_moses_round_trip_is_stable_after_one_round(language: str, line: str) -> None:
    # the published tokeniser cuts "a,,1" in another way than "a, ,1"
    assume(",," not in line.replace(" ", ""))
    segmenter = MOSES[language]
    once = segmenter.join(segmenter.segment(normalise(line)))
    assert segmenter.join(segmenter.segment(once)) == once


@pytest.mark.parametrize("language", ["de", "zh", "ja"])
def test_a_tag_of_letters_and_digits_is_one_word(language: str) -> None:
    segmenter = SEGMENTERS[resolve_segmenter("auto", language)](language, protect=True)
    for tag in ("SYNTHETIC", "TODE", "2en"):
        assert segmenter.segment(f"{tag} Ein Mann")[0] == tag


@pytest.mark.parametrize(("tag", "count"), [("<BT>", 3), ("<2en>", 3), ("__fr__", 5)])
def test_moses_splits_tags_with_signs_as_the_published_tokeniser_does(tag: str, count: int) -> None:
    assert len(Moses("de", protect=True).segment(f"{tag} Ein Mann")) == count + 2


def test_escaped_moses_escapes_words_and_restores_lines() -> None:
    segmenter = MosesEscaped("en")
    line = 'It\'s [here] | "there" & <b'
    words = segmenter.segment(line)
    assert words[:2] == ["It", "&apos;s"]
    assert not set("|<>[]'\"") & set("".join(words))
    assert segmenter.join(words) == 'It\'s [here] | "there" & < b'


def test_only_escaped_moses_parts_a_stop_from_an_abbreviation_that_ends_a_line() -> None:
    line = "He lives in the U.S."
    parted = {name: SEGMENTERS[name]("en").segment(line)[4:] for name in ("moses", "moses-escaped")}
    assert parted == {"moses": ["U.S."], "moses-escaped": ["U.S", "."]}
    assert all(SEGMENTERS[name]("en").join(["in", *parted[name]]) == "in U.S." for name in parted)


def test_jieba_keeps_words_of_other_scripts_whole() -> None:
    words = Jieba("zh").segment("Müller喜欢 iPhone 12 Pro，3.5%。")
    assert words == ["Müller", "喜欢", "iPhone", "12", "Pro", "，", "3.5%", "。"]


@pytest.mark.parametrize(
    "line",
    ["我很好。", "你叫什么名字？", "Müller喜欢iPhone 12 Pro，café很好", "他说hello world了。"],
)
def test_jieba_joins_chinese_closely_and_english_with_spaces(line: str) -> None:
    segmenter = Jieba("zh")
    assert segmenter.join(segmenter.segment(line)) == line


@given(line=MIXED)
def test_jieba_loses_nothing_but_spaces(line: str) -> None:
    clean = normalise(line)
    segmenter = SEGMENTER_BY_NAME["jieba"]
    once = segmenter.join(segmenter.segment(clean))
    assert once.replace(" ", "") == clean.replace(" ", "")
    assert segmenter.join(segmenter.segment(once)) == once


def test_jieba_gets_long_runs_of_characters_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    segmenter, asked = Jieba("zh"), list[str]()
    cut = segmenter._cut

    def recording(text: str) -> Any:
        asked.append(text)
        return cut(text)

    monkeypatch.setattr(segmenter, "_cut", recording)
    line = "我很好，" + "中" * 5_000 + "我很好。"
    assert "".join(segmenter.segment(line)) == line
    assert max(map(len, asked)) < 3_000  # its time grows with the square of their lengths


def test_jieba_is_silent_and_leaves_no_file(tmp_path: Path) -> None:
    code = "from jtrans.text.segment import Jieba;print(len(Jieba('zh').segment('我很好。')))"
    environment = {"TMPDIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    result = subprocess.run(
        [sys.executable, "-B", "-c", code], capture_output=True, text=True, env=environment
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "4\n", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["whitespace", "character", "unspaced"])
@given(line=st.one_of(st.text(), MIXED, UNSPACED))
def test_whitespace_and_character_restore_normalised_lines_exactly(name: str, line: str) -> None:
    clean = normalise(line)
    segmenter = SEGMENTER_BY_NAME[name]
    assert segmenter.join(segmenter.segment(clean)) == clean


@pytest.mark.parametrize("name", sorted(SEGMENTERS))
@given(line=st.one_of(EUROPEAN, MIXED, st.text()))
def test_words_are_never_empty_and_hold_no_white_space(name: str, line: str) -> None:
    for word in SEGMENTER_BY_NAME[name].segment(normalise(line)):
        assert word.split() == [word]


@pytest.mark.parametrize(
    ("language", "line", "words"),
    [
        ("ja", "東京タワーは1958年 GPU 3.5", "東|京|タ|ワ|ー|は|1958|年|▁|GPU|3.5"),
        ("th", "รักษา 12 Visual Studio", "รั|ก|ษ|า|▁|12|Visual|Studio"),
        ("km", "ភាសាខ្មែរ", "ភា|សា|ខ្មែ|រ"),
        ("bo", "བོད་སྐད་ཡི། x", "བོད་|སྐད་|ཡི|།|▁|x"),
        ("th", "\u06dd 12", "\u06dd|▁|12"),  # a mark that joins what comes after it
        ("lo", "ພາສາ ▁", "ພ|າ|ສ|າ|▁|▁▁"),
    ],
)
def test_scripts_without_spaces_are_cut_into_characters(
    language: str, line: str, words: str
) -> None:
    segmenter = SEGMENTERS[resolve_segmenter("auto", language)](language)
    assert segmenter.segment(line) == words.split("|")
    assert segmenter.join(words.split("|")) == line


def test_characters_show_spaces() -> None:
    assert Character("de").segment("a ▁b") == ["a", "▁", "▁▁", "b"]


@pytest.mark.parametrize(
    ("language", "name"), [("zh", "jieba"), ("zh-CN", "jieba"), ("de", "moses"), ("xx", "moses")]
)
def test_auto_follows_the_language(language: str, name: str) -> None:
    assert resolve_segmenter("auto", language) == name


def test_an_unknown_segmenter_gets_the_nearest_name() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_segmenter("mose", "de")
    assert caught.value.hint == "did you mean moses?"
