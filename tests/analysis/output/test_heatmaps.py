"""Heat maps: the files, their text, and fonts."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from plugins.listener import Listener

from jtrans.analysis.attention.views import Matrix, View
from jtrans.analysis.output import fonts
from jtrans.analysis.output.fonts import fonts_for
from jtrans.analysis.output.heatmaps import draw_view


def _view(columns: list[str], panels: int = 1) -> View:
    values = np.full((2, len(columns)), 1 / len(columns), dtype=np.float32)
    matrix = Matrix("decoder.0.cross", 1, None, ["I", "</s>"], columns, values)
    return View("decoder.cross", "Attention", "token predicted", "source token", [matrix] * panels)


def test_svg_keeps_text_as_text(tmp_path: Path) -> None:
    svg, png, _ = draw_view(_view(["我", "图书馆", "</s>"]), tmp_path / "map", Listener())
    text = svg.read_text(encoding="utf-8")
    assert ", sans-serif" in text  # for machines that have none of the families
    assert "我" in text
    assert "书" in text
    assert "&lt;/s&gt;" in text
    assert png.read_bytes().startswith(b"\x89PNG")


def test_a_dollar_sign_is_no_mathematics(tmp_path: Path) -> None:
    svg, *_ = draw_view(_view(["$", "5", "$x_1$"]), tmp_path / "map", Listener())
    assert "$x_1$" in svg.read_text(encoding="utf-8")


def test_the_same_weights_give_the_same_file(tmp_path: Path) -> None:
    first, second = (
        draw_view(_view(["a", "b"]), tmp_path / name, Listener())[0].read_bytes() for name in "ab"
    )
    assert first == second


def test_many_panels_fit_in_one_picture(tmp_path: Path) -> None:
    svg, *_ = draw_view(_view(["a"], panels=9), tmp_path / "map", Listener())
    assert svg.read_text(encoding="utf-8").count("layer 1") == 9


def test_a_missing_font_is_said_and_the_svg_is_still_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only = {fonts.DEFAULT: fonts.installed_fonts()[fonts.DEFAULT]}
    monkeypatch.setattr(fonts, "installed_fonts", lambda: only)
    listener = Listener()
    svg, *_ = draw_view(_view(["我"]), tmp_path / "map", listener)
    assert len(listener.warnings) == 1
    assert "no installed font has 我" in listener.warnings[0]
    assert "我" in svg.read_text(encoding="utf-8")


def test_latin_text_needs_the_default_font_only() -> None:
    assert fonts_for(["Übergröße", "naïve </s>"]) == ([fonts.DEFAULT], "")


def test_characters_of_no_font_are_returned() -> None:
    families, missing = fonts_for(["a\ue123"])
    assert families[0] == fonts.DEFAULT
    assert missing in ("", "\ue123")  # a private character some font may have


def test_a_word_of_ten_thousand_letters_makes_no_giant_picture(tmp_path: Path) -> None:
    svg, *_ = draw_view(_view(["x" * 10_000, "short"]), tmp_path / "map", Listener())
    height, width = re.findall(r'(?:height|width)="([\d.]+)pt"', svg.read_text("utf-8"))[:2]
    assert float(height) < 600
    assert float(width) < 600
