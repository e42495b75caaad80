"""A checkpoint of a run, and the choice of an undamaged one."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from jtrans.errors import CheckpointError, JtransError
from jtrans.files import read_json, remembered_digest

# the files of a checkpoint; SEAL has the digests of the others
WEIGHTS, OPTIMISER, STATE = "model.safetensors", "state.safetensors", "state.json"
SEAL = "sha256.json"
Used = TypeVar("Used")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoint:
    """A saved state of a run."""

    name: str  # step-00012000, or the name of an average
    folder: Path

    @property
    def update(self) -> int | None:
        """The number of updates done, None for an average."""
        match = re.fullmatch(r"step-(\d+)", self.name)
        return int(match[1]) if match else None

    @property
    def weights(self) -> Path:
        """The file of the model's weights."""
        return self.folder / WEIGHTS

    def verify(self, *names: str) -> Checkpoint:
        """Check files against their digests, and return the checkpoint.

        A checkpoint without digests is used with a warning: it may be from before version 0.1.0, be
        an incomplete copy, or have weights that were changed on purpose.

        Raises:
            CheckpointError: a file is missing, or was changed or truncated.
        """
        seal = self.folder / SEAL
        for name in names:
            file = self.folder / name
            if not file.is_file():
                raise damaged(file, "the file is missing")
            if not seal.exists():
                continue
            try:
                digests = dict(read_json(seal))
            except (JtransError, TypeError, ValueError) as error:
                raise damaged(seal, "not valid JSON") from error
            if digests.get(name) != remembered_digest(file):
                raise damaged(file, "its contents have changed since it was written")
        if not seal.exists():
            _log.warning("%s cannot be verified: it has no %s", self.folder, SEAL)
        return self


def first_undamaged(checkpoints: Iterable[Checkpoint], use: Callable[[Checkpoint], Used]) -> Used:
    """Return the result of `use` for the first checkpoint that it does not find damaged.

    Raises:
        CheckpointError: all are damaged, or `use` found another fault.
    """
    faults: list[CheckpointError] = []
    for checkpoint in checkpoints:
        try:
            used = use(checkpoint)
        except CheckpointError as error:
            if error.kind != "checkpoint.damaged":
                raise
            faults.append(error)
            continue
        for fault in faults:
            _log.warning("%s (%s): using %s", fault.message, fault.where, checkpoint.name)
        return used
    fault = faults[0]
    fault.hint = "no other checkpoint is intact: train again (jtrans train with --restart)"
    raise fault


def damaged(file: Path, fault: object) -> CheckpointError:
    """Return the error for a damaged file of a checkpoint."""
    return CheckpointError(
        f"the checkpoint is damaged: {fault}",
        where=str(file),
        hint="use another checkpoint (--checkpoint UPDATE), or train again (--restart)",
        kind="checkpoint.damaged",
    )


def step_name(update: int) -> str:
    """Return the name of the checkpoint of an update."""
    return f"step-{update:08d}"
