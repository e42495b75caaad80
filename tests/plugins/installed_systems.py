"""Distributions that bring systems, installed by hand: what importlib.metadata needs, no more."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from plugins.folders import REPOSITORY

BringSystem = Callable[..., None]
MINE = "mine = my_systems:Mine"
PAGE = REPOSITORY / "docs" / "adding-a-system.md"


def install(folder: Path, source: str, *, point: str, distribution: str = "my-systems") -> None:
    """Install a distribution of one module, `my_systems`, into a folder of the import path.

    Args:
        folder: made if it is not there.
        source: of the module.
        point: of the group `jtrans.systems`, such as ``mine = my_systems:Mine``.
        distribution: its name.
    """
    info = folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    metadata = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[jtrans.systems]\n{point}\n", encoding="utf-8")
    (folder / "my_systems.py").write_text(source, encoding="utf-8")


def documented_system(*changes: tuple[str, str]) -> str:
    """Return the module shown in docs/adding-a-system.md, with changes of what is in it once."""
    page = PAGE.read_text(encoding="utf-8")
    return changed(str(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]), *changes)


def changed(source: str, *changes: tuple[str, str]) -> str:
    """Return a module with changes, each of something that is in it once."""
    for right, new in changes:
        assert source.count(right) == 1, right
        source = source.replace(right, new)
    return source


@pytest.fixture
def bring_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BringSystem:
    """Return a function that installs a distribution for one test, by default the documented one.

    Its arguments are those of `install`, all optional.
    """

    def bring(source: str = "", point: str = MINE, **more: Any) -> None:
        folder = tmp_path / more.get("distribution", "site")
        install(folder, source or documented_system(), point=point, **more)
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, "my_systems", raising=False)

    return bring
