"""`jtrans import`: convert checkpoints of other programs to runs."""

from __future__ import annotations

import shlex
from pathlib import Path

from jtrans.cli import console
from jtrans.cli.options import JSON, argument, check_run_folder, option
from jtrans.errors import ConfigError, name_hint

_FORMATS = ("reformer-fairseq", "fairseq")


def import_(
    checkpoint: Path = argument("CHECKPOINT", "Checkpoint file, such as checkpoint_best.pt."),
    source_format: str = option(
        "Origin; reformer-fairseq: the original Reformer code, a fork of fairseq 0.6; fairseq: a "
        "Transformer of fairseq 0.7 to 0.12.",
        "|".join(_FORMATS),
        default=...,
        names=["--from"],
    ),
    source_dict: Path = option("Source dictionary, such as dict.de.txt.", "FILE", default=...),
    target_dict: Path = option("Target dictionary, such as dict.en.txt.", "FILE", default=...),
    run: Path = option("Folder of the new run.", "DIR", default=...),
    bpe_codes: Path | None = option(
        "BPE codes of both sides; without them, input and output are subwords.", "FILE"
    ),
    as_json: bool = JSON,
) -> None:
    r"""Convert a checkpoint of another program to a run that works like any other.

    [bold]Examples[/bold]

    jtrans import best.pt --from reformer-fairseq --source-dict dict.de.txt \
      --target-dict dict.en.txt --run runs/original

    jtrans import best.pt --from reformer-fairseq --source-dict dict.de.txt \
      --target-dict dict.en.txt --run runs/original --bpe-codes code

    jtrans import checkpoint_best.pt --from fairseq --source-dict dict.de.txt \
      --target-dict dict.en.txt --run runs/fairseq --bpe-codes code
    """
    check_run_folder(run)
    if source_format not in _FORMATS:
        raise ConfigError(
            f"unknown format: {source_format}",
            where="--from",
            hint=name_hint(source_format, _FORMATS),
            kind="config.choice",
        )
    from jtrans.exchange.reformer_fairseq import import_checkpoint
    from jtrans.models.zoo import system_configs

    imported = import_checkpoint(
        checkpoint,
        program=source_format,
        source_dict=source_dict,
        target_dict=target_dict,
        run_folder=run,
        bpe_codes=bpe_codes,
    )
    system, parameters = imported.config(system_configs()).model.system, imported.info["parameters"]
    source, target = imported.pipeline.source.vocabulary, imported.pipeline.target.vocabulary
    if as_json:
        console.print_json(
            {
                "run": str(run),
                "system": system,
                "parameters": parameters,
                "update": imported.checkpoint().update,
                "source_vocabulary": len(source),
                "target_vocabulary": len(target),
            }
        )
    console.say("Imported", str(checkpoint))
    console.say("Model", f"{system}, {parameters:,} parameters")
    console.say("Vocabulary", f"source {len(source):,} · target {len(target):,}")
    console.say("Written", str(run))
    console.next_step(f"jtrans translate {shlex.quote(str(run))} --input FILE")
