"""Predict the memory and time that training some models will take."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.config import Config
from jtrans.errors import EXIT_BAD_INPUT, JtransError, WorkError
from jtrans.files import write_text
from jtrans.processors import own_command

if TYPE_CHECKING:
    from jtrans.training.estimate import Estimate


def predict(configs: Mapping[str, Config], data: Path, device: str | None) -> dict[str, Estimate]:
    """Estimate memory and time of training some models, each with ``jtrans train --dry-run``.

    Each estimate runs in a process of its own, whose peak memory is that of its model alone.

    Raises:
        JtransError: bad input, such as a damaged corpus.
        WorkError: an estimate failed, for example because memory ran out.
    """
    from jtrans.training.estimate import Estimate

    estimates = {}
    for name, config in configs.items():
        with tempfile.TemporaryDirectory(prefix="jtrans-scale-") as folder:
            path = Path(folder) / f"{name}.toml"
            write_text(path, config.to_toml())
            estimates[name] = Estimate(**_dry_run(name, path, data, device))
    return estimates


def _dry_run(name: str, config: Path, data: Path, device: str | None) -> dict[str, Any]:
    command = [*own_command(), "train", str(config), "--data", str(data)]
    command += ["--dry-run", "--json", *(["--device", device] if device else [])]
    ended = subprocess.run(command, capture_output=True, check=False)
    try:
        value = dict(json.loads(ended.stdout))
    except ValueError:
        value = {"error": _failure(ended)}
    if "error" in value:
        error = value["error"]
        is_bad_input = ended.returncode == EXIT_BAD_INPUT
        raise (JtransError if is_bad_input else WorkError)(
            f"memory and time of the {name} model cannot be estimated: {error['message']}",
            where=error.get("where"),
            hint=error.get("hint"),
            kind=error.get("kind") if is_bad_input else "scaling.estimate",
        )
    return value


def _failure(ended: subprocess.CompletedProcess[bytes]) -> dict[str, str | None]:
    """Return the error of an estimate that did not report one itself."""
    if ended.returncode == -signal.SIGKILL:
        return {
            "message": "its process was killed, as the system does when memory runs out",
            "hint": "use a smaller --step or base model, or a machine with more memory",
        }
    text = ended.stderr.decode(errors="replace").strip()[-500:]
    return {"message": text or f"its process ended with {ended.returncode}", "hint": None}
