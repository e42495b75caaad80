"""Installed fonts that have the characters of some texts, for matplotlib."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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


@contextmanager
def drawing_style(style: Any, families: list[str]) -> Iterator[None]:
    """Draw with a style and fonts, without warnings about characters that no font has."""
    import matplotlib

    # matplotlib would report every family without a face of exactly the requested weight
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    # with the generic name: machines without these families would show an SVG in a serif font
    fonts: Any = {"font.family": [*families, "sans-serif"], "font.sans-serif": families}
    with matplotlib.rc_context({**style, **fonts}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield


def fonts_for(texts: Iterable[str]) -> tuple[list[str], str]:
    """Return the families that show some texts together, and the characters that none has.

    The default comes first: matplotlib draws each character in the first family that has it.
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
    """Return a key that sorts the upright face last, so that it is kept."""
    return (str(entry.style) == "normal", str(entry.fname))


@cache
def _characters(family: str) -> frozenset[str]:
    """Return the characters of a family; empty if its file cannot be read."""
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(map(chr, FT2Font(installed_fonts()[family]).get_charmap()))
    except (KeyError, OSError, RuntimeError, ValueError):
        return frozenset()
