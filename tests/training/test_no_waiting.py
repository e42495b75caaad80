"""A training step asks the device for nothing: a GPU would stop until it has answered.

Tensors on the device `meta` have no values, so that whatever depends on one fails.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from jtrans.data.batch import Batch, collate
from jtrans.data.ids import IdStore, ParallelIds
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import SYSTEMS, build_model, system_configs
from jtrans.nn import fast
from jtrans.nn.gpu import attention as gpu_attention
from jtrans.nn.layer import set_recompute
from jtrans.training.micro_batches import GradientAccumulator, UpdateLoss
from jtrans.training.objective import Objective, batch_loss
from jtrans.training.optimisation.noise_scale import NoiseScale

META = torch.device("meta")
INDICES = np.array([1, 0, 2])


@pytest.fixture
def pairs() -> ParallelIds:
    def store(sentences: list[list[int]]) -> IdStore:
        lengths = np.cumsum([0, *map(len, sentences)])
        return IdStore(np.concatenate(sentences).astype(np.int32), lengths)

    source = store([[5, 6, 1], [7, 8, 9, 10, 1], [9, 1]])
    target = store([[8, 1], [9, 10, 11, 1], [12, 13, 1]])
    return ParallelIds(source, target)


def make_model(system: str) -> TranslationModel:
    config_class = system_configs()[system]
    sizes: dict[str, Any] = {"width": 16, "ffn_width": 32, "heads": 2, "attention_dropout": 0.1}
    fields = config_class.model_fields
    numbers = [name for name in fields if isinstance(fields[name].default, int)]
    sizes |= dict.fromkeys((name for name in numbers if name.endswith("layers")), 1)
    sizes |= dict.fromkeys((name for name in numbers if name.endswith("_tags")), 0)
    sizes = {name: size for name, size in sizes.items() if name in fields}
    return build_model(config_class(system=system, **sizes), 40, 40).to(META).train()


@pytest.mark.sample(9)
@pytest.mark.parametrize("uses_kernels", [False, True], ids=["plain", "as on a GPU"])
@pytest.mark.parametrize("recompute", ["none", "hidden", "layer"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_an_update_needs_no_value_from_the_device(
    system: str,
    recompute: str,
    uses_kernels: bool,
    pairs: ParallelIds,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if uses_kernels:
        monkeypatch.setitem(fast.KERNELS, "meta", fast.KERNELS["cuda"])
        monkeypatch.setattr(gpu_attention, "is_supported", lambda *_, **__: True)
    model = make_model(system)
    set_recompute(model, recompute)  # type: ignore[arg-type]
    accumulator = GradientAccumulator(model, Objective(0.1), precision="fp32")
    losses = accumulator.accumulate(UpdateLoss(pairs, 12), [INDICES, INDICES[:2]])
    assert losses.device == META
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_a_boolean_index_would_be_noticed(pairs: ParallelIds) -> None:
    batch = dataclasses.replace(collate(pairs, INDICES).to(META), target_rows=None)
    with pytest.raises(NotImplementedError, match="nonzero"):
        batch_loss(make_model("transformer"), batch, Objective(0.1))


def test_the_rows_of_real_targets_are_those_of_the_mask(pairs: ParallelIds) -> None:
    batch = collate(pairs, INDICES)
    x = torch.randn(3, 4, 5, requires_grad=True)
    by_mask = dataclasses.replace(batch, target_rows=None)
    ours, expected = batch.real_targets(x), by_mask.real_targets(x)
    assert torch.equal(ours, expected) and torch.equal(ours, x[batch.target_mask])
    weight = torch.randn_like(ours)
    gradients = [torch.autograd.grad((y * weight).sum(), x)[0] for y in (ours, expected)]
    assert torch.equal(*gradients)


class Copies:
    """Notes which tensors are put into pinned memory, and how they are copied."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pinned: list[Tensor] = []
        self.copied: list[tuple[Tensor, bool]] = []
        monkeypatch.setattr(Tensor, "pin_memory", self.pin)
        monkeypatch.setattr(Tensor, "to", self.to)

    def pin(self, *_: object) -> Tensor:
        tensor = torch.zeros(1)
        self.pinned.append(tensor)
        return tensor

    def to(self, *_: object, non_blocking: bool = False) -> Tensor:
        self.copied.append((self.pinned[-1], non_blocking))
        return self.pinned[-1]


def test_the_noise_scale_is_added_to_the_losses_without_a_copy_from_the_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noise = NoiseScale()
    noise._is_measuring, noise._sums = True, [torch.ones(()), torch.ones(())]
    monkeypatch.setattr(Tensor, "new_tensor", lambda *_: pytest.fail("a copy"))
    assert noise.joined(torch.tensor([3.0])).tolist() == [3.0, 2.0, 2.0]


def test_a_gpu_gets_only_what_it_needs_from_pinned_memory(
    pairs: ParallelIds, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, copies = collate(pairs, INDICES), Copies(monkeypatch)
    moved: Batch = batch.to("cuda:1")
    assert len(copies.pinned) == 6  # ids and masks of both sides, decoder input, rows of targets
    assert [is_free for _, is_free in copies.copied] == [True] * 6
    assert moved.indices is batch.indices
    copies.copied.clear()
    batch.to("cpu")  # what the CPU reads next must have arrived
    assert [is_free for _, is_free in copies.copied] == [False] * 6
