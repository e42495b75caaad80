"""Assembling the shards of a work folder into a prepared corpus (`jtrans.data.prepared`)."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jtrans import __version__
from jtrans.corpora.parallel import ParallelText
from jtrans.data.ids import SIDES
from jtrans.data.prepared import FORMAT
from jtrans.files import file_digest, whole_folder, write_json, write_lines
from jtrans.preparation.labels.project import gold_lines
from jtrans.preparation.shards import ShardPart
from jtrans.preparation.statistics import Statistics, joint_size
from jtrans.text.pipeline import TextPipeline


def assemble(
    folder: Path,
    *,
    pipeline: TextPipeline,
    splits: Mapping[str, Sequence[ShardPart]],
    texts: Mapping[str, ParallelText],
    label_kinds: Iterable[str],
    word_counts: Iterable[Path],
    info: Mapping[str, Any],
) -> int:
    """Assemble a prepared corpus in `folder`, which appears only when complete.

    `splits` holds the encoded parts of each split, `texts` the raw text of the corpus, and `info`
    the contents of corpus.json, except its list of files.

    Returns:
        The number of pairs without gold annotation because their words do not match the text.
    """
    lost = 0
    with whole_folder(folder) as temporary:
        pipeline.save(temporary / "pipeline.json")
        for path in word_counts:
            shutil.copyfile(path, temporary / f"train.{path.name}")
        for name, parts in splits.items():
            sizes = {}
            for side in SIDES:
                arrays = _read_arrays(parts, f"{side}.ids.npy")
                lengths = [np.load(part.path(f"{side}.lengths.npy")) for part in parts]
                write_ids(temporary / f"{name}.{side}", arrays, lengths)
                sizes[side] = sum(int(part_lengths.sum()) for part_lengths in lengths)
            for kind in label_kinds:
                path = temporary / f"{name}.source.{kind}.npy"
                labels = _read_arrays(parts, f"source.{kind}.npy")
                write_array_parts(path, labels, sizes["source"], np.int8)
            text = texts[parts[0].shard.split]
            lost += _write_texts(temporary / "text", name, parts, text, pipeline)
        seal(temporary, info)
    return lost


def seal(folder: Path, info: Mapping[str, Any]) -> None:
    """Write corpus.json with the sizes and digests of all other files."""
    files = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        files[name] = {"bytes": path.stat().st_size, "sha256": file_digest(path)}
    write_json(folder / "corpus.json", {**info, "files": files})


def corpus_info(
    record: Mapping[str, Any],
    results: Mapping[str, Any],
    train: Statistics | None,
    fingerprint: str,
    labels: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the contents of corpus.json, without times, so that equal input gives equal bytes.

    `record` determines the result (see `Request`); `fingerprint` is that of the pipeline.
    """
    return {
        "format": FORMAT,
        **record,
        **results,
        **({"joint_size": joint_size(train)} if train else {}),
        "pipeline_sha256": fingerprint,
        "jtrans": __version__,
        **labels,
    }


def write_ids(
    stem: Path, arrays: Iterable[NDArray[np.int32]], lengths: Sequence[NDArray[np.int64]]
) -> None:
    """Write ids, [ids] each, and lengths, [sentences] each, as STEM.npy and STEM.offsets.npy."""
    offsets = np.concatenate([np.zeros(1, np.int64), *lengths]).cumsum()
    write_array_parts(stem.with_name(f"{stem.name}.npy"), arrays, int(offsets[-1]), np.int32)
    path = stem.with_name(f"{stem.name}.offsets.npy")
    write_array_parts(path, [offsets], offsets.size, np.int64)


def write_array_parts(
    path: Path, arrays: Iterable[NDArray[Any]], size: int, dtype: type[np.generic]
) -> None:
    """Write arrays as a single, concatenated array of `size` numbers."""
    header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": (size,)}
    with path.open("wb") as handle:
        np.lib.format.write_array_header_1_0(handle, header)
        for array in arrays:
            handle.write(np.ascontiguousarray(array, dtype).data)


def _read_arrays(parts: Sequence[ShardPart], ending: str) -> Iterator[NDArray[Any]]:
    """Yield an array of each part, so that only one at a time is in memory."""
    for part in parts:
        yield np.load(part.path(ending))


def _write_texts(
    folder: Path, name: str, parts: Sequence[ShardPart], text: ParallelText, pipeline: TextPipeline
) -> int:
    """Write raw and segmented lines of valid and test, and gold data of all splits."""
    files: dict[str, Iterable[str]] = {}
    if name != "train":
        source, target = pipeline.languages
        files[source], files[target] = _chosen(text.source, parts), _chosen(text.target, parts)
        for number, reference in enumerate(text.references):
            files[f"{number}.{target}"] = _chosen(reference, parts)
        for side, language in enumerate(pipeline.languages):
            words = _words(parts, side, pipeline)
            files[f"tok.{language}"] = (" ".join(line) for line in words)
    lost = 0
    if text.gold is not None:
        positions = (position for part in parts for position in part.positions())
        both = zip(_words(parts, 0, pipeline), _words(parts, 1, pipeline), strict=True)
        gold, lost = gold_lines(text.gold, positions, both, pipeline)
        files |= gold
    folder.mkdir(exist_ok=True)
    for ending, lines in files.items():
        write_lines(folder / f"{name}.{ending}", lines)
    return lost


def _chosen(lines: Sequence[str], parts: Sequence[ShardPart]) -> Iterator[str]:
    for part in parts:
        yield from part.choose(lines)


def _words(parts: Sequence[ShardPart], index: int, pipeline: TextPipeline) -> Iterator[list[str]]:
    side = (pipeline.source, pipeline.target)[index]
    for part in parts:
        for line in part.words_lines(index):
            words = line.split(" ") if line else []
            yield side.recase(words) if side.truecaser else words
