"""Files written whole, their digests and locks, and what the operating system refuses."""

from __future__ import annotations

import datetime
import errno
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from jtrans.errors import JtransError
from jtrans.files import (
    disk_errors,
    exclusive,
    file_digest,
    lines_digest,
    read_lines,
    text_digest,
    whole_folder,
    write_lines,
)

PLACE = Path("here")


class RustError(Exception):
    """As safetensors raises it: the number of the error is only in the text."""


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "disk.full", 1),
        (RustError("I/O error: No space left on device (os error 28)"), "disk.full", 1),
        (OSError(errno.EROFS, "Read-only file system"), "disk.read-only", 2),
        (RustError("I/O error: Permission denied (os error 13)"), "disk.read-only", 2),
        (OSError(errno.EFBIG, "File too large"), "disk.file-size", 1),
        (OSError(errno.EISDIR, "Is a directory"), "disk.not-a-folder", 2),
    ],
)
def test_refusals_to_write_become_advice(error: Exception, kind: str, code: int) -> None:
    with pytest.raises(JtransError) as caught, disk_errors(PLACE):
        raise error
    assert (caught.value.kind, caught.value.exit_code) == (kind, code)
    assert "here" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "error", [OSError(errno.EINTR, "x"), ValueError("x"), JtransError("(os error 28)", kind="own")]
)
def test_other_errors_pass_as_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, disk_errors(PLACE):
        raise error
    assert caught.value is error


def test_the_file_in_the_way_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "run" / "log"
    with pytest.raises(JtransError, match=f"{tmp_path / 'file'} is no folder"), disk_errors(place):
        place.mkdir(parents=True)


def test_a_folder_that_could_not_be_filled_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(JtransError), whole_folder(tmp_path / "new") as folder:
        (folder / "half").write_text("x", encoding="utf-8")
        raise RustError("I/O error: No space left on device (os error 28)")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="permissions of Unix")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_of_a_folder_get_the_permissions_of_new_files(
    tmp_path: Path, umask: int, mode: int
) -> None:
    before = os.umask(umask)
    try:
        with whole_folder(tmp_path / "run") as folder:
            (folder / "weights").touch(mode=0o600)  # as safetensors does
    finally:
        os.umask(before)
    assert (tmp_path / "run" / "weights").stat().st_mode & 0o777 == mode


def test_a_file_that_may_not_be_read_is_not_called_unwritable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "weights"
    path.touch()
    monkeypatch.setattr(os, "access", lambda _, mode: mode != os.R_OK)  # root may read all
    with pytest.raises(JtransError, match="no permission to read") as caught, disk_errors(path):
        raise PermissionError(errno.EACCES, "denied", str(path))
    assert caught.value.kind == "disk.unreadable"


def test_a_full_disk_is_named_by_the_outermost_path(tmp_path: Path) -> None:
    with (
        pytest.raises(JtransError, match="cannot write outer"),
        disk_errors(Path("outer")),
        whole_folder(tmp_path / "new"),
        disk_errors(Path("inner")),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")


# Lines and digests


LINES = ["", "a\u2028b", "ü\r", " x"]


def test_lines_come_back_as_they_were_written(tmp_path: Path) -> None:
    write_lines(tmp_path / "lines.txt", iter(LINES))
    assert read_lines(tmp_path / "lines.txt") == LINES


def test_digests_of_lines_text_and_file_agree(tmp_path: Path) -> None:
    write_lines(tmp_path / "lines.txt", LINES)
    text = "".join(f"{line}\n" for line in LINES)
    assert lines_digest(iter(LINES)) == text_digest(text) == file_digest(tmp_path / "lines.txt")
    assert text_digest("abc").startswith("ba7816bf")


# Locks


def busy(owner: str) -> JtransError:
    return JtransError(f"in use by {owner}", kind="busy")


def test_a_held_lock_is_refused_with_its_owner_and_free_afterwards(tmp_path: Path) -> None:
    owner_file = tmp_path / "new" / "lock.json"
    with exclusive(owner_file, busy):
        with pytest.raises(JtransError, match=f"process {os.getpid()} on "):
            exclusive(owner_file, busy).__enter__()
        assert json.loads(owner_file.read_text(encoding="utf-8"))["pid"] == os.getpid()
    with exclusive(owner_file, busy):
        pass
    assert list(owner_file.parent.iterdir()) == []


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    owner_file = tmp_path / "lock.json"
    code = """if True:
        import os, pathlib, signal, sys
        from jtrans.errors import JtransError
        from jtrans.files import exclusive
        with exclusive(pathlib.Path(sys.argv[1]), JtransError):
            os.kill(os.getpid(), signal.SIGTERM)
    """
    subprocess.run([sys.executable, "-c", code, str(owner_file)], check=False)
    assert owner_file.exists()
    with exclusive(owner_file, busy):
        assert json.loads(owner_file.read_text(encoding="utf-8"))["pid"] == os.getpid()
    assert list(tmp_path.iterdir()) == []


OTHER_HOST = '{"host": "elsewhere", "pid": 1}'


def test_a_dead_owner_on_another_host_is_replaced_after_a_while(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    owner_file = tmp_path / "lock.json"
    for seconds in (0.0, 0.2):
        owner_file.write_text(OTHER_HOST, encoding="utf-8")
        with exclusive(owner_file, busy, watch_seconds=seconds):
            assert json.loads(owner_file.read_text(encoding="utf-8"))["pid"] == os.getpid()
    assert caplog.text.count("process 1 on elsewhere") == 1


def test_a_living_owner_on_another_host_is_respected_where_locks_are_not_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner_file = tmp_path / "lock.json"
    with exclusive(owner_file, busy, watch_seconds=4.0):  # renews its file
        (tmp_path / "lock").rename(tmp_path / "unshared")  # as if the lock were not seen
        monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
        with (
            pytest.raises(JtransError, match=f"process {os.getpid()} on "),
            exclusive(owner_file, busy, watch_seconds=4.0),
        ):
            pass
        assert owner_file.exists()


def test_the_owner_of_a_lock_is_named_with_its_command_and_start(tmp_path: Path) -> None:
    with exclusive(tmp_path / "lock.json", busy):
        with pytest.raises(JtransError) as caught, exclusive(tmp_path / "lock.json", busy):
            pass
        assert f"since {datetime.date.today()}" in caught.value.message
        assert Path(sys.argv[0]).name in caught.value.message


@pytest.mark.parametrize("stale", [None, OTHER_HOST, '{"host": "a", "pid": 1, "since": 3}', "{"])
def test_of_many_processes_exactly_one_gets_a_lock_left_behind(
    stale: str | None, tmp_path: Path
) -> None:
    owner_file = tmp_path / "lock.json"
    if stale is not None:
        owner_file.write_text(stale, encoding="utf-8")
        (tmp_path / "lock").touch()
    code = """if True:
        import pathlib, sys
        from jtrans.errors import JtransError
        from jtrans.files import exclusive
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            with exclusive(pathlib.Path(sys.argv[1]), JtransError):
                print("mine", flush=True)
                sys.stdin.readline()
        except JtransError:
            print("busy", flush=True)
    """
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(owner_file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    pipes = [(p.stdin, p.stdout) for p in starters]
    for answer in range(2):  # that they are ready, and what became of them
        for stdin, _ in pipes if answer else ():
            assert stdin
            stdin.write("\n")
            stdin.flush()
        lines = [stdout.readline().strip() for _, stdout in pipes if stdout]
    assert sorted(lines) == ["busy"] * 7 + ["mine"]
    for process in starters:
        process.communicate("\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_that_outlives_the_holder_keeps_no_lock(tmp_path: Path) -> None:
    owner_file = tmp_path / "lock.json"
    code = """if True:
        import os, pathlib, signal, sys, time
        from jtrans.errors import JtransError
        from jtrans.files import exclusive
        with exclusive(pathlib.Path(sys.argv[1]), JtransError):
            child = os.fork()
            if child == 0:
                os.close(1)
                time.sleep(60)
                os._exit(0)
            print(child, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    run = subprocess.run(
        [sys.executable, "-c", code, str(owner_file)], stdout=subprocess.PIPE, check=False
    )
    try:
        with exclusive(owner_file, busy):
            pass
    finally:
        os.kill(int(run.stdout), signal.SIGKILL)


def test_the_lock_of_a_folder_put_in_its_place_is_left_alone(tmp_path: Path) -> None:
    folder, stack = tmp_path / "run", ExitStack()
    with exclusive(folder / "lock.json", busy):
        folder.rename(tmp_path / "old")
        stack.enter_context(exclusive(folder / "lock.json", busy))  # in the new folder
    with stack:
        assert {path.name for path in folder.iterdir()} == {"lock", "lock.json"}
        with pytest.raises(JtransError):
            stack.enter_context(exclusive(folder / "lock.json", busy))


@pytest.mark.filterwarnings("ignore:flock not supported")
def test_without_locks_of_the_system_a_file_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcntl.flock", unsupported(errno.ENOSYS))
    owner_file = tmp_path / "lock.json"
    with exclusive(owner_file, busy), pytest.raises(JtransError, match=str(os.getpid())):
        exclusive(owner_file, busy).__enter__()
    with exclusive(owner_file, busy):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_that_cannot_lock_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcntl.flock", unsupported(errno.ENOLCK))
    with pytest.raises(JtransError) as caught, exclusive(tmp_path / "lock.json", busy):
        pass
    assert caught.value.kind == "disk.no-locks" and str(tmp_path) in caught.value.message


def unsupported(number: int) -> Any:
    def flock(*_arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    return flock


def test_a_folder_that_must_not_be_replaced_stays(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with whole_folder(tmp_path / "empty", replace=False) as folder:
        (folder / "new").touch()
    with (
        pytest.raises(JtransError),
        whole_folder(tmp_path / "empty", replace=False) as folder,
    ):
        (folder / "newer").touch()
    assert [path.name for path in (tmp_path / "empty").iterdir()] == ["new"]
    assert len(list(tmp_path.iterdir())) == 1


def test_what_is_written_is_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    sync, rename = os.fsync, Path.rename

    def noted_sync(handle: int) -> None:
        events.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        sync(handle)

    def noted_rename(self: Path, target: Path) -> Path:
        events.append(f"rename {target.name}")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "rename", noted_rename)
    with whole_folder(tmp_path / "new") as folder:
        (folder / "weights").write_bytes(b"x")
        temporary = folder.name
    assert events == ["weights", temporary, "rename new", tmp_path.name]
