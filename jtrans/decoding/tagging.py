"""Tag raw text with a system that has tagging heads: parts of speech and entities by word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch

from jtrans.data.batch import padded
from jtrans.decoding.batches import BATCH_TOKENS, by_length, in_order
from jtrans.decoding.halving import in_halves
from jtrans.decoding.options import DecodingChoices
from jtrans.decoding.translator import LONGEST_SOURCE, load_model
from jtrans.errors import ConfigError
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import system_configs
from jtrans.nn.device import autocast, resolve_device, resolve_precision
from jtrans.progress import Progress, Silent
from jtrans.runs import Run
from jtrans.text.pipeline import TextSide
from jtrans.text.vocabulary import EOS

Labels = dict[str, list[str]]  # of the words of a sentence, by kind ("pos", "ner")


@dataclass(frozen=True)
class TaggedLine:
    """The words of a line, spelt as in the raw text, and their labels, by kind."""

    words: list[str]
    labels: Labels


class _Part(NamedTuple):
    """Pieces of a sentence that a model reads at once."""

    sentence: int
    ids: list[int]  # EOS last
    firsts: list[int]  # where each of its words begins


@dataclass(frozen=True, eq=False)
class Tagger:
    """Tags words with one model."""

    model: TranslationModel  # in evaluation mode
    side: TextSide  # the source side of its run's pipeline
    label_names: Mapping[str, Sequence[str]]  # by kind; the number of a label is its position
    batch_tokens: int  # most padded tokens in one batch
    precision: str  # "fp32" or "bf16"

    @classmethod
    def load(cls, run: Run, decoding: DecodingChoices) -> Tagger:
        """Load a run.

        Raises:
            ConfigError: its system has no tagging heads, or it was trained without labels.
            CheckpointError: the run or its checkpoint cannot be used.
        """
        names = require_labels(run)
        device = resolve_device(decoding.device)
        model = load_model(run, decoding.checkpoint, device)
        batch_tokens = decoding.batch_tokens or BATCH_TOKENS
        precision = resolve_precision(device, decoding.precision)
        return cls(model, run.pipeline.source, names, batch_tokens, precision)

    def tag(
        self, lines: Sequence[str], progress: Progress = Silent(), first_line: int = 1
    ) -> list[TaggedLine]:
        """Tag raw lines, in order, numbered from `first_line`; an empty line has no words."""
        words = [self._cased.segment(line) for line in lines]
        tagged = self.tag_words(list(map(self.side.recase, words)), progress, first_line)
        return [self._shown(*both) for both in zip(words, tagged, strict=True)]

    @cached_property
    def _cased(self) -> TextSide:
        """The side with words as they are written."""
        return replace(self.side, lowercase=False, truecaser=None)

    def tag_words(
        self, lines: Sequence[Sequence[str]], progress: Progress, first_line: int = 1
    ) -> list[Labels]:
        """Tag lines of words, as the run's source side segments them.

        A word has the label of its first piece. Lines that are too long for the model are tagged
        in parts. `first_line` is the number of the first one, for messages.
        """
        parts = [part for number, line in enumerate(lines) for part in self._parts(number, line)]
        lengths = [len(part.ids) for part in parts]
        tagged = in_halves(
            by_length(lengths, batch_tokens=self.batch_tokens, is_joint=self.model.is_joint),
            lambda batch: self._tag_batch([parts[index] for index in batch]),
            lengths=lengths,
            lines=[first_line + part.sentence for part in parts],
            device=self.model.device,
            progress=progress,
            hint="a machine with more memory",
        )
        result: list[Labels] = [{kind: [] for kind in self.label_names} for _ in lines]
        by_part = in_order(tagged, len(parts), progress, "Tagging")
        for part, labels in zip(parts, by_part, strict=True):
            for kind, names in labels.items():
                result[part.sentence][kind] += names
        return result

    def _shown(self, words: Sequence[str], labels: Labels) -> TaggedLine:
        """Leave out words that stand for a space (character segmentation)."""
        surfaces = self.side.surfaces(words)
        real = [place for place, surface in enumerate(surfaces) if surface]
        shown = {kind: [names[place] for place in real] for kind, names in labels.items()}
        return TaggedLine([surfaces[place] for place in real], shown)

    def _parts(self, number: int, words: Sequence[str]) -> Iterator[_Part]:
        """Cut a sentence between words into parts that are not too long."""
        longest = min(LONGEST_SOURCE, self.model.longest or LONGEST_SOURCE)
        ids: list[int] = []
        firsts: list[int] = []
        for word in words:
            pieces = self.side.vocabulary.ids(self.side.split([word]))[: longest - 1]
            if len(ids) + len(pieces) >= longest:
                yield _Part(number, [*ids, EOS], firsts)
                ids, firsts = [], []
            firsts.append(len(ids))
            ids += pieces
        if ids:
            yield _Part(number, [*ids, EOS], firsts)

    def _tag_batch(self, parts: Sequence[_Part]) -> list[Labels]:
        source, mask = padded([part.ids for part in parts], self.model.device)
        with torch.no_grad(), autocast(self.model.device, self.precision):
            logits = self.model.tag(self.model.encode(source, mask))
        best = {
            kind: logits[kind][..., : len(names)].argmax(dim=-1).tolist()
            for kind, names in self.label_names.items()
        }
        return [
            {
                kind: [self.label_names[kind][rows[row][place]] for place in part.firsts]
                for kind, rows in best.items()
            }
            for row, part in enumerate(parts)
        ]


def require_labels(run: Run) -> dict[str, list[str]]:
    """Return the names of the labels that a run can give, by kind.

    Raises:
        ConfigError: its system has no tagging heads, or it was trained without labels.
    """
    if run.label_names:
        return run.label_names
    model = run.config(system_configs()).model
    system = model.system
    able = tagging_systems()
    if system in able:
        weights = [getattr(model, f"{kind}_weight", 1.0) for kind in ("pos", "ner")]
        is_off = not any(weights)
        without = "with the weights of all tags 0" if is_off else "without labels"
        message = f"{run.name} was trained {without}, so it cannot tag"
        hint = "train it on a corpus prepared with --labels"
        hint += ", with --set model.pos_weight=0.1 or model.ner_weight=0.1" if is_off else ""
    else:
        message = f"{run.name} cannot tag: the system {system} has no tagging heads"
        hint = f"systems that tag: {', '.join(able) or 'none'}"
    raise ConfigError(message, where=str(run.folder), hint=hint, kind="config.no-tags")


def tagging_systems() -> list[str]:
    """Return the names of the systems with tagging heads."""
    able = []
    configs = system_configs()
    for name in configs:
        try:
            model = configs.entry(name).model_class()
        except ConfigError:
            continue  # broken, or of a distribution that cannot be loaded
        if model.tag is not TranslationModel.tag:
            able.append(name)
    return able
