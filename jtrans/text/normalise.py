"""One line of text in one form: what looks the same is the same."""

from __future__ import annotations

import re
import unicodedata

# Control characters that are not white space, and the byte order mark.
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufeff]")
# Halves of a UTF-16 pair (JSON can smuggle them in): no UTF-8 file can hold them.
_SURROGATE = re.compile("[\ud800-\udfff]")


def normalise(line: str) -> str:
    """Remove what no reader of the line can see; applying it twice changes nothing more.

    Control characters and byte order marks go; white space of any kind (tabs, no-break
    spaces, Unicode line separators) becomes single spaces, none at the ends; characters are
    composed (NFC: "u" + diaeresis becomes "ü", which canonically is the same text, and which
    segmenters understand). Case, quotes, dashes, widths stay as they are.
    """
    if not line.isascii():
        line = unicodedata.normalize("NFC", _SURROGATE.sub("\ufffd", _CONTROL.sub("", line)))
    elif not line.isprintable():
        line = _CONTROL.sub("", line)
    return " ".join(line.split())
