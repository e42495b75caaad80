"""The benchmark scripts on a tiny corpus: every variant works, and what it counts is right."""

from __future__ import annotations

import argparse
import functools
import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from jtrans.bench import train
from jtrans.corpora.parallel import Corpus, ParallelText
from jtrans.data.prepared import PreparedCorpus
from jtrans.files import write_json
from jtrans.models.transformer import Transformer
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare
from scripts.bench import curves as loss_curves
from scripts.bench import (
    decode,
    decode_joint,
    deep_curves,
    grid,
    interleave,
    output_loss,
    processes,
    suite_joint,
    suite_learn,
    suite_scaling,
    suite_speed,
)
from scripts.bench.peers import base as peers
from scripts.readme import learning, markdown, speed, tables
from scripts.readme.synthetic import synthetic

SIZES = ["model.width=16", "model.ffn_width=32", "model.heads=2"]
SHALLOW = {
    "reformer-base": [*SIZES, "model.layers=1"],
    "reformer-fast": [*SIZES, "model.layers=1", "model.prenet_layers=1"],
    "transformer": [*SIZES, "model.encoder_layers=1", "model.decoder_layers=1"],
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> PreparedCorpus:
    draw = random.Random(1)
    lines = sorted({" ".join(draw.choices("abcdefgh", k=draw.randint(3, 9))) for _ in range(150)})
    parts = (lines[18:], lines[:9], lines[9:18])
    texts = [ParallelText(part, [line.upper() for line in part]) for part in parts]
    options = PrepareOptions(
        source_segment="whitespace", target_segment="whitespace", bpe="none", vocabulary="joint"
    )
    return prepare(
        Corpus("letters", ("de", "en"), dict(zip(("train", "valid", "test"), texts, strict=True))),
        tmp_path_factory.mktemp("corpus") / "letters",
        options=options,
        workers=1,
    )


def test_rows_keep_the_machine_they_were_measured_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.json"
    monkeypatch.setattr(interleave, "product_rates", dict)
    for machine, name in (("old", "a"), ("old", "b"), ("new", "b")):
        monkeypatch.setattr(interleave, "processor", lambda machine=machine: machine)
        rows = interleave.rows_with(path, {"name": name}, "name")
        interleave.write(path, rows=list(rows.values()))
    first, second = json.loads(path.read_text())["rows"]
    assert first["machine"].startswith("old, ") and second == {"name": "b"}
    assert json.loads(path.read_text())["machine"].startswith("new, ")


def test_a_recorded_command_has_all_options_and_no_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, data = "multi30k-de-en/transformer", str(tmp_path)
    given = ["--data", data, "--json", "x.json", "--quick", "--recipe", recipe, "--set", "a=[1, 2]"]
    monkeypatch.setattr(sys, "argv", ["train.py", *given])
    expected = f"python -m scripts.bench.train --data {tmp_path.name} --quick --recipe {recipe}"
    assert interleave.recorded_command("train") == f"{expected} --set 'a=[1, 2]'"


def done(task: Any) -> interleave.Round:
    return interleave.Round(dict(task.work(0)), 2.0, dict(task.measure()), 100.0)


@pytest.mark.thorough
def test_decoding_of_joint_models_counts_sentences_and_compares_within_rounds(
    corpus: PreparedCorpus,
) -> None:
    sizes = {"width": 16, "ffn_width": 32, "heads": 2, "layers": 1}
    arguments: dict[str, Any] = {"data": corpus.folder, "sentences": 8, "sizes": sizes}
    reference = decode_joint.decode_reference("reformer-base", batch=4, **arguments)
    ours = decode_joint.decode_jtrans("reformer-base", batch=1, precision="bf16", **arguments)
    counts = [task.work(1) for task in (reference, ours)]
    assert [count["sentences"] for count in counts] == [8, 1]
    assert 0 < counts[1]["flops"] < counts[0]["flops"]
    assert ours.measure()["product_rate"] > 0
    assert decode_joint.translate_file(corpus.folder, 9).work(0) == {"sentences": 9}

    keys = [(decode_joint.REFERENCE, 16), ("jtrans fp32", 16), ("jtrans fp32", 64)]
    keys.append(("jtrans bf16", 64))
    names = {f"{name} {batch}": (name, batch) for name, batch in keys}
    rounds = {
        shown: [
            interleave.Round({"sentences": 64, "flops": 8e9}, seconds, {"product_rate": 1e10}, 9.0)
        ]
        for shown, seconds in zip(names, (8.0, 2.0, 4.0, 1.0), strict=True)
    }
    row = decode_joint.row(rounds, names, "jtrans fp32 64")
    assert (row["sentences_per_second"], row["ratio"]["median"]) == (16.0, 2.0)
    assert (row["ratio_to_fp32"]["median"], row["ratio_to_16"]["median"]) == (1.0, 0.5)
    assert row["product_share"] == 0.2
    bf16 = decode_joint.row(rounds, names, "jtrans bf16 64")
    assert bf16["ratio_to_16"] is None
    assert "- x batches of 16" in decode_joint.describe(
        {"system": "s", "variant": "v", "batch": 64, **bf16}
    )
    system = {"system": "s", "variant": "v", "batch": 64, **row}
    alone = {**system, "ratio": None, "ratio_to_fp32": None, "ratio_to_16": None}
    origin = {"command": "c", "machine": "m", "torch": "t"}
    assert speed.decode_joint({**origin, "rows": [alone]}).count("|  |") >= 1
    text = speed.decode_joint({**origin, "rows": [system]})
    assert "| s | v | 64 | 16.0 | 2.00 (2.00 to 2.00) | 1.00 | 0.50 | 20 % | 9 |" in text


def test_decoding_counts_sentences_in_one_process_or_several(
    corpus: PreparedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_small(monkeypatch)
    assert decode.decode_jtrans(corpus.folder, 2, 5).work(1) == {"sentences": 5}
    both = decode.forked(functools.partial(counted_in, corpus.folder), 2)
    assert [both.work(number) for number in (0, 1)] == [{"sentences": 5}] * 2
    row = {"variant": "v", "batch": 1, "sentences_per_second": 4.0, "ratio": {"median": 1.0}}
    other = {**row, "batch": 16, "sentences_per_second": 8.0}
    rates = {"MKL fp32": 1_000, "bf16": 2}
    text = speed.decode(
        {
            "command": "c",
            "machine": "m",
            "torch": "t",
            "products_gflops": rates,
            "rows": [row, other],
        }
    )
    assert text.endswith("`c`; m, torch t. Its products: 1,000 (MKL fp32), 2 (bf16) GFLOP/s.")
    assert "| v | 4.0 (1.00) | 8.0 (1.00) |" in text


def make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the models that are compared small sizes."""
    for name, value in {"width": 16, "ffn_width": 32, "heads": 2, "layers": 1}.items():
        monkeypatch.setitem(peers.SIZES, name, value)


def counted_in(folder: Path) -> interleave.Task:
    """Return the counting of this worker's share of five sentences, without searching."""
    sources, _ = decode.read_sources(folder, 5)
    return interleave.Task(
        lambda number: decode.count(decode.batches_of(sources, 2), lambda part: None)
    )


def test_decoding_with_ctranslate2_writes_as_many_tokens(
    corpus: PreparedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ctranslate2")
    make_small(monkeypatch)
    for workers in (1, 2):
        task = decode.decode_ctranslate2(
            corpus.folder, 2, 5, compute_type="float32", workers=workers
        )
        assert task.work(0) == {"sentences": 5}


@pytest.mark.slow
@pytest.mark.parametrize("system", suite_joint.SYSTEMS)
def test_all_variants_count_real_positions_and_the_tokens_of_as_many_pairs(
    system: str, corpus: PreparedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite_joint, "MEMORY_POSITIONS", 2_000)
    monkeypatch.setitem(train.MEMORY_POSITIONS, "cpu", 2_000)
    reference = suite_joint.train_reference(system, corpus.folder, 128, SHALLOW[system], 32)
    options: dict[str, Any] = {"data": corpus.folder, "tokens": 128}
    ours = suite_joint.train_jtrans(system, settings=SHALLOW[system], precision="bf16", **options)
    plain = suite_joint.train_jtrans(
        "transformer", settings=SHALLOW["transformer"], precision="fp32", **options
    )
    pairs = corpus.pairs("train")
    S, T = pairs.source.lengths, pairs.target.lengths
    ratio = (S * T).sum() / T.sum()
    for task in (reference, ours, plain):
        measured = done(task)
        assert measured.amounts["positions"] == pytest.approx(measured.amounts["tokens"] * ratio)
        assert measured.amounts["padded_positions"] >= measured.amounts["positions"]
        assert measured.amounts["flops"] > 0 and measured.values["products"] > 0
    # the reference's update is four micro-batches of at most 32 tokens
    assert done(reference).amounts["padded_positions"] <= 4 * 32 * int(S.max())


def test_a_row_becomes_a_line_of_text_and_of_the_readme() -> None:
    amounts = {"positions": 400.0, "padded_positions": 440.0, "tokens": 40.0, "flops": 4e9}
    values = {"products": 1e10, "bytes_per_position": 2048.0}
    slow = [interleave.Round(amounts, 2.0, values, 100.0)] * 3
    fast = [interleave.Round(amounts, 0.5, {**values, "bytes_per_position": 1024.0}, 50.0)] * 3
    rounds = {"original fp32": slow, "jtrans fp32": fast}
    rows = [
        {"system": "reformer-base", **row, **suite_joint.extra(rounds[row["variant"]], [1e10] * 3)}
        for row in interleave.rows(rounds, "positions")
    ]
    assert [row["positions_per_second"] for row in rows] == [200.0, 800.0]
    assert [row["product_share"] for row in rows] == [0.2, 0.8]
    assert rows[1]["ratio"] == {"median": 4.0, "low": 4.0, "high": 4.0}
    assert "4.00 x" in suite_joint.describe(rows[1])
    text = speed.joint({"rows": rows, "command": "c", "machine": "m", "torch": "t"})
    cells = [cell.strip() for cell in text.splitlines()[3].split("|")[1:-1]]
    assert cells == [
        "reformer-base", "jtrans fp32", "800 (880)", "80", "4.00 (4.00 to 4.00)", "80 % of 10",
        "1 (0.50)",
    ]  # fmt: skip


def test_the_spread_is_the_median_with_its_tenths() -> None:
    spread = interleave.spread([float(i) for i in range(11)])
    assert spread == {"median": 5.0, "low": 1.0, "high": 9.0}


def test_the_work_of_the_scaling_suite_has_the_positions_it_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(suite_scaling, "POSITIONS", 500)
    work, positions = suite_scaling.make_work(64, 12)
    batch = suite_scaling.make_batch(3, 12)
    assert positions == 3 * 144 == batch.source.numel() * batch.target_out.shape[1]
    work()


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.name)
def test_the_tables_of_the_pages_are_those_of_the_results(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert tables.rewritten(text) == text


def test_a_result_without_a_place_on_any_page_is_noticed() -> None:
    assert not tables.unplaced(page.read_text(encoding="utf-8") for page in tables.PAGES)
    measured = {path.stem for path in markdown.BENCHMARKS.glob("*.json")}
    assert tables.unplaced(["<!-- table train -->\n<!-- end -->\n"]) == measured - {"train"}
    assert measured <= tables.TABLES.keys()


def test_texts_are_compared_on_one_test_set(tmp_path: Path) -> None:
    assert synthetic("multi30k-de-en", tmp_path) == "Not measured yet."
    kept = markdown.BENCHMARKS / "reproduction" / "multi30k.multi30k-de-en"
    folders = [tmp_path / f"multi30k-de-en.{text}" for text in ("real", "mixed")]
    for folder, row in zip(folders, ("transformer", "reformer-fast"), strict=True):
        folder.mkdir()
        for path in kept.glob(f"{row}-*.json"):
            shutil.copy(path, folder)
    head, _, real, mixed, *notes = synthetic("multi30k-de-en", tmp_path).splitlines()
    assert "vs. real" in head
    assert real.startswith("| real pairs | 28,329 | 1,2,3 |")
    assert "40.43 ± 0.50" in real and "-0.51 (p = 0.245)" in mixed
    assert "2.12 M parameters, 5,000 updates each" in notes[-1]
    other = json.loads((kept / "transformer-1.json").read_text(encoding="utf-8"))
    other["data"]["digests"]["test.target"] = "another"
    shutil.rmtree(folders[1])
    write_json(folders[1] / "transformer-1.json", other)
    with pytest.raises(ValueError, match="different test sets"):
        synthetic("multi30k-de-en", tmp_path)


def test_scaling_has_a_row_for_each_length_and_a_column_for_each_width() -> None:
    cost = {"median": 1.1, "low": 1.0, "high": 1.2}
    rows = [
        {"width": E, "length": L, "positions_per_second": 1000 * L + E, "cost": cost}
        for E in (256, 512)
        for L in (12, 25)
    ]
    origin = {"command": "c", "machine": "m", "device": "d", "torch": "t"}
    lines = speed.scaling({"rows": rows, **origin}).splitlines()
    assert lines[2] == "| S = T = 12 | 12,256 (1.10) | 12,512 (1.10) |"
    assert lines[3] == "| S = T = 25 | 25,256 (1.10) | 25,512 (1.10) |"


@pytest.mark.slow
def test_every_way_of_training_starts_on_the_same_curve(corpus: PreparedCorpus) -> None:
    settings = [*SIZES, "model.prenet_layers=1", "model.layers=1", "training.batch_tokens=64"]
    curves = {
        name: loss_curves.train(
            corpus.folder, "demo/reformer-fast", [*settings, *settings_of_way], 6, is_plain=is_plain
        )
        for name, (settings_of_way, is_plain) in loss_curves.VARIANTS.items()
    }
    first = curves["fp32, plain"]
    assert len(first["loss"]) == 6 and first["loss"][-1] < first["loss"][0]
    for name, curve in curves.items():
        tolerance = 2e-2 if name == "bf16" else 1e-4
        assert curve["loss"] == pytest.approx(first["loss"], rel=tolerance)
        assert curve["valid_loss"] == pytest.approx(first["valid_loss"], rel=tolerance)


@pytest.mark.slow
def test_deep_curves_are_kept_one_by_one_and_drawn(
    corpus: PreparedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deep_curves, "VALIDATE_EVERY", 10)
    monkeypatch.setitem(deep_curves.VARIANTS, "dlcl-pre-30", ("wmt14-en-de/dlcl-pre-30", 2))
    monkeypatch.setitem(deep_curves.VARIANTS, "dlcl-post-30", ("wmt14-en-de/dlcl-post-25", 2))
    path = tmp_path / "curves.json"
    options = ["--data", str(corpus.folder), "--width", "16", "--updates", "20"]
    options += ["--batch-tokens", "64", "--json", str(path), "--picture", str(tmp_path / "drawn")]
    for name in ("dlcl-pre-30", "dlcl-post-30"):
        monkeypatch.setattr("sys.argv", ["deep_curves", *options, "--only", name])
        deep_curves.main()
    results = json.loads(path.read_text(encoding="utf-8"))
    assert [row["variant"] for row in results["rows"]] == ["dlcl-post-30", "dlcl-pre-30"]
    for row in results["rows"]:
        assert len(row["train"]) == 2 and [update for update, _ in row["valid"]] == [10, 20]
        assert row["valid"][-1][1] < row["train"][0] < 1.5 * results["frequencies_alone"]
    assert (tmp_path / "drawn.svg").exists() and (tmp_path / "drawn.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize("accuracy", [None, 0.01])
def test_what_a_recipe_learns_becomes_a_row_and_is_not_trained_twice(
    accuracy: float | None,
    corpus: PreparedCorpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    learned = suite_learn.LearnedCorpus("letters", "demo", "transformer", {}, accuracy)
    monkeypatch.setitem(suite_learn.CORPORA, "letters", learned)
    path = tmp_path / "systems_letters.json"
    rows, runs = [], tmp_path / "runs"
    names = ["demo/transformer-small", "demo/transformer"][accuracy is not None :]
    for _ in range(2):
        for name in names:
            suite_learn.learn("letters", name, corpus.folder, runs, path, 0.005, restart=False)
        rows.append(json.loads(path.read_text(encoding="utf-8"))["rows"])
    assert [row["recipe"] for row in rows[0]] == sorted(names)
    assert rows[0] == rows[1] and all(row["updates"] for row in rows[0])
    assert 0.0 < rows[0][0]["token_accuracy"] <= 100.0
    assert "valid loss" in capsys.readouterr().out


def test_recipes_that_start_from_other_runs_come_last() -> None:
    for corpus in suite_learn.CORPORA.values():
        names = corpus.names()
        starts = [bool(suite_learn.initial_runs(suite_learn.recipe(name))) for name in names]
        assert names[0] == corpus.first and starts == sorted(starts)


@pytest.mark.slow
def test_both_forms_of_the_loss_do_the_same_updates(
    corpus: PreparedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tmp_path / "small.toml"
    model = '[model]\nsystem = "transformer"\nwidth = 16\nheads = 2\n'
    recipe.write_text(f"{model}[training]\nmax_updates = 9\n", "utf-8")
    projected: list[str] = []
    whole = Transformer.project
    amounts = []
    for form in output_loss.FORMS:

        def project(model: Transformer, hidden: Tensor, form: str = form) -> Tensor:
            projected.append(form)
            return whole(model, hidden)

        monkeypatch.setattr(Transformer, "project", project)
        task = output_loss.train_recipe(str(recipe), form, data=corpus.folder, precision="fp32")
        amounts.append(done(task).amounts)
    assert amounts[0] == amounts[1] and amounts[0]["tokens"] > 0
    assert set(projected) == {output_loss.FORMS[0]}


def test_threads_and_processes_are_compared_within_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = {(1, 50): 100.0, (2, 50): 150.0, (1, 100): 10.0, (2, 100): 12.0}
    runs: set[tuple[Path, int]] = set()

    def train(recipe: str, way: processes.Way, *, data: Path, run: Path, until: int) -> float:
        runs.add((run, way.processes))
        return rates[way.processes, until]

    monkeypatch.setattr(processes, "train", train)
    rows = processes.compare(
        "some/transformer", processes.WAYS, data=tmp_path, folder=tmp_path, rounds=2
    )
    assert [row["ratio"]["median"] for row in rows] == [1.0, 1.35]
    assert [row["tokens_per_second"] for row in rows] == [55.0, 81.0]
    assert len({run for run, _ in runs}) == len(runs) == 2  # each way continues its own run


def test_the_allocator_of_a_library_is_compared_with_that_of_the_c_library(tmp_path: Path) -> None:
    base, other = processes.allocators(tmp_path / "libsomemalloc.so.4").items()
    assert base[1] == processes.Way(environment={"LD_PRELOAD": ""})  # whatever is set outside
    preload = {"LD_PRELOAD": str(tmp_path / "libsomemalloc.so.4")}
    assert other == ("libsomemalloc", processes.Way(environment=preload))


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
def test_what_cannot_be_loaded_first_is_no_allocator(tmp_path: Path) -> None:
    text = tmp_path / "libtext.so"
    text.write_text("not a library\n", "utf-8")
    for path in (text, tmp_path / "libnone.so", tmp_path):
        with pytest.raises(argparse.ArgumentTypeError, match="no shared library"):
            processes.preloadable(str(path))
    library = Path(torch.__file__).with_name("lib") / "libc10.so"
    assert processes.preloadable(str(library)) == library.resolve()


@pytest.mark.slow
def test_a_run_is_continued_by_either_number_of_processes(
    corpus: PreparedCorpus, tmp_path: Path
) -> None:
    recipe = tmp_path / "small.toml"
    model = 'system = "transformer"\nwidth = 16\nheads = 2\n'
    recipe.write_text(f"[model]\n{model}[training]\nbatch_tokens = 32\n", "utf-8")
    for until, count in ((50, 1), (100, 2)):
        way = processes.Way(processes=count)
        rate = processes.train(
            str(recipe), way, data=corpus.folder, run=tmp_path / "run", until=until
        )
        assert rate > 0


@pytest.mark.thorough
@pytest.mark.parametrize("recipe", grid.RECIPES)
def test_the_grids_of_convolution_and_of_attention_are_measured(
    recipe: str, corpus: PreparedCorpus
) -> None:
    settings = ["model.width=16", "model.ffn_width=32", "model.layers=2"]
    task = grid.train_recipe(
        recipe, data=corpus.folder, tokens=128, precision="fp32", settings=settings
    )
    rounds = [done(task) for _ in range(2)]
    row = grid.table({"variant": rounds})[0]
    assert row["positions_per_second"] > 0
    assert row["parameters"] > 1000
    assert "positions/s" in grid.describe(row)


@pytest.mark.thorough
def test_a_row_of_speed_has_ratios_of_the_same_round_and_is_shipped(tmp_path: Path) -> None:
    def rounds(seconds: float) -> list[interleave.Round]:
        rates = {"training": 50.0, "decoding": 8.0, "decoding_single": 4.0}
        values = {name: rate / seconds for name, rate in rates.items()}
        return [
            interleave.Round({"tokens": 100}, factor * seconds, values, 50.0)
            for factor in (1, 2, 3)
        ]

    row = {"system": "dlcl", "date": "2026-01-02", "parameters": 10}
    row |= suite_speed.measured(rounds(2.0), rounds(1.0))
    assert row["training"] == {
        "tokens_per_second": 25.0,
        "ratio": {"median": 0.5, "low": 0.5, "high": 0.5},
    }
    path, shipped = tmp_path / "systems.json", tmp_path / "speeds.json"
    suite_speed.keep(path, {**row, "system": "transformer"})
    suite_speed.keep(path, row)
    results = json.loads(path.read_text(encoding="utf-8"))
    assert [each["system"] for each in results["rows"]] == ["transformer", "dlcl"]
    suite_speed.ship(results, shipped)
    speeds = json.loads(shipped.read_text(encoding="utf-8"))
    assert speeds["systems"]["dlcl"] == {"training": 0.5, "decoding": 0.5}
    assert "| dlcl | 0.0 M | 25 | 0.50 (0.50 to 0.50) |" in speed.systems(results)


@pytest.mark.parametrize("system", ["transformer", "reformer-fast"])
def test_the_work_of_the_speed_suite_is_the_same_for_all(
    system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jtrans import api

    sizes = {"model.width": 16, "model.ffn_width": 32, "model.heads": 2}
    monkeypatch.setattr(suite_speed, "VOCABULARIES", (30, 20))
    monkeypatch.setattr(suite_speed, "LENGTH", 5)
    monkeypatch.setattr(
        suite_speed, "configuration", lambda name: api.load_recipe(f"demo/{name}", sizes)
    )
    measured = done(suite_speed.prepare(system))
    assert measured.amounts == {"tokens": suite_speed.SENTENCES * 5}
    assert all(measured.values[name] > 0 for name in suite_speed.RATES)


def test_every_system_has_a_size_for_the_speed_suite() -> None:
    from jtrans.models.zoo import SYSTEMS

    assert all(suite_speed.parameters(system) > 5_000_000 for system in SYSTEMS)


def test_tables_of_learned_systems_and_deep_curves_have_a_line_a_row() -> None:
    origin: dict[str, Any] = {"command": "c", "machine": "m", "torch": "t"}
    row = {
        "recipe": "demo/dlcl", "parameters": 400_000, "minutes": 10.0, "updates": 1234,
        "epochs": 2.5, "token_accuracy": 91.234, "bleu": 20.0, "bleu_interval": 1.0, "chrf": 50.0,
        "signature": "BLEU",
    }  # fmt: skip
    others = {**row, "recipe": "demo/cascade", "bleu": 15.0, "starts_from": ["demo/dlcl"]}
    text = learning.learned({**origin, "rows": [row, others]})
    assert "| demo/dlcl | 0.40 M | 10 | 1,234 | 2.5 | 91.2 % | 20.0 ± 1.0 | 50.0 | 100 % |" in text
    assert "| 10, after dlcl |" in text and "| 75 % |" in text
    deep = {
        "variant": "dlcl-pre-30", "parameters": 10**6, "updates": 20, "train": [2.0, 1.5],
        "valid": [[10, 1.8], [20, 1.25]], "valid_other_sources": 3.0,
    }  # fmt: skip
    text = learning.deep_curves({**origin, "frequencies_alone": 5.5, "rows": [deep]})
    assert "| dlcl-pre-30 | 1.00 M | 1.500 | 1.250 | 3.000 |" in text
