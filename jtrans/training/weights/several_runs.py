"""Averages over several runs: of a model and copies that were fine-tuned from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from jtrans.errors import CheckpointError, usage_error
from jtrans.models.zoo import system_configs
from jtrans.runs import WEIGHTS, Checkpoint, Run
from jtrans.training.setup.continuing import different_settings, shown_value


def checkpoints_of_runs(runs: Sequence[Run], shares: Sequence[float] | None) -> list[Checkpoint]:
    """Return a checkpoint of each run to average: the one named with it, else the best.

    Their names tell the runs, too, and the shares if given: ``0.5 base@step-00012000``.

    Raises:
        ConfigError: a checkpoint is named twice.
        CheckpointError: a run has other vocabularies or another model than the first, or its
            checkpoint is missing or damaged.
    """
    for other in runs[1:]:
        _check_same_model(runs[0], other)
    chosen = [run.checkpoint("best").verify(WEIGHTS) for run in runs]
    if len({checkpoint.folder.resolve() for checkpoint in chosen}) < len(chosen):
        raise usage_error("a checkpoint is named twice", "name every run, or RUN@CHECKPOINT, once")
    labels = [f"{share:g} " for share in shares] if shares else [""] * len(runs)
    return [
        Checkpoint(f"{label}{run.name}@{checkpoint.name}", checkpoint.folder)
        for label, run, checkpoint in zip(labels, runs, chosen, strict=True)
    ]


@contextmanager
def hint_of_runs() -> Iterator[None]:
    """Say in the hint of an error about a damaged checkpoint how to name another of that run."""
    try:
        yield
    except CheckpointError as error:
        if error.kind == "checkpoint.damaged":
            error.hint = "name another checkpoint of that run: RUN@UPDATE"
        raise


def has_one_origin(runs: Sequence[Run]) -> bool:
    """Return whether all runs descend from the weights of one run (``--from``), or are that run."""
    return len({_origin(run) for run in runs}) == 1


def _origin(run: Run) -> Path:
    followed = [run.folder.resolve()]
    while run.began_with is not None:
        folder = Path(run.began_with).resolve()
        if folder in followed or not Run.exists(folder):
            return folder
        followed.append(folder)
        run = Run(folder)
    return followed[-1]


def _check_same_model(first: Run, other: Run) -> None:
    settings = different_settings(first, other.trained_config(system_configs()))
    differences = [
        f"{key} is {shown_value(ours)} and {shown_value(theirs)}"
        for key, (ours, theirs) in settings.items()
        if key.startswith("model.")
        and "dropout" not in key
        and ("model.system" not in settings or key == "model.system")
    ]
    if first.pipeline.fingerprint() != other.pipeline.fingerprint():
        differences.append("their vocabularies or text pipelines differ")
    if differences:
        raise CheckpointError(
            f"the weights of {first.folder} and {other.folder} cannot be averaged: "
            f"{'; '.join(differences)}",
            hint="average runs of one model and one prepared corpus, or one begun with another's "
            "weights: jtrans train --from",
            kind="checkpoint.shape",
        )
