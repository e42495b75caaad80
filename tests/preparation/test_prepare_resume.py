"""A preparation that is interrupted, killed, or out of disk: nothing half, nothing lost."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from plugins.folders import contents
from plugins.listener import Listener
from plugins.sentence_pairs import PAIRS, parallel_text

from jtrans.corpora.parallel import Corpus
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import CorpusError, WorkError
from jtrans.preparation import encode as encoding
from jtrans.preparation import segment as segmenting
from jtrans.preparation import work_folder
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare
from jtrans.preparation.request import make_request, request_key
from jtrans.progress import Silent

SMALL = PrepareOptions(bpe_merges=30)


def make_corpus(train: int = 80) -> Corpus:
    """Return a corpus of so many training pairs."""
    parts = {"train": PAIRS[:train], "valid": PAIRS[80:90], "test": PAIRS[90:100]}
    splits = {name: parallel_text(part) for name, part in parts.items()}
    return Corpus("mine", ("de", "en"), splits)


def fail_at(monkeypatch: pytest.MonkeyPatch, name: str, failure: BaseException) -> None:
    """Let the first file whose name holds `name` fail to be opened for writing."""
    open_path = Path.open

    def fail(path: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if name in path.name and "w" in mode:
            raise failure
        return open_path(path, mode, *arguments, **options)

    monkeypatch.setattr(Path, "open", fail)


STEPS = ["key", "train.00000.source.txt", "notes", "codes.joint", "ids.npy", "test.target.npy"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", STEPS)
def test_a_full_disk_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = tmp_path / "out"
    prepare(make_corpus(), folder, options=SMALL, workers=1)
    before = contents(folder)
    fail_at(monkeypatch, name, OSError(errno.ENOSPC, "No space left"))
    with pytest.raises(WorkError, match="the disk is full"):
        prepare(make_corpus(50), folder, options=SMALL, workers=1, force=True)
    assert contents(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", STEPS)
def test_an_interrupted_preparation_goes_on_when_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    prepare(make_corpus(), tmp_path / "whole", options=SMALL, workers=1)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        fail_at(patch, name, KeyboardInterrupt())
        prepare(make_corpus(), tmp_path / "out", options=SMALL, workers=1)
    assert [path.name for path in tmp_path.iterdir()] != ["whole"]
    assert not (tmp_path / "out").exists()
    listener = Listener()
    prepare(make_corpus(), tmp_path / "out", options=SMALL, workers=1, progress=listener)
    assert ("Continuing" in listener.lines) == (name != "key")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert {path.name for path in tmp_path.iterdir()} == {"out", "whole"}


def test_what_is_done_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        fail_at(patch, "test.target.npy", KeyboardInterrupt())
        prepare(make_corpus(), tmp_path / "out", options=SMALL, workers=1)
    monkeypatch.setattr(segmenting, "segment_shard", None)
    monkeypatch.setattr(encoding, "encode_part", None)
    monkeypatch.setattr("jtrans.preparation.learn.bpe.learn", None)
    prepare(make_corpus(), tmp_path / "out", options=SMALL, workers=1)


def test_work_begun_for_another_request_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        fail_at(patch, "test.target.npy", KeyboardInterrupt())
        prepare(make_corpus(), tmp_path / "out", options=SMALL, workers=1)
    other = PrepareOptions(bpe_merges=20)
    prepare(make_corpus(), tmp_path / "out", options=other, workers=1)
    prepare(make_corpus(), tmp_path / "clean", options=other, workers=1)
    assert contents(tmp_path / "out") == contents(tmp_path / "clean")


def test_work_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    record = make_request(make_corpus(), SMALL, Silent()).record
    key = request_key(record)
    monkeypatch.setattr("jtrans.preparation.request.__version__", "0.0.1")
    assert request_key(record) != key


def kill_at_write(number: int) -> None:
    """Let this process be killed when it writes for the `number`-th time."""
    count = itertools.count(1)
    open_path = Path.open

    def opened(path: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        handle = open_path(path, mode, *arguments, **options)
        if "w" in mode and next(count) == number:
            handle.write(b"half" if "b" in mode else "half")
            handle.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        return handle

    setattr(Path, "open", opened)  # noqa: B010 (a type checker would want all overloads)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked")
def test_killed_at_any_write_and_run_again_it_gives_the_same_bytes(tmp_path: Path) -> None:
    options = PrepareOptions(bpe_merges=30, truecase=True)
    prepare(make_corpus(), tmp_path / "whole", options=options, workers=1)
    expected = contents(tmp_path / "whole")
    died = 0
    for number in range(1, 60, 4):
        folder = tmp_path / f"killed{number}"
        child = os.fork()
        if child == 0:
            kill_at_write(number)
            prepare(make_corpus(), folder, options=options, workers=1)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        died += os.WIFSIGNALED(status)
        prepare(make_corpus(), folder, options=options, workers=1)
        assert contents(folder) == expected
    assert died > 8
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.sample(2)
@pytest.mark.parametrize("number", range(1, 6))
def test_interrupted_while_folders_change_places_the_corpus_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: Any
) -> None:
    folder = tmp_path / "out"
    prepare(make_corpus(50), folder, options=SMALL, workers=1)
    prepare(make_corpus(), tmp_path / "whole", options=SMALL, workers=1)
    count, rename = itertools.count(1), Path.rename

    def interrupt(path: Path, other: Path) -> Path:
        if next(count) == number:
            raise KeyboardInterrupt
        return rename(path, other)

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(Path, "rename", interrupt)
        prepare(make_corpus(), folder, options=SMALL, workers=1, force=True)
    prepare(make_corpus(), folder, options=SMALL, workers=1, force=True)
    assert contents(folder) == contents(tmp_path / "whole")
    assert {path.name for path in tmp_path.iterdir()} == {"out", "whole"}


@pytest.mark.parametrize("removed", ["nothing", "the key", "all but the lock"])
def test_what_was_left_by_a_preparation_killed_at_its_very_end_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removed: str
) -> None:
    folder, left = tmp_path / "out", tmp_path / ".out.work"
    with monkeypatch.context() as patch:
        patch.setattr(work_folder.WorkFolder, "_remove", lambda _: None)
        prepare(make_corpus(), folder, options=SMALL, workers=1)
    if removed == "the key":
        (left / "key").unlink()
    elif removed == "all but the lock":
        shutil.rmtree(left)
        (tmp_path / ".out.work.lock").touch()
    else:
        assert (left / "key").is_file()
    prepare(make_corpus(), folder, options=SMALL, workers=1)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_force_works_after_a_preparation_killed_at_its_very_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(work_folder.WorkFolder, "_remove", lambda _: None)
            prepare(make_corpus(), folder, options=SMALL, workers=1, force=True)
    assert (tmp_path / ".out.work" / "old").is_dir()
    prepare(make_corpus(), folder, options=SMALL, workers=1, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_work_that_another_preparation_can_continue_stays(tmp_path: Path) -> None:
    folder, left = tmp_path / "out", tmp_path / ".out.work"
    prepare(make_corpus(), folder, options=SMALL, workers=1)
    left.mkdir()
    (left / "key").write_text("another")
    prepare(make_corpus(), folder, options=SMALL, workers=1)
    assert (left / "key").read_text() == "another"


@pytest.mark.parametrize("is_forced", [False, True])
def test_a_corpus_that_was_moved_away_survives_a_failure_of_another_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_forced: bool
) -> None:
    folder = tmp_path / "out"
    prepare(make_corpus(50), folder, options=SMALL, workers=1)
    before, rename = contents(folder), Path.rename

    def interrupt(path: Path, other: Path) -> Path:
        if path.name == "made":  # the new one, when the old one has been moved away
            raise KeyboardInterrupt
        return rename(path, other)

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(Path, "rename", interrupt)
        prepare(make_corpus(), folder, options=SMALL, workers=1, force=True)
    assert not folder.exists()
    if is_forced:
        fail_at(monkeypatch, "ids.npy", OSError(errno.ENOSPC, "No space left"))
    fault = (WorkError, "the disk is full") if is_forced else (CorpusError, "another prepared")
    with pytest.raises(fault[0], match=fault[1]):
        prepare(make_corpus(70), folder, options=SMALL, workers=1, force=is_forced)
    assert contents(folder) == before


@pytest.mark.skipif(sys.platform != "linux", reason="needs workers that are forked")
def test_a_worker_that_dies_is_an_error_and_what_is_done_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(segmenting, "segment_shard", die)
        with pytest.raises(WorkError, match="a worker process died"):
            prepare(make_corpus(), tmp_path / "out", options=SMALL, workers=2)
    listener = Listener()
    prepare(make_corpus(), tmp_path / "out", options=SMALL, workers=1, progress=listener)
    assert "Continuing" in listener.lines


@pytest.mark.parametrize("is_other", [False, True])
def test_a_corpus_that_another_process_finished_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_other: bool
) -> None:
    wait = work_folder.WorkFolder._exclusive
    theirs = PrepareOptions(bpe_merges=20) if is_other else SMALL

    def finish_another(work: work_folder.WorkFolder) -> Any:
        monkeypatch.setattr(work_folder.WorkFolder, "_exclusive", wait)
        prepare(make_corpus(), tmp_path / "out", options=theirs, workers=1)
        return wait(work)

    monkeypatch.setattr(work_folder.WorkFolder, "_exclusive", finish_another)
    listener = Listener()
    refused = pytest.raises(CorpusError, match="another prepared corpus")
    with refused if is_other else contextlib.nullcontext():
        prepare(make_corpus(), tmp_path / "out", options=SMALL, workers=1, progress=listener)
    assert is_other or "Unchanged" in listener.lines
    assert PreparedCorpus.open(tmp_path / "out").info["options"]["bpe_merges"] == theirs.bpe_merges
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def die(job: object) -> None:
    os._exit(9)


def test_two_at_once_in_one_folder_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_folder, "PATIENCE_SECONDS", 0.1)
    with (
        work_folder.WorkFolder(tmp_path / "out", "another").opened(),
        pytest.raises(CorpusError, match=rf"process {os.getpid()} on .* is preparing"),
    ):
        prepare(make_corpus(), tmp_path / "out", options=SMALL, workers=1)
    prepare(make_corpus(), tmp_path / "out", options=SMALL, workers=1)
