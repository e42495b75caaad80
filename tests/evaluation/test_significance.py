"""Paired bootstrap resampling of systems against a baseline."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import pytest

from jtrans.evaluation.scores import METRICS, sacrebleu_scores
from jtrans.evaluation.significance import PairedResult, p_text
from jtrans.evaluation.systems import SystemOutput, evaluate

ANIMALS = ["dog", "cat", "horse", "bird", "cow", "sheep", "goat", "duck"]
REFERENCE = [
    f"the {a} and the {b} are running through the old town ." for a in ANIMALS for b in ANIMALS
]
POOR = [line.replace("are running through", "go in") for line in REFERENCE]
# wrong in two lines only, one to the better and one to the worse: chance
LUCKY = [*POOR[:1], REFERENCE[1], "nothing at all", *POOR[3:]]


def compare(
    *systems: tuple[str, list[str]],
    references: Sequence[list[str]] = (REFERENCE,),
    metrics: Sequence[str] = METRICS,
) -> list[PairedResult]:
    return evaluate(
        [SystemOutput(name, lines, [], []) for name, lines in systems],
        references,
        metrics=metrics,
        target_language="en",
        lowercase=False,
    ).paired


def test_a_system_better_in_every_line_is_significantly_better_in_every_metric() -> None:
    results = compare(("poor", POOR), ("perfect", REFERENCE))
    assert [result.metric for result in results] == ["BLEU", "chrF2", "TER"]
    assert all(result.p_value == pytest.approx(1 / 1001) for result in results)
    assert all(result.is_better for result in results)


def test_a_system_worse_in_every_line_is_significantly_worse() -> None:
    results = compare(("perfect", REFERENCE), ("poor", POOR))
    assert all(result.p_value == pytest.approx(1 / 1001) for result in results)
    assert not any(result.is_better for result in results)


def test_a_difference_of_two_lines_is_not_significant() -> None:
    results = compare(("poor", POOR), ("lucky", LUCKY))
    assert all(result.difference and result.p_value > 0.05 for result in results)


def test_identical_systems_do_not_differ() -> None:
    for result in compare(("one", POOR), ("two", list(POOR))):
        assert (result.difference, result.p_value, result.is_better) == (0, 1, False)


def test_a_significant_difference_that_rounds_to_nothing_is_given_a_bound() -> None:
    (result,) = compare(("perfect", REFERENCE), ("poor", POOR), metrics=["bleu"])
    assert (
        "worse than perfect by less than 0.05 BLEU" in replace(result, difference=-0.049).describe()
    )
    assert "worse than perfect by 0.1 BLEU" in replace(result, difference=-0.051).describe()
    equal = replace(result, difference=-0.01, p_value=0.5).describe()
    assert "do not differ significantly in BLEU: +0.0 (" in equal


def test_differences_are_those_of_the_scores() -> None:
    first, other = (
        sacrebleu_scores([lines], [REFERENCE], target_language="en")[0] for lines in (POOR, LUCKY)
    )
    expected = [b.value - a.value for a, b in zip(first, other, strict=True)]
    results = compare(("poor", POOR), ("lucky", LUCKY))
    assert [result.difference for result in results] == pytest.approx(expected)


def test_every_system_is_compared_with_the_first() -> None:
    results = compare(("poor", POOR), ("lucky", LUCKY), ("perfect", REFERENCE), metrics=["bleu"])
    pairs = [(result.baseline, result.system, result.samples) for result in results]
    assert pairs == [("poor", "lucky", 1000), ("poor", "perfect", 1000)]


def test_a_system_gets_the_same_result_whoever_else_takes_part() -> None:
    alone = compare(("poor", POOR), ("lucky", LUCKY))
    together = compare(("poor", POOR), ("perfect", REFERENCE), ("lucky", LUCKY))
    assert [replace(result, index=1) for result in together[3:]] == alone


def test_the_seed_in_the_environment_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = compare(("poor", POOR), ("lucky", LUCKY))
    monkeypatch.setenv("SACREBLEU_SEED", "99")
    assert compare(("poor", POOR), ("lucky", LUCKY)) == before
    assert os.environ["SACREBLEU_SEED"] == "99"


def test_several_reference_sets_are_used() -> None:
    systems = [("poor", POOR), ("perfect", REFERENCE)]
    (result,) = compare(*systems, references=[REFERENCE, POOR], metrics=["bleu"])
    assert result.difference == pytest.approx(0)
    assert result.p_value == 1


def test_at_the_floor_of_the_resampling_p_is_a_bound() -> None:
    assert p_text(1 / 1001, 1000) == "p <= 0.001"
    assert p_text(2 / 1001, 1000) == "p = 0.002"
    assert p_text(1.45 / 1001, 1000) == "p = 0.001"  # between the two, as tests over seeds have it
    assert p_text(1.0, 1000) == "p = 1.000"
    assert p_text(1 / 101, 100) == "p <= 0.010"


def test_a_shown_p_agrees_with_the_verdict() -> None:
    assert p_text(50 / 1001, 1000) == "p = 0.04995"


def test_five_sentences_decide_nothing() -> None:
    few = slice(0, 5)
    results = compare(("poor", POOR[few]), ("perfect", REFERENCE[few]), references=[REFERENCE[few]])
    assert not any(result.is_significant for result in results)
    assert compare(("a", ["x"]), ("b", ["y"]), references=[["x"]])[0].p_value == 1


def test_marks_tell_better_from_worse_and_from_neither() -> None:
    assert [result.mark for result in compare(("poor", POOR), ("best", REFERENCE))] == ["*"] * 3
    assert [result.mark for result in compare(("best", REFERENCE), ("poor", POOR))] == ["↓"] * 3
    assert [result.mark for result in compare(("poor", POOR), ("lucky", LUCKY))] == [""] * 3


def test_results_survive_json() -> None:
    [result] = compare(("poor", POOR), ("lucky", LUCKY), metrics=["bleu"])
    assert PairedResult.from_json(result.to_json()) == result


@pytest.mark.parametrize(
    ("metric", "is_better"),
    [
        *((name, True) for name in ("BLEU", "COMET", "TermAccuracy", "certainty", "xCOMET-XL")),
        *((name, False) for name in ("TER", "HTER", "CharacTER", "WER", "CER")),
        *((name, False) for name in ("MetricX-24", "MetricX")),
    ],
)
def test_higher_is_better_but_for_error_rates(metric: str, is_better: bool) -> None:
    result = PairedResult(
        difference=0.5, p_value=0.01, samples=1000, baseline="a", system="b", metric=metric
    )
    assert result.is_better == is_better
    assert result.describe().startswith(f"b is {'better' if is_better else 'worse'} than a by")
