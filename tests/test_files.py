"""What the operating system refuses, said as a user can act on it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from jtrans.errors import JtransError
from jtrans.files import disk_errors, whole_folder

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
