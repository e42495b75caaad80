"""The result cache: results of a checkpoint on a split, computed once and stored in its run.

A file is valid only for the weights, text and options it was computed from: its *identity*, which
is stored beside the content. The file name contains the split, the checkpoint and a short digest
of the options, so that results with different options coexist; translations of two corpora do, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from jtrans.decoding.options import SearchOptions
from jtrans.errors import JtransError
from jtrans.files import read_json, remembered_digest, text_digest, whole_file, write_json
from jtrans.progress import Progress
from jtrans.runs import Checkpoint, Run

FORMAT = 1
# to be raised whenever the same weights and options may give another text than before, as by a
# change of how words are joined, how long lines are split or what a limit of the search means
TRANSLATION_FORMAT = 2


@dataclass(frozen=True)
class CachedResult:
    """The place of one result in the cache: JSON values, or arrays in a file ``.npz``."""

    path: Path
    identity: Mapping[str, Any]  # everything the result depends on

    def read(self) -> dict[str, Any] | None:
        """Return the content; None if it is missing, damaged or of another identity."""
        try:
            if self.path.suffix == ".json":
                content = dict(read_json(self.path))
                identity = {name: content.pop(name) for name in self.identity}
            else:
                with np.load(self.path, allow_pickle=False) as arrays:
                    content = dict(arrays)
                identity = json.loads(str(content.pop("identity")))
        except (JtransError, OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile):
            return None
        return content if identity == self.identity else None

    def write(self, content: Mapping[str, Any], progress: Progress) -> None:
        """Store the content; if the run cannot be written, only warn."""
        try:
            if self.path.suffix == ".json":
                write_json(self.path, {**self.identity, **content})
                return
            identity = np.array(json.dumps(self.identity))
            with whole_file(self.path) as temporary, temporary.open("wb") as handle:
                np.savez_compressed(handle, identity=identity, **content)
        except JtransError as error:
            progress.warn(f"the result could not be cached: {error.message}")


# Options that came later are left out at their defaults: older results remain valid.
_ADDED = ("stopping", "no_repeat_ngram", "max_repeats", "diverse_groups", "diversity")


def cached_translations(
    run: Run,
    checkpoint: Checkpoint,
    split: str,
    source: Sequence[str],
    options: SearchOptions,
    precision: str,
) -> CachedResult:
    """Return the place of a run's translations: ``test.step-00012000.1a2b3c4d.json``.

    `source` are the raw source lines of the split, `precision` is the user's choice.
    """
    identity = {
        "format": TRANSLATION_FORMAT,
        **_weights(split, checkpoint),
        "source_sha256": text_digest("\n".join(source)),
        "options": _identity(options),
        "precision": precision,
    }
    digest = _digest([identity["source_sha256"], identity["options"], precision])[:8]
    path = run.result_path("translations", f"{split}.{checkpoint.name}.{digest}.json")
    return CachedResult(path, identity)


def cached_measurement(
    run: Run, checkpoint: Checkpoint, split: str, measurement: str, text: Any, **options: Any
) -> CachedResult:
    """Return the place of a measurement: ``test.step-00012000.alignment.1a2b3c4d.npz``.

    `text` is all the text it is computed on, `options` everything else the result depends on.
    """
    identity = {
        "format": FORMAT,
        "what": measurement,
        **_weights(split, checkpoint),
        "pipeline": run.pipeline.fingerprint(),
        "text_sha256": _digest(text),
        "options": options,
    }
    name = f"{split}.{checkpoint.name}.{measurement}.{_digest(options)[:8]}.npz"
    return CachedResult(run.result_path("analysis", name), identity)


def _identity(options: SearchOptions) -> dict[str, Any]:
    """Return what the best translation depends on."""
    usual = asdict(SearchOptions())
    values = {**asdict(options), "nbest": 1}
    return {
        name: value for name, value in values.items() if name not in _ADDED or value != usual[name]
    }


def _digest(value: Any) -> str:
    return text_digest(json.dumps(value, sort_keys=True, ensure_ascii=False))


def _weights(split: str, checkpoint: Checkpoint) -> dict[str, str]:
    digest = remembered_digest(checkpoint.weights)
    return {"split": split, "checkpoint": checkpoint.name, "weights_sha256": digest}
