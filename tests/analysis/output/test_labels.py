"""Labels that fit: widths, cuts and the names of many systems."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtrans.analysis.output.labels import (
    fit,
    fitted_names,
    short_names,
    shorten,
    text_width,
    with_signs,
    wrap,
)


@given(st.text(max_size=80), st.integers(3, 60))
def test_a_cut_text_is_short_and_keeps_both_ends(text: str, most: int) -> None:
    cut = shorten(text, most)
    assert len(cut) == min(len(text), most)
    assert cut == text or ("…" in cut and text.startswith(cut[: cut.index("…")]))


@given(st.text(min_size=4, max_size=300), st.integers(60, 300))
def test_a_fitted_text_is_no_wider_than_its_place(text: str, width: int) -> None:
    assert text_width(fit(text, width)) <= width


@pytest.mark.parametrize("text", ["Donau" * 2000, "字" * 500, "نظام" * 300])
def test_even_the_longest_word_fits(text: str) -> None:
    assert text_width(fit(text, 120, is_bold=True), is_bold=True) <= 120


def test_combining_marks_take_no_room() -> None:
    assert text_width("e\u0301") == text_width("e")


def test_short_names_stay() -> None:
    assert short_names(["a/base", "a/fast"], 10) == ["a/base", "a/fast"]


def test_long_names_lose_the_beginning_they_share() -> None:
    names = ["experiment-2026-large", "experiment-2026-small"]
    assert short_names(names, 6) == ["…large", "…small"]


def test_long_names_keep_as_much_of_what_they_share_as_there_is_room_for() -> None:
    name = "A-very-long-name-of-a-transformer-base-model-with-label-smoothing-0.1-seed-"
    names = [f"{name}{seed}.en" for seed in range(4)]
    assert short_names(names) == [f"…smoothing-0.1-seed-{seed}.en" for seed in range(4)]
    assert fitted_names(names, 130, 9) == [f"…0.1-seed-{seed}.en" for seed in range(4)]
    assert short_names(names, 4) == [f"…{seed}…n" for seed in range(4)]


def test_a_cut_name_keeps_its_seeds() -> None:
    assert short_names(["transformer-small-and-cold (seeds 1–3)"]) == ["transformer-s… (seeds 1–3)"]


def test_names_that_differ_in_the_middle_stay_different() -> None:
    names = ["other", *(f"experiment-2026-{size}-vocabulary-en.txt" for size in ("large", "small"))]
    short = short_names(names, 20)
    assert len(set(short)) == 3
    assert max(map(len, short)) <= 20


def test_names_that_do_not_fit_with_their_seeds_are_told_apart_without() -> None:
    names = [f"{name}-2m (seeds 1–3)" for name in ("transformer", "reformer-base", "reformer-fast")]
    assert fitted_names(names, 400) == [names[0], *short_names(names)[1:]]
    assert fitted_names(names, 150) == ["transformer-2m", "reformer-base-2m", "reformer-fast-2m"]


def test_seeds_that_tell_systems_apart_are_kept() -> None:
    names = ["transformer (seeds 1–3)", "transformer (seeds 4–6)"]
    first, second = fitted_names(names, 150)
    assert first.endswith("(seeds 1–3)") and second.endswith("(seeds 4–6)")


def test_lines_break_at_spaces() -> None:
    lines = wrap("times in the training data; n: number of reference words", 150)
    assert len(lines) > 1
    assert " ".join(lines) == "times in the training data; n: number of reference words"
    assert all(text_width(line) <= 150 for line in lines)


def test_only_numbers_have_signs_of_maths() -> None:
    assert with_signs("-8.2 [-9.0, -7.1] (p <= 0.001)") == "−8.2 [−9.0, −7.1] (p ≤ 0.001)"
    kept = "run-2 of 2026-11-30: a <= b, x -y"
    assert with_signs(kept) == kept
