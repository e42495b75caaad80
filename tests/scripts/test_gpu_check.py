"""The check for GPUs runs everywhere, on tiny sizes where there is none."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from plugins.command_line import environment
from plugins.folders import REPOSITORY


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the script, which changes the environment."""
    monkeypatch.setenv("TRITON_INTERPRET", os.environ.get("TRITON_INTERPRET", "0"))  # put back
    return importlib.import_module("scripts.gpu.check")


@pytest.mark.parametrize(
    "only",
    [
        pytest.param("decoding", marks=pytest.mark.thorough),
        pytest.param("updates", marks=pytest.mark.thorough),
        pytest.param("", marks=pytest.mark.slow),
    ],
)
def test_every_part_runs_and_nothing_is_wrong(only: str, tmp_path: Path) -> None:
    pytest.importorskip("triton")
    path = tmp_path / "gpu.json"
    done = subprocess.run(
        [sys.executable, "-m", "scripts.gpu.check", "--quick", "--only", only, "--json", path],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        env=environment(),
    )
    report = json.loads(path.read_text(encoding="utf-8"))
    assert (report["wrong"], report["failed"], report["skipped"]) == ([], [], []), done.stdout
    assert done.returncode == 0
    assert report["parts"] and all(part["rows"] for part in report["parts"].values())


def test_a_failing_part_is_reported_and_the_next_one_runs(
    check: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> list[dict[str, object]]:
        raise RuntimeError("no such kernel")

    parts = {"first": fail, "second": lambda: [{"figure": 1.0}]}
    monkeypatch.setattr(check, "sections", lambda scale: parts)
    monkeypatch.setattr(sys, "argv", ["check.py"])
    assert check.main() == 1
    out = capsys.readouterr().out
    assert "FAILED RuntimeError: no such kernel" in out and "figure" in out


def test_a_wrong_number_ends_in_code_4(
    check: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = {"correctness": lambda: [{"check": "logits", "error": float("nan"), "ok": False}]}
    monkeypatch.setattr(check, "sections", lambda scale: parts)
    monkeypatch.setattr(sys, "argv", ["check.py"])
    assert check.main() == 4
    assert "wrong: logits" in capsys.readouterr().out


def test_parts_beyond_the_time_are_named_as_skipped(
    check: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    path = tmp_path / "gpu.json"
    monkeypatch.setattr(check, "sections", lambda scale: {"late": list})
    monkeypatch.setattr(sys, "argv", ["check.py", "--minutes", "-1", "--json", str(path)])
    assert check.main() == 0
    assert "skipped: late" in capsys.readouterr().out
    assert json.loads(path.read_text(encoding="utf-8"))["skipped"] == ["late"]


def test_the_same_command_goes_on_with_the_parts_that_are_missing(
    check: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measured: list[str] = []

    def part(title: str, *, ok: bool = True) -> Callable[[], list[dict[str, object]]]:
        def measure() -> list[dict[str, object]]:
            measured.append(title)
            if title == "second" and measured.count(title) == 1:
                raise RuntimeError("no such kernel")
            return [{"check": title, "ok": ok}]

        return measure

    parts = {"first": part("first", ok=False), "second": part("second"), "third": part("third")}
    monkeypatch.setattr(check, "sections", lambda scale: parts)
    path = tmp_path / "gpu.json"
    monkeypatch.setattr(sys, "argv", ["check.py", "--json", str(path), "--only", "first", "second"])
    assert check.main() == 4
    assert measured == ["first", "second"]
    monkeypatch.setattr(sys, "argv", ["check.py", "--json", str(path)])
    assert check.main() == 4  # what was wrong before still is
    assert measured == ["first", "second", "second", "third"]
    report = json.loads(path.read_text(encoding="utf-8"))
    assert list(report["parts"]) == ["first", "second", "third"]
    assert (report["wrong"], report["failed"]) == (["first"], [])
    report["torch"] = "1.0"  # of another version
    path.write_text(json.dumps(report), encoding="utf-8")
    with pytest.raises(SystemExit) as caught:
        check.main()
    assert caught.value.code == 2
    report["torch"] = str(torch.__version__)
    path.write_text(json.dumps(report), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["check.py", "--json", str(path), "--quick"])
    with pytest.raises(SystemExit):  # other sizes
        check.main()
    assert len(measured) == 4 and json.loads(path.read_text(encoding="utf-8")) == report


def test_a_result_becomes_a_table_with_the_parts_that_failed(
    check: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail() -> list[dict[str, object]]:
        raise RuntimeError("no such kernel")

    parts = {"correctness": lambda: [{"check": "logits", "ok": True}], "products": fail}
    monkeypatch.setattr(check, "sections", lambda scale: parts)
    path = tmp_path / "gpu.json"
    monkeypatch.setattr(sys, "argv", ["check.py", "--json", str(path)])
    assert check.main() == 1
    text = importlib.import_module("scripts.readme.gpu").gpu(json.loads(path.read_text()))
    assert text.startswith("1 checks of correctness, 0 of them")
    assert "Parts that failed: products." in text


def test_rates_are_compared_with_the_ceilings_in_a_later_call(
    check: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    speed = importlib.import_module("scripts.gpu.speed")
    timing = importlib.import_module("scripts.gpu.timing")
    calls: list[object] = []
    monkeypatch.setattr(
        timing, "machine_rates", lambda scale: {"matmul_flops": 2e12, "copy_bytes": 1e12}
    )
    monkeypatch.setattr(
        speed, "training", lambda scale, rates, width: calls.append((rates["matmul_flops"], width))
    )
    scale = timing.Scale.of(torch.device("cuda"), is_quick=False)
    parts = check.sections(scale)  # "ceilings" is not run
    for width in scale.widths:
        parts[f"training, E = {width}"]()
    assert calls == [(2e12, width) for width in scale.widths]
