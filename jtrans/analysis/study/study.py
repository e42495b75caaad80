"""A study: systems compared on one split of one text.

Its *members* are runs and files of translations. Members that differ only by their random seed
are one *subject*: a system with one line in a figure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from jtrans.analysis.study.members import FileMember, Member, SplitText, TextFiles
from jtrans.analysis.study.teacher_forcing import TeacherForcedSplit
from jtrans.analysis.study.words import StudyWords, TrainingWords
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import CorpusError
from jtrans.evaluation.bootstrap import Bootstrap
from jtrans.files import as_text
from jtrans.runs import Run


@dataclass(frozen=True, eq=False, repr=False)
class Subject:
    """One system: a run, several runs that differ only by seed, or a file of translations.

    Numbers are means over `members`; text and models are those of the first one.
    """

    name: str  # as shown to the user
    members: Sequence[Member | FileMember]  # at least one
    index: int  # place among the systems analysed; decides the colour

    @property
    def runs(self) -> list[Run]:
        """Its runs, none for a file."""
        return [member.run for member in self.members if member.run is not None]

    @property
    def has_model(self) -> bool:
        """Whether it has a model, not only a file of translations."""
        return bool(self.runs)

    @property
    def run_members(self) -> list[Member]:
        """Its members with a model."""
        return [member for member in self.members if isinstance(member, Member)]

    @property
    def hypotheses(self) -> list[str]:
        """Translations as raw text."""
        return self.members[0].hypotheses

    @property
    def teacher_forced(self) -> TeacherForcedSplit:
        """The teacher-forced scores of the reference, token by token."""
        return self.run_members[0].teacher_forced


@dataclass(eq=False, repr=False)
class Study:
    """Systems to compare on one split of one text."""

    subjects: list[Subject]  # in the order the user gave
    text: SplitText
    corpus: PreparedCorpus | None  # of the first run; None without runs
    words: StudyWords  # how lines are split into words, and whether case counts
    warnings: list[str]  # caveats for the reader
    files: TextFiles | None = None  # in place of runs and a corpus
    training: TrainingWords | None = None  # without runs, if a training text is known

    def __post_init__(self) -> None:
        self.split = self.text.split
        self.reference_lines = self.text.reference_lines

    @property
    def reference_words(self) -> list[list[str]]:
        """The first reference as words of the study."""
        return self.text.reference_words

    def __len__(self) -> int:
        return len(self.reference_lines)

    @property
    def source_lines(self) -> list[str]:
        """The source as raw text, which every study of runs has."""
        return self.text.source_lines

    @cached_property
    def bootstrap(self) -> Bootstrap:
        """The resampled test sets from which every interval is computed."""
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
        """Whether words and scores are compared without case."""
        return self.words.lowercase

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of the source, if there is one, and of the hypotheses."""
        sides = (self.words.source, self.words.target)
        return tuple(side.language for side in sides if side is not None)

    @property
    def target_language(self) -> str:
        """The language of the hypotheses."""
        return self.words.target.language

    @property
    def place(self) -> str:
        """Where the text is from: corpus and split, or the file of the first reference."""
        if self.corpus is not None:
            return f"{self.corpus.name} {self.split}"
        return "" if self.files is None else as_text(self.files.references[0].name)

    @property
    def label_names(self) -> Mapping[str, Sequence[str]]:
        """The labels of source words by kind; empty if the text has none."""
        return {} if self.corpus is None else self.corpus.label_names

    @cached_property
    def token_difference(self) -> str:
        """Which runs have other target tokens than the first, in words; empty if none has."""
        digests = [_target_digest(run) for run in self.runs]
        pairs = zip(self.runs, digests, strict=True)
        others = [run.name for run, digest in pairs if digest != digests[0]]
        both = f"{', '.join(others)} and {self.runs[0].name}" if others else ""
        return both and f"{both} have different target tokens"

    def require_same_tokens(self, measurement: str) -> None:
        """Raise a CorpusError if the runs have different target tokens.

        Args:
            measurement: what cannot be compared then.
        """
        if self.token_difference:
            raise CorpusError(
                f"{measurement} cannot be compared: {self.token_difference} (vocabulary, BPE or "
                "counts)",
                hint="length and compare need only the same text; or give the runs one by one",
                kind="corpus.different-tokens",
            )


def _target_digest(run: Run) -> str:
    return json.dumps(run.pipeline.target.to_json(), sort_keys=True)
