"""The Moses tokeniser with a memory: the very words of sacremoses, in any order of lines."""

from __future__ import annotations

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


def reference(language: str, escape: bool):
    from sacremoses import MosesTokenizer

    return lambda line: MOSES.setdefault(language, MosesTokenizer(language)).tokenize(
        line, escape=escape
    )


MOSES: dict = {}


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


KNOWN: dict = {}


def tokenizer(language: str, escape: bool) -> CachedMoses:
    """One for all examples: what was remembered must not change what comes later."""
    key = (language, escape)
    if key not in KNOWN:
        KNOWN[key] = CachedMoses(language, escape=escape)
    return KNOWN[key]


def test_a_numbered_abbreviation_keeps_its_stop_only_before_a_number() -> None:
    moses = tokenizer("en", False)
    assert moses.tokenize("I said No. It is No. 5 of all") == [
        "I", "said", "No", ".", "It", "is", "No.", "5", "of", "all",
    ]  # fmt: skip
