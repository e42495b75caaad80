"""A prepared corpus written to disk (`jtrans.data.prepared` says what is where)."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jtrans.data.encoding import EncodedSide
from jtrans.data.prepared import SIDES
from jtrans.files import whole_folder, write_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtrans.text.pipeline import TextPipeline


@dataclass(frozen=True)
class PreparedSplit:
    """One split, ready to be written.

    Attributes:
        ids: encoded source and target.
        raw: raw source and target lines; None for training text, which is not kept.
        words: segmented source and target lines; None with `raw`.
        gold: further text files by ending, such as "alignments.txt".
    """

    ids: tuple[EncodedSide, EncodedSide]
    raw: tuple[Sequence[str], Sequence[str]] | None = None
    words: tuple[Sequence[str], Sequence[str]] | None = None
    gold: Mapping[str, Sequence[str]] = field(default_factory=dict)


def write_corpus(
    folder: Path,
    *,
    pipeline: TextPipeline,
    splits: Mapping[str, PreparedSplit],
    info: Mapping[str, Any],
) -> None:
    """Write a prepared corpus; the folder appears when it is complete.

    Raises:
        WorkError: the disk is full.
        JtransError: the place cannot be written.
    """
    with whole_folder(folder) as temporary:
        (temporary / "text").mkdir()
        pipeline.save(temporary / "pipeline.json")
        for name, split in splits.items():
            for side, encoded in zip(SIDES, split.ids, strict=True):
                _write_array(temporary / f"{name}.{side}.npy", encoded.ids)
                _write_array(temporary / f"{name}.{side}.offsets.npy", encoded.offsets)
            for ending, lines in _texts(split, pipeline.languages).items():
                _write_lines(temporary / "text" / f"{name}.{ending}", lines)
        write_json(temporary / "corpus.json", info)


def _texts(split: PreparedSplit, languages: tuple[str, str]) -> dict[str, Sequence[str]]:
    texts = dict(split.gold)
    for infix, pair in (("", split.raw), ("tok.", split.words)):
        if pair is not None:
            for language, lines in zip(languages, pair, strict=True):
                texts[f"{infix}{language}"] = lines
    return texts


def _write_array(path: Path, array: NDArray[Any]) -> None:
    # np.save writing to a file itself does not say why it failed (no errno when the disk is full)
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    path.write_bytes(buffer.getbuffer())


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8"))
