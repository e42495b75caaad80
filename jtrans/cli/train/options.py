"""Options of `jtrans train` in groups: seeds, start and end, devices and processes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.cli.options import (
    DEVICE,
    MACHINE,
    PRECISIONS,
    flag,
    option,
    option_group,
    read_seeds,
    refuse_last,
)
from jtrans.errors import usage_error

if TYPE_CHECKING:
    from jtrans.config import Config

START = "Start and end"


@option_group
class SeedOptions:
    """The seed of a run, or those of several."""

    seed: int | None = option("Random seed (training.seed).", shown="the recipe's")
    seeds: str | None = option(
        "Train one run per seed, one after the other, in RUN/seed-N.", "N,N,..."
    )

    def configs(self, run: Path, config: Config, settings: Sequence[str]) -> dict[Path, Config]:
        """Return the configuration of each run to train, by its folder.

        Args:
            run: the folder of ``--run``.
            config: the configuration, with one seed.
            settings: those of ``--set``.

        Raises:
            ConfigError: seeds that cannot be used, at all or with the other options.
        """
        from jtrans.runs import Run

        if self.seeds is None:
            return {run: config}
        numbers = read_seeds(self.seeds, settings)
        refuse_last(config, "every seed", "--seeds")
        if self.seed is not None:
            raise usage_error("--seed and --seeds exclude each other", "use one of them")
        if Run.exists(run):
            raise usage_error(
                f"{run} is a run itself: with --seeds, --run is a folder of runs",
                "choose another folder",
                where="--run",
            )
        return {run / f"seed-{number}": config.with_training(seed=number) for number in numbers}


@option_group
class StartOptions:
    """How training starts and ends."""

    max_minutes: float | None = option(
        "Minutes to train, last validation included (training.max_minutes).",
        shown="the recipe's",
        panel=START,
    )
    restart: bool = flag("--restart", "Delete the run and start over.", START)
    from_: str | None = option(
        "Start from its best weights; RUN@CHECKPOINT: from those.",
        "RUN",
        panel=START,
        names=["--from"],
    )
    keep_optimiser: bool = flag(
        "--keep-optimiser", "With --from, also take its optimiser's moments.", START
    )
    dry_run: bool = flag("--dry-run", "Estimate size, memory and time; train nothing.", START)

    def check(self) -> None:
        """Refuse ``--keep-optimiser`` without ``--from``.

        Raises:
            ConfigError: there is no run whose optimiser could be kept.
        """
        if self.keep_optimiser and self.from_ is None:
            raise usage_error("--keep-optimiser needs --from", "--from RUN")


@option_group
class MachineOptions:
    """The device, the precision and the processes of training."""

    device: str | None = DEVICE
    precision: str | None = option(
        "Arithmetic precision (training.precision).", "|".join(PRECISIONS), "the recipe's", MACHINE
    )
    deterministic: bool = flag("--deterministic", "Use only deterministic GPU kernels.", MACHINE)
    processes: int | None = option("Train in N processes, on the CPU.", "N", "1", MACHINE, min=1)
    gpus: str | None = option("Train on N GPUs, or on all.", "N|all", "1", MACHINE)
    max_restarts: int = option(
        "If a process dies, restart all, at most N times.", "N", panel=MACHINE, default=3, min=0
    )
    shard_model: bool = flag(
        "--shard-model", "Shard weights and optimiser across the processes.", MACHINE
    )

    def settings(self) -> dict[str, Any]:
        """Return the settings that the options override; None for options that are not given."""
        return {
            "training.precision": self.precision,
            "training.deterministic": self.deterministic or None,
        }
