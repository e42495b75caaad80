"""`jtrans score` and `jtrans analyze labels` with labels of source words, and in the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plugins.command_line import Jtrans
from plugins.random_runs import RunOn
from plugins.tagging_system import MODEL, SOURCE

from jtrans.corpora.parallel import Corpus, Gold, ParallelText
from jtrans.data.prepared import PreparedCorpus
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare

SENTENCES = ["hund sieht katze", "igel mag hund", "kuh ruft", "katze jagt maus"]
TAGS = ["NOUN VERB NOUN", "PROPN VERB NOUN", "NOUN VERB", "NOUN VERB NOUN"]
ENTITIES = ["O O O", "B-PER O O", "O O", "O O B-LOC"]


def make_corpus(folder: Path, *, has_tags: bool = True) -> PreparedCorpus:
    gold = Gold(SENTENCES, SENTENCES, (), TAGS, ENTITIES) if has_tags else None
    text = ParallelText(SENTENCES, SENTENCES, gold=gold)
    rules = {"drop_leaked": False, "drop_identical": False}
    options = PrepareOptions(source_segment="whitespace", bpe_merges=5, **rules)
    splits = {"train": text, "valid": text, "test": text}
    return prepare(Corpus("tags", ("de", "en"), splits), folder, options=options, workers=1)


@pytest.fixture
def corpus(jtrans: Jtrans, tmp_path: Path) -> PreparedCorpus:
    return make_corpus(tmp_path / "data")


@pytest.fixture
def tagging_run(corpus: PreparedCorpus, run_on: RunOn, bring_system: Any) -> Path:
    bring_system(SOURCE.replace("5)", "18)"), "tagger = my_systems:Tagger")
    return run_on(corpus, "tags", config={"model": MODEL}, labels=corpus.label_names).folder


def test_score_reports_the_accuracy_of_tags(
    jtrans: Jtrans, tagging_run: Path, corpus: PreparedCorpus, run_on: RunOn
) -> None:
    plain = run_on(corpus, "plain").folder
    result = jtrans("score", tagging_run, plain)
    assert result.code == 0, result.err
    assert "POS accuracy" in result.out and "entity F1" in result.out
    first, second = json.loads(jtrans("score", tagging_run, plain, "--json").out)["systems"]
    assert first["tagging"]["pos"]["words"] == 11
    assert first["tagging"]["pos"]["accuracy"] == first["pos_accuracy"]
    assert first["tagging"]["ner"]["entities"] == 2
    assert "tagging" not in second
    alone = jtrans("score", plain)
    assert alone.code == 0 and "POS accuracy" not in alone.out


def test_score_leaves_out_tags_of_other_names_with_a_warning(
    jtrans: Jtrans, tagging_run: Path, corpus: PreparedCorpus, run_on: RunOn
) -> None:
    labels = {"ner": ["O", "B-LOC", "I-LOC"]}
    run = run_on(corpus, "other", config={"model": MODEL}, labels=labels).folder
    result = jtrans("score", run)
    assert result.code == 0 and "entity F1" not in result.out
    assert "tags are not scored: other learned other labels of the kind ner" in result.err
    refused = jtrans("analyze", "labels", run)
    assert refused.code == 2 and "learned other labels" in refused.err


@pytest.mark.parametrize(
    ("entities", "is_scored"), [(["B-PER O O"] * 4, True), (["B-GPE O O"] * 4, False)]
)
def test_a_tagged_test_set_alone_has_the_labels_of_the_run(
    jtrans: Jtrans, tagging_run: Path, tmp_path: Path, entities: list[str], is_scored: bool
) -> None:
    lines, tags = [SENTENCES[0]] * 4, [TAGS[0]] * 4
    text = ParallelText(lines, lines, gold=Gold(lines, lines, (), tags, entities))
    corpus = Corpus("tags", ("de", "en"), {"test": text})
    prepare(corpus, tmp_path / "new", options=PrepareOptions(pipeline=tagging_run), workers=1)
    result = jtrans("score", tagging_run, "--data", "new")
    assert result.code == 0, result.err
    assert ("tags are not scored" not in result.err) == is_scored
    assert ("POS accuracy" in result.out) == is_scored


def test_labels_are_analysed_and_written(jtrans: Jtrans, tagging_run: Path) -> None:
    result = jtrans("analyze", "labels", tagging_run)
    assert result.code == 0, result.err
    names = ["pos-accuracy", "pos-f-measure", "ner-accuracy", "ner-f-measure", "pos-tagging"]
    names.append("ner-tagging")
    written = {path.name for path in (tagging_run / "reports").iterdir()}
    for name in names:
        assert {
            f"test.labels-{name}.{end}" for end in ("csv", "json", "pdf", "png", "svg", "tex")
        } <= written
    assert "test.labels-tagging.csv" in written
    content = json.loads(jtrans("analyze", "labels", tagging_run, "--json").out)
    assert [item["name"] for item in content["results"]] == [
        *(f"labels-{name}" for name in names),
        "labels-tagging",
    ]
    assert content["results"][4]["bins"] == ["NOUN", "PROPN", "VERB"]


def test_a_system_without_heads_can_be_analysed_too(
    jtrans: Jtrans, corpus: PreparedCorpus, run_on: RunOn
) -> None:
    result = jtrans("analyze", "labels", run_on(corpus, "plain").folder, "--json")
    names = [item["name"] for item in json.loads(result.out)["results"]]
    assert "labels-pos-f-measure" in names and "labels-tagging" not in names


def test_a_corpus_without_labels_cannot_be_analysed(
    jtrans: Jtrans, tagging_run: Path, tmp_path: Path
) -> None:
    make_corpus(tmp_path / "bare", has_tags=False)
    result = jtrans("analyze", "labels", tagging_run, "--data", "bare")
    assert (result.code, result.out) == (2, "")
    assert "bare has no labels" in result.err and "--labels" in result.err
    assert jtrans("score", tagging_run, "--data", "bare").code == 0


@pytest.mark.usefixtures("placeholder_pictures")
def test_the_report_has_a_section_of_labels(jtrans: Jtrans, tagging_run: Path) -> None:
    result = jtrans("analyze", "report", tagging_run)
    assert result.code == 0, result.err
    page = (tagging_run / "reports/report.html").read_text("utf-8")
    assert "By part of speech and entity" in page and "Predicted labels" in page
