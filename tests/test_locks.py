"""Locks: who holds them, who is refused, and what killed processes leave behind."""

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
from jtrans.locks import check_names_are_free, exclusive


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
        from jtrans.locks import exclusive
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


@pytest.mark.parametrize("name", ["lock", "lock.json"])
@pytest.mark.parametrize("content", ["mine", '{"packages": []}', "[1, 2]"])
def test_a_file_of_the_user_is_no_lock(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(JtransError, match="is in the way") as caught:
        check_names_are_free(tmp_path / "lock.json")
    assert caught.value.exit_code == 2 and name in caught.value.message
    assert (tmp_path / name).read_text(encoding="utf-8") == content
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("stale", [OTHER_HOST, "", "{", "\0\0\0", '{"host": "a", "pi'])
def test_what_a_lost_holder_left_is_taken(stale: str, tmp_path: Path) -> None:
    (tmp_path / "lock.json").write_text(stale, encoding="utf-8")
    (tmp_path / "lock").touch()
    check_names_are_free(tmp_path / "lock.json")
    with exclusive(tmp_path / "lock.json", busy):
        check_names_are_free(tmp_path / "lock.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.sample(1)
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
        from jtrans.locks import exclusive
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
        from jtrans.locks import exclusive
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


def test_a_folder_that_takes_no_files_is_not_taken_for_a_lock_that_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def without_creation(path: Any, flags: int, *more: Any, **options: Any) -> int:
        if flags & os.O_CREAT:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return opened(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", without_creation)  # as in /proc
    with pytest.raises(JtransError) as caught, exclusive(tmp_path / "lock.json", busy):
        pass
    assert caught.value.message == f"no file can be created in {tmp_path}"


def unsupported(number: int) -> Any:
    def flock(*_arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    return flock
