"""Reading aligned line files, and refusing what is no aligned text."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jtrans.corpora.formats.plain import read_pair
from jtrans.corpora.lines import read_line_file
from jtrans.corpora.own_files import FORMATS, OwnFiles, name_test_splits, read_text
from jtrans.errors import EXIT_BAD_INPUT, CorpusError


def write_pair(folder: Path, name: str, source: bytes, target: bytes) -> str:
    (folder / f"{name}.de").write_bytes(source)
    (folder / f"{name}.en").write_bytes(target)
    return str(folder / name)


def test_line_i_of_one_side_belongs_to_line_i_of_the_other(tmp_path: Path) -> None:
    prefix = write_pair(tmp_path, "train", "Ja.\nTür zu.\n".encode(), b"Yes.\nShut it.\n")
    text = read_pair(prefix, ("de", "en"))
    assert list(text.source) == ["Ja.", "Tür zu."]
    assert list(text.target) == ["Yes.", "Shut it."]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\n\nb\n\n", ["a", "", "b", ""]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"\xef\xbb\xbfa\nb\n", ["a", "b"]),
        (b"", []),
        ("a\u2028b\nc\u0085d\x0be\x1cf\x0cg\n".encode(), ["a\u2028b", "c\u0085d\x0be\x1cf\x0cg"]),
        (b"a\rb\n", ["a\rb"]),
    ],
)
def test_lines_end_at_line_feeds_only(tmp_path: Path, data: bytes, lines: list[str]) -> None:
    path = tmp_path / "text.de"
    path.write_bytes(data)
    assert read_line_file(path) == lines


LINE = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\x00\ufeff"))


@settings(deadline=None)
@given(st.lists(LINE, max_size=20), st.booleans())
def test_written_lines_are_read_back_plain_or_packed(
    tmp_path_factory: pytest.TempPathFactory, lines: Any, packed: Any
) -> None:
    path = tmp_path_factory.mktemp("lines") / ("text.de.gz" if packed else "text.de")
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    assert read_line_file(path) == lines


def test_a_packed_file_is_found_by_the_same_prefix(tmp_path: Path) -> None:
    prefix = write_pair(tmp_path, "train", b"", b"Yes.\n")
    (tmp_path / "train.de").unlink()
    (tmp_path / "train.de.gz").write_bytes(gzip.compress(b"Ja.\n"))
    assert list(read_pair(prefix, ("de", "en")).source) == ["Ja."]


def test_unequal_line_counts_name_both_files_and_counts(tmp_path: Path) -> None:
    prefix = write_pair(tmp_path, "train", b"a\nb\nc\n", b"x\ny\n")
    with pytest.raises(CorpusError) as caught:
        read_pair(prefix, ("de", "en"))
    for part in (f"{prefix}.de has 3 lines", f"{prefix}.en has 2"):
        assert part in caught.value.message
    assert caught.value.exit_code == EXIT_BAD_INPUT


@pytest.mark.parametrize(
    ("data", "kind", "part"),
    [
        (b"", "corpus.empty", "are empty"),
        (b"good\nna\xefve\n", "corpus.not-utf8", "byte 0xef in line 2"),
        ("Grüße\n".encode("utf-16"), "corpus.utf16", "is UTF-16"),
        ("Tag\n".encode("utf-16-be"), "corpus.binary", "zero byte in line 1"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "corpus.binary", "binary"),
    ],
)
def test_files_that_are_no_text_are_refused(
    tmp_path: Path, data: Any, kind: Any, part: str
) -> None:
    prefix = write_pair(tmp_path, "train", data, data)
    with pytest.raises(CorpusError) as caught:
        read_pair(prefix, ("de", "en"))
    assert caught.value.kind == kind
    assert part in caught.value.message
    assert "train.de" in caught.value.message
    assert caught.value.exit_code == EXIT_BAD_INPUT
    assert caught.value.hint


@pytest.mark.parametrize(
    "data", [b"no gzip", gzip.compress(b"Ja.\n" * 1000, mtime=0)[:-9], b"\x1f\x8b\x08"]
)
def test_a_damaged_gzip_file_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "train.de.gz"
    path.write_bytes(data)
    with pytest.raises(CorpusError, match="not a complete gzip file"):
        read_line_file(path)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "train.de").mkdir()
    with pytest.raises(CorpusError, match="is a folder"):
        read_line_file(tmp_path / "train.de")


def test_a_missing_file_suggests_the_nearest_prefix(tmp_path: Path) -> None:
    write_pair(tmp_path, "train", b"a\n", b"b\n")
    with pytest.raises(
        CorpusError, match=r"no such file: .*trian\.de \(nor .*trian\.de\.gz, "
    ) as caught:
        read_pair(str(tmp_path / "trian"), ("de", "en"))
    assert caught.value.hint == f"did you mean {tmp_path / 'train'}?"


def test_a_prefix_given_with_its_language_is_explained(tmp_path: Path) -> None:
    prefix = write_pair(tmp_path, "train", b"a\n", b"b\n")
    with pytest.raises(CorpusError) as caught:
        read_pair(f"{prefix}.de", ("de", "en"))
    assert caught.value.hint == f"name the file without its language: {prefix}"


@pytest.mark.parametrize("given", ["va.de.gz", "va.de", "va.en.xz"])
@pytest.mark.parametrize("packing", ["", ".gz"])
def test_a_language_is_explained_however_the_file_is_packed(
    tmp_path: Path, given: str, packing: str
) -> None:
    for language in ("de", "en"):
        (tmp_path / f"va.{language}{packing}").touch()
    with pytest.raises(CorpusError) as caught:
        read_pair(str(tmp_path / given), ("de", "en"))
    assert caught.value.hint == f"name the file without its language: {tmp_path / 'va'}"


@pytest.mark.parametrize("with_references", [True, False])
def test_a_single_numbered_reference_is_explained(tmp_path: Path, with_references: bool) -> None:
    for name in ("t1.de", "t1.0.en"):
        (tmp_path / name).touch()
    with pytest.raises(CorpusError, match=r"no such file: .*t1\.en ") as caught:
        read_pair(str(tmp_path / "t1"), ("de", "en"), with_references=with_references)
    assert str(caught.value.hint).endswith(
        f"t1.0.en is the first of several references; a single one is named {tmp_path / 't1.en'}"
    )


def test_references_of_joined_files_follow_each_other(tmp_path: Path) -> None:
    for name in ("a", "b"):
        for ending in ("de", "0.en", "1.en"):
            (tmp_path / f"{name}.{ending}").write_text(f"{name} {ending}\n", encoding="utf-8")
    files = OwnFiles([], valid=[str(tmp_path / "a"), str(tmp_path / "b")])
    text = files.read("mine", ("de", "en")).splits["valid"]
    expected = [["a 0.en", "b 0.en"], ["a 1.en", "b 1.en"]]
    assert [list(lines) for lines in text.references] == expected
    assert list(text.target) == expected[0]


@pytest.mark.parametrize(
    ("numbers", "missing"), [((0, 1, 3), "mine.2.en"), ((1,), "mine.0.en"), ((0, 2), "mine.1.en")]
)
def test_a_gap_in_the_numbers_of_references_is_refused(
    numbers: tuple[int, ...], missing: str, tmp_path: Path
) -> None:
    prefix = tmp_path / "mine"
    for ending in ("de", *(f"{number}.en" for number in numbers)):
        Path(f"{prefix}.{ending}").write_text("a\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=re.escape(f"but {prefix.with_name(missing)} is not")):
        read_pair(str(prefix), ("de", "en"), with_references=True)


def test_no_prefix_is_suggested_that_lacks_a_side(tmp_path: Path) -> None:
    for name in ("train1.de", "train2.en", "train33.de", "train33.0.en"):
        (tmp_path / name).touch()
    with pytest.raises(CorpusError) as caught:
        read_pair(str(tmp_path / "train"), ("de", "en"))
    assert caught.value.hint == f"did you mean {tmp_path / 'train33'}?"


@pytest.mark.parametrize("given", ["tt.tsv", "t.tsv.gz"])
def test_a_missing_file_of_both_sides_suggests_the_nearest_name(tmp_path: Path, given: str) -> None:
    (tmp_path / "t.tsv").write_bytes(b"a\tb\n")
    with pytest.raises(CorpusError, match=rf"(?m)no such file: .*/{given}$") as caught:
        read_text(str(tmp_path / given), ("de", "en"))
    assert caught.value.hint == f"did you mean {tmp_path / 't.tsv'}?"


def test_a_prefix_may_end_like_a_format(tmp_path: Path) -> None:
    prefix = write_pair(tmp_path, "x.tsv", b"a\n", b"b\n")
    assert list(read_text(prefix, ("de", "en")).source) == ["a"]


def test_a_format_may_be_written_in_capitals(tmp_path: Path) -> None:
    (tmp_path / "X.TSV").write_bytes(b"a\tb\n")
    assert list(read_text(str(tmp_path / "X.TSV"), ("de", "en")).target) == ["b"]
    assert name_test_splits(["X.TSV", "Y.JSONL"]) == ["X", "Y"]


@pytest.mark.parametrize("name", ["x.csv", "c.json.gz", "s.sgm"])
def test_a_file_of_an_unknown_format_gets_those_that_are_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"a")
    with pytest.raises(CorpusError) as caught:
        read_pair(str(tmp_path / name), ("de", "en"))
    hint = str(caught.value.hint)
    assert all(ending in hint for ending in FORMATS) and "without its language" not in hint
    assert ("the catalogue only" in hint) == (name == "s.sgm")


@pytest.mark.parametrize("name", ["u.tsv.bz2", "train.zip", "train.tar.gz", "z.txz", "z.tar.zst"])
def test_a_packed_file_that_is_not_read_is_to_be_unpacked(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"a")
    with pytest.raises(CorpusError) as caught:
        read_pair(str(tmp_path / name), ("de", "en"))
    assert str(caught.value.hint) == "unpack it first, or compress it as .gz, .xz, .zst"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError) as caught:
        read_pair(str(tmp_path / "nowhere" / "train"), ("de", "en"))
    assert caught.value.hint == f"there is no folder {tmp_path / 'nowhere'}"


def test_several_training_prefixes_are_put_one_after_the_other(tmp_path: Path) -> None:
    first = write_pair(tmp_path, "first", b"a\n", b"1\n")
    second = write_pair(tmp_path, "second", b"b\nc\n", b"2\n3\n")
    corpus = OwnFiles([second, first], [first], [second]).read("mine", ("de", "en"))
    assert list(corpus.splits) == ["train", "valid", "test"]
    assert list(corpus.splits["train"].source) == ["b", "c", "a"]
    assert list(corpus.splits["train"].target) == ["2", "3", "1"]


@pytest.mark.parametrize(
    ("prefixes", "names"),
    [
        ([], []),
        (["corpus/newstest2014"], ["test"]),
        (["a/newstest2014", "a/newstest2015"], ["newstest2014", "newstest2015"]),
        (["a/test", "b/test"], ["test", "test2"]),
        (["a/valid", "a/test"], ["test", "test2"]),
        (["a/news", "a/news.tok"], ["test", "test2"]),
        (["a/news.0", "a/news"], ["test", "test2"]),
        (["a/news.0", "a/news.1"], ["news.0", "news.1"]),
        (["a/news", "a/News"], ["test", "test2"]),
        (["a/f\u00fcr", "b/fu\u0308r"], ["test", "test2"]),
        (["a/valid.tok", "a/news"], ["test", "test2"]),
        (["a/Train", "a/news"], ["test", "test2"]),
    ],
)
def test_test_splits_are_named_after_their_files(prefixes: Any, names: Any) -> None:
    assert name_test_splits(prefixes) == names
