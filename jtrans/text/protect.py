"""Strings that segmentation leaves in one piece: addresses, paths, ``C++``, times, emoji.

The Moses tokeniser splits them at their punctuation, and no rules can join all of them again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import regex

# Letters and digits of scripts that are written without spaces between words.
UNSPACED = (
    r"\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"
    r"\p{Javanese}\p{Balinese}\p{Tai_Tham}\p{New_Tai_Lue}\p{Tai_Viet}"
)
# A letter, digit or mark of the other scripts, in the syntax of regex's version 1.
SPACED = rf"[\p{{L}}\p{{M}}\p{{N}}_--[{UNSPACED}]]"

# Each pattern begins where a string may begin, and nowhere within it: a line that is one long word
# (base64, a genome) then takes time in proportion to its length.

# Korean particles follow an address without a space.
_URL_PART = rf"[^\s<>()\"\p{{Pi}}\p{{Pf}}\p{{scx=Hangul}}{UNSPACED}]"
_URL_END = rf"[{_URL_PART}--[.,;:!?'*\]}}|]]"
_URL = (
    rf"(?:(?<!{SPACED})[A-Za-z][A-Za-z0-9+.\-]{{0,30}}://|(?<!{SPACED})www\.)"
    rf"(?:{_URL_PART}|\({_URL_PART}*\))*(?:{_URL_END}|\({_URL_PART}*\))"
)
_EMAIL = (
    rf"(?<![.%+\-]|{SPACED}'?)(?:mailto:)?(?:{SPACED}|[.%+\-]|(?<={SPACED})'(?={SPACED}))+"
    rf"@(?:{SPACED}|-)+(?:\.(?:{SPACED}|-)+)+"
)
# C++, C++11, C#
_LANGUAGE = rf"(?<!{SPACED}){SPACED}+(?:\++(?:\p{{Nd}}+)?|\#)(?!{SPACED}|\+|\#)"
_TAG = rf"(?<!{SPACED}|&)[\#@]{SPACED}+(?:\++(?!{SPACED}))?"  # #topic, @name, #C++
_NAME = rf"(?:{SPACED}|[.~$%\-])*"
_PATH = (  # C:\Users\me, and \\server\folder
    rf"(?:(?<!{SPACED})[A-Za-z]:|(?<![^\s(\"'\p{{Pi}}])\\)"
    rf"(?:\\{_NAME})*\\{_NAME}{SPACED}\\?"
)
_TIME = r"(?<!\p{Nd})\p{Nd}+(?::\p{Nd}+)+"  # 12:30, and scores of games
_JOINED = (
    rf"(?<!{SPACED}){SPACED}+(?:[\u200c\u200d]+{SPACED}*)+"  # half forms, and Persian prefixes
)
_EMOJI = (
    r"(?:\p{Regional_Indicator}{2}|[0-9\#*]\ufe0f?\u20e3|"
    r"\p{Extended_Pictographic}(?:\ufe0f|\p{Emoji_Modifier})?[\U000e0020-\U000e007f]*"
    r"(?:\u200d\p{Extended_Pictographic}(?:\ufe0f|\p{Emoji_Modifier})?)*)+"
)
# Words are the same as from sacremoses with the matches as `protected_patterns`.
PATTERNS = (_URL, _EMAIL, _LANGUAGE, _TAG, _PATH, _TIME, _JOINED, _EMOJI)
PROTECTED: Any = regex.compile("|".join(f"(?:{pattern})" for pattern in PATTERNS), regex.V1)
# Every match contains one of these signs, and few lines do.
_SIGN = re.compile(
    r":(?=[/0-9\\])|\\\\|[@#+\xa9\xae\u200c\u200d\u203c-\u3299\U0001f000-\U0001faff]|www[.]"
)

_STAND_IN = "THISISPROTECTED"  # sacremoses' own: a word that no rule splits
_NUMBERED = re.compile(f"{_STAND_IN}([0-9]{{3}})")
_MOST = 1000  # strings in a line; a line with more is hardly a sentence


def hide(line: str) -> tuple[str, list[str]]:
    """Replace protected strings with stand-ins; return the line and the strings."""
    strings: list[str] = []
    if not _SIGN.search(line) or _STAND_IN in line:
        return line, strings

    def stand_in(match: Any) -> str:
        strings.append(match.group())
        return f"{_STAND_IN}{len(strings) - 1:03d}"

    return PROTECTED.sub(stand_in, line, count=_MOST), strings


def show(text: str, strings: Sequence[str]) -> str:
    """Replace the stand-ins with their strings again."""
    return _NUMBERED.sub(lambda match: strings[int(match[1])], text) if strings else text
