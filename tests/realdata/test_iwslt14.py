"""The real IWSLT14 files: read, segmented and cleaned as the published preparation has them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from plugins.cleaning import clean

from jtrans.corpora.catalogue.load import find_entry
from jtrans.corpora.download.search import find_part, list_files
from jtrans.corpora.formats.readers import read_choice
from jtrans.corpora.lines import read_line_file
from jtrans.corpora.parallel import join_texts
from jtrans.preparation.clean import Rules
from jtrans.text.pipeline import TextSide

pytestmark = pytest.mark.realdata


@pytest.fixture(scope="module")
def folder(corpora_folder: Path) -> Path:
    return corpora_folder / "iwslt14-de-en"


@pytest.mark.parametrize("side", [0, 1], ids=["de", "en"])
def test_the_raw_test_sets_give_the_published_text(folder: Path, side: int) -> None:
    entry = find_entry("iwslt14-de-en")
    folders = [list_files(folder / "raw")]
    parts = [find_part(folders, part) for part in entry.parts["test"]]
    text = join_texts(
        [read_choice(f.choice, f.sources, f.targets, entry.languages) for f in parts if f]
    )
    language = entry.languages[side]
    segmenter = TextSide(language, "moses-escaped", lowercase=True)
    ours = [" ".join(segmenter.segment(line)) for line in (text.source, text.target)[side]]
    published = read_line_file(folder / f"test.{language}.gz")
    pairs = list(zip(ours, published, strict=True))
    assert len(pairs) == entry.sentences["test"] == 6750
    different = [i for i, (our, theirs) in enumerate(pairs, start=1) if our != theirs]
    assert different == []


def test_the_published_valid_set_is_clean_by_our_rules(folder: Path) -> None:
    options = find_entry("iwslt14-de-en").options
    chosen = {rule.name: options[rule.name] for rule in fields(Rules)}
    rules = Rules(**chosen)  # type: ignore[arg-type]
    sides = [read_line_file(folder / f"valid.{language}.gz") for language in ("de", "en")]
    cleaning = clean(*sides, rules=rules)
    assert (len(cleaning.kept), sum(cleaning.dropped.values())) == (7283, 0)
