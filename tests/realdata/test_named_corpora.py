"""Named corpora read from real folders: the sizes the catalogue promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jtrans.corpora.catalogue.load import find_entry
from jtrans.corpora.download.deliver import deliver

pytestmark = pytest.mark.realdata


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("multi30k-de-en", "multi30k"),
        ("multi30k-en-de", "multi30k"),
        ("tatoeba-de-en", "tatoeba-de-en"),
        ("tatoeba-zh-en", "tatoeba-zh-en"),
    ],
)
def test_a_folder_of_real_text_gives_the_named_corpus(
    name: str, folder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, corpora_folder: Path
) -> None:
    monkeypatch.setenv("JTRANS_CACHE", str(tmp_path))
    entry = find_entry(name)
    splits = deliver(entry, corpora_folder / folder).corpus.splits
    assert {split: len(text) for split, text in splits.items()} == dict(entry.sentences)
    assert all(text.notes == {} for text in splits.values())
