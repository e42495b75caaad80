"""Systems side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from plugins.random_runs import ON_CPU
from sacrebleu.metrics.chrf import CHRF

from jtrans.analysis.figures.bins import Binning
from jtrans.analysis.figures.compare import compare_tables, ngram_matches, sentence_bleu_figure
from jtrans.analysis.output.tables import shown_table
from jtrans.analysis.study.load import load_study
from jtrans.analysis.study.load_files import load_file_study
from jtrans.analysis.study.members import TextFiles
from jtrans.analysis.study.study import Study
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import ConfigError
from jtrans.evaluation.scores import corpus_score
from jtrans.evaluation.systems import SystemOutput, evaluate
from jtrans.runs import Run


@pytest.fixture
def files(corpus: PreparedCorpus, run_on: Callable[..., Run], tmp_path: Path) -> Study:
    """A run, the references with two lines spoiled, and the references themselves."""
    reference = corpus.raw_lines("test", "target")
    spoiled = list(reference)
    spoiled[5], spoiled[11] = "Dog", "no word of it"
    paths = [tmp_path / "spoiled.en", tmp_path / "perfect.en"]
    for path, lines in zip(paths, (spoiled, reference), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    run = run_on(corpus, config={"decoding": {"max_length": "S"}})
    return load_study([run], "test", ON_CPU, hypotheses=paths)


def test_bins_are_compared_by_paired_bootstrap(files: Study) -> None:
    table = compare_tables(files, Binning(edges=(3,)))[0]
    rows = [row for row in table.rows if row[1] == "perfect.en"]
    assert [row[2] for row in rows] == ["all", "1–3", ">3"]
    for row, inside in zip(rows, (range(99), range(4), range(4, 99)), strict=True):
        chosen = [i for i, words in enumerate(files.text.length_side.words) if len(words) in inside]
        systems = [
            SystemOutput(subject.name, [subject.hypotheses[i] for i in chosen], [], [])
            for subject in (files.subjects[0], files.subjects[2])
        ]
        references = [[files.reference_lines[i] for i in chosen]]
        evaluation = evaluate(
            systems, references, metrics=["bleu"], target_language="en", lowercase=False
        )
        [expected] = evaluation.paired
        assert row[3] == len(chosen)
        if row[2] == "1–3":  # no 4-gram in references and perfect.en
            assert row[5:] == [None] * 3
            continue
        assert row[5] == pytest.approx(
            corpus_score("bleu", systems[1].lines, references, target_language="en")
        )
        assert row[6] == pytest.approx(expected.difference)
        assert isinstance(row[7], float)
        if row[2] == "all":  # bins draw from all sentences, so that their numbers vary
            assert row[7] == pytest.approx(expected.p_value, abs=1e-5)
        assert (row[7] < 0.05) == (expected.p_value < 0.05)


def test_a_bin_without_sentences_has_no_data(files: Study) -> None:
    table = compare_tables(files, Binning(edges=(50,)))[0]
    assert [row[4:] for row in table.rows if row[3] == 0] == [[None] * 4] * 2


def test_sentences_are_counted_by_their_bleu(tmp_path: Path) -> None:
    lines = {
        "dogs chase a cat": "dogs chase a cat",  # 100
        "dogs": "dogs",  # 100: of effective order 1
        "no word of it": "dogs chase cats",  # 0
        "a bird sings now": "",  # 0
        "the cat sat down": "the cat",  # precisions of 1 for two orders, penalty exp(-1): 36.8
        "one two three four": "one two three five",  # (3/4 * 2/3 * 1/2 * 1/2) ** (1/4): 59.5
    }
    paths = [tmp_path / "reference.en", tmp_path / "system.en"]
    for path, texts in zip(paths, zip(*lines.items(), strict=True), strict=True):
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    figure = sentence_bleu_figure(load_file_study(TextFiles(None, paths[:1], paths[1:])))
    shares = zip(figure.bins, figure.series[0].values, strict=True)
    assert {label: share for label, share in shares if share} == {
        "0–10": 2 / 6,
        "30–40": 1 / 6,
        "50–60": 1 / 6,
        "90–100": 2 / 6,
    }
    assert len(figure.bins) == 10
    assert (figure.total, figure.count_label) == (6, "sentences")


def test_a_sentence_between_two_bins_is_in_the_higher_one(
    files: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = np.array([0.0, 9.99, 10.0, 89.9, 90.0, 100.0] * 2)
    monkeypatch.setattr("jtrans.analysis.figures.compare.shown_sentence_scores", lambda *_: scores)
    [first, *_] = sentence_bleu_figure(files).series
    assert first.values == pytest.approx([2 / 6, 1 / 6, *[0] * 6, 1 / 6, 2 / 6])


def test_the_sentences_that_differ_most_come_first(files: Study) -> None:
    files.subjects = files.subjects[1:]
    table = compare_tables(files, shown=5)[1]
    assert table.name == "compare-sentences"
    assert sorted(row[0] for row in table.rows) == [6, 12]  # type: ignore[type-var]
    line = int(table.rows[0][0]) - 1  # type: ignore[arg-type]
    spoiled, _perfect = files.subjects
    reference = files.reference_lines[line]
    assert table.rows[0][1:5] == [
        files.source_lines[line],
        reference,
        spoiled.hypotheses[line],
        reference,
    ]
    chrf = CHRF().sentence_score(spoiled.hypotheses[line], [reference]).score
    assert table.rows[0][5] == pytest.approx(chrf)
    assert table.rows[0][-1] == pytest.approx(100 - chrf)


@pytest.mark.parametrize("sign", [1, -1])
def test_ngrams_are_ranked_by_their_share_of_matches(files: Study, sign: int) -> None:
    files.subjects = files.subjects[1:][::sign]
    table = compare_tables(files, shown=3)[2]
    first, other = (ngram_matches(files, subject) for subject in files.subjects)
    for better, ngram, one, two, wanted, share in table.rows:
        words = tuple(str(ngram).split())
        assert better == "perfect.en"
        assert (one, two) == (first[words], other[words])
        assert (one, two)[::sign][1] == wanted
        assert share == pytest.approx((other[words] + 1) / (first[words] + other[words] + 2))
    every = [(other[n] + 1) / (first[n] + other[n] + 2) for n in first.keys() | other.keys()]
    assert [row[5] for row in table.rows] == sorted(every, reverse=sign == 1)[:3]


def test_words_that_cannot_be_seen_are_named_by_their_code_points(tmp_path: Path) -> None:
    emoji = "\U0001f468\u200d\U0001f469 \u2764\ufe0f "  # two people, a red heart
    for name, line in (("reference", emoji), ("base", "dog"), ("better", emoji)):
        (tmp_path / f"{name}.en").write_text(f"{line}\n" * 3, encoding="utf-8")
    files = [tmp_path / f"{name}.en" for name in ("base", "better")]
    study = load_file_study(TextFiles(None, [tmp_path / "reference.en"], files))
    ngrams = [row[1] for row in compare_tables(study)[2].rows]
    assert {"U+200D", "U+FE0F", "\u2764", "\U0001f468 U+200D", "\U0001f469"} <= set(ngrams)


def test_matches_of_several_seeds_are_means_with_equal_digits(
    corpus: PreparedCorpus, run_on: Callable[..., Run], files: Study
) -> None:
    runs = [
        run_on(corpus, f"seed-{seed}", weights_seed=seed, config={"training": {"seed": seed}})
        for seed in (1, 2)
    ]
    file = files.subjects[-1].members[0]
    study = load_study(runs, "test", ON_CPU)
    study.subjects.append(replace(files.subjects[-1], members=[file], index=1))
    rows = shown_table(compare_tables(study, shown=3)[2])[1]
    assert all(row[2].endswith((".0", ".5")) and row[3].isdecimal() for row in rows)


def test_systems_without_seeds_take_the_deviation_of_those_that_have_some(files: Study) -> None:
    """As for ``jtrans score``: without it their difference would seem more certain."""
    _run, spoiled, perfect = files.subjects
    members = [*spoiled.members, *perfect.members]
    several, p_values = replace(perfect, name="seeds", members=members), []
    for subjects in ([spoiled, perfect], [spoiled, perfect, several]):
        files.subjects = [replace(each, index=i) for i, each in enumerate(subjects)]
        p_values.append(compare_tables(files)[0].rows[0][-1])
    assert p_values[0] < p_values[1]  # type: ignore[operator]


def test_one_system_cannot_be_compared(corpus: PreparedCorpus, run_on: Callable[..., Run]) -> None:
    with pytest.raises(ConfigError, match="only one system: run"):
        compare_tables(load_study([run_on(corpus)], "test", ON_CPU))
