"""What all tests share: one thread, no deadlines, and the same random numbers in any order."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import tempfile
from collections.abc import Iterator

# Before torch is loaded: tests run beside others, and some fork this process after it has computed,
# which OpenMP's threads do not survive.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
from hypothesis import settings

# The default suite draws the same examples every time, so that a commit passes or fails for what
# it changes; `pytest --hypothesis-profile=explore` draws new and more ones. No test times the code.
settings.register_profile("jtrans", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=500)
settings.load_profile("jtrans")

_CACHE = tempfile.TemporaryDirectory(prefix="jtrans-tests-")  # until this process ends
os.environ["JTRANS_CACHE"] = _CACHE.name  # not the user's: new runs keep there what they measure


def pytest_configure() -> None:
    """Let processes that tests start get the signals that nohup or a shell's ``&`` ignores here.

    A process inherits what is ignored, but no handler.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the garbage collector away from what stays: torch, the modules and thousands of tests.

    Each of its full collections would take most of a second.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all but N cases of a test with `sample(N)` as thorough, always the same ones."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sample") and not item.get_closest_marker("slow"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, group in cases.items():
        size = len(group) - next(group[0].iter_markers("sample")).args[0]
        for item in random.Random(name).sample(group, max(0, size)):
            item.add_marker("thorough")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Seed torch where it is loaded already; tests without it stay fast."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(1)


pytest_plugins = [
    "plugins.commands_here",
    "plugins.folders",
    "plugins.installed_systems",
    "plugins.pictures",
    "plugins.random_runs",
    "plugins.small_corpus",
    "plugins.tagging_system",
]
