"""Build a model and its trainer; the run is not written."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch

from jtrans.config import Config, TrainingConfig
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import ConfigError
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import build_model
from jtrans.nn.device import (
    DeviceInfo,
    prepare_device,
    resolve_device,
    resolve_precision,
    use_matmul_backend,
)
from jtrans.nn.layer import compile_layers, is_compiled, set_recompute
from jtrans.nn.memory import describe, is_too_large, within_memory
from jtrans.runs import Run
from jtrans.training.distributed.ranks import Ranks
from jtrans.training.events import TrainingEvents
from jtrans.training.setup.checks import (
    check_batch_statistics,
    check_labels,
    check_lengths,
    check_metrics,
    check_tied,
)
from jtrans.training.setup.matmul_backend import usual_backend
from jtrans.training.trainer import Trainer
from jtrans.training.updates import with_sizes
from jtrans.training.weights.initial import freeze, load_initial, take_optimiser

if TYPE_CHECKING:  # importing torch's FSDP takes seconds
    from jtrans.training.distributed.sharding import Sharding

LONG_UPDATES, LONG_MINUTES = 5_000, 15.0  # from which training may gain by compiling layers


def make_trainer(
    run: Run,
    config: Config,
    corpus: PreparedCorpus,
    *,
    device: str | None = None,
    matmul_backend: str | None = None,
    initial: Run | None = None,
    keep_optimiser: bool = False,
    is_new: bool = True,
    events: TrainingEvents | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    ranks: Ranks | None = None,
) -> tuple[Trainer, DeviceInfo]:
    """Build model and trainer, and return the trainer with its device; the run is not written.

    Settings that would spoil a run are refused if it `is_new`; runs begun with an earlier version
    may continue with them.

    Raises:
        JtransError: the settings, the corpus and the initial weights do not fit each other.
    """
    ranks = ranks or Ranks()
    place = resolve_device(device)
    config = with_sizes(config, place.type)
    precision = resolve_precision(place, config.training.precision, for_training=True)
    device_info = prepare_device(place, for_training=True)
    if matmul_backend is None and place.type == "cpu":
        matmul_backend = usual_backend(device_info)
    if ranks.count > 1:  # all use the first one's choice, so that a resumed run computes the same
        matmul_backend = ranks.from_first(matmul_backend or device_info.matmul_backend)
    device_info = use_matmul_backend(device_info, matmul_backend)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when deterministic
    torch.use_deterministic_algorithms(config.training.deterministic)
    # weights and dropout draw from the global generators, which checkpoints save and restore
    torch.manual_seed(config.training.seed)
    random.seed(config.training.seed)
    if is_new:
        check_tied(config, corpus)
    with _too_large(config), within_memory():
        model = build_model(config.model, *corpus.pipeline.vocabulary_sizes)
        if not ranks.is_sharding:
            model = model.to(place)
    check_batch_statistics(model, config, processes=ranks.count, is_new=is_new)
    check_lengths(model, corpus)
    check_labels(model, corpus)
    check_metrics(model, config, corpus)
    set_recompute(model, config.training.recompute)
    is_long = _is_long(config.training, corpus)
    if is_compiled(config.training.compile, place, is_joint=model.is_joint, is_long=is_long):
        compile_layers(model)
    checkpoint = load_initial(model, initial, config, corpus) if initial is not None else None
    freeze(model, config.training.freeze)
    sharding = _shard(model, config, place, ranks) if ranks.is_sharding else None
    events = events or TrainingEvents()
    trainer = Trainer(run, model, corpus, config, precision, events, should_stop, ranks, sharding)
    if initial is not None and checkpoint is not None and keep_optimiser:
        take_optimiser(initial, checkpoint, config, model, trainer.optimiser)
    return trainer, device_info


def _is_long(training: TrainingConfig, corpus: PreparedCorpus) -> bool:
    """Return whether training may last so long that compiling layers saves time."""
    limits = [] if training.max_updates is None else [training.max_updates]
    if training.max_epochs is not None:
        tokens = int(corpus.pairs("train").target.lengths.sum())
        limits.append(training.max_epochs * max(1, tokens // training.batch_tokens))
    minutes = training.max_minutes
    return min(limits, default=LONG_UPDATES) >= LONG_UPDATES and (
        minutes is None or minutes >= LONG_MINUTES
    )


def _shard(model: TranslationModel, config: Config, place: torch.device, ranks: Ranks) -> Sharding:
    """Shard the weights of a model over the ranks.

    Raises:
        ConfigError: the optimiser cannot step with shards.
    """
    if config.training.optimiser.decay_power is not None:
        raise ConfigError(
            "Adafactor needs the means of whole rows and columns, but with --shard-model each "
            "process has only a part of them",
            where="training.optimiser",
            hint="use another optimiser, such as --set training.optimiser.name=adam, or train "
            "without --shard-model",
            kind="distributed.shard-optimiser",
        )
    from jtrans.training.distributed.sharding import Sharding

    return Sharding(model, place, ranks.count)


@contextlib.contextmanager
def _too_large(config: Config) -> Iterator[None]:
    """Refuse sizes whose parameters alone exceed memory, or the range of a number."""
    try:
        yield
    except (RuntimeError, TypeError, MemoryError, OverflowError) as error:
        if not is_too_large(error):
            raise
        raise ConfigError(
            f"a {config.model.system} of width {config.model.width} does not fit "
            f"into memory: {describe(error)}",
            where="model",
            hint="choose smaller sizes, such as --set model.width=256 --set model.ffn_width=1024",
            kind="config.too-large",
        ) from error
