"""Archives: what is wanted comes out, what is dangerous does not."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from jtrans.corpora.download import unpack as unpacking
from jtrans.corpora.download.unpack import is_archive, unpack
from jtrans.errors import EXIT_BAD_INPUT, CorpusError


def tar_with(path: Path, *members: tarfile.TarInfo, data: bytes = b"text\n") -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            if member.isreg():
                member.size = len(data)
            archive.addfile(member, io.BytesIO(data) if member.isreg() else None)
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def zip_with(path: Path, files: dict[str, bytes], mode: int = 0) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return path


@pytest.mark.parametrize("mode", ["w:gz", "w:xz", "w:bz2", "w"])
def test_a_tar_archive_is_unpacked_with_its_folders(tmp_path: Path, mode: Any) -> None:
    path = tmp_path / "data.tar"
    with tarfile.open(path, mode) as archive:
        for info in (member("./", tarfile.DIRTYPE), member("de-en", tarfile.DIRTYPE)):
            archive.addfile(info)
        info = member("./de-en/train.de")
        info.size = 4
        archive.addfile(info, io.BytesIO(b"Ja.\n"))
    unpack(path, tmp_path / "out")
    assert (tmp_path / "out/de-en/train.de").read_bytes() == b"Ja.\n"


def test_a_zip_archive_is_unpacked(tmp_path: Path) -> None:
    path = zip_with(tmp_path / "a.zip", {"x/": b"", "x/deu.txt": b"Hi\tHallo\n"})
    unpack(path, tmp_path / "out")
    assert (tmp_path / "out/x/deu.txt").read_bytes() == b"Hi\tHallo\n"


def test_only_what_is_wanted_is_unpacked(tmp_path: Path, tar: Any) -> None:
    path = tar(tmp_path / "a.tgz", {"a/train.de": b"1\n", "a/train.fr": b"2\n"})
    unpack(path, tmp_path / "out", is_needed=lambda name: name.endswith(".de"))
    assert [p.name for p in (tmp_path / "out/a").iterdir()] == ["train.de"]


@pytest.mark.parametrize(
    "name", ["../evil", "a/../../evil", "/tmp/evil", "..\\evil", "c:\\evil", "C:/evil"]
)
def test_names_outside_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    for archive in (
        tar_with(tmp_path / "a.tgz", member("good"), member(name)),
        zip_with(tmp_path / "a.zip", {"good": b"1", name: b"2"}),
    ):
        with pytest.raises(CorpusError, match="outside the folder") as caught:
            unpack(archive, tmp_path / "deep/out")
        assert caught.value.exit_code == EXIT_BAD_INPUT
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.tgz", "a.zip", "deep"]


@pytest.mark.parametrize(
    "bad",
    [
        member("link", tarfile.SYMTYPE, "../../etc/passwd"),
        member("link", tarfile.SYMTYPE, "good"),
        member("link", tarfile.LNKTYPE, "good"),
        member("pipe", tarfile.FIFOTYPE),
        member("disk", tarfile.BLKTYPE),
    ],
    ids=["symlink out", "symlink", "hard link", "fifo", "device"],
)
def test_links_and_devices_are_refused(tmp_path: Path, bad: tarfile.TarInfo) -> None:
    with pytest.raises(CorpusError, match="link or a device"):
        unpack(tar_with(tmp_path / "a.tgz", member("good"), bad), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_link_in_a_zip_file_is_refused(tmp_path: Path) -> None:
    path = zip_with(tmp_path / "a.zip", {"link": b"/etc/passwd"}, mode=stat.S_IFLNK | 0o777)
    with pytest.raises(CorpusError, match="link or a device"):
        unpack(path, tmp_path / "out")


def test_a_file_behind_a_link_of_the_archive_cannot_be_written(tmp_path: Path) -> None:
    path = tar_with(tmp_path / "a.tgz", member("d", tarfile.SYMTYPE, ".."), member("d/evil"))
    unpack(path, tmp_path / "deep/out", is_needed=lambda name: name.endswith("evil"))
    assert list(tmp_path.rglob("evil")) == [tmp_path / "deep/out/d/evil"]


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_bomb_is_stopped_by_its_size(
    tmp_path: Path, kind: str, tar: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    zeros = {"zeros": bytes(3_000_000)}
    path = tar(tmp_path / "a.tgz", zeros) if kind == "tar" else zip_with(tmp_path / "a.zip", zeros)
    monkeypatch.setattr(unpacking, "FREE_BYTES", 1_000_000)
    with pytest.raises(CorpusError, match="far more than"):
        unpack(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(unpacking, "FREE_BYTES", 3_000_000)
    unpack(path, tmp_path / "out")


def test_too_many_files_are_refused(
    tmp_path: Path, tar: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "MOST_FILES", 10)
    path = tar(tmp_path / "a.tgz", {str(i): b"" for i in range(11)})
    with pytest.raises(CorpusError, match="more than 10 files"):
        unpack(path, tmp_path / "out")


@pytest.mark.parametrize(
    "names", [["a", "a"], ["a", "a/b"], ["A/b", "A/b"]], ids=["twice", "below a file", "nested"]
)
def test_a_name_that_comes_twice_is_refused(tmp_path: Path, names: list[str]) -> None:
    path = tar_with(tmp_path / "a.tgz", *[member(name) for name in names])
    with pytest.raises(CorpusError, match="twice"):
        unpack(path, tmp_path / "out")


@pytest.mark.parametrize("cut", [0.5, 0.95])
@pytest.mark.parametrize("kind", ["tgz", "zip"])
def test_half_an_archive_is_refused_and_leaves_nothing(
    tmp_path: Path, tar: Any, cut: float, kind: str
) -> None:
    data = {"a": bytes(range(256)) * 999}
    path = tmp_path / f"a.{kind}"
    whole = tar(path, data) if kind == "tgz" else zip_with(path, data)
    whole.write_bytes(whole.read_bytes()[: int(whole.stat().st_size * cut)])
    with pytest.raises(CorpusError, match="cannot be unpacked"):
        unpack(path, tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    for name in ("a.tgz", "a.zip"):
        (tmp_path / name).write_bytes(b"<html>404</html>" * 50)
        with pytest.raises(CorpusError, match="cannot be unpacked") as caught:
            unpack(tmp_path / name, tmp_path / "out")
        assert "\n" not in caught.value.message


def test_archives_are_known_by_their_names() -> None:
    assert all(map(is_archive, ["de-en.tgz", "UNv1.0.en-zh.tar.gz", "A.ZIP", "giga.tar"]))
    assert not any(map(is_archive, ["train.en", "train.de.gz", "a.tmx"]))
