"""Whole numbers as users write them."""

from __future__ import annotations

MOST_DIGITS = 18  # as many as surely fit into 64 bits; Python itself refuses more than 4,300


def whole_number(text: str) -> int | None:
    """Return the number that ASCII digits spell, None for any other text and for huge numbers."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS
    return int(text) if is_number else None
