"""What Moses leaves apart comes together again, and nothing else."""

from __future__ import annotations

import pytest

from jtrans.text.segment import Moses, make_segmenter

MOSES = {language: make_segmenter("moses", language) for language in ("de", "en", "fr", "sv", "vi")}


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("de", "Um 11:27 Uhr fuhr er 70 km/h, im Jahr 1968/69."),
        ("en", "See https://a.b/c_d or write to me_too@home.example.org."),
        ("en", "It’s the peoples’ choice, they’re told."),
        ("en", "“No,” he said, “never.” She said “yes”."),
        ("en", "A ‘real’ part (“so-called”) of 70–80%."),
        ("en", "It cost US$134 million; give us $5. A $5 bill."),
        ("de", "Er las „Men's Health“ von O'Connor; „ja“."),
        ("de", "Das sind 5 Millionen £ jährlich, also 100 € (90 $)."),
        ("de", "Gegen COVID‑19 bei 15 °C…"),
        ("fr", "L’eau d’en face n’a qu’une idée."),
        ("sv", "Han sade ”ja” och gick."),
        ("vi", "Anh nói: “Tốt,” và “đẹp”."),
    ],
)
def test_a_line_comes_back(language: str, line: str) -> None:
    segmenter = MOSES[language]
    assert segmenter.join(segmenter.segment(line)) == line


@pytest.mark.parametrize("line", ["Tom & Anna", "a — b", "c + d", "in the ’90s", "x = y * z"])
def test_what_is_divided_stays_as_moses_has_it(line: str) -> None:
    moses = MOSES["en"]
    assert isinstance(moses, Moses)
    words = moses.segment(line)
    assert moses.join(words) == moses._detokenizer.detokenize(words, unescape=False)
