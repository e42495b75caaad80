"""What every system must do, whatever it is (docs/systems.md 0.9)."""

import copy
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from jtrans.data.batch import Batch
from jtrans.decoding.word_alignments import attention_to_source
from jtrans.models.base import Memory, TranslationModel
from jtrans.models.zoo import SYSTEMS, load_weights
from jtrans.nn.device import autocast
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.recorder import AttentionRecorder
from jtrans.training.weights.averaging import average_weights

PAD, EOS = 0, 1
EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-10}  # float64
Build = Callable[..., TranslationModel]
Case = tuple[str, dict[str, Any]]


def logits(
    model: TranslationModel, source: Tensor, target_in: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Return the logits of all positions, [B, T, V]."""
    mask = source != PAD if mask is None else mask
    with torch.no_grad():
        return model.project(model.decode(target_in, model.encode(source, mask)))


def auxiliary_loss(model: TranslationModel, memory: Memory) -> Tensor:
    """Return the loss of labels that are all 1, 0 without such heads."""
    labels = {kind: memory.mask.long() for kind in model.auxiliary_weights}
    return torch.stack([torch.zeros(()), *model.auxiliary(memory, labels).values()]).sum()


def with_padding(ids: Tensor, count: int) -> Tensor:
    """Append `count` columns of padding."""
    return F.pad(ids, (0, count), value=PAD)


def test_the_weights_of_the_output_are_those_of_project(
    model: TranslationModel, case: Case, batch: Batch
) -> None:
    weights = model.output_weights()
    if weights is None:
        assert case[0] not in SYSTEMS  # one of another distribution need not say them
        pytest.skip("this system leaves the weights of its output out")
    hidden = model.decode(batch.target_in, model.encode(batch.source, batch.source_mask))
    torch.testing.assert_close(F.linear(hidden, *weights), model.project(hidden), **EXACT)


@pytest.mark.parametrize("changed", [0, 2, 5])
def test_a_target_token_changes_no_logits_before_it_and_some_after_it(
    model: TranslationModel, batch: Batch, changed: int
) -> None:
    target_in = torch.randint(3, 24, (3, 7))
    other = target_in.clone()
    other[:, changed] = 3 + (other[:, changed] - 2) % 20  # another real token
    before, after = (logits(model, batch.source, ids) for ids in (target_in, other))
    torch.testing.assert_close(after[:, :changed], before[:, :changed], **EXACT)
    for t in range(changed, 7):
        assert (after[:, t] - before[:, t]).abs().max() > 1e-6


def test_padding_of_the_target_does_not_change_logits(
    model: TranslationModel, batch: Batch
) -> None:
    plain = logits(model, batch.source, batch.target_in)
    padded = logits(model, batch.source, with_padding(batch.target_in, 3))
    torch.testing.assert_close(
        padded[:, : plain.shape[1]][batch.target_mask], plain[batch.target_mask], **EXACT
    )


@settings(deadline=None, max_examples=3)
@given(count=st.integers(1, 9))
def test_padding_of_the_source_does_not_change_logits(
    model: TranslationModel, batch: Batch, count: int
) -> None:
    plain = logits(model, batch.source, batch.target_in)
    padded = logits(model, with_padding(batch.source, count), batch.target_in)
    torch.testing.assert_close(padded, plain, **EXACT)


def test_a_sentence_without_padding_scores_the_same_with_padding(
    model: TranslationModel, batch: Batch
) -> None:
    source, target_in = batch.source[:1], batch.target_in[:1]
    plain = logits(model, source, target_in)
    padded = logits(model, with_padding(source, 4), target_in)
    torch.testing.assert_close(padded, plain, **EXACT)


@settings(deadline=None, max_examples=3)
@given(data=st.data())
def test_stepping_gives_what_decoding_at_once_gives(
    model: TranslationModel, data: st.DataObject
) -> None:
    lengths = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))
    T = data.draw(st.integers(1, 20))  # beyond the first growth of a cache
    S = max(lengths)
    mask = torch.arange(S) < torch.tensor(lengths)[:, None]
    source = torch.randint(3, 20, (len(lengths), S)) * mask
    target_in = torch.randint(1, 24, (len(lengths), T))
    with torch.inference_mode():
        memory = model.encode(source, mask)
        whole = model.decode(target_in, memory)
        state = model.begin(memory, 1)
        steps = [model.step(target_in[:, t], state) for t in range(T)]
    torch.testing.assert_close(torch.stack(steps, dim=1), whole, **EXACT)


@settings(deadline=None, max_examples=4)
@given(data=st.data())
def test_a_selected_state_goes_on_as_if_its_prefixes_had_been_read_from_the_start(
    model: TranslationModel, batch: Batch, data: st.DataObject
) -> None:
    beam, alive = 1, [0, 1, 2]  # hypotheses per sentence; sentences that go on
    prefixes = torch.zeros(3, 0, dtype=torch.int64)
    with torch.inference_mode():
        memory = model.encode(batch.source, batch.source_mask)
        state = model.begin(memory, beam)
        for _ in range(4):
            token = torch.randint(1, 24, (len(prefixes),))
            prefixes = torch.cat([prefixes, token[:, None]], dim=1)
            owners = torch.tensor(alive).repeat_interleave(beam)
            again = model.decode(prefixes, memory.select(owners))[:, -1]
            torch.testing.assert_close(model.step(token, state), again, **EXACT)
            rows, alive, beam = draw_rows(data, alive, beam)
            state, prefixes = state.select(rows), prefixes[rows.flatten()]


def draw_rows(data: st.DataObject, alive: list[int], beam: int) -> tuple[Tensor, list[int], int]:
    """Draw which sentences go on, and from which of their hypotheses: rows, sentences, beam."""
    new_beam = data.draw(st.integers(1, 3))
    places = data.draw(st.sets(st.integers(0, len(alive) - 1), min_size=1).map(sorted))
    if len(places) < len(alive):  # others may take the places of those that leave
        places = data.draw(st.permutations(places))
    choice = st.lists(st.integers(0, beam - 1), min_size=new_beam, max_size=new_beam)
    rows = [[place * beam + hypothesis for hypothesis in data.draw(choice)] for place in places]
    return torch.tensor(rows), [alive[place] for place in places], new_beam


@pytest.mark.parametrize("order", [[1], [2, 0, 1, 1]])
def test_a_sentence_scores_the_same_alone_and_in_any_order(
    model: TranslationModel, batch: Batch, order: list[int]
) -> None:
    together = logits(model, batch.source, batch.target_in)
    S, T = (int(mask[order].sum(1).max()) for mask in (batch.source_mask, batch.target_mask))
    apart = logits(model, batch.source[order, :S], batch.target_in[order, :T])
    mask = batch.target_mask[order, :T]
    torch.testing.assert_close(apart[mask], together[order, :T][mask], **EXACT)


def test_training_without_dropout_equals_evaluation(model: TranslationModel, batch: Batch) -> None:
    training = copy.deepcopy(model).train()
    expected = logits(model, batch.source, batch.target_in)
    result = logits(training, batch.source, batch.target_in)
    if model.has_batch_statistics:  # the declared exception must be one
        assert not torch.allclose(result, expected)
    else:
        torch.testing.assert_close(result, expected, **EXACT)


def test_dropout_changes_training_and_not_evaluation(
    system: str, build: Build, batch: Batch
) -> None:
    model = build(system, rate=0.4)
    first, second = (logits(model, batch.source, batch.target_in) for _ in range(2))
    assert torch.equal(first, second)
    model.train()
    assert not torch.equal(first, logits(model, batch.source, batch.target_in))


def test_every_dropout_of_a_model_is_applied_in_training(
    case: Case, build: Build, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(case[0], **case[1], rate=0.3).train()
    mask, applied = SharedDropout.mask, set()

    def noted(dropout: SharedDropout, x: Tensor) -> Tensor | None:
        applied.add(dropout)
        return mask(dropout, x)

    monkeypatch.setattr(SharedDropout, "mask", noted)
    model.decode(batch.target_in, model.encode(batch.source, batch.source_mask))
    every = {part for part in model.modules() if isinstance(part, SharedDropout) and part.rate}
    assert applied >= every


def test_every_parameter_gets_a_finite_gradient(case: Case, build: Build, batch: Batch) -> None:
    model = build(case[0], **case[1], rate=0.1).train()
    memory = model.encode(batch.source, batch.source_mask)
    hidden = model.decode(batch.target_in, memory)
    loss = F.cross_entropy(
        model.project(hidden[batch.target_mask]), batch.target_out[batch.target_mask]
    )
    (loss + auxiliary_loss(model, memory)).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def test_looking_up_padding_gives_its_row_no_gradient(
    case: Case, build: Build, batch: Batch
) -> None:
    model = build(*case[:1], **case[1])
    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    hidden = model.decode(batch.target_in, model.encode(batch.source, batch.source_mask))
    hidden.square().sum().backward()  # without the output matrix, which may be the same one
    assert tables
    for table in tables:
        assert table.weight.grad is not None
        assert not table.weight.grad[PAD].any()
        assert table.weight.grad.any()


def test_weights_survive_saving_and_loading(
    model: TranslationModel, case: Case, build: Build, batch: Batch, tmp_path: Path
) -> None:
    safetensors.torch.save_model(model, str(tmp_path / "model.safetensors"))
    loaded = build(case[0], **case[1])
    load_weights(loaded, tmp_path / "model.safetensors")
    expected = logits(model, batch.source, batch.target_in)
    assert torch.equal(logits(loaded, batch.source, batch.target_in), expected)


def test_the_average_of_identical_checkpoints_is_the_checkpoint(
    model: TranslationModel, case: Case, build: Build, batch: Batch, tmp_path: Path
) -> None:
    paths = [tmp_path / f"{n}.safetensors" for n in range(3)]
    for path in paths:
        safetensors.torch.save_model(model, str(path))
    means, metadata = average_weights(paths)
    safetensors.torch.save_file(means, tmp_path / "mean.safetensors", metadata=metadata)
    averaged = build(case[0], **case[1])
    load_weights(averaged, tmp_path / "mean.safetensors")
    expected = logits(model, batch.source, batch.target_in)
    torch.testing.assert_close(logits(averaged, batch.source, batch.target_in), expected, **EXACT)


def test_float32_stepping_stays_within_a_hundred_thousandth(
    model: TranslationModel, batch: Batch
) -> None:
    single = copy.deepcopy(model).float()
    with torch.inference_mode():
        memory = single.encode(batch.source, batch.source_mask)
        whole = single.decode(batch.target_in, memory)
        state = single.begin(memory, 1)
        steps = [single.step(token, state) for token in batch.target_in.unbind(1)]
    torch.testing.assert_close(torch.stack(steps, dim=1), whole, rtol=0.0, atol=1e-5)
    assert whole.dtype == torch.float32


def test_bfloat16_is_close_to_float32_forward_and_backward(
    model: TranslationModel, batch: Batch
) -> None:
    results = []
    for precision in ("fp32", "bf16"):
        single = copy.deepcopy(model).float().train()
        with autocast(torch.device("cpu"), precision):
            hidden = single.decode(batch.target_in, single.encode(batch.source, batch.source_mask))
            scores = single.project(hidden[batch.target_mask])
        loss = F.cross_entropy(scores.float(), batch.target_out[batch.target_mask])
        loss.backward()
        gradients = [p.grad.flatten() for p in single.parameters() if p.grad is not None]
        results.append((scores.float().detach(), torch.cat(gradients)))
    (exact, exact_gradient), (rough, rough_gradient) = results
    assert (rough - exact).norm() / exact.norm() < 0.02
    # with batch norm over so few cells, rounding changes some winners of a maximum
    least = 0.95 if model.has_batch_statistics else 0.99
    assert F.cosine_similarity(rough_gradient, exact_gradient, dim=0) > least
    assert not torch.equal(rough, exact)  # bfloat16 was in fact used


def test_bfloat16_stepping_is_close_to_decoding_at_once(
    model: TranslationModel, batch: Batch
) -> None:
    single = copy.deepcopy(model).float()
    with torch.inference_mode(), autocast(torch.device("cpu"), "bf16"):
        memory = single.encode(batch.source, batch.source_mask)
        whole = single.decode(batch.target_in, memory).float()
        state = single.begin(memory, 1)
        steps = [single.step(token, state).float() for token in batch.target_in.unbind(1)]
    assert (torch.stack(steps, dim=1) - whole).norm() / whole.norm() < 0.03


def test_attention_maps_are_distributions_over_real_positions_seen_so_far(
    model: TranslationModel, batch: Batch
) -> None:
    maps = model.explain(batch.source, batch.target_in)
    lengths = {"source": batch.source.shape[1], "target": batch.target_in.shape[1]}
    assert maps
    assert len({m.name for m in maps}) == len(maps)
    for m in maps:
        weights = m.weights.double()
        assert weights.shape[0] == 3 and weights.dim() == 1 + len(m.axes)
        for axis, size in zip(m.axes, weights.shape[1:], strict=True):
            assert size == lengths.get(axis, size)
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        if m.axes[-1] == "source":
            assert not weights.movedim(-1, 1)[~batch.source_mask].any(), m.name
        if m.axes[-2:] == ("target", "target"):
            assert not weights.triu(1).any(), m.name


def test_one_layer_is_read_without_the_weights_of_others(
    model: TranslationModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [[5, 9, 12, EOS], [8, EOS]], [[7, EOS], [10, 22, 5, EOS]]
    every = dict(attention_to_source(model, *pairs))
    read: dict[Hashable, bool] = {}
    lookup = AttentionRecorder.__getitem__

    def noted(recorder: AttentionRecorder, block: Hashable) -> torch.Tensor:
        weights = lookup(recorder, block)
        read[block] = weights.untyped_storage().nbytes() > weights.element_size()
        return weights

    monkeypatch.setattr(AttentionRecorder, "__getitem__", noted)
    for layer in every[0]:
        alone = dict(attention_to_source(model, *pairs, layer=layer))
        for number, maps in alone.items():
            assert [*maps] == [layer]
            np.testing.assert_array_equal(maps[layer], every[number][layer])
        assert sum(read.values()) == 1 or not read  # of a system with weights of its own


def test_explaining_does_not_change_the_model(model: TranslationModel, batch: Batch) -> None:
    before = logits(model, batch.source, batch.target_in)
    model.explain(batch.source, batch.target_in)
    assert torch.equal(logits(model, batch.source, batch.target_in), before)


def test_a_model_that_has_searched_can_be_trained(case: Case, build: Build, batch: Batch) -> None:
    model = build(case[0], **case[1])
    with torch.inference_mode():  # position tables are made here first
        model.decode(batch.target_in, model.encode(batch.source, batch.source_mask))
    memory = model.encode(batch.source, batch.source_mask)
    hidden = model.decode(batch.target_in, memory)
    (model.project(hidden).sum() + auxiliary_loss(model, memory)).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_memory_selects_sentences(model: TranslationModel, batch: Batch) -> None:
    memory = model.encode(batch.source, batch.source_mask)
    chosen = memory.select(torch.tensor([2, 0]))
    assert isinstance(chosen, Memory)
    assert torch.equal(chosen.mask, batch.source_mask[[2, 0]])
    assert torch.equal(chosen.states, memory.states[[2, 0]])
