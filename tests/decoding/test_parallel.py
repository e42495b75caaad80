"""A long text in pieces: what is kept of a piece with a line that cannot be translated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from plugins.random_runs import ON_CPU

from jtrans.decoding import parallel
from jtrans.decoding.lines.translation import Translation
from jtrans.decoding.parallel import Piece, TranslatedPiece, translate_pieces
from jtrans.errors import DecodingError
from jtrans.progress import Silent


class _Echo:
    """Repeats lines, except those that cannot be read, which it finds before all others, or sung.

    A real translator finds all lines that cannot be read before it searches.
    """

    def translate_nbest(
        self, lines: Sequence[str], *, first_line: int, **_: Any
    ) -> list[list[Translation]]:
        for fault in ("unreadable", "unsingable"):
            if fault in lines:
                raise DecodingError.of_line(
                    first_line + lines.index(fault), f" is {fault}", hint="none", kind="test"
                )
        return [[Translation(line, 0.0, 0.0, [], [], [])] for line in lines]


def translated(monkeypatch: pytest.MonkeyPatch, *pieces: Piece) -> list[TranslatedPiece]:
    monkeypatch.setattr(parallel, "open_translator", lambda runs, decoding: _Echo())
    with translate_pieces([], ON_CPU, pieces, workers=1, gpus=[], progress=Silent()) as results:
        return list(results)


def test_the_lines_before_a_fault_are_kept_in_every_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [Piece(["a", "b"], None, 1), Piece(["c", "d", "unsingable", "e"], None, 3)]
    whole, cut = translated(monkeypatch, *pieces)
    assert whole.fault is None
    assert [nbest[0].text for nbest in cut.translations] == ["c", "d"]
    assert cut.fault is not None and cut.fault.line == 5


def test_the_first_of_several_faults_is_the_one_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["a", "unsingable", "b", "unreadable"]
    [cut] = translated(monkeypatch, Piece(lines, None, 11))
    assert [nbest[0].text for nbest in cut.translations] == ["a"]
    assert cut.fault is not None and cut.fault.line == 12
