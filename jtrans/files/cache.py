"""The cache folder, and whether downloads are allowed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

OFFLINE = "JTRANS_OFFLINE"


def cache_folder() -> Path:
    """Return the folder of downloads and measurements: JTRANS_CACHE, or one in the user's cache.

    If that cannot be written, as in a container for any user, it is one for temporary files.
    """
    if folder := os.environ.get("JTRANS_CACHE"):
        return Path(folder)
    with contextlib.suppress(RuntimeError, PermissionError):  # no home, or that of another user
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        if os.access(next(place for place in (cache, *cache.parents) if place.exists()), os.W_OK):
            return cache / "jtrans"
    # other users may have one there, too, but not on Windows
    user = f"-{os.getuid()}" if hasattr(os, "getuid") else ""
    return Path(tempfile.gettempdir()) / f"jtrans{user}"


def is_offline() -> bool:
    """Return whether downloads are forbidden (JTRANS_OFFLINE)."""
    return os.environ.get(OFFLINE, "0") not in ("", "0")
