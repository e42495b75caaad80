"""From a configuration, a prepared corpus and a folder to a trained run.

New or existing run, restart, initial weights: everything is checked before anything is written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from jtrans import __version__
from jtrans.config import Config
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import ConfigError, CorpusError
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import build_model, system_configs
from jtrans.nn.device import (
    DeviceInfo,
    prepare_device,
    resolve_device,
    resolve_precision,
    use_matmul_backend,
)
from jtrans.nn.layer import compile_layers, is_compiled, set_recompute
from jtrans.runs import Run
from jtrans.training.continuing import compare, identity
from jtrans.training.distributed.group import joined
from jtrans.training.distributed.ranks import Ranks
from jtrans.training.events import Result, Start, TrainingEvents
from jtrans.training.feeding.size import largest_size
from jtrans.training.tensorboard import TensorBoard, check_installed
from jtrans.training.trainer import Trainer
from jtrans.training.updates import with_sizes
from jtrans.training.weights.initial import (
    CopiedWeights,
    freeze,
    initialise,
    load_initial,
    take_optimiser,
)

if TYPE_CHECKING:  # loading torch's takes seconds
    from jtrans.training.distributed.sharding import Sharding

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
    """Train a new run, or continue an existing one where it stopped, see `jtrans.api.train`.

    Raises:
        ConfigError: settings that cannot be used, or that an existing run cannot change to.
        CorpusError: the prepared corpus is missing or damaged.
        CheckpointError: the run has other vocabularies or data, or is damaged.
        WorkError: training diverged, or memory ran out.
    """
    if tensorboard:
        check_installed()
    with joined(device, shard_model=shard_model) as ranks:
        return _Session(config, data, run, ranks, ranks.device(device)).train(
            restart=restart,
            initial=initial,
            keep_optimiser=keep_optimiser,
            tensorboard=tensorboard,
            events=events,
            should_stop=should_stop,
        )


@dataclass(frozen=True)
class _Plan:
    """What the first rank finds in the run's folder; the others need no access to it."""

    config: Config  # with the sizes of micro-batches
    is_new: bool  # there is no run yet, or it starts over
    has_weights: bool  # the run has checkpoints
    matmul_backend: str | None  # that the run recorded
    changes: tuple[str, ...]  # of settings, as text
    train: dict[str, Any]  # the identity of the training data
    largest: int | None  # the size above which the run cuts micro-batches


class _Session:
    """One start of training, on one of the `ranks`."""

    def __init__(
        self, config: Config, data: Path, run: Path, ranks: Ranks, device: str | None
    ) -> None:
        self.corpus = PreparedCorpus.open(data)
        self.config, self.run, self.ranks, self.device = config, run, ranks, device

    def train(
        self,
        *,
        restart: bool,
        initial: Run | None,
        keep_optimiser: bool,
        tensorboard: bool,
        events: TrainingEvents | None,
        should_stop: Callable[[], bool],
    ) -> Result:
        corpus, ranks = self.corpus, self.ranks
        plan = ranks.from_first(self._plan(restart=restart) if ranks.is_first else None)
        if plan.train != identity(corpus, "train"):
            raise CorpusError(
                "this machine has other training data than the first",
                where=str(corpus.folder),
                hint="all machines need the same prepared corpus in this folder",
                kind="distributed.other-corpus",
            )
        if plan.has_weights:
            initial = None
        trainer, device_info = make_trainer(
            Run(self.run),
            plan.config,
            corpus,
            device=self.device,
            matmul_backend=plan.matmul_backend,
            initial=initial,
            keep_optimiser=keep_optimiser,
            events=events,
            should_stop=should_stop,
            ranks=ranks,
        )
        copied: tuple[CopiedWeights, ...] = ()
        if not plan.has_weights:
            copied = initialise(trainer.model, plan.config, corpus)
        trainer.plan.largest = self._largest(trainer, plan)
        if not ranks.is_first:
            trainer.resume()
            return trainer.train()
        if plan.is_new:
            existing = find_existing(self.run, restart=restart)
            with existing.lock() if existing else contextlib.nullcontext():
                info = _run_info(corpus, trainer.model, initial, copied)
                info[LARGEST] = trainer.plan.largest
                Run.create(
                    self.run, plan.config, corpus.pipeline, info, replace=existing is not None
                )
        with trainer.run.lock():
            trainer.run.remove_leftovers()
            trainer.run.keep_word_counts(corpus.word_counts_path("target"))
            trainer.resume()
            if not trainer.is_finished:
                self._start(trainer, device_info, plan, copied)
                if tensorboard:
                    board = TensorBoard(trainer.run.tensorboard_folder, trainer.state.update)
                    trainer.metrics.board = board
            return trainer.train()

    def _plan(self, *, restart: bool) -> _Plan:
        existing = find_existing(self.run, restart=restart)
        continued = existing if not restart else None
        config = with_sizes(
            self.config,
            resolve_device(self.device).type,
            continued.config(system_configs()) if continued else None,
        )
        recorded = continued.info if continued else {}
        return _Plan(
            config=config,
            is_new=continued is None,
            has_weights=bool(continued and continued.checkpoints()),
            # "products" in runs of earlier versions
            matmul_backend=recorded.get("matmul_backend", recorded.get("products")),
            changes=compare(continued, config, self.corpus) if continued else (),
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

    def _start(
        self,
        trainer: Trainer,
        device_info: DeviceInfo,
        plan: _Plan,
        copied: Sequence[CopiedWeights],
    ) -> None:
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
            changes=plan.changes,
            frozen=trainer.model.frozen_count(),
            copied=tuple(weights.describe() for weights in copied),
            warnings=check_labels(trainer.model, self.corpus),
        )
        trainer.events.start(start)


def make_trainer(
    run: Run,
    config: Config,
    corpus: PreparedCorpus,
    *,
    device: str | None = None,
    matmul_backend: str | None = None,
    initial: Run | None = None,
    keep_optimiser: bool = False,
    events: TrainingEvents | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    ranks: Ranks | None = None,
) -> tuple[Trainer, DeviceInfo]:
    """Build model and trainer, and return the trainer with its device; nothing is written."""
    ranks = ranks or Ranks()
    place = resolve_device(device)
    config = with_sizes(config, place.type)
    precision = resolve_precision(place, config.training.precision)
    device_info = prepare_device(place, for_training=True)
    if ranks.count > 1:  # all take the first one's choice: a resumed run computes the same
        matmul_backend = ranks.from_first(matmul_backend or device_info.matmul_backend)
    device_info = use_matmul_backend(device_info, matmul_backend)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when deterministic
    torch.use_deterministic_algorithms(config.training.deterministic)
    # weights and dropout draw from the global generators, which checkpoints save and restore
    torch.manual_seed(config.training.seed)
    random.seed(config.training.seed)
    sides = corpus.pipeline.source, corpus.pipeline.target
    with _too_large(config):
        model = build_model(config.model, *(len(side.vocabulary) for side in sides))
        if not ranks.is_sharding:
            model = model.to(place)
    if ranks.count > 1 and model.has_batch_statistics:
        raise ConfigError(
            f"{config.model.system} normalises over micro-batches, which several processes cut "
            "differently: each would train another model",
            where="model",
            hint="train it in one process, without --processes, --gpus or torchrun",
            kind="distributed.batch-statistics",
        )
    check_lengths(model, corpus)
    check_labels(model, corpus)
    check_metrics(model, config, corpus)
    set_recompute(model, config.training.recompute)
    if is_compiled(config.training.compile, place):
        compile_layers(model)
    checkpoint = load_initial(model, initial, config, corpus) if initial is not None else None
    freeze(model, config.training.freeze)
    sharding = _shard(model, config, place, ranks) if ranks.is_sharding else None
    events = events or TrainingEvents()
    trainer = Trainer(run, model, corpus, config, precision, events, should_stop, ranks, sharding)
    if initial is not None and checkpoint is not None and keep_optimiser:
        take_optimiser(initial, checkpoint, config, model, trainer.optimiser)
    return trainer, device_info


def _shard(model: TranslationModel, config: Config, place: torch.device, ranks: Ranks) -> Sharding:
    """Shard the weights of a model over the ranks.

    Raises:
        ConfigError: the optimiser cannot step with shards.
    """
    if config.training.optimiser.decay_power is not None:
        raise ConfigError(
            "Adafactor needs the means of whole rows and columns, of which --shard-model leaves "
            "each process a part",
            where="training.optimiser",
            hint="another optimiser, such as --set training.optimiser.name=adam, or train without "
            "--shard-model",
            kind="distributed.shard-optimiser",
        )
    from jtrans.training.distributed.sharding import Sharding

    return Sharding(model, place, ranks.count)


def check_labels(model: TranslationModel, corpus: PreparedCorpus) -> tuple[str, ...]:
    """Check that the heads of a model can learn the labels of a corpus (docs/systems.md 6.4).

    Returns:
        A warning about each kind of label that the corpus does not have.

    Raises:
        ConfigError: the corpus has more labels of a kind than the model.
    """
    warnings = []
    for kind in model.auxiliary_weights:
        names, count = corpus.label_names.get(kind, []), model.label_counts[kind]
        if len(names) > count:
            raise ConfigError(
                f"{corpus.folder} has {len(names)} labels of the kind {kind}, the model {count}",
                where=f"model.{kind}_tags",
                hint=f"--set model.{kind}_tags={len(names)}",
                kind="config.labels",
            )
        if not names:
            warnings.append(
                f"{corpus.folder} has no {kind} labels: the model does not learn them, as if "
                f"model.{kind}_weight were 0 (jtrans prepare --labels adds labels)"
            )
    return tuple(warnings)


def check_metrics(model: TranslationModel, config: Config, corpus: PreparedCorpus) -> None:
    """Check that validation measures the accuracies of labels that decide about checkpoints.

    Raises:
        ConfigError: the model does not learn such labels, or the valid split has none.
    """
    training = config.training
    for metric in (training.best_metric, training.stop.metric if training.stop else None):
        kind = (metric or "").removeprefix("valid-")
        if kind not in ("pos", "ner"):
            continue
        if kind not in model.auxiliary_weights or kind not in corpus.pairs("valid").labels:
            lacking = (
                f"{corpus.folder} has no {kind} labels for valid"
                if kind in model.auxiliary_weights
                else f"a {config.model.system} with these settings does not learn {kind} labels"
            )
            raise ConfigError(
                f"the metric {metric} cannot be measured: {lacking}",
                where="training.best_metric",
                hint="--set training.best_metric=valid-loss",
                kind="config.value",
            )


@contextlib.contextmanager
def _too_large(config: Config) -> Iterator[None]:
    """Refuse sizes whose parameters alone exceed memory, or the range of a number."""
    try:
        yield
    except (RuntimeError, TypeError, MemoryError, OverflowError) as error:
        detail = str(error).strip().splitlines()[0] if str(error) else "out of memory"
        words = ("memory", "overflow", "storage size", "too large", "invalid shape")
        if isinstance(error, (RuntimeError, TypeError)) and not any(
            word in detail.lower() for word in words
        ):
            raise
        raise ConfigError(
            f"a {config.model.system} of width {config.model.width} does not fit "
            f"into memory: {detail}",
            where="model",
            hint="smaller sizes, for example --set model.width=256 --set model.ffn_width=1024",
            kind="config.too-large",
        ) from error


def check_lengths(model: TranslationModel, corpus: PreparedCorpus) -> None:
    """Check that the model can read all sentences of the training and the validation data.

    Raises:
        CorpusError: some are longer.
    """
    limit = model.longest
    if limit is None:
        return
    for split in ("train", "valid"):
        pairs = corpus.pairs(split)
        longest = np.maximum(pairs.source.lengths, pairs.target.lengths)
        count, most = int((longest > limit).sum()), int(longest.max(initial=0))
        if count:
            raise CorpusError(
                f"{count:,} of {len(pairs):,} sentence pairs of {split} are longer than this "
                f"model's {limit:,} positions: up to {most:,} tokens",
                where=str(corpus.folder),
                hint=f"--set model.positions={most}, or prepare it with a lower --max-length",
                kind="corpus.too-long",
            )


def find_existing(folder: Path, *, restart: bool = False) -> Run | None:
    """Return the run in `folder`, None if it is free; a run to `restart` need not be readable.

    Raises:
        ConfigError: the folder holds something else.
        CheckpointError: the run was written by a newer jtrans.
    """
    if Run.exists(folder):
        return Run(folder) if restart else Run.open(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            f"{folder} already exists and is not a run",
            where="--run",
            hint="choose another folder: --run runs/NAME",
            kind="run.not-a-run",
        )
    return None


def _run_info(
    corpus: PreparedCorpus,
    model: TranslationModel,
    initial: Run | None,
    copied: Sequence[CopiedWeights],
) -> dict[str, Any]:
    return {
        "data": str(corpus.folder.resolve()),
        "corpus": corpus.name,
        "train": identity(corpus, "train"),
        "labels": {k: v for k, v in corpus.label_names.items() if k in model.auxiliary_weights},
        "parameters": model.parameter_count(),
        "frozen_parameters": model.frozen_count(),
        "init_from": [dataclasses.asdict(weights) for weights in copied],
        "from": str(initial.folder) if initial else None,
        "jtrans": __version__,
        "torch": torch.__version__,
    }
