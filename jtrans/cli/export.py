"""`jtrans export`: a run as a model of another program."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from jtrans.cli import console
from jtrans.cli.options import (
    BEAM,
    CHECKPOINT,
    JSON,
    argument,
    check_choice,
    check_folder_name,
    data_option,
    flag,
    option,
    split_option,
)
from jtrans.cli.tables import print_table
from jtrans.errors import EXIT_CHECK_FAILED, how_many, usage_error

if TYPE_CHECKING:
    from jtrans.exchange.check import ExportCheck
    from jtrans.exports import Export
    from jtrans.runs import Run

PROGRAMS = ("ctranslate2", "onnx")
CHECK = "Check"
SplitLines = tuple[list[str], list[list[str]]]  # source lines, sets of references


def export(
    run: str = argument("RUN", "Run to export."),
    program: str = option(
        "Format; ctranslate2: Transformers only; onnx: all systems without recurrence.",
        "ctranslate2|onnx",
        default=...,
        names=["--to"],
    ),
    out: Path | None = option("Folder of the export.", "DIR", "RUN/exports/PROGRAM"),
    checkpoint: str = CHECKPOINT,
    quantize: str | None = option(
        "Type of the stored weights (ctranslate2 only).", "int8|float16|bfloat16", "float32"
    ),
    check: bool = flag(
        "--check",
        "Compare translations, BLEU and speed with the run; exit code 4 if BLEU falls by more than "
        "0.2.",
        CHECK,
    ),
    split: str = split_option(CHECK),
    data: Path | None = data_option(CHECK),
    beam: int | None = BEAM,
    as_json: bool = JSON,
) -> None:
    """Export a run to another program.

    The folder also holds the text pipeline, a README and digests of all files.

    [bold]Examples[/bold]

    jtrans export @last --to ctranslate2

    jtrans export runs/small --to ctranslate2 --quantize int8 --check

    jtrans export runs/fast --to onnx --out graphs
    """
    from jtrans.decoding.options import DecodingChoices
    from jtrans.exports import default_folder
    from jtrans.runs import find_run

    _check_program(program, quantize, beam)
    check_folder_name(out)
    opened = find_run(run, with_checkpoint=True)
    checkpoint = opened.chosen or checkpoint
    # CTranslate2 has only this length penalty: the run must be compared with the same
    form = {"length_penalty_form": "power"} if program == "ctranslate2" else {}
    choices = DecodingChoices(checkpoint, search={"beam": beam, **form})
    given = {"--split": split != "test", "--data": data is not None, "--beam": beam is not None}
    if check:
        choices.check([opened])
    elif unused := " and ".join(name for name in given if given[name]):
        raise usage_error(f"no effect without --check: {unused}", "add --check")
    text = _text(opened, split, data) if check else None
    folder = out or default_folder(opened, program)
    exported = _make(opened, program, folder, checkpoint, quantize)
    _describe(exported)
    result = None
    if text is not None:
        from jtrans.exchange.check import check_export

        result = check_export(opened, exported, choices, *text, console.TerminalProgress())
    if as_json:
        checked = {"check": result.to_json()} if result else {}
        console.print_json({"export": str(exported.folder), **exported.facts, **checked})
    elif result:
        _print(result)
    target = shlex.quote(run if out is None else str(out))
    console.next_step(
        f"jtrans translate {target} --engine {program} --input FILE"
        if program == "ctranslate2"
        else f"python {shlex.quote(str(folder / 'translate_onnx.py'))} < {_words_of(opened)}"
    )
    if result and not result.comparison.is_held:
        from jtrans.decoding.comparison import MOST_LOST

        lost = result.comparison.lost
        console.warn(f"the export loses {lost:.2f} BLEU on {split}, more than {MOST_LOST}")
        raise typer.Exit(EXIT_CHECK_FAILED)


def _check_program(program: str, quantize: str | None, beam: int | None) -> None:
    """Refuse an unknown format, and options that it does not have."""
    from jtrans.decoding.engines.ctranslate2_options import QUANTIZATIONS

    check_choice("--to", program, PROGRAMS)
    if quantize is not None:
        if program != "ctranslate2":
            raise usage_error(f"--quantize is for ctranslate2, not for {program}", "leave it out")
        check_choice("--quantize", quantize, QUANTIZATIONS)
    if program == "onnx" and beam is not None:
        raise usage_error(
            "--beam is for ctranslate2: the graphs of onnx search greedily", "leave it out"
        )


def _words_of(run: Run) -> str:
    """Return the file of segmented words to translate, if the run's corpus is still there."""
    words = f"test.tok.{run.pipeline.source.language}"
    path = Path(run.info.get("data") or "") / "text" / words
    return shlex.quote(str(path)) if path.is_file() else "FILE-OF-SEGMENTED-WORDS"


def _make(run: Run, program: str, folder: Path, checkpoint: str, quantize: str | None) -> Export:
    if program == "ctranslate2":
        from jtrans.exchange.to_ctranslate2 import export_to_ctranslate2

        return export_to_ctranslate2(run, folder, checkpoint=checkpoint, quantization=quantize)
    from jtrans.exchange.graphs.export import export_to_onnx

    return export_to_onnx(run, folder, checkpoint=checkpoint)


def _text(run: Run, split: str, data: Path | None) -> SplitLines:
    from jtrans.analysis.study.load import open_corpus

    corpus = open_corpus(run, data)
    return corpus.raw_lines(split, "source"), corpus.references(split)


def _describe(export: Export) -> None:
    facts = export.facts
    size = sum(path.stat().st_size for path in export.folder.rglob("*") if path.is_file())
    console.say("Exported", f"{facts['run']}, checkpoint {facts['checkpoint']}")
    console.say("Model", f"{facts['system']}, weights {facts['weights']}")
    console.say("Written", f"{export.folder}, {size / 1e6:,.1f} MB")


def _print(check: ExportCheck) -> None:
    from jtrans.decoding.comparison import COLUMNS

    print_table(COLUMNS, check.comparison.rows(), right=COLUMNS[1:])
    if check.difference is None:
        print(
            "log-probabilities are not compared: no translation of the first "
            f"{how_many(check.scored, 'line')} is the same"
        )
        return
    difference = f"{check.difference:.1g}"
    print(f"log-probabilities in identical translations differ by at most {difference}")
