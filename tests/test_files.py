"""Files written whole, their digests and locks, and what the operating system refuses."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

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


def test_a_folder_that_could_not_be_filled_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(JtransError), whole_folder(tmp_path / "new") as folder:
        (folder / "half").write_text("x", encoding="utf-8")
        raise RustError("I/O error: No space left on device (os error 28)")
    assert list(tmp_path.iterdir()) == []


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


@pytest.mark.parametrize("respected", [False, True])
def test_an_owner_on_another_host_is_believed_only_where_asked(
    tmp_path: Path, respected: bool
) -> None:
    owner_file = tmp_path / "lock.json"
    owner_file.write_text('{"host": "elsewhere", "pid": 1}', encoding="utf-8")
    refused = pytest.raises(JtransError, match="process 1 on elsewhere")
    with (
        refused if respected else nullcontext(),
        exclusive(owner_file, busy, respect_other_hosts=respected),
    ):
        pass
    assert owner_file.exists() == respected
