"""The package on systems without the Unix modules of Python, such as Windows, simulated."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from plugins.command_line import environment

# Without what only Unix has; other packages have Windows modules in their place.
PROGRAM = textwrap.dedent("""
    import builtins, os, signal, sys

    UNIX = {"fcntl", "resource", "termios", "tty", "pwd", "grp"}
    original = builtins.__import__

    def without_unix(name, globals=None, locals=None, fromlist=(), level=0):
        if name in UNIX and str((globals or {}).get("__name__")).startswith(IMPORTERS):
            raise ModuleNotFoundError(name)
        return original(name, globals, locals, fromlist, level)

    builtins.__import__ = without_unix
    for name in ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGQUIT"):
        delattr(signal, name)
    for name in ("fork", "getuid", "sched_getaffinity", "killpg", "getloadavg"):
        delattr(os, name)
""")
EVERY_MODULE = textwrap.dedent("""
    import importlib, pkgutil, warnings
    warnings.simplefilter("ignore")
    import jtrans

    PROGRAMS = ("__main__", "translate_onnx")
    for module in pkgutil.walk_packages(jtrans.__path__, "jtrans."):
        if not module.name.endswith(PROGRAMS) and ".gpu." not in module.name:
            importlib.import_module(module.name)
""")
COMMAND = """
from jtrans.cli.main import main

main("prepare grammar-de-en --workers 1 --out mine --bpe-merges 50".split())
"""


def run(program: str, importers: tuple[str, ...], folder: Path) -> str:
    """Run a program in which some packages find no Unix modules; return its errors."""
    outcome = subprocess.run(
        [sys.executable, "-c", f"IMPORTERS = {importers!r}\n{PROGRAM}{program}"],
        cwd=folder,
        env=environment(JTRANS_OFFLINE="1", TERM="dumb"),
        capture_output=True,
        text=True,
        check=False,
    )
    return outcome.stderr if outcome.returncode else ""


@pytest.mark.thorough
def test_every_module_is_imported_without_them(tmp_path: Path) -> None:
    assert run(EVERY_MODULE, ("jtrans",), tmp_path) == ""


@pytest.mark.thorough
def test_a_corpus_is_prepared_without_them(tmp_path: Path) -> None:
    assert run(COMMAND, ("jtrans", "filelock"), tmp_path) == ""
    assert (tmp_path / "mine/corpus.json").is_file()
