"""Repairs of wrong spaces that detokenizer.perl leaves: "11: 30", "km / h", "he said ”".

Each rule removes (a few add) a space where that is almost always right; where usage
varies ("a—b" and "a — b", "A&M" and "A & M"), the line stays as Moses joins it.
"""

from __future__ import annotations

import re

Rule = tuple[re.Pattern[str], str]


def _rule(pattern: str, replacement: str, flags: int = 0) -> Rule:
    return re.compile(pattern, flags), replacement


_EVERYWHERE = [
    _rule(r"(?<!\w)([0-5]?[0-9]): (?=[0-5][0-9](?!\w))", r"\1:"),  # 11: 30
    _rule(r"\b(https?|ftp): / / ?", r"\1://", re.IGNORECASE),
    _rule(r"(?<=[^\W_]) / (?=[^\W_])", "/"),  # km / h, 2012 / 13
    _rule(r"(?<=\w) _ (?=\w)", "_"),
    _rule(r"(?<=\w) @ (?=[\w-]+\.\w)", "@"),  # me @ home.de
    _rule(r"(?<=\d) – (?=\d)", "–"),  # 70 – 80
    _rule(r"(?<=\w) ‑ (?=\w)", "‑"),  # the non-breaking hyphen
    _rule(r"(?<=\w) …", "…"),
    _rule(r"° (?=[CF]\b)", "°"),
    _rule(r"\b(US|NZ|HK|NT|AU) \$ ?(?=\d)", r"\1$"),
    _rule(r"(?<=[^\W\d_]) ’ (?=(?:[sdtm]|re|ve|ll)(?!\w))", "’", re.IGNORECASE),  # it ’ s
]
_ELISION = _rule(r"(?<!\w)([cdjlmnst]|\w*qu) ’ (?=\w)", r"\1’", re.IGNORECASE)  # l ’ eau
# Typographic quotes; these rules come after those for apostrophes.
_CLOSING = [_rule(r" ”", "”"), _rule(r"(?<=[\w.,!?]) ’(?! ?\d)", "’")]
_OPENING_DOUBLE = _rule(r"(?<=[^\s(\[/—–-])“ (?=\S)", " “")
_OPENING_SINGLE = _rule(r"‘ (?=\w)", "‘")
# detokenizer.perl handles these in English only; in other languages they occur in names.
_NOT_ENGLISH = [
    _rule(r"(?<=\w)( '|' )(?=s\b)", "'"),  # Men 's Health, or Men' s, as quotes do
    _rule(r"(?<=\b[OD])( '|' )(?=[^\W\d_])", "'"),  # O 'Connor
    _rule(r"(?<=\w [€£$¥])(?=[^\W\d_]|\()", " "),  # 5 Millionen £jährlich
]
_SAME_ON_BOTH_SIDES = _rule(r"(?<!\S)” ([^”]+?) ”", r"”\1”")  # in Finnish and Swedish


class Repairs:
    """The rules for one language."""

    def __init__(self, language: str) -> None:
        self._rules = list(_EVERYWHERE)
        if language in ("fr", "it"):
            self._rules.append(_ELISION)
        self._rules += [_SAME_ON_BOTH_SIDES] if language in ("fi", "sv") else _CLOSING
        if language != "en":
            self._rules += _NOT_ENGLISH

    def apply(self, line: str) -> str:
        """Repair the spaces in a line that detokenizer.perl's rules have joined."""
        for pattern, replacement in self._rules:
            line = pattern.sub(replacement, line)
        if "“" in line and "„" not in line:  # “ is the closing quote of „so“
            line = _OPENING_DOUBLE[0].sub(_OPENING_DOUBLE[1], line)
        if "‘" in line and "‚" not in line:
            line = _OPENING_SINGLE[0].sub(_OPENING_SINGLE[1], line)
        return line
