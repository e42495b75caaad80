"""What tests of commands work on: a corpus, and lines to translate."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugins.command_line import SOURCE

from jtrans.data.prepared import PreparedCorpus


@pytest.fixture
def corpus(nouns: PreparedCorpus) -> PreparedCorpus:
    """Twelve test sentences, the pieces of the words shorter than words, in `data`."""
    return nouns


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file of lines to translate, one of them empty."""
    path = tmp_path / "source.de"
    path.write_text(SOURCE, encoding="utf-8")
    return path
