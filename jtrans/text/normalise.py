"""Normalisation of lines: text that looks the same becomes the same."""

from __future__ import annotations

import re
import unicodedata

# Control characters that are not white space, and the byte order mark.
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufeff]")
# Halves of a UTF-16 pair, which JSON may contain, but no UTF-8 file.
_SURROGATE = re.compile("[\ud800-\udfff]")


def normalise(line: str) -> str:
    """Remove differences that cannot be seen; normalising twice changes nothing more.

    Control characters and byte order marks are removed; white space of any kind (tabs, no-break
    spaces, Unicode line separators) becomes single spaces, with none at the ends; characters are
    composed (NFC: "u" + diaeresis becomes "ü", the canonical equivalent that segmenters expect).
    Case, quotes, dashes and widths stay as they are.
    """
    if not line.isascii():
        line = unicodedata.normalize("NFC", _SURROGATE.sub("\ufffd", _CONTROL.sub("", line)))
    elif not line.isprintable():
        line = _CONTROL.sub("", line)
    return " ".join(line.split())
