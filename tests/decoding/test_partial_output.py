"""Output that an interrupted translation leaves, and what a second attempt makes of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plugins.folders import contents

from jtrans.decoding.partial_output import PartialOutput
from jtrans.errors import WorkError

IDENTITY = {"input": "abc", "weights": ["1"]}


class _Killed(BaseException):
    """The process ends here."""


def attempt(paths: list[Path], texts: list[str], until: int) -> int:
    """Write the texts not yet written, and stop before the text `until`; return the first."""
    with PartialOutput(paths, IDENTITY) as output:
        first = output.lines
        for number in range(first, len(texts)):
            if number == until:
                raise _Killed
            output.append([texts[number], texts[number].upper()], 1)
    return first


@given(
    texts=st.lists(st.text("abü\n", max_size=5).map(lambda text: text + "\n"), max_size=8),
    stops=st.lists(st.integers(0, 8), max_size=6),
    torn=st.binary(max_size=7),
)
@settings(max_examples=25, deadline=None)
def test_attempts_together_write_what_one_would(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], stops: list[int], torn: bytes
) -> None:
    folder = tmp_path_factory.mktemp("output")
    paths = [folder / "out.en", folder / "links"]
    for until in sorted(set(stops)):
        if until >= len(texts):
            continue
        try:
            attempt(paths, texts, until)
        except _Killed:
            assert not any(path.exists() for path in paths)
            part = folder / "out.en.part"
            if part.exists():
                with part.open("ab") as stream:
                    stream.write(torn)  # what a power cut may leave
    attempt(paths, texts, -1)
    assert paths[0].read_bytes().decode() == "".join(texts)
    assert paths[1].read_bytes().decode() == "".join(texts).upper()
    assert sorted(path.name for path in folder.iterdir()) == ["links", "out.en"]


def test_an_attempt_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    paths, texts = [tmp_path / "out.en", tmp_path / "links"], ["a\n", "b\n", "c\n"]
    for until in (1, 2):  # the second one goes on, too, and is interrupted
        with pytest.raises(_Killed):
            attempt(paths, texts, until)
    assert (tmp_path / "out.en.part").read_text() == "a\nb\n"
    assert attempt(paths, texts, -1) == 2


def test_what_a_power_cut_tore_does_not_cost_the_lines_before_it(tmp_path: Path) -> None:
    paths, texts = [tmp_path / "out.en", tmp_path / "links"], ["ab\n", "b\n", "c\n"]
    with pytest.raises(_Killed):
        attempt(paths, texts, 2)
    with (tmp_path / "out.en.part").open("ab") as stream:
        stream.write(b"c")
    assert attempt(paths, texts, -1) == 2
    assert paths[0].read_text() == "ab\nb\nc\n"


def test_other_inputs_start_over(tmp_path: Path) -> None:
    paths, texts = [tmp_path / "out.en", tmp_path / "links"], ["a\n", "b\n"]
    with pytest.raises(_Killed):
        attempt(paths, texts, 1)
    with PartialOutput(paths, {**IDENTITY, "input": "abd"}) as output:
        assert output.lines == 0
        output.append(["x\n", "X\n"], 2)
    assert paths[0].read_text() == "x\n"


@pytest.mark.parametrize("damage", ["", "{", '{"lines": "many"}'])
def test_a_damaged_record_starts_over(tmp_path: Path, damage: str) -> None:
    paths, texts = [tmp_path / "out.en", tmp_path / "links"], ["a\n", "b\n"]
    with pytest.raises(_Killed):
        attempt(paths, texts, 1)
    (tmp_path / "out.en.part.json").write_text(damage)
    assert attempt(paths, texts, -1) == 0
    assert paths[0].read_text() == "a\nb\n"


def test_a_part_shorter_than_its_record_starts_over(tmp_path: Path) -> None:
    paths, texts = [tmp_path / "out.en", tmp_path / "links"], ["a\n", "b\n"]
    with pytest.raises(_Killed):
        attempt(paths, texts, 1)
    (tmp_path / "links.part").write_text("")
    assert attempt(paths, texts, -1) == 0
    assert paths[1].read_text() == "A\nB\n"


@pytest.mark.parametrize("edited", ["A\nb\n", "aa\nb\n", "a\n"])
def test_a_part_that_was_edited_starts_over(tmp_path: Path, edited: str) -> None:
    paths, texts = [tmp_path / "out.en", tmp_path / "links"], ["a\n", "b\n", "c\n"]
    with pytest.raises(_Killed):
        attempt(paths, texts, 2)
    (tmp_path / "out.en.part").write_text(edited)
    assert attempt(paths, texts, -1) == 0
    assert (paths[0].read_text(), paths[1].read_text()) == ("a\nb\nc\n", "A\nB\nC\n")


@pytest.mark.parametrize(("left", "is_over"), [("earlier\n", True), ("", False)])
def test_lines_without_a_record_are_not_dropped_silently(
    tmp_path: Path, left: str, is_over: bool
) -> None:
    (tmp_path / "out.en.part").write_text(left)  # a killed attempt may leave it empty
    with PartialOutput([tmp_path / "out.en"], IDENTITY) as output:
        assert output.is_over is is_over


def test_nothing_is_left_of_an_attempt_that_wrote_nothing(tmp_path: Path) -> None:
    with pytest.raises(_Killed):
        attempt([tmp_path / "out.en", tmp_path / "links"], ["a\n"], 0)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("identity", [IDENTITY, {**IDENTITY, "input": "abd"}])
def test_an_attempt_that_writes_nothing_leaves_an_earlier_one_as_it_is(
    tmp_path: Path, identity: dict[str, Any]
) -> None:
    paths = [tmp_path / "out.en", tmp_path / "links"]
    with pytest.raises(_Killed):
        attempt(paths, ["a\n", "b\n"], 1)
    before = contents(tmp_path)
    with pytest.raises(_Killed), PartialOutput(paths, identity) as output:
        assert output.is_over == (identity != IDENTITY)
        raise _Killed
    assert contents(tmp_path) == before
    assert attempt(paths, ["a\n", "b\n"], -1) == 1


def test_no_lines_at_all_replace_those_of_an_earlier_attempt(tmp_path: Path) -> None:
    paths = [tmp_path / "out.en", tmp_path / "links"]
    with pytest.raises(_Killed):
        attempt(paths, ["a\n", "b\n"], 1)
    with PartialOutput(paths, {**IDENTITY, "input": ""}):
        pass
    assert contents(tmp_path) == {"out.en": b"", "links": b""}


def test_what_a_killed_attempt_was_writing_is_removed(tmp_path: Path) -> None:
    paths = [tmp_path / "out[1].en", tmp_path / "links"]
    with pytest.raises(_Killed):
        attempt(paths, ["a\n", "b\n"], 1)
    (tmp_path / ".out[1].en.part.json.77.tmp").write_text("{")
    (tmp_path / ".out1.en.part.json.77.tmp").write_text("{")
    assert attempt(paths, ["a\n", "b\n"], -1) == 1
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [".out1.en.part.json.77.tmp", "links", "out[1].en"]


@pytest.mark.parametrize("is_moved", [False, True])
@pytest.mark.parametrize("is_late", [False, True])
def test_a_folder_that_is_removed_ends_the_work(
    tmp_path: Path, is_moved: bool, is_late: bool
) -> None:
    folder = tmp_path / "folder"
    with (
        pytest.raises(WorkError, match=r"out\.en\.part was removed or replaced"),
        PartialOutput([folder / "out.en"], IDENTITY) as output,
    ):
        output.append(["a\n"], 1)
        if is_moved:
            folder.rename(tmp_path / "moved")
        else:
            shutil.rmtree(folder)
        if not is_late:
            output.append(["b\n"], 1)
            pytest.fail("it writes on")
    assert not folder.exists()
