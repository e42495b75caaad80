"""The Moses tokeniser with a memory: the very words of sacremoses, in any order of lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtrans.text.moses import CachedMoses

LANGUAGES = ("de", "en", "fr", "vi")
WORDS = [
    "Haus", "the", "No", "Nr", "Dr", "z.B", "U.S", "etc", "don't", "l'eau", "'tis", "dogs'", "'",
    "5", "5,3", "1.000", "am", "I", "MULTI", "DOTMULTI", "www.a.de", "a-b", "€", "Größe",
    "'5", "5'",
]  # fmt: skip
MARKS = ["", ".", ",", "..", "...", "?", "!", ":", ";", ")", '"', "'", ".'", "”", "%"]
OPENING = ["", "", "", "(", '"', "'", ",", "...", "„"]
WORD = st.builds("{}{}{}".format, *(st.sampled_from(part) for part in (OPENING, WORDS, MARKS)))
LINES = st.lists(st.lists(WORD, max_size=7).map(" ".join), max_size=6)


def reference(language: str, escape: bool) -> Callable[[str], list[str]]:
    from sacremoses import MosesTokenizer

    return lambda line: MOSES.setdefault(language, MosesTokenizer(language)).tokenize(
        line, escape=escape
    )


MOSES: dict[str, Any] = {}


@pytest.mark.sample(3)
@pytest.mark.parametrize("escape", [False, True])
@pytest.mark.parametrize("language", LANGUAGES)
@given(lines=LINES)
def test_words_are_those_of_sacremoses(language: str, escape: bool, lines: list[str]) -> None:
    moses = tokenizer(language, escape)
    expected = reference(language, escape)
    for line in [*lines, *lines]:
        assert moses.tokenize(line) == expected(line)


@given(st.lists(st.text(st.sampled_from("aB1 '.,\"!-&\t\x07\u2028中…é"), max_size=12), max_size=3))
def test_any_characters_give_the_words_of_sacremoses(lines: list[str]) -> None:
    for line in lines:
        assert tokenizer("en", True).tokenize(line) == reference("en", True)(line)


@pytest.mark.sample(2)
@pytest.mark.parametrize("language", LANGUAGES)
@given(lines=LINES)
def test_with_the_last_stop_parted_nothing_else_changes(language: str, lines: list[str]) -> None:
    parting, plain = tokenizer(language, True, splits_last_stop=True), tokenizer(language, True)
    for line in [*lines, *lines]:
        words, last = plain.tokenize(line), parting.tokenize(line)[-1:]
        assert "".join(parting.tokenize(line)) == "".join(words)
        assert last == [] or set(last[0]) == {"."} or not last[0].endswith(".")
        if words and (not words[-1].endswith(".") or set(words[-1]) == {"."}):
            assert parting.tokenize(line) == words


# The words of tokenizer.perl, by its rules: the last word of a line, as it stands after all else
# was parted, loses its full stop, whatever it is.
@pytest.mark.parametrize(
    ("language", "line", "words"),
    [
        ("en", "He lives in the U.S.", "He lives in the U.S ."),
        ("en", "The U.S. is the U.S. is here.", "The U.S. is the U.S. is here ."),
        ("en", "U.S.", "U.S ."),
        ("en", "He said (in the U.S.)", "He said ( in the U.S. )"),
        ("en", "See No.", "See No ."),
        ("en", "and so on...", "and so on ..."),
        ("en", "and so on, etc.  ", "and so on , etc ."),
        ("en", ".", "."),
        ("de", "Patient B.", "Patient B ."),
        ("de", "Er kam am 10. Mai, sie am 11.", "Er kam am 10. Mai , sie am 11 ."),
    ],
)
def test_the_last_stop_is_parted_as_by_tokenizer_perl(language: str, line: str, words: str) -> None:
    moses = tokenizer(language, False, splits_last_stop=True)
    assert moses.tokenize(line) == moses.tokenize(line) == words.split()


KNOWN: dict[tuple[str, bool, bool], CachedMoses] = {}


def tokenizer(language: str, escape: bool, *, splits_last_stop: bool = False) -> CachedMoses:
    """One for all examples: what was remembered must not change what comes later."""
    key = (language, escape, splits_last_stop)
    if key not in KNOWN:
        KNOWN[key] = CachedMoses(language, escapes=escape, splits_last_stop=splits_last_stop)
    return KNOWN[key]


def test_a_numbered_abbreviation_keeps_its_stop_only_before_a_number() -> None:
    moses = tokenizer("en", False)
    assert moses.tokenize("I said No. It is No. 5 of all") == [
        "I", "said", "No", ".", "It", "is", "No.", "5", "of", "all",
    ]  # fmt: skip
