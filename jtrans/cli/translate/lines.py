"""The lines of the input, as text or as JSON, and the objects written for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from jtrans.cli.translate.constraints import constraint_fields
from jtrans.decoding.lines.json_lines import no_source, read_json, source_of
from jtrans.errors import CorpusError

if TYPE_CHECKING:
    from jtrans.decoding.lines.translation import Translation

Line = TypeVar("Line", str, bytes)
Result = TypeVar("Result")


@dataclass(frozen=True)
class InputLine:
    """A line to translate."""

    number: int  # from 0
    source: str
    fields: Mapping[str, Any]  # of its JSON object
    constraints: Mapping[str, Any]  # among these fields, by field of `Constraints`


def until_refused(
    read: Callable[[Line, int], Result], lines: Sequence[Line], first: int
) -> tuple[list[Result], CorpusError | None]:
    """Read lines up to one that is refused, so that those before it can be translated.

    Args:
        read: reads a line, given with its number.
        lines: the lines.
        first: the number of the first line.

    Returns:
        What was read, and the error of the line that was refused, None if there is none.
    """
    results: list[Result] = []
    for number, line in enumerate(lines, first):
        try:
            results.append(read(line, number))
        except CorpusError as fault:
            return results, fault
    return results, None


def read_object(line: str, number: int, name: str) -> InputLine:
    """Read a line of JSON; `number` counts from 0.

    Raises:
        CorpusError: it is not an object with a source and valid constraints.
    """
    try:
        return line_of(read_json(line), number)
    except ValueError as fault:
        raise no_source(number + 1, name, fault) from fault


def line_of(fields: Any, number: int) -> InputLine:
    """Return the line to translate that an input object describes.

    Raises:
        ValueError: saying what `fields` is instead.
    """
    return InputLine(number, source_of(fields), fields, constraint_fields(fields))


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
