"""Checkpoint averaging: the arithmetic mean of the weights (docs/systems.md 0.8)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor

from jtrans.errors import CheckpointError, ConfigError, JtransError, how_many
from jtrans.files import read_json, write_json
from jtrans.nn.device import precise
from jtrans.runs import WEIGHTS, WINDOW, Checkpoint, Run, damaged
from jtrans.runs.checkpoint import SEAL
from jtrans.runs.checkpoint_folder import POINTERS

NEWEST = "average"  # the name of an average that a new one may replace
RECORD = "average.json"
OF_AVERAGES = frozenset({WEIGHTS, SEAL, RECORD})  # the files of an average


def choose_checkpoints(
    run: Run, *, last: int | None = None, updates: Sequence[int] | None = None
) -> list[Checkpoint]:
    """Return the checkpoints to average: of `updates`, else the `last` newest ones, or all.

    Raises:
        ConfigError: `last` is less than 1.
        CheckpointError: the run does not have them.
    """
    if updates:
        return [run.checkpoint(str(update)) for update in sorted(set(updates))]
    if last is not None and last < 1:
        raise ConfigError(
            f"cannot average the last {last} checkpoints",
            where="--last",
            hint="--last N with N at least 1",
        )
    checkpoints = [each for each in run.checkpoints() if each.weights.is_file()]
    if not checkpoints:
        run.checkpoint("last")  # refuses a run that has not saved any
    if last is None:
        return checkpoints
    if len(checkpoints) < last:
        count, numbers = len(checkpoints), ", ".join(str(each.update) for each in checkpoints)
        raise CheckpointError(
            f"the run has {how_many(count, 'checkpoint')}, not {last}: "
            f"of update{'' if count == 1 else 's'} {numbers}",
            where=str(run.folder),
            hint=f"--last {count}, or train with --set training.keep.last={last}",
            kind="checkpoint.missing",
        )
    return checkpoints[-last:]


def average_checkpoints(
    run: Run,
    checkpoints: Sequence[Checkpoint],
    name: str = NEWEST,
    shares: Sequence[float] | None = None,
) -> Path:
    """Write the mean of the weights as the run's checkpoint `name`, and return its folder.

    `shares` are those of `average_weights`.

    Raises:
        ConfigError: the name could be taken for another checkpoint, or leaves the folder.
        CheckpointError: a checkpoint is damaged, or of a different model.
    """
    check_name(name)
    with undamaged_hint(run):
        for checkpoint in checkpoints:
            checkpoint.verify(WEIGHTS)
        weights = [checkpoint.weights for checkpoint in checkpoints]
        means, metadata = average_weights(weights, shares)
    with run.new_checkpoint(name) as temporary:
        safetensors.torch.save_file(means, temporary / WEIGHTS, metadata=metadata)
        names = [checkpoint.name for checkpoint in checkpoints]
        write_json(temporary / RECORD, {"of": names})
    return run.checkpoints_folder / name


@contextmanager
def undamaged_hint(run: Run) -> Iterator[None]:
    """Say in the hint of an error about a damaged checkpoint which ones can be averaged."""
    try:
        yield
    except CheckpointError as error:
        if error.kind == "checkpoint.damaged":
            updates = ",".join(str(each.update) for each in run.checkpoints() if _is_whole(each))
            undamaged = f"choose undamaged ones: --steps {updates}"
            error.hint = undamaged if updates else "train again (--restart)"
        raise


def replaced_average(run: Run, checkpoints: Sequence[Checkpoint], name: str) -> list[str]:
    """Return the checkpoints whose average a new one called `name` would replace, if any.

    Only `average` may be replaced by the average of other checkpoints.

    Raises:
        ConfigError: no average can have the name, another one has it, or its folder has files that
            no average has.
    """
    check_name(name)
    folder = run.checkpoints_folder / name
    if not folder.exists():
        return []
    try:
        averaged = [str(each) for each in read_json(folder / RECORD)["of"]]
    except (JtransError, OSError, KeyError, TypeError):
        averaged = []  # damaged, or no average
    if averaged == [checkpoint.name for checkpoint in checkpoints]:
        return []
    is_average = folder.is_dir() and OF_AVERAGES.issuperset(path.name for path in folder.iterdir())
    if name != NEWEST or not is_average:
        raise ConfigError(
            f"{folder} exists" + (f": the average of {', '.join(averaged)}" if averaged else ""),
            where="--name",
            hint="choose another name, or delete that folder",
            kind="checkpoint.exists",
        )
    return averaged


def check_place(run: Run, checkpoints: Sequence[Checkpoint], name: str) -> None:
    """Refuse a name that no average of the newest of `checkpoints`, however many, may have.

    Raises:
        ConfigError: that of `replaced_average` for all of them.
    """
    for first in reversed(range(len(checkpoints))):
        try:
            replaced_average(run, checkpoints[first:], name)
        except ConfigError:
            if first == 0:
                raise
        else:
            return


def average_weights(
    paths: Sequence[Path], shares: Sequence[float] | None = None
) -> tuple[dict[str, Tensor], dict[str, str] | None]:
    """Return the mean of the tensors of some weight files, and the metadata of the last one.

    The mean is taken in float32 (float64 where the weights are), one file at a time.

    Args:
        paths: the files.
        shares: what each file counts, in any unit; None: all the same.

    Raises:
        CheckpointError: a file is damaged, or of a different model.
    """
    sums: dict[str, Tensor] = {}
    dtypes: dict[str, torch.dtype] = {}
    metadata: dict[str, str] | None = None
    shares = shares or [1.0] * len(paths)
    for path, share in zip(paths, shares, strict=True):
        tensors, metadata = _read(path)
        if not sums:
            dtypes = {name: tensor.dtype for name, tensor in tensors.items()}
            sums = {name: precise(tensor) * share for name, tensor in tensors.items()}
            continue
        if _shapes(tensors) != _shapes(sums):
            raise CheckpointError(
                "the checkpoints are of different models", where=str(path), kind="checkpoint.shape"
            )
        for name, tensor in tensors.items():
            sums[name] += precise(tensor) * share
    return {name: (sums[name] / sum(shares)).to(dtypes[name]) for name in sums}, metadata


def check_name(name: str) -> None:
    """Refuse a name that an average cannot have, such as that of a checkpoint of training.

    Raises:
        ConfigError: naming it.
    """
    is_plain = re.fullmatch(r"[A-Za-z][\w.-]*", name) is not None
    is_reserved = name in ("best", "last", WINDOW, POINTERS) or name.startswith("step-")
    if not is_plain or is_reserved:
        raise ConfigError(
            f"an average cannot be named {name!r}",
            where="--name",
            hint="use a letter, then letters, digits, _ . or -, but no name of training's own "
            "checkpoints and files: --name average",
        )


def _is_whole(checkpoint: Checkpoint) -> bool:
    try:
        _read(checkpoint.verify(WEIGHTS).weights)
    except CheckpointError:
        return False
    return True


def _shapes(tensors: dict[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str] | None]:
    try:
        with safetensors.safe_open(path, framework="pt") as stream:
            names = list(stream.keys())
            tensors = {name: stream.get_tensor(name) for name in names}
            metadata = stream.metadata()
    except (safetensors.SafetensorError, OSError) as error:
        raise damaged(path, error) from error
    for name, tensor in tensors.items():
        if not (tensor.is_floating_point() and tensor.isfinite().all()):
            raise damaged(path, f"{name} holds values that are not finite numbers")
    return tensors, metadata
