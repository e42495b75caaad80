"""`jtrans bench`: how fast the parts of jtrans are on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtrans.cli import console
from jtrans.cli.options import Json
from jtrans.errors import ConfigError

if TYPE_CHECKING:
    from jtrans.corpora.parallel import Corpus
    from jtrans.data.measure import Measured
    from jtrans.data.prepare_options import PrepareOptions

QUICK_PAIRS = 2000

bench = typer.Typer(
    name="bench",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Measure how fast the parts of jtrans are on this machine.\n\n"
    "[bold]Examples[/bold]\n\n"
    "  jtrans bench prepare --quick\n\n"
    "  jtrans bench prepare --train corpus/train --valid corpus/valid --languages de-en --json",
)


@bench.callback()
def _bench() -> None:
    pass  # a group with one command is a group, too


@bench.command()
def prepare(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A built-in corpus of `jtrans corpora`.")
    ] = "grammar-de-en",
    train: Annotated[
        list[str] | None,
        typer.Option(metavar="PREFIX", help="One's own files instead, as for jtrans prepare."),
    ] = None,
    valid: Annotated[str | None, typer.Option(metavar="PREFIX", help="Validation files.")] = None,
    languages: Annotated[
        str | None, typer.Option(metavar="SOURCE-TARGET", help="Such as de-en.")
    ] = None,
    bpe_merges: Annotated[
        int | None,
        typer.Option(min=1, help="Merges to learn.", show_default="the corpus's own, or 10000"),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes.", show_default="one for each processor")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"Only {QUICK_PAIRS:,} training pairs.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure the steps of `jtrans prepare`: time, share, memory. Leaves nothing behind.

    [bold]Examples[/bold]

      jtrans bench prepare --quick

      jtrans bench prepare --train corpus/train --valid corpus/valid --languages de-en
    """
    from jtrans.data.measure import measure_prepare

    corpus, options = _corpus(name, train or [], valid, languages, bpe_merges)
    if quick:
        corpus = _shortened(corpus)
    measured = measure_prepare(
        corpus, options, workers=workers, progress=console.TerminalProgress()
    )
    if as_json:
        console.print_json(measured.to_json())
    else:
        _show(measured)


def _corpus(
    name: str,
    train: list[str],
    valid: str | None,
    languages: str | None,
    merges: int | None,
) -> tuple[Corpus, PrepareOptions]:
    from jtrans.data.prepare_options import PrepareOptions

    chosen: dict[str, Any] = {} if merges is None else {"bpe_merges": merges}
    if train or valid or languages:
        source, _, target = (languages or "").partition("-")
        if not (train and valid and source and target):
            raise ConfigError(
                "one's own files need --train, --valid and --languages",
                hint="jtrans bench prepare --train corpus/train --valid corpus/valid "
                "--languages de-en",
                kind="command.usage",
            )
        from jtrans.corpora.own_files import read_corpus

        corpus = read_corpus("bench", (source, target), train=train, valid=valid)
        return corpus, PrepareOptions(**chosen)
    from jtrans.corpora.catalogue import find_entry
    from jtrans.corpora.deliver import deliver

    delivery = deliver(find_entry(name), progress=console.TerminalProgress())
    return delivery.corpus, PrepareOptions(**{**delivery.options, **chosen})


def _shortened(corpus: Corpus) -> Corpus:
    """Return the corpus with the first pairs of train only."""
    from dataclasses import fields, replace

    train = corpus.splits["train"]
    gold = train.gold and replace(
        train.gold,
        **{item.name: getattr(train.gold, item.name)[:QUICK_PAIRS] for item in fields(train.gold)},
    )
    part = replace(
        train, source=train.source[:QUICK_PAIRS], target=train.target[:QUICK_PAIRS], gold=gold
    )
    return replace(corpus, splits={**corpus.splits, "train": part})


def _show(measured: Measured) -> None:
    value = measured.to_json()
    rows = [
        [
            step["step"],
            f"{step['seconds']:.1f}",
            f"{step['cpu_seconds']:.1f}",
            _share(step["share"]),
        ]
        for step in value["steps"]
    ]
    cpu = sum(step.cpu_seconds for step in measured.steps)
    rows.append(["all", f"{measured.seconds:.1f}", f"{cpu:.1f}", ""])
    columns = ["step", "seconds", "cpu seconds", "share"]
    console.print_table(columns, rows, right=columns[1:])
    console.talk(
        f"{measured.pairs:,} pairs · {value['pairs_per_second']:,} pairs/s · "
        f"{measured.workers} workers · peak memory at most {measured.peak_mib:,} MiB"
    )


def _share(share: float) -> str:
    return f"{100 * share:.0f} %"
