"""What normalising removes and what it leaves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtrans.text.normalise import normalise


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("\ufeffEin Haus", "Ein Haus"),
        ("  ein \t Haus\r\n", "ein Haus"),
        ("ein\u00a0kleines\u2028Haus\u3000hier", "ein kleines Haus hier"),
        ("Ha\x00us\x07", "Haus"),
        ("Fu\u0308\x01ße", "F\u00fcße"),
        ("half \ud800 pair", "half \ufffd pair"),
        ("„Straße“ – ’s ＡＢＣ", "„Straße“ – ’s ＡＢＣ"),
        ("👩\u200d👧", "👩\u200d👧"),
        ("", ""),
    ],
)
def test_only_what_cannot_be_seen_is_removed(raw: str, clean: str) -> None:
    assert normalise(raw) == clean


@given(st.text(st.characters()))
def test_normalising_twice_changes_nothing_more(line: str) -> None:
    assert normalise(normalise(line)) == normalise(line)


@given(st.text(st.characters()))
def test_a_normalised_line_can_be_written_and_is_one_line(line: str) -> None:
    clean = normalise(line)
    clean.encode("utf-8")
    assert len(clean.splitlines()) <= 1
    assert clean.split(" ") == (clean.split() or [""])
