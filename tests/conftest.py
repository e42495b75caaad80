"""What all tests share: one thread, no deadlines, and the same random numbers in any order."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded: tests run beside others

import pytest
from hypothesis import settings

# The default suite draws the same examples every time, so that a commit passes or fails for what
# it changes; `pytest --hypothesis-profile=explore` draws new and more ones. No test times the code.
settings.register_profile("jtrans", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=500)
settings.load_profile("jtrans")


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
