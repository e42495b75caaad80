"""Checks that a run can continue with the given settings and data."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jtrans.config import Config
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import CheckpointError, ConfigError, JtransError
from jtrans.models.zoo import system_configs
from jtrans.runs import Run
from jtrans.training.stopping import OF_TRANSLATIONS

# Settings that cannot change within a run: another value would make it a different run, or
# invalidate the position in the epoch where it stopped.
FIXED = (
    "training.batch_tokens",
    "training.micro_batch_tokens",
    "training.micro_batch_joint",
    "training.micro_batch_overhead",
    "training.bpe_dropout",
    "training.r_drop",
    "training.cutoff",
    "training.optimiser",
    "training.best_metric",
    "training.stop.metric",
    "training.seed",
    "training.init_from",
    "training.freeze",
    "model",
)
# Settings of training that may change within a run without making its weights another recipe's.
OF_NO_WEIGHT = (
    "training.max_",
    "training.stop",
    "training.keep",
    "training.validate_",
    "training.precision",
    "training.recompute",
    "training.compile",
    "training.graphs",
    "training.deterministic",
)
# the same where the scores of translations decide about checkpoints or stopping
OF_TEXT_SCORES = (
    "training.validate_sentences",
    "training.validate_beam",
    "decoding.length_penalty",
    "decoding.length_penalty_form",
    "decoding.max_length",
)


def compare(run: Run, config: Config, corpus: PreparedCorpus) -> dict[str, str]:
    """Check that `run` can continue with these settings and data.

    Returns:
        The settings that change, as text, by dotted key.

    Raises:
        CheckpointError: the run has other vocabularies, training or validation data.
        ConfigError: a setting that a run cannot change.
    """
    check_same_corpus(run, corpus)
    trainings = run.trained_config(system_configs()).training, config.training
    is_decided_by_text = all(training.keep.window for training in trainings) or any(
        all(metric in training.deciding_metrics.values() for training in trainings)
        for metric in OF_TRANSLATIONS
    )
    fixed_keys = FIXED + OF_TEXT_SCORES if is_decided_by_text else FIXED
    changes = {}
    for key, (old, new) in different_settings(run, config).items():
        if any(key == fixed or key.startswith(f"{fixed}.") for fixed in fixed_keys):
            _check_fixed(run, key, old, new)
        if key.startswith(("training.", "decoding.")):
            changes[key] = f"{key} {shown_value(old)} -> {shown_value(new)}"
    return changes


def changes_of_weights(changes: Iterable[str], config: Config) -> set[str]:
    """Return the changed settings, by dotted key, that make weights not those of `config` alone."""
    schedule = config.training.schedule
    of_rates = set()
    if schedule.has_end and schedule.updates is None:
        of_rates.add("training.max_updates")
    if schedule.name == "plateau":  # rates fall after validations
        of_rates.add("training.validate_every")
    return {
        key
        for key in changes
        if (key.startswith("training.") and not key.startswith(OF_NO_WEIGHT)) or key in of_rates
    }


def check_same_corpus(run: Run, corpus: PreparedCorpus) -> None:
    """Refuse another corpus than that of a run.

    Raises:
        CheckpointError: the run has other vocabularies, training or validation data, or was
            imported.
    """
    if run.info.get("imported"):
        raise CheckpointError(
            f"the run {run.folder} was imported, without what training needs to continue",
            where=str(run.folder),
            hint=f"--from {shlex.quote(str(run.folder))} --run OTHER begins a run with its weights",
            kind="run.imported",
        )
    difference = None
    if run.info.get("train") != identity(corpus, "train"):
        difference = "training data"
    elif run.info.get("valid", identity(corpus, "valid")) != identity(corpus, "valid"):
        difference = "validation data"  # its scores decide which checkpoint is best
    if run.pipeline.fingerprint() != corpus.pipeline.fingerprint():
        difference = "vocabularies"
    if any(corpus.label_names.get(kind) != names for kind, names in run.label_names.items()):
        difference = "labels"
    if difference:
        data = run.info.get("data", "DIR")
        data = data if Path(data).is_dir() else "DIR"  # it may have been moved
        raise CheckpointError(
            f"the run {run.folder} was trained with different {difference} from {corpus.folder}",
            where=str(run.folder),
            hint=f"--data {shlex.quote(data)} continues it; --restart --data {corpus.folder} "
            "starts over",
            kind="run.other-corpus",
        )


def check_initial(run: Run, initial: Run | None, *, keep_optimiser: bool) -> None:
    """Check that `run` continues with the run whose weights it began with, or needs it no longer.

    Raises:
        ConfigError: it began with another one, or with none; or its optimiser began otherwise.
    """
    began = run.began_with
    kept = run.info.get("keep_optimiser", keep_optimiser)  # not in runs of earlier versions
    if began and initial is not None and kept != keep_optimiser:
        raise ConfigError(
            f"the run began {'with' if kept else 'without'} --keep-optimiser",
            where=str(run.folder),
            hint=f"{'add it' if kept else 'leave it out'} to continue; --restart starts over",
            kind="config.fixed-key",
        )
    if initial is None:
        if not began or run.checkpoints():
            return
        hint = f"--from {began}"
    else:
        folder = initial.folder.resolve()
        if began and Path(began).resolve() == folder:
            return
        # it may have been moved, or its path be of another working folder
        if began and not Path(began).exists() and Path(began).name == folder.name:
            return
        hint = "leave out --from to continue it" if not began else f"--from {began} continues it"
    raise ConfigError(
        f"the run began {f'with the weights of {began}' if began else 'without --from'}",
        where=str(run.folder),
        hint=f"{hint}; --restart starts over, --run OTHER is a new run",
        kind="config.fixed-key",
    )


def different_settings(run: Run, config: Config) -> dict[str, tuple[Any, Any]]:
    """Return the settings that differ from those of a run, with both values, by dotted key."""
    old, new = (
        _flat(each.model_dump(mode="json"))
        for each in (run.trained_config(system_configs()), config)
    )
    keys = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
    return {key: (old.get(key), new.get(key)) for key in keys}


def check_same_run(
    run: Run,
    config: Config,
    corpus: PreparedCorpus,
    *,
    free: tuple[str, ...],
    sections: tuple[str, ...] = ("model.", "training."),
) -> None:
    """Refuse a run of another model, training or corpus, whose scores would not be of these.

    Args:
        run: begun or finished. How it divides its updates was chosen on its machine.
        config: that it should have.
        corpus: that it should be of.
        free: the beginnings of keys that may differ.
        sections: the beginnings of the keys that are compared.

    Raises:
        ConfigError: a setting differs, or did so before training continued; or training began with
            the weights of another run, which no setting names.
        CheckpointError: the corpus differs.
    """
    with one_of_several(run.folder):
        check_same_corpus(run, corpus)
    free += ("training.micro_batch",)
    for key, (old, new) in different_settings(run, config).items():
        if key.startswith(sections) and not key.startswith(free):
            raise ConfigError(
                f"{key} is {shown_value(new)} here, but the run {run.folder} has "
                f"{shown_value(old)}",
                hint="choose another --out, or delete this run",
                kind="config.fixed-key",
            )
    began = "the weights of another run (--from)" if run.began_with else None
    if changed := [key for key in run.changed_settings if not key.startswith(free)]:
        began = f"another {changed[0]}"
    if began is not None:
        raise ConfigError(
            f"the run {run.folder} began with {began}",
            hint="choose another --out, or delete this run",
            kind="config.fixed-key",
        )


@contextlib.contextmanager
def one_of_several(folder: Path) -> Iterator[None]:
    """Name another way out in errors of a run that a command trains among others.

    Such commands have ``--out`` and the same settings for all runs, and no ``--restart``.
    """
    try:
        yield
    except JtransError as error:
        hint = error.hint or ""
        if "--restart" in hint or "the command that wrote it" in hint:
            error.hint = (
                f"choose another --out, or delete {shlex.quote(str(folder))}: the same command "
                "then trains it from the start"
            )
        raise


def _check_fixed(run: Run, key: str, old: Any, new: Any) -> None:
    if key == "training.stop.metric" and (old is None or new is None):
        return  # early stopping was switched on or off: there is no count that could mislead
    raise ConfigError(
        f"{key} is {shown_value(new)} here, but the run has {shown_value(old)}",
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


def shown_value(value: Any) -> str:
    """Return a value much as a recipe has it, without settings that are not set."""
    if isinstance(value, list):
        return f"[{', '.join(map(shown_value, value))}]"
    if isinstance(value, dict):
        parts = (f"{key} = {shown_value(part)}" for key, part in value.items() if part is not None)
        return f"{{ {', '.join(parts)} }}"
    return "not set" if value is None else str(value)


def identity(corpus: PreparedCorpus, split: str) -> dict[str, Any]:
    """Return the entries of corpus.json that identify a split."""
    info = corpus.info["splits"][split]
    return {key: info[key] for key in ("sha256", "pairs", "tokens", "references") if key in info}
