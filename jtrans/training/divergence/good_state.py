"""The last good state: the newest checkpoint before the fault, or else the initial state."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.optim import Optimizer

from jtrans.errors import CheckpointError
from jtrans.models.base import TranslationModel
from jtrans.runs import Run
from jtrans.training.checkpoint import read_state
from jtrans.training.divergence.random_state import RandomState
from jtrans.training.weights.moving_average import MovingAverage
from jtrans.training.weights.shards import local


class InitialState:
    """A copy of a model and its optimiser before the first update, in the memory of the CPU.

    Training goes back to it if it diverges before the first checkpoint.
    """

    def __init__(self, model: TranslationModel, optimiser: Optimizer) -> None:
        self._tensors = {name: _copy(tensor) for name, tensor in _saved(model).items()}
        self._moments = {  # none, unless loaded from another run
            parameter: {key: _copy(value) for key, value in values.items()}
            for parameter, values in optimiser.state.items()
        }
        self._random = RandomState.of(model.device)

    def restore(
        self, model: TranslationModel, optimiser: Optimizer, average: MovingAverage | None
    ) -> None:
        """Restore weights, moments and random generators."""
        with torch.no_grad():
            for name, tensor in _saved(model).items():
                local(tensor).copy_(self._tensors[name])
            for parameter, values in optimiser.state.items():
                for key, value in values.items():
                    began = self._moments.get(parameter, {}).get(key)
                    local(value).zero_() if began is None else local(value).copy_(began)
        if average is not None:
            average.restore({})
        self._random.restore()


def remove_spoilt(run: Run, *, keeps_one: bool) -> None:
    """Delete the newest checkpoints if the updates just before them were skipped.

    With their weights all further updates would fail, too.

    Args:
        run: the run.
        keeps_one: whether the oldest stays in any case.
    """
    checkpoints = run.checkpoints()
    for checkpoint in reversed(checkpoints[1:] if keeps_one else checkpoints):
        try:
            state = read_state(checkpoint)
        except CheckpointError:
            continue  # damaged: resuming skips it, too
        if state.update not in state.trouble.unexplained:
            return
        run.remove_checkpoint(checkpoint)


def _saved(model: TranslationModel) -> dict[str, Tensor]:
    """Return the tensors of a model that checkpoints save, tied ones once."""
    saved = model.state_dict().keys()
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in saved}
    return {**dict(model.named_parameters()), **buffers}


def _copy(tensor: Tensor) -> Tensor:
    return local(tensor.detach()).to("cpu", copy=True)
