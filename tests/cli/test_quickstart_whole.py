"""`jtrans quickstart` from end to end."""

from __future__ import annotations

import pytest
from plugins.command_line import Jtrans


@pytest.mark.slow
def test_a_quick_start_that_was_too_short_says_how_to_continue(jtrans: Jtrans) -> None:
    result = jtrans("quickstart", "--out", "first", "--minutes", "0.1")
    assert result.code == 0, result.err
    assert "jtrans quickstart --out first --minutes 0.4" in result.out.splitlines()
