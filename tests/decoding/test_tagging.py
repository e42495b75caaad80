"""Tags of raw text: the labels of first pieces, whatever the batch and the length."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from plugins.random_runs import ON_CPU, MakeRun
from plugins.tagging_system import LABELS, MakeTagger

from jtrans.decoding import tagging
from jtrans.decoding.tagging import Tagger, require_labels
from jtrans.errors import ConfigError
from jtrans.runs import Run
from jtrans.text.pipeline import TextPipeline, TextSide
from jtrans.text.vocabulary import Vocabulary

LINES = ["hund liest", "", "ein mann rennt schnell .", "unbekannt", "hund " * 40]
CODES = "#version: 0.2\nu n</w>\n"


def with_pieces(segmenter: str = "whitespace") -> TextPipeline:
    """Return a pipeline whose words are nearly all split into letters."""
    letters = [f"{letter}{mark}" for letter in "abcdefhilmnrstu.▁" for mark in ("", "@@")]
    vocabulary = Vocabulary.build(dict.fromkeys(letters, 1))
    side = TextSide("de", segmenter, codes=CODES, vocabulary=vocabulary)
    return TextPipeline(side, side)


def by_hand(tagger: Tagger, line: str) -> dict[str, list[str]]:
    """Tag a line alone, a piece at a time."""
    words = tagger.side.segment(line)
    ids = torch.tensor([tagger.side.encode(line)])
    logits = tagger.model.tag(tagger.model.encode(ids, torch.ones_like(ids).bool()))
    labels: dict[str, list[str]] = {}
    for kind, names in tagger.label_names.items():
        place, labels[kind] = 0, []
        for word in words:
            scores = logits[kind][0, place, : len(names)].tolist()
            labels[kind].append(names[scores.index(max(scores))])
            place += len(tagger.side.split([word]))
    return labels


def test_words_have_the_labels_of_their_first_pieces(make_tagger: MakeTagger) -> None:
    run = Run.open(make_tagger(pipeline=with_pieces()))
    tagger = Tagger.load(run, ON_CPU)
    tagged = tagger.tag(LINES)
    assert [line.words for line in tagged] == [line.split() for line in LINES]
    for line, labelled in zip(LINES, tagged, strict=True):
        assert labelled.labels == by_hand(tagger, line)
    assert tagged[1].labels == {"pos": [], "ner": []}


def test_a_long_line_is_tagged_in_parts(
    make_tagger: MakeTagger, monkeypatch: pytest.MonkeyPatch
) -> None:
    tagger = Tagger.load(Run.open(make_tagger(pipeline=with_pieces())), ON_CPU)
    monkeypatch.setattr(tagging, "LONGEST_SOURCE", 12)
    (tagged,) = tagger.tag(["hund liest mann rennt einhundertfach"])
    halves = ["hund liest", "mann rennt", "einhundertfach"]
    alone = [by_hand(tagger, half) for half in halves]
    assert tagged.labels["pos"][:4] == [*alone[0]["pos"], *alone[1]["pos"]]
    assert len(tagged.labels["pos"]) == 5


@pytest.mark.parametrize("longest", range(5, 14))
def test_no_part_is_longer_than_the_model_can_read(
    make_tagger: MakeTagger, monkeypatch: pytest.MonkeyPatch, longest: int
) -> None:
    tagger = Tagger.load(Run.open(make_tagger(pipeline=with_pieces())), ON_CPU)
    monkeypatch.setattr(tagging, "LONGEST_SOURCE", longest)
    read: list[int] = []
    encode = tagger.model.encode

    def noted(source: torch.Tensor, mask: torch.Tensor) -> Any:
        read.append(source.shape[1])
        return encode(source, mask)

    monkeypatch.setattr(tagger.model, "encode", noted)
    (tagged,) = tagger.tag(["hund liest mann rennt einhundertfach"])
    assert max(read) <= longest and len(tagged.labels["pos"]) == 5


def test_spaces_of_characters_are_no_words(make_tagger: MakeTagger) -> None:
    run = Run.open(make_tagger(pipeline=with_pieces("character")))
    (tagged,) = Tagger.load(run, ON_CPU).tag(["ein hund"])
    assert tagged.words == list("einhund") and len(tagged.labels["ner"]) == 7


def test_words_are_written_as_in_the_line_and_read_as_the_model_does(
    make_tagger: MakeTagger,
) -> None:
    pipeline = with_pieces()
    lower = replace(pipeline.source, lowercase=True)
    tagger = Tagger.load(Run.open(make_tagger(pipeline=TextPipeline(lower, lower))), ON_CPU)
    capital, small = tagger.tag(["Der HUND", "der hund"])
    assert capital.words == ["Der", "HUND"]
    assert capital.labels == small.labels


def test_only_labels_that_were_learned_are_given(make_tagger: MakeTagger) -> None:
    run = Run.open(make_tagger(labels={"pos": ["NOUN"]}))
    (tagged,) = Tagger.load(run, ON_CPU).tag(["hund liest"])
    assert tagged.labels == {"pos": ["NOUN", "NOUN"]}


def test_a_system_without_heads_names_those_that_have_some(
    make_tagger: MakeTagger, make_run: MakeRun
) -> None:
    assert require_labels(Run.open(make_tagger())) == LABELS
    with pytest.raises(ConfigError, match="the system transformer has no tagging heads") as caught:
        require_labels(Run.open(make_run("plain")))
    assert "tagger" in str(caught.value.hint)
    with pytest.raises(ConfigError, match="unlabelled was trained without labels"):
        require_labels(Run.open(make_tagger("unlabelled", labels={})))
    off = {"system": "transformer-pp", "pos_weight": 0.0, "ner_weight": 0.0}
    with pytest.raises(ConfigError, match="with the weights of all tags 0") as caught:
        require_labels(Run.open(make_run("off", config={"model": off})))
    assert "pos_weight" in str(caught.value.hint)
