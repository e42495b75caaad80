"""What is wrong with the files of a prepared corpus, and how to repair it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jtrans.errors import CorpusError, JtransError
from jtrans.files import file_digest, read_json


def damaged(folder: Path, fault: str) -> CorpusError:
    """Return the error for a corpus whose files are damaged, or gone."""
    if not folder.is_dir():
        return CorpusError(
            f"the prepared corpus in {folder} is gone",
            hint="it was moved or deleted, or the working directory is another one now",
            kind="corpus.missing",
        )
    return CorpusError(
        f"the prepared corpus in {folder} is damaged: {fault}",
        hint=repair_hint(folder),
        kind="corpus.damaged",
    )


def file_fault(path: Path, expected: Mapping[str, Any]) -> str:
    """Return how a file differs from its record in corpus.json; empty if it does not."""
    if not path.is_file():
        return "is missing"
    size = path.stat().st_size
    if size != expected["bytes"]:
        return f"has {size:,} bytes, not {expected['bytes']:,}"
    return "" if file_digest(path) == expected["sha256"] else "was changed"


def is_whole_text(path: Path) -> bool:
    """Return whether a file is UTF-8 and ends in a newline, as a file edited by hand does."""
    try:
        data = path.read_bytes()
        return data.endswith(b"\n") and b"\0" not in data and bool(data.decode("utf-8"))
    except (OSError, UnicodeDecodeError):
        return False


def repair_hint(folder: Path) -> str:
    """Return how to prepare a damaged corpus again: by the command in its provenance, if any."""
    try:
        command = str(read_json(folder / "corpus.json")["provenance"]["command"])
    except (JtransError, OSError, LookupError, TypeError):
        command = ""
    if not command:
        return "rerun the jtrans prepare command that made it, with --force"
    return f"prepare it again: {command} --out {shlex.quote(str(folder))} --force"
