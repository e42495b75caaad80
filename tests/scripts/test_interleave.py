"""Variants of a benchmark take turns, and one that fails does not end the others."""

from __future__ import annotations

import functools
import operator
from typing import Any

import pytest

from scripts.bench.interleave import Task, Variant, in_turns, rows, spread

# functions of the library, which another process can import
count: Any = functools.partial(dict.fromkeys, ("tokens",))
count_tokens = functools.partial(Task, count)
cannot_begin = functools.partial(operator.truediv, 1, 0)
cannot_work = functools.partial(Task, functools.partial(operator.truediv, 1.0, "a"))


@pytest.mark.sample(1)
@pytest.mark.parametrize("failing", [cannot_begin, cannot_work])
def test_a_variant_that_fails_is_named_and_left_out(
    failing: Variant, capsys: pytest.CaptureFixture[str]
) -> None:
    variants: dict[str, Variant] = {"first": count_tokens, "bad": failing, "last": count_tokens}
    rounds_of = in_turns(variants, rounds=2, drops_failing=True)
    assert [(name, len(rounds)) for name, rounds in rounds_of.items()] == [
        ("first", 2),
        ("last", 2),
    ]
    assert [row["variant"] for row in rows(rounds_of, "tokens")] == ["first", "last"]
    assert "bad failed and is left out: " in capsys.readouterr().err


def test_without_the_first_variant_there_is_no_comparison() -> None:
    with pytest.raises(RuntimeError, match="first failed: ZeroDivisionError"):
        in_turns({"first": cannot_begin, "last": count_tokens}, rounds=1, drops_failing=True)


def test_a_failure_ends_a_benchmark_that_needs_all_variants() -> None:
    with pytest.raises(RuntimeError, match="bad failed: ZeroDivisionError"):
        in_turns({"first": count_tokens, "bad": cannot_begin}, rounds=1)


def test_as_many_ratios_lie_below_the_spread_as_above() -> None:
    ratios = [float(each) for each in range(6)]
    assert spread(ratios) == {"median": 2.5, "low": 0.0, "high": 5.0}
    assert spread([float(each) for each in range(11)]) == {"median": 5.0, "low": 1.0, "high": 9.0}
