"""`jtrans export`: a run as a model of another program."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from jtrans.cli import console
from jtrans.cli.options import CHECKPOINT, JSON, argument, check_choice, option

if TYPE_CHECKING:
    from jtrans.exports import Export

PROGRAMS = ("ctranslate2",)


def export(
    run: str = argument("RUN", "A run."),
    program: str = option(
        "ctranslate2: a Transformer, for CTranslate2.",
        "ctranslate2",
        default=...,
        names=["--to"],
    ),
    out: Path | None = option("Folder of the export.", "DIR", "RUN/exports/PROGRAM"),
    checkpoint: str = CHECKPOINT,
    quantize: str | None = option(
        "Store the weights in this type (ctranslate2).", "int8|float16|bfloat16", "float32"
    ),
    as_json: bool = JSON,
) -> None:
    """Export a run to another program.

    The folder also holds the text pipeline, a README and the digests of all files.

    [bold]Examples[/bold]

      jtrans export @last --to ctranslate2 --quantize int8
    """
    from jtrans.decoding.engines.ctranslate2_options import QUANTIZATIONS
    from jtrans.exports import default_folder
    from jtrans.runs import find_run

    check_choice("--to", program, PROGRAMS)
    if quantize is not None:
        check_choice("--quantize", quantize, QUANTIZATIONS)
    opened = find_run(run)
    folder = out or default_folder(opened, program)
    from jtrans.exchange.to_ctranslate2 import export_to_ctranslate2

    made = export_to_ctranslate2(opened, folder, checkpoint=checkpoint, quantization=quantize)
    if as_json:
        console.print_json({"export": str(made.folder), **made.facts})
    _describe(made)
    target = run if out is None else str(out)
    console.next_step(f"jtrans translate {shlex.quote(target)} --engine {program} --input FILE")


def _describe(made: Export) -> None:
    facts = made.facts
    size = sum(path.stat().st_size for path in made.folder.rglob("*") if path.is_file())
    console.talk(f"{'Exported':<12} {facts['run']}, checkpoint {facts['checkpoint']}")
    console.talk(f"{'Model':<12} {facts['system']}, weights {facts['weights']}")
    console.talk(f"{'Written':<12} {made.folder}, {size / 1e6:,.1f} MB")
