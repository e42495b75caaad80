"""`python -m jtrans prepare` as a process: killed, out of disk, on read-only disks, fed rubbish."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from plugins.command_line import Jtrans, run_process, start_process
from plugins.folders import contents
from plugins.sentence_pairs import COLOURS, NOUNS

LANGUAGES = ("de", "en")
SIZES = {"train": 1500, "valid": 40, "test": 40}
COMMAND = ["--train", "corpus/train", "--valid", "corpus/valid", "--test", "corpus/test",
           "--languages", "de-en", "--bpe-merges", "150", "--workers", "2"]  # fmt: skip
KILLS = 20


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write corpus/{train,valid,test}.{de,en}."""
    folder = tmp_path_factory.mktemp("text") / "corpus"
    folder.mkdir()
    draw = random.Random(1)
    for split, size in SIZES.items():
        pairs = []
        for _ in range(size):
            colour, noun, other = (draw.choice(list(some)) for some in (COLOURS, NOUNS, NOUNS))
            number = draw.randrange(100_000)
            pairs.append(
                (
                    f"Der {colour} {noun} Nummer {number} sieht den {other}.",
                    f"The {COLOURS[colour]} {NOUNS[noun]} number {number} sees the {NOUNS[other]}.",
                )
            )
        for side, language in enumerate(LANGUAGES):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8", newline="\n")
    return folder


@pytest.fixture
def place(corpus: Path, tmp_path: Path) -> Path:
    """Make a folder of its own with a copy of the corpus, for a test to work in."""
    shutil.copytree(corpus, tmp_path / "corpus")
    return tmp_path


def start(place: Path, *arguments: str) -> subprocess.Popen[bytes]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    options: dict[str, Any] = {"folder": place, "start_new_session": True, **pipes}
    return start_process("prepare", *COMMAND, *arguments, **options)


def run(place: Path, *arguments: str) -> tuple[int, str]:
    """Run the command to its end; return its exit code and what it said."""
    result = run_process("prepare", *COMMAND, *arguments, folder=place)
    assert not result.out
    return result.code, result.err


@pytest.fixture(scope="module")
def prepared(corpus: Path) -> Path:
    """Prepare the corpus undisturbed."""
    assert run(corpus.parent, "--out", "whole/out")[0] == 0
    return corpus.parent / "whole/out"


@pytest.fixture
def expected(prepared: Path) -> dict[str, bytes]:
    return contents(prepared)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def assert_one_paragraph(said: str, message: str, hint: str) -> None:
    """Check that an error is said in the two lines of the contract, after what went well."""
    lines = [line for line in said.splitlines() if not line.startswith(("Reading ", "warning: "))]
    assert [line.partition(":")[0] for line in lines[-2:]] == ["error", "hint"], said
    assert message in lines[-2] and hint in lines[-1], said
    assert "Traceback" not in said and said.count("error:") == 1
    assert len(said) < 2000


def write(name: str, data: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(data)


def both(split: str, data: bytes) -> Callable[[Path], object]:
    return lambda folder: [(folder / f"{split}.{one}").write_bytes(data) for one in LANGUAGES]


def add_long_line(folder: Path) -> None:
    for language in LANGUAGES:
        with (folder / f"valid.{language}").open("ab") as handle:
            handle.write((b"wort " * 2_000_000 if language == "de" else b"word") + b"\n")


def make_folder(folder: Path) -> None:
    (folder / "train.de").unlink()
    (folder / "train.de").mkdir()


BAD_INPUT: dict[str, tuple[Callable[[Path], object], list[str], str, str]] = {
    "binary": (
        write("train.de", random.Random(2).randbytes(100_000)), [], "train.de is binary", "iconv"),
    "picture": (write("valid.en", b"\x89PNG\r\n\x1a\n"), [], "valid.en is not UTF-8", "iconv"),
    "folder": (make_folder, [], "corpus/train.de is a folder", "name a file"),
    "utf-16": (
        write("test.de", "Ein Hund.\n".encode("utf-16")), [], "test.de is UTF-16", "iconv -f UTF-16"
    ),
    "utf-16 without mark": (
        write("train.en", "A dog.\n".encode("utf-16-le")), [], "is binary or UTF-16", "UTF-16LE"),
    "a line of 10 MB": (
        add_long_line, [], "line 41 of the source of valid has 10,000,000", "remove"),
    "only a line of 10 MB": (
        both("train", b"x" * 10_000_000 + b"\n"), [], "no training pair is left", "sentences"),
    "no lines": (both("train", b""), [], "are empty", "one sentence per line"),
    "no lines in test": (both("test", b""), [], "are empty", "one sentence per line"),
    "empty lines in valid": (both("valid", b"\n \n"), [], "valid has only empty lines", "one"),
    "empty lines in test": (both("test", b"\n\n\n"), [], "of its 3 pairs, none", "one sentence"),
    "missing right side": (
        lambda f: (f / "train.en").unlink(), [], "no such file: corpus/train.en", "PREFIX.en"),
    "a line too few": (
        write("train.en", b"One.\nTwo.\n"), [], "has 1,500 lines, corpus/train.en has 2", "compare"
    ),
    "unknown language": (
        lambda f: None, ["--languages", "xx-en"], "xx is not a language", "ISO 639"
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("spoil", "arguments", "message", "hint"), BAD_INPUT.values(), ids=BAD_INPUT.keys()
)
def test_bad_input_ends_with_2_and_a_paragraph_and_writes_nothing(
    place: Path, jtrans: Jtrans, spoil: Any, arguments: Any, message: str, hint: str
) -> None:
    spoil(place / "corpus")
    code, out, said = jtrans("prepare", *COMMAND, "--workers", 1, "--out", "new/out", *arguments)
    assert (code, out) == (2, ""), said
    assert_one_paragraph(said, message, hint)
    assert names(place) == {"corpus"}


def test_one_line_is_prepared_with_a_warning(place: Path, jtrans: Jtrans) -> None:
    for language in LANGUAGES:
        path = place / f"corpus/train.{language}"
        path.write_bytes(path.read_bytes().split(b"\n")[0] + b"\n")
    code, _, said = jtrans("prepare", *COMMAND, "--workers", 1, "--out", "out")
    assert code == 0
    assert "Reading      train 1 " in said and "kept 1 ·" in said
    assert "of the tokens of valid are unknown" in said


@pytest.mark.parametrize("split", ["train", "test"])
def test_swapped_sides_are_warned_of(place: Path, jtrans: Jtrans, split: str) -> None:
    one, other = (place / f"corpus/{split}.{language}" for language in LANGUAGES)
    text = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(text)
    code, _, said = jtrans("prepare", *COMMAND, "--workers", 1, "--out", "out")
    assert code == 0
    assert said.count(f"warning: the sides of {split} look swapped") == 1
    assert said.count("look swapped") == 1


Mount = Callable[[str], Path]


def mount(*options: str, path: Path) -> None:
    try:
        done = subprocess.run(["mount", *options, str(path)], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("no mount command here")
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.decode().strip()}")


@pytest.fixture
def disk(place: Path) -> Iterator[Mount]:
    """Mount a small disk of its own as PLACE/disk, or change it: `disk("size=256k")`."""
    folder = place / "disk"
    folder.mkdir()
    is_mounted = False

    def change(options: str) -> Path:
        nonlocal is_mounted
        what = (
            ["-o", f"remount,{options}"] if is_mounted else ["-t", "tmpfs", "-o", options, "none"]
        )
        mount(*what, path=folder)
        is_mounted = True
        return folder

    yield change
    if is_mounted:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.thorough
@pytest.mark.parametrize("size", [pytest.param("8k", marks=pytest.mark.slow), "400k"])
def test_a_full_disk_ends_with_1_leaves_nothing_and_the_same_command_goes_on(
    place: Path, disk: Mount, expected: dict[str, bytes], size: Any
) -> None:
    full = disk(f"size={size}")
    code, said = run(place, "--out", "disk/new/out")
    assert code == 1, said
    assert_one_paragraph(said, "the disk is full: cannot write disk/new/out", "free some space")
    assert not names(full)
    disk("size=64m")
    assert run(place, "--out", "disk/new/out")[0] == 0
    assert contents(full / "new/out") == expected
    assert names(full / "new") == {"out"}


@pytest.mark.thorough
def test_a_full_disk_does_not_cost_the_corpus_that_was_there(
    place: Path, disk: Mount, prepared: Path
) -> None:
    full = disk("size=64m")
    shutil.copytree(prepared, full / "out")
    before = contents(full / "out")
    disk(f"size={sum(map(len, before.values())) // 1024 + 200}k")
    code, said = run(place, "--out", "disk/out", "--lowercase", "--force")
    assert code == 1, said
    assert contents(full / "out") == before and names(full) == {"out"}
    disk("size=64m")
    assert run(place, "--out", "disk/out", "--lowercase", "--force")[0] == 0
    assert contents(full / "out") != before and names(full) == {"out"}


@pytest.mark.sample(1)
@pytest.mark.parametrize("out", ["disk/there", "disk/there/deep/out"])
def test_a_read_only_disk_ends_with_2_and_once_writable_all_is_well(
    place: Path, disk: Mount, out: Any
) -> None:
    folder = disk("size=64m")
    (folder / "there").mkdir()
    disk("ro")
    code, said = run(place, "--out", out)
    assert code == 2, said
    assert_one_paragraph(said, f"cannot create {out}: no permission to write", "another --out")
    assert sorted(folder.rglob("*")) == [folder / "there"]
    disk("rw")
    assert run(place, "--out", out)[0] == 0
    assert (place / out / "corpus.json").is_file()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_folder_without_permission_ends_with_2(place: Path) -> None:
    (place / "mine").mkdir(mode=0o500)
    code, said = run(place, "--out", "mine/out")
    assert code == 2
    assert_one_paragraph(said, "no permission to write", "another --out")
    assert not names(place / "mine")


def test_a_mounted_disk_itself_cannot_be_replaced(place: Path, disk: Mount) -> None:
    folder = disk("size=64m")
    code, said = run(place, "--out", "disk")
    assert code == 2
    assert_one_paragraph(said, "a disk is mounted there", "--out disk/corpus")
    assert not names(folder) and names(place) == {"corpus", "disk"}


def kill(process: subprocess.Popen[bytes], seconds: float, *, alone: bool) -> bool:
    """Kill the process, alone or with its workers, after a while; False if it ended before."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        if alone:
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return True
    process.communicate()
    return False


@pytest.mark.slow
def test_killed_twenty_times_at_random_and_run_again_it_gives_the_same_bytes(
    place: Path, expected: dict[str, bytes]
) -> None:
    """Half the time a corpus stands there already and is replaced; it is never seen half."""
    seed = time.time_ns()
    print(f"seed {seed}")  # shown when the test fails
    draw = random.Random(seed)
    assert run(place, "--out", "old/out", "--lowercase")[0] == 0
    began = time.monotonic()
    assert run(place, "--out", "whole/out")[0] == 0
    whole = time.monotonic() - began
    old = contents(place / "old/out")
    kills = mid_work = 0
    for round_number in range(10 * KILLS):
        folder = place / f"round{round_number}"
        arguments = ["--out", f"{folder.name}/out"]
        if draw.random() < 0.5:
            shutil.copytree(place / "old", folder)
            arguments.append("--force")
        while kills < KILLS and kill(
            start(place, *arguments), draw.uniform(0, whole), alone=draw.random() < 0.5
        ):
            kills += 1
            mid_work += (folder / ".out.work").exists()
            if (folder / "out").exists():
                assert contents(folder / "out") in (old, expected)
            if draw.random() < 0.5:
                break
        code, said = run(place, *arguments)
        assert code == 0, said
        assert contents(folder / "out") == expected
        assert names(folder) == {"out"}
        if kills == KILLS:
            break
    assert kills == KILLS
    assert mid_work > KILLS // 5
