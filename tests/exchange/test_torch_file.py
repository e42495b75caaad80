"""Files of torch.save from elsewhere: read without running code, or refused."""

from __future__ import annotations

import argparse
import datetime
import io
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jtrans.errors import CheckpointError
from jtrans.exchange.torch_file import load_torch_file

FORMATS = pytest.mark.parametrize("is_zip", [True, False], ids=["zip", "before torch 1.6"])
CONTENT = {"args": argparse.Namespace(a=1, b=[2.5, None, "c"]), "model": {"w": torch.ones(3, 2)}}


class Trap:
    """Creates a file when a careless reader unpickles it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def saved(content: Any, *, is_zip: bool) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer, _use_new_zipfile_serialization=is_zip)
    return buffer.getvalue()


def load(path: Path, data: bytes) -> dict[str, Any]:
    path.write_bytes(data)
    return load_torch_file(path)


def refused(path: Path, data: bytes) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        load(path, data)
    assert caught.value.exit_code == 2
    assert caught.value.where == str(path)
    return caught.value


@FORMATS
def test_tensors_containers_and_namespaces_are_read(is_zip: bool, tmp_path: Path) -> None:
    content = load(tmp_path / "file.pt", saved(CONTENT, is_zip=is_zip))
    assert content["args"] == CONTENT["args"]
    assert content["model"]["w"].equal(torch.ones(3, 2))


@FORMATS
@pytest.mark.parametrize("place", ["top", "model", "args"])
def test_code_in_the_pickle_is_named_and_not_run(is_zip: bool, place: str, tmp_path: Path) -> None:
    trap = Trap(tmp_path / "sprung")
    content: dict[str, Any] = {"args": argparse.Namespace(), "model": {}}
    if place == "top":
        content["extra_state"] = trap
    elif place == "model":
        content["model"]["w"] = trap
    else:
        content["args"].value = trap
    error = refused(tmp_path / "file.pt", saved(content, is_zip=is_zip))
    assert error.kind == "checkpoint.foreign-object"
    assert "posix.mkdir" in error.message or "nt.mkdir" in error.message
    assert not trap.path.exists()


@FORMATS
@pytest.mark.parametrize(
    ("foreign", "name"),
    [
        (datetime.timedelta(1), "datetime.timedelta"),
        (torch.nn.Linear(1, 1), "torch.nn.modules.linear.Linear"),
        (Path("x"), "pathlib.PosixPath"),
        (print, "builtins.print"),
    ],
    ids=["a class", "a module", "a path", "a function"],
)
def test_foreign_objects_are_named(foreign: Any, name: str, is_zip: bool, tmp_path: Path) -> None:
    data = saved(CONTENT | {"extra_state": {"x": foreign}}, is_zip=is_zip)
    error = refused(tmp_path / "file.pt", data)
    assert error.kind == "checkpoint.foreign-object"
    assert name.rpartition(".")[2] in error.message
    assert "weights_only=False" in str(error.hint)


@FORMATS
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(share=st.floats(0.0, 0.999))
def test_a_truncated_file_is_refused(is_zip: bool, share: float, tmp_path: Path) -> None:
    data = saved(CONTENT, is_zip=is_zip)
    refused(tmp_path / "file.pt", data[: int(len(data) * share)])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(place=st.floats(0.0, 0.999), flip=st.integers(1, 255))
def test_a_changed_byte_is_refused_or_changes_nothing(
    place: float, flip: int, tmp_path: Path
) -> None:
    data = bytearray(saved(CONTENT, is_zip=True))
    data[int(len(data) * place)] ^= flip
    try:
        content = load(tmp_path / "file.pt", bytes(data))
    except CheckpointError as error:
        assert error.exit_code == 2
        return
    assert content["args"] == CONTENT["args"]
    assert content["model"]["w"].equal(torch.ones(3, 2))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(place=st.floats(0.0, 0.999), flip=st.integers(1, 255))
def test_a_changed_byte_of_the_old_format_gives_one_clear_error_at_most(
    place: float, flip: int, tmp_path: Path
) -> None:
    data = bytearray(saved(CONTENT, is_zip=False))
    data[int(len(data) * place)] ^= flip
    try:
        load(tmp_path / "file.pt", bytes(data))
    except CheckpointError as error:
        assert error.exit_code == 2


@given(data=st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_any_other_file_is_refused(data: bytes, tmp_path: Path) -> None:
    refused(tmp_path / "file.pt", data)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.pt", tmp_path):
        with pytest.raises(CheckpointError) as caught:
            load_torch_file(path)
        assert caught.value.kind == "checkpoint.missing"


def test_a_list_is_not_a_checkpoint(tmp_path: Path) -> None:
    error = refused(tmp_path / "file.pt", saved([1], is_zip=True))
    assert "a list" in error.message
