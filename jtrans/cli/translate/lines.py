"""The lines of the input, as text or as JSON, and the objects written for them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from jtrans.cli.translate.constraints import constraint_fields
from jtrans.errors import CorpusError

if TYPE_CHECKING:
    from jtrans.decoding.lines.translation import Translation

Line = TypeVar("Line", str, bytes)
Result = TypeVar("Result")


@dataclass(frozen=True)
class InputLine:
    """A line to translate, with the fields of its object and the constraints among them."""

    number: int
    source: str
    fields: Mapping[str, Any]
    constraints: Mapping[str, Any]


def until_refused(
    read: Callable[[Line, int], Result], lines: Sequence[Line], first: int
) -> tuple[list[Result], CorpusError | None]:
    """Read lines up to one that is refused, so that those before it can be answered.

    Args:
        read: from a line and its number.
        lines: to be read.
        first: the number of the first.

    Returns:
        What was read, and why the next line was refused; None if all were read.
    """
    results: list[Result] = []
    for number, line in enumerate(lines, first):
        try:
            results.append(read(line, number))
        except CorpusError as fault:
            return results, fault
    return results, None


def read_object(line: str, number: int, name: str) -> InputLine:
    """Read a line of JSON; lines are counted from 0.

    Raises:
        CorpusError: it is no object with a text and perhaps constraints.
    """
    try:
        return line_of(read_json(line), number)
    except ValueError as fault:
        raise CorpusError(
            f"line {number + 1:,} of {name} is {fault}",
            where=f"{name}:{number + 1}",
            hint='each line must look like {"source": "Ein Mann liest ."}',
            kind="corpus.jsonl",
        ) from fault


def read_json(text: str) -> Any:
    """Read JSON.

    Raises:
        ValueError: the message says what it is instead, or what it holds that no line may hold.
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


def line_of(fields: Any, number: int) -> InputLine:
    """Return the line that an object stands for.

    Raises:
        ValueError: the message says what it is instead.
    """
    if not (isinstance(fields, dict) and isinstance(fields.get("source"), str)):
        raise ValueError("not an object with a string field `source`")
    if "\0" in fields["source"]:
        raise ValueError("not text: zero byte in its field `source`")
    return InputLine(number, fields["source"], fields, constraint_fields(fields))


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


def to_object(line: InputLine, translations: Sequence[Translation]) -> dict[str, Any]:
    """Return the object that is written for a line: its own fields and its translations."""
    entries = [
        {
            name: value
            for name, value in vars(translation).items()
            if name != "words" and value is not None
        }
        for translation in translations
    ]
    return {"id": line.number, "source": line.source, **line.fields, "translations": entries}


def best_texts(lines: list[str], name: str) -> list[str]:
    """Return the best translations of lines that `to_object` made; other lines as they are.

    Raises:
        CorpusError: the first line is such an object, and a later one is not.
    """
    texts: list[str] = []
    for number, line in enumerate(lines, start=1):
        try:
            texts.append(str(read_json(line)["translations"][0]["text"]))
        except (ValueError, TypeError, LookupError) as error:
            if not texts:
                return lines
            raise CorpusError(
                f"line {number:,} of {name} is not the object of a translation, as those before it",
                where=f"{name}:{number}",
                hint="translate again: jtrans translate RUN --format jsonl",
                kind="corpus.jsonl",
            ) from error
    return texts
