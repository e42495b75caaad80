"""Missing references: blank lines of a reference set where other sets have a reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

Reference = TypeVar("Reference", bound=Sequence[str])  # raw text or words


def present(alternatives: Sequence[Reference]) -> list[Reference]:
    """Return the references of a sentence that are not blank, or all if every one is blank.

    A blank line beside other references is a missing one. Counted as a reference of no words, it
    would spare short translations the brevity penalty.
    """
    return [each for each in alternatives if not _is_blank(each)] or list(alternatives)


def without_missing(references: Sequence[Sequence[Reference]]) -> list[list[Any]]:
    """Return reference sets with None in place of missing references.

    sacreBLEU accepts this, although its types do not say so.
    """
    has_any = [
        not all(map(_is_blank, alternatives)) for alternatives in zip(*references, strict=True)
    ]
    return [
        [
            None if has and _is_blank(line) else line
            for has, line in zip(has_any, lines, strict=True)
        ]
        for lines in references
    ]


def _is_blank(reference: Sequence[str]) -> bool:
    return not (reference.strip() if isinstance(reference, str) else reference)
