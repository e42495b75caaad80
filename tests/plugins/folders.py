"""Folders that tests read, and what is in a folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
# numbers of the published implementation; they lie outside the repository
GOLDEN = Path(os.environ.get("JTRANS_TEST_GOLDEN") or REPOSITORY.parent / "shared" / "golden")
needs_golden = pytest.mark.skipif(
    not GOLDEN.is_dir(), reason="no golden data: set JTRANS_TEST_GOLDEN to its folder"
)

# numbers of the original implementations of other systems, one folder a model
GOLDEN_SYSTEMS = Path(
    os.environ.get("JTRANS_TEST_GOLDEN_SYSTEMS") or REPOSITORY.parent / "shared" / "golden-systems"
)
needs_golden_systems = pytest.mark.skipif(
    not GOLDEN_SYSTEMS.is_dir(), reason="no golden data: set JTRANS_TEST_GOLDEN_SYSTEMS"
)


@pytest.fixture(scope="session")
def corpora_folder() -> Path:
    """The folder of real corpora; without it the test is skipped."""
    folder = os.environ.get("JTRANS_TEST_CORPORA")
    if not folder:
        pytest.skip("JTRANS_TEST_CORPORA does not name the folder of corpora")
    return Path(folder)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file below `folder` by its path there."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
