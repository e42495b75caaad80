"""Normalisation of lines: text that looks the same becomes the same."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import regex

# Control characters that are not white space, and the byte order mark.
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufeff]")
# Lone surrogates, which JSON may contain, but no UTF-8 file.
_SURROGATE = re.compile("[\ud800-\udfff]")
# Soft hyphens, zero-width spaces, word joiners, invisible operators, Hangul fillers, annotation
# marks, and characters that set the direction of writing.
_INVISIBLE = re.compile(
    "[\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\uffa0\ufff9-\ufffb\U000e0001]"
)
# Joiners without effect. A joiner has a meaning between letters of scripts whose letters join
# (Persian prefixes), after letters of India and its neighbours (half forms), and between emoji;
# tags have a meaning in flags. Of several joiners only the first counts.
_JOINING = r"[\p{Arabic}\p{Syriac}\p{Mongolian}\p{Nko}]"
_STACKING = (
    r"[\p{Devanagari}\p{Bengali}\p{Gurmukhi}\p{Gujarati}\p{Oriya}\p{Tamil}\p{Telugu}\p{Kannada}"
    r"\p{Malayalam}\p{Sinhala}\p{Tibetan}\p{Myanmar}\p{Khmer}\p{Javanese}\p{Balinese}]"
)
_JOINER = re.compile("[\u200c\u200d\U000e0020-\U000e007f]")
_PICTURE = r"\p{Extended_Pictographic}"
_USELESS_JOINER: Any = regex.compile(
    rf"(?<!{_STACKING}\p{{M}}*|{_JOINING}\p{{M}}*(?=[\u200c\u200d]+{_JOINING})"
    rf"|{_PICTURE}[\ufe0f\p{{Emoji_Modifier}}]*(?=\u200d{_PICTURE}))[\u200c\u200d]"
    r"|(?<![\U0001f3f4\U000e0020-\U000e007f])[\U000e0020-\U000e007f]+"
)


def normalise(line: str, *, strip_invisible: bool = True) -> str:
    """Remove differences that cannot be seen; normalising twice changes nothing more.

    Control characters and byte order marks are removed, and with `strip_invisible` all characters
    that cannot be seen (soft hyphens, zero-width spaces, direction marks), except joiners where
    they change how letters or emoji look; white space of any kind (tabs, no-break
    spaces, Unicode line separators) becomes single spaces, with none at the ends; characters are
    composed (NFC: "u" + diaeresis becomes "ü", the canonical equivalent that segmenters expect).
    Case, quotes, dashes and widths stay as they are.
    """
    if not line.isascii():
        line = _SURROGATE.sub("\ufffd", _CONTROL.sub("", line))
        if strip_invisible:
            line = _INVISIBLE.sub("", line)
            if _JOINER.search(line):
                line = _USELESS_JOINER.sub("", line)
        line = unicodedata.normalize("NFC", line)
    elif not line.isprintable():
        line = _CONTROL.sub("", line)
    return " ".join(line.split())
