"""A study: systems compared on one split of one text, and what can be compared at all.

Its *members* are runs and files of translations. Members that differ only by their random seed
are one *subject*: a system with one line in a figure.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.analysis.study.members import (
    FileMember,
    Member,
    SplitText,
    is_same_segmentation,
    only_runs,
)
from jtrans.data.prepared import PreparedCorpus, Side
from jtrans.decoding.options import DecodingChoices
from jtrans.errors import ConfigError, CorpusError
from jtrans.evaluation.bootstrap import Bootstrap
from jtrans.progress import Progress, Silent

if TYPE_CHECKING:
    from jtrans.analysis.study.teacher_forcing import TeacherForcedSplit
    from jtrans.runs import Run
    from jtrans.text.pipeline import TextSide


class Subject:
    """One system: a run, several runs that differ only by seed, or a file of translations.

    Numbers are means over `members`; text and models are those of the first one.

    Args:
        name: as shown to the user.
        members: at least one.
        index: place among the systems analysed; decides the colour.
    """

    def __init__(self, name: str, members: Sequence[Member | FileMember], index: int) -> None:
        self.name = name
        self.members = list(members)
        self.index = index

    @property
    def runs(self) -> list[Run]:
        """Its runs, none for a file."""
        return [member.run for member in self.members if member.run is not None]

    @property
    def has_model(self) -> bool:
        """Whether there is a model behind it, and not only a file of translations."""
        return bool(self.runs)

    @property
    def run_members(self) -> list[Member]:
        """Its members with a model."""
        return only_runs(self.members)

    @property
    def hypotheses(self) -> list[str]:
        """Translations as raw text."""
        return self.members[0].hypotheses

    @property
    def hypothesis_words(self) -> list[list[str]]:
        """Translations as words, segmented like the study's reference words."""
        return self.members[0].hypothesis_words

    @property
    def teacher_forced(self) -> TeacherForcedSplit:
        """The teacher-forced scores of the reference, token by token."""
        return self.run_members[0].teacher_forced


class Study:
    """Systems on one split of one text.

    Args:
        subjects: in the order the user gave.
        text: the split.
        corpus: the prepared corpus of the first run.
        warnings: what a reader must know.
    """

    def __init__(
        self,
        subjects: Sequence[Subject],
        text: SplitText,
        corpus: PreparedCorpus,
        warnings: Sequence[str],
    ) -> None:
        self.subjects = list(subjects)
        self.text = text
        self.corpus = corpus
        self.warnings = list(warnings)
        self.split = text.split
        self.source_lines = text.source_lines
        self.reference_lines = text.reference_lines
        self.source_words = text.source_words
        self.reference_words = text.reference_words

    def __len__(self) -> int:
        return len(self.source_lines)

    @cached_property
    def bootstrap(self) -> Bootstrap:
        """The test sets that every interval rests on."""
        return Bootstrap(len(self))

    @property
    def runs(self) -> list[Run]:
        """All runs, in order."""
        return [run for subject in self.subjects for run in subject.runs]

    @property
    def with_model(self) -> list[Subject]:
        """The systems that are more than a file of translations."""
        return [subject for subject in self.subjects if subject.has_model]

    @property
    def lowercase(self) -> bool:
        """Whether scores compare without case: when a run writes lower case."""
        return any(run.pipeline.target.lowercase for run in self.runs)

    @property
    def target_language(self) -> str:
        """The language of the hypotheses."""
        return self.corpus.languages[1]

    @cached_property
    def different_tokens(self) -> list[str]:
        """The runs whose target tokens are not those of the first run."""
        first, *others = self.runs
        expected = _target_digest(first)
        return [run.name for run in others if _target_digest(run) != expected]

    def require_same_tokens(self, measurement: str) -> None:
        """Refuse to compare numbers of tokens between runs that have different tokens.

        Args:
            measurement: what they are, in the plural, for the message.

        Raises:
            CorpusError: saying which runs differ and what still can be compared.
        """
        if self.different_tokens:
            raise CorpusError(
                f"{measurement} cannot be compared: {', '.join(self.different_tokens)} and "
                f"{self.runs[0].name} have different target tokens (vocabulary, BPE or counts)",
                hint="length and compare need only the same text; or give the runs one by one",
                kind="corpus.different-tokens",
            )


def load_subjects(
    runs: Sequence[Run],
    split: str = "test",
    *,
    device: str | None = None,
    precision: str = "auto",
    progress: Progress | None = None,
    data: Path | None = None,
    checkpoint: str = "best",
    search: Mapping[str, Any] | None = None,
    batch_tokens: int | None = None,
    hypotheses: Sequence[Path] = (),
) -> Study:
    """Gather runs and files of translations for analysis; nothing is computed yet.

    Args:
        runs: at least one; those that differ only by seed become one system.
        split: of the prepared corpus, which must hold the same text and references for all runs.
        device: by name; None for the machine's best.
        precision: ``auto``, ``fp32`` or ``bf16``.
        progress: for reporting how far the work is.
        data: a prepared corpus to use instead of each run's own.
        checkpoint: which one of every run.
        search: options of the search that replace those of the recipes.
        batch_tokens: source tokens in a batch.
        hypotheses: files of translations by other tools.

    Raises:
        JtransError: no corpus, no such split, an empty one, different texts, no checkpoint,
            or a run given twice.
    """
    _refuse_repetition(runs)
    decoding = DecodingChoices(checkpoint, device, precision, batch_tokens, search or {})
    corpora = [open_corpus(run, data) for run in runs]
    members = open_members(runs, corpora, split, decoding, progress)
    text, common = members[0].text, runs[0].pipeline
    if not text.source_lines:
        raise CorpusError(
            f"{split} of {corpora[0].folder} is empty: nothing to analyse",
            hint=f"choose another: --split {'|'.join(corpora[0].splits[1:])}",
            kind="corpus.empty",
        )
    groups: dict[str, list[Member | FileMember]] = {}
    for member in members:
        groups.setdefault(all_but_seed(member.run), []).append(member)
    groups |= {str(path): [FileMember(path, text, common)] for path in hypotheses}
    subjects = [
        Subject(_group_name(group), group, index) for index, group in enumerate(groups.values())
    ]
    return Study(subjects, text, corpora[0], _warnings(runs, corpora))


def open_members(
    runs: Sequence[Run],
    corpora: Sequence[PreparedCorpus],
    split: str,
    decoding: DecodingChoices,
    progress: Progress | None = None,
) -> list[Member]:
    """Return runs as members on the split they share; nothing is computed yet.

    Args:
        runs: at least one.
        corpora: the prepared corpus of each; all must hold the same text and references.
        split: its name.
        decoding: which checkpoint, and how it is loaded and translates.
        progress: for reporting how far the work is.

    Raises:
        JtransError: no such split, different texts, no checkpoint, or a search option that
            cannot be used.
    """
    text = _common_text(runs, corpora, split)
    return [
        Member(name, run, text, runs[0].pipeline, decoding, progress or Silent())
        for name, run in zip(_names(runs), runs, strict=True)
    ]


def open_corpus(run: Run, data: Path | None) -> PreparedCorpus:
    """Return the prepared corpus to score or analyse a run on.

    Raises:
        CorpusError: there is none, or it is of other languages.
    """
    folder = data or run.info.get("data")
    if folder is None or not (Path(folder) / "corpus.json").is_file():
        raise CorpusError(
            f"no prepared corpus for {run.name}: "
            + ("it does not name one" if folder is None else f"there is none in {folder}"),
            hint="--data DIR names it; files are scored by jtrans score --hyp FILE --ref FILE",
            kind="corpus.not-prepared",
        )
    corpus = PreparedCorpus.open(Path(folder))
    if corpus.languages != run.pipeline.languages:
        raise CorpusError(
            f"{run.name} translates {'-'.join(run.pipeline.languages)}, "
            f"{folder} is {'-'.join(corpus.languages)}",
            hint="name a corpus of these languages: --data DIR",
            kind="corpus.languages",
        )
    return corpus


def all_but_seed(run: Run) -> str:
    """Return a key that is the same for runs that differ only by seed."""
    from jtrans.models.zoo import system_configs

    values = run.config(system_configs()).model_dump(mode="json")
    values["training"].pop("seed")
    return json.dumps([values, run.pipeline.fingerprint(), _training_text(run)], sort_keys=True)


def _training_text(run: Run) -> Any:
    """Return the digests of the text a run was trained on, None where they are not known."""
    return (run.info.get("train") or {}).get("sha256")


def _refuse_repetition(runs: Sequence[Run]) -> None:
    if not runs:
        raise ConfigError("no run to analyse", hint="jtrans analyze length RUN")
    folders = [run.folder.resolve() for run in runs]
    for run, folder in zip(runs, folders, strict=True):
        if folders.count(folder) > 1:
            raise ConfigError(
                f"{run.name} is given twice",
                hint="name every run once; systems are compared with each other",
                kind="command.usage",
            )


def _shared_lines(
    runs: Sequence[Run], corpora: Sequence[PreparedCorpus], split: str
) -> tuple[list[str], list[list[str]]]:
    """Return the source lines and all reference sets of a split, the same for all runs.

    Args:
        runs: at least one.
        corpora: the prepared corpus of each.
        split: its name.

    Raises:
        CorpusError: no such split, or texts or references that differ.
    """
    texts = [(corpus.raw_lines(split, "source"), corpus.references(split)) for corpus in corpora]
    others = [run.name for run, text in zip(runs, texts, strict=True) if text != texts[0]]
    if others:
        same = [run for run, text in zip(runs, texts, strict=True) if text == texts[0]]
        comparable = " ".join(run.folder.as_posix() for run in same)
        part = "references" if len({tuple(source) for source, _ in texts}) == 1 else "texts"
        raise CorpusError(
            f"{', '.join(others)} and {runs[0].name} have different {part} in {split}",
            hint="--data DIR scores all of them on one corpus"
            + (f"; these share theirs: {comparable}" if len(same) > 1 else ""),
            kind="corpus.different-tests",
        )
    return texts[0]


def _common_text(runs: Sequence[Run], corpora: Sequence[PreparedCorpus], split: str) -> SplitText:
    """Return the text that all corpora share, as words of the first run's pipeline."""
    source, (first, *more) = _shared_lines(runs, corpora, split)
    segment = runs[0].pipeline.target.segment
    return SplitText(
        split,
        source,
        first,
        _words(runs[0], corpora[0], split, "source"),
        _words(runs[0], corpora[0], split, "target"),
        [(lines, [segment(line) for line in lines]) for lines in more],
    )


def _words(run: Run, corpus: PreparedCorpus, split: str, side: Side) -> list[list[str]]:
    """Return the words of a run: those of the corpus where it segments alike."""
    own: TextSide = getattr(run.pipeline, side)
    if is_same_segmentation(own, getattr(corpus.pipeline, side)):
        return corpus.words_lines(split, side)
    return [own.segment(line) for line in corpus.raw_lines(split, side)]


def _names(runs: Sequence[Run]) -> list[str]:
    """Return the names, or the folders where names repeat."""
    names = [run.name for run in runs]
    if len(set(names)) == len(names):
        return names
    return [str(run.folder) for run in runs]


def _group_name(group: Sequence[Member | FileMember]) -> str:
    """Return one name for the seeds of a system: what their names begin with."""
    if len(group) == 1:
        return group[0].name
    names = [member.name for member in group]
    same = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    shared = "".join(letters[0] for letters in same).rstrip("-_./ ")
    return f"{shared or group[0].name} ({len(group)} seeds)"


def _warnings(runs: Sequence[Run], corpora: Sequence[PreparedCorpus]) -> list[str]:
    warnings = []
    first = runs[0]
    for run, corpus in zip(runs[1:], corpora[1:], strict=True):
        if _training_text(run) != _training_text(first):
            warnings.append(
                f"{run.name} and {first.name} were trained on different corpora "
                f"({corpus.name}, {corpora[0].name}): training frequencies are those of "
                f"{first.name}"
            )
        if not is_same_segmentation(run.pipeline.target, first.pipeline.target):
            warnings.append(
                f"{run.name} segments words differently from {first.name}: its translations are "
                f"segmented again as {first.name} does"
            )
    return warnings


def _target_digest(run: Run) -> str:
    return json.dumps(run.pipeline.target.to_json(), sort_keys=True)
