"""A checkpoint in memory, and how it is written."""

from __future__ import annotations

import copy
import dataclasses
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, Self

import safetensors.torch
import torch
from torch import Tensor
from torch.optim import Optimizer

from jtrans.files import write_json
from jtrans.models.base import TranslationModel
from jtrans.runs import OPTIMISER, STATE, WEIGHTS, Run, step_name
from jtrans.training.checkpoint import FORMAT, state_tensors
from jtrans.training.divergence.random_state import random_module
from jtrans.training.state import TrainingState
from jtrans.training.weights.shards import is_sharded, whole


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
            trained: the weights to train further, if those of `model` are their moving average.
            fits: returns whether memory has room for a copy of so many bytes, on the CPU. Without
                a copy the snapshot is valid only until the next update.
            is_kept: whether this rank keeps sharded tensors whole, or only sends its shards.
        """
        weights = _whole(model.state_dict(keep_vars=True), is_kept=is_kept)
        tensors = _whole(state_tensors(model, optimiser, trained), is_kept=is_kept)
        size = sum(tensor.nbytes for tensor in (*weights.values(), *tensors.values()))
        is_copy = fits(size)
        if is_copy:
            weights, tensors = _copied(weights), _copied(tensors)
        tensors = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
        tensors["random.cpu"] = torch.get_rng_state()
        if (generator := random_module(model.device)) is not None:
            tensors[f"random.{model.device.type}"] = generator.get_rng_state(model.device)
        values = {"format": FORMAT, **dataclasses.asdict(state)}
        values["python_random"] = random.getstate()
        return cls(copy.deepcopy(state), weights, tensors, values, is_copy)

    def write(self, run: Run) -> None:
        """Write the checkpoint, and make it the run's `last`."""
        with run.new_checkpoint(self.state.update) as folder:
            # safetensors only calls `state_dict`; it recognises tied weights by their memory
            model: Any = SimpleNamespace(state_dict=lambda: dict(self.weights))
            safetensors.torch.save_model(model, str(folder / WEIGHTS))
            _sort_metadata(folder / WEIGHTS)
            safetensors.torch.save_file(dict(self.tensors), folder / OPTIMISER)
            write_json(folder / STATE, self.values)
        point_to_checkpoints(run, self.state)


def _sort_metadata(path: Path) -> None:
    """Sort the names of tied weights in a safetensors file, which have no fixed order.

    The same weights then give the same bytes.
    """
    with path.open("r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        if "__metadata__" not in header:
            return
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        if len(text) <= size:  # otherwise it was formatted in another way, and stays as it is
            file.seek(8)
            file.write(text.ljust(size))


def _whole(tensors: Mapping[str, Tensor], *, is_kept: bool) -> dict[str, Tensor]:
    """Return sharded tensors whole and on the CPU, tied ones once; all ranks must call this."""
    wholes: dict[int, Tensor] = {}
    for tensor in tensors.values():
        if is_sharded(tensor) and id(tensor) not in wholes:
            gathered = whole(tensor.detach())
            # a copy: it may be a view of a padded buffer
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


def point_to_checkpoints(run: Run, state: TrainingState) -> None:
    """Point the run's `last` and `best` to the checkpoints that `state` names."""
    best = state.best
    run.set_pointers(
        last=step_name(state.update),
        best=step_name(best["update"]) if best else None,
        best_value=best["value"] if best else None,
        window=state.window.pointer,
    )
