"""Exported models on disk: complete or absent, and refused once anything was changed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plugins.random_runs import MakeRun

from jtrans.errors import CheckpointError, JtransError
from jtrans.exports import Export, default_folder, find_export, new_export
from jtrans.models.zoo import system_configs
from jtrans.runs import Run


@pytest.fixture
def export(make_run: MakeRun) -> Export:
    run = Run.open(make_run())
    folder = default_folder(run, "other")
    new = new_export(folder, "other", run, "best", system_configs())
    with new as (temporary, facts):
        (temporary / "weights").mkdir()
        (temporary / "weights" / "model.bin").write_bytes(bytes(range(200)))
        facts["answer"] = 42
    return Export.open(folder, "other")


def test_an_export_keeps_what_decoding_needs(export: Export) -> None:
    run = Run.open(export.folder.parents[1])
    assert export.facts["answer"] == 42
    assert export.pipeline == run.pipeline
    assert export.config(system_configs()) == run.config(system_configs())
    assert export.checkpoint().name == "step-00000010"
    assert find_export(str(run.folder), "other") == export
    assert find_export(str(export.folder), "other") == export


def test_an_export_that_the_run_has_left_behind_is_said_so(
    export: Export, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run.open(export.folder.parents[1])
    find_export(str(run.folder), "other")
    assert caplog.text == ""
    shutil.copytree(
        run.checkpoints_folder / "step-00000010", run.checkpoints_folder / "step-00000020"
    )
    run.set_pointers(best="step-00000020")
    assert find_export(str(run.folder), "other").facts["checkpoint"] == "step-00000010"
    assert "the best checkpoint of the run is now step-00000020" in caplog.text


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_change_is_noticed(export: Export, tmp_path: Path, data: st.DataObject) -> None:
    copy = tmp_path / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(export.folder, copy)
    files = sorted(path for path in copy.rglob("*") if path.is_file())
    path = data.draw(st.sampled_from(files), label="file")
    content = path.read_bytes()
    place = data.draw(st.integers(0, len(content) - 1), label="place")
    change = data.draw(st.sampled_from(["flip", "cut", "remove"]), label="change")
    if change == "flip":
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    elif change == "cut":
        path.write_bytes(content[:place])
    else:
        path.unlink()
    with pytest.raises(JtransError) as refused:
        Export.open(copy, "other")
    assert refused.value.exit_code == 2


def test_work_that_fails_leaves_nothing(make_run: MakeRun, tmp_path: Path) -> None:
    run = Run.open(make_run())
    out = tmp_path / "out"
    with (
        pytest.raises(ValueError, match="stop"),
        new_export(out, "other", run, "best", system_configs()) as (temporary, _),
    ):
        (temporary / "model.bin").write_bytes(b"half")
        raise ValueError("stop")
    assert not out.exists()


def refuse(folder: Path, run: Run, message: str) -> None:
    with (
        pytest.raises(CheckpointError, match=message),
        new_export(folder, "other", run, "best", system_configs()),
    ):
        pass


@pytest.mark.parametrize("name", ["notes.txt", "deep/thesis.tex"])
def test_an_export_with_files_of_a_user_is_not_replaced(
    name: str, make_run: MakeRun, tmp_path: Path
) -> None:
    run, out = Run.open(make_run()), tmp_path / "out"
    for _ in range(2):
        with new_export(out, "other", run, "best", system_configs()):
            pass
    (out / name).parent.mkdir(exist_ok=True)
    (out / name).write_text("mine", encoding="utf-8")
    refuse(out, run, f"holds {name}")
    assert (out / name).read_text(encoding="utf-8") == "mine"


def test_a_folder_that_only_seems_to_be_an_export_is_not_replaced(
    make_run: MakeRun, tmp_path: Path
) -> None:
    run, out = Run.open(make_run()), tmp_path / "out"
    out.mkdir()
    (out / "export.json").write_text('{"my": "data"}', encoding="utf-8")
    for place in (out, out / "export.json"):
        refuse(place, run, "other than an export")
    assert (out / "export.json").read_text(encoding="utf-8") == '{"my": "data"}'


def test_the_export_of_another_run_of_the_same_name_is_not_replaced(
    make_run: MakeRun, tmp_path: Path
) -> None:
    run, out = Run.open(make_run()), tmp_path / "out"
    with new_export(out, "other", run, "best", system_configs()):
        pass
    before = (out / "export.json").read_bytes()
    folder = tmp_path / "elsewhere" / run.folder.name
    shutil.copytree(run.folder, folder)
    config = folder / "config.toml"
    text = config.read_text(encoding="utf-8")
    config.write_text(re.sub(r"(?m)^seed = \d+$", "seed = 77", text), encoding="utf-8")
    other = Run.open(folder)
    refuse(out, other, "the export of another run")
    assert (out / "export.json").read_bytes() == before


def test_the_checkpoint_of_an_export_has_the_names_that_it_has_in_the_run(
    make_run: MakeRun, tmp_path: Path
) -> None:
    run, out = Run.open(make_run()), tmp_path / "last"
    with new_export(out, "other", run, "last", system_configs()):
        pass
    export = Export.open(out, "other")
    held = run.checkpoint("last")
    for selector in ("best", "last", held.name, str(held.update)):
        assert export.checkpoint(selector).name == held.name


def test_another_program_version_or_checkpoint_is_refused(export: Export) -> None:
    with pytest.raises(CheckpointError, match="for other, not for ctranslate2"):
        Export.open(export.folder, "ctranslate2")
    with pytest.raises(CheckpointError, match="has only checkpoint"):
        export.checkpoint("last")
    (export.folder / "export.json").write_text('{"format": 2, "program": "other"}')
    with pytest.raises(CheckpointError, match="has format 2"):
        Export.open(export.folder, "other")
