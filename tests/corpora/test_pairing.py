"""Two sides with different line counts: where the pairing probably broke."""

from __future__ import annotations

import random

import pytest

from jtrans.corpora.pairing import check_counts, probable_break
from jtrans.errors import CorpusError


def sides(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Make pairs whose lengths agree as those of translations do."""
    random_numbers = random.Random(seed)
    sizes = [random_numbers.randint(5, 120) for _ in range(count)]
    noise = [random_numbers.uniform(0.85, 1.15) for _ in range(count)]
    return ["x" * size for size in sizes], [
        "y" * round(size * factor * 1.1) for size, factor in zip(sizes, noise, strict=True)
    ]


@pytest.mark.parametrize("gap", [1, 2, 5])
@pytest.mark.parametrize("place", [0, 1, 150, 299])
def test_the_gap_is_found_by_the_lengths(gap: int, place: int) -> None:
    for seed in range(5):
        longer, shorter = sides(300, seed)
        place = min(place, 300 - gap)
        del shorter[place : place + gap]
        assert abs(probable_break(longer, shorter) - place) <= 3


def test_the_gap_is_found_by_numbers_and_questions_where_lengths_say_nothing() -> None:
    random_numbers = random.Random(4)
    numbers = [random_numbers.randrange(10_000, 100_000) for _ in range(100)]
    longer = [f"{n // 1000}.{n % 1000:03} Stück" for n in numbers]
    shorter = [f"items: {n // 1000},{n % 1000:03}" for n in numbers]
    assert probable_break(longer, shorter[:40] + shorter[41:]) == 40
    turned = [f"{n // 1000} Stück von {n % 1000:03}" for n in numbers]
    items = [f"of {n % 1000:03} items {n // 1000}" for n in numbers]
    assert probable_break(turned, items[:40] + items[41:]) == 40
    longer, shorter = ["Ja." for _ in range(60)], ["Yes" for _ in range(60)]
    for place in (3, 10, 11, 19, 24, 35, 36, 52):
        longer[place], shorter[place] = "Ja?", "是？"
    assert 11 < probable_break(longer, shorter[:15] + shorter[16:]) <= 19


def test_the_line_and_the_file_that_lacks_it_are_named() -> None:
    source, target = sides(50, seed=1)
    del target[20]
    source[19], target[19] = "x" * 200, "y" * 220
    source[20], source[21], target[20] = "x" * 3, "x" * 90, "y" * 99
    with pytest.raises(CorpusError) as caught:
        check_counts(source, target, ("a.de", "a.en"))
    assert "a.de has 50 lines, a.en has 49" in caught.value.message
    assert "probably breaks at line 21 (line 21 of a.de missing in a.en)" in caught.value.message


def test_a_file_that_ends_too_early_is_told_from_one_with_a_gap() -> None:
    source, target = sides(40, seed=2)
    with pytest.raises(CorpusError) as caught:
        check_counts(source[:30], target, ("a.de", "a.en"))
    assert "the end is missing: a.de from line 31 on" in caught.value.message


def test_an_empty_side_breaks_at_the_beginning() -> None:
    assert probable_break(["a", "b"], []) == 0
    with pytest.raises(CorpusError, match=r"a\.en has 0: .* a\.en from line 1 on"):
        check_counts(["a"], [], ("a.de", "a.en"))
