"""Eq. 11: the published example, and the properties of its solution."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from jtrans.errors import ConfigError
from jtrans.scaling.solve import Gradients, StackSize, joint_layers, layer_parameters, solve

PUBLISHED = Gradients(0.01063, 0.01069)

sizes = st.floats(0.5, 8.0)
positive = st.floats(1e-6, 10.0)
ratios = st.floats(1.0, 8.0)
hundredths = st.integers(-100, 100).map(lambda number: number / 100)
rising = st.tuples(st.floats(0.01, 1.0), hundredths).flatmap(st.permutations)
stacks = st.lists(
    st.builds(StackSize, st.integers(1, 24), st.sampled_from([1.0, 4.0, 8.0]), st.floats(1, 4)),
    min_size=1,
    max_size=3,
)


def test_the_published_gradients_give_the_published_sizes() -> None:
    scaling = solve([joint_layers(5)], 4.0, PUBLISHED, 2.0)
    assert scaling.step_size == pytest.approx(212.24204, abs=1e-5)
    assert scaling.exact_layers == pytest.approx(2.25613, abs=1e-5)
    assert scaling.exact_width == pytest.approx(2.26887, abs=1e-5)
    assert (scaling.more_layers, scaling.more_width) == (2, 2)  # F 1024 -> 1536: half more
    assert scaling.realised == pytest.approx(224 / 120)


def test_a_prenet_leaves_the_published_solution_unchanged() -> None:
    both = solve([StackSize(5, 4.0, 2.0), joint_layers(5)], 4.0, PUBLISHED, 2.0)
    assert both.step_size == pytest.approx(solve([joint_layers(5)], 4.0, PUBLISHED, 2.0).step_size)


@settings(max_examples=60)
@given(stacks, sizes, positive, positive, ratios)
def test_the_solution_reaches_the_ratio_in_the_direction_of_the_gradients(
    layers: list[StackSize], width: float, depth: float, wide: float, ratio: float
) -> None:
    gradients = Gradients(depth, wide)
    scaling = solve(layers, width, gradients, ratio)
    assert scaling.step_size >= 0.0
    assert scaling.ratio_at(scaling.step_size) == pytest.approx(ratio, rel=1e-9)
    assert scaling.exact_layers * wide == pytest.approx(scaling.exact_width * depth)
    assert scaling.ratio_at(0.5 * scaling.step_size) <= ratio


@settings(max_examples=60)
@given(stacks, sizes, positive, positive, ratios)
def test_rounding_moves_depth_and_width_by_half_a_unit_at_most(
    layers: list[StackSize], width: float, depth: float, wide: float, ratio: float
) -> None:
    scaling = solve(layers, width, Gradients(depth, wide), ratio)
    base = layer_parameters(layers, width)
    low, high = (
        layer_parameters(layers, width + scaling.exact_width + half, scaling.exact_layers + half)
        / base
        for half in (-0.5, 0.5)
    )
    assert low - 1e-9 <= scaling.realised <= high + 1e-9


@settings(max_examples=30)
@given(positive, positive, ratios, st.floats(1e-3, 1e3))
def test_the_unit_of_the_loss_does_not_matter(
    depth: float, wide: float, ratio: float, unit: float
) -> None:
    one = solve([joint_layers(5)], 4.0, Gradients(depth, wide), ratio)
    other = solve([joint_layers(5)], 4.0, Gradients(unit * depth, unit * wide), ratio)
    assert other.step_size * unit == pytest.approx(one.step_size)
    assert other.exact_layers == pytest.approx(one.exact_layers)


def test_a_ratio_of_one_stays_where_it_is() -> None:
    scaling = solve([joint_layers(5)], 4.0, PUBLISHED, 1.0)
    assert (scaling.step_size, scaling.realised) == (0.0, 1.0)
    assert scaling.changes_nothing


@settings(max_examples=60)
@given(st.integers(1, 20), sizes, st.floats(-0.02, 0.2), st.floats(0.001, 0.2))
@example(1, 2.0, -0.02, 0.0201)
def test_a_ratio_that_changes_nothing_names_one_that_does(
    layers: int, width: float, depth: float, wide: float
) -> None:
    stacks, gradients = [joint_layers(layers)], Gradients(depth, wide)
    said = re.search(r"--ratio (\S+)", solve(stacks, width, gradients, 1.0).too_small)
    if said is not None:
        ratio = float(said[1])
        assert not solve(stacks, width, gradients, ratio).changes_nothing
        if ratio > 1.02:
            assert solve(stacks, width, gradients, ratio - 0.02).changes_nothing
    else:
        assert depth < 0.0


def test_equal_gradients_solve_the_quadratic_of_one_increment() -> None:
    scaling = solve([joint_layers(5)], 4.0, Gradients(0.3, 0.3), 2.0)
    x = scaling.exact_layers
    assert x == pytest.approx(scaling.exact_width)
    assert x * x + (5 + 4 + 2) * x == pytest.approx(5 * (2 + 4))


@given(st.integers(1, 20), sizes, ratios)
def test_a_gradient_of_zero_scales_the_other_size_alone(
    layers: int, width: float, ratio: float
) -> None:
    deep = solve([joint_layers(layers)], width, Gradients(0.1, 0.0), ratio)
    assert layers + deep.exact_layers == pytest.approx(ratio * layers)
    wide = solve([joint_layers(layers)], width, Gradients(0.0, 0.1), ratio)
    assert width + wide.exact_width == pytest.approx(ratio * (2 + width) - 2)


@settings(max_examples=60)
@given(st.floats(-3.0, -1e-3), positive, st.booleans(), st.floats(1.01, 3.0))
@example(-0.5, 0.01, True, 1.05)
def test_one_negative_gradient_takes_the_smallest_step_or_is_refused(
    negative: float, other: float, is_depth: bool, ratio: float
) -> None:
    gradients = Gradients(negative, other) if is_depth else Gradients(other, negative)
    try:
        scaling = solve([joint_layers(12)], 4.0, gradients, ratio)
    except ConfigError as error:
        assert error.kind == "scaling.no-solution"
        return
    assert scaling.ratio_at(scaling.step_size) == pytest.approx(ratio, rel=1e-9)
    before = [scaling.ratio_at(scaling.step_size * part / 50) for part in range(50)]
    assert max(before) < ratio


def test_the_published_integer_scan_agrees_to_one_unit() -> None:
    base = 4 * 5 * (2 + 4)
    last = int(2 * 2 / min(PUBLISHED.depth, PUBLISHED.width))
    scanned = min(
        range(last + 1),
        key=lambda a: abs(
            4 * (5 + a * PUBLISHED.depth) * (2 + 4 + a * PUBLISHED.width) / base - 2.0
        ),
    )
    assert abs(solve([joint_layers(5)], 4.0, PUBLISHED, 2.0).step_size - scanned) <= 1


@settings(max_examples=100)
@given(st.integers(1, 24), sizes, rising, ratios)
def test_no_smaller_step_reaches_the_ratio(
    layers: int, width: float, gradients: list[float], ratio: float
) -> None:
    """A scan of P = 2l (4 + 2w) while both factors are positive: the first step at the ratio."""
    depth, wide = gradients

    def grown(step: float) -> float:
        return (layers + step * depth) * (2 + width + step * wide) / (layers * (2 + width))

    ends = [-size / gradient for size, gradient in ((layers, depth), (2 + width, wide)) if gradient]
    last = min([end for end in ends if end > 0] or [ratio * (layers + width + 2) / 0.01])
    steps = [last * (number / 2000) ** 2 for number in range(2001)]
    first = next((n for n, step in enumerate(steps) if grown(step) >= ratio), None)
    try:
        scaling = solve([joint_layers(layers)], width, Gradients(depth, wide), ratio)
    except ConfigError:
        # never reached, or where too little of the network is left
        assert first is None or min(depth, wide) < 0
        return
    if first is None:  # between two steps of the scan
        assert ratio - max(map(grown, steps)) < 1e-3
    else:
        assert steps[max(first - 1, 0)] <= scaling.step_size * (1 + 1e-9)
        assert scaling.step_size <= steps[first] * (1 + 1e-9)


@pytest.mark.parametrize(
    ("layers", "gradients", "ratio"),
    [
        (2, Gradients(1.0, -0.5), 3.0),
        (4, Gradients(1.0, -0.0005890022579825517), 900.0),  # the highest has seven digits
    ],
)
def test_the_highest_ratio_that_is_reached_is_offered(
    layers: int, gradients: Gradients, ratio: float
) -> None:
    stacks = [joint_layers(layers)]
    with pytest.raises(ConfigError) as caught:
        solve(stacks, 4.0, gradients, ratio)
    hint = str(caught.value.hint)
    most = float(hint.rpartition("--ratio ")[2])
    assert solve(stacks, 4.0, gradients, most).step_size > 0.0
    with pytest.raises(ConfigError):
        solve(stacks, 4.0, gradients, most + 0.01)


def test_a_network_without_its_ffn_is_refused_with_its_size() -> None:
    with pytest.raises(ConfigError) as caught:
        solve([joint_layers(3)], 1.0, Gradients(2.5, -1.0), 1.2)
    assert "5 layers and F/E = 0" in caught.value.message


def test_a_narrow_network_may_grow() -> None:
    stacks = [joint_layers(5)]
    assert solve(stacks, 0.25, Gradients(0.1, 0.0), 2.0).more_layers == 5
    assert solve(stacks, 0.25, Gradients(0.1, 0.1), 1.0).changes_nothing


def test_a_ratio_that_leads_to_no_network_is_not_offered() -> None:
    with pytest.raises(ConfigError, match=r"at most 1\.6") as error:
        solve([joint_layers(1)], 0.5, Gradients(0.00625, -0.00374), 2.0)
    assert "or --ratio" not in str(error.value.hint)


def test_a_direction_whose_rounded_sizes_are_no_larger_is_refused() -> None:
    with pytest.raises(ConfigError, match="of 1 layers and F/E = 3, no larger than the base"):
        solve([joint_layers(1)], 4.0, Gradients(0.19765, -0.41404), 1.2)


def test_where_the_parameters_only_shrink_no_ratio_is_offered() -> None:
    with pytest.raises(ConfigError) as caught:
        solve([joint_layers(2)], 4.0, Gradients(0.1, -1.0), 1.1)
    assert "--ratio" not in str(caught.value.hint)
    assert "--seeds 1,2,3" in str(caught.value.hint)


@pytest.mark.parametrize(("depth", "width"), [(0.0, 0.0), (-0.1, -0.2), (0.0, -0.1), (-1e-9, 0.0)])
def test_gradients_without_a_direction_are_refused(depth: float, width: float) -> None:
    with pytest.raises(ConfigError) as caught:
        solve([joint_layers(5)], 4.0, Gradients(depth, width), 2.0)
    assert caught.value.kind == "scaling.no-direction"


@pytest.mark.parametrize("ratio", [0.99, 0.0, -2.0, math.nan, math.inf])
def test_a_ratio_that_adds_nothing_is_refused(ratio: float) -> None:
    with pytest.raises(ConfigError) as caught:
        solve([joint_layers(5)], 4.0, PUBLISHED, ratio)
    assert caught.value.kind == "scaling.ratio"


@given(st.floats(1.0, 3.0), st.floats(1.0, 3.0), st.floats(1.0, 3.0), st.integers(1, 4))
def test_gradients_are_positive_where_the_larger_model_is_better(
    base: float, deeper: float, wider: float, step: int
) -> None:
    assume(abs(deeper - base) > 1e-6)
    gradients = Gradients.from_losses(base, deeper, wider, step=step)
    assert (gradients.depth > 0) == (deeper < base)
    assert gradients.width * step == pytest.approx(base - wider)


@given(st.floats(0.5, 10.0), st.integers(1, 3), st.integers(0, 20), st.integers(0, 20))
def test_losses_that_differ_in_their_last_digits_are_equal(
    loss: float, step: int, above: int, below: int
) -> None:
    more, less = loss + above * math.ulp(loss), loss - below * math.ulp(loss)
    assert Gradients.from_losses(loss, more, less, step=step) == Gradients(0.0, 0.0)


@pytest.mark.parametrize("losses", [(math.nan, 1.0, 1.0), (1.0, math.inf, 1.0), (1.0, 1.0, -0.1)])
def test_a_loss_that_is_no_number_is_refused(losses: tuple[float, float, float]) -> None:
    with pytest.raises(ConfigError) as caught:
        Gradients.from_losses(*losses)
    assert caught.value.kind == "scaling.loss"
