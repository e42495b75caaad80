"""The curves of a run for TensorBoard: the numbers of its log as scalars.

Needs an extra: ``pip install 'jtrans[tensorboard]'``.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jtrans.errors import ConfigError
from jtrans.files import disk_errors

# event of the log: the names of its numbers, and theirs in TensorBoard
CURVES: dict[str, dict[str, str]] = {
    "train": {
        "loss": "train/loss",
        "nll": "train/unsmoothed_loss",
        "learning_rate": "train/learning_rate",
        "gradient_norm": "train/gradient_norm",
        "noise_scale": "train/noise_scale",
        "tokens_per_second": "train/tokens_per_second",
        "positions_per_second": "train/positions_per_second",
        "dropped": "train/dropped_updates",
        "pos_loss": "train/pos_loss",
        "ner_loss": "train/ner_loss",
    },
    "validation": {
        "valid_loss": "valid/loss",
        "perplexity": "valid/perplexity",
        "bleu": "valid/bleu",
        "chrf": "valid/chrf",
        "window": "valid/window",
    },
}


class TensorBoard:
    """Writes the curves of a run.

    Args:
        folder: of the files; TensorBoard joins those of all starts of a run.
        update: updates done so far; points of later updates, from interrupted training, are hidden.

    Raises:
        JtransError: the disk is full, or cannot be written to.
    """

    def __init__(self, folder: Path, update: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._folder = folder
        with disk_errors(folder):
            self._writer = SummaryWriter(str(folder), purge_step=update + 1)

    def add(self, event: str, update: int, values: Mapping[str, Any]) -> None:
        """Write the numbers of an event of the log.

        Raises:
            JtransError: the disk is full, or cannot be written to.
        """
        scalars = {
            tag: values[name]
            for name, tag in CURVES.get(event, {}).items()
            if values.get(name) is not None
        }
        for kind, share in values.get("accuracy", {}).items():
            scalars[f"valid/{kind}_accuracy"] = share
        with disk_errors(self._folder):
            for tag, value in scalars.items():
                self._writer.add_scalar(tag, value, update)
            for number, sample in enumerate(values.get("samples", ())):
                # indented, as TensorBoard renders Markdown
                lines = [f"    {name:<10}  {text}" for name, text in sample.items()]
                self._writer.add_text(f"valid/sample_{number}", "\n".join(lines), update)
            if event in ("validation", "end"):
                self._writer.flush()


def check_installed() -> None:
    """Check that the package tensorboard is installed.

    Raises:
        ConfigError: it is not.
    """
    if find_spec("tensorboard") is None:
        raise ConfigError(
            "the package tensorboard is not installed",
            where="--tensorboard",
            hint="pip install 'jtrans[tensorboard]'",
            kind="config.absent-package",
        )
