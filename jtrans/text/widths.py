"""Full-width forms of ASCII characters (U+FF01 to U+FF5E), as wide as Chinese characters.

Letters, digits and signs mean the same in both widths (ＡＢＣ１２３％, ABC123%), but are different
characters, and rare ones: without a rule most are unknown to a model. Punctuation is another
matter. Chinese is written with full-width commas and brackets, which references contain, and
sacreBLEU's `zh` tokeniser distinguishes ， from a comma. So NFKC and Moses'
replace-unicode-punctuation.perl, which fold both, suit input only; in output punctuation must stay.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from jtrans.text.language import base_language

_OFFSET = ord("！") - ord("!")
_NARROW = {code + _OFFSET: code for code in range(ord("!"), ord("~") + 1)}
# Punctuation that is written in full width, by language: GB/T 15834-2011, JIS X 4051 (which has ．
# as a full stop).
_MARKS = {"zh": "！（），：；？［］～", "ja": "！（），．：；？［］～"}


def narrowed(line: str, language: str) -> str:
    """Return a line with full-width forms replaced by ASCII characters.

    The punctuation of Chinese and Japanese stays in lines of these languages.
    """
    return line if line.isascii() else line.translate(_table(language))


@functools.cache
def _table(language: str) -> dict[int, int]:
    kept = map(ord, _MARKS.get(base_language(language), ""))
    return _NARROW | {code: code for code in kept}


def is_mostly_wide(lines: Iterable[str]) -> bool:
    """Return whether most Latin letters and digits of the lines are full-width."""
    wide = narrow = 0
    for line in lines:
        for character in line:
            if character.isascii():
                narrow += character.isalnum()
            elif ord(character) in _NARROW:
                wide += character.isalnum()
    return wide > narrow
