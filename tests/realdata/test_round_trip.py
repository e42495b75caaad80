"""Raw text to ids and back on real text: how many lines come back exactly.

`scripts/bench/round_trip.py` measures, and lists what cannot come back; here its figures have
bounds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.bench import round_trip

pytestmark = pytest.mark.realdata

# The least share of lines, in per cent, that must come back exactly, source and target.
LEAST = {
    "3am-zh-en": (98, 96),
    "alt-en-vi": (94, 92),
    "europarl-de-en": (97, 96),
    "iwslt14-de-en": (100, 100),
    "iwslt14-de-en/raw": (85, 85),  # "Ja , guten Tag ." stands in it
    "iwslt15-en-vi": (100, 100),
    "msctd-zh-en": (99, 100),
    "multi30k": (99, 99),
    "multi30k/fr": (99, 99),
    "python-docs-zh-en": (15, 28),
    "tatoeba-de-en": (99.5, 99.5),
    "tatoeba-zh-en": (98, 99.5),
    "vlsp2020-en-vi": (95, 92),
}


def test_every_corpus_has_a_bound() -> None:
    assert set(LEAST) == set(round_trip.CORPORA)


@pytest.mark.parametrize("name", LEAST)
def test_lines_come_back(name: str, tmp_path: Path, corpora_folder: Path) -> None:
    results = round_trip.measure(name, corpora_folder, tmp_path, train=8000)
    assert [len(results), *(one.lines for one in results)] == [2, 1000, 1000]
    for one, least in zip(results, LEAST[name], strict=True):
        assert one.exact >= least and one.but_for_spaces == 100
        assert one.stable >= 97  # a second round trip hardly changes anything more
        assert one.with_unknown < 300
