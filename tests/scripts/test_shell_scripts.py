"""The shell scripts of the README, with stand-ins for pip and jtrans."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout of the scripts alone, with stand-ins in its environment."""
    (tmp_path / "scripts").mkdir()
    for name in ("demo.sh", "venv.sh"):
        shutil.copy(SCRIPTS / name, tmp_path / "scripts")
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "constraints.txt").write_text("torch==2.13.0\n", encoding="utf-8")
    for name in ("pip", "python", "jtrans"):
        write_command(tmp_path / ".venv" / "bin" / name, f'echo {name} "$@"')
    return tmp_path


def write_command(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


def run_demo(checkout: Path, *arguments: str, python: str | Path = sys.executable) -> list[str]:
    """Run the demo and return the lines that it prints."""
    done = subprocess.run(
        ["bash", checkout / "scripts" / "demo.sh", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "PYTHON": str(python)},
    )
    return done.stdout.splitlines()


def test_arguments_of_the_demo_reach_quickstart_and_not_pip(checkout: Path) -> None:
    *installed, last = run_demo(checkout, "--minutes", "10")
    assert last == "jtrans quickstart --minutes 10"
    assert installed[-1].endswith(f"--editable {checkout}")
    assert not any("--minutes" in line for line in installed)


def test_an_environment_without_pip_is_completed(checkout: Path) -> None:
    pip, python = checkout / ".venv" / "bin" / "pip", checkout / "python3"
    pip.unlink()  # as where Debian's package python3-venv was missing the first time
    write_command(python, f'if [ "$2" = venv ]; then echo "$@"; mv "$0" {pip}; fi')
    making, made, *_ = run_demo(checkout, python=python)
    assert making == f"Making {checkout}/.venv"
    assert made == f"-m venv {checkout}/.venv"
    assert not any(line.startswith("Making") for line in run_demo(checkout))
