"""The check for GPUs runs everywhere, on tiny sizes where there is none."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "gpu" / "gpu_check.py"


@pytest.fixture
def gpu_check(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("TRITON_INTERPRET", os.environ.get("TRITON_INTERPRET", "0"))  # put back
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec = importlib.util.spec_from_file_location("gpu_check", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_part_runs_and_nothing_is_wrong(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    path = tmp_path / "gpu.json"
    done = subprocess.run(
        [sys.executable, SCRIPT, "--quick", "--json", path],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    found = json.loads(path.read_text(encoding="utf-8"))
    assert (found["wrong"], found["failed"], found["skipped"]) == ([], [], []), done.stdout
    assert done.returncode == 0
    assert all(part["rows"] for part in found["parts"].values())


def test_a_failing_part_is_reported_and_the_next_one_runs(
    gpu_check: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> list[dict[str, object]]:
        raise RuntimeError("no such kernel")

    parts = {"first": fail, "second": lambda: [{"figure": 1.0}]}
    monkeypatch.setattr(gpu_check, "sections", lambda device, quick: parts)
    monkeypatch.setattr(sys, "argv", ["gpu_check.py"])
    assert gpu_check.main() == 1
    out = capsys.readouterr().out
    assert "FAILED RuntimeError: no such kernel" in out and "figure" in out


def test_a_wrong_number_ends_in_code_4(
    gpu_check: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = {"correctness": lambda: [{"check": "logits", "error": float("nan"), "ok": False}]}
    monkeypatch.setattr(gpu_check, "sections", lambda device, quick: parts)
    monkeypatch.setattr(sys, "argv", ["gpu_check.py"])
    assert gpu_check.main() == 4
    assert "wrong: logits" in capsys.readouterr().out


def test_parts_beyond_the_time_are_named_as_skipped(
    gpu_check: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_check, "sections", lambda device, quick: {"late": list})
    monkeypatch.setattr(sys, "argv", ["gpu_check.py", "--minutes", "-1"])
    assert gpu_check.main() == 0
    assert "skipped: late" in capsys.readouterr().out
