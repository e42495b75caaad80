"""Results that come from elsewhere: merged, damaged, edited, twice. None of it trains."""

from __future__ import annotations

import copy
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from pydantic import TypeAdapter

from scripts.reproduction import command
from scripts.reproduction.catalogue import find_experiment
from scripts.reproduction.configuration import row_config
from scripts.reproduction.described import BUILT_IN
from scripts.reproduction.merge import merge, read_results
from scripts.reproduction.notes import notes
from scripts.reproduction.results import RowResult
from scripts.reproduction.summary import RowSummary, summarise

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "data" / "benchmarks" / "reproduction" / "demo.grammar-de-en"
NAME = "transformer-small-2.json"
DEMO = ["demo", "--task", "grammar-de-en"]
Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder with the results of three seeds of both rows."""
    shutil.copytree(KEPT, tmp_path / "out" / "rows")
    return tmp_path / "out"


def reproduce(*arguments: object) -> int:
    with pytest.raises(SystemExit) as left:
        command.main([str(argument) for argument in arguments])
    return int(left.value.code or 0)


def test_a_reader_that_quits_is_no_error(out: Path) -> None:
    words = [sys.executable, "-m", "scripts.reproduce", *DEMO, "--out", str(out), "--table"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, cwd=ROOT, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (out / "demo.json").is_file()


def edited(change: Change, path: Path) -> Path:
    """Write a kept result with a change to a file."""
    value = json.loads((KEPT / NAME).read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def is_paragraph(text: str) -> bool:
    return [line.split(":")[0] for line in text.splitlines()] == ["error", "hint"]


CHANGES: dict[str, Change] = {
    "scores of a split missing": lambda v: v["splits"]["test"].pop("drawn"),
    "a metric missing": lambda v: v["splits"]["test"]["scores"].pop("bleu"),
    "splits in a list": lambda v: v.update(splits=[]),
    "few drawn sets": lambda v: v["splits"]["test"].update(drawn=[1.0, 2.0]),
    "words for numbers": lambda v: v["splits"]["test"].update(drawn=["high"] * 1000),
    "nan": lambda v: v["splits"]["test"]["scores"].update({"multi-bleu": math.nan}),
    "more than 100": lambda v: v["splits"]["test"]["scores"].update({"multi-bleu": 340.0}),
    "no data": lambda v: v.update(data=None),
    "no digests": lambda v: v["data"].pop("digests"),
    "no configuration": lambda v: v.update(config=None),
    "nothing on training": lambda v: v.update(training={}),
    "nothing on the machine": lambda v: v.update(machine={}),
    "no versions": lambda v: v.update(versions={}),
    "a row of two names": lambda v: v.update(row=["a", "b"]),
    "a path for a seed": lambda v: v.update(seed="../../7"),
    "another seed": lambda v: v.update(seed=4),
    "another recipe": lambda v: v.update(recipe="demo/reformer-fast"),
    "another task": lambda v: v.update(task="multi30k-de-en"),
    "a new key": lambda v: v.update(comment="mine"),
    "a better score": lambda v: v["splits"]["test"]["scores"].update(bleu=99.9),
    "a path for a row": lambda v: v.update(row="../../transformer-small"),
    "no such setting": lambda v: v.update(setting="equal-time:long"),
    "no such average": lambda v: v.update(checkpoint="average-x"),
    "hardly any settings of training": lambda v: v["config"].update(training={"seed": 2}),
    "a number for a section": lambda v: v["config"]["training"].update(stop=5),
    "no model": lambda v: v["config"].pop("model"),
    "no decoding": lambda v: v["config"].pop("decoding"),
    "a model without its width": lambda v: v["config"]["model"].pop("width"),
    "no parameters": lambda v: v.update(parameters=0),
    "a lower loss": lambda v: v["training"].update(valid_loss=0.1),
    "the name of another row": lambda v: v.update(row="reformer-fast", recipe="demo/reformer-fast"),
    "half a character": lambda v: v["versions"].update(jtrans="\ud800"),
    "a length without end": lambda v: v["config"]["decoding"].update(max_length=math.inf),
    "more updates than can be averaged": lambda v: v["training"].update(updates=10**29),
    "more updates than its limit": lambda v: v["config"]["training"].update(max_updates=9),
    "fewer updates than its curve": lambda v: v["training"].update(updates=9),
    "minutes without end": lambda v: v["training"].update(minutes=1e308),
    "an escape sequence": lambda v: v["versions"].update(torch="2.0\x1b[31m"),
    "no curve": lambda v: v.update(curve=[]),
    "a curve that goes back": lambda v: v.update(curve=v["curve"][::-1]),
    "a curve without losses": lambda v: v.update(curve=[[100]]),
    "a limit that training did not have": lambda v: v.update(setting="equal-updates:21"),
    "a part of an unknown text": lambda v: v["data"].update(is_subset=True, complete_pairs=None),
    "data without digests": lambda v: v["data"].update(digests={}),
    "translations without a digest": lambda v: v["splits"]["test"].update(hypotheses=""),
    "more checkpoints than there can be": lambda v: v.update(checkpoint="average-999999999"),
    "no splits": lambda v: v.update(splits={}),
    "no sentences": lambda v: v["splits"]["test"].update(sentences=0),
    "scores of another split": lambda v: v.update(splits={"valid": v["splits"]["test"]}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_damaged_or_edited_result_is_refused(
    change: Change, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = edited(change, tmp_path / "edited.json")
    assert reproduce(*DEMO, "--out", tmp_path / "out", "--merge", path) == 2
    assert is_paragraph(capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", (KEPT / NAME).read_bytes()[:3000], None])
def test_what_is_no_result_is_refused(
    content: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file.json"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    assert reproduce(*DEMO, "--out", tmp_path / "out", "--merge", path) == 2
    assert is_paragraph(capsys.readouterr().err)
    assert reproduce(path, "--out", tmp_path / "out", "--data", tmp_path) == 2
    assert is_paragraph(capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def test_merging_prints_the_table_says_what_is_left_and_trains_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = sorted(KEPT.glob("*-1.json"))
    assert reproduce(*DEMO, "--out", tmp_path / "out", "--seeds", "1,2", "--merge", *files) == 0
    said = capsys.readouterr()
    assert "transformer-small" in said.out
    assert "2 left: transformer-small-2, reformer-fast-2; nothing was trained" in said.err
    assert [path.name for path in (tmp_path / "out").iterdir() if path.is_dir()] == ["rows"]


def test_two_results_of_one_row_and_seed_are_refused_and_nothing_is_replaced(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = edited(lambda v: v["splits"]["test"].update(hypotheses="0" * 64), tmp_path / "x.json")
    before = {path: path.read_bytes() for path in (out / "rows").iterdir()}
    assert reproduce(*DEMO, "--out", out, "--merge", other) == 2
    assert "two results of transformer-small with seed 2" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (out / "rows").iterdir()} == before
    assert reproduce(*DEMO, "--out", tmp_path / "new", "--merge", KEPT / NAME, other) == 2
    assert not (tmp_path / "new").exists()
    assert reproduce(*DEMO, "--out", out, "--merge", KEPT / NAME, KEPT / NAME) == 0


def test_a_copy_of_a_result_is_not_counted_as_one_more_seed(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(KEPT / NAME, out / "rows" / "transformer-small-4.json")
    assert reproduce(*DEMO, "--out", out, "--table") == 2
    said = capsys.readouterr().err
    assert "is the result of transformer-small with seed 2" in said
    assert is_paragraph(said)


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        ({"parameters": 1}, "the number of parameters"),
        ({"checkpoint": "average-5"}, "the checkpoint"),
    ],
)
def test_seeds_of_one_row_have_equally_many_parameters_and_one_kind_of_checkpoint(
    fact: dict[str, Any], said: str, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited(lambda v: v.update(fact), out / "rows" / NAME)
    assert reproduce(*DEMO, "--out", out, "--table") == 2
    assert f"other settings: {said}" in capsys.readouterr().err


def test_the_translations_of_one_seed_are_not_those_of_another(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(value: dict[str, Any]) -> None:
        value["seed"] = value["config"]["training"]["seed"] = 4

    path = edited(change, tmp_path / "transformer-small-4.json")
    assert reproduce(*DEMO, "--out", out, "--merge", path) == 2
    said = capsys.readouterr().err
    assert "transformer-small-2.json have the same translations of test" in said
    assert is_paragraph(said) and not (out / "rows" / path.name).exists()

    def train_otherwise(value: dict[str, Any]) -> None:  # and translate every line as nothing
        change(value)
        value["curve"][-1][1] += 0.01

    path = edited(train_otherwise, tmp_path / "transformer-small-4.json")
    assert reproduce(*DEMO, "--out", out, "--merge", path) == 0


def test_rows_of_other_numbers_of_sentences_are_not_in_one_table(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited(lambda v: v["splits"]["test"].update(sentences=499), out / "rows" / NAME)
    assert reproduce(*DEMO, "--out", out, "--table") == 2
    said = capsys.readouterr().err
    assert f"{NAME} has 499 sentences of test, " in said and is_paragraph(said)


def test_files_that_count_the_same_pairs_differently_are_not_in_one_table(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited(lambda v: v["data"].update(pairs=29_000), out / "rows" / NAME)
    assert reproduce(*DEMO, "--out", out, "--table") == 2
    said = capsys.readouterr().err
    assert "with the same data, but their files differ in data.pairs" in said and is_paragraph(said)


def demo_summary(change: Change, seeds: int = 3) -> RowSummary:
    """Return the kept results of the smaller row, some seeds of it, each with a change."""
    results = []
    for result in read_results(KEPT)[-3:][:seeds]:
        value = copy.deepcopy(asdict(result))
        change(value)
        results.append(TypeAdapter(RowResult).validate_python(value))
    (summary,) = summarise(find_experiment("demo", "grammar-de-en"), results)
    return summary


NO_BAND: dict[str, Change] = {
    "an average": lambda v: v.update(checkpoint="average-5"),
    "a subset": lambda v: v["data"].update(is_subset=True),
    "files of a user": lambda v: v["data"].update(catalogue=None),
    "text of another name": lambda v: v["data"].update(name="mine"),
    "another width": lambda v: v["config"]["model"].update(width=16),
}


@pytest.mark.parametrize("change", NO_BAND.values(), ids=NO_BAND)
def test_no_band_is_offered_of_what_a_run_of_the_recipe_does_not_give(change: Change) -> None:
    assert demo_summary(lambda v: None).expected("test", "demo") is not None
    assert demo_summary(change).expected("test", "demo") is None


def test_no_band_is_offered_of_scores_without_case_of_cased_text() -> None:
    """`jtrans score` compares its own score, which has the case of the text."""

    def moved(task: str) -> RowSummary:
        return demo_summary(
            lambda v: v.update(task=task, data={**v["data"], "catalogue": task, "name": task})
        )

    assert moved("iwslt14-de-en").expected("test", "table2") is not None
    assert moved("nist-zh-en").expected("test", "table2") is None


@pytest.mark.parametrize("seeds", [1, 2])
def test_no_band_is_offered_of_few_seeds(seeds: int) -> None:
    assert demo_summary(lambda v: None, seeds).expected("test", "demo") is None


def test_the_table_says_that_the_text_is_not_from_the_catalogue() -> None:
    experiment = find_experiment("demo", "grammar-de-en")
    said = "The text was prepared from files"
    for change, is_said in ((NO_BAND["files of a user"], True), (lambda v: None, False)):
        assert any(said in line for line in notes(experiment, [demo_summary(change)])) == is_said


def test_the_paper_is_named_beside_a_users_text_only_if_its_scores_are() -> None:
    experiment = find_experiment("demo", "grammar-de-en")
    summary = demo_summary(NO_BAND["files of a user"])
    with_paper = replace(summary.row, published={"grammar-de-en": {"test": 80.0}})
    for row, is_said in ((summary.row, False), (with_paper, True)):
        lines = notes(experiment, [replace(summary, row=row)])
        assert any("comparable with the paper's" in line for line in lines) == is_said


@pytest.mark.parametrize("from_files", [1, 2, 3])
def test_text_is_of_the_catalogue_if_another_seed_of_the_same_digests_is(from_files: int) -> None:
    experiment = find_experiment("demo", "grammar-de-en")
    summary = demo_summary(
        lambda v: v["data"].update(catalogue=None if v["seed"] == from_files else v["task"])
    )
    assert not any("prepared from files" in line for line in notes(experiment, [summary]))
    assert summary.expected("test", "demo") is not None


def test_what_a_result_says_of_its_text_counts_more_than_the_name_of_its_folder() -> None:
    experiment = find_experiment("demo", "grammar-de-en")
    summary = demo_summary(lambda v: v["data"].update(catalogue=None) if v["seed"] == 2 else None)
    assert any("prepared from files" in line for line in notes(experiment, [summary]))
    assert summary.expected("test", "demo") is None


def test_a_band_names_all_machines_of_its_seeds() -> None:
    first = demo_summary(lambda v: None)
    both = demo_summary(
        lambda v: v["machine"].update(processor="Another") if v["seed"] == 2 else None
    )
    line = tomllib.loads(f"test = {both.expected('test', 'demo')}")
    place = first.results[0].place
    assert line["test"]["machine"] == f"{place}; Another, cpu, 1 thread"


def test_unequal_batches_are_told_by_the_updates_of_an_epoch() -> None:
    experiment = find_experiment("demo", "grammar-de-en")
    same = demo_summary(lambda v: v["curve"][0].__setitem__(0, 103))
    other = demo_summary(lambda v: v["curve"][0].__setitem__(0, 101 + v["seed"]))
    said = "Updates of the first epoch"
    assert not any(said in line for line in notes(experiment, [same]))
    (line,) = (line for line in notes(experiment, [other]) if said in line)
    assert line.endswith(f"{said}: 102 to 104 of transformer-small.")


def test_a_subset_of_a_users_files_is_told_to_be_of_files_too() -> None:
    experiment = find_experiment("demo", "grammar-de-en")
    summary = demo_summary(lambda v: v["data"].update(catalogue=None, is_subset=True))
    lines = notes(experiment, [summary])
    assert any(line.startswith("A subset of the training text") for line in lines)
    origin = "The text was prepared from files, not as grammar-de-en of the catalogue."
    assert origin in lines


def test_results_of_another_task_are_refused(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["equal-parameters", "--task", "multi30k-de-en", "--out", out, "--table"]
    assert reproduce(*line) == 2
    assert "is of the task grammar-de-en" in capsys.readouterr().err
    line = ["equal-parameters", "--task", "multi30k-de-en", "--out", out.parent / "other"]
    assert reproduce(*line, "--merge", KEPT / NAME) == 2
    assert f"{KEPT / NAME} is of the task grammar-de-en" in capsys.readouterr().err


def test_a_table_says_which_baseline_has_no_result(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "transformer-small has no result, so there is no difference to it: reformer-fast.\n"
    assert reproduce(*DEMO, "--out", out, "--table") == 0
    assert text not in capsys.readouterr().out
    for path in (out / "rows").glob("transformer-small-*.json"):
        path.unlink()
    assert reproduce(*DEMO, "--out", out, "--table") == 0
    assert text in capsys.readouterr().out


def test_results_of_fewer_splits_are_left_out_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Figures 3 to 5 need scores of test only, table 2 of the same rows those of valid, too."""
    changes = {"row": "transformer", "task": "iwslt14-de-en"}
    changes["recipe"] = "iwslt14-de-en/transformer"
    path = edited(lambda v: v.update(changes), tmp_path / "transformer-2.json")
    line = ["--task", "iwslt14-de-en", "--out", tmp_path / "out", "--seeds", 2]
    line += ["--rows", "transformer"]
    assert reproduce("figure3", *line, "--merge", path) == 0
    assert "multi-bleu test" in capsys.readouterr().out
    assert reproduce("table2", *line, "--table") == 0
    said = capsys.readouterr()
    assert (said.out, "1 left: transformer-2" in said.err) == ("", True)


@pytest.mark.parametrize("is_subset", [False, True])
def test_table_3_shows_perplexities_beside_the_published_ones(
    is_subset: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(value: dict[str, Any]) -> None:
        value |= {"row": "transformer", "task": "iwslt14-de-en"}
        value |= {
            "recipe": "iwslt14-de-en/transformer",
            "splits": {"valid": value["splits"]["test"]},
        }
        value["data"]["is_subset"] = is_subset
        value["training"]["valid_loss"] = math.log(5.5)
        value["curve"] = [[1030, 2.0, math.log(5.5)]]

    path = edited(change, tmp_path / "transformer-2.json")
    line = ["--task", "iwslt14-de-en", "--out", tmp_path / "out", "--merge", path]
    assert reproduce("table3", *line) == 0
    head, row = capsys.readouterr().out.splitlines()[1:3]
    assert "perplexity valid" in head
    beside = "(all data)" if is_subset else "(+0.11)"
    assert "5.50" in row and f"5.39 {beside}" in row


def test_the_table_says_which_settings_were_changed_and_in_which_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(value: dict[str, Any]) -> None:
        value["config"]["model"]["width"] = 16
        value["config"]["training"]["max_updates"] = 50
        value |= {"checkpoint": "average-5"}

        value["training"]["updates"] = 50
        value["curve"] = [[50, 1.0, value["training"]["valid_loss"]]]

    def limited(value: dict[str, Any]) -> None:
        change(value)
        value["setting"] = "equal-updates:50"

    path = edited(limited, tmp_path / "x.json")
    assert reproduce(*DEMO, "--out", tmp_path / "limited", "--merge", path) == 0
    alone = capsys.readouterr().out
    assert "Not as the experiment has it, in every row: model.width=16." in alone
    assert "average of the checkpoints of the last 5 validations: transformer-small." in alone
    path = edited(change, tmp_path / "y.json")
    files = [path, KEPT / "reformer-fast-1.json"]
    assert reproduce(*DEMO, "--out", tmp_path / "out", "--merge", *files) == 0
    both = capsys.readouterr().out
    settings = "model.width=16; training.max_updates=50"
    assert f"Not as the experiment has it, in transformer-small: {settings}." in both


def test_the_table_says_what_the_experiment_changes_in_every_recipe() -> None:
    experiment, summary = find_experiment("demo", "grammar-de-en"), demo_summary(lambda v: None)
    said = "Changed in every recipe: model.width=64; training.clip_norm=1.0."
    assert said not in notes(experiment, [summary])
    changed = replace(experiment, overrides=["model.width=64", "training.clip_norm=1.0"])
    assert said in notes(changed, [summary])
    others = ["training.clip_norm = 3.0", "training.schedule={ name = 'constant' }"]
    others += ["training.keep.last=7", "training.max_updates=77", "training.stop.patience=3"]
    unlike = notes(replace(changed, overrides=[*changed.overrides, *others]), [summary])
    assert "Changed in every recipe: model.width=64." in unlike


def test_the_table_says_that_rows_were_not_limited_as_the_experiment_is() -> None:
    experiment, summary = find_experiment("demo", "grammar-de-en"), demo_summary(lambda v: None)
    limited = replace(experiment, setting="equal-updates:50")
    said = "Training was limited as in the recipes, not by equal-updates:50."
    assert said in notes(limited, [summary]) and said not in notes(experiment, [summary])


def own_file(folder: Path, *changes: tuple[str, str]) -> Path:
    """Write the experiment of docs/reproduction.md, changed, into a folder; return the file."""
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```toml\n(\[experiments\.mine\].*?)```", page, flags=re.DOTALL)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = folder / "own.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_documented_experiment_is_a_valid_one(tmp_path: Path) -> None:
    experiment = find_experiment(f"{own_file(tmp_path)}:mine", "multi30k-de-en")
    _, deeper, averaged = (
        row_config(row, "multi30k-de-en", experiment.setting, experiment.overrides, {})
        for row in experiment.rows
    )
    assert (deeper.training.max_updates, deeper.model.model_dump()["encoder_layers"]) == (5000, 6)
    assert deeper.training.learning_rate == 1e-3
    assert deeper == averaged and experiment.rows[2].checkpoint() == "average-5"


def test_recipes_of_a_users_experiment_are_files_beside_it(tmp_path: Path) -> None:
    shutil.copy(ROOT / "scripts/reproduction/rows/transformer-2m.toml", tmp_path / "mine.toml")
    change = ('recipe = "{task}/transformer"', 'recipe = "mine.toml"')
    experiment = find_experiment(f"{own_file(tmp_path, change)}:mine", "multi30k-de-en")
    assert experiment.rows[0].recipe_for("multi30k-de-en") == str(tmp_path / "mine.toml")
    assert experiment.rows[1].recipe_for("multi30k-de-en") == "multi30k-de-en/transformer"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("set =", "overrides =", "unknown key overrides in the experiment mine"),
        ("recipe =", "recipes =", "unknown key recipes in row 1 of the experiment mine"),
        ("title =", "# title =", "experiments.mine.title: Field required"),
        ("average = 5", "average = 'five'", "experiments.mine.rows.2.average: Input should"),
        ('baseline = "deeper"', 'baseline = "deep"', "deeper-averaged names deep, which is no row"),
        ('name = "deeper"', 'name = "transformer"', "mine has two rows transformer"),
        ("{task}", "{tsak}", "has other braces than those of {task}"),
        ("title =", 'rows_of = "others"\ntitle =', "rows_of of the experiment mine names none"),
        ("title =", "= title", "not valid TOML: "),
    ],
)
def test_a_users_experiment_that_makes_no_table_is_refused(
    old: str, new: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = f"{own_file(tmp_path, (old, new))}:mine"
    assert reproduce(experiment, "--task", "multi30k-de-en", "--out", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert said in error and is_paragraph(error)


def test_a_missing_file_or_name_of_an_experiment_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, other = own_file(tmp_path), tmp_path / "recipe.toml"
    other.write_text("[training]\n", encoding="utf-8")
    for text, said in {
        f"{other}:mine": "no [experiments.NAME]",
        f"{tmp_path / 'none.toml'}:mine": "cannot read the experiments: No such file or directory",
        f"{path}:mien": "no such experiment: mien",
        str(path): f"hint: {path}:mine\n",
        f"{path}:": f"hint: {path}:mine\n",
    }.items():
        assert reproduce(text, "--task", "multi30k-de-en", "--out", tmp_path / "out") == 2
        error = capsys.readouterr().err
        assert said in error and is_paragraph(error)
    assert not (tmp_path / "out").exists()


def test_results_of_a_users_experiment_are_merged(tmp_path: Path) -> None:
    """Also those of a recipe that is a file, whose name in the result does not tell the folder."""
    source = ROOT / "scripts/reproduction/rows"
    shutil.copytree(source, tmp_path / "own" / "rows")
    table = tomllib.loads(BUILT_IN.read_text(encoding="utf-8"))["experiments"]["equal-updates"]
    path = tmp_path / "own" / "own.toml"
    path.write_text(tomli_w.dumps({"experiments": {"mine": table}}), encoding="utf-8")
    files = sorted(KEPT.parent.glob("equal-updates.multi30k-de-en/transformer-2m-*.json"))
    line = [f"{path}:mine", "--task", "multi30k-de-en", "--out", tmp_path / "merged"]
    assert reproduce(*line, "--merge", *files) == 0
    assert json.loads((tmp_path / "merged" / "mine.json").read_text())["experiment"] == "mine"
    for recipe in (tmp_path / "own" / "rows").iterdir():
        recipe.unlink()
    assert reproduce(*line, "--merge", *files) == 2


@pytest.mark.parametrize("folder", sorted(each.name for each in KEPT.parent.glob("*.*-*")))
def test_every_kept_result_is_merged_anywhere(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recipes of some experiments are files beside them, named by a relative path."""
    monkeypatch.chdir(tmp_path)
    name, _, task = folder.partition(".")
    files = sorted((KEPT.parent / folder).glob("*.json"))
    experiment = find_experiment(name, task)
    rows, splits = experiment.rows, experiment.splits
    merge(files, tmp_path / "rows", rows=rows, splits=splits, task=task, data=None)
    assert sorted(each.name for each in (tmp_path / "rows").iterdir()) == [f.name for f in files]


def test_the_table_says_which_rows_a_limit_ended_before_early_stopping(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(value: dict[str, Any]) -> None:
        value["config"]["training"]["stop"] = {"metric": "valid-loss", "patience": 4}

    path = edited(change, tmp_path / "x.json")
    line = [*DEMO, "--out", tmp_path / "out", "--merge", path, KEPT / "reformer-fast-1.json"]
    assert reproduce(*line) == 0
    said = capsys.readouterr().out
    assert "may still have been falling: transformer-small.\n" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["--table"],
        ["--no-report"],
        ["--seeds", "7"],
        ["--set", "model.width=8"],
        ["--task", "grammar-de-en"],
    ],
)
def test_options_that_say_what_the_file_of_a_row_says_are_refused(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce(KEPT / NAME, "--out", tmp_path / "out", *arguments) == 2
    assert f"{arguments[0]} has no effect" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--budget", "nan"],
        ["--budget", "-5"],
        ["--average", "-2"],
        ["--setting", "equal-time:0.5"],
        ["--rows", ""],
        ["--rows", "transformer-small,"],
        ["--seeds", "99999999999999999999999"],
        ["--seeds", "4294967296"],
        ["--seeds", "1,01"],
    ],
)
def test_impossible_numbers_are_refused(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce(*DEMO, "--out", tmp_path / "out", *arguments) == 2
    error = capsys.readouterr().err
    assert is_paragraph(error) and f"({arguments[0]})" in error and "has no row " not in error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "training.seed=7"], "--seeds decides"),
        (["--setting", "equal-updates:9", "--set", "training.max_updates=5"], "equal-updates:9"),
        (["--setting", "equal-time:9", "--set", "training.stop.patience=5"], "equal-time:9"),
    ],
)
def test_settings_without_effect_are_refused(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce(*DEMO, "--out", tmp_path / "out", *arguments) == 2
    error = capsys.readouterr().err
    assert is_paragraph(error) and "has no effect" in error and said in error


def test_rows_of_other_limits_are_not_in_one_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def limited(value: dict[str, Any]) -> None:
        value["config"]["training"]["max_minutes"] = 5.0
        value["setting"] = "equal-time:5"

    path = edited(limited, tmp_path / "other.json")
    files = [KEPT / "reformer-fast-1.json", path]
    assert reproduce(*DEMO, "--out", tmp_path / "out", "--merge", *files) == 2
    error = capsys.readouterr().err
    assert is_paragraph(error) and "by the setting equal-time:5" in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--set", "nonsense"],
        ["--set", "model.width=two"],
        ["--setting", "foo"],
        ["--setting", "equal-updates:05"],
        ["--setting", "equal-time:٣"],
        ["--setting", "equal-updates:5"],
        ["--set", "model.dropout=0.4"],
        ["--average", "3"],
    ],
)
def test_options_that_do_not_go_with_the_results_of_a_table_are_refused(
    arguments: list[str], out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = [*DEMO, "--out", out, "--table"]
    assert reproduce(*line, "--setting", "paper") == 0
    capsys.readouterr()
    assert reproduce(*line, *arguments) == 2
    assert is_paragraph(capsys.readouterr().err)
    merging = [*DEMO, "--out", tmp_path / "new", "--merge", KEPT / NAME]
    assert reproduce(*merging, *arguments) == 2
    assert not (tmp_path / "new").exists()


def test_names_of_rows_may_stand_apart(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = [*DEMO, "--out", out, "--rows", "transformer-small, reformer-fast", "--table"]
    assert reproduce(*line, "--seeds", "1,2,3") == 0
    assert "left" not in capsys.readouterr().err


def test_without_a_task_those_of_the_experiment_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce("demo", "--out", tmp_path / "out") == 2
    assert "hint: --task grammar-de-en\n" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["{}", '{"format": 1, "row": "trans'])
def test_a_file_of_something_else_among_the_results_is_to_be_moved(
    content: str, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (out / "rows" / NAME).write_text(content, encoding="utf-8")
    assert reproduce(*DEMO, "--out", out, "--table") == 2
    error = capsys.readouterr().err
    assert is_paragraph(error) and "hint: move it elsewhere" in error


def test_scores_of_several_kinds_in_one_table_are_told(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = [*DEMO, "--out", out, "--table"]
    assert reproduce(*line) == 0
    assert "not all scored in the same way" not in capsys.readouterr().out
    path = edited(
        lambda v: v["splits"]["test"].update(signature="BLEU|tok:other"), out / "rows" / NAME
    )
    assert path.is_file() and reproduce(*line) == 0
    said = capsys.readouterr().out
    assert "not all scored in the same way" in said
    assert "BLEU|tok:other" in said and "tok:13a" in said


@pytest.mark.parametrize(("of_seeds", "is_told"), [({1, 2, 3}, False), ({2}, True)])
def test_scores_are_compared_within_each_split(of_seeds: set[int], is_told: bool) -> None:
    """Splits may differ in their number of references, and rows not in the last split only."""

    def with_another_split(value: dict[str, Any]) -> None:
        kind = "BLEU|nrefs:4" if value["seed"] in of_seeds else "BLEU|tok:other"
        value["splits"]["other"] = value["splits"]["test"] | {"signature": kind}

    experiment = replace(find_experiment("demo", "grammar-de-en"), splits=["other", "test"])
    lines = notes(experiment, [demo_summary(with_another_split)])
    assert any("not all scored in the same way" in line for line in lines) == is_told
    assert "BLEU|nrefs:4" in lines and ("BLEU|tok:other" in lines) == is_told
    assert any("tok:13a" in line for line in lines)
