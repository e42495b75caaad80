"""What each analysis makes of a test set with several references."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from plugins.random_runs import ON_CPU
from sacrebleu.metrics.chrf import CHRF

from jtrans.analysis.figures.compare import compare_tables, ngram_matches, shown_sentence_scores
from jtrans.analysis.figures.frequency import frequency_figures
from jtrans.analysis.figures.position import position_figures
from jtrans.analysis.figures.results import Figure, Table
from jtrans.analysis.report.examples import choose_examples
from jtrans.analysis.study.load import load_study
from jtrans.analysis.study.study import Study
from jtrans.analysis.study.words import is_same_segmentation
from jtrans.data.prepared import PreparedCorpus
from jtrans.runs import Run
from jtrans.text.pipeline import TextSide
from jtrans.text.truecase import Truecaser

SECOND = ["Mouse Mouse Dog", "Bird"] * 6
HYPOTHESES = ["Mouse Mouse Mouse", "Bird Bird"] * 6


@pytest.fixture
def both(corpus: PreparedCorpus, run_on: Callable[..., Run], tmp_path: Path) -> tuple[Study, Study]:
    """The same run and file of translations on one reference, and on it and a second one."""
    path = tmp_path / "other.en"
    path.write_text("".join(f"{line}\n" for line in HYPOTHESES), encoding="utf-8")
    study = load_study([run_on(corpus)], "test", ON_CPU, hypotheses=[path])
    text = replace(study.text, references=[*study.text.references, SECOND])
    several = Study(study.subjects, text, study.corpus, study.words, [])
    return study, several


def _numbers(items: list[Figure | Table]) -> list[object]:
    return [item.series for item in items if isinstance(item, Figure)]


def test_accuracies_and_the_f_measure_are_those_of_the_first_and_say_so(
    both: tuple[Study, Study],
) -> None:
    one, two = ([*position_figures(s), *frequency_figures(s)] for s in both)
    assert _numbers(one) == _numbers(two)
    assert len(two) == 5
    assert all(item.note.endswith("Only the first of the 2 references is used.") for item in two)
    assert not any("references is used" in item.note for item in one)


def test_ngrams_match_any_reference_as_often_as_one_has_them(both: tuple[Study, Study]) -> None:
    _, study = both
    expected: Counter[tuple[str, ...]] = Counter()
    for line, first, second in zip(HYPOTHESES, study.reference_words, SECOND, strict=True):
        for word, count in Counter(line.split()).items():
            expected[(word,)] += min(count, max(first.count(word), second.split().count(word)))
    matches = ngram_matches(study, study.subjects[1])
    assert {ngram: matches[ngram] for ngram in expected} == expected
    assert matches[("Mouse", "Mouse")] >= 6  # in every second reference, and one time only


def test_the_table_of_ngrams_counts_what_could_match(both: tuple[Study, Study]) -> None:
    table = compare_tables(both[1], shown=100)[2]
    rows = {row[1]: row[4] for row in table.rows}
    lines = zip(both[1].reference_words, SECOND, strict=True)
    most = sum(max(words.count("Mouse"), line.split().count("Mouse")) for words, line in lines)
    assert rows["Mouse"] == most


def test_sentences_are_scored_with_all_references(both: tuple[Study, Study]) -> None:
    _, study = both
    scores = shown_sentence_scores(study, study.subjects[1], "chrf")
    for line, score in enumerate(scores):
        references = [study.reference_lines[line], SECOND[line]]
        assert score == pytest.approx(CHRF().sentence_score(HYPOTHESES[line], references).score)
    assert "all 2 references; the first is shown" in compare_tables(study)[1].note


def test_examples_show_all_references_and_mark_against_the_nearest(
    both: tuple[Study, Study],
) -> None:
    different, drawn = choose_examples(both[1])
    shown = [example for example in [*different, *drawn] if example.line % 2 == 0]
    assert shown
    for example in shown:
        assert example.references == [both[1].reference_lines[example.line], SECOND[example.line]]
        shared = [part.text for part in example.translations[1].parts if part.is_shared]
        assert " ".join(shared).count("Mouse") >= 2  # two are in the second reference


def test_words_are_the_same_only_with_the_same_truecasing_and_dictionary() -> None:
    side = TextSide("de", "moses", truecaser=Truecaser(["das"]))
    assert is_same_segmentation(side, replace(side, truecaser=Truecaser(["das"])))
    assert not is_same_segmentation(side, replace(side, truecaser=Truecaser(["der"])))
    chinese = TextSide("zh", "jieba")
    assert not is_same_segmentation(chinese, replace(chinese, dictionary="好人\n"))
