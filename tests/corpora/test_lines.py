"""Lines of any file: what ends a line, what does not, and what is no text at all."""

from __future__ import annotations

import gzip
import lzma
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jtrans.corpora import lines as lines_module
from jtrans.corpora.lines import Chain, LineFile, one_line, read_line_file
from jtrans.errors import CorpusError

TEXT = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\n\r\x00\ufeff"), max_size=8),
    min_size=1,
    max_size=30,
)


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_separators_inside_lines_stay_and_are_counted(tmp_path: Path) -> None:
    text = "a\u2028b\u2028c\nd\x0ce\rf\r\ng\x0bh\u2029i\x85j\x1ck\n"
    file = LineFile(write(tmp_path / "t.de", text.encode()))
    assert file[:] == ["a\u2028b\u2028c", "d\x0ce\rf", "g\x0bh\u2029i\x85j\x1ck"]
    assert file.oddities == {
        "U+2028": 2, "form feed": 1, "carriage return": 1, "vertical tab": 1, "U+2029": 1,
        "U+0085": 1, "U+001C": 1,
    }  # fmt: skip


def test_windows_line_ends_are_nothing_odd(tmp_path: Path) -> None:
    file = LineFile(write(tmp_path / "t.de", b"\xef\xbb\xbfa\r\nb\r\n\r\nc\r"))
    assert (file[:], file.oddities) == (["a", "b", "", "c"], {})


def test_a_file_of_an_old_mac_is_refused_with_the_way_to_convert_it(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="carriage returns") as caught:
        LineFile(write(tmp_path / "t.de", b"a\rb\rc\r"))
    assert "tr" in str(caught.value.hint)


@settings(deadline=None)
@given(text=TEXT, scan=st.integers(1, 40), ends=st.booleans())
def test_reading_in_pieces_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, text: list[str], scan: int, ends: int
) -> None:
    path = tmp_path_factory.mktemp("pieces") / "t.de"
    path.write_bytes(("\n".join(text) + "\n" * ends).encode())
    whole = LineFile(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "SCAN_BYTES", scan)
        patch.setattr(lines_module, "BLOCK_LINES", scan)
        pieces = LineFile(path)
        assert list(pieces) == list(whole)
    expected = text if ends or text[-1] else text[:-1]
    assert pieces[:] == whole[:] == list(whole) == expected
    assert whole[2:7] == expected[2:7] and whole[5:2] == []
    assert pieces.oddities == whole.oddities


def test_a_line_is_found_by_its_number_like_in_a_list(tmp_path: Path) -> None:
    file = LineFile(write(tmp_path / "t.de", "ä\nb\nc\n".encode()))
    assert [file[0], file[-1], file[1:], file[::-1]] == ["ä", "c", ["b", "c"], ["c", "b", "ä"]]
    for index in (3, -4):
        with pytest.raises(IndexError):
            file[index]


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=5))
def test_a_chain_is_its_parts_one_after_the_other(parts: Any) -> None:
    lists = [[str(number) for number in part] for part in parts]
    flat = [line for part in lists for line in part]
    chain = Chain(lists)
    assert (len(chain), list(chain), chain[1:4]) == (len(flat), flat, flat[1:4])
    assert (chain[::2], chain[3:1], chain[:-1]) == (flat[::2], [], flat[:-1])
    assert [chain[-i] for i in range(1, len(flat) + 1)] == flat[::-1]
    with pytest.raises(IndexError):
        chain[len(flat)]


def packed(name: str, data: bytes) -> bytes:
    if name.endswith(".zst"):
        zstandard = pytest.importorskip("zstandard")
        return bytes(zstandard.ZstdCompressor().compress(data))
    return gzip.compress(data) if name.endswith(".gz") else lzma.compress(data)


@pytest.mark.parametrize("name", ["t.de.gz", "t.de.xz", "t.de.zst"])
def test_packed_files_are_read_whole_or_refused(tmp_path: Path, name: str) -> None:
    data = "".join(f"Zeile {i}\n" for i in range(5000)).encode()
    path = write(tmp_path / name, packed(name, data))
    assert read_line_file(path) == data.decode().split("\n")[:-1]
    write(path, packed(name, data) + packed(name, b"mehr\n"))
    assert read_line_file(path)[-1] == "mehr"
    for spoiled in (packed(name, data)[:-20], b"nothing packed"):
        with pytest.raises(CorpusError, match="not a complete"):
            read_line_file(write(path, spoiled))


def test_a_large_packed_file_goes_through_a_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "IN_MEMORY_BYTES", 100)
    text = [f"Zeile {i}" for i in range(300)]
    path = write(tmp_path / "t.de.gz", gzip.compress("\n".join(text).encode()))
    assert LineFile(path)[:] == text


def test_without_a_zstandard_package_the_way_to_get_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("jtrans.files.packed.importlib.import_module", absent)
    with pytest.raises(CorpusError, match="zstandard") as caught:
        read_line_file(write(tmp_path / "t.de.zst", b"x"))
    assert "pip install 'jtrans[zstd]'" in str(caught.value.hint)


def test_an_error_in_a_later_piece_names_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "SCAN_BYTES", 10)
    for bad, kind in ((b"\xff", "corpus.not-utf8"), (b"\0", "corpus.binary")):
        with pytest.raises(CorpusError, match="line 501") as caught:
            LineFile(write(tmp_path / "t.de", b"good\n" * 500 + b"x" + bad + b"\n"))
        assert caught.value.kind == kind


def test_a_file_that_becomes_shorter_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.de"
    path.write_bytes(b"ein Hund\n" * 10_000)
    lines = LineFile(path)
    path.write_bytes(b"ein Hund\n")
    with pytest.raises(CorpusError, match="became shorter while it was read"):
        lines[9_000:]


def test_text_with_line_ends_inside_is_put_on_one_line() -> None:
    assert one_line(" a\nb \n c ") == "a b   c"


@pytest.mark.parametrize("name", ["plain", "packed.gz"])
def test_a_line_without_end_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "SCAN_BYTES", 10)
    monkeypatch.setattr("jtrans.files.text.LONGEST_LINE", 100)
    path = tmp_path / name
    for length, is_usable in ((100, True), (101, False)):
        data = b"first\nsecond\n" + b"x" * length + b"\nlast\n"
        path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        if is_usable:
            assert len(read_line_file(path)) == 4
            continue
        with pytest.raises(CorpusError, match=r"line 3 of .* is longer than") as caught:
            read_line_file(path)
        assert caught.value.where == f"{path}:3"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
def test_a_device_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jtrans.files.text.LONGEST_LINE", 1 << 20)
    with pytest.raises(CorpusError, match="line 1 of /dev/zero is longer than 1 MiB"):
        read_line_file(Path("/dev/zero"))


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_the_command_that_converts_a_file_reads_it_packed_or_not(
    tmp_path: Path, ending: str
) -> None:
    packings: dict[str, Any] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}
    path = tmp_path / f"a file.de{ending}"
    path.write_bytes(packings[ending]("Häuser\n".encode("latin-1")))
    with pytest.raises(CorpusError, match="not UTF-8") as caught:
        LineFile(path)
    hint = str(caught.value.hint)
    command = hint[hint.index("if it is Latin-1: ") + 18 : hint.index(" > NEW")]
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert done.stdout == "Häuser\n".encode()
