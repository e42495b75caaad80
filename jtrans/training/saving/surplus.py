"""Delete surplus checkpoints: the newest, the best and one every few hours stay."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from jtrans.config import KeepConfig
from jtrans.errors import CheckpointError
from jtrans.runs import OPTIMISER, STATE, WEIGHTS, Checkpoint, Run
from jtrans.training.checkpoint import read_state
from jtrans.training.state import TrainingState
from jtrans.training.stopping import METRICS, as_loss, is_better

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Saved:
    """What decides whether a checkpoint stays."""

    loss: float | None  # lower is better; None without validation
    hours: float = 0.0  # of training before it


def remove_surplus(
    run: Run,
    keep: KeepConfig,
    *,
    metric: str,
    needed: Collection[int],
    damaged: Collection[int],
) -> None:
    """Delete the checkpoints that `keep` does not cover.

    They are ranked by `metric`, a key of `METRICS`; those of the `needed` updates stay.
    Checkpoints that cannot be read are left alone, and so are those of the `damaged` updates:
    training was resumed from an earlier one.
    """
    checkpoints: list[Checkpoint] = []
    saved: list[Saved] = []
    for checkpoint in run.checkpoints():
        is_whole = all((checkpoint.folder / name).is_file() for name in (WEIGHTS, OPTIMISER, STATE))
        if not is_whole or checkpoint.update in damaged:
            continue
        try:
            state = read_state(checkpoint)
        except CheckpointError as error:
            _log.warning("%s (%s): left alone", error.message, error.where)
            continue
        value = state.validation.get(METRICS[metric]) if state.is_validated else None
        loss = None if value is None else as_loss(metric, value)
        saved.append(Saved(loss, state.seconds / 3600.0))
        checkpoints.append(checkpoint)
    chosen = choose_checkpoints_to_keep(saved, keep)
    for index, checkpoint in enumerate(checkpoints):
        if index not in chosen and checkpoint.update not in needed:
            run.remove_checkpoint(checkpoint)


def best_that_is_left(checkpoints: Sequence[Checkpoint], state: TrainingState) -> Any:
    """Return the best validation up to a state whose checkpoint exists, as `TrainingState.best`.

    The best checkpoint of that time may have been deleted for a better one that is now damaged.
    """
    best = state.best
    if best is None or any(each.update == best["update"] for each in checkpoints):
        return best
    metric, left = best["metric"], None
    for checkpoint in sorted(checkpoints, key=lambda each: each.update or 0):
        with contextlib.suppress(CheckpointError):
            other = read_state(checkpoint)
            if other.is_validated and other.update <= state.update:
                value = other.validation[METRICS[metric]]
                if is_better(metric, value, left["value"] if left else None):
                    left = {"metric": metric, "value": value, "update": other.update}
    return left


def choose_checkpoints_to_keep(saved: Sequence[Saved], keep: KeepConfig) -> set[int]:
    """Choose the checkpoints to keep, as indices.

    They are the `keep.last` newest validated ones, the `keep.best` best ones (of two equal ones the
    older), the first of every `keep.every_hours` hours, and the newest. Other checkpoints without a
    validation serve only to resume, and are not needed once there is a newer one.

    Args:
        saved: the checkpoints, oldest first.
        keep: how many are kept.
    """
    losses = [each.loss for each in saved]
    validated = [index for index, loss in enumerate(losses) if loss is not None]
    ranked = sorted(validated, key=lambda index: (losses[index], index))
    timed: dict[float, int] = {}  # the first of each period except the first period
    for index, each in enumerate(saved):
        period = each.hours // keep.every_hours if keep.every_hours else 0.0
        timed.setdefault(period, index)
    timed.pop(0.0, None)
    return {*validated[-keep.last :], *ranked[: keep.best], *timed.values(), len(saved) - 1}
