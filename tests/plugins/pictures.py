"""Analyses without matplotlib, for tests that look at everything but the pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jtrans.analysis.output.plots import FORMATS


def _placeholders(item: Any, stem: Path, *_: Any) -> list[Path]:
    paths = [stem.with_name(f"{stem.name}.{ending}") for ending in FORMATS]
    for path in paths:
        path.write_bytes(b"<svg></svg>")
    return paths


@pytest.fixture
def placeholder_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write placeholders instead of pictures: drawing takes most of the time of an analysis."""
    for name in ("draw", "draw_curves", "draw_view", "draw_weights"):
        monkeypatch.setattr(f"jtrans.analysis.output.files.{name}", _placeholders)
    monkeypatch.setattr("jtrans.scaling.report.draw", _placeholders)
