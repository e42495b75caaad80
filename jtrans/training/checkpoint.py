"""Checkpoints: everything needed to continue training exactly where it stopped.

    model.safetensors   weights, tied ones once; their moving average if there is one
    state.safetensors   the optimiser's moments by parameter name, random generators as bytes, and
                        beside a moving average the weights that it is of
    state.json          the progress of training, `TrainingState`, and Python's random generator

No pickle: loading a checkpoint runs no code. A checkpoint's folder appears complete or not at all.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Self

import safetensors.torch
import torch
from torch import Tensor
from torch.optim import Optimizer

from jtrans.errors import CheckpointError, JtransError
from jtrans.files import read_json, write_json
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import load_weights
from jtrans.runs import OPTIMISER, STATE, WEIGHTS, Checkpoint, Run, damaged, step_name
from jtrans.training.distributed.ranks import Ranks
from jtrans.training.divergence.trouble import Trouble
from jtrans.training.events import Result, Return
from jtrans.training.memory import MemoryLimits
from jtrans.training.optimisation.guard import NO_AVERAGES
from jtrans.training.optimisation.schedule import Plateau
from jtrans.training.weights.moving_average import MovingAverage
from jtrans.training.weights.shards import assign, is_sharded, like, whole
from jtrans.training.weights.window import BleuWindow

FORMAT = 1
TRAINED = "trained"  # weights in state.safetensors begin so


@dataclass
class Totals:
    """Sums over several updates."""

    loss: float = 0.0  # the objective, summed over target tokens
    nll: float = 0.0  # the same without smoothing
    tokens: int = 0  # real target tokens
    positions: int = 0  # padded positions B x S x T
    updates: int = 0
    seconds: float = 0.0
    unmeasured: int = 0  # tokens of skipped updates
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
    processor_seconds: float = 0.0  # of them, those of all threads of the first process
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
    noise: list[float] = field(default_factory=lambda: [0.0, 0.0])  # `NoiseScale.averages`
    dropped: int = 0  # updates dropped by the gradient guard
    since_log: Totals = field(default_factory=Totals)  # sums since the last train event of the log
    since_validation: Totals = field(default_factory=Totals)  # sums since the last validation
    events: int = 0  # events logged so far
    splits: int = 0  # micro-batches that did not fit into memory and were split in half
    limits: MemoryLimits = field(default_factory=MemoryLimits)  # what is split beforehand
    trouble: Trouble = field(default_factory=Trouble)  # with numbers that are not finite

    @property
    def is_validated(self) -> bool:
        """Return whether the current weights have been validated."""
        return self.update > 0 and self.validated == self.update

    def go_back(self, lost: TrainingState, learning_rate: float, fault: str) -> Return:
        """Take over what did happen from `lost`, which training goes back from for a `fault`."""
        self.trouble = lost.trouble
        self.trouble.go_back(learning_rate)
        self.seconds, self.processor_seconds = lost.seconds, lost.processor_seconds
        self.events, self.splits = lost.events, lost.splits
        return Return(
            update=self.update,
            lost=lost.update - self.update,
            fault=fault,
            returns=self.trouble.returns,
            learning_rate=learning_rate * self.trouble.factor,
        )

    def result(self, run: Path, reason: str, first: int) -> Result:
        """Return how training ended that began this time after `first` updates."""
        return Result(
            run=run,
            reason=reason,
            update=self.update,
            epochs=self.epoch,
            seconds=self.seconds,
            trained=self.update > first,
            best=self.best,
            validation=self.validation,
            splits=self.splits,
            dropped=self.dropped,
            skipped=self.trouble.skipped,
            left_out=tuple(self.trouble.left_out),
            returns=self.trouble.returns,
            window=self.window.pointer,
        )

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Build the state from the output of `dataclasses.asdict`."""
        value["since_log"] = Totals(**value["since_log"])
        value["since_validation"] = Totals(**value["since_validation"])
        value["limits"] = MemoryLimits(**value.get("limits", {}))
        value["trouble"] = Trouble(**value.get("trouble", {}))
        value["plateau"] = Plateau(**value.get("plateau", {}))
        value["window"] = BleuWindow(**value.get("window", {}))
        return cls(**value)


@dataclass(frozen=True)
class Snapshot:
    """A checkpoint in memory."""

    state: TrainingState
    weights: Mapping[str, Tensor]  # to translate with; tied ones share their memory
    tensors: Mapping[str, Tensor]  # of state.safetensors
    values: Mapping[str, Any]  # of state.json
    is_copy: bool  # whether training may go on before it is written

    @classmethod
    def of(
        cls,
        model: TranslationModel,
        optimiser: Optimizer,
        state: TrainingState,
        trained: Mapping[str, Tensor] = MappingProxyType({}),
        *,
        fits: Callable[[int], bool] = lambda size: False,
        is_kept: bool = True,
    ) -> Self:
        """Take a snapshot.

        Args:
            model: with the weights to translate with.
            optimiser: of the weights.
            state: the progress of training.
            trained: the weights to train further, where those of `model` are their moving average.
            fits: whether there is memory to copy so many bytes. Without a copy, whose place is the
                CPU, the snapshot is valid until the next update.
            is_kept: whether this rank is to have what is sharded whole, or only gives its part.
        """
        weights = _whole(model.state_dict(keep_vars=True), is_kept=is_kept)
        tensors = _whole(_state_tensors(model, optimiser, trained), is_kept=is_kept)
        size = sum(tensor.nbytes for tensor in (*weights.values(), *tensors.values()))
        is_copy = fits(size)
        if is_copy:
            weights, tensors = _copied(weights), _copied(tensors)
        tensors = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
        tensors["random.cpu"] = torch.get_rng_state()
        if (generator := _generator(model.device)) is not None:
            tensors[f"random.{model.device.type}"] = generator.get_rng_state(model.device)
        values = {"format": FORMAT, **dataclasses.asdict(state)}
        values["python_random"] = random.getstate()
        return cls(copy.deepcopy(state), weights, tensors, values, is_copy)

    def write(self, run: Run) -> None:
        """Write the checkpoint, and make it the run's `last`."""
        with run.new_checkpoint(self.state.update) as folder:
            model: Any = _Holder(self.weights)  # tied weights are recognised by their memory
            safetensors.torch.save_model(model, str(folder / WEIGHTS))
            safetensors.torch.save_file(dict(self.tensors), folder / OPTIMISER)
            write_json(folder / STATE, self.values)
        point_to_checkpoints(run, self.state)


class _Holder:
    """What `save_model` needs of a model."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        self._weights = weights

    def state_dict(self) -> dict[str, Tensor]:
        """Return the weights."""
        return dict(self._weights)


def _whole(tensors: Mapping[str, Tensor], *, is_kept: bool) -> dict[str, Tensor]:
    """Return sharded tensors whole and on the CPU, tied ones once; all ranks must ask for them."""
    wholes: dict[int, Tensor] = {}
    for tensor in tensors.values():
        if is_sharded(tensor) and id(tensor) not in wholes:
            gathered = whole(tensor.detach())
            # a copy: it may be a part of a buffer with padding
            kept = gathered.to("cpu", copy=True) if is_kept else gathered.new_empty(0)
            wholes[id(tensor)] = kept
    return {name: wholes.get(id(tensor), tensor.detach()) for name, tensor in tensors.items()}


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies on the CPU that share memory where `tensors` do."""
    storages: dict[int, torch.UntypedStorage] = {}
    copies = {}
    for name, tensor in tensors.items():
        storage = tensor.detach().untyped_storage()
        if storage.data_ptr() not in storages:
            is_here = storage.device.type == "cpu"
            storages[storage.data_ptr()] = storage.clone() if is_here else storage.cpu()
        place = storages[storage.data_ptr()]
        empty = torch.empty(0, dtype=tensor.dtype)
        copies[name] = empty.set_(place, tensor.storage_offset(), tensor.shape, tensor.stride())
    return copies


def save_checkpoint(
    run: Run, model: TranslationModel, optimiser: Optimizer, state: TrainingState
) -> None:
    """Write the checkpoint of `state.update` and make it the run's `last`."""
    Snapshot.of(model, optimiser, state).write(run)


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
    _load_weights(model, checkpoint)
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


def _load_weights(model: TranslationModel, checkpoint: Checkpoint) -> None:
    if not any(is_sharded(weight) for weight in model.parameters()):
        load_weights(model, checkpoint.weights)
        return
    here = model.state_dict()
    try:
        for name, tensor in safetensors.torch.load_file(checkpoint.weights).items():
            assign(here[name], tensor)
    except (safetensors.SafetensorError, OSError, KeyError, RuntimeError) as error:
        raise damaged(checkpoint.weights, error) from error


def load_optimiser(checkpoint: Checkpoint, model: TranslationModel, optimiser: Optimizer) -> None:
    """Restore the moments of a checkpoint, whose weights the model has, and nothing else.

    Raises:
        CheckpointError: the file is missing or damaged.
    """
    file = checkpoint.verify(OPTIMISER).folder / OPTIMISER
    try:
        _restore_optimiser(model, optimiser, safetensors.torch.load_file(file))
    except (safetensors.SafetensorError, OSError, KeyError, ValueError, RuntimeError) as error:
        raise damaged(file, error) from error


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


def share_state(
    ranks: Ranks,
    state: TrainingState,
    model: TranslationModel,
    optimiser: Optimizer,
    average: MovingAverage | None,
    checkpoint: Checkpoint | None,
) -> TrainingState:
    """Give all ranks what the first has loaded, and return its state.

    The others need no access to its run. Of sharded weights it has loaded its own part, so it reads
    its `checkpoint` again; without one all ranks have drawn the same weights.
    """
    with contextlib.ExitStack() as stack:
        trained = stack.enter_context(average.in_place()) if average else {}
        weights: dict[str, Tensor] = {}
        own: dict[str, Tensor] = {}
        if not ranks.is_sharding:
            weights = dict(model.state_dict())
            own = _state_tensors(model, optimiser, trained) if ranks.is_first else {}
        elif checkpoint is not None:
            weights = safetensors.torch.load_file(checkpoint.weights)
            own = safetensors.torch.load_file(checkpoint.folder / OPTIMISER)
        weights = ranks.share(weights)
        tensors = ranks.share(own)
    values = ranks.from_first(dataclasses.asdict(state))
    if ranks.is_first:
        return state
    here = model.state_dict()
    with torch.no_grad():
        for name, tensor in weights.items():
            assign(here[name], tensor)
    if average is not None:
        average.restore(_weights_trained(tensors))
    _restore_optimiser(model, optimiser, tensors)
    return TrainingState.from_json(values)


def _state_tensors(
    model: TranslationModel, optimiser: Optimizer, trained: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    tensors = {
        f"{key}.{name}": value.detach()
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
    }
    for name, weight in trained.items():
        tensors[f"{TRAINED}.{name}"] = weight.detach()
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
        is_shaped = tensor.shape == parameter.shape
        own = like(parameter, tensor) if is_shaped else tensor.to(parameter.device)
        optimiser.state[parameter][key] = own


def _read_state_file(checkpoint: Checkpoint) -> dict[str, Any]:
    path = checkpoint.folder / STATE
    try:
        values = read_json(path)
    except JtransError as error:
        raise damaged(path, error) from error
    if not isinstance(values, dict):
        raise damaged(path, "not an object")
    return values
