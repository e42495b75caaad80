"""Translate raw text to raw text, preserving the order of lines and empty lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from jtrans.data.batch import Ids
from jtrans.decoding.batched_search import translate_ids
from jtrans.decoding.batches import BATCH_TOKENS, default_batch_tokens
from jtrans.decoding.lines.attended import AttentionReader
from jtrans.decoding.lines.constraints import (
    ConstraintEncoder,
    EncodedConstraints,
    check_search,
    no_translation,
)
from jtrans.decoding.lines.given import GivenTranslation, TokenReader
from jtrans.decoding.lines.long_lines import joined, joined_alignment
from jtrans.decoding.lines.sentences import (
    MANY_UNKNOWN,
    InputSentence,
    SentenceReader,
    has_many_unknown,
)
from jtrans.decoding.lines.translation import ScoredLine, Translation
from jtrans.decoding.options import (
    Constraints,
    DecodingChoices,
    Limited,
    SearchOptions,
    TranslationExtras,
)
from jtrans.decoding.prepared.base import Searchable
from jtrans.decoding.prepared.choose import prepared
from jtrans.decoding.search.trace import Hypothesis
from jtrans.decoding.teacher_forcing import teacher_forced_scores
from jtrans.decoding.word_alignments import attention_to_source, choose_layer
from jtrans.errors import CheckpointError, DecodingError, option_error
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import build_undrawn, load_weights, system_configs
from jtrans.nn.device import prepare_device, resolve_device, resolve_precision
from jtrans.progress import Progress, Silent
from jtrans.runs import WEIGHTS, Run
from jtrans.text.pipeline import TextPipeline, TextSide
from jtrans.text.vocabulary import EOS

# Time and memory grow with the square of the length: one very long line must not stop a file.
LONGEST_SOURCE = 1024


def load_model(
    run: Run, checkpoint: str = "best", device: torch.device | None = None
) -> TranslationModel:
    """Load the model of a run, in evaluation mode, without gradients.

    `checkpoint` is ``best``, ``last``, an update's number or the name of an average; without a
    `device` the machine's best device is used.

    Raises:
        CheckpointError: there is no such checkpoint, or it is damaged.
    """
    opened = run.checkpoint(checkpoint)
    opened.verify(WEIGHTS)
    config = run.config(system_configs())
    device = device or resolve_device(None)
    prepare_device(device)
    model = build_undrawn(config.model, *run.pipeline.vocabulary_sizes)
    load_weights(model, opened.weights)
    if not all(bool(weight.isfinite().all()) for weight in model.parameters()):
        raise CheckpointError(
            "the checkpoint contains numbers that are not finite",
            where=str(opened.weights),
            hint="its training diverged or the file was changed: use another --checkpoint",
            kind="checkpoint.not-finite",
        )
    return model.to(device).eval().requires_grad_(False)


@dataclass(frozen=True, eq=False)
class Translator:
    """Translates raw text with one model, or with several as an ensemble."""

    models: Sequence[TranslationModel]  # at least one, in evaluation mode, all on one device
    pipeline: TextPipeline  # the text pipeline of the models' runs
    options: SearchOptions
    batch_tokens: int = BATCH_TOKENS  # most padded source tokens in one batch
    precision: str = "fp32"  # "fp32", "bf16" or "int8"
    # sampling, minimum Bayes risk, word alignments
    extras: TranslationExtras = field(default_factory=TranslationExtras)
    # how later models of an ensemble read the source, if they differ
    other_sources: Sequence[TextSide] = ()
    # whether a line that is too long is refused if a grid or several translations are requested;
    # otherwise it gets neither
    refuses_long: bool = True

    @classmethod
    def load(cls, runs: Sequence[Run], decoding: DecodingChoices) -> Translator:
        """Load one run, or several as an ensemble; the search options are those of the first.

        Raises:
            ConfigError: the device, the precision or the attention map does not exist.
            DecodingError: the runs of an ensemble do not share their target language and tokens.
            CheckpointError: a run or checkpoint cannot be used.
        """
        options = decoding.search_options(runs[0])
        _check_ensemble(runs)
        device = resolve_device(decoding.device)
        models = [load_model(run, decoding.checkpoint, device) for run in runs]
        batch_tokens = decoding.batch_tokens or default_batch_tokens(device)
        precision = resolve_precision(device, decoding.precision)
        sides = [run.pipeline.source for run in runs]
        others = sides[1:] if any(side != sides[0] for side in sides) else []
        translator = cls(
            models, runs[0].pipeline, options, batch_tokens, precision, decoding.extras, others
        )
        _check_attention(models[0], decoding.extras)  # refuse at once
        return translator

    def with_options(self, options: SearchOptions, extras: TranslationExtras) -> Translator:
        """Return a translator with other options and the same prepared models.

        Raises:
            ConfigError: extras need an attention map that the first model lacks.
            DecodingError: they need a grid that it lacks.
        """
        if (options, extras) == (self.options, self.extras):
            return self
        _check_attention(self.models[0], extras)
        other = replace(self, options=options, extras=extras)
        vars(other)["_searched"] = self._searched
        return other

    def translate(self, lines: Sequence[str], progress: Progress = Silent()) -> list[str]:
        """Return the best translation of every line, in order; empty lines stay empty."""
        return [best[0].text for best in self.translate_nbest(lines, 1, progress)]

    def translate_nbest(
        self,
        lines: Sequence[str],
        n: int | None = None,
        progress: Progress = Silent(),
        constraints: Sequence[Constraints] | None = None,
        first_line: int = 1,
    ) -> list[list[Translation]]:
        """Return the n best translations of every raw line, best first, lines in order.

        Samples come in the order drawn, unless they are ranked by minimum Bayes risk, which merges
        equal ones. Lines that are too long are translated in parts, with a warning.

        Args:
            lines: raw text.
            n: at most the beam; None for `options.nbest`.
            progress: receives the number of lines done.
            constraints: one per line; None for none.
            first_line: the number of the first line, for messages.

        Raises:
            DecodingError: constraints that cannot be fulfilled, or a line that is too long and
                cannot be translated in parts.
        """
        options = self.options if n is None else replace(self.options, nbest=n)
        reader = self._reader(options, progress)
        sentences = [
            reader.read(line, constraints[i] if constraints else None, first_line + i)
            for i, line in enumerate(lines)
        ]
        flat = [sentence for parts in sentences for sentence in parts]
        if has_many_unknown(flat):
            progress.warn(MANY_UNKNOWN)
        translated = iter(self._translated(flat, options, progress))
        results = [[next(translated) for _ in parts] for parts in sentences]
        return [
            nbests[0] if len(nbests) == 1 else [self._joined(line, parts, nbests)]
            for line, parts, nbests in zip(lines, sentences, results, strict=True)
        ]

    def teacher_forced_scores(
        self,
        sources: Sequence[str],
        targets: Sequence[str | GivenTranslation],
        progress: Progress = Silent(),
    ) -> list[ScoredLine]:
        """Return the model's log-probabilities of given translations of raw lines, token by token.

        Raw translations are segmented; those with tokens are scored as they are. If source and
        translation are both empty, there are no tokens. Lines that are too long are cut, with a
        warning, and the rest is not scored; those with tokens are divided into the parts that were
        translated.

        Args:
            sources: raw text, one for each translation.
            targets: given translations; a raw text is that of the line with its index.
            progress: receives the number of sentences done.

        Raises:
            DecodingError: there are several models, or tokens that the run does not have.
        """
        if len(self.models) > 1:
            raise DecodingError("given translations are scored by one model, not an ensemble")
        given = [
            GivenTranslation(each, line=line) if isinstance(each, str) else each
            for line, each in enumerate(targets)
        ]
        pairs = [
            self._given_pairs(source, each, progress)
            for source, each in zip(sources, given, strict=True)
        ]
        flat = [(i, pair) for i, of_one in enumerate(pairs) for pair in of_one]
        scores = teacher_forced_scores(
            self.models[0],
            [pair[0] for _, pair in flat],
            [pair[1] for _, pair in flat],
            lines=[given[i].line + 1 for i, _ in flat],
            precision=self.precision,
            progress=progress,
        )
        token = self.pipeline.target.vocabulary.token
        result = [ScoredLine([], []) for _ in pairs]
        for (i, (_, ids)), scored in zip(flat, scores, strict=True):
            result[i].tokens.extend(map(token, ids))
            result[i].token_log_probs.extend(scored.log_probs)
        return result

    def _given_pairs(
        self, source: str, given: GivenTranslation, progress: Progress
    ) -> list[tuple[list[int], list[int]]]:
        """Return the ids of a line and of its translation; several pairs if it is cut in parts."""
        number = given.line + 1
        if given.tokens:
            # a line that was cut when it was translated is cut in the same places
            sentences = self._reader(self.options, Silent()).read(source, None, number)
            full = [each.ids for each in sentences if len(each.ids) > 1] or [[EOS]]
            return list(zip(full, self._tokens.read(given.tokens, len(full), number), strict=True))
        pair = (
            self._encode(self.pipeline.source, source, f"source line {number:,}", progress),
            self._encode(self.pipeline.target, given.text, f"translation {number:,}", progress),
        )
        return [pair] if max(map(len, pair)) > 1 else []

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is prepared for this process: its tensors cannot be copied."""
        return {name: value for name, value in vars(self).items() if name != "_searched"}

    @property
    def _limited(self) -> Sequence[Limited]:
        """What limits the length of sentences."""
        return self.models

    @cached_property
    def _searched(self) -> Sequence[Searchable]:
        """The models as the search uses them."""
        return [prepared(model, self.precision) for model in self.models]

    def _encode(self, side: TextSide, line: str, name: str, progress: Progress) -> list[int]:
        """Return the ids of a line to score, cut if it is too long; its name is for messages."""
        ids = side.encode(line)
        if len(ids) <= self.longest:
            return ids
        progress.warn(
            f"{name} has {len(ids) - 1:,} tokens, more than {self.longest - 1:,}: "
            f"the rest is left out: {line[:40]} ..."
        )
        return [*ids[: self.longest - 1], ids[-1]]

    @property
    def longest(self) -> int:
        """The most tokens of a sentence to read, ``</s>`` counted."""
        longest = (each.longest for each in self._limited)
        return min(LONGEST_SOURCE, *(each or LONGEST_SOURCE for each in longest))

    @cached_property
    def _tokens(self) -> TokenReader:
        return TokenReader(self.pipeline.target.vocabulary)

    @cached_property
    def _constraints(self) -> ConstraintEncoder:
        return ConstraintEncoder(self.pipeline.target)

    def _reader(self, options: SearchOptions, progress: Progress) -> SentenceReader:
        indivisible = {"several translations": options.nbest > 1, "a grid": self.extras.grid}
        return SentenceReader(
            (self.pipeline.source, *self.other_sources),
            self._constraints,
            self.longest,
            lambda length: options.limit(length, self._limited),
            [name for name, is_on in indivisible.items() if is_on and self.refuses_long],
            progress,
        )

    def _translated(
        self, sentences: Sequence[InputSentence], options: SearchOptions, progress: Progress
    ) -> list[list[Translation]]:
        """Return the n best translations of every sentence."""
        full = [index for index, sentence in enumerate(sentences) if len(sentence.ids) > 1]
        extras = self.extras
        has_choice = extras.mbr is not None or extras.coverage_penalty > 0
        searched = [sentences[index] for index in full]
        check_search([each.constraints for each in searched], options, extras.sampling)
        wider = replace(options, nbest=options.beam) if has_choice else options
        best = []
        results = self._search(searched, wider, progress)
        for sentence, hypotheses in zip(searched, results, strict=True):
            if not hypotheses:
                raise no_translation(sentence.number)
            ranked = self._rank([self._to_text(each, sentence.constraints) for each in hypotheses])
            best.append(ranked if extras.coverage_penalty else ranked[: options.nbest])
        if extras.needs_attention:
            reader = AttentionReader(self.pipeline, extras, self._attention)
            best = reader.read(searched, best)
        result = [[self._empty] for _ in sentences]
        for index, translations in zip(full, best, strict=True):
            result[index] = translations[: options.nbest]
        return result

    def _search(
        self, sentences: Sequence[InputSentence], options: SearchOptions, progress: Progress
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of sentences; engines of other programs override it."""
        # operations cost less in inference mode, which validation during training cannot use
        with torch.inference_mode():
            return translate_ids(
                self._searched,
                [each.ids for each in sentences],
                options,
                others=[
                    [each.others[i] for each in sentences] for i in range(len(self.other_sources))
                ],
                constraints=[each.constraints for each in sentences],
                sampling=self.extras.sampling,
                never=self.pipeline.target.vocabulary.filler,
                batch_tokens=self.batch_tokens,
                lines=[each.number for each in sentences],
                progress=progress,
            )

    def _joined(
        self, line: str, parts: Sequence[InputSentence], nbests: Sequence[Sequence[Translation]]
    ) -> Translation:
        best = [nbest[0] for nbest in nbests]
        self._constraints.check_joined(best, parts[0].constraints, parts[0].number)
        whole = joined(best, self.pipeline.target, self.options)
        if self.extras.alignments:
            texts = [part.text for part in parts]
            alignment = joined_alignment(line, texts, best, self.pipeline.source)
            whole = replace(whole, alignment=alignment)
        if self.extras.mbr:
            return replace(whole, score=sum(each.score for each in best) / len(best))
        return whole

    def _attention(
        self, sources: Sequence[Ids], targets: Sequence[Ids], lines: Sequence[int]
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield each pair's number and its attention to the source, [T, S].

        The numbers of the pairs' lines are for messages.
        """
        layer = choose_layer(self.models[0], self.extras.alignment_layer)
        for number, maps in attention_to_source(self.models[0], sources, targets, lines, layer):
            yield number, maps[layer]

    @property
    def _empty(self) -> Translation:
        """The translation of an empty line."""
        alignment = "" if self.extras.alignments else None
        nothing: list[Any] | None = [] if self.extras.grid else None
        return Translation("", 0.0, 0.0, [], [], [], alignment, nothing, nothing)

    def _rank(self, translations: list[Translation]) -> list[Translation]:
        """Sort candidates by expected utility, which becomes the score, if that is chosen.

        Several with the same text, such as samples, have the same utility: only the first is kept.
        """
        if not self.extras.mbr:
            return translations
        from jtrans.decoding.mbr import expected_utilities  # it loads sacreBLEU

        texts = [each.text for each in translations]
        log_probs = None if self.extras.sampling else [each.log_prob for each in translations]
        language = self.pipeline.target.language
        scores = expected_utilities(texts, log_probs, self.extras.mbr, language).tolist()
        scored = [
            replace(each, score=score) for each, score in zip(translations, scores, strict=True)
        ]
        best = sorted(scored, key=lambda each: -each.score)
        return list({each.text: each for each in reversed(best)}.values())[::-1]

    def _to_text(self, hypothesis: Hypothesis, constraints: EncodedConstraints) -> Translation:
        """Return a hypothesis as text; its first words are those of its prefix."""
        side = self.pipeline.target
        # unknown pieces do not show where the words of a prefix end
        begin = len(constraints.prefix) if constraints.words else 0
        words = [*constraints.words, *side.words(hypothesis.tokens[begin:])]
        return Translation(
            text=side.join(words),
            score=hypothesis.score,
            log_prob=hypothesis.log_prob,
            tokens=[side.vocabulary.token(token) for token in hypothesis.tokens],
            token_log_probs=hypothesis.token_log_probs,
            words=words,
        )


def _check_attention(model: TranslationModel, extras: TranslationExtras) -> None:
    """Refuse extras that need attention, or a grid, of a model without it."""
    if extras.needs_attention:
        choose_layer(model, extras.alignment_layer)
    if extras.grid and not model.is_joint:
        raise option_error(
            f"{model.config.system} has no grid of source and target positions",
            "joint systems have one, such as reformer-fast; for other systems: --alignments",
            where="--grid",
        )


def _check_ensemble(runs: Sequence[Run]) -> None:
    """Refuse an ensemble whose models do not share the target language and its tokens."""
    first = runs[0].pipeline.target.to_json()
    for run in runs[1:]:
        if run.pipeline.target.to_json() != first:
            raise DecodingError(
                f"{runs[0].name} and {run.name} cannot form an ensemble: "
                "they were trained with different target vocabularies or segmentation",
                hint="give runs trained on the same prepared corpus, or translate with each alone",
                kind="decoding.ensemble",
            )
