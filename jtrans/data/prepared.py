"""The prepared corpus on disk: a folder with token ids, text pipeline and text.

corpus.json              languages, splits, counts, options, provenance: enough to prepare it again;
                         sizes and digests of all other files
pipeline.json            the `TextPipeline`
SPLIT.source.npy         all source ids of a split, one flat int32 array; also target
SPLIT.source.offsets.npy where each sentence begins (and the last one ends); also target
train.source.words.gz    how often each word of train occurs (before BPE); also target
SPLIT.source.pos.npy     labels of the source ids if the corpus has them, int8; also ner
text/SPLIT.de            raw lines of valid and test splits; text/SPLIT.tok.de segmented
text/SPLIT.0.en          numbered references, if a split has several
text/SPLIT.alignments.txt, text/SPLIT.source.tags.txt     if the corpus has gold annotation
"""

from __future__ import annotations

import logging
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from jtrans.data import PREPARED
from jtrans.errors import CorpusError, JtransError, did_you_mean, how_many, name_hint
from jtrans.files import as_text, file_digest, read_json, read_lines
from jtrans.text.pipeline import TextPipeline
from jtrans.text.word_counts import read_word_counts

FORMAT = 1
_log = logging.getLogger(__name__)

Side = Literal["source", "target"]
SIDES: tuple[Side, Side] = ("source", "target")

SENTENCES_AT_ONCE = 100_000  # whose labels are counted
IGNORE = -100  # marks a piece without a label; the loss of PyTorch ignores it, too


class IdStore:
    """One side of a split: the ids of its sentences, or their labels, memory-mapped."""

    def __init__(
        self, ids: NDArray[np.int32] | NDArray[np.int8], offsets: NDArray[np.int64]
    ) -> None:
        self._ids = ids
        self._offsets = offsets

    @classmethod
    def open(cls, folder: Path, split: str, side: Side) -> IdStore:
        """Map the arrays of one side of a split.

        Raises:
            CorpusError: a file is missing, cut off, or does not fit the other.
        """
        ids = _load(folder / f"{split}.{side}.npy", np.dtype(np.int32))
        offsets = np.array(_load(folder / f"{split}.{side}.offsets.npy", np.dtype(np.int64)))
        is_sound = offsets.size > 0 and offsets[0] == 0 and offsets[-1] == ids.size
        if not is_sound or (np.diff(offsets) < 1).any():
            raise _damaged(folder, f"{split}.{side}.offsets.npy does not fit {split}.{side}.npy")
        return cls(ids, offsets)

    def labels(self, folder: Path, split: str, kind: str) -> IdStore:
        """Map the labels of these ids.

        Raises:
            CorpusError: the file is missing or does not fit.
        """
        name = f"{split}.source.{kind}.npy"
        labels = _load(folder / name, np.dtype(np.int8))
        if labels.size != self._ids.size:
            raise _damaged(folder, f"{name} does not fit {split}.source.npy")
        return IdStore(labels, self._offsets)

    @property
    def flat(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """All ids concatenated, [ids], and where each sentence begins, [sentences + 1]."""
        return self._ids, self._offsets  # type: ignore[return-value]

    def __len__(self) -> int:
        """Count the sentences."""
        return self._offsets.size - 1

    def __getitem__(self, index: int) -> NDArray[np.int32]:
        """Return the ids of one sentence, EOS last."""
        if not 0 <= index < len(self):
            raise IndexError(f"sentence {index} of {len(self)}")
        ids: NDArray[np.int32] = self._ids[self._offsets[index] : self._offsets[index + 1]]  # type: ignore[assignment]
        return ids

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of each sentence, EOS counted, [sentences]."""
        return np.diff(self._offsets)

    @cached_property
    def labelled(self) -> NDArray[np.int64]:
        """The number of labels of each sentence that are not `IGNORE`, [sentences]."""
        counts = np.zeros(len(self), np.int64)
        for first in range(0, len(self), SENTENCES_AT_ONCE):  # the ids may be larger than memory
            ends = self._offsets[first : first + SENTENCES_AT_ONCE + 1]
            is_label = self._ids[ends[0] : ends[-1]] != IGNORE
            sums = np.add.reduceat(is_label, ends[:-1] - ends[0], dtype=np.int64)
            counts[first : first + SENTENCES_AT_ONCE] = sums
        return counts

    @property
    def highest(self) -> int:
        """The highest id."""
        return int(self._ids.max(initial=0))


@dataclass(frozen=True)
class ParallelIds:
    """Both sides of a split as ids; pair i is `source[i]` and `target[i]`."""

    source: IdStore
    target: IdStore
    # labels of the source ids by kind ("pos", "ner") if the corpus has any; `IGNORE`: no label
    labels: Mapping[str, IdStore] = field(default_factory=dict)

    def __len__(self) -> int:
        """Count the pairs."""
        return len(self.source)


@dataclass(frozen=True)
class PreparedCorpus:
    """A prepared corpus; `PreparedCorpus.open` reads one."""

    folder: Path
    # from raw text to ids and back, as used for preparation
    pipeline: TextPipeline = field(repr=False)
    info: dict[str, Any] = field(repr=False)  # the contents of corpus.json

    @classmethod
    def exists(cls, folder: Path) -> bool:
        """Return whether `folder` holds a prepared corpus."""
        return (folder / "corpus.json").is_file()

    @classmethod
    def open(cls, folder: Path) -> PreparedCorpus:
        """Open the prepared corpus in `folder`.

        Raises:
            CorpusError: it is missing, damaged, or of another format.
        """
        info = read_info(folder)
        try:
            pipeline = TextPipeline.load(folder / "pipeline.json")
        except JtransError as error:
            raise _damaged(folder, error.message) from error
        if pipeline.fingerprint() != info["pipeline_sha256"]:
            raise _damaged(folder, "pipeline.json is not the one it was prepared with")
        return cls(folder, pipeline, info)

    @property
    def name(self) -> str:
        """The corpus's name."""
        return as_text(str(self.info["name"]))

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        return self.pipeline.languages

    @property
    def splits(self) -> list[str]:
        """The splits' names: train, valid, then the test splits."""
        return list(self.info["splits"])

    def pairs(self, split: str) -> ParallelIds:
        """Return the ids of a split.

        Raises:
            CorpusError: there is no such split, or its files are damaged.
        """
        self._check_split(split)
        source, target = (IdStore.open(self.folder, split, side) for side in SIDES)
        expected = self.info["splits"][split]["pairs"]
        if not len(source) == len(target) == expected:
            raise _damaged(
                self.folder,
                f"{split} has {len(source)} source and {len(target)} target sentences, "
                f"not {expected}",
            )
        for side, store in zip(SIDES, (source, target), strict=True):
            size = len(getattr(self.pipeline, side).vocabulary)
            if store.highest >= size:
                raise _damaged(
                    self.folder,
                    f"{split}.{side}.npy has id {store.highest}, the vocabulary {size} tokens",
                )
        labels = {kind: source.labels(self.folder, split, kind) for kind in self.label_names}
        return ParallelIds(source, target, labels)

    @property
    def label_names(self) -> dict[str, list[str]]:
        """The names of the source labels by kind ("pos", "ner"); empty if it has none."""
        return dict(self.info.get("labels", {}))

    def word_counts_path(self, side: Side) -> Path:
        """Return the file with the counts of the words of train, see `text.word_counts`."""
        return self.folder / f"train.{side}.words.gz"

    def word_counts(self, side: Side) -> Counter[str] | None:
        """Return the word counts of train; None if the corpus is of a version that kept none."""
        return read_word_counts(self.word_counts_path(side))

    def references(self, split: str) -> list[list[str]]:
        """Return all references of valid or a test split, each a list of lines.

        The first one is `raw_lines(split, "target")`.
        """
        self._check_split(split)
        language = self.languages[1]
        count = self.info["splits"][split].get("references", 0)
        endings = [f"{number}.{language}" for number in range(count)] or [language]
        return [self._lines(split, ending) for ending in endings]

    def raw_lines(self, split: str, side: Side) -> list[str]:
        """Return the raw lines of one side of valid or a test split."""
        return self._lines(split, self._language(side))

    def words_lines(self, split: str, side: Side) -> list[list[str]]:
        """Return the segmented lines (before BPE) of one side of valid or a test split."""
        lines = self._lines(split, f"tok.{self._language(side)}")
        return [line.split(" ") if line else [] for line in lines]

    def check_files(self) -> None:
        """Check that all files of the corpus are present and unchanged.

        Raises:
            CorpusError: a file is missing or was changed; of kind "corpus.edited" if it is a text
                that was edited, not truncated.
        """
        faults = [
            (name, fault)
            for name, expected in self.info.get("files", {}).items()
            if (fault := _fault(self.folder / name, expected))
        ]
        for name, _ in faults:
            if name.startswith("text/") and _is_whole_text(self.folder / name):
                error = _damaged(self.folder, f"{name} was changed")
                error.kind = "corpus.edited"
                raise error
        if faults:
            raise _damaged(self.folder, " ".join(faults[0]))
        for name in self.splits:
            self.pairs(name)
            if name != "train":
                self.references(name)
                for side in SIDES:
                    self.raw_lines(name, side)
                    self.words_lines(name, side)

    def _language(self, side: Side) -> str:
        return self.languages[SIDES.index(side)]

    def _lines(self, split: str, ending: str) -> list[str]:
        self._check_split(split)
        if split == "train":
            raise CorpusError(
                "a prepared corpus keeps no text of train", hint="use valid or a test split"
            )
        name = f"text/{split}.{ending}"
        try:
            lines = read_lines(self.folder / name)
        except (OSError, UnicodeDecodeError) as error:
            raise _damaged(self.folder, f"cannot read {name}") from error
        if len(lines) != self.info["splits"][split]["pairs"]:
            raise _damaged(self.folder, f"{name} has {how_many(len(lines), 'line')}")
        return lines

    def _check_split(self, split: str) -> None:
        if split not in self.splits:
            known = f"it has {', '.join(self.splits)}"
            if split == "test" and "valid" in self.splits:  # the default of the commands
                known += "; --split valid takes valid"
            raise CorpusError(
                f"{self.folder} has no split {split}",
                hint=name_hint(split, self.splits, known),
                kind="corpus.unknown-split",
            )


def text_files(split: str, languages: tuple[str, str], references: int = 0) -> list[str]:
    """Return the files with the text of valid or a test split, without gold annotation."""
    source, target = languages
    endings = [source, target, f"tok.{source}", f"tok.{target}"]
    endings += [f"{number}.{target}" for number in range(references)]
    return [f"text/{split}.{ending}" for ending in endings]


def read_info(folder: Path) -> dict[str, Any]:
    """Read corpus.json of a prepared corpus.

    Raises:
        CorpusError: it is missing, damaged, or of another format.
    """
    if not PreparedCorpus.exists(folder):
        usual = PREPARED / folder.name  # of a corpus given by its name alone
        others = [path.parent.name for path in folder.parent.glob("*/corpus.json")]
        name = did_you_mean(folder.name, others)
        near = usual if PreparedCorpus.exists(usual) else name and folder.with_name(name)
        raise CorpusError(
            f"no prepared corpus in {folder}",
            hint=f"did you mean {near}?"
            if near
            else f"prepare one: jtrans prepare --train PREFIX --valid PREFIX --languages de-en "
            f"--out {shlex.quote(str(folder))}",
            kind="corpus.not-prepared",
        )
    try:
        info = read_json(folder / "corpus.json")
    except JtransError as error:
        raise _damaged(folder, error.message) from error
    version = info.get("format") if isinstance(info, dict) else None
    if version != FORMAT:
        raise CorpusError(
            f"{folder} has format {version!r}, this jtrans reads format {FORMAT}",
            hint=_repair_hint(folder),
            kind="corpus.format",
        )
    tables = [info.get("options"), info.get("splits"), info.get("files", {})]
    if not {"name", "languages", "pipeline_sha256"} <= set(info) or not all(
        isinstance(table, dict) for table in tables
    ):
        raise _damaged(folder, "corpus.json is incomplete")
    if not all(
        isinstance(entry, dict) and required <= set(entry)
        for table, required in zip(
            tables[1:], ({"pairs", "sha256"}, {"bytes", "sha256"}), strict=True
        )
        for entry in table.values()
    ):
        raise _damaged(folder, "corpus.json has an incomplete entry")
    return dict(info)


def _load(path: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or error
        raise _damaged(path.parent, f"cannot read {path.name}: {reason}") from error
    _log.info("read %s", path)
    if array.dtype != dtype or array.ndim != 1:
        raise _damaged(path.parent, f"{path.name} does not hold a list of {dtype}")
    return array


def _damaged(folder: Path, fault: str) -> CorpusError:
    if not folder.is_dir():
        return CorpusError(
            f"the prepared corpus in {folder} is gone",
            hint="it was moved or deleted, or the working directory is another one now",
            kind="corpus.missing",
        )
    return CorpusError(
        f"the prepared corpus in {folder} is damaged: {fault}",
        hint=_repair_hint(folder),
        kind="corpus.damaged",
    )


def _fault(path: Path, expected: Mapping[str, Any]) -> str:
    """Return how a file differs from its record in corpus.json; empty if it does not."""
    if not path.is_file():
        return "is missing"
    size = path.stat().st_size
    if size != expected["bytes"]:
        return f"has {size:,} bytes, not {expected['bytes']:,}"
    return "" if file_digest(path) == expected["sha256"] else "was changed"


def _is_whole_text(path: Path) -> bool:
    """Return whether a file is UTF-8 and ends in a newline, as a file edited by hand does."""
    try:
        data = path.read_bytes()
        return data.endswith(b"\n") and b"\0" not in data and bool(data.decode("utf-8"))
    except (OSError, UnicodeDecodeError):
        return False


def _repair_hint(folder: Path) -> str:
    """Return how to prepare a damaged corpus again: by the command in its provenance, if any."""
    try:
        command = str(read_json(folder / "corpus.json")["provenance"]["command"])
    except (JtransError, OSError, LookupError, TypeError):
        command = ""
    if not command:
        return "run the jtrans prepare command that made it again, with --force"
    return f"prepare it again: {command} --out {shlex.quote(str(folder))} --force"
