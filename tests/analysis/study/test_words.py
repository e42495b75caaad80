"""Runs that differ in case or segmentation: the same numbers in any order of the runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plugins.random_runs import ON_CPU
from plugins.small_corpus import make_nouns

from jtrans.analysis.figures.compare import compare_tables, ngram_matches
from jtrans.analysis.figures.frequency import frequency_figures
from jtrans.analysis.figures.length import length_figures
from jtrans.analysis.figures.results import Figure
from jtrans.analysis.report.examples import choose_examples
from jtrans.analysis.study.load import load_study
from jtrans.analysis.study.load_files import load_file_study
from jtrans.analysis.study.members import TextFiles
from jtrans.analysis.study.study import Study
from jtrans.analysis.study.words import StudyWords, is_same_segmentation
from jtrans.data.prepared import PreparedCorpus
from jtrans.decoding.split import SplitTranslation
from jtrans.runs import Run
from jtrans.text.pipeline import TextPipeline, TextSide

RunOn = Callable[..., Run]
TEXT = ["Dog Cat, Bird", "Mouse Fish"] * 6  # moses splits off the comma


def _study(runs: Sequence[Run], texts: dict[str, list[str]], **options: Any) -> Study:
    """Return the study of runs that translated the split with these lines."""
    study = load_study(runs, "test", ON_CPU, **options)
    for subject in study.subjects:
        for member in subject.run_members:
            side = member.run.pipeline.target
            lines = [line.lower() if side.lowercase else line for line in texts[member.run.name]]
            words = [side.segment(line) for line in lines]
            member.__dict__["translation"] = SplitTranslation(lines, words, 1, 1.0)
    return study


def _numbers(study: Study) -> dict[str, Any]:
    """Return the numbers of each system, by the name of its run."""
    figures = [*length_figures(study), *frequency_figures(study, with_accuracy=False)]
    numbers: dict[str, Any] = {}
    for subject in study.subjects:
        series = [
            (figure.name, figure.bins, figure.counts, figure.series[subject.index].values)
            for figure in figures
            if isinstance(figure, Figure)
        ]
        numbers[subject.runs[0].name] = (series, ngram_matches(study, subject))
    return numbers


@pytest.fixture
def pair(corpus: PreparedCorpus, run_on: RunOn, tmp_path: Path) -> Callable[..., list[Run]]:
    """Two runs: the pipeline of the second has other options."""

    def make(**options: Any) -> list[Run]:
        other = make_nouns(tmp_path / "data2", **options)
        return [run_on(corpus, "plain"), run_on(other, "other")]

    return make


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "options",
    [
        {"lowercase": True},
        {"target_segment": "moses"},
        {"target_segment": "character", "bpe": "none"},
        {"target_segment": "moses", "lowercase": True, "seed": 4},
        {"truecase": True, "target_segment": "moses"},
    ],
)
@pytest.mark.parametrize("lowercase", [None, True, False])
def test_the_order_of_runs_changes_no_number(
    pair: Callable[..., list[Run]], options: dict[str, Any], lowercase: bool | None
) -> None:
    runs = pair(**options)
    texts = {"plain": TEXT, "other": TEXT[::-1]}
    study, turned = (_study(ordered, texts, lowercase=lowercase) for ordered in (runs, runs[::-1]))
    assert _numbers(study) == _numbers(turned)
    assert study.words == turned.words


@pytest.mark.parametrize("is_first_lower", [True, False])
def test_equal_outputs_in_any_case_have_equal_numbers(
    pair: Callable[..., list[Run]], is_first_lower: bool
) -> None:
    runs = pair(lowercase=True)
    study = _study(runs[:: -1 if is_first_lower else 1], {"plain": TEXT, "other": TEXT})
    assert study.lowercase
    one, two = _numbers(study).values()
    assert one == two
    assert [row[-1] for row in compare_tables(study)[1].rows] == []
    for example in choose_examples(study)[1]:
        assert len({translation.score for translation in example.translations}) == 1
    assert any("other writes lower case" in warning for warning in study.warnings)


def test_case_counts_on_request(pair: Callable[..., list[Run]]) -> None:
    runs = pair(lowercase=True)
    reference = load_study(runs, "test", ON_CPU).reference_lines
    study = _study(runs, {"plain": reference, "other": reference}, lowercase=False)
    score, bleu = length_figures(study)[-2:]
    for figure in (score, bleu, frequency_figures(study, with_accuracy=False)[0]):
        assert isinstance(figure, Figure)
        plain, other = (series.values for series in figure.series)
        for cased, lower in zip(plain, other, strict=True):
            assert cased is None or lower is None or cased > lower


def test_words_are_shared_or_neutral() -> None:
    def words(*sides: TextSide) -> TextSide:
        return StudyWords.of([TextPipeline(TextSide("de"), side) for side in sides]).target

    moses = TextSide("en", "moses")
    assert words(moses, replace(moses, lowercase=True)) == moses
    assert words(TextSide("en", "whitespace"), TextSide("en", "character")).segmenter == "moses"
    cut = TextSide("zh", "jieba", dictionary="云计算")
    assert words(cut, cut) == cut
    assert words(cut, TextSide("zh", "jieba")) == TextSide("zh", "jieba")


@pytest.mark.parametrize(
    ("side", "line"),
    [
        (TextSide("en", "moses", protect=True), "At 10:30 see www.example.com/a?b=1 or me@x.org ."),
        (TextSide("en", "moses", strip_invisible=True), "inter\u00adnational words"),
        (TextSide("zh", "jieba", narrow=True), "价格是１００美元ＡＢＣ。"),
    ],
)
def test_references_have_the_words_that_the_run_would_write(side: TextSide, line: str) -> None:
    other = TextSide(side.language, side.segmenter)
    pipeline, plain = TextPipeline(side, side), TextPipeline(other, other)
    assert side.segment(line) != other.segment(line)

    words = StudyWords.of([pipeline])
    assert words.source is not None
    assert words.split(line) == words.source.segment(line) == side.segment(line)
    assert not words.is_mixed
    assert words.like(other).split(line) == other.segment(line)
    both = StudyWords.of([plain, pipeline])
    assert both.is_mixed
    assert both == StudyWords.of([pipeline, plain])
    assert both.split(line) == side.segment(line)
    assert not is_same_segmentation(side, other)


@pytest.mark.parametrize(("lowercase", "dogs"), [(False, 1), (True, 3)])
def test_training_words_of_files_are_counted_as_words_are_compared(
    tmp_path: Path, lowercase: bool, dogs: int
) -> None:
    for name, text in (("ref.en", "a dog"), ("hyp.en", "a cat"), ("train.en", "dog Dog DOG")):
        (tmp_path / name).write_text(f"{text}\n", encoding="utf-8")
    reference, hypothesis, train = (tmp_path / f"{name}.en" for name in ("ref", "hyp", "train"))
    files = TextFiles(None, [reference], [hypothesis], train)
    training = load_file_study(files, lowercase=lowercase).training
    assert training is not None and training.counts["dog"] == dogs
