"""Whether a model can learn from a corpus: lengths, labels, metrics, statistics of batches."""

from __future__ import annotations

import numpy as np

from jtrans.config import Config
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import ConfigError, CorpusError, how_many
from jtrans.models.base import TranslationModel
from jtrans.training.optimisation.schedule import Schedule

LEAST_FACTOR = 0.01  # a smaller factor of the schedule `noam` is taken for a learning rate


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
                f"{count:,} of {len(pairs):,} sentence pairs of {split} exceed this model's "
                f"{limit:,} positions: up to {most:,} tokens",
                where=str(corpus.folder),
                hint=(
                    f"--set model.positions={most}, or prepare the corpus with a lower --max-length"
                    if "positions" in type(model.config).model_fields
                    else "prepare the corpus with a lower --max-length"
                ),
                kind="corpus.too-long",
            )


def check_labels(model: TranslationModel, corpus: PreparedCorpus) -> tuple[str, ...]:
    """Check that the heads of a model can learn the labels of a corpus (docs/systems.md 6.4).

    Returns:
        A warning about each kind of label that the corpus does not have.

    Raises:
        ConfigError: the corpus has more labels of a kind than the model, or the system does not
            declare their number.
    """
    warnings = []
    for kind in model.auxiliary_weights:
        names, count = corpus.label_names.get(kind, []), model.label_counts.get(kind)
        if count is None:
            raise ConfigError(
                f"{model.config.system} has a loss for {kind} labels, but not their number",
                where="model.system",
                hint=f"add {kind}, which is in its auxiliary_weights, to its label_counts, too",
                kind="config.labels",
            )
        if len(names) > count:
            raise ConfigError(
                f"{corpus.folder} has {len(names)} labels of the kind {kind}, the model {count}",
                where=f"model.{kind}_tags",
                hint=(
                    f"--set model.{kind}_tags={len(names)}"
                    if f"{kind}_tags" in type(model.config).model_fields
                    else f"the label_counts of {model.config.system} must allow as many"
                ),
                kind="config.labels",
            )
        if not names:
            warnings.append(
                f"{corpus.folder} has no {kind} labels: the model does not learn them, as if "
                f"model.{kind}_weight were 0 (jtrans prepare --labels adds labels)"
            )
    return tuple(warnings)


def check_rate(config: Config) -> tuple[str, ...]:
    """Return a warning if the factor of the schedule `noam` looks like a learning rate."""
    training = config.training
    if training.schedule.name != "noam" or training.learning_rate >= LEAST_FACTOR:
        return ()
    return (
        f"training.learning_rate {training.learning_rate:g} is the factor of the schedule noam, "
        "usually 1, and not a rate: training will be very slow (--set training.learning_rate=1.0)",
    )


def check_warmup(schedule: Schedule, updates: int | None) -> tuple[str, ...]:
    """Return a warning if training ends before the learning rate reaches its peak.

    Args:
        schedule: of the learning rate.
        updates: those of the whole training, None if its limits do not determine them.
    """
    warmup, replicas = schedule.warmup, schedule.replicas
    if updates is None or updates > warmup or not warmup:
        return ()
    shorter = max(1, updates // 10 // replicas)
    return (
        f"training ends after {how_many(updates, 'update')} or so, but the learning rate rises for "
        f"{warmup:,}: shorten its warm-up (--set training.schedule.warmup={shorter}) "
        "or train longer",
    )


def check_tied(config: Config, corpus: PreparedCorpus) -> None:
    """Check that source and target have the same tokens if they share one embedding matrix.

    Raises:
        ConfigError: the tokens differ.
    """
    source, target = corpus.pipeline.source.vocabulary, corpus.pipeline.target.vocabulary
    if getattr(config.model, "tie", None) == "all" and source.tokens != target.tokens:
        raise ConfigError(
            f"tie = 'all' needs one vocabulary for both sides, but {corpus.folder} has two",
            where="model.tie",
            hint="use model.tie = 'decoder', or prepare the corpus with --vocabulary joint",
        )


def check_batch_statistics(
    model: TranslationModel, config: Config, *, processes: int, is_new: bool
) -> None:
    """Check that a model that normalises over the tokens of a micro-batch gets all of them.

    Cutoff is refused only for new runs: those begun with an earlier version may continue.

    Raises:
        ConfigError: processes would share micro-batches, or cutoff would empty tokens.
    """
    if not model.has_batch_statistics:
        return
    if processes > 1:
        raise ConfigError(
            f"{config.model.system} normalises over micro-batches, which several processes cut "
            "differently: the model would depend on their number",
            where="model",
            hint="train it in one process, without --processes, --gpus or torchrun",
            kind="distributed.batch-statistics",
        )
    if is_new and config.training.cutoff:
        raise ConfigError(
            f"{config.model.system} normalises over the tokens of a micro-batch, and those that "
            "cutoff empties would count as padding",
            where="training.cutoff",
            hint="--set training.cutoff=0",
            kind="config.value",
        )


def check_metrics(model: TranslationModel, config: Config, corpus: PreparedCorpus) -> None:
    """Check that validation measures the accuracies of labels that decide about checkpoints.

    Raises:
        ConfigError: the model does not learn such labels, or the valid split has none.
    """
    for key, metric in config.training.deciding_metrics.items():
        kind = metric.removeprefix("valid-")
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
                where=key,
                hint=f"--set {key}=valid-loss",
                kind="config.value",
            )
