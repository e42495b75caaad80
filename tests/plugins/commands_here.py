"""The command line run in this process, in a folder and an environment of its own."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from plugins.command_line import Jtrans, Result

from jtrans.cli import console, main


@pytest.fixture
def jtrans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Jtrans]:
    """Return a function that runs `jtrans ARGUMENTS` in `tmp_path`, on the CPU, offline."""
    for name in [name for name in os.environ if name.startswith("JTRANS_")]:
        if name != "JTRANS_CACHE":
            monkeypatch.delenv(name)
    for name, value in {
        "JTRANS_DEVICE": "cpu",
        "JTRANS_OFFLINE": "1",
        "GOMP_SPINCOUNT": "1000",
        "COLUMNS": "100",
        "TERM": "dumb",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(console, "settings", console.Settings())
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)  # `main` sets its own
    monkeypatch.chdir(tmp_path)
    commands, handler = main.COMMANDS, signal.getsignal(signal.SIGTERM)
    torch = sys.modules.get("torch")
    precision = torch.get_float32_matmul_precision() if torch else None

    def run(*arguments: object, stdin: bytes | None = None) -> Result:
        line = [str(argument) for argument in arguments]
        # building every command takes longer than most commands under test
        named = {name: commands[name] for name in commands if name in line[:2]}
        with monkeypatch.context() as patch, pytest.raises(SystemExit) as left:
            patch.setattr(main, "COMMANDS", named or commands)
            if stdin is not None:
                patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            main.main(line)
        out, err = capsys.readouterr()
        return Result(int(left.value.code or 0), out, err)

    yield run
    signal.signal(signal.SIGTERM, handler)
    if torch is not None and precision is not None:
        torch.set_float32_matmul_precision(precision)
