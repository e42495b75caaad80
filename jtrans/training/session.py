"""Start, continue or restart the training of a run.

Settings, data and initial weights are checked before anything is written.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from jtrans import __version__
from jtrans.config import Config
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import ConfigError, CorpusError
from jtrans.models.zoo import system_configs
from jtrans.nn.device import DeviceInfo, resolve_device
from jtrans.runs import Run, find_run
from jtrans.training.distributed.group import joined
from jtrans.training.distributed.place import launch_id
from jtrans.training.distributed.ranks import Ranks
from jtrans.training.events import Result, Start, TrainingEvents
from jtrans.training.feeding.size import expected_updates, largest_size
from jtrans.training.setup.build import make_trainer
from jtrans.training.setup.checks import check_labels, check_rate, check_warmup
from jtrans.training.setup.continuing import (
    changes_of_weights,
    check_initial,
    compare,
    identity,
)
from jtrans.training.tensorboard import TensorBoard, check_installed
from jtrans.training.trainer import Trainer
from jtrans.training.updates import with_sizes
from jtrans.training.weights.initial import CopiedWeights, initialise

LARGEST = "largest_micro_batch"  # in run.json


def train(
    config: Config,
    *,
    data: Path,
    run: Path,
    device: str | None = None,
    restart: bool = False,
    initial: Run | None = None,
    keep_optimiser: bool = False,
    tensorboard: bool = False,
    shard_model: bool = False,
    events: TrainingEvents | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Result:
    """Train a new run, or continue an existing one where it stopped.

    Raises:
        ConfigError: settings that cannot be used, or that an existing run cannot change to.
        CorpusError: the prepared corpus is missing or damaged.
        CheckpointError: the run was trained with other vocabularies or data, or is damaged.
        WorkError: training diverged, memory ran out, or another process failed.
    """
    if tensorboard:
        check_installed()
    with joined(device, shard_model=shard_model, should_stop=should_stop) as ranks:
        return _Session(
            config=config,
            corpus=PreparedCorpus.open_for_training(data),
            run=run,
            ranks=ranks,
            device=ranks.device(device),
            restart=restart,
            initial=initial,
            keep_optimiser=keep_optimiser,
            tensorboard=tensorboard,
            events=events,
            should_stop=should_stop,
        ).train()


@dataclass(frozen=True)
class _Plan:
    """What the first rank reads from the run's folder, which other ranks need not reach."""

    config: Config  # with the micro-batch sizes filled in
    is_new: bool  # there is no run yet, or it starts over
    has_weights: bool  # the run has checkpoints
    matmul_backend: str | None  # as recorded by the run
    changes: dict[str, str]  # changed settings as text, by dotted key
    train: dict[str, Any]  # the identity of the training data
    largest: int | None  # the size above which the run cuts micro-batches


@dataclass(frozen=True, kw_only=True)
class _Session:
    """One start of training, on one of the `ranks`; see `train`."""

    config: Config
    corpus: PreparedCorpus
    run: Path
    ranks: Ranks
    device: str | None
    restart: bool
    initial: Run | None
    keep_optimiser: bool
    tensorboard: bool
    events: TrainingEvents | None
    should_stop: Callable[[], bool]

    def train(self) -> Result:
        corpus, ranks = self.corpus, self.ranks
        plan = ranks.from_first(self._plan() if ranks.is_first else None)
        if plan.train != identity(corpus, "train"):
            raise CorpusError(
                "the training data on this machine differs from that on the first",
                where=str(corpus.folder),
                hint="all machines need the same prepared corpus in this folder",
                kind="distributed.other-corpus",
            )
        initial = None if plan.has_weights else self.initial
        trainer, device_info = make_trainer(
            Run(self.run),
            plan.config,
            corpus,
            device=self.device,
            matmul_backend=plan.matmul_backend,
            initial=initial,
            keep_optimiser=self.keep_optimiser,
            is_new=not plan.has_weights,
            events=self.events,
            should_stop=self.should_stop,
            ranks=ranks,
        )
        copied = () if plan.has_weights else initialise(trainer.model, plan.config, corpus)
        if copied and trainer.average is not None:
            trainer.average.restore({})  # the average starts from these weights
        trainer.plan.largest = self._largest(trainer, plan)
        if not ranks.is_first:
            trainer.resume()
            return trainer.train()
        if plan.is_new:
            self._create(trainer, plan, initial, copied)
        with trainer.run.lock():
            trainer.run.remove_leftovers()
            trainer.run.keep_word_counts(corpus.word_counts_path("target"))
            trainer.resume()
            if trainer.is_finished:
                return dataclasses.replace(trainer.train(), ignored=tuple(plan.changes.values()))
            self._start(trainer, device_info, plan, initial, copied)
            if self.tensorboard:
                board = TensorBoard(trainer.run.tensorboard_folder, trainer.state.update)
                trainer.metrics.board = board
            return trainer.train()

    def _plan(self) -> _Plan:
        existing = find_existing(self.run, restart=self.restart)
        continued = existing if not self.restart else None
        config = with_sizes(
            self.config,
            resolve_device(self.device).type,
            continued.trained_config(system_configs()) if continued else None,
        )
        if continued:
            check_initial(continued, self.initial, keep_optimiser=self.keep_optimiser)
        recorded = continued.info if continued else {}
        return _Plan(
            config=config,
            is_new=continued is None,
            has_weights=bool(continued and continued.checkpoints()),
            # "products" in runs of earlier versions
            matmul_backend=recorded.get("matmul_backend", recorded.get("products")),
            changes=compare(continued, config, self.corpus) if continued else {},
            train=identity(self.corpus, "train"),
            largest=recorded.get(LARGEST),  # not in runs of earlier versions
        )

    def _largest(self, trainer: Trainer, plan: _Plan) -> int | None:
        if not plan.is_new:
            return plan.largest
        if self.ranks.is_sharding:  # one rank cannot compute alone
            return None
        measured = (largest_size(trainer, self.config),) if self.ranks.is_first else None
        return self.ranks.from_first(measured)[0]

    def _create(
        self, trainer: Trainer, plan: _Plan, initial: Run | None, copied: Sequence[CopiedWeights]
    ) -> None:
        existing = find_existing(self.run, restart=self.restart)
        sources = [find_run(weights.run) for weights in copied] + ([initial] if initial else [])
        if existing and any(each.folder.resolve() == self.run.resolve() for each in sources):
            raise ConfigError(
                "--restart would delete the run whose weights the new one starts from",
                where=str(self.run),
                hint="--run OTHER starts a new run from them",
                kind="command.usage",
            )
        with existing.lock() if existing else contextlib.nullcontext():
            info = self._run_info(trainer, initial, copied)
            pipeline, is_replaced = self.corpus.pipeline, existing is not None
            Run.create(self.run, plan.config, pipeline, info, replaces=is_replaced)

    def _run_info(
        self, trainer: Trainer, initial: Run | None, copied: Sequence[CopiedWeights]
    ) -> dict[str, Any]:
        corpus, model = self.corpus, trainer.model
        return {
            "data": str(corpus.folder.resolve()),
            "corpus": corpus.name,
            "train": identity(corpus, "train"),
            "labels": {k: v for k, v in corpus.label_names.items() if k in model.auxiliary_weights},
            "parameters": model.parameter_count(),
            "frozen_parameters": model.frozen_count(),
            "init_from": [dataclasses.asdict(weights) for weights in copied],
            "from": str(initial.folder) if initial else None,
            "from_checkpoint": initial.chosen if initial else None,
            "launch": launch_id(),
            "jtrans": __version__,
            "torch": torch.__version__,
            "keep_optimiser": self.keep_optimiser,
            LARGEST: trainer.plan.largest,
        }

    def _taken(self, initial: Run | None) -> list[str]:
        if initial is None:
            return []
        optimiser = ", with its optimiser" if self.keep_optimiser else ""
        return [f"all weights of {initial.folder} ({initial.checkpoint('best').name}){optimiser}"]

    def _start(
        self,
        trainer: Trainer,
        device_info: DeviceInfo,
        plan: _Plan,
        initial: Run | None,
        copied: Sequence[CopiedWeights],
    ) -> None:
        changed = changes_of_weights(plan.changes, plan.config)
        if changed and trainer.state.update:  # before `update_config`, which hides the difference
            trainer.run.update_info(changed=sorted({*changed, *trainer.run.changed_settings}))
        trainer.run.update_config(plan.config)
        trainer.run.update_info(
            data=str(self.corpus.folder.resolve()),
            valid=identity(self.corpus, "valid"),  # not in runs of earlier versions
            matmul_backend=device_info.matmul_backend,
        )
        start = Start(
            run=self.run,
            update=trainer.state.update,
            system=plan.config.model.system,
            parameters=trainer.model.parameter_count(),
            device=device_info.describe(trainer.precision) + self.ranks.describe(),
            micro_batch=trainer.plan.describe(),
            changes=tuple(plan.changes.values()),
            frozen=trainer.model.frozen_count(),
            copied=(*self._taken(initial), *(weights.describe() for weights in copied)),
            warnings=(
                *check_rate(plan.config),
                *check_warmup(trainer.schedule, expected_updates(trainer)),
                *check_labels(trainer.model, self.corpus),
            ),
        )
        trainer.events.start(start)


def find_existing(folder: Path, *, restart: bool) -> Run | None:
    """Return the run in `folder`, None if there is none.

    A run to `restart` is not read, so it may be damaged.

    Raises:
        ConfigError: the folder holds something else.
        CheckpointError: the run was written by a newer jtrans.
    """
    if Run.exists(folder):
        return Run(folder) if restart else Run.open(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        seeds = sorted(each.name[5:] for each in folder.glob("seed-*") if Run.exists(each))
        hint = f"continue its runs with --seeds {','.join(seeds)}, or " if seeds else ""
        raise ConfigError(
            "the folder already exists and is not a run",
            where=str(folder),
            hint=f"{hint}choose another folder, or move its contents elsewhere",
            kind="run.not-a-run",
        )
    return None
