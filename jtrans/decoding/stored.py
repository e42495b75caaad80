"""Translations of a split, made once and kept in the run.

    RUN/translations/test.step-00012000.1a2b3c4d.json

The name holds split, checkpoint and a digest of the search options. A file counts only for the
very weights and source lines it was made from.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.errors import JtransError
from jtrans.files import file_digest, read_json, text_digest, write_json
from jtrans.progress import Progress, Silent

if TYPE_CHECKING:
    from jtrans.decoding.options import SearchOptions
    from jtrans.decoding.translator import Translator
    from jtrans.runs import Run

FORMAT = 1


@dataclass(frozen=True)
class SplitTranslation:
    """What a run gave for the source lines of a split.

    Args:
        checkpoint: the name of the checkpoint that made it.
        lines: raw text, one per source line.
        words: the same before detokenisation.
        tokens: target tokens, ``</s>`` counted.
        seconds: how long it took.
    """

    checkpoint: str
    lines: list[str]
    words: list[list[str]]
    tokens: int
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Target tokens per second."""
        return self.tokens / self.seconds if self.seconds else 0.0


def translate_split(
    run: Run,
    split: str,
    source: Sequence[str],
    options: SearchOptions,
    *,
    checkpoint: str,
    precision: str,
    load: Callable[[], Translator],
    progress: Progress | None = None,
) -> SplitTranslation:
    """Return the run's translations of a split, from the run's folder if they are there.

    Args:
        run: an existing run.
        split: the split's name.
        source: its raw source lines.
        options: of the search.
        checkpoint: ``best``, ``last``, an update's number or the name of an average.
        precision: as it was asked for; it tells translations apart.
        load: called only when there is something to translate.
        progress: told how far the work is.

    Raises:
        CheckpointError: there is no such checkpoint.
    """
    progress = progress or Silent()
    found = run.checkpoint(checkpoint)
    identity = {
        "format": FORMAT,
        "split": split,
        "checkpoint": found.name,
        "weights_sha256": file_digest(found.weights),
        "source_sha256": text_digest("\n".join(source)),
        "options": {**asdict(options), "nbest": 1},
        "precision": precision,
    }
    path = run.result_path("translations", _file_name(identity))
    kept = _read(path, identity)
    if kept is not None:
        return kept
    made = _make(load(), found.name, source, progress)
    try:
        write_json(path, {**identity, **asdict(made)})
    except JtransError as error:
        progress.warn(f"the translations could not be kept: {error.message}")
    return made


def _make(
    translator: Translator, checkpoint: str, source: Sequence[str], progress: Progress
) -> SplitTranslation:
    started = time.perf_counter()
    results = [best[0] for best in translator.translate_nbest(source, 1, progress)]
    return SplitTranslation(
        checkpoint,
        [result.text for result in results],
        [result.words for result in results],
        sum(len(result.tokens) for result in results),
        time.perf_counter() - started,
    )


def _file_name(identity: dict[str, Any]) -> str:
    chosen = json.dumps([identity["options"], identity["precision"]], sort_keys=True)
    return f"{identity['split']}.{identity['checkpoint']}.{text_digest(chosen)[:8]}.json"


def _read(path: Path, identity: dict[str, Any]) -> SplitTranslation | None:
    """Return what the file holds, None when it is not there, damaged or of something else."""
    try:
        kept = read_json(path)
        if any(kept[name] != value for name, value in identity.items()):
            return None
        return SplitTranslation(
            identity["checkpoint"], kept["lines"], kept["words"], kept["tokens"], kept["seconds"]
        )
    except (JtransError, OSError, KeyError, TypeError):
        return None
