"""P10: labels of pieces, against an independent form that labels characters (systems.md 6.4)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jtrans.corpora.parallel import Tagged
from jtrans.data.ids import IGNORE
from jtrans.preparation.labels.project import POS_TAGS, name_labels, project
from jtrans.text.bpe import MARK
from jtrans.text.pipeline import TextSide

LETTERS = "abNeö"
CODES = "#version: 0.2\na b\na b</w>\nN e\nab ab</w>\nö a\n"
TYPES = ("GPE", "PER")
NAMES = name_labels(TYPES)

words = st.lists(st.text(LETTERS, min_size=1, max_size=5), min_size=1, max_size=6)


@st.composite
def tagged_sentences(draw: st.DrawFn) -> Tagged:
    """Draw words with any tags, and entities that begin and go on."""
    tokens = draw(words)
    tags = [draw(st.sampled_from(POS_TAGS[:-1])) for _ in tokens]
    entities: list[str] = []
    for _ in tokens:
        choices = ["O", *(f"B-{name}" for name in TYPES)]
        if entities and entities[-1] != "O":
            choices.append(f"I-{entities[-1][2:]}")
        entities.append(draw(st.sampled_from(choices)))
    return Tagged(tokens, tags, entities)


@st.composite
def segmented(draw: st.DrawFn) -> tuple[Tagged, list[str]]:
    """Draw a tagged sentence, and other words of the same characters."""
    tagged = draw(tagged_sentences())
    text = "".join(tagged.words)
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=6)) | {0, len(text)})
    return tagged, [text[a:b] for a, b in pairwise(cuts)]


def expected(tagged: Tagged, pieces: list[str]) -> dict[str, list[str]]:
    """Label pieces by the character that each begins with."""
    owner = [i for i, word in enumerate(tagged.words) for _ in word]
    entity, number = [], 0
    for label in tagged.entities:
        number += label.startswith("B-")
        entity.append((number, label[2:]) if label != "O" else (0, ""))
    pos, ner, place, last = [], [], 0, 0
    for piece in pieces:
        number = owner[place]
        pos.append(tagged.tags[number])
        own_number, name = entity[number]
        ner.append(f"{'I' if own_number == last else 'B'}-{name}" if own_number else "O")
        last = own_number
        place += len(piece.removesuffix(MARK))
    return {"pos": [*pos, "-"], "ner": [*ner, "-"]}


def shown(
    labels: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.int8]]],
) -> dict[str, list[str]]:
    return {
        kind: ["-" if i == IGNORE else NAMES[kind][i] for i in labelled]
        for kind, labelled in labels.items()
    }


@given(segmented())
def test_a_piece_has_the_tag_of_the_word_with_its_first_character(
    sentence: tuple[Tagged, list[str]],
) -> None:
    tagged, others = sentence
    side = TextSide("en", "whitespace", codes=CODES)
    labels = shown(project(tagged, side, others, NAMES))
    assert labels == expected(tagged, side.split(others))


@given(segmented(), st.data())
def test_other_characters_leave_all_pieces_without_a_label(
    sentence: tuple[Tagged, list[str]], data: st.DataObject
) -> None:
    tagged, others = sentence
    place = data.draw(st.integers(0, len(others) - 1))
    others[place] += "z"
    side = TextSide("en", "whitespace", codes=CODES)
    labels = project(tagged, side, others, NAMES)
    assert all((numbers == IGNORE).all() for numbers in labels.values())


@given(tagged_sentences())
def test_the_end_mark_and_words_without_a_tag_have_no_label(tagged: Tagged) -> None:
    untagged = Tagged(tagged.words, ["_" for _ in tagged.words])
    side = TextSide("en", "whitespace", codes=CODES)
    labels = project(untagged, side, tagged.words, NAMES)
    assert (labels["pos"] == IGNORE).all() and (labels["ner"] == IGNORE).all()


def test_the_examples_of_the_specification() -> None:
    side = TextSide("en", "whitespace", codes="#version: 0.2\nu n\nb e\nY o\ne w</w>\n")
    words = ["unbe", "New", "York"]
    tagged = Tagged(words, ["ADJ", "PROPN", "PROPN"], ["O", "B-GPE", "I-GPE"])
    labels = shown(project(tagged, side, words, NAMES))
    assert side.split(words[:1]) == ["un@@", "b@@", "e"]
    assert labels["pos"][:3] == ["ADJ"] * 3 and labels["pos"][-1] == "-"
    assert side.split(words[1:2]) == ["N@@", "ew"]
    assert labels["ner"][3:6] == ["B-GPE", "I-GPE", "I-GPE"]
