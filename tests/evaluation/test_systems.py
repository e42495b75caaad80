"""Several systems side by side."""

from __future__ import annotations

import statistics

import pytest

from jtrans.errors import ConfigError
from jtrans.evaluation.bleu import multi_bleu
from jtrans.evaluation.systems import (
    System,
    check_metrics,
    compare_systems,
    group_by_seed,
    score_systems,
)

REFERENCES = ["the dog reads a long book .", "a cat runs very fast .", "birds sing in the tree ."]
GOOD = ["the dog reads a long book .", "a cat runs fast .", "birds sing in the tree ."]
BAD = ["the dog reads", "cat cat cat", "birds in a tree"]


def _system(name: str, lines: list[str]) -> System:
    words = [[line.split() for line in REFERENCES]]
    return System(name, lines, [line.split() for line in lines], words)


def test_every_metric_asked_for_is_computed() -> None:
    systems = [_system("good", GOOD), _system("bad", BAD)]
    good, bad = score_systems(
        systems,
        [REFERENCES],
        metrics=["chrf", "multi-bleu"],
        target_language="en",
        lowercase=False,
    )
    assert list(good.scores) == ["chrf"]
    assert good.value("chrf") > bad.value("chrf")
    own = multi_bleu([line.split() for line in GOOD], [[line.split() for line in REFERENCES]])
    assert good.value("multi-bleu") == own.score


def test_multi_bleu_alone_needs_no_comparison() -> None:
    systems = [_system("good", GOOD), _system("bad", BAD)]
    options = {"target_language": "en", "lowercase": False}
    assert compare_systems(systems, [REFERENCES], metrics=["multi-bleu"], **options) == []  # type: ignore[arg-type]
    assert compare_systems(systems[:1], [REFERENCES], metrics=["bleu"], **options) == []  # type: ignore[arg-type]
    [pair] = compare_systems(systems, [REFERENCES], metrics=["chrf"], **options)  # type: ignore[arg-type]
    assert (pair.baseline, pair.system, pair.is_better) == ("good", "bad", False)


def test_systems_that_share_a_key_are_averaged() -> None:
    systems = [_system("a", GOOD), _system("b", BAD), _system("c", GOOD)]
    scores = score_systems(
        systems, [REFERENCES], metrics=["chrf"], target_language="en", lowercase=False
    )
    [group] = group_by_seed(scores, ["same", "same", "other"], ["chrf"])
    values = [scores[0].value("chrf"), scores[1].value("chrf")]
    assert group.names == ["a", "b"]
    assert group.means["chrf"] == pytest.approx(statistics.mean(values))
    assert group.deviations["chrf"] == pytest.approx(statistics.stdev(values))


def test_metrics_are_checked_and_not_repeated() -> None:
    assert check_metrics(["bleu", "ter", "bleu"]) == ["bleu", "ter"]
    with pytest.raises(ConfigError) as caught:
        check_metrics(["bleu", "multibleu"])
    assert caught.value.hint == "did you mean multi-bleu?"
    with pytest.raises(ConfigError):
        check_metrics([])
