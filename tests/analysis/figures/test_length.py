"""Length ratio, sentence score and BLEU by source length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU

from jtrans.analysis.figures.bins import AS_IN_PAPER, Binning
from jtrans.analysis.figures.length import closest_length, length_figures, sentence_score
from jtrans.analysis.figures.results import Figure
from jtrans.analysis.study.load_files import load_file_study
from jtrans.analysis.study.members import TextFiles
from jtrans.analysis.study.study import Study, Subject


def test_a_perfect_sentence_has_score_one() -> None:  # Q5
    words = ["a", "b", "c", "d", "e"]
    assert sentence_score(words, [words]) == pytest.approx(1)
    assert sentence_score(["a"], [["a"]]) == pytest.approx(1)


def test_the_sentence_score_is_the_formula_by_hand() -> None:
    # c = 4, r = 6; matches 3, 1, 0, 0 of 4, 3, 2, 1 n-grams
    hypothesis, reference = ["a", "b", "x", "d"], ["a", "b", "c", "d", "e", "f"]
    logs = math.log(4 / 5) + math.log(2 / 4) + math.log(1 / 3) + math.log(1 / 2)
    expected = math.exp(logs / 4 + 1 - 6 / 4)
    assert sentence_score(hypothesis, [reference]) == pytest.approx(expected)


def test_several_references_give_the_most_matches_and_the_shortest_length() -> None:
    references = [["a", "b", "c", "d", "e", "f", "g"], ["a", "x"]]
    # longer than the shortest reference: no penalty; matches 3, 1, 0 of 3, 2, 1
    logs = math.log(4 / 4) + math.log(2 / 3) + math.log(1 / 2) + math.log(1 / 1)
    assert sentence_score(["a", "b", "x"], references) == pytest.approx(math.exp(logs / 4))


def test_an_empty_line_counts_as_one_empty_word() -> None:
    expected = math.exp(math.log(1 / 2) / 4 + 1 - 3)
    assert sentence_score([], [["a", "b", "c"]]) == pytest.approx(expected)
    assert math.isfinite(sentence_score(["a"], [[]]))


def test_the_closest_reference_is_taken_the_shorter_of_two_as_near() -> None:
    references = [["x"] * n for n in (3, 5, 9)]
    assert closest_length(4, references) == 3
    assert closest_length(8, references) == 9


def _figures(study: Study, binning: Binning = AS_IN_PAPER) -> dict[str, Figure]:
    return {f.name: f for f in length_figures(study, binning) if isinstance(f, Figure)}


def test_the_ratio_is_words_over_words(study: Study) -> None:
    figure = _figures(study)["length-ratio"]
    for subject, series in zip(study.subjects, figure.series, strict=True):
        given = sum(map(len, subject.members[0].hypothesis_words))
        assert series.values == [pytest.approx(given / sum(map(len, study.reference_words)))]
        assert series.low[0] is not None and series.high[0] is not None
        assert series.low[0] <= series.values[0] <= series.high[0]  # type: ignore[operator]


def test_bleu_of_each_bin_is_sacrebleu_of_its_lines(study: Study) -> None:
    figure = _figures(study, Binning(edges=(1, 3)))["length-bleu"]
    assert figure.bins == ["1", "2–3", ">3"]
    for subject, series in zip(study.subjects, figure.series, strict=True):
        for place, inside in enumerate((range(2), range(2, 4), range(4, 99))):
            chosen = [
                i for i, words in enumerate(study.text.length_side.words) if len(words) in inside
            ]
            lines = [subject.hypotheses[i] for i in chosen]
            references = [study.reference_lines[i] for i in chosen]
            expected = BLEU(force=True).corpus_score(lines, [references]).score
            if max(len(line.split()) for line in [*lines, *references]) < 4:
                assert series.values[place] is None
            else:
                assert series.values[place] == pytest.approx(expected)
            assert figure.counts[place] == len(chosen)


def test_sentence_scores_are_averaged_in_their_bin(study: Study) -> None:
    figure = _figures(study, Binning(edges=(2,)))["length-score"]
    chosen = [i for i, words in enumerate(study.text.length_side.words) if len(words) >= 3]
    words = study.subjects[0].members[0].hypothesis_words
    scores = [sentence_score(words[i], [study.reference_words[i]]) for i in chosen]
    assert figure.series[0].values[1] == pytest.approx(sum(scores) / len(scores))


def test_bins_without_sentences_have_no_data(study: Study) -> None:
    for name, figure in _figures(study).items():
        if name in ("length-ratio", "length-difference"):
            continue
        assert figure.counts == [12, 0, 0, 0, 0]
        assert figure.series[0].values[1:] == [None] * 4
        assert figure.series[0].low[1:] == figure.series[0].high[1:] == [None] * 4


@pytest.fixture
def six(tmp_path: Path) -> Study:
    """A file of six translations, by their numbers of words."""
    return _of_lengths(tmp_path, [5, 5, 30, 12, 3, 4], [5, 6, 5, 24, 1, 4])


def _of_lengths(folder: Path, references: Sequence[int], hypotheses: Sequence[int]) -> Study:
    paths = [folder / "reference.en", folder / "system.en"]
    for path, lengths in zip(paths, (references, hypotheses), strict=True):
        path.write_text(
            "".join(f"{' '.join(['dog'] * length)}\n" for length in lengths), encoding="utf-8"
        )
    return load_file_study(TextFiles(None, paths[:1], paths[1:]))


def _shares(figure: Figure) -> dict[str, float | None]:
    values = zip(figure.bins, figure.series[0].values, strict=True)
    return {label: share for label, share in values if share}


def test_length_differences_are_shares_of_the_sentences(six: Study) -> None:
    figure = _figures(six)["length-difference"]
    assert _shares(figure) == {  # 0, 1, -25, 12, -2, 0
        "<-20": 1 / 6,
        "-2": 1 / 6,
        "0": 2 / 6,
        "1": 1 / 6,
        "11 to 20": 1 / 6,
    }
    assert figure.series[0].low[figure.bins.index("0")] == 0.0
    assert (figure.counts, figure.total, figure.count_label) == ([], 6, "sentences")


def test_length_differences_have_the_bins_of_compare_mt(tmp_path: Path) -> None:
    ends = {
        "<-20": [-21],
        "-20 to -11": [-20, -11],
        "-10 to -6": [-10, -6],
        "-5": [-5],
        "5": [5],
        "6 to 10": [6, 10],
        "11 to 20": [11, 20],
        ">20": [21],
    }
    lengths = [25 + difference for pair in ends.values() for difference in pair]
    figure = _figures(_of_lengths(tmp_path, [25] * 12, lengths))["length-difference"]
    assert _shares(figure) == {label: pytest.approx(len(d) / 12) for label, d in ends.items()}
    assert len(figure.bins) == 17


def test_length_differences_are_to_the_closest_reference(six: Study) -> None:
    second = ["dog " * length for length in (9, 6, 4, 4, 9, 9)]
    six.text = replace(six.text, references=[*six.text.references, second])
    figure = _figures(six)["length-difference"]
    assert _shares(figure) == {"-2": 1 / 6, "0": 3 / 6, "1": 1 / 6, "11 to 20": 1 / 6}


def test_shares_of_seeds_are_means_with_their_spread(six: Study, tmp_path: Path) -> None:
    perfect = _of_lengths(tmp_path, [5, 5, 30, 12, 3, 4], [5, 5, 30, 12, 3, 4])
    members = [*six.subjects[0].members, *perfect.subjects[0].members]
    six.subjects = [Subject("two seeds", members, 0)]
    figure = _figures(six)["length-difference"]
    place = figure.bins.index("0")
    assert figure.series[0].values[place] == pytest.approx((2 / 6 + 1) / 2)
    assert figure.series[0].spread[place] == pytest.approx((1 - 2 / 6) / math.sqrt(2))


def test_further_references_count_in_all_figures(study: Study) -> None:
    text = study.text
    hypotheses = study.subjects[0].hypotheses
    study.text = replace(text, references=[*text.references, hypotheses])
    ratio, difference, score, bleu = _figures(study, Binning(edges=(1,))).values()
    assert ratio.series[0].values == [1]
    assert _shares(difference) == {"0": 1.0}
    assert score.series[0].values == [pytest.approx(1)] * 2
    longest = [i for i, line in enumerate(study.text.length_side.words) if len(line) >= 2]
    sets = [[lines[i] for i in longest] for lines in (hypotheses, text.reference_lines, hypotheses)]
    expected = BLEU(force=True).corpus_score(sets[0], sets[1:]).score
    assert bleu.series[0].values[1] == pytest.approx(expected)


def test_a_missing_reference_does_not_count_as_one_without_words(study: Study) -> None:
    lines = [" ".join(words * 9) for words in study.text.reference_words]
    study.text = replace(study.text, references=[lines])
    whole = _figures(study, Binning(edges=(1,)))
    blank = [""] * len(study)
    study.text = replace(study.text, references=[lines, blank])
    assert [figure.series for figure in _figures(study, Binning(edges=(1,))).values()] == [
        figure.series for figure in whole.values()
    ]


def test_the_interval_of_a_single_sentence_with_4_grams_reaches_down_to_0(study: Study) -> None:
    only = next(i for i, line in enumerate(study.reference_lines) if len(line.split()) > 3)
    lines = [line if i == only else line[:1] for i, line in enumerate(study.reference_lines)]
    study.reference_lines, study.text = lines, replace(study.text, references=[lines])
    study.subjects = [Subject("perfect", [_Perfect(study)], 0)]  # type: ignore[list-item]
    figure = _figures(study, Binning(edges=(99,)))["length-bleu"]
    assert figure.series[0].values[0] == pytest.approx(100)
    assert figure.series[0].low[0] == 0


def test_a_bin_without_4_grams_has_no_bleu_even_if_perfect(study: Study) -> None:
    study.subjects = [Subject("perfect", [_Perfect(study)], 0)]  # type: ignore[list-item]
    figure = _figures(study, Binning(edges=(3,)))["length-bleu"]
    assert figure.series[0].values == [None, pytest.approx(100)]
    assert figure.series[0].low[0] is None
    assert "no data" in figure.note


class _Perfect:
    run = None
    name = "perfect"

    def __init__(self, study: Study) -> None:
        self.hypotheses = list(study.reference_lines)
        self.hypothesis_words = list(study.reference_words)
