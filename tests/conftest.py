"""What all tests share: one thread, no deadlines, and the same random numbers in any order."""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded: tests run beside others

import pytest
from hypothesis import settings

settings.register_profile("jtrans", deadline=None)  # no test times the code
settings.load_profile("jtrans")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Seed torch where it is loaded already; tests without it stay fast."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(1)


pytest_plugins = [
    "plugins.folders",
    "plugins.installed_systems",
    "plugins.pictures",
    "plugins.random_runs",
    "plugins.small_corpus",
    "plugins.tagging_system",
]
