"""The shards of a work folder put together to a prepared corpus (`jtrans.data.prepared`)."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jtrans.data.prepared import SIDES
from jtrans.files import write_json, write_lines
from jtrans.preparation.labels.gold import gold_lines

if TYPE_CHECKING:
    from jtrans.corpora.parallel import ParallelText
    from jtrans.preparation.learn import Part
    from jtrans.text.pipeline import TextPipeline


def assemble(
    made: Path,
    *,
    pipeline: TextPipeline,
    splits: Mapping[str, Sequence[Part]],
    texts: Mapping[str, ParallelText],
    label_kinds: Sequence[str],
    info: Mapping[str, Any],
) -> int:
    """Put a prepared corpus together in the folder `made`, which appears when it is complete.

    Args:
        made: the folder, in the work folder.
        pipeline: the whole pipeline.
        splits: the encoded shards of each split.
        texts: the raw text, by the split it was read for.
        label_kinds: which labels there are.
        info: the contents of corpus.json.

    Returns:
        How many pairs with gold alignments lost them: their words are not those written here.
    """
    temporary = made.with_name("making")
    shutil.rmtree(temporary, ignore_errors=True)
    (temporary / "text").mkdir(parents=True)
    pipeline.save(temporary / "pipeline.json")
    lost = 0
    for name, parts in splits.items():
        for side in SIDES:
            _join_ids(temporary / f"{name}.{side}", parts, side)
        for kind in label_kinds:
            arrays = [part.path(f"source.{kind}.npy") for part in parts]
            _join(temporary / f"{name}.source.{kind}.npy", arrays, np.dtype(np.int8))
        text = texts[parts[0].shard.split]
        lost += _write_texts(temporary / "text", name, parts, text, pipeline)
    write_json(temporary / "corpus.json", info)
    temporary.rename(made)
    return lost


def _join_ids(stem: Path, parts: Sequence[Part], side: str) -> None:
    paths = [part.path(f"{side}.ids.npy") for part in parts]
    _join(stem.with_name(f"{stem.name}.npy"), paths, np.dtype(np.int32))
    lengths = [np.load(part.path(f"{side}.lengths.npy")) for part in parts]
    offsets = np.concatenate([np.zeros(1, np.int64), *lengths]).cumsum()
    path = stem.with_name(f"{stem.name}.offsets.npy")
    write_arrays(path, [offsets], offsets.size, offsets.dtype)


def _join(path: Path, paths: Sequence[Path], dtype: np.dtype[Any]) -> None:
    """Write arrays one after the other, with only one of them in memory."""
    arrays = [
        np.load(one, mmap_mode="r") if one.stat().st_size > 256 else np.load(one) for one in paths
    ]
    write_arrays(path, arrays, sum(map(len, arrays)), dtype)


def write_arrays(
    path: Path, arrays: Iterable[np.ndarray[Any, Any]], size: int, dtype: np.dtype[Any]
) -> None:
    """Write arrays one after the other as one of `size` numbers."""
    header = {"descr": dtype.str, "fortran_order": False, "shape": (size,)}
    with path.open("wb") as handle:
        np.lib.format.write_array_header_1_0(handle, header)
        for array in arrays:
            handle.write(np.ascontiguousarray(array, dtype).data)


def _write_texts(
    folder: Path, name: str, parts: Sequence[Part], text: ParallelText, pipeline: TextPipeline
) -> int:
    """Write raw and segmented lines of valid and test, and gold data of all splits."""
    if name != "train":
        for language, raw in zip(pipeline.languages, (text.source, text.target), strict=True):
            write_lines(folder / f"{name}.{language}", _chosen(raw, parts), durable=False)
        for number, raw in enumerate(text.references):
            path = folder / f"{name}.{number}.{pipeline.languages[1]}"
            write_lines(path, _chosen(raw, parts), durable=False)
        for i, side in enumerate((pipeline.source, pipeline.target)):
            words = (" ".join(line) for line in _words(parts, i, pipeline))
            write_lines(folder / f"{name}.tok.{side.language}", words, durable=False)
    if text.gold is None:
        return 0
    places = (place for part in parts for place in part.places())
    both = zip(_words(parts, 0, pipeline), _words(parts, 1, pipeline), strict=True)
    files, lost = gold_lines(text.gold, places, both, pipeline)
    for ending, lines in files.items():
        write_lines(folder / f"{name}.{ending}", lines, durable=False)
    return lost


def _chosen(lines: Sequence[str], parts: Sequence[Part]) -> Iterator[str]:
    for part in parts:
        yield from part.choose(lines)


def _words(parts: Sequence[Part], index: int, pipeline: TextPipeline) -> Iterator[list[str]]:
    side = (pipeline.source, pipeline.target)[index]
    for part in parts:
        for line in part.words(index):
            words = line.split(" ") if line else []
            yield side.recase(words) if side.truecaser else words
