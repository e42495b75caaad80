"""Checks that a run can continue with the given settings and data."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from jtrans.config import Config
from jtrans.config.load import flat_settings
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
# Training settings that may change within a run while its weights still count as the recipe's.
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
# Settings that cannot change, either, if scores of translations decide on checkpoints or stopping.
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
        CheckpointError: the corpus is not the run's, see `check_same_corpus`.
        ConfigError: a setting that a run cannot change differs.
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
    """Return the changed settings, by dotted key, after which weights are not of `config` alone."""
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
    """Refuse a corpus other than that of a run.

    Raises:
        CheckpointError: the run has other vocabularies, labels, training or validation data, or
            was imported.
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
        data = Path(run.info.get("data", "DIR"))
        own = f"--data {shlex.quote(str(data))}"
        if not data.is_dir() or data.resolve() == corpus.folder.resolve():
            own = "--data DIR with its own corpus"  # which was moved, or prepared anew
        raise CheckpointError(
            f"the run {run.folder} was trained with different {difference} from {corpus.folder}",
            where=str(run.folder),
            hint=f"{own} continues it; --restart --data {shlex.quote(str(corpus.folder))} "
            "starts over",
            kind="run.other-corpus",
        )


def check_initial(run: Run, initial: Run | None, *, keep_optimiser: bool) -> None:
    """Check that `run` is continued with the options --from and --keep-optimiser it began with.

    Once it has a checkpoint, --from may be left out.

    Raises:
        ConfigError: it began with the weights of another run or of none, or with the other value of
            `keep_optimiser`.
    """
    began, named = run.began_with, run.initial_name
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
        hint = f"--from {named}"
    else:
        folder = initial.folder.resolve()
        # it may have been moved, or its path be relative to another working folder
        is_moved = began and not Path(began).exists() and Path(began).name == folder.name
        is_same = is_moved or (began and Path(began).resolve() == folder)
        if is_same and initial.chosen == run.info.get("from_checkpoint"):
            return
        hint = "leave out --from to continue it" if not began else f"--from {named} continues it"
    raise ConfigError(
        f"the run began {f'with the weights of {named}' if began else 'without --from'}",
        where=str(run.folder),
        hint=f"{hint}; --restart starts over, --run OTHER is a new run",
        kind="config.fixed-key",
    )


def different_settings(run: Run, config: Config) -> dict[str, tuple[Any, Any]]:
    """Return the settings that differ from those of a run, with both values, by dotted key."""
    old, new = (
        flat_settings(each.model_dump(mode="json"))
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
    """Refuse a run of another model, training or corpus.

    Args:
        run: begun or finished; its micro-batch sizes, which depend on its machine, may differ.
        config: the configuration that it should have.
        corpus: the corpus that it should be trained on.
        free: the beginnings of keys that may differ.
        sections: the beginnings of the keys that are compared.

    Raises:
        ConfigError: a setting differs, or differed in earlier updates; or training began with the
            weights of another run (--from), which no setting names.
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
    """Replace the hints of errors where a command trains several runs.

    Such commands have ``--out`` and the same settings for all runs, but no ``--restart``.
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
        return  # early stopping was switched on or off: no count depends on another metric
    raise ConfigError(
        f"{key} is {shown_value(new)} here, but the run has {shown_value(old)}",
        where=str(run.folder),
        hint="a run cannot change this setting: --restart starts over, --run OTHER is a new run",
        kind="config.fixed-key",
    )


def shown_value(value: Any) -> str:
    """Return a value roughly as in a recipe, leaving out settings that are not set."""
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
