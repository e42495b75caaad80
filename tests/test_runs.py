"""The run directory: whole or absent, found by name, locked while in use."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jtrans.config import Config, build_config, load_config
from jtrans.errors import CheckpointError, JtransError
from jtrans.models.zoo import system_configs
from jtrans.runs import Run, find_run, list_runs
from jtrans.text.pipeline import TextPipeline
from jtrans.text.vocabulary import Vocabulary
from jtrans.text.word_counts import write_word_counts


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config("demo/transformer", system_configs())


@pytest.fixture(scope="module")
def pipeline() -> TextPipeline:
    words = Vocabulary.build({"a": 2, "b": 1})
    return TextPipeline.whitespace("de", "en", words, words)


@pytest.fixture
def make_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: Config, pipeline: TextPipeline
) -> Any:
    """Return a function that makes a run below runs/ of an empty working folder."""
    monkeypatch.chdir(tmp_path)

    def make(name: str = "first", **facts: Any) -> Run:
        return Run.create(Path("runs") / name, config, pipeline, facts)

    return make


def add_checkpoint(run: Run, update: int) -> None:
    with run.new_checkpoint(update) as folder:
        (folder / "model.safetensors").write_bytes(b"weights")


# Making and opening


def test_a_name_that_is_not_utf8_is_refused(make_run: Any) -> None:
    name = os.fsdecode(b"caf\xe9")
    with pytest.raises(CheckpointError, match="not UTF-8"):
        make_run(name)
    assert not Path("runs").exists()
    folder = make_run("moved").folder
    with pytest.raises(CheckpointError, match="not UTF-8"):
        Run.open(folder.rename(folder.with_name(name)))


def test_a_new_run_can_be_opened_with_all_that_was_put_in(
    make_run: Any, config: Config, pipeline: TextPipeline
) -> None:
    make_run("first", data="data/prepared/x")
    run = Run.open(Path("runs/first"))
    assert run.config(system_configs()) == config
    assert run.pipeline == pipeline
    settings = run.info.pop("settings")
    assert run.info == {"format": 1, "data": "data/prepared/x"}
    assert build_config(settings, system_configs(), where="run.json") == config


def test_settings_of_the_last_training_do_not_follow_an_edited_file(
    make_run: Any, config: Config
) -> None:
    run = make_run("first")
    path = run.folder / "config.toml"
    path.write_text(config.to_toml().replace("seed = 1", "seed = 2"), encoding="utf-8")
    run = Run.open(run.folder)
    assert run.config(system_configs()).training.seed == 2
    assert run.trained_config(system_configs()) == config
    info = run.folder / "run.json"  # of an earlier version
    values = json.loads(info.read_text(encoding="utf-8"))
    del values["settings"]
    info.write_text(json.dumps(values), encoding="utf-8")
    assert Run.open(run.folder).trained_config(system_configs()).training.seed == 2
    run.update_config(config.with_training(seed=3))
    path.write_text(config.to_toml(), encoding="utf-8")
    assert Run.open(run.folder).trained_config(system_configs()).training.seed == 3


def test_a_run_that_fails_while_being_made_leaves_nothing(
    tmp_path: Path, config: Config, pipeline: TextPipeline
) -> None:
    with pytest.raises(TypeError):
        Run.create(tmp_path / "run", config, pipeline, {"data": object()})
    assert list(tmp_path.iterdir()) == []


def test_info_is_added_to(make_run: Any) -> None:
    make_run(seed=1).update_info(parameters=5)
    info = Run.open(Path("runs/first")).info
    assert (info["format"], info["seed"], info["parameters"]) == (1, 1, 5)


def test_the_configuration_can_be_replaced(make_run: Any) -> None:
    run = make_run()
    changed = load_config("demo/transformer", system_configs(), overrides=["training.seed=7"])
    run.update_config(changed)
    assert Run.open(run.folder).config(system_configs()) == changed


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        Run.open(tmp_path)
    assert caught.value.kind == "run.missing"


def test_a_run_of_another_format_is_refused_with_both_versions(make_run: Any) -> None:
    run = make_run()
    (run.folder / "run.json").write_text('{"format": 99}', encoding="utf-8")
    with pytest.raises(CheckpointError, match="format 99, this jtrans reads format 1"):
        Run.open(run.folder)


@pytest.mark.parametrize(
    "content",
    [b"{", b"\xff\xfe", b"[1]", b"[" * 99_999],
    ids=["cut", "binary", "a list", "nested"],
)
def test_damaged_info_is_refused(content: bytes, make_run: Any) -> None:
    run = make_run()
    (run.folder / "run.json").write_bytes(content)
    with pytest.raises(JtransError) as caught:
        Run.open(run.folder)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("content", [b"[model", b"\xff\xfe"], ids=["cut", "binary"])
def test_a_damaged_configuration_is_refused(content: bytes, make_run: Any) -> None:
    run = make_run()
    (run.folder / "config.toml").write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged") as caught:
        run.config(system_configs())
    assert "config.toml" in str(caught.value.where)


@pytest.mark.parametrize("section", ["[model]", "[training]", "[decoding]"])
def test_a_configuration_cut_between_sections_is_refused(section: str, make_run: Any) -> None:
    run = make_run()
    path = run.folder / "config.toml"
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole[: whole.index(section)], encoding="utf-8")
    with pytest.raises(CheckpointError, match="damaged: it has no section"):
        run.config(system_configs())


# Names


def test_a_run_is_named_by_its_folder_below_runs(make_run: Any, tmp_path: Path) -> None:
    assert make_run("captions/fast").name == "captions/fast"
    assert Run(tmp_path / "elsewhere" / "fast").name == "fast"
    assert Run(tmp_path / "elsewhere" / "fast" / "seed-3").name == "fast/seed-3"


def test_a_run_is_found_by_folder_and_by_name(make_run: Any) -> None:
    run = make_run("captions/fast")
    for name in ("captions/fast", "runs/captions/fast", str(run.folder.resolve())):
        assert find_run(name).folder.samefile(run.folder)


def test_last_is_the_run_made_last(make_run: Any) -> None:
    first, second = make_run("b"), make_run("a")
    os.utime(first.folder / "run.json", (1, 1))
    assert find_run("@last").folder.samefile(second.folder)
    os.utime(second.folder / "run.json", (0, 0))
    assert find_run("@last").folder.samefile(first.folder)


@pytest.mark.parametrize("mark", ["trials.txt", "scale.json"])
def test_last_is_no_trial_run_of_a_scaling(make_run: Any, mark: str) -> None:
    trial = make_run("scale/fast/wider-1")
    (trial.folder.parent / mark).write_text("{}")
    assert find_run("@last").folder.samefile(trial.folder)  # there is no other
    own, scaled = make_run("base-1"), make_run("scale/fast/scaled-4x4x512-1")
    os.utime(own.folder / "run.json", (2, 2))
    os.utime(scaled.folder / "run.json", (1, 1))
    assert find_run("@last").folder.samefile(own.folder)
    os.utime(own.folder / "run.json", (0, 0))
    assert find_run("@last").folder.samefile(scaled.folder)


def test_last_can_leave_runs_out(make_run: Any) -> None:
    first, second = make_run("first"), make_run("many/seed-1")
    os.utime(first.folder / "run.json", (1, 1))
    begun = [Path("runs/many/seed-1"), Path("runs/many/seed-2")]
    assert find_run("@last", without=begun).folder.samefile(first.folder)
    with pytest.raises(CheckpointError, match="no other runs under runs/"):
        find_run("@last", without=[first.folder, second.folder])


def test_a_run_that_is_being_written_is_not_found(make_run: Any) -> None:
    whole = make_run("whole")
    os.utime(whole.folder / "run.json", (1, 1))
    shutil.copytree(whole.folder, whole.folder.parent / ".half.77.tmp")
    assert find_run("@last").folder.samefile(whole.folder)
    with pytest.raises(CheckpointError, match="runs is not a run, but holds 1"):
        find_run("runs")


def test_last_without_any_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert list_runs() == []
    with pytest.raises(CheckpointError) as caught:
        find_run("@last")
    assert caught.value.exit_code == 2 and caught.value.hint


def test_a_checkpoint_may_be_named_with_its_run(make_run: Any) -> None:
    run = make_run("captions/fast")
    for name in ("captions/fast", "runs/captions/fast", "@last"):
        named = find_run(f"{name}@last", with_checkpoint=True)
        assert named.folder.samefile(run.folder) and named.chosen == "last"
        with pytest.raises(CheckpointError, match="a whole run is used here") as caught:
            find_run(f"{name}@last")
        assert caught.value.hint == f"name the run: {name}"
    assert find_run("@last", with_checkpoint=True).chosen is None
    with pytest.raises(JtransError):
        find_run("x" * 5000 + "@last", with_checkpoint=True)
    with pytest.raises(CheckpointError, match="no such run: captions/fast@"):
        find_run("captions/fast@", with_checkpoint=True)
    with pytest.raises(CheckpointError, match=r"^no such run: captions/fats"):
        find_run("captions/fats@best", with_checkpoint=True)
    at = make_run("captions@home/fast@best")  # a folder of this name keeps its meaning
    assert find_run("captions@home/fast@best", with_checkpoint=True).folder.samefile(at.folder)


def test_a_window_is_no_checkpoint_to_name_with_a_run(make_run: Any) -> None:
    run = make_run("windowed")
    steps = run.checkpoints_folder
    for update in (2, 4):
        (steps / f"step-{update:08}").mkdir()
        (steps / f"step-{update:08}" / "model.safetensors").touch()
    run.set_pointers(window={"size": 2, "updates": [2, 4]})
    named = find_run("windowed@window", with_checkpoint=True)
    with pytest.raises(CheckpointError, match="a window has several checkpoints") as caught:
        named.checkpoint()
    assert str(caught.value.hint).startswith("name one of 2, 4")


def test_an_unknown_run_gets_the_nearest_name(make_run: Any) -> None:
    make_run("captions/fast")
    with pytest.raises(CheckpointError) as caught:
        find_run("captions/fats")
    assert caught.value.hint == "did you mean captions/fast?"


@pytest.mark.parametrize("name", ["demo/transformer", "runs/demo/transformer"])
def test_the_run_of_a_recipe_that_was_not_trained_gets_the_command_that_trains_it(
    make_run: Any, name: str
) -> None:
    make_run("demo/transformers")
    with pytest.raises(CheckpointError) as caught:
        find_run(name)
    assert caught.value.hint == "jtrans train demo/transformer"


def test_a_file_in_place_of_a_run_gets_the_options_for_files(make_run: Any) -> None:
    make_run("captions")
    Path("captions.en").write_text("dog\n", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"captions\.en is a file") as caught:
        find_run("captions.en")
    assert caught.value.hint is not None and "--help" in caught.value.hint


def test_a_folder_that_holds_no_run_is_refused_as_such(make_run: Any) -> None:
    broken: Run = make_run("broken")
    (broken.folder / "config.toml").unlink()
    with pytest.raises(CheckpointError, match="no run in runs/broken"):
        find_run("broken")
    Path("empty").mkdir()
    with pytest.raises(CheckpointError, match="no run in empty"):
        find_run("empty")
    Path("empty/export.json").write_text("{}", encoding="utf-8")
    with pytest.raises(CheckpointError, match="but an export") as refused:
        find_run("empty")
    assert "score --hyp" in str(refused.value.hint)


# Checkpoints


def test_checkpoints_are_listed_oldest_first(make_run: Any) -> None:
    run = make_run()
    for update in (100, 9, 12_345_678):
        add_checkpoint(run, update)
    assert [each.update for each in run.checkpoints()] == [9, 100, 12_345_678]


def test_a_checkpoint_is_found_by_pointer_number_and_name(make_run: Any) -> None:
    run = make_run()
    for update in (10, 20):
        add_checkpoint(run, update)
    run.set_pointers(last="step-00000020", best="step-00000010")
    assert run.checkpoint().update == 10
    assert run.checkpoint("last").update == 20
    assert run.checkpoint("20").update == 20
    assert run.checkpoint("step-00000010").update == 10


def test_an_average_is_found_by_its_name_and_has_no_update(make_run: Any) -> None:
    run = make_run()
    folder = run.checkpoints_folder / "average"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    assert run.checkpoint("average").update is None
    assert run.checkpoints() == []


def test_best_is_the_last_one_before_any_validation(
    make_run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run = make_run()
    add_checkpoint(run, 10)
    add_checkpoint(run, 20)  # whose pointer was not written any more
    run.set_pointers(last="step-00000010", best=None)
    assert run.checkpoint("best").update == 10
    assert not any("missing or damaged" in each.message for each in caplog.records)


def test_a_run_keeps_the_word_counts_that_it_began_with(make_run: Any, tmp_path: Path) -> None:
    run = make_run()
    for count in (1, 2):
        write_word_counts(tmp_path / "words.gz", {"a": count})
        run.keep_word_counts(tmp_path / "words.gz")
        assert run.word_counts() == {"a": 1}


def test_a_missing_checkpoint_lists_what_there_is(make_run: Any) -> None:
    run = make_run()
    add_checkpoint(run, 10)
    run.set_pointers(last="step-00000010")
    with pytest.raises(CheckpointError) as caught:
        run.checkpoint("30")
    assert caught.value.kind == "checkpoint.missing"
    assert "step-00000010" in str(caught.value.hint)


def test_a_run_without_checkpoints_says_so(make_run: Any) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint yet"):
        make_run().checkpoint()


def test_a_checkpoint_that_is_being_written_does_not_count(make_run: Any) -> None:
    run = make_run()
    with run.new_checkpoint(10) as folder:
        (folder / "model.safetensors").write_bytes(b"half")
        with pytest.raises(CheckpointError, match="no checkpoint yet"):
            run.checkpoint()
        (folder / "model.safetensors").unlink()


@pytest.mark.parametrize("name", ["../../second/checkpoints/step-00000010", "", "."])
def test_a_checkpoint_of_another_place_is_not_taken(name: str, make_run: Any) -> None:
    add_checkpoint(make_run("second"), 10)
    run = make_run("first")
    (run.checkpoints_folder / "model.safetensors").write_bytes(b"stray")
    with pytest.raises(CheckpointError):
        run.checkpoint(name)


def test_a_checkpoint_that_fails_while_being_written_leaves_nothing(make_run: Any) -> None:
    run = make_run()
    with pytest.raises(RuntimeError), run.new_checkpoint(10) as folder:
        (folder / "model.safetensors").write_bytes(b"half")
        raise RuntimeError
    assert list(run.checkpoints_folder.iterdir()) == []


def test_a_checkpoint_written_again_replaces_the_first(make_run: Any) -> None:
    run = make_run()
    add_checkpoint(run, 10)
    with run.new_checkpoint(10) as folder:
        (folder / "model.safetensors").write_bytes(b"new")
    assert run.checkpoint("10").weights.read_bytes() == b"new"
    assert len(list(run.checkpoints_folder.iterdir())) == 1


def test_a_checkpoint_changed_after_it_was_written_is_noticed(make_run: Any) -> None:
    run = make_run()
    add_checkpoint(run, 10)
    checkpoint = run.checkpoint("10")
    checkpoint.verify("model.safetensors")
    checkpoint.weights.write_bytes(b"weighty")
    with pytest.raises(CheckpointError, match="have changed since it was written") as caught:
        checkpoint.verify("model.safetensors")
    assert caught.value.kind == "checkpoint.damaged"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("selector", ["best", "last"])
@pytest.mark.parametrize("content", [None, b"", b"weigh", b"xeights"])
@pytest.mark.parametrize("name", ["model.safetensors", "sha256.json"])
def test_instead_of_a_damaged_checkpoint_the_one_before_is_taken_with_a_warning(
    selector: str,
    content: bytes | None,
    name: str,
    make_run: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = make_run()
    for update in (10, 20, 30):
        add_checkpoint(run, update)
    run.set_pointers(last="step-00000030", best="step-00000030")
    damaged = run.checkpoint("30").folder / name
    if content is not None:
        damaged.write_bytes(content)
    elif name == "model.safetensors":
        damaged.unlink()
    is_damaged = content is not None or name == "model.safetensors"
    assert run.checkpoint(selector).update == (20 if is_damaged else 30)
    assert ("using step-00000020" in caplog.text) == is_damaged
    if content is not None:
        with pytest.raises(CheckpointError):  # what is asked for by its number is refused
            run.checkpoint("30").verify("model.safetensors")


def test_a_run_with_nothing_but_damaged_checkpoints_is_refused(make_run: Any) -> None:
    run = make_run()
    add_checkpoint(run, 10)
    (run.checkpoint("10").weights).write_bytes(b"")
    run.set_pointers(last="step-00000010")
    with pytest.raises(CheckpointError) as caught:
        run.checkpoint("last")
    assert caught.value.kind == "checkpoint.damaged"
    assert "--checkpoint" not in str(caught.value.hint)  # there is no other


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"[" * 99_999, b'{"last": 3}', b'{"best": ["a"]}'),
        *(b'{"last": "../../etc"}', b'{"window": 3}', b'{"window": {"size": 2}}'),
        b'{"window": {"size": 2, "updates": ["a"]}}',
    ],
)
def test_without_readable_pointers_the_newest_checkpoint_is_taken(
    content: bytes, make_run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run = make_run()
    for update in (10, 20):
        add_checkpoint(run, update)
    (run.checkpoints_folder / "pointers.json").write_bytes(content)
    assert run.checkpoint("best").update == run.checkpoint("last").update == 20
    [warning] = caplog.messages
    assert warning.endswith("pointers.json is missing or damaged: using step-00000020")
    run.set_pointers(last="step-00000020")
    assert run.pointers() == {"last": "step-00000020"}


def test_only_folders_named_by_training_are_its_checkpoints(make_run: Any) -> None:
    run = make_run()
    for update in (7, 123_456_789):
        add_checkpoint(run, update)
    for name in ("step-backup", "step-12-old", "step-7", "step-000000012"):
        shutil.copytree(run.checkpoint("7").folder, run.checkpoints_folder / name)
    (run.checkpoints_folder / "step-00000009").write_text("a file", encoding="utf-8")
    assert [each.update for each in run.checkpoints()] == [7, 123_456_789]
    assert run.checkpoint("step-backup").name == "step-backup"  # asked for by its name


def test_a_checkpoint_that_was_being_replaced_is_put_back(make_run: Any) -> None:
    run = make_run()
    add_checkpoint(run, 10)
    folder = run.checkpoint("10").folder
    beside = run.checkpoints_folder / ".step-00000010.abc"
    beside.mkdir()
    folder.rename(beside / "old")  # and a crash
    (run.checkpoints_folder / ".step-00000010.99.tmp").mkdir()
    (run.checkpoints_folder / ".pointers.json.99.tmp").write_text("{", encoding="utf-8")
    run.remove_leftovers()
    assert [path.name for path in run.checkpoints_folder.iterdir()] == ["step-00000010"]
    run.checkpoint("10").verify("model.safetensors")


def test_an_average_whose_writing_was_interrupted_is_removed_once_it_is_old(make_run: Any) -> None:
    run = make_run()
    add_checkpoint(run, 10)
    folder = run.checkpoints_folder
    shutil.copytree(run.checkpoint("10").folder, folder / ".middle.x1yz_abc" / "old")
    (folder / ".average.99.tmp").mkdir()
    (folder / ".mine.txt").mkdir()  # of the user
    run.remove_leftovers()
    hidden = {".middle.x1yz_abc", ".average.99.tmp", ".mine.txt"}
    assert {path.name for path in folder.glob(".*")} == hidden
    for name in hidden:
        os.utime(folder / name, (0, 0))
    run.remove_leftovers()
    assert {path.name for path in folder.iterdir()} == {"step-00000010", "middle", ".mine.txt"}
    run.checkpoint("middle").verify("model.safetensors")


def test_a_checkpoint_without_digests_is_taken_with_a_warning(
    make_run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run = make_run()
    add_checkpoint(run, 10)
    checkpoint = run.checkpoint("10")
    checkpoint.verify("model.safetensors")
    assert not caplog.messages
    (checkpoint.folder / "sha256.json").unlink()
    checkpoint.weights.write_bytes(b"anything")
    (checkpoint.folder / "state.json").write_text("{}", encoding="utf-8")
    checkpoint.verify("model.safetensors", "state.json")
    assert caplog.messages == [f"{checkpoint.folder} cannot be verified: it has no sha256.json"]


def test_pointers_change_one_at_a_time(make_run: Any) -> None:
    run = make_run()
    run.set_pointers(last="a", best="a", best_value=2.5)
    run.set_pointers(last="b")
    assert run.pointers() == {"last": "b", "best": "a", "best_value": 2.5}


def test_a_removed_checkpoint_is_gone(make_run: Any) -> None:
    run = make_run()
    add_checkpoint(run, 10)
    run.remove_checkpoint(run.checkpoint("10"))
    assert run.checkpoints() == []


# Log


EVENTS = st.lists(st.dictionaries(st.text(), st.integers() | st.text() | st.none()), max_size=5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(events=EVENTS)
def test_the_log_returns_what_was_written(events: list[dict[str, Any]], tmp_path: Path) -> None:
    run = Run(tmp_path)
    (tmp_path / "log.jsonl").unlink(missing_ok=True)
    for event in events:
        run.log(event)
    assert run.events() == events


def test_a_line_cut_short_by_a_crash_is_left_out(make_run: Any) -> None:
    run = make_run()
    run.log({"update": 1})
    with (run.folder / "log.jsonl").open("a", encoding="utf-8") as handle:
        handle.write('{"update": 2, "lo')
    assert run.events() == [{"update": 1}]
    run.log({"update": 3})
    assert run.events() == [{"update": 1}, {"update": 3}]


def test_lines_of_the_log_that_are_no_events_are_left_out(make_run: Any) -> None:
    run = make_run()
    run.log({"event": "start"})
    with (run.folder / "log.jsonl").open("a", encoding="utf-8") as handle:
        handle.write('5\nnull\n"x"\n[1]\n' + "[" * 99_999 + "\n")
    assert run.cut_log(0) == 1
    assert run.events() == [{"event": "start"}]


def test_a_cut_log_keeps_its_starts_and_ends(make_run: Any) -> None:
    run = make_run()
    for event in ("start", "train", "validation", "train", "end", "start", "train"):
        run.log({"event": event})
    assert run.cut_log(3) == 5
    events = [event["event"] for event in run.events()]
    assert events == ["start", "train", "validation", "end", "start"]


# Lock


def test_a_lock_is_released_after_work_and_after_failure(make_run: Any) -> None:
    run = make_run()
    with run.lock():
        assert (run.folder / "lock.json").exists()
    with pytest.raises(RuntimeError), run.lock():
        raise RuntimeError
    with run.lock():
        pass
    assert not (run.folder / "lock.json").exists()


def test_a_run_in_use_is_refused_with_the_owner(make_run: Any) -> None:
    run = make_run()
    with run.lock(), pytest.raises(JtransError) as caught, Run.open(run.folder).lock():
        pass
    assert caught.value.kind == "run.locked"
    assert str(os.getpid()) in caught.value.message


def test_the_lock_of_a_refused_owner_stays(make_run: Any) -> None:
    run = make_run()
    with run.lock():
        with pytest.raises(JtransError), Run.open(run.folder).lock():
            pass
        assert (run.folder / "lock.json").exists()


def test_a_lock_of_a_dead_process_is_taken_over(make_run: Any) -> None:
    run = make_run()
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    owner = {"host": socket.gethostname(), "pid": process.pid}
    (run.folder / "lock.json").write_text(json.dumps(owner), encoding="utf-8")
    with run.lock():
        held = json.loads((run.folder / "lock.json").read_text(encoding="utf-8"))
        assert held["pid"] == os.getpid()


def test_a_lock_left_by_another_host_is_watched_and_taken_over(
    make_run: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("jtrans.runs.run.WATCH_SECONDS", 0.1)
    run = make_run()
    owner = {"host": "some-other-host", "pid": 1}
    (run.folder / "lock.json").write_text(json.dumps(owner), encoding="utf-8")
    with run.lock():
        assert str(os.getpid()) in (run.folder / "lock.json").read_text(encoding="utf-8")
    assert "process 1 on some-other-host" in caplog.text


def test_the_lock_of_a_former_process_with_the_same_number_is_taken_over(make_run: Any) -> None:
    run = make_run()
    owner = {"host": socket.gethostname(), "pid": os.getpid()}  # a restarted container
    (run.folder / "lock.json").write_text(json.dumps(owner), encoding="utf-8")
    with run.lock():
        pass


def test_the_hint_names_the_file_of_the_lock(make_run: Any) -> None:
    run = make_run()
    with run.lock(), pytest.raises(JtransError) as caught, Run.open(run.folder).lock():
        pass
    assert str(run.folder / "lock") in str(caught.value.hint)


def test_a_run_created_by_another_process_meanwhile_stays(
    make_run: Any, config: Config, pipeline: TextPipeline
) -> None:
    run = make_run(seed=1)
    with pytest.raises(JtransError) as caught:
        Run.create(run.folder, config, pipeline, {"seed": 2})
    assert caught.value.kind == "run.locked"
    assert Run.open(run.folder).info["seed"] == 1
    assert Run.create(run.folder, config, pipeline, {"seed": 2}, replaces=True).info["seed"] == 2


def test_a_run_created_through_a_link_is_at_its_target(
    tmp_path: Path, config: Config, pipeline: TextPipeline
) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to("target")
    Run.create(tmp_path / "link", config, pipeline, {})
    assert (tmp_path / "link").is_symlink() and Run.exists(tmp_path / "target")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"host": "a", "pid": "x"}', "[" * 99_999])
def test_a_damaged_lock_is_taken_over(content: str, make_run: Any) -> None:
    run = make_run()
    (run.folder / "lock.json").write_text(content, encoding="utf-8")
    with run.lock():
        pass
