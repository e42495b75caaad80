"""The error for a run whose folder is gone while it is trained."""

from __future__ import annotations

from pathlib import Path

from jtrans.errors import WorkError


def vanished(folder: Path) -> WorkError:
    """Return the error for a run's folder that is gone."""
    return WorkError(
        f"the folder of the run has vanished: {folder}",
        hint="if its disk is no longer mounted, mount it and run the same command again; if it was "
        "deleted or moved, the same command starts over",
        kind="run.vanished",
    )
