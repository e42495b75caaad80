"""`jtrans tag`: one line of tags for each line of text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from plugins.command_line import Jtrans
from plugins.random_runs import MakeRun
from plugins.tagging_system import LABELS, MakeTagger

from jtrans.corpora.formats.conllu import read_sentences

LINES = ["ein hund liest .", "", "mann"]
TEXT = "".join(f"{line}\n" for line in LINES).encode()


def rows(line: str) -> list[list[str]]:
    return [word.rsplit("/", 2) for word in line.split()]


def test_every_word_has_its_tags_and_empty_lines_stay(
    jtrans: Jtrans, make_tagger: MakeTagger
) -> None:
    result = jtrans("tag", make_tagger(), stdin=TEXT)
    assert result.code == 0, result.err
    lines = result.out.split("\n")
    assert len(lines) == 4 and lines[1] == lines[3] == ""
    first = rows(lines[0])
    assert [word for word, _, _ in first] == LINES[0].split()
    assert {pos for _, pos, _ in first} <= set(LABELS["pos"])
    assert {ner for _, _, ner in first} <= set(LABELS["ner"])
    assert "3 lines, 5 words" in result.err


def test_a_run_without_entities_gives_parts_of_speech(
    jtrans: Jtrans, make_tagger: MakeTagger
) -> None:
    run = make_tagger(labels={"pos": LABELS["pos"]})
    result = jtrans("tag", run, stdin=b"ein hund\n")
    assert [word.count("/") for word in result.out.split()] == [1, 1]


def test_json_lines_have_words_and_labels_by_kind(jtrans: Jtrans, make_tagger: MakeTagger) -> None:
    result = jtrans("tag", make_tagger(), "--format", "jsonl", stdin=TEXT)
    objects = [json.loads(line) for line in result.out.splitlines()]
    assert [(entry["id"], entry["source"]) for entry in objects] == list(enumerate(LINES))
    assert objects[0]["words"] == LINES[0].split()
    assert len(objects[0]["pos"]) == len(objects[0]["ner"]) == 4
    assert objects[1]["words"] == objects[1]["pos"] == []


def test_conllu_can_be_read_again(jtrans: Jtrans, make_tagger: MakeTagger, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(TEXT)
    run, out = make_tagger(), tmp_path / "out.conllu"
    result = jtrans("tag", run, "--input", "in.txt", "--format", "conllu", "--output", out)
    assert result.code == 0 and result.out == ""
    sentences = list(read_sentences(out))
    assert [sentence.text for sentence in sentences] == [line for line in LINES if line]
    plain = jtrans("tag", run, stdin=TEXT).out.splitlines()
    assert [list(columns) for columns in zip(*rows(plain[0]), strict=True)] == [
        list(sentences[0].tagged.words),
        list(sentences[0].tagged.tags),
        list(sentences[0].tagged.entities),
    ]


@pytest.mark.parametrize("name", ["plain", "unlabelled"])
def test_a_run_that_cannot_tag_is_refused(
    name: str, jtrans: Jtrans, make_tagger: MakeTagger, make_run: MakeRun
) -> None:
    run = make_run("plain") if name == "plain" else make_tagger("unlabelled", labels={})
    result = jtrans("tag", run, "--output", "out.txt", stdin=TEXT)
    assert result.code == 2 and result.out == "" and not Path("out.txt").exists()
    hint = "systems that tag: " if name == "plain" else "prepared with --labels"
    assert hint in result.err


def test_bad_options_and_text_are_refused(jtrans: Jtrans, make_tagger: MakeTagger) -> None:
    run = make_tagger()
    assert jtrans("tag", run, "--format", "xml", stdin=TEXT).code == 2
    assert jtrans("tag", run, "--input", "nowhere").code == 2
    assert jtrans("tag", run, "--checkpoint", "7", stdin=TEXT).code == 2
    assert jtrans("tag", run, "--precision", "fp16", stdin=TEXT).code == 2
    assert jtrans("tag", run, stdin=b"\xff\n").code == 2
