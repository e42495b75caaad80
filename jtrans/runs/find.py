"""Runs by their names."""

from __future__ import annotations

from pathlib import Path

from jtrans.errors import CheckpointError, name_hint
from jtrans.runs.run import RUNS, Run


def find_run(name: str) -> Run:
    """Return a run by its folder, its name under runs/, or ``@last``.

    Raises:
        CheckpointError: there is no such run; the hint names the closest.
    """
    if name == "@last":
        runs = list_runs()
        if not runs:
            raise CheckpointError("there are no runs under runs/ yet", kind="run.missing")
        return Run.open(max(runs, key=lambda folder: (folder / "run.json").stat().st_mtime))
    for folder in (Path(name), RUNS / name):
        if Run.exists(folder):
            return Run.open(folder)
    if Path(name).is_dir():
        return Run.open(Path(name))
    names = [folder.relative_to(RUNS).as_posix() for folder in list_runs()]
    names += ["@last"] if names else []
    raise CheckpointError(
        f"no such run: {name}",
        hint=name_hint(name, names, "create one with jtrans train"),
        kind="run.missing",
    )


def list_runs() -> list[Path]:
    """Return the folders of all runs under runs/."""
    return sorted(path.parent for path in RUNS.rglob("run.json")) if RUNS.is_dir() else []
