"""Whole numbers as users write them."""

from __future__ import annotations

MOST_DIGITS = 18  # always fit into 64 bits; int() refuses more than 4,300


def whole_number(text: str) -> int | None:
    """Return the number written in ASCII digits, None for other text or over `MOST_DIGITS`."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS
    return int(text) if is_number else None


def whole_numbers(text: str) -> list[int] | None:
    """Return the numbers in a text such as ``1,2,3``, None if a part of it is not a number."""
    numbers = [whole_number(part.strip()) for part in text.split(",")]
    known = [number for number in numbers if number is not None]
    return known if len(known) == len(numbers) else None
