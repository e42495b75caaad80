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
        ("Zu\u00adsammen\u200bar\u2060beit", "Zusammenarbeit"),
        ("\u202b\u0634\u200f \u2067x\u2069\u202c\u061c", "\u0634 x"),
        ("Auf\u200clage\u200d", "Auflage"),
        ("u\u200d\u0308", "ü"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("می\u200c\u200cخواهم\u200c را", "می\u200cخواهم را"),
        ("क्\u200dष र्\u200d", "क्\u200dष र्\u200d"),
        ("ක්\u200dරි", "ක්\u200dරි"),
        ("❤\ufe0f\u200d🔥 👍🏽\u200d", "❤\ufe0f\u200d🔥 👍🏽"),
        ("🏴\U000e0067\U000e0062\U000e007f x\U000e0067", "🏴\U000e0067\U000e0062\U000e007f x"),
        ("", ""),
    ],
)
def test_only_what_cannot_be_seen_is_removed(raw: str, clean: str) -> None:
    assert normalise(raw) == clean


def test_invisible_characters_stay_where_they_are_not_to_be_stripped() -> None:
    line = "\ufeffZu\u00adsammen\u200b \u200ex\u200c"
    assert normalise(line, strip_invisible=False) == line[1:]


INVISIBLE = "a \u0308\u0300ن\u064bक\u094d👩\ufe0f🏽🏴\u200c\u200d\u200b\u00ad\u2060\u202e\U000e0067"


@given(st.one_of(st.text(st.characters()), st.text(INVISIBLE)))
def test_normalising_twice_changes_nothing_more(line: str) -> None:
    assert normalise(normalise(line)) == normalise(line)


@given(st.text(st.characters()))
def test_a_normalised_line_can_be_written_and_is_one_line(line: str) -> None:
    clean = normalise(line)
    clean.encode("utf-8")
    assert len(clean.splitlines()) <= 1
    assert clean.split(" ") == (clean.split() or [""])
