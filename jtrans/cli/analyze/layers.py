"""`jtrans analyze layers`: with which weights layers read earlier layers."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from jtrans.cli import console
from jtrans.cli.analyze.options import check_writable, out_option
from jtrans.cli.analyze.show import print_item
from jtrans.cli.options import CHECKPOINT, JSON, argument, check_folder_name

if TYPE_CHECKING:
    from jtrans.runs import Run


def layers(
    runs: list[str] = argument("RUN", "One run or several."),
    checkpoint: str = CHECKPOINT,
    out: Path | None = out_option("reports/ of the first run"),
    as_json: bool = JSON,
) -> None:
    """Show which earlier layers each layer reads, in systems that learn to combine layers.

    [bold]Examples[/bold]

    jtrans analyze layers runs/demo/dlcl

    jtrans analyze layers @last --checkpoint last --json
    """
    from jtrans.analysis.study.load import system_names
    from jtrans.runs import find_run

    check_folder_name(out)
    opened = [find_run(name, with_checkpoint=True) for name in runs]
    names = system_names(opened)
    for run, name in zip(opened, names, strict=True):
        _check_run(run, name)
        run.checkpoint(checkpoint)
    folder = out or opened[0].reports_folder
    check_writable(folder)
    import torch

    from jtrans.analysis.figures.layers import layer_tables
    from jtrans.analysis.figures.results import as_json as item_json
    from jtrans.analysis.output.files import write_results
    from jtrans.decoding.translator import load_model

    cpu = torch.device("cpu")
    items = layer_tables(
        (name, load_model(run, checkpoint, cpu)) for run, name in zip(opened, names, strict=True)
    )
    files = write_results(items, folder)
    if as_json:
        console.print_json(
            {
                "analysis": "layers",
                "systems": [
                    {
                        "name": name,
                        "runs": [run.folder.as_posix()],
                        "checkpoint": run.checkpoint(checkpoint).name,
                    }
                    for run, name in zip(opened, names, strict=True)
                ],
                "results": [item_json(item) for item in items],
                "files": [path.as_posix() for path in files],
            }
        )
        return
    print_item(items[0], is_first=True)
    console.say("Written", f"{len(files)} files in {folder}")
    names = [run.with_chosen(run.folder.as_posix()) for run in opened]
    names += [] if checkpoint == CHECKPOINT.default else ["--checkpoint", checkpoint]
    console.next_step(f"jtrans analyze report {shlex.join(names)}")


def _check_run(run: Run, name: str) -> None:
    """Refuse a run of a system that does not learn to combine layers."""
    from jtrans.analysis.figures.layers import has_layer_weights, systems_with_layer_weights
    from jtrans.errors import ConfigError
    from jtrans.models.zoo import system_configs

    system = run.config(system_configs()).model.system
    if not has_layer_weights(system):
        raise ConfigError(
            f"{name} has no weights of layers to show: its system is {system}",
            where=str(run.folder),
            hint=f"systems that have them: {', '.join(systems_with_layer_weights())}",
            kind="analysis.no-layer-weights",
        )
