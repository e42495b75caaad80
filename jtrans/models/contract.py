"""Checks of a system of another distribution before it is used.

The contract tests check far more; these are the mistakes that would pass unnoticed in training:
weights that are not registered as parameters, results of wrong shapes, which broadcast, states that
depend on later tokens, and steps that disagree with `decode`. Attention maps are checked when they
are requested, as a system can be used without them.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from jtrans.errors import ConfigError
from jtrans.models.base import AttentionMap, Memory, TranslationModel

# Two short sentences, of tokens that every vocabulary has; 1 is </s>. B, S and T differ.
SOURCE = ((2, 3, 2, 3, 1), (3, 2, 1, 0, 0))  # [B, S]
TARGET = ((1, 2, 3), (1, 3, 2))  # [B, T]
# The last hypothesis of each sentence, which `ROWS` selects, reads its target, the other another
# second token: any other selection gives the state of another prefix.
BEAM = 2
FIRST, SECOND = (1, 1, 1, 1), (3, 2, 2, 3)  # [N]
ROWS = ((1,), (3,))  # [B, 1]

# How far equal states may differ, relative to the largest number: five roundings of bfloat16
# (2^-8), in which a system may compute although its weights and states are float32.
TOLERANCE = 0.02
ROUNDINGS = 16  # or this many times the rounding of one number, if that is more, as in bfloat16


def fault_of(model: TranslationModel, vocabulary: int) -> str | None:
    """Return what is wrong with a model that has just been built, None if nothing is.

    Args:
        model: on a CPU; its mode and the state of torch's random generator are left as they are.
        vocabulary: number of target tokens, V.
    """
    if fault := _weights_outside(model):
        return fault
    if model.device.type != "cpu":  # weights without values
        return None
    was_training = model.training
    modes = [(module, module.training) for module in model.modules()]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        fault = _fault_of_use(model.eval(), vocabulary)
    model.train(was_training)  # a system may override it
    for module, mode in modes:
        module.training = mode
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
    """Return which weights torch does not find among the parameters of the model."""
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


def _fault_of_use(model: TranslationModel, vocabulary: int) -> str | None:
    """Run two short sentences through the model, and return which result is not what it must be."""
    source, target = torch.tensor(SOURCE), torch.tensor(TARGET)
    B, T = target.shape
    memory = model.encode(source, source != 0)
    hidden = model.decode(target, memory)
    if fault := _fault_of_result("decode", hidden, "[B, T, E]", (B, T, None)):
        return fault
    logits = model.project(hidden)
    if fault := _fault_of_result("project", logits, "[B, T, V]", (B, T, vocabulary)):
        return fault
    if fault := _fault_of_output(model, hidden, logits):
        return fault
    return _fault_of_prefix(model, memory, hidden) or _fault_of_steps(model, memory, hidden)


def _fault_of_prefix(model: TranslationModel, memory: Memory, hidden: Tensor) -> str | None:
    """Return how states depend on a later token, given `hidden`, those of `TARGET`, [B, T, E]."""
    shorter = model.decode(torch.tensor(TARGET)[:, :-1].contiguous(), memory)
    B, T, E = hidden.shape
    if fault := _fault_of_result("decode", shorter, "[B, T, E]", (B, T - 1, E)):
        return fault
    apart = _difference(model, shorter, hidden[:, :-1])
    if apart is None:
        return None
    if again := _difference(model, model.decode(torch.tensor(TARGET), memory), hidden):
        return (
            "in evaluation mode decode gives other states when it is called again: they differ "
            f"{again}. Draw random numbers only in training mode, as nn.Dropout does, and "
            "F.dropout if training=self.training"
        )
    return (
        "decode lets target tokens see later ones, which a search does not have yet: without the "
        f"last token, the states of those before it differ {apart}. Mask later positions"
    )


def _fault_of_steps(model: TranslationModel, memory: Memory, hidden: Tensor) -> str | None:
    """Return how steps differ from `hidden`, the result of `decode` for `TARGET`, [B, T, E]."""
    state = model.begin(memory, BEAM)
    B, _, E = hidden.shape
    rows, N = torch.tensor(ROWS), B * BEAM
    for position, tokens in enumerate((FIRST, SECOND)):
        result = model.step(torch.tensor(tokens), state)
        if fault := _fault_of_result("step", result, "[N, E]", (N, E)):
            return fault
        if apart := _difference(model, result[rows.flatten()], hidden[:, position]):
            return (
                f"call {position + 1} of step gives other states than decode for the same tokens: "
                f"they differ {apart}. Let begin give each hypothesis the memory of its sentence, "
                "and step keep in the state what later steps need of a token"
            )
    state = state.select(rows)
    result = model.step(torch.tensor(TARGET)[:, -1].contiguous(), state)
    if fault := _fault_of_result("step", result, "[N, E]", (B, E)):
        return fault
    if apart := _difference(model, result, hidden[:, -1]):
        return (
            "after select, step gives other states than decode for the tokens of the hypotheses "
            f"that were selected: they differ {apart}. Let select take everything in the state, "
            "the memory included, from the hypotheses that rows names"
        )
    return None


def _difference(model: TranslationModel, states: Tensor, expected: Tensor) -> str | None:
    """Return how much states differ from those expected, None if no more than by rounding."""
    if not expected.isfinite().all():  # nothing to compare with
        return None
    numbers = [each for each in (expected, *model.parameters()) if each.is_floating_point()]
    rounding = max(torch.finfo(each.dtype).eps for each in numbers)
    largest = expected.abs().max().item()
    apart = (states.double() - expected.double()).abs().max().item()
    if apart <= max(TOLERANCE, ROUNDINGS * rounding) * largest:  # false for nan, too
        return None
    return f"by {apart:.2g}, where the largest number is {largest:.2g}"


def _fault_of_output(model: TranslationModel, hidden: Tensor, logits: Tensor) -> str | None:
    """Return how the output matrix differs from `project`, None if it does not or none is named."""
    named = model.output_weights()
    if named is None:
        return None
    weight, bias = named
    if weight.shape != (logits.shape[-1], hidden.shape[-1]):
        return f"output_weights must return W as [V, E], but returned {list(weight.shape)}"
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
    return f"{name} must return {form}, here [{wanted}], but returned {returned}"
