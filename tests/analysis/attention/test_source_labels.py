"""Quality by part of speech of the source word, worked out by hand, and tags of runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plugins.random_runs import ON_CPU, RunOn
from plugins.small_corpus import ENGLISH
from plugins.tagging_system import MODEL, SOURCE

from jtrans.analysis.attention.layer_alignments import find_gold
from jtrans.analysis.attention.source_labels import label_figures, matches_by_label
from jtrans.analysis.figures.position import word_of_token
from jtrans.analysis.figures.results import Figure
from jtrans.analysis.study.load import load_study
from jtrans.analysis.study.members import Member
from jtrans.analysis.study.tagging import gold_labels, tagging_scores
from jtrans.corpora.parallel import Corpus, Gold, ParallelText
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import CorpusError
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare
from jtrans.text.pipeline import TextSide

SENTENCES = ["hund sieht katze", "igel mag hund", "kuh ruft", "katze jagt maus vogel"]
TAGS = ["NOUN VERB NOUN", "PROPN VERB NOUN", "_ VERB", "NOUN VERB NOUN NOUN"]
ENTITIES = ["O O O", "B-PER O O", "O O", "O O B-PER I-PER"]
LINES = [" ".join(ENGLISH[word] for word in line.split()) for line in SENTENCES]
LINKS = [" ".join(f"{i}-{i}" for i in range(len(line.split()))) for line in SENTENCES]


def labelled_corpus(
    folder: Path,
    *,
    links: bool = True,
    tags: bool = True,
    entities: bool = True,
    source: str = "whitespace",
    target: str = "whitespace",
) -> PreparedCorpus:
    """Prepare four sentences with parts of speech and entities."""
    named = ENTITIES if entities else ()
    gold = Gold(SENTENCES, LINES, LINKS if links else (), TAGS, named) if tags else None
    text = ParallelText(SENTENCES, LINES, gold=gold)
    splits = {"train": text, "valid": text, "test": text}
    options = PrepareOptions(
        source_segment=source, target_segment=target, bpe_merges=5, drop_leaked=False
    )
    return prepare(Corpus("tags", ("de", "en"), splits), folder, options=options, workers=1)


@pytest.fixture
def corpus(tmp_path: Path) -> PreparedCorpus:
    return labelled_corpus(tmp_path / "data")


def by_name(items: Any) -> dict[str, Any]:
    return {item.name: item for item in items}


def test_a_word_has_the_label_of_its_first_piece_in_any_segmentation(
    corpus: PreparedCorpus,
) -> None:
    words = [line.split() for line in SENTENCES]
    side = TextSide("de", "whitespace")
    gold = gold_labels(corpus, "test", side, words)
    assert [[label or "_" for label in labels] for labels in gold["pos"]] == [
        t.split() for t in TAGS
    ]
    assert [list(labels) for labels in gold["ner"]] == [line.split() for line in ENTITIES]
    other = [["hun", "dsieht", "katze"], *words[1:3], ["andere", "worte"]]
    cut = gold_labels(corpus, "test", side, other)["pos"]
    assert cut[0] == ["NOUN", "NOUN", "NOUN"] and cut[3] == [None, None]


def test_matches_are_those_counted_by_hand() -> None:
    references = [["the", "dog", "sees", "the", "cat"], ["dog"]]
    labels = [[-1, 0, 1, 0, 0], [0]]  # the second "the" has a label
    hypotheses = [["the", "dog", "dog", "zebra", "sees"], []]
    counts = matches_by_label(hypotheses, references, labels, 2)
    # dog matches once; the second dog is one too many of its usual label; zebra has no label
    assert counts[0].tolist() == [[1, 2, 3], [1, 1, 1]]
    assert counts[1].tolist() == [[0, 0, 1], [0, 0, 0]]


WORDS = st.lists(st.sampled_from("abc"), max_size=6)


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=4), st.data())
def test_counts_of_all_labels_add_up(lines: list[tuple[list[str], list[str]]], data: Any) -> None:
    hypotheses, references = map(list, zip(*lines, strict=True))
    labels = [[data.draw(st.integers(0, 2)) for _ in line] for line in references]
    matched, given_words, expected = np.moveaxis(
        matches_by_label(hypotheses, references, labels, 3), -1, 0
    )
    assert expected.sum() == sum(map(len, references))
    assert matched.sum() <= min(given_words.sum(), expected.sum())
    assert (matched <= given_words).all() and (matched <= expected).all()
    perfect = matches_by_label(references, references, labels, 3)
    assert (perfect[..., 0] == perfect[..., 2]).all() and (perfect[..., 0] == perfect[..., 1]).all()


def test_words_of_the_reference_are_counted_by_the_label_of_their_source_word(
    corpus: PreparedCorpus, run_on: RunOn
) -> None:
    study = load_study([run_on(corpus)], "test", ON_CPU)
    member = study.with_model[0].run_members[0]
    tags = [tag for line in TAGS for tag in line.split()]
    hits = np.append(tags, "")[word_of_token(member)] == "NOUN"
    vars(member)["teacher_forced"] = replace(member.teacher_forced, hits=hits)
    figures = by_name(label_figures(study))
    assert list(figures) == [
        "labels-pos-accuracy",
        "labels-pos-f-measure",
        "labels-ner-accuracy",
        "labels-ner-f-measure",
    ]
    accuracy, entities = figures["labels-pos-accuracy"], figures["labels-ner-f-measure"]
    assert isinstance(accuracy, Figure) and accuracy.kind == "points"
    assert dict(zip(accuracy.bins, accuracy.counts, strict=True)) == {
        "NOUN": 6, "PROPN": 1, "VERB": 4,
    }  # fmt: skip
    assert accuracy.series[0].values == [1.0, 0.0, 0.0]
    assert dict(zip(entities.bins, entities.counts, strict=True)) == {"no entity": 9, "PER": 3}


def test_of_several_source_words_the_first_with_a_label_counts(
    corpus: PreparedCorpus, run_on: RunOn, tmp_path: Path
) -> None:
    links = [*LINKS[:2], "0-0 1-0 1-1", "0-0 1-1 1-0 2-2 3-3"]  # kuh has no label
    path = tmp_path / "links"
    path.write_text("".join(f"{line}\n" for line in links), encoding="utf-8")
    study = load_study([run_on(corpus)], "test", ON_CPU)
    accuracy = by_name(label_figures(study, path))["labels-pos-accuracy"]
    assert dict(zip(accuracy.bins, accuracy.counts, strict=True)) == {
        "NOUN": 6, "PROPN": 1, "VERB": 5,
    }  # fmt: skip


@pytest.mark.parametrize("segmenter", ["character", "moses"])
def test_the_corpus_s_links_are_those_of_its_words_however_a_run_splits_them(
    corpus: PreparedCorpus, run_on: RunOn, tmp_path: Path, segmenter: str
) -> None:
    own = run_on(labelled_corpus(tmp_path / "other", source=segmenter), "own")
    studies = [
        load_study([run], "test", ON_CPU, data=corpus.folder) for run in (run_on(corpus), own)
    ]
    expected, figures = (by_name(label_figures(study)) for study in studies)
    for name in ("labels-pos-f-measure", "labels-ner-f-measure"):
        assert figures[name].bins == expected[name].bins
        assert figures[name].counts == expected[name].counts
    gold = find_gold(studies[1])
    assert gold is not None and gold[2] is not None
    # "kuh ruft", "kuh" being the first word of the reference
    letters = range(3) if segmenter == "character" else range(1)
    assert {link for link in gold[2].sure if link[1] == 0} == {(i, 0) for i in letters}


def test_sentences_of_other_characters_have_no_gold(
    corpus: PreparedCorpus, run_on: RunOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = load_study([run_on(corpus)], "test", ON_CPU)
    words = [["andere", "worte"], *(line.split() for line in SENTENCES[1:])]
    targets = [line.split() for line in LINES]
    monkeypatch.setattr(Member, "own_words", lambda _, side: words if side == "source" else targets)
    gold = find_gold(study)
    assert gold is not None and [sentence is None for sentence in gold] == [True] + [False] * 3


def test_the_references_themselves_have_a_perfect_f_measure(
    corpus: PreparedCorpus, run_on: RunOn, tmp_path: Path
) -> None:
    path = tmp_path / "perfect.en"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    study = load_study([run_on(corpus)], "test", ON_CPU, hypotheses=[path])
    figure = by_name(label_figures(study))["labels-pos-f-measure"]
    assert figure.series[1].values == [1.0, 1.0, 1.0]


def test_without_gold_alignments_those_of_the_attention_are_taken(
    tmp_path: Path, run_on: RunOn
) -> None:
    corpus = labelled_corpus(tmp_path / "data", links=False)
    figure = by_name(label_figures(load_study([run_on(corpus)], "test", ON_CPU)))
    note = figure["labels-pos-accuracy"].note
    assert "Alignments: decoder.0.cross of run" in note
    path = tmp_path / "test.align"
    path.write_text("".join(f"{line}\n" for line in LINKS), encoding="utf-8")
    given = by_name(label_figures(load_study([run_on(corpus, "two")], "test", ON_CPU), path))
    assert given["labels-pos-accuracy"].counts == [6, 1, 4]


def test_tags_of_a_run_are_compared_with_those_of_the_corpus(
    corpus: PreparedCorpus, run_on: RunOn, bring_system: Any
) -> None:
    bring_system(SOURCE.replace("5)", "18)"), "tagger = my_systems:Tagger")
    run = run_on(corpus, "tags", config={"model": MODEL}, labels=corpus.label_names)
    study = load_study([run], "test", ON_CPU)
    items = by_name(label_figures(study))
    table, figure = items["labels-tagging"], items["labels-pos-tagging"]
    rows = {row[1]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert rows["part of speech"]["words"] == 11 and rows["entity"]["entities"] == 2
    assert figure.bins == ["NOUN", "PROPN", "VERB"] and figure.counts == [6, 1, 4]
    member = study.with_model[0].run_members[0]
    again = load_study([run], "test", ON_CPU).with_model[0].run_members[0]
    assert tagging_scores(again) == tagging_scores(member)  # from the result cache


def test_the_first_run_s_corpus_may_have_fewer_kinds_of_labels(
    corpus: PreparedCorpus, run_on: RunOn, bring_system: Any, tmp_path: Path
) -> None:
    bring_system(SOURCE.replace("5)", "18)"), "tagger = my_systems:Tagger")
    fewer = labelled_corpus(tmp_path / "elsewhere" / corpus.name, entities=False)
    assert fewer.label_names.keys() == {"pos"} < corpus.label_names.keys()
    tagging = run_on(corpus, "tags", config={"model": MODEL}, labels=corpus.label_names)
    items = by_name(label_figures(load_study([run_on(fewer), tagging], "test", ON_CPU)))
    assert items["labels-ner-tagging"].bins == ["PER"]


def test_labels_of_other_names_are_refused(
    corpus: PreparedCorpus, run_on: RunOn, bring_system: Any
) -> None:
    bring_system(SOURCE, "tagger = my_systems:Tagger")
    labels = {"ner": ["O", "B-LOC", "I-LOC"]}
    run = run_on(corpus, "tags", config={"model": MODEL}, labels=labels)
    member = load_study([run], "test", ON_CPU).with_model[0].run_members[0]
    with pytest.raises(CorpusError, match=r"learned other labels of the kind ner .*B-LOC"):
        tagging_scores(member)


def test_figures_that_runs_of_other_words_lack_are_named(
    corpus: PreparedCorpus, run_on: RunOn, tmp_path: Path
) -> None:
    other = run_on(labelled_corpus(tmp_path / "elsewhere", target="character"), "other")
    runs = [run_on(corpus), other]
    studies = [
        load_study(order, "test", ON_CPU, data=corpus.folder) for order in (runs, runs[::-1])
    ]
    outcomes = []
    for study in studies:
        try:
            outcomes.append(sorted(by_name(label_figures(study))))
        except CorpusError as error:
            assert error.kind == "corpus.different-words"
            outcomes.append([])
            study.warnings.append(error.message)
    assert sorted(outcomes) == [[], ["labels-ner-f-measure", "labels-pos-f-measure"]]
    for names, study in zip(outcomes, studies, strict=True):
        told = " ".join(study.warnings)
        assert "accuracy by label is left out" in told
        assert ("F-measure by label is left out" in told) == (not names)


def test_a_corpus_without_labels_is_refused(tmp_path: Path, run_on: RunOn) -> None:
    corpus = labelled_corpus(tmp_path / "data", tags=False)
    with pytest.raises(CorpusError, match="has no labels of the source words of test"):
        label_figures(load_study([run_on(corpus)], "test", ON_CPU))
