"""The pipeline: raw text to ids and back, saved and loaded."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from jtrans.errors import ConfigError, CorpusError
from jtrans.text.bpe import count_words, learn
from jtrans.text.pipeline import TextPipeline, TextSide
from jtrans.text.truecase import Truecaser
from jtrans.text.vocabulary import EOS, PAD, UNK, Vocabulary

LINES = [
    "Das alte Haus (am Meer) ist schön.",
    "Die alten Häuser am See waren neu, oder?",
    'Er sagte: "Das Haus steht seit 11:27 Uhr am Meer."',
]
ALPHABET = "abdehistuHDSäöüß0179.,;:!?()-\"'’“„%$&/@ "


def finished(side: TextSide, lines: list[str], merges: int | None = 60) -> TextSide:
    """Give a side its codes and a vocabulary that knows every piece of the lines."""
    if merges:
        side = replace(side, codes=learn([count_words(map(side.segment, lines))], merges))
    pieces = Counter(piece for line in lines for piece in side.pieces(line))
    pieces.update(ALPHABET.replace(" ", "") + ALPHABET.lower().replace(" ", ""))
    pieces.update(f"{character}@@" for character in ALPHABET + ALPHABET.lower())
    pieces.update(
        line.rstrip("\n").replace(" ", "").replace("</w>", "")
        for line in (side.codes or "").splitlines()[1:]
    )
    pieces.update(f"{line.replace(' ', '')}@@" for line in (side.codes or "").splitlines()[1:])
    return replace(side, vocabulary=Vocabulary.build(pieces))


GERMAN = finished(TextSide("de"), LINES)
PIPELINE = TextPipeline(GERMAN, finished(TextSide("en", lowercase=True), LINES, merges=None))


@pytest.mark.parametrize("line", LINES)
def test_ordinary_lines_come_back_exactly(line: str) -> None:
    ids = GERMAN.encode(line)
    assert ids[-1] == EOS and UNK not in ids
    assert GERMAN.decode(ids) == line


@given(st.text(ALPHABET, max_size=40))
def test_a_second_round_trip_changes_nothing(line: str) -> None:
    assume(",," not in line.replace(" ", ""))
    ids = GERMAN.encode(line)
    assert UNK not in ids
    once = GERMAN.decode(ids)
    assert GERMAN.decode(GERMAN.encode(once)) == once


@given(st.text(ALPHABET, max_size=40))
def test_words_come_back_exactly_through_pieces_and_ids(line: str) -> None:
    words = GERMAN.segment(line)
    assert GERMAN.merge(GERMAN.split(words)) == words
    assert GERMAN.words(GERMAN.encode(line)) == words


def test_case_is_folded_after_segmentation() -> None:
    side = TextSide("en", lowercase=True)
    # a lower-case "mr." would lose its period, and before a capital it would end a sentence
    assert side.segment("Mr. Smith's U.S. House.") == ["mr.", "smith", "'s", "u.s.", "house", "."]


def test_unknown_characters_become_unk_and_nothing_else_changes() -> None:
    ids = GERMAN.encode("Das Haus 家 am Meer.")
    assert ids.count(UNK) == 1
    assert GERMAN.words(ids) == ["Das", "Haus", "<unk>", "am", "Meer", "."]


def test_empty_and_blank_lines_are_only_an_end_mark() -> None:
    assert GERMAN.encode("") == GERMAN.encode(" \u00a0\ufeff") == [EOS]
    assert GERMAN.decode([EOS]) == ""


def test_words_stop_at_the_end_mark_and_skip_padding() -> None:
    ids = GERMAN.encode("Das Haus")
    assert GERMAN.words([PAD, *ids, *ids]) == ["Das", "Haus"]


def test_the_text_of_an_end_mark_does_not_end_the_sentence() -> None:
    vocabulary = Vocabulary.build({"a": 1, "b": 1})
    side = TextPipeline.whitespace("de", "en", vocabulary, vocabulary).source
    assert side.encode("a </s> <pad> b") == [4, UNK, UNK, 5, EOS]


def test_imported_runs_take_words_as_they_stand() -> None:
    vocabulary = Vocabulary.build({"de@@": 1, "u\u0308ber": 1, "&apos;s": 1})
    pipeline = TextPipeline.whitespace("de", "en", vocabulary, vocabulary)
    line = "de@@ u\u0308ber  &apos;s \n"
    assert pipeline.languages == ("de", "en")
    assert pipeline.source.pieces(line) == ["de@@", "u\u0308ber", "&apos;s"]
    assert pipeline.target.decode(pipeline.target.encode(line)) == "de@@ u\u0308ber &apos;s"


def test_imported_runs_apply_codes() -> None:
    assert GERMAN.codes is not None
    vocabulary = GERMAN.vocabulary
    pipeline = TextPipeline.whitespace("de", "en", vocabulary, vocabulary, GERMAN.codes)
    words = ["Das", "alte", "Haus"]
    assert pipeline.source.pieces("Das alte Haus") == GERMAN.split(words)
    assert pipeline.target.words(pipeline.target.encode("Das alte Haus")) == words


def test_auto_is_resolved_when_the_side_is_made() -> None:
    assert [TextSide(name).segmenter for name in ("zh", "de")] == ["jieba", "moses"]
    with pytest.raises(ConfigError, match="no such segmenter"):
        TextSide("de", segmenter="spacey")


def test_saving_and_loading_gives_an_equal_pipeline(tmp_path: Path) -> None:
    PIPELINE.save(tmp_path / "pipeline.json")
    loaded = TextPipeline.load(tmp_path / "pipeline.json")
    assert loaded == PIPELINE
    assert loaded.fingerprint() == PIPELINE.fingerprint()
    assert loaded.source.encode(LINES[0]) == GERMAN.encode(LINES[0])


def test_every_option_of_a_side_is_saved(tmp_path: Path) -> None:
    options: dict[str, Any] = dict.fromkeys(("strip_invisible", "protect", "spell", "narrow"), True)
    options |= {"truecaser": Truecaser(["das"]), "dictionary": "云计算 5", "spaces": ("a字",)}
    side = replace(GERMAN, language="zh", segmenter="jieba", **options)
    TextPipeline(side, GERMAN).save(tmp_path / "pipeline.json")
    assert TextPipeline.load(tmp_path / "pipeline.json").source == side


def test_saving_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        PIPELINE.save(tmp_path / name)
        TextPipeline.load(tmp_path / name).save(tmp_path / name)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {"language": "nl"},
        {"lowercase": True},
        {"segmenter": "character"},
        {"codes": None},
        {"vocabulary": Vocabulary.build({"a": 1})},
    ],
)
def test_any_difference_changes_the_fingerprint(change: dict[str, Any]) -> None:
    other = replace(PIPELINE, source=replace(GERMAN, **change))
    assert other.fingerprint() != PIPELINE.fingerprint()


def test_a_pickled_pipeline_works_elsewhere() -> None:
    GERMAN.encode(LINES[0])  # what was built lazily must not travel
    copy = pickle.loads(pickle.dumps(PIPELINE))
    assert copy == PIPELINE
    assert copy.source.encode(LINES[1]) == GERMAN.encode(LINES[1])


def damaged(**change: Any) -> str:
    value = json.loads(json.dumps(PIPELINE.to_json()))
    value["source"].update(change.pop("source", {}))
    value.update(change)
    return json.dumps(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "has no format, this jtrans reads"),
        (damaged(format=2), "has format 2, this jtrans reads format 1"),
        (damaged(format=True), "has format True"),
        ('{"format": 1}', "no usable 'language'"),
        (damaged(target=None), "no usable 'language'"),
        (damaged(source={"lowercase": "no"}), "no usable 'lowercase'"),
        (damaged(source={"codes": "no codes at all"}), "not a BPE codes file"),
        (damaged(source={"segmenter": "mose"}), "no such segmenter: mose"),
        (damaged(source={"vocabulary": {}}), "list of tokens"),
    ],
)
def test_a_damaged_file_is_refused_with_its_name_and_a_hint(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "pipeline.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CorpusError, match=message) as caught:
        TextPipeline.load(path)
    assert f"{caught.value.message} {caught.value.where}".count(str(path)) == 1
    assert caught.value.hint


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no such file"):
        TextPipeline.load(tmp_path / "pipeline.json")
