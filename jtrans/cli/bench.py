"""`jtrans bench`: how fast the parts of jtrans are on this machine."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from jtrans.cli import console
from jtrans.cli.options import (
    CHECKPOINT,
    JSON,
    PRECISION_HELP,
    PRECISIONS,
    SEARCH_PRECISION,
    SEARCH_PRECISIONS,
    SETTINGS,
    WORKERS,
    CheckedCommand,
    argument,
    check_choice,
    command_group,
    data_option,
    device_option,
    flag,
    option,
)
from jtrans.cli.tables import print_table
from jtrans.errors import usage_error

if TYPE_CHECKING:
    from jtrans.bench.decode import DecodeMeasurement
    from jtrans.bench.prepare import PrepareMeasurement
    from jtrans.bench.train import TrainMeasurement
    from jtrans.corpora.parallel import Corpus
    from jtrans.models.base import TranslationModel

CORPUS = "grammar-de-en"
QUICK_PAIRS = 2000
SECONDS, QUICK_SECONDS = 20.0, 2.0
DECODED = "demo/reformer-fast"
VOCABULARY = 8000  # of both languages, for models without a run
SEARCH_SECONDS, QUICK_SEARCH_SECONDS = 2.0, 0.2  # for each row of the table
LENGTH, QUICK_LENGTH = 25, 8

bench = command_group(
    "bench",
    "Measure how fast the parts of jtrans are on this machine.",
    "jtrans bench prepare --quick",
    "jtrans bench train --recipe demo/reformer-base --json",
    "jtrans bench decode --run @last",
)


@bench.command(cls=CheckedCommand)
def prepare(
    name: str | None = argument(
        "NAME", f"A built-in corpus of `jtrans corpora`; {CORPUS} by default.", default=None
    ),
    train: list[str] | None = option("Your own files instead, as for jtrans prepare.", "PREFIX"),
    valid: str | None = option("Validation files.", "PREFIX"),
    languages: str | None = option("Source and target language, such as de-en.", "SOURCE-TARGET"),
    bpe_merges: int | None = option("BPE merges.", shown="the corpus's own, or 10000", min=1),
    workers: int | None = WORKERS,
    quick: bool = flag("--quick", f"Only {QUICK_PAIRS:,} training pairs."),
    as_json: bool = JSON,
) -> None:
    """Measure the steps of `jtrans prepare`: time, share, memory. Keeps no files.

    [bold]Examples[/bold]

    jtrans bench prepare --quick

    jtrans bench prepare --train my/train --valid my/valid --languages de-en
    """
    from jtrans.api import read_source
    from jtrans.bench.prepare import measure_prepare
    from jtrans.corpora.catalogue.load import built_in_file
    from jtrans.corpora.own_files import OwnFiles

    has_files = bool(train or valid or languages)
    if has_files and name is not None:
        raise usage_error(f"files cannot be combined with NAME ({name})", "leave one of them out")
    if name is not None and not built_in_file(name).is_file():
        raise usage_error(
            f"{name} is not a built-in corpus", f"{CORPUS}, or files of your own: --train PREFIX"
        )
    corpus, options = read_source(
        OwnFiles(train or (), [valid] if valid else ()) if has_files else name or CORPUS,
        {} if bpe_merges is None else {"bpe_merges": bpe_merges},
        languages=languages,
        out="bench",
        progress=console.TerminalProgress(),
    )
    if quick:
        corpus = _shortened(corpus)
    measured = measure_prepare(
        corpus, options, workers=workers, progress=console.TerminalProgress()
    )
    if as_json:
        console.print_json(measured.to_json())
    else:
        _show(measured)


@bench.command(cls=CheckedCommand)
def train(
    recipe: str = option("Recipe to measure.", "RECIPE|CONFIG.toml", default="demo/reformer-fast"),
    data: Path | None = data_option(shown="the built-in one"),
    set_: list[str] | None = SETTINGS,
    device: str | None = device_option(),
    precision: str | None = option(PRECISION_HELP, "|".join(PRECISIONS), "the recipe's"),
    quick: bool = flag(
        "--quick",
        f"{QUICK_SECONDS:g} seconds of updates, not {SECONDS:g}; "
        f"{QUICK_PAIRS:,} pairs of the built-in corpus.",
    ),
    as_json: bool = JSON,
) -> None:
    """Measure training: speed, share of peak arithmetic, padding, memory. Keeps no files.

    [bold]Examples[/bold]

    jtrans bench train

    jtrans bench train --recipe multi30k-de-en/transformer --quick

    jtrans bench train --precision bf16 --set model.width=256 --quick --json
    """
    from jtrans.bench.train import measure_train
    from jtrans.config import load_config
    from jtrans.models.zoo import system_configs
    from jtrans.nn.device import resolve_device

    options = {"training.precision": precision} if precision else {}
    config = load_config(recipe, system_configs(), overrides=set_ or (), options=options)
    resolve_device(device)  # refuse before any work
    with _prepared(data, quick=quick) as folder:
        measured = measure_train(
            config,
            data=folder,
            device=device,
            seconds=QUICK_SECONDS if quick else SECONDS,
            progress=console.TerminalProgress(),
        )
    if as_json:
        console.print_json({"recipe": recipe, **measured.to_json()})
    else:
        _show_training(recipe, measured)


@bench.command(cls=CheckedCommand)
def decode(
    recipe: str | None = option(
        "Recipe; its weights are random.", "RECIPE|CONFIG.toml", f"{DECODED}, without --run"
    ),
    run_name: str | None = option("Measure a trained run instead.", "RUN", names=["--run"]),
    checkpoint: str = CHECKPOINT,
    set_: list[str] | None = SETTINGS,
    length: int | None = option(
        "Tokens per source and target.", shown=f"{LENGTH}; {QUICK_LENGTH} with --quick", min=4
    ),
    device: str | None = device_option(),
    precision: str = SEARCH_PRECISION,
    quick: bool = flag("--quick", f"{QUICK_SEARCH_SECONDS:g} s per row, and shorter sentences."),
    as_json: bool = JSON,
) -> None:
    """Measure the search: sentences/s, steps, share of peak arithmetic, memory.

    Greedy and with beam 5, in batches of 1 to 64 sentences of the same length.

    [bold]Examples[/bold]

    jtrans bench decode --quick

    jtrans bench decode --recipe iwslt14-de-en/reformer-fast --precision bf16

    jtrans bench decode --run @last --json
    """
    check_choice("--precision", precision, SEARCH_PRECISIONS)
    if run_name and (recipe or set_):
        raise usage_error(
            "--run cannot be combined with --recipe or --set", "leave one of them out"
        )
    if checkpoint != "best" and not run_name:
        raise usage_error("--checkpoint has no effect without --run", "--run RUN")
    name = run_name or recipe or DECODED
    model, vocabulary = (
        _trained(name, checkpoint, device) if run_name else _untrained(name, set_ or [], device)
    )
    length = length or (QUICK_LENGTH if quick else LENGTH)
    if length > (model.longest or length):
        raise usage_error(
            f"{name} supports at most {model.longest} tokens, not {length}",
            f"--length {model.longest}",
            "--length",
        )
    from jtrans.bench.decode import measure_decode
    from jtrans.nn.device import resolve_precision

    measured = measure_decode(
        model,
        vocabulary,
        precision=resolve_precision(model.device, precision),
        length=length,
        seconds=QUICK_SEARCH_SECONDS if quick else SEARCH_SECONDS,
        progress=console.TerminalProgress(),
    )
    if as_json:
        console.print_json({"model": name, **measured.to_json()})
    else:
        _show_search(name, measured)


def _trained(name: str, checkpoint: str, device: str | None) -> tuple[TranslationModel, int]:
    """Return the model of a run and the size of its source vocabulary."""
    from jtrans.runs import find_run

    run = find_run(name, with_checkpoint=True)

    from jtrans.decoding.translator import load_model
    from jtrans.nn.device import resolve_device

    model = load_model(run, checkpoint, resolve_device(device))
    return model, len(run.pipeline.source.vocabulary)


def _untrained(
    recipe: str, settings: list[str], device: str | None
) -> tuple[TranslationModel, int]:
    """Return the model of a recipe with random weights, and the size of its vocabularies."""
    from jtrans.config import load_config
    from jtrans.models.zoo import build_model, system_configs

    config = load_config(recipe, system_configs(), overrides=settings)

    import torch

    from jtrans.nn.device import resolve_device

    place = resolve_device(device)
    torch.manual_seed(config.training.seed)
    model = build_model(config.model, VOCABULARY, VOCABULARY).to(place)
    return model.eval().requires_grad_(False), VOCABULARY


@contextlib.contextmanager
def _prepared(data: Path | None, *, quick: bool) -> Iterator[Path]:
    """Yield the folder of a prepared corpus: `data`, or the built-in one, prepared temporarily."""
    if data is not None:
        yield data
        return
    from jtrans.api import read_source
    from jtrans.preparation.prepare import prepare as prepare_corpus

    corpus, options = read_source(CORPUS, {})
    if quick:
        corpus = _shortened(corpus)
    with tempfile.TemporaryDirectory(prefix="jtrans-bench-") as folder:
        place = Path(folder) / "prepared"
        console.talk(f"Preparing {CORPUS}, {len(corpus.splits['train']):,} pairs")
        prepare_corpus(corpus, place, options=options)
        yield place


def _show_training(recipe: str, measured: TrainMeasurement) -> None:
    positions, peak = measured.positions_per_second, measured.peak_bytes
    padding = f"{100 * measured.token_padding:.1f} % of target tokens"
    if measured.position_padding is not None:
        padding += f", {100 * measured.position_padding:.1f} % of joint positions"
    sizes = {
        "joint position": measured.bytes_per_position,
        "target token": measured.bytes_per_token,
    }
    rows = [
        ["model", f"{recipe}: {measured.system}, {measured.parameters:,} parameters"],
        ["device", measured.device],
        ["measured", f"{measured.updates} updates in {measured.seconds:.1f} s"],
        ["rate", f"{measured.tokens_per_second:,.0f} target tokens/s"],
        *([] if positions is None else [["", f"{positions:,.0f} joint positions/s"]]),
        [
            "arithmetic",
            f"{measured.flops_per_second / 1e9:,.0f} GFLOP/s of the model, "
            f"{_share(measured.product_share)} of the "
            f"{measured.product_flops_per_second / 1e9:,.0f} of matrix products alone",
        ],
        ["padding", f"{padding}, in an epoch of {measured.pairs:,} pairs"],
        *([] if peak is None else [["memory", f"{peak / 2**20:,.0f} MiB at most"]]),
        *(
            ["", f"{size / 1024:,.1f} KiB for each {unit} of a micro-batch"]
            for unit, size in sizes.items()
            if size is not None
        ),
    ]
    print_table(["training", ""], rows)


def _show_search(name: str, measured: DecodeMeasurement) -> None:
    rows = [
        [
            "greedy" if search.beam == 1 else f"beam {search.beam}",
            f"{search.batch}",
            f"{search.sentences_per_second:,.1f}",
            f"{search.step_milliseconds:,.1f}",
            f"{search.step_operations:,.0f}",
            f"{100 * measured.product_share(search):.1f} %",
            "" if search.peak_bytes is None else f"{search.peak_bytes / 2**20:,.1f}",
        ]
        for search in measured.searches
    ]
    columns = ["search", "sentences at a time", "sentences/s", "ms a step", "operations a step"]
    columns += ["of peak arithmetic", "MiB"]
    print_table(columns, rows, right=columns[1:])
    console.talk(
        f"{name}: {measured.system}, {measured.parameters:,} parameters, searched as "
        f"{measured.form} · {measured.device} · {measured.length} tokens a sentence · "
        f"peak: {measured.product_flops_per_second / 1e9:,.0f} GFLOP/s of matrix products"
    )


def _shortened(corpus: Corpus) -> Corpus:
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


def _show(measured: PrepareMeasurement) -> None:
    value = measured.to_json()
    rows = [
        [
            step["step"],
            *(f"{step[key]:.1f}" for key in ("seconds", "cpu_seconds")),
            _share(step["share"]),
        ]
        for step in value["steps"]
    ]
    cpu = sum(step.cpu_seconds for step in measured.steps)
    rows.append(["all", f"{measured.seconds:.1f}", f"{cpu:.1f}", ""])
    columns = ["step", "seconds", "cpu seconds", "share"]
    print_table(columns, rows, right=columns[1:])
    console.talk(
        f"{measured.pairs:,} pairs · {value['pairs_per_second']:,} pairs/s · "
        f"workers: {measured.workers} · peak memory at most {measured.peak_mib:,} MiB"
    )


def _share(share: float) -> str:
    return f"{100 * share:.0f} %"
