"""Make text fit where it is shown: widths, short names, line breaks, mathematical signs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import takewhile

CUT = "…"
NAME_LETTERS = 26  # the longest name of a system beside a chart or over a column
LONG_TEXT, TAIL = 400, 100  # letters: longer sentences are cut; what is kept of their end
SEPARATORS = "/-_. "  # a beginning that names share ends after one of these
# Shares of the font size in DejaVu Sans, the widest of the usual faces: an estimate from above.
SLIM, MIDDLE, CAPITAL, BROAD, SQUARE = 0.42, 0.64, 0.78, 1.0, 1.3
SLIM_LETTERS, BROAD_LETTERS = frozenset("fijlrtI .,:;'!|()[]-/"), frozenset("mwMW@%—…")
BOLD = 1.12  # times as wide as the regular weight
MINUS = re.compile(r"(?<![^\s(<\[])-(?=\d)")  # of a number, not of a date or a name
AT_MOST = re.compile(r"<= (?=\d)")


def text_width(text: str, size: float = 12.0, *, is_bold: bool = False) -> float:
    """Return an upper estimate of the width of a text, in the unit of the font size."""
    return sum(map(_share, text)) * size * (BOLD if is_bold else 1.0)


def _share(character: str) -> float:
    if character in SLIM_LETTERS:
        return SLIM
    if character in BROAD_LETTERS:
        return BROAD
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0.0  # combined with its neighbour, or invisible
    if unicodedata.east_asian_width(character) in "WF":
        return SQUARE
    return CAPITAL if character.isupper() or not character.isascii() else MIDDLE


def shorten(text: str, most: int) -> str:
    """Cut a text of more than `most` characters, keeping brackets at its end if possible."""
    if len(text) <= most:
        return text
    tail = (most - 1) // 3
    if text.endswith(")") and 0 < (ending := len(text) - text.rfind(" (")) <= 2 * most // 3:
        tail = ending  # it names the runs: (seeds 1–3)
    return f"{text[: most - 1 - tail]}{CUT}{text[len(text) - tail :]}"


def excerpt(text: str) -> str:
    """Return a text; the middle of a long one is replaced by the number of letters left out."""
    if len(text) <= LONG_TEXT:
        return text
    left_out = f"{CUT} [{len(text) - LONG_TEXT:,} characters left out] {CUT}"
    return f"{text[: LONG_TEXT - TAIL]}{left_out}{text[-TAIL:]}"


def isolated(text: str) -> str:
    """Return a text in marks that keep its direction from changing that of the text around it."""
    return f"\u2068{text}\u2069"


def fit(text: str, width: float, size: float = 12.0, *, is_bold: bool = False) -> str:
    """Cut a text in the middle until it is at most `width` wide."""
    most = min(len(text), max(3, int(width / (SLIM * size))))  # no need to measure all of it
    while most > 3 and text_width(shorten(text, most), size, is_bold=is_bold) > width:
        most -= 1
    return shorten(text, most)


def short_names(names: Sequence[str], most: int = NAME_LETTERS) -> list[str]:
    """Return names of at most `most` letters: long ones lose a shared beginning, then their middle.

    Names that would then look the same lose the beginning that they alone share.
    """
    return _shortened(names, most, lambda name: len(name) <= most)


def fitted_names(names: Sequence[str], width: float, size: float = 12.0) -> list[str]:
    """Return the names of systems as they fit a width in bold.

    If a name does not fit, all lose their seeds, unless only the seeds tell systems apart.
    """

    def fits(name: str) -> bool:
        return text_width(name, size, is_bold=True) <= width

    if not all(map(fits, names)):
        bare = [name.rpartition(" (seeds ")[0] or name for name in names]
        names = bare if len(set(bare)) == len(set(names)) else names
    short = _shortened(names, NAME_LETTERS, lambda name: len(name) <= NAME_LETTERS and fits(name))
    return [fit(name, width, size, is_bold=True) for name in short]


def _shortened(names: Sequence[str], most: int, fits: Callable[[str], bool]) -> list[str]:
    if max(map(len, names), default=0) <= most:
        return list(names)
    start = _start(names, fits)
    first = [shorten(_without(name, start), most) for name in names]
    result = []
    for name, short in zip(names, first, strict=True):
        alike = [other for other, shortened in zip(names, first, strict=True) if shortened == short]
        is_alone = len(alike) == 1
        result.append(short if is_alone else shorten(_without(name, _start(alike, fits)), most))
    return result


def _start(names: Sequence[str], fits: Callable[[str], bool]) -> int:
    """Return after which separator of their shared beginning all names fit, or else the last."""
    if len(names) < 2:
        return 0
    shared = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    places = [place for place, (mark, *_) in enumerate(shared, start=1) if mark in SEPARATORS]
    fitting = (start for start in places if all(fits(_without(name, start)) for name in names))
    return next(fitting, places[-1] if places else 0)


def _without(name: str, start: int) -> str:
    return CUT + name[start:] if 0 < start < len(name) else name


def with_signs(text: str) -> str:
    """Return a text with the signs − and ≤ of its numbers, which a terminal writes as - and <=."""
    return AT_MOST.sub("≤ ", MINUS.sub("−", text))


def wrap(text: str, width: float) -> list[str]:
    """Break a text into lines at most `width` wide where it has spaces."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return [fit(line, width) for line in lines]
