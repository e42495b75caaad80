"""`python -m scripts.reproduce` on a tiny corpus: rows, seeds, continuing, merging, repeating."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
import torch
from plugins.small_corpus import make_nouns, tiny_config

from jtrans.config import find_config, load_config, recipe_names
from jtrans.config.schema import ExpectBand
from jtrans.corpora.catalogue.load import find_entry
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import CheckpointError, ConfigError
from jtrans.evaluation.significance import PairedResult
from jtrans.models.zoo import build_model, system_configs
from jtrans.progress import Silent
from jtrans.runs import Run
from jtrans.training.session import train
from scripts.reproduction import command, work
from scripts.reproduction.catalogue import (
    Experiment,
    Row,
    experiment_names,
    find_experiment,
    lowercase_of,
    task_pairs,
)
from scripts.reproduction.configuration import is_of_recipe, limited, row_config
from scripts.reproduction.data import catalogue_name, describe_data
from scripts.reproduction.merge import read_results
from scripts.reproduction.notes import notes
from scripts.reproduction.results import RowResult
from scripts.reproduction.row import Job, machine, score_split, write_average
from scripts.reproduction.settings import limit_named, plain, settings_differ
from scripts.reproduction.summary import RowSummary, processor_minutes, summarise
from scripts.reproduction.table import cells, minutes_of
from scripts.reproduction.verdict import conclusion, verdict

ROOT = Path(__file__).parents[2]
TINY = [
    "model.width=8",
    "model.ffn_width=16",
    "model.heads=2",
    "training.max_updates=3",
    "training.micro_batch_joint=512",
    "decoding.max_length=6",
]
TASK = ["--task", "grammar-de-en", "--no-report", "--device", "cpu"]
Reproduce = Callable[..., int]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_nouns(tmp_path_factory.mktemp("nouns") / "data").folder


def reproduce(*arguments: object) -> int:
    with pytest.raises(SystemExit) as left:
        command.main([str(argument) for argument in arguments])
    return int(left.value.code or 0)


def settings() -> list[str]:
    return [word for setting in TINY for word in ("--set", setting)]


def place(data: Path, out: Path) -> list[object]:
    return ["--data", data, "--out", out]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """The folder of the demo rows with two seeds."""
    out = tmp_path_factory.mktemp("reproduce") / "out"
    assert (
        reproduce("demo", *TASK, "--data", data, "--out", out, "--seeds", "1,2", *settings()) == 0
    )
    return out


@pytest.mark.parametrize("name", experiment_names())
def test_every_row_of_every_experiment_can_be_trained(name: str) -> None:
    for task in task_pairs():
        try:
            experiment = find_experiment(name, task)
        except Exception as error:
            assert "has no rows" in str(error)
            continue
        names = [row.name for row in experiment.rows]
        assert len(set(names)) == len(names)
        for row in experiment.rows:
            assert row.baseline is None or row.baseline in names
            load_config(row.recipe_for(task), system_configs(), options=row.settings)


@pytest.mark.parametrize("task", task_pairs())
def test_experiments_score_splits_of_their_corpus_and_all_that_are_published(task: str) -> None:
    for name in experiment_names():
        try:
            experiment = find_experiment(name, task)
        except ConfigError:  # not meant for this task
            continue
        assert {"train", *experiment.splits} <= set(find_entry(task).sentences)
        published = {key for row in experiment.rows for key in row.published.get(task, {})}
        if name.startswith("table"):
            assert published <= {"perplexity", *experiment.splits}


def test_rows_are_scored_without_case_where_the_paper_does(done: Path, data: Path) -> None:
    """Its numbers are of lower-cased text, which some corpora do not have."""
    for task, _ in find_experiment("table2", "iwslt14-de-en").rows[0].published.items():
        options = find_entry(task).options
        assert options.get("lowercase", False) != bool(lowercase_of(task))
    run = Run.open(done / "runs" / "transformer-small-1")
    corpus = PreparedCorpus.open(data)
    for task, case in (("iwslt15-vi-en", "lc"), ("grammar-de-en", "mixed")):
        job = Job(task, corpus, done, device="cpu")
        scores = score_split(job, run, "best", "test", Silent())
        assert f"|case:{case}|" in scores.signature


def test_published_numbers_are_those_that_the_recipes_cite() -> None:
    for name in ("table2", "table4"):
        for row in find_experiment(name, "iwslt14-de-en").rows:
            text = find_config(row.recipe_for("iwslt14-de-en")).read_text(encoding="utf-8")
            cited = re.search(r"test (\d+\.\d+)", text)
            assert cited is not None
            assert float(cited[1]) == row.published["iwslt14-de-en"]["test"]


@pytest.mark.parametrize("size", ["2m", "7m"])
def test_rows_of_one_size_have_equal_parameters(size: str) -> None:
    rows = find_experiment("equal-parameters", "multi30k-de-en").rows
    counts = []
    for row in rows:
        if row.name.endswith(size):
            path = row.recipe_for("multi30k-de-en")
            config = load_config(path, system_configs())
            with torch.device("meta"):
                count = build_model(config.model, 3200, 2504).parameter_count()
            assert f"{count:,} parameters" in Path(path).read_text(encoding="utf-8")
            counts.append(count)
    assert len(counts) == 3
    assert max(counts) < 1.01 * min(counts)


def test_every_row_and_seed_has_a_result_with_all_that_the_table_needs(done: Path) -> None:
    results = read_results(done / "rows")
    assert {(result.row, result.seed) for result in results} == {
        (row, seed) for row in ("transformer-small", "reformer-fast") for seed in (1, 2)
    }
    for result in results:
        assert result.training["updates"] == 3
        assert (result.training["processor_minutes"] or 0.0) >= 0.0
        assert result.config["training"]["seed"] == result.seed
        assert set(result.splits["test"].scores) == {"bleu", "chrf", "multi-bleu"}
        assert len(result.splits["test"].drawn) == 1000
        assert result.data["is_subset"]
        assert result.curve[-1][0] == 3


def test_the_same_command_makes_nothing_twice_and_prints_the_same_table(
    done: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in (done / "rows").iterdir()}
    assert (
        reproduce("demo", *TASK, "--data", data, "--out", done, "--seeds", "1,2", *settings()) == 0
    )
    first = capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in (done / "rows").iterdir()} == before
    assert reproduce("demo", "--task", "grammar-de-en", "--out", done, "--table") == 0
    assert capsys.readouterr().out == first
    assert "not comparable with the paper's" in first
    assert json.loads((done / "demo.json").read_text(encoding="utf-8"))["rows"][1]["paired"]


@pytest.mark.parametrize("command", ["demo", "row.json"])
def test_a_file_in_the_place_of_the_folder_is_refused_at_once(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").write_text("mine", encoding="utf-8")
    line = [command, "--task", "grammar-de-en", *place(tmp_path / "data", tmp_path / "out")]
    assert reproduce(*line, "--budget", 0) == 2
    assert "out is a file" in capsys.readouterr().err and not (tmp_path / "data").exists()


def test_rows_are_begun_as_long_as_the_minutes_of_the_budget_last(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds, made = 0.0, list[str]()

    def run_row(_: Job, row: Row, *_others: Any, **_options: Any) -> object:
        nonlocal seconds
        seconds += 45.0
        made.append(row.name)
        return object()

    monkeypatch.setattr(work, "run_row", run_row)
    monkeypatch.setattr(work, "time", SimpleNamespace(monotonic=lambda: seconds))
    rows = [Row(name, "demo/transformer-small") for name in ("first", "second", "third")]
    job = Job("grammar-de-en", PreparedCorpus.open(data), tmp_path / "out")
    assert work.train_rows(job, Experiment("x", "X", rows, ["test"]), rows, [1], 1.0) == ([], 0)
    assert made == ["first", "second"]


def test_without_budget_left_nothing_is_trained_and_the_rest_is_named(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["demo", *TASK, *place(data, tmp_path / "out"), "--budget", 0, "--seeds", 1]
    assert reproduce(*line, *settings()) == 0
    assert "2 left: transformer-small-1, reformer-fast-1" in capsys.readouterr().err
    assert not (tmp_path / "out" / "rows").exists()


@pytest.mark.parametrize("folder", [ROOT, ROOT.parent])
def test_the_command_that_goes_on_can_be_pasted_where_it_was_called(
    folder: Path,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    assert reproduce("demo", *TASK, *place(data, tmp_path), "--budget", "0") == 0
    words = shlex.split(capsys.readouterr().err.rpartition("Next: ")[2])
    again = subprocess.run([sys.executable, *words[1:], "--help"], stdout=subprocess.PIPE)
    assert again.returncode == 0 and b"continues" in again.stdout


def test_a_row_stopped_in_training_gives_what_an_undisturbed_one_gives(
    done: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jtrans.cli.stop_signals import StopSignals

    out = tmp_path / "out"
    line = ["demo", *TASK, *place(data, out), "--rows", "transformer-small"]
    line += ["--seeds", 1, *settings()]
    with monkeypatch.context() as patch:
        patch.setattr(StopSignals, "are_set", lambda _: True)
        patch.setattr(StopSignals, "exit_code", property(lambda _: 143))
        assert reproduce(*line) == 143
    assert not (out / "rows").exists()
    assert reproduce(*line) == 0
    name = "transformer-small-1.json"
    ours, theirs = (RowResult.read(folder / "rows" / name) for folder in (out, done))
    assert ours.splits["test"].hypotheses == theirs.splits["test"].hypotheses
    assert ours.machine["sessions"] == "2"
    assert ours.machine["device"] == theirs.machine["device"] and ours.is_of_cpu


def test_a_signal_while_the_last_row_is_translated_ends_the_command_behind_it(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGTERM)
        return score_split(*arguments)

    monkeypatch.setattr("scripts.reproduction.row.score_split", interrupted)
    out = tmp_path / "out"
    line = ["demo", *TASK[:2], *place(data, out), "--rows", "transformer-small"]
    assert reproduce(*line, "--device", "cpu", "--seeds", 1, *settings()) == 143
    assert [path.name for path in (out / "rows").iterdir()] == ["transformer-small-1.json"]
    assert not (out / "demo").exists(), "nothing is drawn"


def test_a_row_made_again_from_its_result_is_compared_with_the_band_of_its_seeds(
    done: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = done / "rows" / "transformer-small-1.json"
    line = [result, *place(data, tmp_path / "again"), "--device", "cpu"]
    assert reproduce(*line, "--budget", 0) == 0
    assert "nothing is compared yet\nNext: " in capsys.readouterr().err
    assert reproduce(*line) == 0
    assert "band of 2 seeds" in capsys.readouterr().out
    assert reproduce(*line) == 0
    assert "exists already: it is compared, and nothing is made" in capsys.readouterr().err
    again = RowResult.read(tmp_path / "again" / "rows" / result.name)
    known = RowResult.read(result)
    assert again.splits["test"].hypotheses == known.splits["test"].hypotheses
    assert (again.recipe, again.setting) == (known.recipe, known.setting)


def test_a_result_is_not_compared_with_itself(
    done: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "transformer-small-1.json"
    shutil.copytree(done / "rows", tmp_path / "kept")
    for result in (done / "rows" / name, tmp_path / "kept" / name):
        assert reproduce(result, *place(data, done), "--device", "cpu") == 2
        assert "is the result that is to be made again" in capsys.readouterr().err


def test_a_row_is_made_again_beside_files_of_something_else(
    done: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = Path(shutil.copy(done / "rows" / "transformer-small-1.json", tmp_path))
    (tmp_path / "package.json").write_text("{}", encoding="utf-8")
    out = tmp_path / "again {task}"  # braces are no placeholders here
    assert reproduce(result, *place(data, out), "--device", "cpu") == 0
    assert "the same translations" in capsys.readouterr().out


def test_results_of_another_checkpoint_are_refused(
    done: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["demo", *TASK, *place(data, done), "--seeds", 1, *settings(), "--average", 2]
    assert reproduce(*line) == 2
    assert "--average (its checkpoint is best)" in capsys.readouterr().err


@pytest.mark.parametrize(("now", "code"), [(None, 4), (48.89, 4), (51.2, 0), (51.21, 4)])
def test_a_row_outside_the_band_of_its_seeds_fails(
    now: float | None, code: int, done: Path, data: Path, tmp_path: Path, capsys: Any
) -> None:
    out = tmp_path / "out"
    for seed, score in ((1, 50.0), (2, 50.1)):
        result = RowResult.read(done / "rows" / f"transformer-small-{seed}.json")
        result.splits["test"].scores["multi-bleu"] = score
        result.write(tmp_path)
    if now is not None:  # it was made again before
        result.splits["test"].scores["multi-bleu"] = now
        result.write(out / "rows")
    line = [tmp_path / result.file_name, *place(data, out), "--device", "cpu"]
    assert reproduce(*line) == code
    assert "band of 2 seeds: 48.9 to 51.2" in capsys.readouterr().out


def test_a_row_that_cannot_be_averaged_does_not_keep_others_from_being_made(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = "demo/transformer-small"
    rows = [Row("short", recipe, average=9), Row("plain", recipe)]
    experiment = Experiment("pair", "One fails", rows, ["test"])
    monkeypatch.setattr(command, "find_experiment", lambda name, task: experiment)
    line = ["pair", *TASK, *place(data, tmp_path / "out"), "--seeds", 1, *settings()]
    assert reproduce(*line) == 1
    assert "of its last validations, not 9" in capsys.readouterr().err
    assert [result.row for result in read_results(tmp_path / "out" / "rows")] == ["plain"]


def test_a_result_that_does_not_go_with_the_others_is_refused_before_training(
    done: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(done / "rows", out / "rows")
    shutil.copy(out / "rows" / "reformer-fast-2.json", out / "rows" / "copy.json")
    line = ["demo", *TASK, *place(data, out), "--seeds", "3", *settings()]
    assert reproduce(*line) == 2
    assert "move it elsewhere if it is a copy" in capsys.readouterr().err
    assert not (out / "runs").exists()


def test_rows_of_other_limits_are_not_begun_beside_others(
    done: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(done / "rows", out / "rows")
    own = [word for each in TINY if "max_updates" not in each for word in ("--set", each)]
    line = ["demo", *TASK, *place(data, out), "--seeds", "3", *own]
    assert reproduce(*line, "--setting", "equal-updates:4") == 2
    said = capsys.readouterr().err
    assert "is in the same folder, and was made by the setting" in said
    assert not (out / "runs").exists()


@pytest.mark.parametrize("splits", [["valid", "test"], ["valid"]])
def test_a_result_without_a_split_is_completed_from_its_run(
    splits: list[str], done: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    shutil.copytree(done, out)
    experiment = find_experiment("demo", "grammar-de-en")
    more = replace(experiment, splits=splits)
    monkeypatch.setattr(command, "find_experiment", lambda name, task: more)
    weights = {path: path.stat().st_mtime_ns for path in out.rglob("*.safetensors")}
    line = ["demo", *TASK, *place(data, out), "--seeds", 1, *settings()]
    assert reproduce(*line, "--rows", "transformer-small") == 0
    result = RowResult.read(out / "rows" / "transformer-small-1.json")
    assert list(result.splits) == ["valid", "test"]
    assert {path: path.stat().st_mtime_ns for path in weights} == weights


def test_a_result_without_a_split_is_not_replaced_by_that_of_a_new_run(
    done: Path,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    shutil.copytree(done / "rows", out / "rows")
    more = replace(find_experiment("demo", "grammar-de-en"), splits=["valid", "test"])
    monkeypatch.setattr(command, "find_experiment", lambda name, task: more)
    line = ["demo", *TASK, *place(data, out), "--seeds", 1, *settings()]
    assert reproduce(*line) == 2
    assert f"hint: copy the run to {out / 'runs'}" in capsys.readouterr().err
    assert not (out / "runs").exists()


def test_results_of_other_machines_are_merged(
    done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = sorted((done / "rows").iterdir())
    line = ["demo", "--task", "grammar-de-en", "--out", tmp_path / "out", "--table", "--merge"]
    assert reproduce(*line, *files) == 0
    assert "transformer-small" in capsys.readouterr().out
    assert len(read_results(tmp_path / "out" / "rows")) == 4


def test_a_folder_that_is_no_prepared_corpus_is_refused_by_its_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.de").write_text("ja\n", encoding="utf-8")
    command = ["demo", "--task", "grammar-de-en", "--data", tmp_path, "--out", tmp_path / "out"]
    assert reproduce(*command) == 2
    error = capsys.readouterr().err
    assert "is not a prepared corpus" in error and "--data data/prepared/grammar-de-en" in error


def test_results_of_other_data_than_that_of_the_command_are_not_merged(
    done: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value = json.loads((done / "rows" / "transformer-small-1.json").read_text(encoding="utf-8"))
    value["data"]["digests"]["train.source"] = "other"
    other = tmp_path / "other.json"
    other.write_text(json.dumps(value), encoding="utf-8")
    line = ["demo", *TASK, *place(data, tmp_path / "out"), "--merge"]
    assert reproduce(*line, other) == 2
    assert f"error: {other} was made with other data" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert reproduce(*line, *sorted((done / "rows").iterdir())) == 0


@pytest.mark.parametrize("change", ["data", "settings", "format", "row"])
def test_results_that_do_not_belong_together_are_refused(
    change: str, done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value: dict[str, Any] = json.loads(
        (done / "rows" / "transformer-small-2.json").read_text(encoding="utf-8")
    )
    if change == "data":
        value["data"]["digests"]["train.source"] = "other"
    elif change == "settings":
        value["config"]["model"]["dropout"] = 0.7
    elif change == "row":
        value["row"] = "transformer-2m"  # of another experiment
    else:
        value["format"] = 99
    other = tmp_path / "other.json"
    other.write_text(json.dumps(value), encoding="utf-8")
    files = [done / "rows" / "transformer-small-1.json", other]
    out = tmp_path / "out"
    line = ["demo", "--task", "grammar-de-en", "--out", out, "--table", "--merge", *files]
    assert reproduce(*line) == 2
    captured = capsys.readouterr()
    assert [line.split(":")[0] for line in captured.err.splitlines()] == ["error", "hint"]
    assert not out.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing", "--task", "grammar-de-en"],
        ["demo"],
        ["table2", "--task", "grammar-de-en"],
        ["demo", "--task", "grammar-de-en", "--rows", "nobody"],
        ["demo", "--task", "grammar-de-en", "--seeds", "1,1"],
        ["demo", "--task", "grammar-de-en", "--seeds", "one"],
        ["demo", "--task", "grammar-de-en"],
    ],
)
def test_what_cannot_be_reproduced_is_refused(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce(*arguments, "--out", tmp_path / "out") == 2
    assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines()] == [
        "error",
        "hint",
    ]
    assert not (tmp_path / "out").exists()


def test_a_setting_that_changes_no_row_is_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["ablations-little-text", *TASK, *place(data, tmp_path / "out"), "--budget", 0]
    line += ["--set", "model.dropout=0.5", "--rows"]
    assert reproduce(*line, "dropout-0.1,dropout-0.3") == 2
    assert "the experiment decides it for dropout-0.1, dropout-0.3" in capsys.readouterr().err
    assert reproduce(*line, "dropout-0.1,r-drop") == 0


def test_a_row_may_be_made_with_and_without_compiled_layers(done: Path) -> None:
    result = RowResult.read(done / "rows" / "transformer-small-1.json")
    config = {**result.config, "training": {**result.config["training"], "compile": "off"}}
    assert config != result.config
    assert settings_differ(result.config, config) == []
    config["training"]["precision"] = "bf16"
    assert settings_differ(result.config, config) == ["training.precision"]


@pytest.mark.parametrize("window", [0, 3])
def test_validations_may_translate_otherwise_unless_their_bleu_decides(
    window: int, done: Path
) -> None:
    config = RowResult.read(done / "rows" / "transformer-small-1.json").config
    config["training"]["keep"]["window"] = window
    other = {**config, "training": {**config["training"], "validate_sentences": 7}}
    differing = ["training.validate_sentences"] if window else []
    assert settings_differ(config, other) == differing


def test_the_number_of_checkpoints_is_not_set_where_average_decides_it(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["demo", *TASK, *place(data, tmp_path / "out"), "--budget", 0]
    line += ["--set", "training.keep.last=2"]
    assert reproduce(*line, "--average", 5) == 2
    assert "--average keeps what it needs" in capsys.readouterr().err
    assert reproduce(*line) == 0
    capsys.readouterr()
    line[:3] = ["transformer-tiny", "--task", "multi30k-en-de"]
    assert reproduce(*line) == 2
    assert "the average of transformer-tiny keeps what it needs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--average", 4], "--average 3, or validate more often: --set training.validate_every=2"),
        (["--average", 1001], "the average of 1,001 checkpoints"),
        (["--set", "data.corpus=x"], "--set data.corpus has no effect: --data decides"),
        (["--seeds", "-1"], "--seeds must be whole numbers from 0 to 4294967295, not '-1'"),
    ],
)
def test_what_no_training_can_do_is_refused_before_it(
    arguments: list[object], said: str, data: Path, tmp_path: Path, capsys: Any
) -> None:
    line = ["demo", *TASK, *place(data, tmp_path / "out"), "--setting", "equal-updates:8"]
    line += ["--set", "training.validate_every=3", *arguments]
    assert reproduce(*line) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_outside_training_is_said_in_a_line(
    number: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def find(_name: str, _task: str) -> NoReturn:
        signal.raise_signal(signal.Signals[number])
        raise AssertionError

    monkeypatch.setattr(command, "find_experiment", find)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    before = signal.signal(signal.Signals[number], signal.SIG_DFL)
    try:
        assert reproduce("demo", "--out", "out") == code
    finally:
        signal.signal(signal.Signals[number], before)
    assert capsys.readouterr().err.endswith("ed; the same command continues\n")


def test_a_corpus_without_a_split_of_the_table_is_refused_before_training(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = replace(find_experiment("demo", "grammar-de-en"), splits=["valid", "mt08"])
    monkeypatch.setattr(command, "find_experiment", lambda name, task: experiment)
    assert reproduce("demo", *TASK, *place(data, tmp_path / "out"), *settings()) == 2
    assert "has no split mt08" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_other_settings_than_those_of_a_result_are_refused(done: Path, data: Path) -> None:
    line = ["demo", *TASK, *place(data, done), "--seeds", "1"]
    assert reproduce(*line, *settings(), "--set", "model.dropout=0.5") == 2


@pytest.mark.parametrize(
    "change", ["training.learning_rate=0.5", "model.width=16", "decoding.beam=3"]
)
def test_a_run_begun_with_other_settings_does_not_go_on(
    change: str, done: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(done / "runs", out / "runs")
    line = ["demo", *TASK, *place(data, out), "--seeds", "1,2", *settings(), "--set", change]
    assert reproduce(*line) == 2
    said = capsys.readouterr().err
    assert change.partition("=")[0] in said and "choose another --out" in said
    assert not (out / "rows").exists()


def test_a_folder_of_another_process_is_refused_without_options_of_other_commands(
    done: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(done / "runs", out / "runs")
    line = ["demo", *TASK, *place(data, out), "--seeds", "1", *settings()]
    with Run.open(out / "runs" / "transformer-small-1").lock():
        assert reproduce(*line, "--rows", "transformer-small") == 2
    said = capsys.readouterr().err
    assert "in use by" in said and "choose another folder" in said and "--run" not in said


def test_a_run_of_other_data_is_refused_without_options_of_other_commands(
    done: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(done / "runs", out / "runs")
    run = Run.open(out / "runs" / "transformer-small-1")
    run.update_info(train={**run.info["train"], "pairs": 7})
    line = ["demo", *TASK, *place(data, out), "--seeds", "1", *settings()]
    assert reproduce(*line, "--rows", "transformer-small") == 2
    said = capsys.readouterr().err
    assert "different training data" in said and "--restart" not in said
    assert f"delete {run.folder}" in said and not (out / "rows").exists()


@pytest.fixture
def named(data: Path, tmp_path: Path) -> Callable[..., Path]:
    """Make a corpus of another name, prepared by a command."""

    def make(name: str, command: str, *paths: str) -> Path:
        folder = Path(shutil.copytree(data, tmp_path / "named"))
        info = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
        inputs = [{"path": path, "bytes": 1, "sha256": "x"} for path in paths]
        info |= {"name": name, "provenance": {"command": command, "inputs": inputs}}
        (folder / "corpus.json").write_text(json.dumps(info), encoding="utf-8")
        return folder

    return make


@pytest.mark.parametrize(
    ("name", "command", "paths", "known"),
    [
        ("grammar-de-en", "jtrans prepare grammar-de-en", [], "grammar-de-en"),
        ("grammar-de-en", "", [], "grammar-de-en"),
        ("iwslt14-en-de", "jtrans prepare iwslt14-en-de --from x", ["train.de"], "iwslt14-en-de"),
        ("grammar-de-en", "jtrans prepare --train train --valid valid", ["train.de"], None),
        ("grammar-de-en", "jtrans prepare --train=train --valid valid", ["train.de"], None),
        ("grammar-de-en", "", ["mine/train.de"], None),
        ("slice", "jtrans prepare --train slice/train", ["slice/train.de"], None),
        ("slice", "", [], None),
    ],
)
def test_files_of_a_user_are_not_taken_for_a_corpus_of_the_catalogue(
    name: str, command: str, paths: list[str], known: str | None, named: Callable[..., Path]
) -> None:
    assert catalogue_name(PreparedCorpus.open(named(name, command, *paths))) == known


def test_another_corpus_of_the_catalogue_is_refused_before_training(
    named: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = named("grammar-de-en", "jtrans prepare grammar-de-en")
    line = ["multi30k", "--task", "multi30k-de-en", *TASK[2:], *place(data, tmp_path / "out")]
    assert reproduce(*line) == 2
    said = capsys.readouterr().err
    assert f"{data} is grammar-de-en, the task is multi30k-de-en" in said
    assert [line.split(":")[0] for line in said.splitlines()] == ["error", "hint"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "command"),
    [("grammar-de-en", "jtrans prepare --train a"), ("multi30k-de-en", ""), ("mine", "")],
)
def test_files_of_a_user_and_the_corpus_of_the_task_are_accepted(
    name: str, command: str, named: Callable[..., Path], tmp_path: Path
) -> None:
    line = ["multi30k", "--task", "multi30k-de-en", *TASK[2:], "--budget", 0]
    assert reproduce(*line, *place(named(name, command), tmp_path / "out")) == 0


@pytest.mark.parametrize(("complete", "is_subset"), [(1000, False), (1050, False), (1060, True)])
def test_nearly_the_complete_text_is_no_subset(
    complete: int, is_subset: bool, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = PreparedCorpus.open(data)
    corpus.info["splits"]["train"]["pairs"] = 1000
    monkeypatch.setattr("scripts.reproduction.data.task_pairs", lambda: {"grammar-de-en": complete})
    assert describe_data(corpus, "grammar-de-en")["is_subset"] == is_subset


def test_a_result_says_whether_its_text_is_from_the_catalogue(done: Path) -> None:
    results = read_results(done / "rows")
    assert [result.data["catalogue"] for result in results] == [None] * len(results)
    summaries = summarise(find_experiment("demo", "grammar-de-en"), results)
    assert not any(summary.is_of_task for summary in summaries)


def test_an_unknown_device_is_refused_before_anything_is_prepared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["demo", "--task", "grammar-de-en", *place(tmp_path / "data", tmp_path / "out")]
    assert reproduce(*line, "--device", "tpu", "--budget", 0) == 2
    assert "unknown device: tpu" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_equal_time_and_equal_updates_replace_every_limit_of_the_recipe() -> None:
    recipe = find_experiment("equal-parameters", "multi30k-de-en").rows[0]
    config = load_config(recipe.recipe_for("multi30k-de-en"), system_configs())
    training = limited(config, "equal-updates:50").training
    assert (training.max_updates, training.max_epochs, training.stop) == (50, None, None)
    assert limited(config, "equal-time:7").training.max_minutes == 7
    assert limited(config, "paper") == config


@pytest.mark.sample(1)
@pytest.mark.parametrize("setting", ["paper", "equal-time:60", "equal-updates:900"])
def test_every_row_can_be_trained_by_every_setting(setting: str) -> None:
    for name in experiment_names():
        for task in task_pairs():
            with suppress(ConfigError):  # the experiment has no such task
                check_limits(find_experiment(name, task), task, setting)


def check_limits(experiment: Experiment, task: str, setting: str) -> None:
    """Check what ends the training of all rows, and when their learning rates have fallen."""
    overrides = experiment.overrides_by(setting)
    updates = {limit_named(each).get("max_updates") for each in (experiment.setting, setting)}
    for row in experiment.rows:
        recipe = load_config(row.recipe_for(task), system_configs()).training
        training = row_config(row, task, setting, overrides, {}).training
        named = limit_named(setting)
        assert {key: getattr(training, key) for key in named} == named
        if training.schedule.has_end:
            end = named.get("max_updates", max(filter(None, {*updates, recipe.max_updates})))
            assert (training.schedule.updates or training.max_updates) == end


def test_a_band_covers_the_seeds_it_is_made_from(done: Path) -> None:
    experiment = find_experiment("demo", "grammar-de-en")
    for summary in summarise(experiment, read_results(done / "rows")):
        band = summary.band("test", "chrf")
        assert band is not None
        assert all(band[0] <= value <= band[1] for value in summary.values("test", "chrf"))
    single = RowSummary(Row("x", "x"), summary.results[:1], {}, is_of_task=True)
    assert single.band("test", "chrf") is None


def test_a_band_is_offered_only_for_a_recipe_whose_settings_were_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = ROOT / "data" / "benchmarks" / "reproduction"
    for name, task in (("demo", "grammar-de-en"), ("equal-updates", "multi30k-de-en")):
        out = tmp_path / name
        shutil.copytree(kept / f"{name}.{task}", out / "rows")
        assert reproduce(name, "--task", task, "--out", out, "--table") == 0
        assert ("[expect] of " in capsys.readouterr().out) == (name == "demo")


@pytest.mark.parametrize(
    "name", [name for name in recipe_names() if load_config(name, system_configs()).expect]
)
def test_the_band_of_a_recipe_is_that_of_its_results(name: str) -> None:
    expect = load_config(name, system_configs()).expect
    for split, band in expect.items():
        folder = ROOT / str(band.results)
        experiment, _, task = folder.name.partition(".")
        summaries = summarise(find_experiment(experiment, task), read_results(folder))
        (ours,) = (each for each in summaries if each.row.recipe_for(task) == name)
        assert all(is_of_recipe(ours.row, result) for result in ours.results)
        line = tomllib.loads(f"{split} = {ours.expected(split, experiment)}")
        assert ExpectBand.model_validate(line[split]) == band


def test_a_row_can_score_the_average_of_another_rows_runs(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings_ = {"training.keep.last": 10}
    recipe = "demo/transformer-small"
    rows = [
        Row("plain", recipe, settings_),
        Row("average-2", recipe, settings_, run_of="plain", average=2),
    ]
    experiment = Experiment("pair", "A row and its average", rows, ["test"])
    monkeypatch.setattr(command, "find_experiment", lambda name, task: experiment)
    line = ["pair", *TASK, *place(data, tmp_path / "out"), "--seeds", 1, *settings()]
    line += ["--set", "training.validate_every=1"]
    assert reproduce(*line) == 0
    assert [path.name for path in (tmp_path / "out" / "runs").iterdir()] == ["plain-1"]
    average, plain = read_results(tmp_path / "out" / "rows")
    assert (average.checkpoint, plain.checkpoint) == ("average-2", "best")
    assert average.curve == plain.curve
    line = [word for word in line if word != "--no-report"]
    assert reproduce(*line, "--figures", "--rows", "average-2") == 0  # they would be of plain
    assert "no figures of average-2" in capsys.readouterr().err
    assert not (tmp_path / "out" / "pair").exists()


def paired(system: str, difference: float, p: float, *seeds: int) -> PairedResult:
    """A comparison; `seeds` of the baseline and of the system, three each by default."""
    baseline_runs, system_runs = seeds or (3, 3)
    return PairedResult(
        difference,
        p,
        samples=1000,
        baseline="base",
        system=system,
        metric="BLEU",
        baseline_runs=baseline_runs,
        system_runs=system_runs,
    )


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([paired("a", 1.0, 0.01, 2, 3)], "No verdict: 2 of at least 3 seeds are measured."),
        (
            [paired("a", 1.0, 0.01, 1, 1), paired("b", 1.0, 0.01, 1, 1)],
            "No verdict: 1 of at least 3 seeds is measured.",
        ),
        ([paired("a", 1.0, 0.01)], "A gain over the baseline shows for `a`."),
        ([paired("a", -1.0, 0.01), paired("b", -1.0, 0.01)], "`a` and `b` are worse."),
        (
            [paired("a", 0.2, 0.4)],
            "For `a` seeds and sentences vary too much to tell a difference.",
        ),
        (
            [paired("a", 1.0, 0.01), paired("b", 0.2, 0.4)],
            "A gain over the baseline shows for `a`; for `b` seeds and sentences vary too much "
            "to tell a difference.",
        ),
        (
            [paired("a", -1.0, 0.01), paired("b", 2.0, 0.01, 3, 1)],
            "`a` is worse; no verdict on `b`: 1 of at least 3 seeds is measured.",
        ),
    ],
)
def test_a_verdict_says_what_the_tests_say(pairs: list[PairedResult], expected: str) -> None:
    assert conclusion(pairs) == expected


def test_a_verdict_names_every_measured_row_and_those_that_are_missing(done: Path) -> None:
    experiment = find_experiment("demo", "grammar-de-en")
    text = verdict(experiment, summarise(experiment, read_results(done / "rows")))
    assert "Differences in BLEU to `transformer-small`: " in text
    assert " for `reformer-fast` (too few seeds for a test)." in text
    assert "No verdict: 2 of at least 3 seeds" in text
    larger = find_experiment("equal-parameters", "multi30k-de-en")
    assert verdict(larger, []) == "Not measured yet: a verdict needs a row and its baseline."


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_the_seeds_of_one_row_do_not_hide_the_verdict_on_another(done: Path, kept: int) -> None:
    """Results as of three seeds of two rows and `kept` of a third."""
    recipe = "demo/transformer-small"
    experiment = Experiment("three", "Three rows", [Row(x, recipe) for x in "abc"], ["test"])
    first = RowResult.read(done / "rows" / "transformer-small-1.json")
    results = [
        replace(first, row=row, seed=seed, setting="equal-updates:5000")
        for row in "abc"
        for seed in range(1, 4 if row != "c" else kept + 1)
    ]
    summaries = summarise(experiment, results)
    text = verdict(experiment, summaries)
    assert ("no verdict on `c`" in text) == ("too few seeds for a test" in text) == (kept < 3)
    tested = "`b`" if kept < 3 else "`b` and `c`"
    assert f"For {tested} seeds and sentences vary too much to tell a difference" in text
    assert "trained for 5,000 updates" in text
    limited_by = "Training was limited by equal-updates:5000, not as in the recipes."
    assert limited_by in notes(experiment, summaries)
    for summary, seeds in zip(summaries[1:], (3, kept), strict=True):
        cell = cells(experiment, summary)[-1]
        assert ("too few seeds" in cell, "p = " in cell) == (seeds < 3, seeds == 3)


def test_the_notes_name_the_rows_of_each_machine_if_there_are_several(done: Path) -> None:
    experiment = find_experiment("demo", "grammar-de-en")
    first, *others = (
        replace(each, machine={**each.machine, "processor": "A", "device": "cpu, 1 threads"})
        for each in read_results(done / "rows")
    )
    known = f"cpu, 1 thread, {first.machine['precision']}, torch {torch.__version__}"
    lines = notes(experiment, summarise(experiment, [first, *others]))
    assert f"A, {known}." in lines
    elsewhere = replace(first, machine={**first.machine, "processor": "B"})
    lines = notes(experiment, summarise(experiment, [elsewhere, *others]))
    left = {each.row for each in others}
    names = ", ".join(row.name for row in experiment.rows if row.name in left)
    assert {f"B, {known}: {first.row}.", f"A, {known}: {names}."} <= {*lines}


def kept_results() -> list[Path]:
    return sorted((ROOT / "data" / "benchmarks" / "reproduction").glob("*/*.json"))


@pytest.mark.parametrize("path", kept_results(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_kept_result_is_of_the_settings_that_its_experiment_has_today(
    path: Path, data: Path, tmp_path: Path
) -> None:
    name, _, task = path.parent.name.partition(".")
    experiment, result = find_experiment(name, task), RowResult.read(path)
    (row,) = experiment.chosen([result.row])
    corpus = PreparedCorpus.open(data)
    job = Job(task, corpus, tmp_path, experiment.setting, experiment.overrides)
    assert settings_differ(result.config, plain(job.config(row, result.seed))) == []
    assert (result.task, result.setting) == (task, experiment.setting)
    assert result.recipe == row.recipe.format(task=task)
    assert path.name == result.file_name


def test_the_command_overrides_the_settings_of_an_experiment(data: Path, tmp_path: Path) -> None:
    line = ["equal-updates", "--task", "multi30k-de-en", *place(data, tmp_path), "--seeds", 1]
    line += ["--rows", "transformer-2m", "--setting", "equal-updates:4", "--no-report"]
    other = ["training.precision=fp32", "training.schedule.warmup=2", "training.batch_tokens=64"]
    small = [word for setting in [*TINY[:3], *other] for word in ("--set", setting)]
    assert reproduce(*line, "--device", "cpu", *small) == 0
    (result,) = read_results(tmp_path / "rows")
    training = result.config["training"]
    assert (result.setting, training["max_updates"]) == ("equal-updates:4", 4)
    assert (training["schedule"]["name"], training["schedule"]["warmup"]) == ("cosine", 2)
    assert training["learning_rate"] == 2e-3


@pytest.mark.usefixtures("placeholder_pictures")
def test_figures_are_drawn_of_the_runs_that_are_here_and_nothing_is_trained(
    done: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(done, out)
    shutil.rmtree(out / "runs" / "reformer-fast-2")  # made elsewhere, only its result is merged
    (out / "rows" / "reformer-fast-1.json").unlink()  # not finished
    line = ["demo", *TASK[:2], *place(data, out), "--seeds", "1,2", "--device", "cpu", "--figures"]
    assert reproduce(*line, *settings()) == 0
    said = capsys.readouterr().err
    assert "the figures lack reformer-fast-2: " in said
    assert {path.name for path in (out / "runs").iterdir()} == {
        "transformer-small-1",
        "transformer-small-2",
        "reformer-fast-1",
    }
    drawn = (out / "demo" / "test.length-bleu.csv").read_text(encoding="utf-8")
    assert "transformer-small" in drawn and "reformer-fast" not in drawn
    assert (out / "demo" / "report" / "report.html").is_file()


def test_no_figures_are_drawn_of_a_run_that_the_result_is_not_of(
    done: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(done, out)
    line = ["demo", *TASK[:2], *place(data, out), "--device", "cpu", "--figures"]
    line += ["--rows", "transformer-small", "--seeds", "1", *settings()]
    run = out / "runs" / "transformer-small-1"
    shutil.rmtree(run)
    shutil.copytree(out / "runs" / "transformer-small-2", run)
    assert reproduce(*line) == 2
    assert "is not the run of transformer-small-1.json" in capsys.readouterr().err
    assert not (out / "demo").exists()


def test_a_result_is_printed_with_one_thread_and_kept_as_it_was_written(done: Path) -> None:
    result = RowResult.read(done / "rows" / "transformer-small-1.json")
    machine = {**result.machine, "processor": "A", "device": "cpu, 1 threads"}
    assert replace(result, machine=machine).place == "A, cpu, 1 thread"
    machine["device"] = "cpu, 11 threads"
    assert replace(result, machine=machine).place == "A, cpu, 11 threads"


def test_averages_keep_the_checkpoints_that_a_row_asks_for(data: Path, tmp_path: Path) -> None:
    corpus = PreparedCorpus.open(data)
    row = Row("plain", "demo/transformer-small", {"training.keep.last": 10})
    for average, kept in ((0, 10), (3, 10), (6, 12)):
        job = Job("grammar-de-en", corpus, tmp_path, average=average)
        assert job.config(row, seed=1).training.keep.last == kept
        own = job.config(replace(row, average=8), seed=1)
        assert own.training.keep.last == 16
    (row,) = find_experiment("transformer-tiny", "multi30k-en-de").rows
    kept = Job("multi30k-en-de", corpus, tmp_path).config(row, seed=1).training.keep.last
    assert (row.average, kept) == (10, 20)


def test_an_average_is_of_the_last_validations_or_refused(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, config = Run(tmp_path / "run"), tiny_config(validate_every=2, max_updates=6)
    train(config, data=data, run=run.folder)
    monkeypatch.setattr(run, "validations", lambda: [{"update": update} for update in (2, 4)])
    write_average(run, 2, "average-2")  # 6 as if saved between validations
    record = json.loads(
        (run.checkpoint("average-2").folder / "average.json").read_text(encoding="utf-8")
    )
    assert record["of"] == ["step-00000002", "step-00000004"]
    monkeypatch.undo()
    shutil.rmtree(run.checkpoint("4").folder)
    write_average(run, 1, "average-1")
    assert run.checkpoint("average-1").weights.is_file()
    for count, hint in ((2, "delete the run"), (9, "--average 3, or train longer")):
        with pytest.raises(CheckpointError, match=f"last validations, not {count}") as caught:
            write_average(run, count, f"average-{count}")
        assert str(caught.value.hint).startswith(hint)


def test_minutes_have_a_decimal_where_whole_minutes_would_be_coarse() -> None:
    assert [minutes_of(values) for values in ([0.3, 0.5], [9.96], [9.0, 11.0], [79.2])] == [
        "0.4",
        "10",
        "10",
        "79",
    ]


def test_a_result_names_all_devices_of_its_training(tmp_path: Path, done: Path) -> None:
    run = Run(tmp_path)
    for device, threads in (("Some GPU", 1), ("cpu", 1), ("cpu", 2), ("cpu", 2)):
        start = {"event": "start", "device": device, "threads": threads, "precision": "bf16"}
        run.log(start)
    made_on = machine(run, "cpu")
    assert made_on["device"] == "Some GPU, then cpu, 1 threads, then cpu, 2 threads"
    assert made_on["sessions"] == "4"
    result = replace(RowResult.read(done / "rows" / "transformer-small-1.json"), machine=made_on)
    assert not result.is_of_cpu
    assert processor_minutes([result]) is None
