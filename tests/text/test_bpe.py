"""BPE: the library's codes and pieces, and words that come back exactly."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from jtrans.errors import CorpusError
from jtrans.text import bpe_learning
from jtrans.text.bpe import Bpe, count_file, count_merges, count_words, learn, read_codes
from jtrans.text.bpe_learning import merge_pair

LINES = [
    "das alte haus am meer und das neue haus am see",
    "die alten häuser am alten see waren neue häuser",
    "a@@ b@@ @@ @@@ a@@ b@@ @@ @@@ @@ aa@@ aa@@",
]
WORDS = [line.split() for line in LINES]
BPE = Bpe(learn([count_words(WORDS)], 40))


def reference_codes(text: str, merges: int, min_frequency: int) -> str:
    from subword_nmt.learn_bpe import learn_bpe

    out = io.StringIO()
    learn_bpe(io.StringIO(text), out, merges, min_frequency=min_frequency)
    return out.getvalue()


@pytest.mark.parametrize(("merges", "min_frequency"), [(5, 2), (40, 2), (1000, 2), (12, 3)])
def test_codes_are_those_of_subword_nmt(merges: int, min_frequency: int) -> None:
    codes = learn([count_words(WORDS)], merges, min_frequency=min_frequency)
    assert codes == reference_codes("\n".join(LINES) + "\n", merges, min_frequency)


@pytest.mark.parametrize("version", ["#version: 0.2\n", ""])
def test_merges_are_counted_without_the_version(version: str) -> None:
    assert count_merges(f"{version}a b\nab c</w>\n") == 2


def test_joint_codes_are_those_of_the_texts_together() -> None:
    counts = [count_words([words]) for words in WORDS]
    assert learn(counts, 30) == learn([count_words(WORDS)], 30)


def test_learning_says_nothing_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    learn([count_words(WORDS)], 10_000)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("counts", [{}, {"a": 7, "b": 2}, {"abc": 1}])
def test_a_text_with_nothing_to_merge_is_refused(counts: dict[str, int]) -> None:
    with pytest.raises(CorpusError):
        learn([counts], 10)


def test_pieces_are_those_of_subword_nmt() -> None:
    from subword_nmt.apply_bpe import BPE as LIBRARY

    line = "das haus der alten meere überhaupt x"
    library = LIBRARY(io.StringIO(learn([count_words(WORDS)], 40)))
    assert BPE.pieces(line.split()) == library.segment(line).split()


def test_unknown_pieces_are_split_into_known_ones() -> None:
    codes = learn([count_words(WORDS)], 40)
    assert Bpe(codes).pieces(["haus", "see"]) == ["haus", "see"]
    known = {"h@@", "a@@", "us", "see"}
    assert Bpe(codes, known).pieces(["haus", "see"]) == ["h@@", "a@@", "us", "see"]


@pytest.mark.parametrize("version", ["0.1", "0.2"])
@pytest.mark.parametrize("word", ["ab</w>ab", "a</w>b", "</w>", "b</w>", "ab"])
def test_words_with_the_end_mark_of_bpe_come_back(word: str, version: str) -> None:
    counts = Counter({"ab</w>ab": 9, "b</w></w>": 9, "ab</w>": 5})
    codes = learn([counts], 40).replace("0.2", version)
    bpe = Bpe(codes, {"a@@"})
    assert bpe.undo(bpe.pieces([word])) == [word]
    assert bpe.undo(bpe.draw(word, 0.2, Random(1), {"a@@"})) == [word]


WORD_COUNTS = st.dictionaries(
    # words of subword-nmt may have white space in them, all but the space
    st.text("abcä@.", min_size=1, max_size=9) | st.text("a57\u00a0\u3000", min_size=1, max_size=9),
    st.integers(1, 60),
    min_size=1,
    max_size=40,
)


def reference_merges(counts: dict[str, int], merges: int, min_frequency: int) -> str:
    from subword_nmt.learn_bpe import learn_bpe

    out = io.StringIO()
    entries = [f"{word} {count}" for word, count in counts.items()]
    learn_bpe(entries, out, merges, min_frequency=min_frequency, is_dict=True)
    return out.getvalue()


@given(WORD_COUNTS, st.integers(1, 80), st.data())
def test_unknown_pieces_are_split_as_by_subword_nmt(
    counts: dict[str, int], merges: int, data: Any
) -> None:
    from subword_nmt.apply_bpe import BPE as LIBRARY

    assume(any(len(word) > 1 for word in counts))
    codes = reference_merges(counts, merges, 1)
    assume(codes.count("\n") > 1)
    words = [*counts, "".join(counts)]
    pieces = sorted(set(Bpe(codes).pieces(words)))
    known = data.draw(st.sets(st.sampled_from(pieces), min_size=1))
    library = LIBRARY(io.StringIO(codes), vocab=known)
    for word in words:
        pieces = library.segment_tokens([word])
        # a last piece that ends in the mark is ours alone, see `Bpe.pieces`
        assert Bpe(codes, known).pieces([word]) == pieces or pieces[-1].endswith("@@")


def test_pairs_are_found_after_white_space_in_words_as_by_subword_nmt() -> None:
    numbers = "257_574 284_571 457_500_000 557_286_000 277_000_500_538".replace("_", "\u00a0")
    counts = dict.fromkeys(numbers.split(" "), 1)
    expected = reference_merges(counts, 200, 2)
    assert "57 \u00a057\n" in expected
    assert learn([counts], 200) == expected
    counts = {"\u00a0aba\u00a0a": 3, "\u00a0aaab": 2, "aa\u00a0": 1}  # at the ends of words, too
    assert learn([counts], 30) == reference_merges(counts, 30, 2)


@given(WORD_COUNTS, st.integers(1, 80), st.integers(1, 4))
def test_codes_of_any_words_are_those_of_subword_nmt(
    counts: Any, merges: Any, min_frequency: Any
) -> None:
    assume(any(len(word) > 1 for word in counts))
    expected = reference_merges(counts, merges, min_frequency)
    if expected.count("\n") > 1:
        assert learn([counts], merges, min_frequency=min_frequency) == expected


@given(WORD_COUNTS, st.lists(st.text("abcä.", min_size=1, max_size=12), max_size=6))
def test_pieces_of_any_words_are_those_of_subword_nmt(counts: Any, words: Any) -> None:
    from subword_nmt.apply_bpe import BPE as LIBRARY

    codes = reference_merges(counts | {"ab": 9}, 40, 1)
    assert Bpe(codes).pieces(words) == LIBRARY(io.StringIO(codes)).segment_tokens(words)


@pytest.mark.parametrize("version", ["#version: 0.2\n", "#version: 0.1\n", ""])
def test_codes_of_both_versions_are_applied_as_by_subword_nmt(version: str) -> None:
    from subword_nmt.apply_bpe import BPE as LIBRARY

    codes = version + "a b\nab </w>\na b</w>\nab c\nc </w>\n"
    words = ["ab", "abc", "a", "abab", "cab", "</w>"]
    assert Bpe(codes).pieces(words) == LIBRARY(io.StringIO(codes)).segment_tokens(words)


@given(st.text("hausmertlnd@", min_size=1, max_size=12), st.floats(0, 1), st.integers(0, 99))
def test_pieces_drawn_at_chance_give_the_word_back(word: Any, rate: Any, seed: int) -> None:
    assert BPE.undo(BPE.draw(word, rate, Random(seed))) == [word]


def test_no_dropout_gives_the_usual_pieces_and_full_dropout_characters() -> None:
    for word in ("haus", "häuser", "meere", "x"):
        assert list(BPE.draw(word, 0.0, Random(1))) == BPE.pieces([word])
    assert BPE.draw("haus", 1.0, Random(1)) == ("h@@", "a@@", "u@@", "s")


def test_drawn_pieces_differ_from_draw_to_draw() -> None:
    random = Random(3)
    assert len({BPE.draw("häuser", 0.3, random) for _ in range(30)}) > 3


@given(st.lists(st.text("@abhaus</w>ä", min_size=1, max_size=8), max_size=8))
def test_undo_gives_every_word_back(words: list[str]) -> None:
    assert BPE.undo(BPE.pieces(words)) == words


@given(st.lists(st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1), max_size=6))
def test_undo_gives_words_of_any_script_back(words: list[str]) -> None:
    assert BPE.undo(BPE.pieces(words)) == words


def test_undo_keeps_unknown_tokens_and_an_unfinished_word() -> None:
    assert BPE.undo(["ha@@", "us", "<unk>", "am", "me@@"]) == ["haus", "<unk>", "am", "me"]


def test_applying_to_a_line_keeps_its_outer_white_space() -> None:
    assert BPE.apply("  \r\n") == "  \r\n"
    assert BPE.apply(" haus \n") == " haus \n"


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ("", "line 1 has 0 units"),
        ("#version: 0.2\n", "has only a line with the version"),
        ("#version: 0.2\na b\na b c\n", "line 3 has 3 units"),
        ("#version: 0.9\na b\n", "unknown version"),
    ],
)
def test_a_text_that_is_no_codes_file_is_refused(codes: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        Bpe(codes)


def test_codes_are_read_with_any_line_ends_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "codes"
    path.write_bytes("\ufeff#version: 0.2\r\nh a\r\nu s</w>\r\n".encode())
    assert Bpe(read_codes(path)).pieces(["haus"]) == ["ha@@", "us"]


def test_words_of_a_file_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes("ein  haus\r\n\nein\tsee\u2028ein\n".encode())
    assert count_file(path) == Counter({"ein": 2, "haus": 1, "ein\tsee\u2028": 1})


def test_a_file_that_is_not_utf8_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"gut\nH\xe4user\n")
    with pytest.raises(CorpusError, match="not UTF-8: byte 0xe4") as caught:
        count_file(path)
    assert caught.value.where == "line 2"


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path, message in ((tmp_path / "none", "no such file"), (tmp_path, "is a folder")):
        with pytest.raises(CorpusError, match=message):
            count_file(path)


def test_a_merge_looks_at_each_word_once_however_often_the_pair_is_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = []

    def counted(word: tuple[str, ...], *pair: str) -> tuple[str, ...]:
        words.append(len(word))
        return merge_pair(word, *pair)

    monkeypatch.setattr(bpe_learning, "merge_pair", counted)
    merges = bpe_learning.learn_merges({"x" * 1000: 1, "abababab": 2}, 5, min_frequency=1)
    assert len(merges) == 5 and len(words) <= 2 * 5


def test_words_of_an_endless_stream_do_not_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jtrans.text.bpe._CACHE_LIMIT", 10)
    codes = "#version: 0.2\na b</w>\n"
    bpe = Bpe(codes)
    lines = [f"ab{number} ab" for number in range(100)]
    assert [bpe.apply(line) for line in lines] == [Bpe(codes).apply(line) for line in lines]
    assert len(bpe._library.cache) <= 12
