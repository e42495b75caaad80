"""From a configuration, a prepared corpus and a folder to a trained run.

New or existing run, restart, initial weights: everything is checked before anything is written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from jtrans import __version__
from jtrans.config import Config
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import CheckpointError, ConfigError, CorpusError
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import build_model, load_weights, system_configs
from jtrans.nn.device import (
    DeviceInfo,
    prepare_device,
    resolve_device,
    resolve_precision,
    use_matmul_backend,
)
from jtrans.nn.layer import compile_layers, is_compiled, set_recompute
from jtrans.runs import WEIGHTS, Run
from jtrans.training.events import Result, Start, TrainingEvents
from jtrans.training.tensorboard import TensorBoard, check_installed
from jtrans.training.trainer import Trainer
from jtrans.training.updates import with_sizes
from jtrans.training.weights.initial import (
    INIT_FROM,
    CopiedWeights,
    check_vocabularies,
    freeze,
    initialise,
)

# Settings that cannot change within a run: another value would make it a different run, or
# invalidate the position in the epoch where it stopped.
FIXED = (
    "training.batch_tokens",
    "training.micro_batch_tokens",
    "training.micro_batch_joint",
    "training.micro_batch_overhead",
    "training.bpe_dropout",
    "training.r_drop",
    "training.optimiser",
    "training.best_metric",
    "training.stop.metric",
    "training.seed",
    "training.init_from",
    "training.freeze",
    "model",
)


def train(
    config: Config,
    *,
    data: Path,
    run: Path,
    device: str | None = None,
    restart: bool = False,
    initial: Run | None = None,
    tensorboard: bool = False,
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
    corpus = PreparedCorpus.open(data)
    existing = find_existing(run, restart=restart)
    continued = existing if not restart else None
    config = with_sizes(
        config,
        resolve_device(device).type,
        continued.config(system_configs()) if continued else None,
    )
    changes: tuple[str, ...] = ()
    if existing and not restart:
        changes = compare(existing, config, corpus)
        initial = None if existing.checkpoints() else initial
    recorded = existing.info if existing and not restart else {}
    trainer, device_info = make_trainer(
        Run(run),
        config,
        corpus,
        device=device,
        # "products" in runs of earlier versions
        matmul_backend=recorded.get("matmul_backend", recorded.get("products")),
        initial=initial,
        events=events,
        should_stop=should_stop,
    )
    copied: tuple[CopiedWeights, ...] = ()
    if not (continued and continued.checkpoints()):
        copied = initialise(trainer.model, config, corpus)
    if existing is None or restart:
        with existing.lock() if existing else contextlib.nullcontext():
            info = _run_info(corpus, trainer.model, initial, copied)
            Run.create(run, config, corpus.pipeline, info, replace=existing is not None)
    with trainer.run.lock():
        trainer.run.remove_leftovers()
        trainer.run.keep_word_counts(corpus.word_counts_path("target"))
        trainer.resume()
        if not trainer.is_finished:
            trainer.run.update_config(config)
            trainer.run.update_info(
                data=str(corpus.folder.resolve()),
                valid=_identity(corpus, "valid"),  # not in runs of earlier versions
                matmul_backend=device_info.matmul_backend,
            )
            start = Start(
                run=run,
                update=trainer.state.update,
                system=config.model.system,
                parameters=trainer.model.parameter_count(),
                device=device_info.describe(trainer.precision),
                micro_batch=trainer.plan.describe(),
                changes=changes,
                frozen=trainer.model.frozen_count(),
                copied=tuple(weights.describe() for weights in copied),
                warnings=check_labels(trainer.model, corpus),
            )
            trainer.events.start(start)
            if tensorboard:
                board = TensorBoard(trainer.run.tensorboard_folder, trainer.state.update)
                trainer.metrics.board = board
        return trainer.train()


def make_trainer(
    run: Run,
    config: Config,
    corpus: PreparedCorpus,
    *,
    device: str | None = None,
    matmul_backend: str | None = None,
    initial: Run | None = None,
    events: TrainingEvents | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> tuple[Trainer, DeviceInfo]:
    """Build model and trainer, and return the trainer with its device; nothing is written."""
    place = resolve_device(device)
    config = with_sizes(config, place.type)
    precision = resolve_precision(place, config.training.precision)
    device_info = prepare_device(place, for_training=True)
    device_info = use_matmul_backend(device_info, matmul_backend)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when deterministic
    torch.use_deterministic_algorithms(config.training.deterministic)
    # weights and dropout draw from the global generators, which checkpoints save and restore
    torch.manual_seed(config.training.seed)
    random.seed(config.training.seed)
    sides = corpus.pipeline.source, corpus.pipeline.target
    with _too_large(config):
        model = build_model(config.model, *(len(side.vocabulary) for side in sides)).to(place)
    check_lengths(model, corpus)
    check_labels(model, corpus)
    check_metrics(model, config, corpus)
    set_recompute(model, config.training.recompute)
    if is_compiled(config.training.compile, place):
        compile_layers(model)
    if initial is not None:
        load_initial(model, initial, config, corpus)
    freeze(model, config.training.freeze)
    events = events or TrainingEvents()
    trainer = Trainer(run, model, corpus, config, precision, events, should_stop)
    return trainer, device_info


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


def load_initial(
    model: TranslationModel, initial: Run, config: Config, corpus: PreparedCorpus
) -> None:
    """Start from the best weights of another run of the same system.

    Raises:
        ConfigError: `training.init_from` names weights, too.
        CheckpointError: it has other vocabularies, or a model of another size.
    """
    if config.training.init_from:
        raise ConfigError(
            f"--from takes all weights from {initial.folder}, but {INIT_FROM} names weights, too",
            where="--from",
            hint=f"leave out --from, or add --set {INIT_FROM}=[]",
            kind="config.init-from",
        )
    check_vocabularies(initial, corpus, "--from")
    checkpoint = initial.checkpoint("best")
    checkpoint.verify(WEIGHTS)
    load_weights(model, checkpoint.weights)


def compare(run: Run, config: Config, corpus: PreparedCorpus) -> tuple[str, ...]:
    """Check that `run` can continue with these settings and data.

    Returns:
        The settings that change, as text.

    Raises:
        CheckpointError: the run has other vocabularies, training or validation data.
        ConfigError: a setting that a run cannot change.
    """
    difference = None
    if run.info.get("train") != _identity(corpus, "train"):
        difference = "training data"
    elif run.info.get("valid", _identity(corpus, "valid")) != _identity(corpus, "valid"):
        difference = "validation data"  # its scores decide which checkpoint is best
    if run.pipeline.fingerprint() != corpus.pipeline.fingerprint():
        difference = "vocabularies"
    if any(corpus.label_names.get(kind) != names for kind, names in run.label_names.items()):
        difference = "labels"
    if difference:
        raise CheckpointError(
            f"the run {run.folder} was trained with different {difference} from {corpus.folder}",
            where=str(run.folder),
            hint=f"--data {run.info.get('data', 'DIR')} continues it; --restart starts over",
            kind="run.other-corpus",
        )
    old, new = (
        _flat(each.model_dump(mode="json")) for each in (run.config(system_configs()), config)
    )
    changes = []
    for key in sorted(key for key in {*old, *new} if old.get(key) != new.get(key)):
        if any(key == fixed or key.startswith(f"{fixed}.") for fixed in FIXED):
            _check_fixed(run, key, old.get(key), new.get(key))
        if key.startswith("training."):
            changes.append(f"{key} {_shown(old.get(key))} -> {_shown(new.get(key))}")
    return tuple(changes)


def _check_fixed(run: Run, key: str, old: Any, new: Any) -> None:
    if key == "training.stop.metric" and (old is None or new is None):
        return  # early stopping was switched on or off: there is no count that could mislead
    raise ConfigError(
        f"{key} is {_shown(new)} here, but the run has {_shown(old)}",
        where=str(run.folder),
        hint="a run cannot change this setting: --restart starts over, --run OTHER is a new run",
        kind="config.fixed-key",
    )


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        elif value is not None:
            flat[f"{prefix}{key}"] = value
    return flat


def _shown(value: Any) -> str:
    return "not set" if value is None else str(value)


def _identity(corpus: PreparedCorpus, split: str) -> dict[str, Any]:
    """Return the entries of corpus.json that identify a split."""
    info = corpus.info["splits"][split]
    return {key: info[key] for key in ("sha256", "pairs", "tokens", "references") if key in info}


def _run_info(
    corpus: PreparedCorpus,
    model: TranslationModel,
    initial: Run | None,
    copied: Sequence[CopiedWeights],
) -> dict[str, Any]:
    return {
        "data": str(corpus.folder.resolve()),
        "corpus": corpus.name,
        "train": _identity(corpus, "train"),
        "labels": {k: v for k, v in corpus.label_names.items() if k in model.auxiliary_weights},
        "parameters": model.parameter_count(),
        "frozen_parameters": model.frozen_count(),
        "init_from": [dataclasses.asdict(weights) for weights in copied],
        "from": str(initial.folder) if initial else None,
        "jtrans": __version__,
        "torch": torch.__version__,
    }
