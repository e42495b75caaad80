"""`jtrans average`: one checkpoint from several."""

from __future__ import annotations

import shlex

from jtrans.cli import console
from jtrans.cli.options import JSON, argument, option
from jtrans.errors import usage_error


def average(
    run: str = argument("RUN", "A folder, a name, or @last."),
    last: int | None = option("Number of newest checkpoints.", shown="5"),
    steps: str | None = option("Checkpoints at these updates instead.", "N,N,..."),
    name: str = option("Name of the new checkpoint.", default="average"),
    as_json: bool = JSON,
) -> None:
    """Average the weights of some checkpoints of a run.

    [bold]Examples[/bold]

        jtrans average runs/demo/transformer --last 5

        jtrans average @last --steps 1000,2000,3000 --name middle
    """
    if last is not None and steps is not None:
        raise usage_error("--last and --steps exclude each other", "use one of them")
    updates = _parse(steps)
    from jtrans.runs import find_run

    opened = find_run(run)  # a wrong name is refused before torch is imported
    from jtrans.training.weights.averaging import average_checkpoints, choose_checkpoints

    checkpoints = choose_checkpoints(opened, last=5 if last is None else last, updates=updates)
    folder = average_checkpoints(opened, checkpoints, name)
    names = [checkpoint.name for checkpoint in checkpoints]
    if as_json:
        console.print_json({"checkpoint": str(folder), "of": names})
    console.talk(f"averaged {', '.join(names)} into {folder}")
    place = shlex.quote(str(opened.folder))
    console.next_step(f"jtrans translate {place} --checkpoint {shlex.quote(name)}")


def _parse(steps: str | None) -> list[int] | None:
    if steps is None:
        return None
    parts = [part.strip() for part in steps.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise usage_error(
            f"--steps needs update numbers, not {steps!r}", "for example --steps 1000,2000"
        )
    return [int(part) for part in parts]
