"""Which installed fonts can show a text: Chinese, Japanese and Korean need one of their own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

DEFAULT = "DejaVu Sans"  # comes with matplotlib
# Tried first where they are installed: good coverage, upright, regular weight.
PREFERRED = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "Noto Sans SC",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "SimHei",
    "Arial Unicode MS",
)


def fonts_for(texts: Iterable[str]) -> tuple[list[str], str]:
    """Return the families that show some texts together, the default first.

    Args:
        texts: all labels of a picture.

    Returns:
        Families for matplotlib, which takes each character from the first that has it, and the
        characters that no installed font has.
    """
    missing = {character for text in texts for character in text if character.isprintable()}
    families = [DEFAULT]
    missing -= _characters(DEFAULT)
    for family in installed_fonts() if missing else ():
        covered = missing & _characters(family)
        if covered:
            families.append(family)
            missing -= covered
        if not missing:
            break
    return families, "".join(sorted(missing))


@cache
def installed_fonts() -> dict[str, str]:
    """Return the installed families and a file of each, the preferred ones first."""
    from matplotlib.font_manager import fontManager

    files = {entry.name: entry.fname for entry in sorted(fontManager.ttflist, key=_by_plainness)}
    ordered = [*(name for name in PREFERRED if name in files), *sorted(files)]
    return {name: files[name] for name in ordered}


def _by_plainness(entry: Any) -> tuple[bool, str]:
    """Sort the upright face last, so that it is the one kept."""
    return (str(entry.style) == "normal", str(entry.fname))


@cache
def _characters(family: str) -> frozenset[str]:
    """Return the characters a family has; none where its file cannot be read."""
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(map(chr, FT2Font(installed_fonts()[family]).get_charmap()))
    except (KeyError, OSError, RuntimeError, ValueError):
        return frozenset()
