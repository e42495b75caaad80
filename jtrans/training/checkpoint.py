"""Checkpoints: everything needed to continue training exactly where it stopped.

    model.safetensors   the weights, or their moving average if there is one; tied ones once
    state.safetensors   the optimiser's moments by parameter name, random generators as bytes, and
                        the trained weights if model.safetensors has their moving average
    state.json          the progress of training, `TrainingState`, and Python's random generator

No pickle: loading a checkpoint runs no code. A checkpoint's folder appears complete or not at all.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Mapping
from typing import Any

import safetensors.torch
import torch
from torch import Tensor
from torch.optim import Optimizer

from jtrans.errors import CheckpointError, JtransError, WorkError
from jtrans.files import read_json
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import load_weights
from jtrans.runs import OPTIMISER, STATE, WEIGHTS, Checkpoint, Run, damaged
from jtrans.training.distributed.ranks import Ranks
from jtrans.training.divergence.random_state import random_module
from jtrans.training.state import TrainingState
from jtrans.training.weights.moving_average import MovingAverage
from jtrans.training.weights.shards import assign, is_sharded, like

FORMAT = 1
TRAINED = "trained"  # prefix of the names of weights in state.safetensors
# what reading a damaged file, or one of another model, raises
DAMAGES = (safetensors.SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError)


def load_checkpoint(
    checkpoint: Checkpoint,
    model: TranslationModel,
    optimiser: Optimizer,
    average: MovingAverage | None = None,
) -> TrainingState:
    """Restore model, optimiser and random generators, and return the training state.

    If the checkpoint has no moving average, `average` starts from its weights.

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
        generator, key = random_module(model.device), f"random.{model.device.type}"
        if generator is not None and key in tensors:  # not there if saved on another device
            generator.set_rng_state(tensors[key], model.device)
        version, numbers, gauss = _read_state_file(checkpoint)["python_random"]
        random.setstate((version, tuple(numbers), gauss))
    except DAMAGES as error:
        raise damaged(checkpoint.folder / OPTIMISER, error) from error
    return state


def _load_weights(model: TranslationModel, checkpoint: Checkpoint) -> None:
    if not any(is_sharded(weight) for weight in model.parameters()):
        load_weights(model, checkpoint.weights)
        return
    ours = model.state_dict()
    try:
        for name, tensor in safetensors.torch.load_file(checkpoint.weights).items():
            assign(ours[name], tensor)
    except DAMAGES as error:
        raise damaged(checkpoint.weights, error) from error


def load_optimiser(checkpoint: Checkpoint, model: TranslationModel, optimiser: Optimizer) -> None:
    """Restore only the optimiser's moments of a checkpoint, whose weights the model already has.

    Raises:
        CheckpointError: the file is missing or damaged.
    """
    file = checkpoint.verify(OPTIMISER).folder / OPTIMISER
    try:
        _restore_optimiser(model, optimiser, safetensors.torch.load_file(file))
    except DAMAGES as error:
        raise damaged(file, error) from error


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


def check_log(run: Run) -> None:
    """Refuse a run whose log lacks the last or the best validation of its newest checkpoint.

    The lowest loss in such a log may not be that of the run.

    Raises:
        JtransError: a line is missing or damaged, or the run has no readable checkpoint.
    """
    state = read_state(run.checkpoint("last"))
    logged = {event.get("update") for event in run.events() if event.get("event") == "validation"}
    validated = {state.validated, *([state.best["update"]] if state.best else [])} - {0}
    if lost := validated - logged:
        raise WorkError(
            f"the log of the run {run.folder} has lost the validation of update {min(lost):,}",
            where=str(run.folder / "log.jsonl"),
            hint="delete the run: the same command trains it again",
            kind="run.log",
        )


def share_state(
    ranks: Ranks,
    state: TrainingState,
    model: TranslationModel,
    optimiser: Optimizer,
    average: MovingAverage | None,
    checkpoint: Checkpoint | None,
) -> TrainingState:
    """Send all ranks what the first has loaded, and return its state.

    The other ranks need no access to the run's folder. Of sharded weights the first rank has loaded
    its shards only, so it reads `checkpoint` again; without one all ranks have drawn the same
    weights.
    """
    with contextlib.ExitStack() as stack:
        trained = stack.enter_context(average.in_place()) if average else {}
        weights: dict[str, Tensor] = {}
        loaded: dict[str, Tensor] = {}
        if not ranks.is_sharding:
            weights = dict(model.state_dict())
            loaded = state_tensors(model, optimiser, trained) if ranks.is_first else {}
        elif checkpoint is not None:
            weights = safetensors.torch.load_file(checkpoint.weights)
            loaded = safetensors.torch.load_file(checkpoint.folder / OPTIMISER)
        weights = ranks.share(weights)
        tensors = ranks.share(loaded)
    values = ranks.from_first(dataclasses.asdict(state))
    if ranks.is_first:
        return state
    if weights:  # none for new sharded weights: all ranks have the same, and the same moments
        ours = model.state_dict()
        with torch.no_grad():
            for name, tensor in weights.items():
                assign(ours[name], tensor)
        # even without an average: the checkpoint may be from a time when there was one
        (average or MovingAverage(model, 0.0)).restore(_weights_trained(tensors))
        _restore_optimiser(model, optimiser, tensors)
    return TrainingState.from_json(values)


def state_tensors(
    model: TranslationModel, optimiser: Optimizer, trained: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the optimiser's moments and the weights `trained` beside a moving average, by name."""
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
    for values in optimiser.state.values():
        for value in values.values():
            value.zero_()  # moments that the checkpoint lacks start at 0
    for full_name, tensor in tensors.items():
        key, _, name = full_name.partition(".")
        if key in ("random", TRAINED):
            continue
        parameter = parameters[name]
        if not parameter.requires_grad:
            continue  # the moments are of another run, in which it was not frozen
        # Adafactor keeps means over rows and over columns
        shape = torch.broadcast_shapes(tensor.shape, parameter.shape)
        if tensor.dim() and shape != parameter.shape:
            raise ValueError(f"{full_name} has shape {list(tensor.shape)}")
        # a fused optimiser keeps even its count of updates on the parameters' device
        is_shaped = tensor.shape == parameter.shape
        value = like(parameter, tensor) if is_shaped else tensor.to(parameter.device)
        optimiser.state[parameter][key] = value


def _read_state_file(checkpoint: Checkpoint) -> dict[str, Any]:
    path = checkpoint.folder / STATE
    try:
        values = read_json(path)
    except JtransError as error:
        raise damaged(path, error) from error
    if not isinstance(values, dict):
        raise damaged(path, "not an object")
    return values
