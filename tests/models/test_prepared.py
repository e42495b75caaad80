"""Prepared forms compute what the models compute, for every system that has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from models.conftest import CASES, tiny_model
from torch import Tensor

from jtrans.data.batch import Batch
from jtrans.decoding.options import SearchOptions
from jtrans.decoding.prepared import source
from jtrans.decoding.prepared.choose import prepared
from jtrans.decoding.search.beam import beam_search
from jtrans.models.base import TranslationModel

EXACT: dict[str, float] = {"rtol": 0.0, "atol": 1e-9}


def has_form(case: str) -> bool:
    """Return whether the model of a case of the zoo has a form to be tested here."""
    model = tiny_model(CASES[case][0], **CASES[case][1])
    return not case.startswith("reformer") and prepared(model) is not model


PREPARED = [case for case in CASES if has_form(case)]


@pytest.fixture(scope="module", params=PREPARED)
def model(request: pytest.FixtureRequest) -> TranslationModel:
    """A float64 model of every system and variant with a prepared form."""
    torch.manual_seed(1)
    system, changes = CASES[request.param]
    model = tiny_model(system, **changes)
    with torch.no_grad():  # biases and norms begin as zeros and ones, which hide mistakes
        for weight in model.parameters():
            if weight.dim() == 1:
                weight.add_(0.3 * torch.randn_like(weight))
        for name, statistic in model.named_buffers():  # those of batch norms
            if name.endswith((".mean", ".variance")):
                statistic.add_(0.3 * torch.rand_like(statistic))
    return model


def run(
    model: TranslationModel, batch: Batch, choices: list[tuple[list[int], list[list[int]]]]
) -> tuple[Tensor, Tensor]:
    """Return the largest differences of the memory, and of all steps, between model and form."""
    form = prepared(model)
    assert form is not model
    memory, other = (each.encode(batch.source, batch.source_mask) for each in (model, form))
    states = [model.begin(memory, 1), form.begin(other, 1)]
    errors = []
    generator = torch.Generator().manual_seed(2)
    count, beam = len(batch.source), 1
    for keep, parents in choices:
        token = torch.randint(1, 24, (count * beam,), generator=generator)
        ours, theirs = form.step(token, states[1]), model.step(token, states[0])
        errors += [(ours - theirs).abs().max()]
        errors += [(form.project(ours) - model.project(theirs)).abs().max()]
        kept = [place for place in keep if place < count] or [0]
        rows = [[place * beam + p % beam for p in parents[place]] for place in kept]
        states = [state.select(torch.tensor(rows)) for state in states]
        count, beam = len(rows), len(rows[0])
    difference = (memory.states - other.states)[batch.source_mask].abs().max()
    return difference, torch.stack(errors).max()


CHOICES = st.integers(1, 3).flatmap(
    lambda beam: st.tuples(
        st.sampled_from([[0, 1, 2], [0, 1, 2], [0, 1, 2], [1, 2], [2, 1]]),
        st.lists(st.lists(st.integers(0, 2), min_size=beam, max_size=beam), min_size=3, max_size=3),
    )
)


@pytest.mark.sample(40)
@pytest.mark.parametrize("is_merged", [True, False])
@settings(deadline=None, max_examples=3)
@given(choices=st.lists(CHOICES, min_size=1, max_size=9))
def test_steps_are_those_of_the_model(
    model: TranslationModel, batch: Batch, is_merged: bool, choices: list[Any]
) -> None:
    with pytest.MonkeyPatch.context() as patch, torch.inference_mode():
        patch.setattr(source, "is_merged", lambda *sizes: is_merged)
        for error in run(model, batch, choices):
            assert float(error) < EXACT["atol"]


@pytest.mark.sample(9)
@torch.inference_mode()
def test_more_steps_than_expected_give_the_same(model: TranslationModel, batch: Batch) -> None:
    every = ([0, 1, 2], [[0, 1, 1, 0], [1, 0, 2, 3], [2, 2, 2, 2]])
    for error in run(model, batch, [every] * 40):
        assert float(error) < EXACT["atol"]


@torch.inference_mode()
def test_a_search_finds_the_same(model: TranslationModel, batch: Batch) -> None:
    options = SearchOptions(beam=4, nbest=4, max_length="12")
    searches = [
        beam_search([each], batch.source, batch.source_mask, options)
        for each in (model, prepared(model))
    ]
    tokens = [[[h.tokens for h in best] for best in search] for search in searches]
    assert tokens[0] == tokens[1]
    scores = [[[h.score for h in best] for best in search] for search in searches]
    for ours, theirs in zip(*scores, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)


@torch.inference_mode()
def test_preparing_leaves_the_model_as_it_is(build: Callable[..., TranslationModel]) -> None:
    model = build("transformer", tie="all")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    prepared(model)
    prepared(model, "bf16")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
