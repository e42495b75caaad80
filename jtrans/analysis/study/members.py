"""One run, or one file of translations, as the analyses see it: everything lazily, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.analysis.kept import Kept
from jtrans.errors import CorpusError, InternalError
from jtrans.progress import Progress, Silent

if TYPE_CHECKING:
    from jtrans.analysis.study.measurements import ForcedSplit
    from jtrans.decoding.options import SearchOptions
    from jtrans.decoding.stored import SplitTranslation
    from jtrans.decoding.translator import Translator
    from jtrans.models.base import TranslationModel
    from jtrans.runs import Run
    from jtrans.text.pipeline import TextPipeline, TextSide


@dataclass(frozen=True)
class How:
    """How the models are used.

    Args:
        checkpoint: which one of every run.
        device: by name; None for the machine's best.
        precision: ``auto``, ``fp32`` or ``bf16``.
        search: options of the search that replace those of the recipe.
        batch_tokens: source tokens in a batch; None for the usual number.
        progress: told how far the work is.
    """

    checkpoint: str = "best"
    device: str | None = None
    precision: str = "auto"
    search: Mapping[str, Any] = field(default_factory=dict)
    batch_tokens: int | None = None
    progress: Progress = field(default_factory=Silent)


@dataclass(frozen=True)
class SplitText:
    """The text of a split.

    Args:
        split: its name.
        source_lines: raw text.
        reference_lines: raw text; where there are several references, the first.
        source_words: segmented, before BPE.
        reference_words: the same.
        more_references: further references of the same lines, raw text and words.
    """

    split: str
    source_lines: list[str]
    reference_lines: list[str]
    source_words: list[list[str]]
    reference_words: list[list[str]]
    more_references: Sequence[tuple[list[str], list[list[str]]]] = ()

    @property
    def references(self) -> list[list[str]]:
        """All reference sets as raw text."""
        return [self.reference_lines, *(lines for lines, _ in self.more_references)]

    @property
    def words_of_references(self) -> list[tuple[list[str], ...]]:
        """The words of all references of every line."""
        sets = [self.reference_words, *(words for _, words in self.more_references)]
        return list(zip(*sets, strict=True))

    @property
    def only_first(self) -> str:
        """What to add to the note of numbers that know one reference only; often nothing."""
        number = len(self.references)
        return f" Of the {number} references of a sentence, the first." if number > 1 else ""


class Member:
    """One run.

    Args:
        name: how to call it.
        run: an existing run.
        text: of the split, segmented as the first run does.
        how: its model is used.
        common: the pipeline that cut `text` into words.
    """

    def __init__(
        self, name: str, run: Run, text: SplitText, how: How, common: TextPipeline
    ) -> None:
        self.name = name
        self.run = run
        self.text = text
        self.how = how
        self._common = common

    @cached_property
    def hypotheses(self) -> list[str]:
        """Its translations as raw text, one per source line."""
        return list(self._translation.lines)

    @cached_property
    def hypothesis_words(self) -> list[list[str]]:
        """Its translations as words, cut like the reference words."""
        if is_same_segmentation(self.run.pipeline.target, self._common.target):
            return [list(words) for words in self._translation.words]
        return [self._common.target.segment(line) for line in self.hypotheses]

    @cached_property
    def tokens_per_second(self) -> float:
        """Target tokens per second when it translated."""
        return self._translation.tokens_per_second

    @cached_property
    def source_pieces(self) -> list[list[str]]:
        """The source lines as its model reads them, without ``</s>``."""
        return self._pieces("source", self.text.source_lines, self.text.source_words)

    @cached_property
    def reference_pieces(self) -> list[list[str]]:
        """The reference lines as its model writes them, without ``</s>``."""
        return self._pieces("target", self.text.reference_lines, self.text.reference_words)

    @cached_property
    def source_ids(self) -> list[list[int]]:
        """The source lines as ids, ending in EOS."""
        return [self.run.pipeline.source.encode_pieces(pieces) for pieces in self.source_pieces]

    @cached_property
    def reference_ids(self) -> list[list[int]]:
        """The reference lines as ids, ending in EOS."""
        return [self.run.pipeline.target.encode_pieces(pieces) for pieces in self.reference_pieces]

    @cached_property
    def forced(self) -> ForcedSplit:
        """What the model gives the reference, token by token."""
        from jtrans.analysis.study.measurements import forced_split

        return forced_split(
            self.kept("forced"),
            self.source_ids,
            self.reference_ids,
            load=lambda: self.translator,
            progress=self.how.progress,
        )

    @cached_property
    def translator(self) -> Translator:
        """The loaded model, ready to translate."""
        from jtrans.decoding.batches import BATCH_TOKENS
        from jtrans.decoding.translator import Translator
        from jtrans.nn.device import resolve_device

        self.how.progress.say("Loading", self.name)
        return Translator.from_runs(
            [self.run],
            self.how.checkpoint,
            resolve_device(self.how.device),
            self.how.precision,
            options=self._options,
            batch_tokens=self.how.batch_tokens or BATCH_TOKENS,
        )

    @property
    def model(self) -> TranslationModel:
        """The loaded model."""
        return self.translator.models[0]

    def kept(self, what: str, *, all_references: bool = False, **options: Any) -> Kept:
        """Return the place of a measurement on this split: in the run's folder.

        Args:
            what: was measured.
            all_references: whether further references decide the result, too.
            options: all else that decides it.
        """
        references = self.text.references if all_references else [self.text.reference_lines]
        text = [self.text.source_lines, *references]
        return Kept(
            self.run,
            what,
            self.text.split,
            self.how.checkpoint,
            text,
            precision=self.how.precision,
            **options,
        )

    @cached_property
    def _options(self) -> SearchOptions:
        from jtrans.decoding.options import SearchOptions
        from jtrans.models.zoo import system_configs

        values = self.run.config(system_configs()).decoding.model_dump()
        return SearchOptions(**{**values, **self.how.search})

    @cached_property
    def _translation(self) -> SplitTranslation:
        from jtrans.decoding.stored import translate_split

        found = translate_split(
            self.run,
            self.text.split,
            self.text.source_lines,
            self._options,
            checkpoint=self.how.checkpoint,
            precision=self.how.precision,
            load=lambda: self.translator,
            progress=self.how.progress,
        )
        for lines in (found.lines, found.words):
            check_lines(lines, self.text, f"{self.name}: translations/")
        return found

    def _pieces(
        self, side: str, lines: Sequence[str], words: Sequence[Sequence[str]]
    ) -> list[list[str]]:
        own: TextSide = getattr(self.run.pipeline, side)
        if is_same_segmentation(own, getattr(self._common, side)):
            return [own.split(line) for line in words]
        return [own.pieces(line) for line in lines]


class FileMember:
    """Translations of another tool: a file with one line per source line.

    Args:
        path: of the file.
        text: of the split.
        common: the pipeline that cut `text` into words.

    Raises:
        CorpusError: the file cannot be read, or has another number of lines.
    """

    run: None = None

    def __init__(self, path: Path, text: SplitText, common: TextPipeline) -> None:
        from jtrans.corpora.lines import read_line_file

        self.name = path.name
        self.hypotheses = list(read_line_file(path))
        check_lines(self.hypotheses, text, str(path))
        self._common = common

    @cached_property
    def hypothesis_words(self) -> list[list[str]]:
        """The translations as words, cut like the reference words."""
        return [self._common.target.segment(line) for line in self.hypotheses]


def is_same_segmentation(one: TextSide, other: TextSide) -> bool:
    """Whether two sides cut raw text into the same words."""
    names = ("language", "segmenter", "lowercase", "truecaser", "dictionary")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def check_lines(lines: Sequence[Any], text: SplitText, where: str) -> None:
    """Refuse hypotheses that are not one per source line.

    Raises:
        CorpusError: naming both numbers.
    """
    if len(lines) != len(text.source_lines):
        raise CorpusError(
            f"{len(lines):,} translations, but {text.split} has {len(text.source_lines):,} lines",
            where=where,
            hint="line n must translate source line n; delete a damaged file and run again",
            kind="corpus.line-counts",
        )


def only_runs(members: Sequence[Member | FileMember]) -> list[Member]:
    """Return the runs among some members, where only runs may be.

    Raises:
        InternalError: a file of translations has no model.
    """
    runs = [member for member in members if isinstance(member, Member)]
    if len(runs) != len(members):
        raise InternalError("a file of translations was asked for its model")
    return runs
