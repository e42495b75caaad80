"""The shell scripts of the README, with stand-ins for pip and jtrans."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "scripts"


def test_arguments_of_the_demo_reach_quickstart_and_not_pip(tmp_path: Path) -> None:
    folder, commands = tmp_path / "scripts", tmp_path / ".venv" / "bin"
    folder.mkdir()
    commands.mkdir(parents=True)
    for name in ("demo.sh", "venv.sh"):
        shutil.copy(SCRIPTS / name, folder)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "constraints.txt").write_text("torch==2.13.0\n", encoding="utf-8")
    for name in ("python", "jtrans"):
        command = commands / name
        command.write_text(f'#!/bin/sh\necho {name} "$@"\n', encoding="utf-8")
        command.chmod(0o755)
    done = subprocess.run(
        ["bash", folder / "demo.sh", "--minutes", "10"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "PYTHON": sys.executable},
    )
    *installed, last = done.stdout.splitlines()
    assert last == "jtrans quickstart --minutes 10"
    assert installed[-1].endswith(f"--editable {tmp_path}")
    assert not any("--minutes" in line for line in installed)
