"""Find runs by name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from pathlib import Path

from jtrans.config import recipe_names
from jtrans.errors import CheckpointError, name_hint
from jtrans.files import disk_errors
from jtrans.runs.run import RUNS, Run

MOST_NAMED = 5  # runs in a hint
TRIALS = "trials.txt"  # marks a folder of trial runs of `jtrans scale`
_TRIAL = re.compile(r"(base|deeper|wider)-\d+")  # the names of trial runs


def find_run(name: str, *, without: Collection[Path] = (), with_checkpoint: bool = False) -> Run:
    """Return a run by its folder, its name under runs/, or ``@last``.

    Args:
        name: a run, perhaps with one of its checkpoints: ``RUN@CHECKPOINT``.
        without: runs that are not the last one. Nor are the trial runs of a scaling.
        with_checkpoint: whether a checkpoint may be named.

    Raises:
        CheckpointError: there is no such run; the hint names the closest. Or a checkpoint is named
            where none may be.
    """
    alone, _, checkpoint = name.rpartition("@")
    with disk_errors(Path(name)):
        is_folder = Path(name).exists() or (RUNS / name).exists()
    if alone and checkpoint and not is_folder:
        run = find_run(alone, without=without)
        if not with_checkpoint:
            raise CheckpointError(
                f"{name} names a checkpoint, but a whole run is used here",
                hint=f"name the run: {shlex.quote(alone)}",
                kind="checkpoint.unused",
            )
        return Run(run.folder, checkpoint)
    if name == "@last":
        return _last_run(without)
    places = (Path(name), RUNS / name)
    for folder in places:
        if Run.exists(folder):
            return Run.open(folder)
    for folder in places:
        if inside := sorted(path.parent for path in folder.glob("[!.]*/run.json")):
            raise CheckpointError(
                f"{folder} is not a run, but holds {len(inside)}",
                hint=f"name them: {shlex.join(map(str, inside[:MOST_NAMED]))}"
                + (" ..." if len(inside) > MOST_NAMED else ""),
                kind="run.missing",
            )
    for folder in places:
        if folder.is_dir():
            return Run.open(folder)
    if Path(name).is_file():
        raise CheckpointError(
            f"{name} is a file, not a run",
            hint="a run is the folder that jtrans train creates; for files of text, see the "
            "options in the command's --help",
            kind="run.missing",
        )
    names = [folder.relative_to(RUNS).as_posix() for folder in list_runs()]
    names += ["@last"] if names else []
    wanted = name.removeprefix(f"{RUNS}/")
    # the default run of a recipe, which has not been trained
    command = f"jtrans train {wanted}" if wanted in recipe_names() else None
    raise CheckpointError(
        f"no such run: {name}",
        hint=command or name_hint(wanted, names, "create one with jtrans train"),
        kind="run.missing",
    )


def _last_run(without: Collection[Path]) -> Run:
    left_out = {folder.resolve() for folder in without}
    runs = [folder for folder in list_runs() if folder.resolve() not in left_out]
    if not runs:
        raise CheckpointError(
            f"there are no {'other ' if without else ''}runs under runs/ yet",
            hint="create one with jtrans train",
            kind="run.missing",
        )
    own = [folder for folder in runs if not _is_trial(folder)] or runs
    return Run.open(max(own, key=lambda folder: (folder / "run.json").stat().st_mtime))


def list_runs() -> list[Path]:
    """Return the folders of all runs under runs/, without those that are still being written."""
    if not RUNS.is_dir():
        return []
    folders = (path.parent for path in RUNS.rglob("run.json"))
    return sorted(
        folder
        for folder in folders
        if not any(part.startswith(".") for part in folder.relative_to(RUNS).parts)
    )


def _is_trial(folder: Path) -> bool:
    """Return whether a run is a trial of `jtrans scale`, which ``@last`` does not mean."""
    marks = (TRIALS, "scale.json")  # earlier versions wrote only the second, at the end
    return bool(_TRIAL.fullmatch(folder.name)) and any((folder.parent / m).exists() for m in marks)
