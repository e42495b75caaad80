"""What a system of another distribution is checked for before it is used.

The contract tests check far more; these two mistakes would pass unnoticed in training: weights
that nobody trains, and results of other shapes, which broadcast. Attention maps are checked when
they are wanted: a system can be used without them.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from jtrans.errors import ConfigError
from jtrans.models.base import AttentionMap, TranslationModel

B, S, T, BEAM = 2, 5, 3, 2  # the sizes of what is tried: all sizes of a result are different


def fault_of(model: TranslationModel, vocabulary: int) -> str | None:
    """Return what is wrong with a model that has just been built, None if nothing is.

    Args:
        model: on a CPU; its random numbers and its mode are left as they are.
        vocabulary: V, target tokens.
    """
    if fault := _weights_outside(model):
        return fault
    if model.device.type != "cpu":  # weights without values
        return None
    was_training = model.training
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        fault = _wrong_shape(model.eval(), vocabulary)
    model.train(was_training)
    return fault


def attention_maps(model: TranslationModel, source: Tensor, target: Tensor) -> list[AttentionMap]:
    """Return what `model.explain` returns for source ids [B, S] and target ids [B, T], checked.

    Raises:
        ConfigError: a map has axes that are not those of its weights.
    """
    maps = model.explain(source, target)
    sizes = {"source": source.shape[1], "target": target.shape[1]}
    for each in maps:
        if not _is_map(each, sizes):
            raise ConfigError(
                f"{model.config.system}.explain returned the attention map {each.name} with the "
                f"axes {each.axes} after the batch, but with weights {list(each.weights.shape)}, "
                f"for {source.shape[1]} source and {target.shape[1]} target tokens",
                hint="name every axis after the batch, the one attended over last, which is source "
                "or target: docs/adding-a-system.md",
                kind="config.broken-system",
            )
    return maps


def _is_map(item: AttentionMap, sizes: Mapping[str, int]) -> bool:
    shape = item.weights.shape[1:]
    return (
        len(shape) == len(item.axes) > 0
        and item.axes[-1] in sizes
        and all(sizes.get(axis, size) == size for axis, size in zip(item.axes, shape, strict=True))
    )


def _weights_outside(model: TranslationModel) -> str | None:
    """Return which weights are not parameters of the model, as torch does not know of them."""
    known = {id(weight) for weight in model.parameters()}
    for place, module in model.named_modules():
        for name, value in vars(module).items():
            if any(id(weight) not in known for weight in _weights_in(value)):
                return (
                    f"the weights in {place}{'.' if place else ''}{name} are not parameters of "
                    "the model, so that they would be neither trained nor saved: use "
                    "nn.Parameter, nn.ParameterList, nn.ModuleList or nn.ModuleDict"
                )
    return None


def _weights_in(value: object) -> list[Tensor]:
    """Return a trainable tensor, or those in a list, tuple or dictionary of tensors and modules."""
    if isinstance(value, Tensor):
        return [value] if value.requires_grad and value.is_leaf else []
    if isinstance(value, dict):
        return _weights_in(list(value.values()))
    if not isinstance(value, (list, tuple)):
        return []
    modules = [each for each in value if isinstance(each, nn.Module)]
    weights = [weight for each in value if isinstance(each, Tensor) for weight in _weights_in(each)]
    return weights + [weight for module in modules for weight in module.parameters()]


def _wrong_shape(model: TranslationModel, vocabulary: int) -> str | None:
    """Run two short sentences through the model, and return which result has another shape."""
    source = torch.ones(B, S, dtype=torch.int64)
    source[1, S - 2 :] = 0
    token = torch.ones(B * BEAM, dtype=torch.int64)
    memory = model.encode(source, source != 0)
    hidden = model.decode(torch.ones(B, T, dtype=torch.int64), memory)
    if fault := _fault_of_result("decode", hidden, "[B, T, E]", (B, T, None)):
        return fault
    logits = model.project(hidden)
    if fault := _fault_of_result("project", logits, "[B, T, V]", (B, T, vocabulary)):
        return fault
    if fault := _fault_of_output(model, hidden, logits):
        return fault
    state = model.begin(memory, BEAM)
    E = hidden.shape[-1]
    if fault := _fault_of_result("step", model.step(token, state), "[N, E]", (B * BEAM, E)):
        return fault
    state = state.select(torch.tensor([[0], [BEAM]]))  # one hypothesis of each sentence
    return _fault_of_result("step", model.step(token[:B], state), "[N, E]", (B, E))


def _fault_of_output(model: TranslationModel, hidden: Tensor, logits: Tensor) -> str | None:
    """Return how the output matrix differs from `project`, None if it does not or none is named."""
    named = model.output_weights()
    if named is None:
        return None
    weight, bias = named
    if weight.shape != (logits.shape[-1], hidden.shape[-1]):
        return f"output_weights must return W as [V, E], and returned {list(weight.shape)}"
    expected = nn.functional.linear(hidden, weight, bias)
    if not torch.allclose(expected, logits, rtol=1e-3, atol=1e-4):
        return "project is not x W^T + b with the W and b of output_weights"
    return None


def _fault_of_result(
    name: str, result: object, form: str, sizes: tuple[int | None, ...]
) -> str | None:
    """Return what is wrong with a method's result, None if its sizes are these (None: any)."""
    returned = type(result).__name__
    if isinstance(result, Tensor):
        if result.dim() == len(sizes) and all(
            size in (None, real) for size, real in zip(sizes, result.shape, strict=True)
        ):
            return None
        returned = f"a tensor of {list(result.shape)}"
    wanted = ", ".join("E" if size is None else str(size) for size in sizes)
    return f"{name} must return {form}, here [{wanted}], and returned {returned}"
