"""The command line as tests run it: in this process (`jtrans`) or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jtrans

ROOT = str(Path(jtrans.__file__).parents[1])  # jtrans need not be installed

SOURCE = "ein mann liest .\n\nein hund rennt schnell .\nhund\n"  # four lines to translate


class Result(NamedTuple):
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str


class Jtrans(Protocol):
    """Runs one command line to its end."""

    def __call__(self, *arguments: object, stdin: bytes | None = None) -> Result: ...


def environment(**variables: str) -> dict[str, str]:
    """Return the environment of a process that imports this jtrans, on one CPU thread."""
    settings = {"PYTHONPATH": ROOT, "OMP_NUM_THREADS": "1", "JTRANS_DEVICE": "cpu"}
    return {**os.environ, **settings, **variables}


def start_process(
    *arguments: object, folder: Path | None = None, **options: Any
) -> subprocess.Popen[bytes]:
    """Start `python -m jtrans` in `folder`; `options` go to Popen."""
    return subprocess.Popen(
        [sys.executable, "-m", "jtrans", *map(str, arguments)],
        cwd=folder,
        env=environment(),
        **options,
    )


def run_process(
    *arguments: object, folder: Path | None = None, stdin: bytes | None = None, **options: Any
) -> Result:
    """Run `python -m jtrans` in `folder` to its end."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    if stdin is not None:
        pipes["stdin"] = subprocess.PIPE
    process = start_process(*arguments, folder=folder, **pipes)
    try:
        out, err = process.communicate(stdin, timeout=300)
    finally:
        process.kill()
    return Result(process.returncode, (out or b"").decode("utf-8"), (err or b"").decode("utf-8"))
