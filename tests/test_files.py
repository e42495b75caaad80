"""Files written whole, their digests, and what the operating system refuses."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from jtrans.data import scratch
from jtrans.errors import JtransError, WorkError
from jtrans.files import (
    disk_errors,
    file_digest,
    lines_digest,
    read_json,
    read_lines,
    text_digest,
    whole_file,
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
        (PermissionError(errno.EACCES, "Permission denied"), "disk.read-only", 2),
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


def test_a_file_system_without_writing_is_no_question_of_permission() -> None:
    with pytest.raises(JtransError, match="here: its file system is read-only"), disk_errors(PLACE):
        raise OSError(errno.EROFS, "Read-only file system")


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
    with (
        pytest.raises(JtransError, match=f"{tmp_path / 'file'} is not a folder"),
        disk_errors(place),
    ):
        place.mkdir(parents=True)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a file system without new files")
def test_a_folder_in_which_nothing_can_be_created_is_named() -> None:
    for make, place in (
        (whole_folder, Path("/proc/run")),
        (whole_folder, Path("/proc/new/run")),
        (whole_file, Path("/proc/file")),
    ):
        with (
            pytest.raises(JtransError, match="no file can be created in /proc"),
            make(place),
        ):
            pass


def test_a_link_stays_one_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link, target = tmp_path / "link", tmp_path / "disk" / "target"
    link.symlink_to(Path("disk", "target"))
    for text in ("new", "changed"):  # the target is not there at first
        with whole_file(link) as temporary:
            assert temporary.parent == target.parent  # on its disk, which a rename cannot leave
            temporary.write_text(text, encoding="utf-8")
        assert link.is_symlink() and target.read_text(encoding="utf-8") == text
    with pytest.raises(ZeroDivisionError), whole_file(link) as temporary:
        temporary.write_text(f"{1 / 0}", encoding="utf-8")
    assert [path.name for path in target.parent.iterdir()] == ["target"]
    assert target.read_text(encoding="utf-8") == "changed"


def test_a_linked_folder_is_replaced_where_it_is(tmp_path: Path) -> None:
    target = tmp_path / "disk" / "target"
    target.mkdir(parents=True)
    (target / "old").touch()
    (tmp_path / "link").symlink_to(target)
    with whole_folder(tmp_path / "link") as temporary:
        (temporary / "new").touch()
    assert (tmp_path / "link").is_symlink()
    assert [path.name for path in target.iterdir()] == ["new"]


@pytest.mark.parametrize("make", [whole_file, whole_folder])
def test_links_that_lead_nowhere_are_refused(make: Any, tmp_path: Path) -> None:
    (tmp_path / "unmounted").symlink_to(tmp_path / "disk" / "target")
    (tmp_path / "loop").symlink_to("loop")
    for name, said in (("unmounted", "there is no folder"), ("loop", "too many levels")):
        with pytest.raises(JtransError, match=said), make(tmp_path / name):
            pass
        assert (tmp_path / name).is_symlink()


def test_a_folder_that_could_not_be_filled_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(JtransError), whole_folder(tmp_path / "new") as folder:
        (folder / "half").write_text("x", encoding="utf-8")
        raise RustError("I/O error: No space left on device (os error 28)")
    assert list(tmp_path.iterdir()) == []


def test_the_working_directory_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path / "inside")
    for place in (Path(), tmp_path):
        with pytest.raises(JtransError, match="this is the working directory"), whole_folder(place):
            pass
    assert Path.cwd() == tmp_path / "inside"


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


@pytest.mark.parametrize("text", ["{", '{"a": "\xff"}', "[" * 100_000, "9" * 5000])
def test_a_file_that_is_no_json_that_can_be_read_is_damaged(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text, encoding="latin-1")
    with pytest.raises(JtransError, match=r"a\.json is damaged: not valid JSON") as caught:
        read_json(tmp_path / "a.json")
    assert caught.value.kind == "file.damaged"


def test_digests_of_lines_text_and_file_agree(tmp_path: Path) -> None:
    write_lines(tmp_path / "lines.txt", LINES)
    text = "".join(f"{line}\n" for line in LINES)
    assert lines_digest(iter(LINES)) == text_digest(text) == file_digest(tmp_path / "lines.txt")
    assert text_digest("abc").startswith("ba7816bf")


def test_a_folder_that_must_not_be_replaced_stays(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with whole_folder(tmp_path / "empty", replaces=False) as folder:
        (folder / "new").touch()
    with (
        pytest.raises(JtransError),
        whole_folder(tmp_path / "empty", replaces=False) as folder,
    ):
        (folder / "newer").touch()
    assert [path.name for path in (tmp_path / "empty").iterdir()] == ["new"]
    assert len(list(tmp_path.iterdir())) == 1


def test_an_old_folder_that_cannot_be_deleted_is_replaced_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lock").touch()
    unlink = os.unlink

    def as_on_nfs(path: Any, **options: Any) -> None:
        if Path(path).name != "lock":
            unlink(path, **options)  # an open file stays there under another name

    monkeypatch.setattr(os, "unlink", as_on_nfs)
    with whole_folder(tmp_path / "run") as folder:
        (folder / "new").touch()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["new"]
    assert "could not be deleted" in caplog.text


def test_a_full_folder_for_temporary_files_is_named_with_its_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(WorkError) as other, disk_errors(PLACE):
        patch.setattr(tempfile, "tempdir", None)
        patch.setattr(tempfile, "gettempdir", lambda: pytest.fail("it writes to find a folder"))
        full()
    assert "choose another folder" in str(other.value.hint)
    monkeypatch.setattr(scratch, "IN_MEMORY", 0)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(WorkError, match="the disk is full") as caught:
        scratch.scratch_zeros(10, "int32")
    assert "TMPDIR" in str(caught.value.hint)


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
    for name in ("rename", "replace"):
        monkeypatch.setattr(Path, name, noted_rename)
    with whole_folder(tmp_path / "new") as folder:
        (folder / "weights").write_bytes(b"x")
        temporary = folder.name
    assert events == ["weights", temporary, "rename new", tmp_path.name]
    events.clear()
    with whole_file(tmp_path / "one") as file:
        file.write_bytes(b"x")
    assert events == [file.name, "rename one", tmp_path.name]
