"""Checkpoints: everything needed to continue training exactly where it stopped.

    model.safetensors   weights, tied ones once; their moving average if there is one
    state.safetensors   the optimiser's moments by parameter name, random generators as bytes, and
                        beside a moving average the weights that it is of
    state.json          the progress of training, `TrainingState`, and Python's random generator

No pickle: loading a checkpoint runs no code. A checkpoint's folder appears complete or not at all.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType, ModuleType
from typing import Any, Self

import safetensors.torch
import torch
from torch import Tensor
from torch.optim import Optimizer

from jtrans.config import KeepConfig
from jtrans.errors import CheckpointError, JtransError
from jtrans.files import read_json, write_json
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import load_weights
from jtrans.runs import OPTIMISER, STATE, WEIGHTS, Checkpoint, Run, damaged, step_name
from jtrans.training.distributed.ranks import Ranks
from jtrans.training.memory import MemoryLimits
from jtrans.training.optimisation.guard import NO_AVERAGES
from jtrans.training.optimisation.schedule import Plateau
from jtrans.training.weights.moving_average import MovingAverage
from jtrans.training.weights.window import BleuWindow

FORMAT = 1
TRAINED = "trained"  # weights in state.safetensors begin so
_log = logging.getLogger(__name__)


@dataclass
class Totals:
    """Sums over several updates."""

    loss: float = 0.0  # the objective, summed over target tokens
    nll: float = 0.0  # the same without smoothing
    tokens: int = 0  # real target tokens
    positions: int = 0  # padded positions B x S x T
    updates: int = 0
    seconds: float = 0.0
    unmeasured: int = 0  # tokens of dropped updates without a finite loss and gradient
    labels: dict[str, float] = field(default_factory=dict)  # the losses of labels by kind, summed
    labelled: dict[str, int] = field(default_factory=dict)  # over so many source tokens

    @property
    def measured(self) -> int:
        """The tokens that `loss` and `nll` are the sums of."""
        return self.tokens - self.unmeasured

    def add_labels(self, losses: Mapping[str, float], counts: Mapping[str, int]) -> None:
        """Add the losses of labels of an update, and its labelled source tokens."""
        for kind, loss in losses.items():
            self.labels[kind] = self.labels.get(kind, 0.0) + loss
            self.labelled[kind] = self.labelled.get(kind, 0) + counts[kind]

    def rate(self, amount: int) -> float:
        """Return `amount`, one of the sums, per second."""
        return amount / self.seconds if self.seconds > 0.0 else 0.0


@dataclass
class TrainingState:
    """The progress of training."""

    update: int = 0  # updates done
    epoch: int = 0  # whole epochs done
    position: int = 0  # updates done in the current epoch
    seconds: float = 0.0  # time spent training and validating, interruptions not counted
    validated: int = 0  # the update of the last validation
    validated_seconds: float = 0.0  # `seconds` at its end
    validation: dict[str, float] = field(default_factory=dict)  # its measurements
    # the best validation by `best_metric`: its metric, value and update
    best: dict[str, Any] | None = None
    stop_best: float | None = None  # best value of the metric of early stopping
    stale: int = 0  # validations since `stop_best`
    plateau: Plateau = field(default_factory=Plateau)  # of the learning rate
    window: BleuWindow = field(default_factory=BleuWindow)  # consecutive validations, if kept
    guard: list[float] = field(default_factory=NO_AVERAGES.copy)  # `GradientGuard.averages`
    dropped: int = 0  # updates dropped by the gradient guard
    since_log: Totals = field(default_factory=Totals)  # sums since the last train event of the log
    since_validation: Totals = field(default_factory=Totals)  # sums since the last validation
    events: int = 0  # events logged so far
    splits: int = 0  # micro-batches that did not fit into memory and were split in half
    limits: MemoryLimits = field(default_factory=MemoryLimits)  # what is split beforehand

    @property
    def is_validated(self) -> bool:
        """Return whether the current weights have been validated."""
        return self.update > 0 and self.validated == self.update

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Build the state from the output of `dataclasses.asdict`."""
        value["since_log"] = Totals(**value["since_log"])
        value["since_validation"] = Totals(**value["since_validation"])
        value["limits"] = MemoryLimits(**value.get("limits", {}))
        value["plateau"] = Plateau(**value.get("plateau", {}))
        value["window"] = BleuWindow(**value.get("window", {}))
        return cls(**value)


def save_checkpoint(
    run: Run,
    model: TranslationModel,
    optimiser: Optimizer,
    state: TrainingState,
    trained: Mapping[str, Tensor] = MappingProxyType({}),
) -> None:
    """Write the checkpoint of `state.update` and make it the run's `last`.

    Args:
        run: the run.
        model: with the weights to translate with.
        optimiser: of the weights.
        state: the progress of training.
        trained: the weights to train further, where those of `model` are their moving average.
    """
    with run.new_checkpoint(state.update) as folder:
        safetensors.torch.save_model(model, str(folder / WEIGHTS))
        tensors = _state_tensors(model, optimiser, trained)
        tensors["random.cpu"] = torch.get_rng_state()
        if (generator := _generator(model.device)) is not None:
            tensors[f"random.{model.device.type}"] = generator.get_rng_state(model.device)
        safetensors.torch.save_file(tensors, folder / OPTIMISER)
        values = {"format": FORMAT, **dataclasses.asdict(state)}
        write_json(folder / STATE, {**values, "python_random": random.getstate()})
    point_to_checkpoints(run, state)


def point_to_checkpoints(run: Run, state: TrainingState) -> None:
    """Point the run's `last` and `best` to the checkpoints that `state` names."""
    best = state.best
    run.set_pointers(
        last=step_name(state.update),
        best=step_name(best["update"]) if best else None,
        best_value=best["value"] if best else None,
        window=state.window.pointer,
    )


def load_checkpoint(
    checkpoint: Checkpoint,
    model: TranslationModel,
    optimiser: Optimizer,
    average: MovingAverage | None = None,
) -> TrainingState:
    """Restore model, optimiser and random generators, and return the training state.

    A moving `average` that the run did not have so far starts from its weights.

    Raises:
        CheckpointError: a file is missing, damaged, or of another model.
    """
    checkpoint.verify(WEIGHTS, OPTIMISER, STATE)
    load_weights(model, checkpoint.weights)
    state = read_state(checkpoint)
    try:
        tensors = safetensors.torch.load_file(checkpoint.folder / OPTIMISER)
        trained = _weights_trained(tensors)
        (average or MovingAverage(model, 0.0)).restore(trained)
        _restore_optimiser(model, optimiser, tensors)
        torch.set_rng_state(tensors["random.cpu"])
        generator, key = _generator(model.device), f"random.{model.device.type}"
        if generator is not None and key in tensors:  # not if it was trained on another device
            generator.set_rng_state(tensors[key], model.device)
        version, numbers, gauss = _read_state_file(checkpoint)["python_random"]
        random.setstate((version, tuple(numbers), gauss))
    except (
        safetensors.SafetensorError,
        OSError,
        KeyError,
        TypeError,
        ValueError,
        RuntimeError,
    ) as error:
        raise damaged(checkpoint.folder / OPTIMISER, error) from error
    return state


def _generator(device: torch.device) -> ModuleType | None:
    """Return the module with the random state of an accelerator, None for a CPU."""
    return {"cuda": torch.cuda, "mps": torch.mps}.get(device.type)


def read_state(checkpoint: Checkpoint) -> TrainingState:
    """Read the training state of a checkpoint.

    Raises:
        CheckpointError: state.json is missing, damaged or of another format.
    """
    values = _read_state_file(checkpoint)
    path = checkpoint.folder / STATE
    if values.pop("format", None) != FORMAT:
        raise CheckpointError(
            "the checkpoint has a format that this version of jtrans cannot read",
            where=str(path),
            hint="use the jtrans version that wrote it, or start over with --restart",
            kind="checkpoint.format",
        )
    values.pop("python_random", None)
    try:
        return TrainingState.from_json(values)
    except (KeyError, TypeError) as error:
        raise damaged(path, error) from error


def remove_surplus(
    run: Run,
    keep: KeepConfig,
    update: int,
    *,
    metric: str,
    higher_is_better: bool,
    needed: Collection[int] = (),
) -> None:
    """Delete the checkpoints up to `update`, the newest, that `keep` does not cover.

    They are ranked by the validation's `metric`; those of the `needed` updates stay.
    What cannot be read is left alone, and so is a damaged one after `update`, before which
    training was resumed.
    """
    checkpoints: list[Checkpoint] = []
    values: list[float | None] = []
    for checkpoint in run.checkpoints():
        is_whole = all((checkpoint.folder / name).is_file() for name in (WEIGHTS, OPTIMISER, STATE))
        if not is_whole or (checkpoint.update or 0) > update:
            continue
        try:
            state = read_state(checkpoint)
        except CheckpointError as error:
            _log.warning("%s (%s): left alone", error.message, error.where)
            continue
        value = state.validation.get(metric) if state.is_validated else None
        values.append(-value if value is not None and higher_is_better else value)
        checkpoints.append(checkpoint)
    chosen = choose_checkpoints_to_keep(values, last=keep.last, best=keep.best)
    for index, checkpoint in enumerate(checkpoints):
        if index not in chosen and checkpoint.update not in needed:
            run.remove_checkpoint(checkpoint)


def choose_checkpoints_to_keep(losses: Sequence[float | None], *, last: int, best: int) -> set[int]:
    """Choose the checkpoints to keep, as indices.

    The `last` validated ones, the `best` ones, and the newest. Checkpoints saved between
    validations serve only to resume and are not needed once there is a newer checkpoint.

    Args:
        losses: of each checkpoint, oldest first, lower is better; None without validation.
        last: how many of the newest validated ones to keep.
        best: how many of the best ones to keep; the older of two equal ones is better.
    """
    validated = [index for index, loss in enumerate(losses) if loss is not None]
    ranked = sorted(validated, key=lambda index: (losses[index], index))
    return {*validated[-last:], *ranked[:best], len(losses) - 1}


def share_state(
    ranks: Ranks,
    state: TrainingState,
    model: TranslationModel,
    optimiser: Optimizer,
    average: MovingAverage | None,
) -> TrainingState:
    """Give all ranks what the first has loaded, and return its state.

    The others need no access to its run.
    """
    with contextlib.ExitStack() as stack:
        trained = stack.enter_context(average.in_place()) if average else {}
        weights = ranks.share(dict(model.state_dict()))
        own = _state_tensors(model, optimiser, trained) if ranks.is_first else {}
        tensors = ranks.share(own)
    values = ranks.from_first(dataclasses.asdict(state))
    if ranks.is_first:
        return state
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            tensor.copy_(weights[name])
    if average is not None:
        average.restore(_weights_trained(tensors))
    _restore_optimiser(model, optimiser, tensors)
    return TrainingState.from_json(values)


def _state_tensors(
    model: TranslationModel, optimiser: Optimizer, trained: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    tensors = {
        f"{key}.{name}": value.detach().cpu().contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
    }
    for name, weight in trained.items():
        tensors[f"{TRAINED}.{name}"] = weight.detach().cpu().contiguous()
    return tensors


def _weights_trained(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    prefix = f"{TRAINED}."
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def _restore_optimiser(
    model: TranslationModel, optimiser: Optimizer, tensors: dict[str, Tensor]
) -> None:
    parameters = dict(model.named_parameters())
    for full_name, tensor in tensors.items():
        key, _, name = full_name.partition(".")
        if key in ("random", TRAINED):
            continue
        parameter = parameters[name]
        # Adafactor keeps means over rows and over columns
        shape = torch.broadcast_shapes(tensor.shape, parameter.shape)
        if tensor.dim() and shape != parameter.shape:
            raise ValueError(f"{full_name} has shape {list(tensor.shape)}")
        # also the count of updates, which a fused optimiser keeps on the device of the parameters
        optimiser.state[parameter][key] = tensor.to(parameter.device)


def _read_state_file(checkpoint: Checkpoint) -> dict[str, Any]:
    path = checkpoint.folder / STATE
    try:
        values = read_json(path)
    except JtransError as error:
        raise damaged(path, error) from error
    if not isinstance(values, dict):
        raise damaged(path, "not an object")
    return values
