"""The prepared form of the joint models: their own results, in less time and memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from jtrans.decoding.options import SearchOptions
from jtrans.decoding.prepared import columns, slots
from jtrans.decoding.prepared.base import Searchable
from jtrans.decoding.prepared.choose import prepared
from jtrans.decoding.prepared.columns import JointState
from jtrans.decoding.prepared.joint import PreparedReformer
from jtrans.decoding.search.beam import beam_search
from jtrans.decoding.search.trace import Hypothesis
from jtrans.models.base import TranslationModel
from jtrans.models.reformer import Reformer
from jtrans.models.zoo import build_model, system_configs

BEAM, EOS = 5, 1
SOURCE = torch.tensor(
    [[5, 6, 7, 8, 9, EOS], [5, 9, 6, 7, 8, EOS], [7, 6, EOS, 0, 0, 0], [EOS] + 5 * [0]]
)
VARIANTS: dict[str, dict[str, Any]] = {
    "base": {},
    "fast": {"system": "reformer-fast", "prenet_layers": 1, "tie": "all"},
    "joined": {"grid": "concat"},
    "side vectors": {"side_vectors": True},
    "maximum": {"reduction": "max"},
    "post-norm": {"norm": "post"},
    "post-norm, joined, maximum": {"norm": "post", "grid": "concat", "reduction": "max"},
    "positions": {"system": "reformer-fast", "position_offset": 2, "scale_positions": True},
}


def make(dtype: torch.dtype = torch.float32, **settings: Any) -> TranslationModel:
    """Return a small model whose biases and norms are not those that training starts from."""
    torch.manual_seed(1)
    values = {"width": 16, "ffn_width": 32, "heads": 2, "layers": 2} | settings
    config = system_configs()[str(values.setdefault("system", "reformer-base"))]
    model = build_model(config.model_validate(values), 20, 20)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model.to(dtype).eval().requires_grad_(False)


def walk(model: Searchable, steps: int, *, leaving: bool = True) -> tuple[list[Tensor], Any]:
    """Return the logits of random hypotheses at every step, and the last state.

    The hypotheses are reordered at random, and sentences leave.
    """
    generator = torch.Generator().manual_seed(1)
    state: Any = model.begin(model.encode(SOURCE, SOURCE != 0), 1)
    sentences, h, token, logits = len(SOURCE), 1, torch.full((len(SOURCE),), EOS), []
    for step in range(steps):
        logits.append(model.project(model.step(token, state)))
        keep = torch.arange(sentences)
        if leaving and step in (4, 7):
            keep = keep[keep != 1]
        rows = keep[:, None] * h + torch.randint(h, (len(keep), BEAM), generator=generator)
        state, sentences, h = state.select(rows), len(keep), BEAM
        token = torch.randint(4, 20, (sentences * BEAM,), generator=generator)
    return logits, state


def search(model: Searchable, source: Tensor, limit: int = 9) -> list[list[Hypothesis]]:
    options = SearchOptions(beam=4, nbest=4, max_length=str(limit))
    return beam_search([model], source, source != 0, options)


@pytest.mark.parametrize(("variant", "rows"), [*((name, 2048) for name in VARIANTS), ("base", 50)])
@torch.inference_mode()
def test_every_step_is_that_of_the_model(
    variant: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "ROWS", rows)
    monkeypatch.setattr(slots, "FIRST_CAPACITY", 8)
    monkeypatch.setattr(slots, "AT_ONCE", 0)  # so that they grow
    model = make(torch.float64, **VARIANTS[variant])
    ours, expected = walk(PreparedReformer(model, "fp32"), 12)[0], walk(model, 12)[0]  # type: ignore[arg-type]
    for hidden, theirs in zip(ours, expected, strict=True):
        torch.testing.assert_close(hidden, theirs, atol=1e-9, rtol=0)


@torch.inference_mode()
def test_slots_that_were_never_written_count_for_nothing() -> None:
    model = prepared(make())
    expected = walk(model, 12)[0]
    torch.use_deterministic_algorithms(True)  # new memory is filled with NaN
    try:
        ours = walk(model, 12)[0]
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(ours, expected, atol=0, rtol=0)


@torch.inference_mode()
def test_a_model_that_is_trained_is_prepared_without_its_gradients() -> None:
    model = make().requires_grad_(True)
    hidden = prepared(model).encode(SOURCE, SOURCE != 0)
    assert not hidden.states.requires_grad


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@torch.inference_mode()
def test_a_sentence_is_translated_alike_alone_and_among_others(precision: str) -> None:
    model = prepared(make(), precision)
    together = search(model, SOURCE)
    for number, expected in enumerate(together):
        length = int((SOURCE[number] != 0).sum())
        (alone,) = search(model, SOURCE[number : number + 1, :length])
        assert [each.tokens for each in alone] == [each.tokens for each in expected]
        scores = [each.log_prob for each in expected]
        assert [each.log_prob for each in alone] == pytest.approx(scores, abs=1e-5)


@pytest.mark.parametrize("variant", ["base", "fast"])
@torch.inference_mode()
def test_hypotheses_have_their_forced_scores(variant: str) -> None:
    model = make(**VARIANTS[variant])
    memory = model.encode(SOURCE, SOURCE != 0)
    for sentence, hypotheses in enumerate(search(prepared(model), SOURCE)):
        assert len(hypotheses) == 4
        for each in hypotheses:
            target = torch.tensor([[EOS, *each.tokens[:-1]]])
            hidden = model.decode(target, memory.select(torch.tensor([sentence])))
            log_probs = model.project(hidden)[0].log_softmax(-1)
            forced = log_probs.gather(1, torch.tensor(each.tokens)[:, None]).sum().item()
            assert each.log_prob == pytest.approx(forced, abs=1e-4)


@torch.inference_mode()
def test_bf16_is_close() -> None:
    model = make(**VARIANTS["fast"])
    ours, expected = walk(prepared(model, "bf16"), 6)[0], walk(model, 6)[0]
    for hidden, theirs in zip(ours, expected, strict=True):
        assert float((hidden - theirs).norm() / theirs.norm()) < 0.02


@torch.inference_mode()
def test_dead_slots_are_used_again() -> None:
    steps = 40
    state: JointState = walk(prepared(make()), steps, leaving=False)[1]
    for sentence in state.sentences:
        assert sentence.group.slots.used < 0.4 * steps * BEAM
        assert sentence.group.slots.capacity < 0.6 * steps * BEAM


@torch.inference_mode()
def test_nothing_moves_when_a_sentence_leaves() -> None:
    model = prepared(make())
    state: JointState = model.begin(model.encode(SOURCE, SOURCE != 0), 1)  # type: ignore[assignment]
    model.step(torch.full((4,), EOS), state)
    group = state.sentences[0].group
    place = group.slots.held[0][0].data_ptr()
    left = state.select(torch.tensor([[1] * BEAM, [3] * BEAM]))
    model.step(torch.full((2 * BEAM,), EOS), left)
    assert [sentence.group for sentence in left.sentences] == [group, group]
    assert group.slots.held[0][0].data_ptr() == place


@torch.inference_mode()
def test_slots_that_do_not_fit_into_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jtrans.nn.memory.SMALLEST_CHECKED", 1)
    monkeypatch.setattr("jtrans.nn.memory.available_memory", lambda: 2**28 + 100)
    model = prepared(make())
    with pytest.raises(MemoryError, match="keys and values of 32 slots"):
        search(model, SOURCE)


def test_a_model_of_another_class_is_searched_as_it_is() -> None:
    class Changed(Reformer):
        """A system of another package."""

    model = make()
    assert isinstance(prepared(model), PreparedReformer)
    model.__class__ = Changed
    assert prepared(model) is model
