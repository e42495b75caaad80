"""Names of systems: unique, and honest about groups of seeds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtrans.errors import ConfigError
from jtrans.evaluation.names import distinct_names, file_names, group_names

PART = st.text("ab-1.", min_size=1, max_size=3).filter(lambda part: part.strip(".") != "")
PATHS = st.lists(st.lists(PART, min_size=1, max_size=3).map("/".join), unique=True, min_size=1)


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["x/out.en", "y/out.en"], ["x/out.en", "y/out.en"]),
        (["x/a.en", "y/b.en"], ["a.en", "b.en"]),
        (["k/x/o", "l/x/o", "l/y/o"], ["k/x/o", "l/x/o", "y/o"]),
        (["/o", "/x/o"], ["/o", "x/o"]),
    ],
)
def test_equal_names_get_the_shortest_ending_that_differs(
    paths: list[str], names: list[str]
) -> None:
    places = [Path(path) for path in paths]
    assert distinct_names([place.name for place in places], places) == names


@given(PATHS)
def test_names_are_distinct(paths: list[str]) -> None:
    places = [Path("/", path) for path in paths]
    names = distinct_names([place.name for place in places], places)
    assert len(set(names)) == len(names)


def test_files_of_different_systems_do_not_overwrite_each_other() -> None:
    assert file_names(["a/b", "a-b", "c"]) == ["a-b", "a-b (2)", "c"]


def test_a_path_given_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"b\.en is given twice"):
        distinct_names(["a.en", "b.en", "b.en"], [Path("a.en"), Path("b.en"), Path("x/../b.en")])


@pytest.mark.parametrize(
    ("groups", "names"),
    [
        ([["base-11", "base-12", "base-13"], ["x"]], ["base (seeds 1–3)", "x"]),
        (
            [["exp1", "exp2"], ["exp3", "exp4"]],
            ["exp1+exp2 (seeds 1, 2)", "exp3+exp4 (seeds 1, 2)"],
        ),
        ([["e-1", "e-2"], ["e-3", "e-4"]], ["e-1+e-2 (seeds 1, 2)", "e-3+e-4 (seeds 1, 2)"]),
        ([["base-1", "base-2"], ["base"]], ["base-1+base-2 (seeds 1, 2)", "base"]),
        ([["b/seed-1", "b/seed-2"], ["c"]], ["b (seeds 1, 2)", "c"]),
        ([["s1/base", "s2/base"], ["fast"]], ["base (seeds 1, 2)", "fast"]),
        ([["k/s1/base", "k/s2/base"]], ["k/…/base (seeds 1, 2)"]),
        ([["a/exp1", "a/exp2"], ["a/other"]], ["a/exp1+a/exp2 (seeds 1, 2)", "a/other"]),
        ([["e1", "e2", "e3", "e4"]], ["e1+…+e4 (seeds 1–4)"]),
    ],
)
def test_a_group_has_a_name_of_its_own_and_says_its_seeds(
    groups: list[list[str]], names: list[str]
) -> None:
    seeds = [list(range(1, len(group) + 1)) for group in groups]
    assert group_names(groups, seeds) == names


@given(PATHS, st.lists(st.integers(1, 4), min_size=1))
def test_names_of_groups_are_distinct(paths: list[str], sizes: list[int]) -> None:
    groups: list[list[str]] = []
    left = list(paths)
    for size in [*sizes, len(paths)]:
        groups += [left[:size]] if left else []
        left = left[size:]
    names = group_names(groups, [[1] * len(group) for group in groups])
    assert len(set(names)) == len(names)


def test_names_that_look_the_same_are_told_apart() -> None:
    one, two = ("a/n\u00fc.en", "b/nu\u0308.en")
    assert distinct_names(["n\u00fc.en", "nu\u0308.en"], [Path(one), Path(two)]) == [
        "a/n\u00fc.en",
        "b/n\u00fc.en",
    ]
