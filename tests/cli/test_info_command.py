"""`jtrans info`: what a bug report needs; `jtrans info RUN`: how a run was trained."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plugins.command_line import Jtrans
from plugins.small_corpus import tiny_config

from jtrans import __version__
from jtrans.cli.run_info import BLOCKS, sparkline
from jtrans.models.zoo import system_configs
from jtrans.runs import Run
from jtrans.training.session import train


def test_versions_devices_and_folders_are_given(jtrans: Jtrans, tmp_path: Path) -> None:
    facts = json.loads(jtrans("info", "--json").out)
    assert facts["jtrans"] == __version__
    assert facts["python"] == platform.python_version()
    assert facts["packages"]["torch"] == importlib.metadata.version("torch")
    assert facts["devices"][0].startswith("cpu, ")
    assert "fp32 by " in facts["devices"][0]
    assert facts["folders"]["working folder"] == str(tmp_path)
    cache = os.environ["JTRANS_CACHE"]
    set_here = {"JTRANS_DEVICE": "cpu", "JTRANS_OFFLINE": "1", "JTRANS_CACHE": cache}
    assert facts["environment"] == set_here


def test_the_table_has_a_line_for_each_fact(
    jtrans: Jtrans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JTRANS_CACHE", "")
    lines = [line.split(maxsplit=1) for line in jtrans("info").out.splitlines()]
    assert ["jtrans", __version__] in lines
    assert ["JTRANS_OFFLINE", "1"] in lines
    assert ["JTRANS_CACHE"] in lines  # empty, not "not installed"
    assert any(line[0] == "device" for line in lines)


@pytest.fixture(scope="module")
def trained(_nouns: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was trained in two starts."""
    folder = tmp_path_factory.mktemp("trained") / "small"
    for updates in (4, 6):
        window = {"window": 2} if updates == 6 else {}
        config = tiny_config(max_updates=updates, validate_every=2, keep={"last": 2, **window})
        train(config, data=_nouns, run=folder)
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Run:
    """A copy of that run."""
    return Run.open(shutil.copytree(trained, tmp_path / "runs" / "small"))


def test_a_run_is_described_with_its_curves_and_its_end(run: Run, jtrans: Jtrans) -> None:
    values = json.loads(jtrans("info", "small", "--json").out)
    assert (values["system"], values["updates"]) == ("transformer", 6)
    assert (values["state"], values["reason"]) == ("finished", "max_updates")
    assert [start["update"] for start in values["starts"]] == [0, 4]
    assert values["restarts"] == 1 and values["seconds"] > 0.0
    assert [each["update"] for each in values["validations"]] == [2, 4, 6]
    assert values["settings"]["training"]["max_updates"] == 6
    assert "seed" not in values["settings"]["training"]  # a default
    assert values["checkpoints"] == [each.update for each in run.checkpoints()]
    assert values["best"]["checkpoint"] == run.pointers()["best"]
    assert values["dropped"] == values["splits"] == 0


def test_the_description_of_a_run_is_readable(run: Run, jtrans: Jtrans) -> None:
    result = jtrans("info", run.folder)
    cells = dict(line.split(maxsplit=1) for line in result.out.splitlines() if " " in line)
    assert result.code == 0
    assert cells["trained"].startswith("6 updates, ") and cells["trained"].endswith("2 times")
    assert cells["state"] == "finished: all updates are done"
    assert cells["window"] == "the window of 2 validations is not complete: 1 so far"
    assert cells["best"].startswith("valid loss ")
    assert result.out.count("hypothesis ") == 3
    assert cells["valid"].startswith("BLEU") or "▁" in cells["valid"]
    table = [line.split()[:2] for line in result.out.splitlines()[-4:]]
    assert [row[1] for row in table] == ["update", "2", "4", "6"]


def test_several_runs_are_compared(run: Run, jtrans: Jtrans, tmp_path: Path) -> None:
    """A row for each run, and only the settings that differ."""
    new = Run.create(
        tmp_path / "runs" / "wider",
        tiny_config(model={"width": 12}, validate_every=2, stop={"metric": "valid-bleu"}),
        run.pipeline,
        {"data": run.info["data"], "from": "runs/base"},
    )
    values = json.loads(jtrans("info", "small", "wider", "--json").out)
    assert [each["name"] for each in values["runs"]] == ["small", "wider"]
    assert [each["state"] for each in values["runs"]] == ["finished", "new"]
    differences = values["differences"]
    assert differences["model.width"][1] == 12 != differences["model.width"][0]
    assert differences["from"] == [None, "runs/base"] and "keep_optimiser" not in differences
    assert differences["training.keep.window"] == [2, 0]
    assert differences["training.stop.metric"] == [None, "valid-bleu"]
    assert "training.validate_every" not in differences and "data" not in differences
    result = jtrans("info", run.folder, new.folder)
    small, wider = (line.split() for line in result.out.splitlines()[1:3])
    losses = [each["valid_loss"] for each in values["runs"][0]["validations"]]
    assert (small[0], small[2], small[5]) == ("small", "6", f"{min(losses):.3f}")
    assert (wider[0], wider[2:]) == ("wider", ["0", "0", "0:00", "-", "-", "new"])
    rows = [line.split() for line in result.out.splitlines()]
    assert ["setting", "small", "wider"] in rows and [
        "training.stop.metric",
        "-",
        "valid-bleu",
    ] in rows


@pytest.mark.parametrize("is_kept", [True, False])
def test_the_run_whose_weights_a_run_began_with_is_named(
    run: Run, jtrans: Jtrans, is_kept: bool
) -> None:
    run.update_info(**{"from": "runs/base", "keep_optimiser": is_kept})
    [row] = [line for line in jtrans("info", "small").out.splitlines() if "runs/base" in line]
    text = "all weights of runs/base" + (", with its optimiser" if is_kept else "")
    assert row.split(maxsplit=1) == ["initial", text]
    values = json.loads(jtrans("info", "small", "--json").out)
    assert (values["from"], values["keep_optimiser"]) == ("runs/base", is_kept)


def test_equal_runs_have_no_table_of_settings(run: Run, jtrans: Jtrans) -> None:
    shutil.copytree(run.folder, run.folder.parent / "twin")
    assert "setting" not in jtrans("info", "small", "twin").out
    result = jtrans("info", "small", "@last", "small")
    assert result.code == 2 and "small is given twice" in result.err


def test_checkpoints_that_are_being_written_are_not_listed(run: Run, jtrans: Jtrans) -> None:
    [whole, *_] = run.checkpoints()
    for name in ("middle", ".average.77.tmp", ".step-00000099.77.tmp"):
        shutil.copytree(whole.folder, run.checkpoints_folder / name)
    lines = jtrans("info", run.folder).out.splitlines()
    (line,) = (each for each in lines if each.startswith("checkpoints"))
    assert line.endswith(", middle") and ".tmp" not in line


def test_damaged_names_of_checkpoints_are_told(run: Run, jtrans: Jtrans) -> None:
    (run.checkpoints_folder / "pointers.json").write_text("{", encoding="utf-8")
    [line] = [each for each in jtrans("info", run.folder).out.splitlines() if each[:4] == "best"]
    assert line.split(maxsplit=1)[1] == "unknown: checkpoints/pointers.json is damaged"


def test_a_damaged_log_is_no_empty_one(run: Run, jtrans: Jtrans) -> None:
    assert not any(each.startswith("log ") for each in jtrans("info", run.folder).out.splitlines())
    (run.folder / "log.jsonl").write_bytes(b"\x91\xff\n[3]\n\n{")
    result = jtrans("info", run.folder)
    (line,) = (each for each in result.out.splitlines() if each.startswith("log "))
    assert result.code == 0 and line.endswith("3 damaged lines left out here")


def test_a_number_beyond_all_floats_in_a_damaged_log_counts_as_none(
    run: Run, jtrans: Jtrans
) -> None:
    before = json.loads(jtrans("info", "small", "--json").out)["seconds"]
    with (run.folder / "log.jsonl").open("a", encoding="utf-8") as log:
        log.write(f'{{"event": "train", "update": 6, "seconds": {"9" * 400}}}\n')
    assert json.loads(jtrans("info", "small", "--json").out)["seconds"] == before


def test_a_number_of_any_length_is_refused_by_its_meaning(run: Run, jtrans: Jtrans) -> None:
    result = jtrans("average", run.folder, "--steps", "9" * 5000)
    assert result.code == 2 and len(result.err) < 300
    assert "--steps needs update numbers, not '999" in result.err
    result = jtrans("score", run.folder, "--checkpoint", "9" * 5000)
    assert result.code == 2 and "hint:" in result.err


def test_all_sentences_that_are_left_out_are_counted(run: Run, jtrans: Jtrans) -> None:
    shown = {"sentences": list(range(100)), "named": 250}  # an event shows at most a hundred
    for update, is_left_out in ((3, True), (5, False)):
        run.log({"event": "skip", "update": update, "left_out": is_left_out, **shown})
    assert "250 sentences left out as the cause" in jtrans("info", run.folder).out


def test_updates_are_counted_from_where_training_went_back_to(run: Run, jtrans: Jtrans) -> None:
    before = json.loads(jtrans("info", run.folder, "--json").out)["updates"]
    run.log({"event": "skip", "update": before + 3_000})
    run.log({"event": "return", "update": before})
    assert json.loads(jtrans("info", run.folder, "--json").out)["updates"] == before


@pytest.mark.parametrize("is_set_anew", [False, True])
def test_the_learning_rate_after_a_return_is_told_until_it_is_set_anew(
    run: Run, jtrans: Jtrans, is_set_anew: bool
) -> None:
    rate = run.config(system_configs()).training.learning_rate
    run.log(
        {"event": "return", "returns": 2, "learning_rate": rate / 4 * (2 if is_set_anew else 1)}
    )
    out = jtrans("info", run.folder).out
    assert "training diverged and went back 2 times" in out
    assert ("the learning rate is 1/4 of the configured one" in out) != is_set_anew


@pytest.mark.parametrize(
    ("last", "state"),
    [
        ({"event": "end", "update": 6, "reason": "stopped"}, "stopped: stopped by a signal"),
        ({"event": "start", "update": 6}, "interrupted"),
        ({"event": "end", "update": 6, "reason": "failed", "fault": "no disk"}, "failed: no disk"),
    ],
)
def test_the_state_is_that_of_the_last_start(
    run: Run, jtrans: Jtrans, last: dict[str, Any], state: str
) -> None:
    run.log(last)
    assert state in jtrans("info", run.folder).out


def test_curves_and_the_noise_scale_are_shown(run: Run, jtrans: Jtrans) -> None:
    for loss, noise in ((4.0, 80.0), (2.0, 90.0), (3.0, 12345.6)):
        run.log({"event": "train", "update": 6, "nll": loss, "noise_scale": noise})
    lines = jtrans("info", run.folder).out.splitlines()
    assert ["train", "loss", "4.00", "█▁▅", "3.00"] in [line.split() for line in lines]
    (noise_scale,) = [line for line in lines if line.startswith("noise scale")]
    assert "about 12,346 target tokens; an update has 60" in noise_scale


def test_the_noise_scale_of_a_loss_by_sentences_counts_sentences(run: Run, jtrans: Jtrans) -> None:
    config = run.config(system_configs())
    run.update_config(config.with_training(normalise="sentence"))
    run.update_info(train={"pairs": 40, "tokens": {"source": 250, "target": 200}})
    run.log({"event": "train", "update": 6, "noise_scale": 90.0})
    assert "about 90 sentences; an update has about 12" in jtrans("info", run.folder).out


@given(values=st.lists(st.floats(), max_size=60), width=st.integers(1, 20))
def test_a_sparkline_fits_and_has_the_highest_block_for_the_highest_value(
    values: list[float], width: int
) -> None:
    finite = [value for value in values if abs(value) < 1e300]
    line = sparkline(finite, width)
    assert len(line) == min(width, len(finite))
    if len(set(finite)) > 1 and len(finite) <= width:
        assert line[finite.index(max(finite))] == BLOCKS[-1]
        assert line[finite.index(min(finite))] == BLOCKS[0]


def test_a_run_in_training_is_running(run: Run, jtrans: Jtrans) -> None:
    run.log({"event": "start", "update": 6})
    with run.lock():
        assert json.loads(jtrans("info", run.folder, "--json").out)["state"] == "running"


def test_of_many_validations_some_are_shown(run: Run, jtrans: Jtrans) -> None:
    for update in range(7, 60):
        run.log({"event": "validation", "update": update, "valid_loss": float("nan")})
    lines = jtrans("info", run.folder).out.splitlines()
    assert lines[-1] == "20 of 56 validations; --json has all of them"
    assert [line.split()[1] for line in (lines[-21], lines[-2])] == ["2", "59"]
    values = json.loads(jtrans("info", run.folder, "--json").out)
    assert len(values["validations"]) == 56
    assert values["validations"][-1]["valid_loss"] is None


@pytest.mark.parametrize("damage", ["missing", "config", "log"])
def test_a_damaged_run_is_refused_or_described_as_far_as_it_goes(
    run: Run, jtrans: Jtrans, damage: str
) -> None:
    if damage == "config":
        (run.folder / "config.toml").write_text("[model", encoding="utf-8")
    elif damage == "log":
        (run.folder / "log.jsonl").write_bytes(b'[1]\n{"event": 3, "update": "x"}\n{')
    result = jtrans("info", "nosuch" if damage == "missing" else run.folder)
    assert result.code == (2 if damage == "missing" else 0)  # run.json has the settings, too
    assert "Traceback" not in result.err and bool(result.err) == (damage == "missing")
