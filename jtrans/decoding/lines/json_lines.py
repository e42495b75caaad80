"""JSON lines: what `jtrans translate --format jsonl` writes, and what may be given to it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from jtrans.errors import CorpusError


def read_json(text: str) -> Any:
    """Read JSON.

    Raises:
        ValueError: it is not valid, or not text; the message says what it is instead.
    """
    try:
        value = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise ValueError("not valid JSON (too many brackets)") from None
    except ValueError as error:  # of JSON, or of an integer with thousands of digits
        fault = getattr(error, "msg", "NaN, Infinity or too large a number")
        raise ValueError(f"not valid JSON ({fault})") from None
    if "\\ud" in text.lower() and not _is_unicode(value):
        raise ValueError("not text: half of a pair of escapes \\ud800 to \\udfff")
    return value


def source_texts(lines: list[str], name: str) -> list[str]:
    """Return the field `source` of lines of JSON; other lines as they are.

    Raises:
        CorpusError: the lines are JSON objects, and one of them has no source.
    """
    if not is_json_lines(lines):
        return lines
    texts: list[str] = []
    for number, line in enumerate(lines, start=1):
        try:
            texts.append(source_of(read_json(line)))
        except ValueError as fault:
            raise no_source(number, name, fault) from fault
    return texts


def source_of(fields: Any) -> str:
    """Return the field `source` of an object.

    Raises:
        ValueError: there is none; the message says what it is instead.
    """
    if not (isinstance(fields, dict) and isinstance(fields.get("source"), str)):
        raise ValueError("not an object with a string field `source`")
    if "\0" in fields["source"]:
        raise ValueError("not text: zero byte in its field `source`")
    return str(fields["source"])


def no_source(number: int, name: str, fault: ValueError) -> CorpusError:
    """Return the error for a line, counted from 1, that is not the object of a source line."""
    return CorpusError(
        f"line {number:,} of {name} is {fault}",
        where=f"{name}:{number}",
        hint='each line must look like {"source": "Ein Mann liest ."}',
        kind="corpus.jsonl",
    )


def not_translated(number: int, name: str) -> CorpusError:
    """Return the error for a line, counted from 1, that is not the object of a translation."""
    return CorpusError(
        f"line {number:,} of {name} is not the object of a translation",
        where=f"{name}:{number}",
        hint='every line needs "translations", as jtrans translate RUN --format jsonl writes them',
        kind="corpus.jsonl",
    )


def is_json_lines(lines: Sequence[str]) -> bool:
    """Return whether lines are JSON objects rather than text, by the first that is not empty."""
    try:
        return isinstance(read_json(next(filter(str.strip, lines), "")), dict)
    except ValueError:
        return False


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(number)
    return value


def _is_unicode(fields: Any) -> bool:
    """Return whether an object can be written as UTF-8."""
    try:
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
