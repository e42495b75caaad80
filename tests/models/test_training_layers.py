"""What is computed again, and compiled, changes no result, no gradient and no parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounter

from jtrans.models.base import TranslationModel
from jtrans.models.zoo import system_configs
from jtrans.nn import fast
from jtrans.nn.gpu import attention as gpu_attention
from jtrans.nn.layer import Layer, compile_layers, set_recompute

V = 20
# layers of an encoder-decoder, of a grid with dropout, of LSTMs; the slow tests compile all systems
COMPILED = {
    ("transformer", 0.0): [pytest.mark.thorough],
    ("reformer-base", 0.1): [],
    ("rnmt-plus", 0.0): [pytest.mark.thorough],
}

Build = Callable[..., TranslationModel]


def fresh(build: Build, system: str, rate: float = 0.1) -> TranslationModel:
    """A model in training mode with every kind of dropout."""
    torch.manual_seed(1)
    return build(system, rate=rate).train()


def gradients(
    model: TranslationModel, sizes: tuple[int, int, int] = (3, 5, 4), *, padded: bool = True
) -> list[Tensor]:
    """Hidden states and gradients of one pass with a fixed seed."""
    torch.manual_seed(2)
    B, S, T = sizes
    source, target = torch.randint(4, V, (B, S)), torch.randint(4, V, (B, T))
    mask = torch.ones(B, S, dtype=torch.bool)
    if padded:
        mask[0, -1] = False
        source[0, -1] = 0
    model.zero_grad()
    hidden = model.decode(target, model.encode(source, mask))
    model.project(hidden).square().sum().backward()
    return [hidden.detach()] + [p.grad.clone() for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("policy", ["hidden", "layer"])
def test_recomputation_changes_nothing(system: str, policy: Any, build: Build) -> None:
    model = fresh(build, system)
    expected = gradients(model)
    set_recompute(model, policy)
    for ours, theirs in zip(gradients(model), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


def test_recomputing_layers_keeps_less_and_hidden_layers_less_than_none(
    system: str, build: Build
) -> None:
    kept = {}
    for policy in ("none", "hidden", "layer"):
        model = fresh(build, system)
        set_recompute(model, policy)
        sizes: dict[int, int] = {}

        def keep(tensor: Tensor, sizes: dict[int, int] = sizes) -> Tensor:
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            model.decode(
                torch.randint(4, V, (4, 20)),
                model.encode(torch.randint(4, V, (4, 20)), torch.ones(4, 20, dtype=torch.bool)),
            )
        kept[policy] = sum(sizes.values())
    assert kept["layer"] < kept["hidden"] < kept["none"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("system", "rate"),
    [
        pytest.param(name, rate, marks=COMPILED.get((name, rate), [pytest.mark.slow]))
        for name in system_configs()
        for rate in (0.0, 0.1)
    ],
)
def test_layers_are_compiled_once_and_never_again_for_other_lengths(
    system: str, rate: float, build: Build
) -> None:
    model = fresh(build, system, rate)
    shapes = [(3, 5, 4), (2, 7, 7), (4, 11, 3)]
    expected = [gradients(model, shape) for shape in shapes]
    names = [name for name, _ in model.named_parameters()]
    torch._dynamo.reset()
    counter = CompileCounter()
    compile_layers(model, backend=counter)
    assert [name for name, _ in model.named_parameters()] == names
    assert list(model.state_dict()) == list(fresh(build, system).state_dict())
    for padded in (True, False):  # warm-up: with and without a source mask
        gradients(model, shapes[0], padded=padded)
    warm = counter.frame_count
    kinds = {type(module) for module in model.modules() if isinstance(module, Layer)}
    assert 0 < warm <= 2 * len(kinds)
    for shape, wanted in zip(shapes, expected, strict=True):
        for ours, theirs in zip(gradients(model, shape), wanted, strict=True):
            if not rate:  # compiled layers draw other masks
                torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)
    assert counter.frame_count == warm


def test_any_part_can_be_frozen_without_changing_the_gradients_of_others(
    system: str, build: Build
) -> None:
    model = fresh(build, system, 0.0)
    gradients(model)
    expected = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    for part, _ in model.named_children():
        frozen = {name for name in expected if name.startswith(f"{part}.")}
        if not frozen or len(frozen) == len(expected):
            continue
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name not in frozen)
            parameter.grad = None
        gradients(model)
        for name, parameter in model.named_parameters():
            assert (parameter.grad is None) == (name in frozen or name not in expected)
            if parameter.grad is not None:
                torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-9, atol=1e-10)


@pytest.mark.sample(1)
@pytest.mark.parametrize("has_kernels", [False, True])
@pytest.mark.parametrize("system", ["transformer", "reformer-base"])
def test_layers_with_a_gpus_attention_are_compiled_once(
    system: str, has_kernels: bool, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fast.KERNELS, "cpu", fast.KERNELS["cuda"])
    monkeypatch.setattr(fast, "IN_BLOCKS", {})
    monkeypatch.setattr(gpu_attention, "is_supported", lambda *_, **__: has_kernels)
    model = fresh(build, system, 0.0)
    torch._dynamo.reset()
    counter = CompileCounter()
    compile_layers(model, backend=counter)
    frames = []
    for shape in [(3, 5, 4), (2, 7, 6), (4, 9, 8), (5, 11, 10), (6, 13, 12)]:
        gradients(model, shape)
        frames.append(counter.frame_count)
    assert frames[-1] == frames[1]
