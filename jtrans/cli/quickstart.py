"""`jtrans quickstart`: all steps on the built-in corpus, for a first look."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from jtrans.cli import console
from jtrans.cli.options import JSON, device_option, option
from jtrans.cli.tables import print_table
from jtrans.errors import ConfigError, CorpusError, InternalError, JtransError, how_many

if TYPE_CHECKING:
    from jtrans.analysis.study.study import Study
    from jtrans.data.prepared import PreparedCorpus
    from jtrans.runs import Run
    from jtrans.training.events import Result

CORPUS = "grammar-de-en"
DATA = "data"  # the prepared corpus in the folder of a quickstart
ELSEWHERE = "--out runs/first"
# recipe -> its share of the time. The models have the same size, but an epoch of the joint one took
# 3.5 times as long on two cores: with these shares, both have about as many epochs.
RECIPES = {"demo/transformer-small": 0.17, "demo/reformer-fast": 0.63}
ENOUGH_EPOCHS = 2  # with fewer, systems produce loops of frequent words
EXAMPLES = 3


@dataclass(frozen=True)
class TranslatedExample:
    """One test sentence, its reference, and each system's translation."""

    source: str
    reference: str
    translations: dict[str, str]


@dataclass(frozen=True)
class Conditions:
    """How long a system was trained, and the error rate of its word alignments."""

    system: str  # its name
    parameters: int  # of its model
    seconds: float  # of training and validation
    epochs: int  # whole passes over the training text
    # alignment error rate of the attention layer `alignment`; None: no alignments
    aer: float | None
    alignment: str  # the attention layer


def quickstart(
    out: Path = option("Folder for all results.", "DIR", default=Path("runs/quickstart")),
    minutes: float = option(
        "Total minutes; a fifth is reserved for the steps after training, which may take longer.",
        default=5.0,
        min=0.1,
    ),
    device: str | None = device_option(),
    as_json: bool = JSON,
) -> None:
    """Prepare, train, translate, score and analyze two small systems on the built-in corpus.

    [bold]Examples[/bold]

    jtrans quickstart

    jtrans quickstart --out runs/first --minutes 15
    """
    _check_place(out)  # before torch is loaded
    from jtrans.analysis.report.report import write_report
    from jtrans.analysis.study.load import load_study
    from jtrans.cli.score.runs import report_on_runs
    from jtrans.decoding.options import DecodingChoices
    from jtrans.nn.device import resolve_device
    from jtrans.runs import Run

    resolve_device(device)  # refuse before the first minute of work
    progress = console.TerminalProgress()
    console.talk(f"The corpus {CORPUS}: German and English sentences from a grammar")
    corpus = _prepare(out / DATA, progress)
    runs, results = [], []
    for recipe, share in RECIPES.items():
        console.talk()
        results.append(_train(recipe, corpus.folder, out, round(minutes * share, 3), device))
        runs.append(Run.open(results[-1].run))
    console.talk()
    console.talk(f"Translating {len(corpus.raw_lines('test', 'source')):,} test sentences")
    decoding = DecodingChoices(device=device)
    report = report_on_runs(runs, "test", ["bleu", "chrf"], decoding)
    study = load_study(runs, "test", decoding, progress=progress)
    conditions = _conditions(study, results)
    examples = _examples(study)
    page, _ = write_report(study, out / "report", progress)
    if as_json:
        shown = [vars(example) for example in examples]
        rest = {"examples": shown, "page": page.as_posix(), "folder": str(out)}
        rest["conditions"] = [vars(system) for system in conditions]
        console.print_json({**report.to_json(), **rest})
    else:
        _print_conditions(conditions)
        report.print()
        print("BLEU and chrF2 compare with a reference, 0 to 100: higher is better.")
        _print(examples)
        if any(system.epochs < ENOUGH_EPOCHS for system in conditions):
            print("\nThese systems saw too little of the text to translate well; to continue:")
            print(f"jtrans quickstart --out {shlex.quote(str(out))} --minutes {4 * minutes:g}")
        print(f"\nAll figures and an attention explorer: {page}")
    _say_next(runs)


def _check_place(out: Path) -> None:
    """Refuse a folder with contents that are not from an earlier quickstart.

    Raises:
        ConfigError: listing the contents.
    """
    if out.exists() and not out.is_dir():
        raise ConfigError(
            f"{out} is a file, not a folder",
            hint=f"choose another folder: {ELSEWHERE}",
            kind="command.place",
        )
    # the corpus is prepared first: until it is complete, there is only its work folder and lock
    work = f".{DATA}.work"
    others = sorted(path.name for path in out.glob("*") if not path.name.startswith(work))
    if others and not _is_ours(out / DATA):
        shown = ", ".join(others[:3]) + (" ..." if len(others) > 3 else "")
        raise ConfigError(
            f"{out} is not empty and does not hold an earlier quickstart: {shown}",
            hint=f"choose a new folder, or that of a quickstart to continue: {ELSEWHERE}",
            kind="command.place",
        )


def _prepare(folder: Path, progress: console.TerminalProgress) -> PreparedCorpus:
    """Prepare the built-in corpus.

    Raises:
        CorpusError: an earlier version of jtrans did so, with other text or by other rules.
    """
    from jtrans import api

    try:
        return api.prepare(CORPUS, out=folder, progress=progress)
    except CorpusError as error:
        if error.kind == "corpus.exists":
            error.hint = f"choose another folder: {ELSEWHERE}"  # there is no --force
        raise


def _is_ours(folder: Path) -> bool:
    """Return whether a folder holds the prepared corpus of a quickstart."""
    from jtrans.files import read_json

    try:
        info = read_json(folder / "corpus.json")
    except (JtransError, OSError):
        return False
    return isinstance(info, dict) and info.get("name") == CORPUS


def _train(recipe: str, data: Path, out: Path, minutes: float, device: str | None) -> Result:
    from jtrans.cli.train.table import train_with_table
    from jtrans.nn.device import has_fast_bf16, resolve_device
    from jtrans.training.setup.continuing import one_of_several

    # limit time, not epochs: the speed of the machine is unknown
    is_fast = has_fast_bf16(resolve_device(device))  # twice as many updates in the same time
    limits = {
        "training.max_minutes": minutes,
        "training.max_epochs": 1000,
        "training.precision": "bf16" if is_fast else "fp32",
    }
    folder = out / recipe.rpartition("/")[2]
    with one_of_several(folder):
        result, exit_code = train_with_table(
            recipe, data=data, run=folder, set=limits, device=device
        )
    if exit_code is not None:
        console.talk("stopped; run the same command again to continue")
        raise typer.Exit(exit_code)
    if not result.trained:
        console.talk(f"{recipe} is trained: {how_many(result.epochs, 'epoch')} in {folder}")
    return result


def _conditions(study: Study, results: Sequence[Result]) -> list[Conditions]:
    from jtrans.analysis.attention.gold import error_rates
    from jtrans.analysis.attention.layer_alignments import best_alignment, find_gold

    gold = find_gold(study)
    if gold is None:
        raise InternalError(f"{CORPUS} has no gold alignments")
    conditions = []
    for subject, result in zip(study.subjects, results, strict=True):
        alignment = best_alignment(subject.run_members[0], gold)
        aer = error_rates(alignment.sentences, gold)[0]
        parameters = subject.runs[0].info["parameters"]
        training = (subject.name, parameters, result.seconds, result.epochs)
        conditions.append(Conditions(*training, aer, alignment.layer))
    return conditions


def _print_conditions(conditions: Sequence[Conditions]) -> None:
    from jtrans.cli.train.table import duration

    headings = ["system", "parameters", "training", "epochs", "AER", "aligned by"]
    rows = [
        [
            system.system,
            f"{system.parameters:,}",
            duration(system.seconds),
            f"{system.epochs or '<1'}",
            "" if system.aer is None else f"{system.aer:.2f}",
            system.alignment,
        ]
        for system in conditions
    ]
    print_table(headings, rows, right=headings[1:5])
    print(
        "The models have the same size but not the same training time. AER: alignment error rate, "
        "0 is best, of the attention\nin each model's best layer, which is chosen on the same gold "
        "alignments.\n"
    )


def _examples(study: Study) -> list[TranslatedExample]:
    """Return test sentences of medium length with the translations that were scored."""
    by_length = sorted(range(len(study)), key=lambda line: len(study.source_lines[line]))
    chosen = [by_length[len(by_length) * (2 + part) // 6] for part in range(EXAMPLES)]
    return [
        TranslatedExample(
            study.source_lines[line],
            study.reference_lines[line],
            {subject.runs[0].folder.name: subject.hypotheses[line] for subject in study.subjects},
        )
        for line in chosen
    ]


def _print(examples: list[TranslatedExample]) -> None:
    for example in examples:
        print()
        width = max(len(name) for name in ("reference", *example.translations))
        rows = {"German": example.source, "reference": example.reference, **example.translations}
        for name, text in rows.items():
            print(f"{name:<{width}}  {text}")


def _say_next(runs: list[Run]) -> None:
    joint = shlex.quote(str(runs[-1].folder))
    console.talk()
    console.next_step(f"echo 'Der Mann liest ein Buch.' | jtrans translate {joint}")
    console.talk(f"      jtrans serve {joint} --open")
    console.talk(f"      jtrans models {runs[-1].folder.name}")
    console.talk(
        "      jtrans prepare --train my/train --valid my/valid --test my/test "
        "--languages de-en --out data/prepared/mine"
    )
