"""What the commands say when memory runs out."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugins.command_line import Jtrans
from plugins.random_runs import JOINT, MakeRun

from jtrans.nn import memory


@pytest.mark.parametrize("command", ["translate", "score"])
def test_the_command_refuses_what_a_cpu_cannot_hold(
    jtrans: Jtrans,
    make_run: MakeRun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 400_000_000)
    wide = {**JOINT, "width": 256}
    run, text = make_run(config={"model": wide}), tmp_path / "text"
    text.write_text("hund\n" + "hund " * 900 + "\n", encoding="utf-8")
    arguments: dict[str, tuple[object, ...]] = {
        "translate": (run, "--input", text, "--output", tmp_path / "out", "--beam", 150),
        "score": (run, "--force", text, "--src", text),
    }
    done = jtrans(command, *arguments[command], "--device", "cpu")
    assert done.code == 1, done.err
    error = done.err[done.err.index("error: ") :]
    assert error.startswith("error: line 2: out of memory with a single sentence of 901 tokens: ")
    assert f"({text}:2)" in error if command == "translate" else f"({text}:2, {text}:2)" in error
    assert "0.1 GB are available" in error and "hint: " in error


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA error: out of memory")])
def test_missing_memory_is_never_called_a_bug(
    jtrans: Jtrans, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("jtrans.cli.main._run", lambda _: fail())
    done = jtrans("info")
    assert done.code == 1
    assert done.err.startswith("error: out of memory")
    assert "bug" not in done.err
