"""Repairs of wrong spaces that detokenizer.perl leaves: "11: 30", "km / h", "he said ”".

Each rule removes (a few add) a space where that is almost always right; where usage
varies ("a—b" and "a — b", "A&M" and "A & M"), the line stays as Moses joins it.

detokenizer.perl handles the marks of Latin, Greek and Cyrillic text only, and treats apostrophes as
quotes in most languages. So there are rules for the marks of other scripts, and for apostrophes and
colons inside words in languages where few quotes look the same.
"""

from __future__ import annotations

import re

Rule = tuple[re.Pattern[str], str]


def _rule(pattern: str, replacement: str, flags: int = 0) -> Rule:
    return re.compile(pattern, flags), replacement


def _inside(before: str, signs: str, after: str) -> Rule:
    """Return a rule that joins a sign inside a word to what stands before and after it."""
    return _rule(rf"({before}) ?([{signs}]) ?(?={after})", r"\1\2", re.IGNORECASE)


_EVERYWHERE = [
    _rule(r"(?<!\w)([0-5]?[0-9]): (?=[0-5][0-9](?!\w))", r"\1:"),  # 11: 30
    _rule(r"\b(https?|ftp): / / ?", r"\1://", re.IGNORECASE),
    _rule(r"(?<=[^\W_]) / (?=[^\W_])", "/"),  # km / h, 2012 / 13
    _rule(r"(?<=\w) _ (?=\w)", "_"),
    _rule(r"(?<=\w) @ (?=[\w-]+\.\w)", "@"),  # me @ home.de
    _rule(r"(?<=\d) – (?=\d)", "–"),  # 70 – 80
    _rule(r"(?<=\w) ‑ (?=\w)", "‑"),  # the non-breaking hyphen
    # joiners of letters; not after the virama of Malayalam, where they end words
    _rule(r"(?<=[^\s\u0d4d]) ([\u200c\u200d]) (?=\S)", r"\1"),
    _rule(r"(?<=\w) …", "…"),
    _rule(r"° (?=[CF]\b)", "°"),
    _rule(r"\b(US|NZ|HK|NT|AU) \$ ?(?=\d)", r"\1$"),
    _rule(r"(?<=[^\W\d_]) ’ (?=(?:[sdtm]|re|ve|ll)(?!\w))", "’", re.IGNORECASE),  # it ’ s
    _rule(r"(?<=\S) (?=[،؛؟۔।॥።፣፤፥፦։՝])", ""),  # of Arabic, Indic, Ethiopic, Armenian text
    _rule(r"(?<=\d) ([٫٬]) (?=\d)", r"\1"),  # separators of Arabic digits
    _rule(r"(?<=\d) ٪", "٪"),
]
_ELISION = _rule(r"(?<!\w)([cdjlmnst]|\w*qu) ’ (?=\w)", r"\1’", re.IGNORECASE)  # l ’ eau
# Typographic quotes; these rules come after those for apostrophes.
_CLOSING = [_rule(r" ”", "”"), _rule(r"(?<=[\w.,!?]) ’(?! ?\d)", "’")]
_OPENING_DOUBLE = _rule(r"(?<=[^\s(\[/—–-])“ (?=\S)", " “")
_OPENING_SINGLE = _rule(r"‘ (?=\w)", "‘")
_DUTCH_TIME = "s (?:avonds|middags|morgens|nachts|ochtends|winters|zomers)\\b"
# detokenizer.perl handles these in English only; in other languages they occur in names.
_NOT_ENGLISH = [
    # Men 's Health or Men' s Health, spaced like quotes
    _rule(rf"(?<=\w)( '|' )(?=s\b)(?!{_DUTCH_TIME})", "'"),
    _rule(r"(?<=\b[OD])( '|' )(?=[^\W\d_])", "'"),  # O 'Connor
    _rule(r"(?<=\w [€£$¥])(?=[^\W\d_]|\()", " "),  # 5 Millionen £jährlich
]
# What stands before and after an apostrophe inside a word, by language.
_TURKISH_SUFFIX = (
    r"(?:[yn]?[aeıiuüə]|[yns]?[ıiuü]n(?:[aeıiuü]n?|ki\w*)?|[nsy]?[ıiuü]|n?[dt][aeə]n?"
    r"|[dt][aeə]k[ıi]\w*|[dt][ıiuü]r|l[aeə]r\w*|y?l[aeə]|l[ıiuü]k?|s[ıiuü]z|ki|c[aeəıiuü]"
    r"|[ıiuü]?nc[ıiuü]\w*)(?![\w'’])"  # before another apostrophe it is a quoted word
)
# not after another apostrophe, as in a quoted letter: 'd'
_APOSTROPHES = {
    "az": [(r"(?<![\w'’])\w+", _TURKISH_SUFFIX)],
    "be": [("[бвгджзклмнпрстфхцчш]", r"[еёіуюя]\w*(?![\w'’])")],
    "br": [("c", "h")],
    "ca": [(r"(?<![\w'’])[dlmnst]", r"\w"), (r"\w", r"(?:hi|ho|ls?|m|ns?|s|t)(?![\w'’])")],
    "ga": [(r"(?<![\w'’])[bdm]", r"\w")],
    "gl": [(r"(?<![\w'’])d", r"\w")],
    "lb": [(r"(?<![\w'’])[dmnst]", r"\w")],
    "nl": [(r"(?<!\w)zo", r"n(?!\w)")],
    "pt": [(r"(?<![\w'’])d", r"\w")],
    "sq": [(r"(?<![\w'’])[çmnst]", r"\w")],
    "sw": [("ng", "[aeiou]")],
    "tr": [(r"(?<![\w'’])\w+", _TURKISH_SUFFIX)],
    "uk": [("[бвгґджзклмнпрстфхцчшщ]", r"[єїюя]\w*(?![\w'’])")],
    "uz": [("o", "[a-z]")],
}
_FINNISH_SUFFIX = (
    "(?:n|t|[st]t[aä]|t[aä]|ss[aä]|l[lt][aä]|lle|ksi|kse|iin|een|seen|h[uy]n)(?!\\w|\\. ?\\d)"
)
_OF_LANGUAGE = {
    "ca": [_inside("l", "·", "l")],
    "fi": [_inside(r"\w", ":", _FINNISH_SUFFIX)],  # EU:n
    "he": [_rule(r"(?<=[א-ת])(?: \"|\" )(?=[א-ת](?![א-ת]| ?\"))", '"')],  # abbreviations
    # question and exclamation marks follow a vowel; a rest without vowels is no word of its own
    "hy": [_rule(r"(?<=[Ա-և]) ([՛՜՞])(?: (?=[բ-դզթժլ-նշչ-ւփ-ֆ]+(?!\w)))?", r"\1")],
    "it": [_rule(r"(?<!\w)(po|mo) '(?=\w)", r"\1' ", re.IGNORECASE)],  # un po' d'acqua
    "nl": [_rule(rf"(?<=\S)' (?={_DUTCH_TIME})", " '")],
    "sv": [_rule(r"(?<=[A-ZÅÄÖ\d]): (?=[ns](?!\w|\. ?\d))", ":")],  # EU:s
    "uz": [_rule(r"(?<=g) '(?=[a-z])", "'", re.IGNORECASE)],  # but bog' ends a word
}
_SAME_ON_BOTH_SIDES = _rule(r"(?<!\S)” ([^”]+?) ”", r"”\1”")  # in Finnish and Swedish


class Repairs:
    """The rules for one language."""

    def __init__(self, language: str) -> None:
        self._rules = list(_EVERYWHERE)
        self._has_narrow_guillemets = language != "fr"
        if language in ("fr", "it"):
            self._rules.append(_ELISION)
        for before, after in _APOSTROPHES.get(language, []):
            self._rules.append(_inside(before, "'’", after))
        self._rules += _OF_LANGUAGE.get(language, [])
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
        marks = [mark for mark in line if mark in "«»"]
        if self._has_narrow_guillemets and marks and marks[0] != marks[-1]:
            line = line.replace(f"{marks[0]} ", marks[0]).replace(f" {marks[-1]}", marks[-1])
        return line
