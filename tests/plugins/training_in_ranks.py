"""Train in several processes, in a setting in which sums in another order stay sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import safetensors.torch
from plugins.rank_processes import run_ranks
from torch import Tensor

from jtrans.config import Config
from jtrans.data.prepared import PreparedCorpus
from jtrans.runs import Run
from jtrans.training.session import train

# Adam divides by the size of a gradient: where it is 0 but for rounding, so are its steps not.
# Without dropout, too, training is the same in any number of processes but for rounding.
EXACT: dict[str, Any] = {
    "optimiser": {"name": "nesterov", "momentum": 0.9},
    "learning_rate": 0.02,
    "schedule": {"name": "inverse-sqrt", "warmup": 1},
    "micro_batch_tokens": 30,
    "batch_tokens": 100,
}


def train_in(count: int, config: Config, corpus: PreparedCorpus, run: Path, **options: Any) -> None:
    """Train in `count` processes to the last update, with these options of `train`."""

    def one_rank(_: int) -> int:
        return train(config, data=corpus.folder, run=run, **options).update

    assert run_ranks(count, one_rank) == [config.training.max_updates] * count


def weights(run: Path) -> dict[str, Tensor]:
    """Return the weights of the last checkpoint."""
    return safetensors.torch.load_file(Run(run).checkpoint("last").weights)


def difference(one: Path, other: Path) -> float:
    """Return the largest difference between the last weights of two runs."""
    ours, theirs = weights(one), weights(other)
    assert ours.keys() == theirs.keys()
    return max(float((ours[name] - theirs[name]).abs().max()) for name in ours)


def have_the_same_bytes(one: Path, other: Path) -> bool:
    """Return whether two runs end with the same weights and the same state of the optimiser."""
    folders = [Run(run).checkpoint("last").folder for run in (one, other)]
    files = "model.safetensors", "state.safetensors"
    return all(len({(folder / file).read_bytes() for folder in folders}) == 1 for file in files)
