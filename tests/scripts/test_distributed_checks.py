"""The checks of training in several processes that take too long for every run of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from jtrans.data.prepared import PreparedCorpus
from scripts import distributed


@pytest.mark.slow
def test_a_lost_node_ends_the_run_within_a_minute(corpus: PreparedCorpus, tmp_path: Path) -> None:
    result = distributed.machines(tmp_path, corpus.folder)
    assert result["ok"], result
    assert not distributed.left_over(tmp_path)
