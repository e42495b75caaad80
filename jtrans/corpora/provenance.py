"""Where the text of a corpus came from, and with which tools it is prepared."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path
from typing import Any

from jtrans.corpora.parallel import Corpus
from jtrans.files import file_digest

# Packages whose versions may change the words or labels of a line.
TOOLS = ("sacremoses", "subword-nmt", "jieba", "numpy", "spacy")


def describe_provenance(corpus: Corpus, command: str) -> dict[str, Any]:
    """Return the provenance of a prepared corpus, for corpus.json.

    Args:
        corpus: the text; its files are read again to compute their digests.
        command: the command as typed, without options that do not change the result; may be empty.
    """
    paths = (path for text in corpus.splits.values() for path in text.files or text.origin)
    inputs = list(corpus.originals) or [
        {"path": path, "bytes": Path(path).stat().st_size, "sha256": file_digest(Path(path))}
        for path in dict.fromkeys(paths)
        if Path(path).is_file()  # not a pipe, nor the name of text from elsewhere
    ]
    return {"command": command, "inputs": inputs, "tools": tool_versions()}


def tool_versions() -> dict[str, str]:
    """Return the versions of Python and of those packages that are installed."""
    versions = {"python": platform.python_version()}
    for name in TOOLS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
