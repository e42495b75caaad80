"""Several systems side by side."""

from __future__ import annotations

import itertools
import statistics
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jtrans.errors import ConfigError, CorpusError
from jtrans.evaluation.bleu import multi_bleu
from jtrans.evaluation.systems import (
    ALL_METRICS,
    Evaluation,
    SystemOutput,
    check_metrics,
    evaluate,
)

REFERENCES = ["the dog reads a long book .", "a cat runs very fast .", "birds sing in the tree ."]
GOOD = ["the dog reads a long book .", "a cat runs fast .", "birds sing in the tree ."]
BAD = ["the dog reads", "cat cat cat", "birds in a tree"]


def _output(name: str, lines: list[str], group: str | None = None) -> SystemOutput:
    words = [[line.split() for line in REFERENCES]]
    return SystemOutput(name, lines, [line.split() for line in lines], words, group)


def _evaluate(*outputs: SystemOutput, metrics: list[str], **more: Any) -> Evaluation:
    return evaluate(
        outputs, [REFERENCES], metrics=metrics, target_language="en", lowercase=False, **more
    )


def test_every_metric_asked_for_is_computed() -> None:
    outputs = [_output("good", GOOD), _output("bad", BAD)]
    evaluation = _evaluate(*outputs, metrics=["chrf", "multi-bleu"])
    good, bad = evaluation.systems
    assert list(good.scores) == ["chrf"]
    assert good.value("chrf") > bad.value("chrf")
    assert good.interval("chrf") is not None
    assert good.interval("multi-bleu") is None
    tokenised = multi_bleu([line.split() for line in GOOD], [[line.split() for line in REFERENCES]])
    assert good.value("multi-bleu") == tokenised.score
    [signature] = evaluation.signatures
    assert signature.startswith("chrF2|")
    assert evaluation.references == 1


def test_no_metric_counts_case_on_request() -> None:
    loud = _output("loud", [line.upper() for line in REFERENCES])
    options: dict[str, Any] = {"metrics": ALL_METRICS, "target_language": "en", "lowercase": True}
    [system] = evaluate([loud], [REFERENCES], **options).systems
    assert [system.value(metric) for metric in ALL_METRICS] == pytest.approx([100, 100, 0, 100])


def test_the_ends_of_an_interval_are_percentiles_of_the_drawn_test_sets() -> None:
    evaluation = _evaluate(_output("good", GOOD), metrics=["bleu", "ter", "multi-bleu"])
    [good], [group] = evaluation.systems, evaluation.groups
    for metric in ("bleu", "ter"):
        expected = np.percentile(good.scores[metric].drawn, [2.5, 97.5])
        assert good.ends(metric) == group.ends(metric) == pytest.approx(tuple(expected))
    low, high = good.ends("bleu") or (0, 0)
    assert high == 100 > good.value("bleu") + 1 and low < good.value("bleu")
    assert good.ends("multi-bleu") is None


def test_seeds_do_not_widen_an_interval_beyond_the_limits_of_its_metric() -> None:
    outputs = [_output("a", GOOD, "same"), _output("b", BAD, "same")]
    [group] = _evaluate(*outputs, metrics=["chrf"]).groups
    assert group.ends("chrf") == (0, 100)
    lines = ["the dog reads a long book ."]
    single = evaluate(
        [_output("single", lines)], [lines], metrics=["bleu"], target_language="en", lowercase=False
    )
    assert single.systems[0].ends("bleu") is None


def test_multi_bleu_alone_and_a_single_system_need_no_comparison() -> None:
    outputs = [_output("good", GOOD), _output("bad", BAD)]
    assert _evaluate(*outputs, metrics=["multi-bleu"]).paired == []
    assert _evaluate(outputs[0], metrics=["bleu"]).paired == []
    [pair] = _evaluate(*outputs, metrics=["chrf"]).paired
    assert (pair.baseline, pair.system, pair.is_better) == ("good", "bad", False)


def test_systems_of_a_group_are_averaged() -> None:
    outputs = [_output("a", GOOD, "same"), _output("b", BAD, "same"), _output("c", GOOD, "other")]
    evaluation = _evaluate(*outputs, metrics=["chrf"])
    first, single = evaluation.groups
    values = [evaluation.systems[0].value("chrf"), evaluation.systems[1].value("chrf")]
    assert first.names == ["a", "b"]
    assert first.mean("chrf") == pytest.approx(statistics.mean(values))
    assert first.deviation("chrf") == pytest.approx(statistics.stdev(values))
    assert single.mean("chrf") == evaluation.systems[2].value("chrf")
    assert single.deviation("chrf") is None


def test_systems_without_a_group_stand_alone_whatever_their_names() -> None:
    outputs = [_output("same", GOOD), _output("same", BAD)]
    assert [len(group.members) for group in _evaluate(*outputs, metrics=["chrf"]).groups] == [1, 1]


def test_groups_are_compared_and_sister_seeds_are_not() -> None:
    outputs = [_output("a", GOOD, "x"), _output("b", BAD, "x"), _output("c", BAD, "y")]
    [pair] = _evaluate(*outputs, metrics=["chrf"]).paired
    assert (pair.baseline, pair.system, pair.index) == ("x", "y", 1)
    assert (pair.baseline_runs, pair.system_runs) == (2, 1)
    assert pair.resampled == "sentences and seeds"
    values = [system.value("chrf") for system in _evaluate(*outputs, metrics=["chrf"]).systems]
    assert pair.difference == pytest.approx(values[2] - (values[0] + values[1]) / 2)
    assert _evaluate(*outputs[:2], metrics=["chrf"]).paired == []


def test_checkpoints_of_one_run_are_no_seeds() -> None:
    outputs = [_output("a@1", GOOD, "a"), _output("a@2", BAD, "a"), _output("b@1", BAD, "b")]
    of_runs = [replace(output, run=output.group) for output in outputs]
    evaluation = _evaluate(*of_runs, metrics=["chrf"])
    [pair] = evaluation.paired
    assert (pair.baseline_runs, pair.system_runs, pair.resampled) == (1, 1, "sentences")
    values = [system.value("chrf") for system in evaluation.systems]
    assert pair.difference == pytest.approx(values[2] - statistics.mean(values[:2]))
    window = evaluation.groups[0]
    assert window.deviation("chrf") == pytest.approx(statistics.stdev(values[:2]))
    as_seeds = _evaluate(*outputs, metrics=["chrf"]).groups[0].interval("chrf")
    interval = window.interval("chrf")
    assert interval is not None and as_seeds is not None and interval < as_seeds


def test_a_run_counts_once_however_many_checkpoints_it_has() -> None:
    texts = {"a@1": GOOD, "a@2": BAD, "a@3": BAD, "b@1": GOOD}
    outputs = [
        replace(_output(name, lines, "system"), run=name[0]) for name, lines in texts.items()
    ]
    [group] = _evaluate(*outputs, metrics=["chrf"]).groups
    assert [(run.name, run.names) for run in group.runs] == [
        ("a", ["a@1", "a@2", "a@3"]),
        ("b", ["b@1"]),
    ]
    means = [run.mean("chrf") for run in group.runs]
    assert means[0] == pytest.approx(statistics.mean(s.value("chrf") for s in group.members[:3]))
    assert group.mean("chrf") == pytest.approx(statistics.mean(means))
    assert group.deviation("chrf") == pytest.approx(statistics.stdev(means))
    sample = group.sample("chrf")
    assert sample.runs == 2
    assert sample.drawn[0] == pytest.approx(group.runs[0].sample("chrf").drawn[0])


def test_runs_used_in_several_ways_lend_their_variance_once() -> None:
    def output(name: str, lines: list[str], group: str, run: str) -> SystemOutput:
        return replace(_output(name, lines, group), trained=run)

    pair = [output("a", GOOD, "a", "a"), output("b", BAD, "b", "b")]
    searches = [
        [output(f"{run} {beam}", lines, f"c {beam}", run) for run, lines in seeds]
        for beam, seeds in enumerate([[("c1", GOOD), ("c2", BAD)]] * 4)
    ]
    tests = [
        _evaluate(*pair, *itertools.chain(*searches[:count]), metrics=["chrf"]).paired[0]
        for count in (0, 1, 4)
    ]
    assert tests[0].p_value != tests[1].p_value == tests[2].p_value


@pytest.mark.parametrize("metrics", [["bleu"], ["multi-bleu"]])
def test_systems_of_another_length_are_refused_with_both_counts(metrics: list[str]) -> None:
    with pytest.raises(CorpusError, match="2 translations but 3 references"):
        _evaluate(_output("good", GOOD), _output("short", BAD[1:]), metrics=metrics)


def test_metrics_are_checked_and_not_repeated() -> None:
    assert check_metrics(["bleu", "ter", "bleu"]) == ["bleu", "ter"]
    for name, near in {"multibleu": "multi-bleu", "blue": "bleu"}.items():
        with pytest.raises(ConfigError, match=f"unknown metric '{name}'") as caught:
            check_metrics(["bleu", name])
        assert caught.value.hint == f"did you mean {near}?"
    with pytest.raises(ConfigError):
        check_metrics([])
