"""Measurements that need a model, made once and kept in the run.

    RUN/analysis/test.step-00012000.forced.1a2b3c4d.npz

The name holds split, checkpoint, what was measured and a digest of its options. A file counts
only for the very weights and text it was made from.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jtrans.errors import JtransError
from jtrans.files import file_digest, text_digest, whole_file
from jtrans.progress import Progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtrans.runs import Run

FORMAT = 1


class Kept:
    """The place of one measurement of one run.

    Args:
        run: an existing run.
        what: was measured, such as ``forced``.
        split: the name of the split.
        checkpoint: which one, as `Run.checkpoint` knows it.
        text: all the text that was measured on.
        options: all else that decides the result.
    """

    def __init__(
        self, run: Run, what: str, split: str, checkpoint: str, text: Any, **options: Any
    ) -> None:
        found = run.checkpoint(checkpoint)
        self.identity = {
            "format": FORMAT,
            "what": what,
            "split": split,
            "checkpoint": found.name,
            "weights_sha256": _weights_digest(found.weights, found.weights.stat().st_mtime_ns),
            "pipeline": run.pipeline.fingerprint(),
            "text_sha256": _digest(text),
            "options": options,
        }
        name = f"{split}.{found.name}.{what}.{_digest(options)[:8]}.npz"
        self.path = run.result_path("analysis", name)

    def read(self) -> dict[str, NDArray[Any]] | None:
        """Return the arrays, None when they are not there, damaged or of something else."""
        try:
            with np.load(self.path, allow_pickle=False) as content:
                if json.loads(str(content["identity"])) != self.identity:
                    return None
                return {name: content[name] for name in content.files if name != "identity"}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None

    def write(self, arrays: Mapping[str, NDArray[Any]], progress: Progress) -> None:
        """Keep the arrays; where the run cannot be written, only warn."""
        identity = np.array(json.dumps(self.identity))
        try:
            with whole_file(self.path) as temporary, temporary.open("wb") as handle:
                np.savez_compressed(handle, identity=identity, **arrays)  # type: ignore[arg-type]
        except JtransError as error:
            progress.warn(f"the measurements could not be kept: {error.message}")


def _digest(value: Any) -> str:
    return text_digest(json.dumps(value, sort_keys=True, ensure_ascii=False))


@lru_cache(maxsize=64)
def _weights_digest(path: Path, _changed: int) -> str:
    return file_digest(path)
