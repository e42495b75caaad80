"""`jtrans prepare`: a corpus of the catalogue, or a user's own files, made ready for training."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtrans.cli import console
from jtrans.cli.options import Json
from jtrans.errors import ConfigError

if TYPE_CHECKING:
    from jtrans.data.prepared import PreparedCorpus

TEXT, CLEANING = "Words and pieces", "Cleaning of train"


def prepare(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A corpus of `jtrans corpora`.")
    ] = None,
    train: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PREFIX",
            help="PREFIX.de and PREFIX.en, plain or packed; or one .tsv, .tmx, .jsonl; may repeat. "
            "Or folders made by jtrans prepare, to be merged.",
        ),
    ] = None,
    valid: Annotated[str | None, typer.Option(metavar="PREFIX", help="Validation files.")] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PREFIX",
            help="Test files; may repeat. PREFIX.0.en, PREFIX.1.en ...: several references.",
        ),
    ] = None,
    languages: Annotated[
        str | None, typer.Option(metavar="SOURCE-TARGET", help="Such as de-en.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder to make.", show_default="data/prepared/NAME, with NAME"
        ),
    ] = None,
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="DIR",
            help="Take the original files of NAME from here, and download nothing.",
        ),
    ] = None,
    segment: Annotated[
        str | None,
        typer.Option(
            help="moses, moses-escaped, jieba, whitespace, character or auto.",
            show_default="auto",
            rich_help_panel=TEXT,
        ),
    ] = None,
    source_segment: Annotated[
        str | None, typer.Option(help="The same for the source only.", rich_help_panel=TEXT)
    ] = None,
    target_segment: Annotated[
        str | None, typer.Option(help="The same for the target only.", rich_help_panel=TEXT)
    ] = None,
    lowercase: Annotated[
        bool | None,
        typer.Option(
            "--lowercase/--cased", help="Case.", show_default="cased", rich_help_panel=TEXT
        ),
    ] = None,
    truecase: Annotated[
        bool | None,
        typer.Option(
            "--truecase",
            help="Write the first word of a sentence as within sentences; output restores it.",
            show_default=False,
            rich_help_panel=TEXT,
        ),
    ] = None,
    jieba_dictionary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Extra words for jieba, one per line.",
            show_default=False,
            rich_help_panel=TEXT,
        ),
    ] = None,
    pipeline: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Reuse the text pipeline of a prepared corpus or a run; learn nothing.",
            show_default=False,
            rich_help_panel=TEXT,
        ),
    ] = None,
    bpe: Annotated[
        str | None,
        typer.Option(help="joint, separate or none.", show_default="joint", rich_help_panel=TEXT),
    ] = None,
    bpe_merges: Annotated[
        int | None,
        typer.Option(min=1, help="Merges to learn.", show_default="10000", rich_help_panel=TEXT),
    ] = None,
    bpe_min_frequency: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Merge only pairs at least this frequent.",
            show_default="2",
            rich_help_panel=TEXT,
        ),
    ] = None,
    vocabulary: Annotated[
        str | None,
        typer.Option(
            help="separate dictionaries, or one joint (for tied embeddings).",
            show_default="separate",
            rich_help_panel=TEXT,
        ),
    ] = None,
    min_count: Annotated[
        int | None,
        typer.Option(
            min=1, help="Rarer tokens become <unk>.", show_default="1", rich_help_panel=TEXT
        ),
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Longest side of a pair, in words.",
            show_default="175",
            rich_help_panel=CLEANING,
        ),
    ] = None,
    max_ratio: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="How many times longer one side may be.",
            show_default="1.5",
            rich_help_panel=CLEANING,
        ),
    ] = None,
    deduplicate: Annotated[
        bool | None,
        typer.Option(
            "--deduplicate/--no-deduplicate",
            help="Keep each pair once.",
            show_default="deduplicate",
            rich_help_panel=CLEANING,
        ),
    ] = None,
    drop_leaked: Annotated[
        bool | None,
        typer.Option(
            "--drop-leaked/--keep-leaked",
            help="Pairs that also occur in valid or test.",
            show_default="drop-leaked",
            rich_help_panel=CLEANING,
        ),
    ] = None,
    drop_identical: Annotated[
        bool | None,
        typer.Option(
            "--drop-identical/--keep-identical",
            help="Pairs with the same text on both sides.",
            show_default="drop-identical",
            rich_help_panel=CLEANING,
        ),
    ] = None,
    drop_wrong_script: Annotated[
        bool | None,
        typer.Option(
            "--drop-wrong-script/--keep-wrong-script",
            help="Pairs without a letter of their language's script on one side.",
            show_default="drop-wrong-script",
            rich_help_panel=CLEANING,
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE",
            help="Parts of speech and entities of source words, for Transformer++: "
            "spacy:MODEL or conllu:FILE.",
            show_default="the corpus's own, if it has some",
            rich_help_panel=TEXT,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes.", show_default="one for each processor"),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace another prepared corpus in --out.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a corpus ready for training: segment, clean, learn BPE, encode.

    [bold]Examples[/bold]

      jtrans prepare grammar-de-en

      jtrans prepare --train corpus/train --valid corpus/valid --test corpus/test
      --languages de-en --lowercase --bpe-merges 4000 --out data/prepared/captions
    """
    from jtrans.api import prepare as prepare_corpus

    chosen = {
        "source_segment": source_segment or segment,
        "target_segment": target_segment or segment,
        "lowercase": False if truecase and lowercase is None else lowercase,
        "truecase": False if lowercase and truecase is None else truecase,
        "jieba_dictionary": None if jieba_dictionary is None else str(jieba_dictionary),
        "bpe": bpe,
        "bpe_merges": bpe_merges,
        "bpe_min_frequency": bpe_min_frequency,
        "vocabulary": vocabulary,
        "min_count": min_count,
        "max_length": max_length,
        "max_ratio": max_ratio,
        "deduplicate": deduplicate,
        "drop_leaked": drop_leaked,
        "drop_identical": drop_identical,
        "drop_wrong_script": drop_wrong_script,
        "labels": labels,
        "pipeline": None if pipeline is None else str(pipeline),
    }
    files = {"--train": train, "--valid": valid, "--test": test, "--languages": languages}
    if name is None and any(map(_is_prepared, train or [])):
        given = {**files, "--from": from_, **chosen}
        _show(_merge_parts(train or [], given, out, force=force), as_json=as_json)
        return
    _check_source(name, files, from_)
    prepared = prepare_corpus(
        name,
        train=train or [],
        valid=valid,
        test=test or [],
        languages=languages,
        originals=from_,
        out=out,
        workers=workers,
        force=force,
        progress=console.TerminalProgress(),
        **{option: value for option, value in chosen.items() if value is not None},
    )
    _show(prepared, as_json=as_json)


def _is_prepared(path: str) -> bool:
    return (Path(path) / "corpus.json").is_file()


def _merge_parts(
    train: list[str], given: dict[str, Any], out: Path | None, *, force: bool
) -> PreparedCorpus:
    """Merge prepared corpora, which have decided all that the other options are about."""
    from jtrans.preparation.merge import merge_prepared

    text = [path for path in train if not _is_prepared(path)]
    if text:
        raise ConfigError(
            f"{text[0]} is not a prepared corpus, but others given with --train are: "
            "they cannot be mixed",
            hint=f"prepare it first: jtrans prepare --train {text[0]} --pipeline DIR",
            kind="command.usage",
        )
    extra = [name for name, value in given.items() if value not in (None, []) and name != "--train"]
    if extra:
        option = "--" + extra[0].strip("-").replace("_", "-")
        raise ConfigError(
            f"{option} does not go with prepared corpora as --train: they have settled it",
            hint="leave it out, or prepare the parts again with it",
            kind="command.usage",
        )
    if out is None:
        raise ConfigError("--out is missing", hint="--out data/prepared/all", kind="command.usage")
    folders = [Path(path) for path in train]
    return merge_prepared(folders, out, force=force, progress=console.TerminalProgress())


def _check_source(name: str | None, files: dict[str, Any], place: Path | None) -> None:
    """Refuse options of a named corpus without one, and one's own files beside it."""
    if name is None and place is not None:
        raise ConfigError(
            "--from goes with the NAME of a corpus",
            hint="jtrans prepare NAME --from DIR; jtrans corpora lists the names",
            kind="command.usage",
        )
    given = [option for option, value in files.items() if value]
    if name is not None and given:
        raise ConfigError(
            f"{given[0]} does not go with NAME ({name}): give one or the other",
            hint=f"jtrans prepare {name}",
            kind="command.usage",
        )


def _show(prepared: PreparedCorpus, *, as_json: bool) -> None:
    if as_json:
        console.print_json({"folder": str(prepared.folder), **prepared.info})
    data = shlex.quote(str(prepared.folder))
    run = shlex.quote(f"runs/{prepared.name}-reformer-fast")
    console.next_step(f"jtrans train demo/reformer-fast --data {data} --run {run}")
