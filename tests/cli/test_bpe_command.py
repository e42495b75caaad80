"""`jtrans bpe`: the same bytes as the subword-nmt commands."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from plugins.command_line import Jtrans

GERMAN = "das alte  haus am meer \r\n\nund das neue haus\u2028am see\ndie häuser am see a@@ </w>"
ENGLISH = "the old house at the sea\t\nand the new house\x85by the lake\n  the houses \n"


@pytest.fixture
def texts(tmp_path: Path) -> tuple[Path, Path]:
    """Write two small texts with everything that is odd about spaces and line ends."""
    german, english = tmp_path / "text.de", tmp_path / "text.en"
    german.write_bytes(GERMAN.encode())
    english.write_bytes(ENGLISH.encode())
    return german, english


def subword_nmt(*arguments: object, stdin: bytes = b"") -> bytes:
    """Run the library's own command and return its standard output."""
    code = "from subword_nmt.subword_nmt import main; main()"
    command = [sys.executable, "-X", "utf8", "-c", code, *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, check=True).stdout


@pytest.mark.parametrize("min_frequency", [2, 3])
def test_learning_from_one_text_writes_the_library_s_bytes(
    jtrans: Jtrans, tmp_path: Path, texts: tuple[Path, Path], min_frequency: int
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    files = ("--input", texts[0], "--output", ours)
    jtrans("bpe", "learn", "--merges", 30, *files, "--min-frequency", min_frequency)
    subword_nmt("learn-bpe", "-s", 30, "-i", texts[0], "-o", theirs,
                "--min-frequency", min_frequency)  # fmt: skip
    assert ours.read_bytes() == theirs.read_bytes()


def test_learning_from_two_texts_writes_the_library_s_joint_bytes(
    jtrans: Jtrans, tmp_path: Path, texts: tuple[Path, Path]
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    files = ("--input", texts[0], "--input", texts[1], "--output", ours)
    jtrans("bpe", "learn", "--merges", 25, *files)
    subword_nmt("learn-joint-bpe-and-vocab", "-s", 25, "-i", *texts, "-o", theirs,
                "--write-vocabulary", tmp_path / "v1", tmp_path / "v2")  # fmt: skip
    assert ours.read_bytes() == theirs.read_bytes()


def test_applying_writes_the_library_s_bytes(
    jtrans: Jtrans, tmp_path: Path, texts: tuple[Path, Path]
) -> None:
    codes = tmp_path / "codes"
    jtrans("bpe", "learn", "--merges", 20, "--input", texts[0], "--output", codes)
    for text in texts:
        ours = jtrans("bpe", "apply", "--codes", codes, stdin=text.read_bytes()).out.encode()
        assert ours == subword_nmt("apply-bpe", "-c", codes, stdin=text.read_bytes())


def test_learning_fewer_merges_than_asked_for_is_said(
    jtrans: Jtrans, tmp_path: Path, texts: tuple[Path, Path]
) -> None:
    files = ("--input", texts[0], "--output", tmp_path / "codes")
    result = jtrans("bpe", "learn", "--merges", 9999, *files)
    assert "warning: only 7 of 9,999 merges learned" in result.err
    assert "Next: jtrans bpe apply --codes" in result.err
    assert result.out == ""


def test_codes_replace_neither_their_text_nor_a_folder(
    jtrans: Jtrans, tmp_path: Path, texts: tuple[Path, Path]
) -> None:
    inputs = [word for text in texts for word in ("--input", text)]
    for output in (texts[1], tmp_path):
        result = jtrans("bpe", "learn", "--merges", 5, *inputs, "--output", output)
        assert result.code == 2 and "hint: " in result.err
    assert texts[1].read_bytes() == ENGLISH.encode()


def test_codes_are_written_into_a_pipe(
    jtrans: Jtrans, tmp_path: Path, texts: tuple[Path, Path]
) -> None:
    """A link, such as /dev/stdout, is not replaced by a file."""
    link, learn = tmp_path / "link", ("bpe", "learn", "--merges", 5, "--input", texts[0])
    link.symlink_to(tmp_path / "codes")
    assert jtrans(*learn, "--output", link).code == 0 and link.is_symlink()
    printed = jtrans(*learn, "--output", "-")
    assert printed.out == link.read_text(encoding="utf-8")
    assert not Path("-").exists() and "Next:" not in printed.err


@pytest.mark.parametrize(
    ("ending", "packing"), [("gz", "gzip"), ("xz", "lzma"), ("zst", "zstandard")]
)
def test_packed_text_gives_the_merges_of_plain_text(
    jtrans: Jtrans, tmp_path: Path, texts: tuple[Path, Path], ending: str, packing: str
) -> None:
    packed = tmp_path / f"packed.{ending}"
    packed.write_bytes(importlib.import_module(packing).compress(texts[0].read_bytes()))
    for text in (texts[0], packed):
        codes = text.with_suffix(".codes")
        learned = jtrans("bpe", "learn", "--merges", 5, "--input", text, "--output", codes)
        assert learned.code == 0
        command = learned.err.rpartition("Next: ")[2]
        subprocess.run(["bash", "-c", f"jtrans() {{ cat; }}; {command}"], check=True)
    result = packed.with_suffix(".bpe")
    assert result.read_bytes() == texts[0].with_name(f"{texts[0].name}.bpe").read_bytes()
    assert packed.with_suffix(".codes").read_bytes() == texts[0].with_suffix(".codes").read_bytes()


@pytest.mark.parametrize(
    ("name", "packing", "said"),
    [
        ("text.gz", "gzip", "is not a complete gzip file: Compressed file ended"),
        ("text.zst", "zstandard", "is not a complete zst file: it is truncated"),
        ("text.xz", "lzma", "is not a complete xz file: Compressed file ended"),
        ("text.bz2", "bz2", "hint: unpack it first"),
    ],
)
def test_a_damaged_or_unknown_packing_is_named(
    jtrans: Jtrans, tmp_path: Path, texts: tuple[Path, Path], name: str, packing: str, said: str
) -> None:
    packed = importlib.import_module(packing).compress(texts[0].read_bytes())
    (tmp_path / name).write_bytes(packed[:-5])
    line = ("bpe", "learn", "--merges", 5, "--input", tmp_path / name, "--output", "codes")
    result = jtrans(*line)
    assert result.code == 2 and said in result.err and not Path("codes").exists()


@pytest.mark.parametrize("name", ["text", "text.gz", "text.xz"])
@pytest.mark.parametrize("content", [None, b"H\xe4user\n", "haus haus".encode("utf-16"), b"", b"a"])
def test_unusable_input_is_refused_and_nothing_is_written(
    jtrans: Jtrans, tmp_path: Path, content: bytes | None, name: str
) -> None:
    text, codes = tmp_path / name, tmp_path / "codes"
    if content is not None:
        text.write_bytes(content)
    result = jtrans("bpe", "learn", "--merges", 5, "--input", text, "--output", codes)
    assert result.code == 2
    assert "hint: " in result.err
    assert not codes.exists()


@pytest.mark.parametrize(
    ("text", "options", "named"),
    [("abc xyz", [], "--min-frequency"), ("abab abab", ["--min-frequency", 9], "--min-frequency"),
     ("a b c", [], "--input")],
)  # fmt: skip
def test_hints_name_this_command_s_own_options(
    jtrans: Jtrans, tmp_path: Path, text: str, options: list[object], named: str
) -> None:
    (tmp_path / "text").write_text(text, encoding="utf-8")
    where = ("--input", tmp_path / "text", "--output", tmp_path / "codes")
    result = jtrans("bpe", "learn", "--merges", 5, *where, *options)
    hint = result.err.partition("hint: ")[2]
    assert named in hint
    assert "--bpe" not in hint


@pytest.mark.parametrize("content", [None, b"this is no codes file\n", b"\xff\xfe", b""])
def test_unusable_codes_are_refused(jtrans: Jtrans, tmp_path: Path, content: bytes | None) -> None:
    codes = tmp_path / "codes"
    if content is not None:
        codes.write_bytes(content)
    result = jtrans("bpe", "apply", "--codes", codes, stdin=b"haus\n")
    assert result.code == 2
    assert "hint: " in result.err


def test_applying_to_text_that_is_not_utf8_names_the_line(
    jtrans: Jtrans, tmp_path: Path, texts: tuple[Path, Path]
) -> None:
    codes = tmp_path / "codes"
    jtrans("bpe", "learn", "--merges", 5, "--input", texts[0], "--output", codes)
    result = jtrans("bpe", "apply", "--codes", codes, stdin=b"haus\nh\xe4user\n")
    assert result.err.startswith("error: standard input is not UTF-8")
    assert "(line 2)" in result.err


@pytest.mark.parametrize("command", [[], ["learn"], ["apply"]])
def test_help_shows_two_examples(jtrans: Jtrans, command: list[str]) -> None:
    assert jtrans("bpe", *command, "--help").out.count("jtrans bpe ") >= 2
