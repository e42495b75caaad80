"""The library that multiplies matrices in new runs: the same one again on a machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from jtrans.nn.device import DeviceInfo
from jtrans.training.setup import matmul_backend
from jtrans.training.setup.matmul_backend import usual_backend


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JTRANS_CACHE", str(tmp_path))
    return tmp_path / "matmul-backend"


def measured(backend: str, *, is_idle: bool, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the library of a new run on a machine that has measured this one."""
    monkeypatch.setattr(matmul_backend, "are_idle", lambda _: is_idle)
    return usual_backend(DeviceInfo("cpu", 2, backend))


def test_what_an_idle_machine_measured_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured("oneDNN", is_idle=True, monkeypatch=monkeypatch) == "oneDNN"
    assert measured("MKL", is_idle=True, monkeypatch=monkeypatch) == "oneDNN"
    assert measured("MKL", is_idle=False, monkeypatch=monkeypatch) == "oneDNN"


def test_what_a_busy_machine_measured_is_used_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured("MKL", is_idle=False, monkeypatch=monkeypatch) == "MKL"
    assert measured("oneDNN", is_idle=True, monkeypatch=monkeypatch) == "oneDNN"


def test_a_damaged_or_foreign_file_is_measured_anew(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured("oneDNN", is_idle=True, monkeypatch=monkeypatch)
    [path] = cache.iterdir()
    for text in ("{", "[]", '{"key": "of another machine", "backend": "oneDNN"}'):
        path.write_text(text, encoding="utf-8")
        assert measured("MKL", is_idle=False, monkeypatch=monkeypatch) == "MKL"
