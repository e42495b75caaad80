"""`jtrans translate`: its options, and the order in which they are checked."""

from __future__ import annotations

import shlex
from dataclasses import replace

from jtrans.cli import console
from jtrans.cli.options import SEARCH, DecodingOptions, argument, check_choice, grouped, option
from jtrans.cli.translate.options import (
    ENGINE,
    ENGINES,
    AlignmentOptions,
    CheckOptions,
    ConstraintOptions,
    ProcessOptions,
    SamplingFlags,
    TokenRuleOptions,
)
from jtrans.errors import lines_of

TEXT = "Text"
FORMATS = ("text", "jsonl")


@grouped()
def translate(
    runs: list[str] = argument("RUN", "A run, or several as an ensemble."),
    input_file: str = option(
        "Text to translate.", "FILE|-", default="-", panel=TEXT, names=["--input", "-i"]
    ),
    output_file: str = option(
        "File for the translations.", "FILE|-", default="-", panel=TEXT, names=["--output", "-o"]
    ),
    input_format: str = option(
        "jsonl: objects with a field `source` and optional `prefix`, `prefix_tokens`, `phrases`, "
        "`forbidden`; other fields are passed through.",
        "text|jsonl",
        default="text",
        panel=TEXT,
    ),
    output_format: str = option(
        "jsonl: with scores and tokens.",
        "text|jsonl",
        default="text",
        panel=TEXT,
        names=["--format"],
    ),
    *,
    shard: str | None = option(
        "Translate only part K of N of the input file, for several machines; join the outputs "
        "with cat.",
        "K/N",
        panel=TEXT,
    ),
    decoding: DecodingOptions,
    n_best: int = option(
        "Translations per line; as text: LINE ||| TRANSLATION ||| SCORE.", default=1, panel=SEARCH
    ),
    rules: TokenRuleOptions,
    constraints: ConstraintOptions,
    sampled: SamplingFlags,
    aligned: AlignmentOptions,
    checked: CheckOptions,
    processes: ProcessOptions,
    engine: str = ENGINE,
) -> None:
    """Translate raw text line by line, preserving order and empty lines.

    Input from a pipe is streamed; on a terminal, you are prompted for lines.
    From a file to a file, the same command continues an interrupted translation.

    [bold]Examples[/bold]

    jtrans translate @last --input test.de --output test.hyp.en --workers 2

    echo "Ein Mann liest ." | jtrans translate runs/a runs/b --n-best 3

    jtrans translate @last -i test.de --phrases terms.en --beam 10

    jtrans translate @last -i test.de --sample --beam 32 --epsilon 0.02 --mbr chrf
    """
    from jtrans.cli.translate.input import LineInput, check_outputs
    from jtrans.cli.translate.work import TranslationWork
    from jtrans.decoding.engines.ctranslate2_options import check_engine
    from jtrans.exports import find_models

    check_choice("--input-format", input_format, FORMATS)
    check_choice("--format", output_format, FORMATS)
    check_choice("--engine", engine, ENGINES)
    check_outputs(
        [("--input", input_file), *constraints.files().items()],
        {"--output": output_file, "--alignments-file": aligned.alignments_file},
    )
    for_text = {
        "--input": input_file != "-",
        "--output": output_file != "-",
        "--shard": shard is not None,
        "--input-format": input_format != "text",
        "--format": output_format != "text",
        "--n-best": n_best != 1,
        "--alignments-file": aligned.alignments_file is not None,
        **{name: file is not None for name, file in constraints.files().items()},
        "--workers": processes.workers != 1,
        "--gpus": processes.gpus is not None,
    }
    checked.refuse_unused([name for name, is_given in for_text.items() if is_given])
    opened = find_models(runs, engine)
    as_json = output_format == "jsonl"
    extras = aligned.extras(sampling=sampled.sampling(), mbr=rules.mbr, as_json=as_json)
    choices = decoding.choices(extras, nbest=n_best, **rules.search())
    choices = replace(choices, needs_scores=as_json or n_best > 1)
    choices.check(opened)
    check_engine(opened, choices)
    if checked.check:
        checked.compare(opened, choices)
        return
    gpus = processes.devices(decoding.device)
    source = LineInput(input_file)
    files = constraints.read(source.total)
    if shard:
        files.keep(source.take_shard(shard))
    work = TranslationWork(
        opened,
        choices,
        source,
        files,
        is_json_input=input_format == "jsonl",
        as_json=as_json,
        n_best=n_best,
        # several processes would wait for further lines before the first answer
        workers=1 if source.is_prompt else processes.workers,
        gpus=gpus,
    )
    with lines_of(source.name, *files.names):
        work.check_input()
        work.write(output_file, aligned.alignments_file)
    if shard and output_file != "-":
        console.next_step("cat OUTPUTS > FILE, with the outputs of all parts in order")
    elif output_file != "-" and (as_json or n_best == 1):
        case = " --lowercase" if opened[0].pipeline.target.lowercase else ""
        hypothesis = shlex.quote(output_file)
        console.next_step(f"jtrans score --hyp {hypothesis} --ref REFERENCE{case}")
