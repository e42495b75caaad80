"""`Layer`: one of a stack of equal layers, and how training runs the stack.

Which values the forward pass saves for the backward pass (`set_recompute`) and whether layers are
compiled (`compile_layers`) are properties of the run, not of the model: they change no parameter,
and results by rounding only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import torch
import torch.fx.experimental._config
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from jtrans.errors import ConfigError
from jtrans.nn.gpu.operator import HAS_TRITON, missing_triton
from jtrans.nn.recorder import is_recording

MOST_FORMS = 64  # compiled forms of one kind of layer
Recompute = Literal["none", "hidden", "layer"]


class Layer(nn.Module):
    """A layer of a stack; `set_recompute` and `compile_layers` choose how training computes it."""

    is_compilable: ClassVar[bool] = True  # whether one compiled form serves all layers of the kind
    # whether its weights are used only by `forward` and the modules in `called_outside`
    is_shardable: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.is_recomputed = False
        self.compiled: Callable[..., Tensor] | None = None

    def __call__(self, *inputs: Any, **options: Any) -> Tensor:
        """Compute the layer, in training compiled or recomputed as chosen."""
        plain: Callable[..., Tensor] = super().__call__
        if not (self.training and torch.is_grad_enabled()) or is_recording():
            return plain(*inputs, **options)
        call = self.compiled or plain
        if self.is_recomputed:
            return checkpoint(  # type: ignore[no-any-return]
                call,
                *inputs,
                use_reentrant=False,
                context_fn=lambda: (contextlib.nullcontext(), self.recomputing()),
                **options,
            )
        return call(*inputs, **options)

    @property
    def called_outside(self) -> tuple[nn.Module, ...]:
        """Return the modules of the layer that are also called outside of `forward`."""
        return ()

    def recomputing(self) -> contextlib.AbstractContextManager[None]:
        """Return the context of the second forward pass, which must have no side effects."""
        return contextlib.nullcontext()


def set_recompute(model: nn.Module, policy: Recompute) -> None:
    """Choose what training recomputes in the backward pass, to save memory.

    Args:
        model: any model.
        policy: "none": as little as possible; "hidden": the hidden layers of FFNs (a ninth more
            arithmetic), the gates of LSTMs and convolutions, and on a CPU all that the forms in
            blocks can recompute; "layer": everything but each layer's input (a third more).
    """
    for module in model.modules():
        if hasattr(module, "saves_memory"):
            module.saves_memory = policy == "hidden"  # type: ignore[assignment]
        if isinstance(module, Layer):
            module.is_recomputed = policy == "layer"


def is_compiled(
    choice: Literal["auto", "on", "off"],
    device: torch.device,
    *,
    is_joint: bool,
    is_long: bool,
) -> bool:
    """Return whether training compiles layers.

    ``auto`` compiles joint models on a GPU with Triton, in a training long enough to win back the
    one or two minutes that compiling takes: on an H100 the kernels of Reformer-base's layers then
    take 25 instead of 45 ms (65,536 positions, E = 256). Those of a Transformer are short, and
    without CUDA graphs the CPU takes longer to call compiled layers: 74 instead of 47 ms for an
    update (`data/benchmarks/gpu_h100.json`).

    Raises:
        ConfigError: ``on`` for a GPU without Triton, which torch needs there.
    """
    if choice == "on" and device.type == "cuda" and not HAS_TRITON:
        raise ConfigError(
            f"layers cannot be compiled for a GPU: {missing_triton()}",
            where="training.compile",
            hint="--set training.compile=auto trains without compiling",
            kind="config.absent-triton",
        )
    is_useful = is_joint and is_long and device.type == "cuda" and HAS_TRITON
    return choice == "on" or (choice == "auto" and is_useful)


def compile_layers(model: nn.Module, *, backend: str | Callable[..., Any] = "inductor") -> None:
    """Let torch compile each kind of layer, once for all layers of the kind and all lengths.

    All sizes are dynamic from the start, and equal ones are told apart (`use_duck_shape`):
    otherwise a first batch with S = T would force a second compilation later.

    Dropout masks are drawn by torch's own functions (`fallback_random`): in torch 2.13 generated
    code may draw another mask in the backward pass than in the forward pass (pytorch issue 198333).
    On a GPU layers that are not compiled then have the same masks.

    Layers of different widths, as in stacks of convolutions, are compiled separately; torch's own
    limit would leave the last ones uncompiled.
    """
    options: dict[str, Any] | None = {"fallback_random": True} if backend == "inductor" else None
    torch.fx.experimental._config.use_duck_shape = False
    torch._dynamo.config.recompile_limit = MOST_FORMS
    for module in model.modules():
        if isinstance(module, Layer) and module.is_compilable:
            module.compiled = torch.compile(
                module.forward, dynamic=True, backend=backend, options=options
            )


def has_compiled_layers(model: nn.Module) -> bool:
    """Return whether `compile_layers` found any layers; each is compiled at its first call."""
    return any(isinstance(each, Layer) and each.compiled is not None for each in model.modules())
