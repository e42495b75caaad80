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

import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jtrans.data import PREPARED
from jtrans.data.damage import damaged, file_fault, is_whole_text, repair_hint
from jtrans.data.ids import SIDES, IdStore, ParallelIds, Side
from jtrans.errors import (
    CorpusError,
    JtransError,
    did_you_mean,
    how_many,
    wrong_format,
)
from jtrans.files import as_text, read_json, read_lines, text_digest
from jtrans.text.language import join_languages
from jtrans.text.pipeline import TextPipeline
from jtrans.text.word_counts import read_word_counts

FORMAT = 1


def digest_of(digests: Mapping[str, str], split: str) -> str:
    """Return one digest of the training text, a split and the text pipeline.

    Args:
        digests: those of `PreparedCorpus.digests`.
        split: which one, besides train.
    """
    names = [f"{each}.{side}" for each in ("train", split) for side in SIDES]
    return text_digest("\n".join(digests[name] for name in [*names, "pipeline"]))[:16]


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
            raise damaged(folder, error.message) from error
        if pipeline.fingerprint() != info["pipeline_sha256"]:
            raise damaged(folder, "pipeline.json is not the one it was prepared with")
        return cls(folder, pipeline, info)

    @classmethod
    def open_for_training(cls, folder: Path) -> PreparedCorpus:
        """Open the prepared corpus in `folder`, which must have train and valid.

        Raises:
            CorpusError: it lacks one of them, is missing, damaged, or of another format.
        """
        corpus = cls.open(folder)
        missing = [name for name in ("train", "valid") if name not in corpus.splits]
        if missing:
            raise CorpusError(
                f"training needs train and valid, and {folder} has no {' and no '.join(missing)}",
                hint=f"it has {', '.join(corpus.splits)}; prepare another one: jtrans prepare "
                "--train PREFIX --valid PREFIX "
                f"--languages {join_languages(corpus.languages)} --out DIR",
                kind="corpus.no-training",
            )
        return corpus

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
        """The splits' names: train, valid, then the test splits; any of them may be missing."""
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
            raise damaged(
                self.folder,
                f"{split} has {len(source)} source and {len(target)} target sentences, "
                f"not {expected}",
            )
        for side, store in zip(SIDES, (source, target), strict=True):
            size = len(getattr(self.pipeline, side).vocabulary)
            if store.highest >= size:
                raise damaged(
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
        """Return the word counts of train; None if a version that kept none prepared the corpus."""
        return read_word_counts(self.word_counts_path(side))

    def references(self, split: str) -> list[list[str]]:
        """Return all references of valid or a test split, each a list of lines.

        The first one is `raw_lines(split, "target")`.

        Raises:
            CorpusError: there is no text of such a split, or its files are damaged.
        """
        self._check_split(split)
        language = self.languages[1]
        count = self.info["splits"][split].get("references", 0)
        endings = [f"{number}.{language}" for number in range(count)] or [language]
        return [self._lines(split, ending) for ending in endings]

    def raw_lines(self, split: str, side: Side) -> list[str]:
        """Return the raw lines of one side of valid or a test split; raises as `references`."""
        return self._lines(split, self._language(side))

    def words_lines(self, split: str, side: Side) -> list[list[str]]:
        """Return the segmented lines (before BPE) of one side; raises as `references`."""
        lines = self._lines(split, f"tok.{self._language(side)}")
        return [line.split(" ") if line else [] for line in lines]

    def digests(self) -> dict[str, str]:
        """Return digests that identify the text of the splits and its segmentation."""
        parts = {
            f"{split}.{side}": str(digest)
            for split, info in self.info["splits"].items()
            for side, digest in info.get("sha256", {}).items()
        }
        return {**parts, "pipeline": str(self.info["pipeline_sha256"])}

    def check_files(self) -> None:
        """Check that all files of the corpus are present and unchanged.

        Raises:
            CorpusError: a file is missing or was changed; of kind "corpus.edited" if it is a text
                that was edited, not truncated.
        """
        faults = [
            (name, fault)
            for name, expected in self.info.get("files", {}).items()
            if (fault := file_fault(self.folder / name, expected))
        ]
        for name, _ in faults:
            if name.startswith("text/") and is_whole_text(self.folder / name):
                error = damaged(self.folder, f"{name} was changed")
                error.kind = "corpus.edited"
                raise error
        if faults:
            raise damaged(self.folder, " ".join(faults[0]))
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
            raise damaged(self.folder, f"cannot read {name}") from error
        if len(lines) != self.info["splits"][split]["pairs"]:
            raise damaged(self.folder, f"{name} has {how_many(len(lines), 'line')}")
        return lines

    def _check_split(self, split: str) -> None:
        if split not in self.splits:
            known, near = f"it has {', '.join(self.splits)}", did_you_mean(split, self.splits)
            if split == "test" and "valid" in self.splits:  # the default of the commands
                known += "; --split valid takes valid"
            raise CorpusError(
                f"{self.folder} has no split {split}",
                hint=f"did you mean {near}? {known}" if near else known,
                kind="corpus.unknown-split",
            )


def text_files(split: str, languages: tuple[str, str], references: int) -> list[str]:
    """Return the files with the text of valid or a test split, without gold annotation."""
    source, target = languages
    endings = [source, target, f"tok.{source}", f"tok.{target}"]
    endings += [f"{number}.{target}" for number in range(references)]
    return [f"text/{split}.{ending}" for ending in endings]


def test_set_commands(run: str, languages: tuple[str, str]) -> str:
    """Return the commands that score a run on a new test set, for hints."""
    run = shlex.quote(run)
    return (
        f"jtrans prepare --test new --languages {join_languages(languages)} --pipeline {run} "
        f"--out data/new, then jtrans score {run} --data data/new"
    )


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
        raise damaged(folder, error.message) from error
    if not isinstance(info, dict) or "pipeline_sha256" not in info:
        raise CorpusError(
            f"{folder} is not a prepared corpus: jtrans prepare did not write its corpus.json",
            hint="name another folder, or prepare the corpus again, with another --out",
            kind="corpus.not-ours",
        )
    if info.get("format") != FORMAT:
        raise CorpusError(
            wrong_format(str(folder), info.get("format"), FORMAT),
            hint=repair_hint(folder),
            kind="corpus.format",
        )
    tables = [info.get("options"), info.get("splits"), info.get("files", {})]
    if not {"name", "languages"} <= set(info) or not all(
        isinstance(table, dict) for table in tables
    ):
        raise damaged(folder, "corpus.json is incomplete")
    if not all(
        isinstance(entry, dict) and required <= set(entry)
        for table, required in zip(
            tables[1:], ({"pairs", "sha256"}, {"bytes", "sha256"}), strict=True
        )
        for entry in table.values()
    ):
        raise damaged(folder, "corpus.json has an incomplete entry")
    return dict(info)
