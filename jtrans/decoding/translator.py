"""Translate raw text to raw text, preserving the order of lines and empty lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from jtrans.data.batch import Ids, padded
from jtrans.decoding.batches import BATCH_TOKENS, by_length
from jtrans.decoding.halving import in_halves
from jtrans.decoding.options import (
    DecodingChoices,
    Limited,
    SamplingOptions,
    SearchOptions,
    TranslationExtras,
)
from jtrans.decoding.prepared.base import Searchable
from jtrans.decoding.prepared.choose import prepared
from jtrans.decoding.search.beam import beam_search
from jtrans.decoding.search.sampling import draw
from jtrans.decoding.search.trace import Hypothesis
from jtrans.decoding.teacher_forcing import teacher_forced_scores
from jtrans.decoding.word_alignments import (
    READINGS,
    WordAlignment,
    align_words,
    choose_layer,
    to_pharaoh,
    word_numbers,
)
from jtrans.errors import CheckpointError, DecodingError
from jtrans.models.base import TranslationModel
from jtrans.models.undrawn import UndrawnParameters
from jtrans.models.zoo import build_model, load_weights, system_configs
from jtrans.nn.device import prepare_device, resolve_device, resolve_precision
from jtrans.progress import Progress, Silent
from jtrans.runs import WEIGHTS, Run
from jtrans.text.pipeline import TextPipeline
from jtrans.text.vocabulary import SPECIALS, UNK

UNKNOWN = SPECIALS[UNK]
# Time and memory grow with the square of the length: one very long line must not stop a file.
LONGEST_SOURCE = 1024


@dataclass(frozen=True)
class Translation:
    """One translation of a line.

    Args:
        text: raw text.
        score: the length-normalised log-probability, by which the n-best list is ranked.
        log_prob: sum of `token_log_probs`.
        tokens: the model's tokens, ``</s>`` last; none for an empty line.
        token_log_probs: of each token given the tokens before it.
        words: the words before detokenisation.
        alignment: source and target words that belong together, in Pharaoh format; None unless
            alignments are asked for.
    """

    text: str
    score: float
    log_prob: float
    tokens: list[str]
    token_log_probs: list[float]
    words: list[str]
    alignment: str | None = None


@dataclass(frozen=True)
class ScoredLine:
    """A given translation: its tokens, ``</s>`` last, and the log-probability of each."""

    tokens: list[str]
    token_log_probs: list[float]


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
    sides = run.pipeline.source, run.pipeline.target
    with UndrawnParameters():
        model = build_model(config.model, *(len(side.vocabulary) for side in sides))
    load_weights(model, opened.weights)
    if not all(bool(weight.isfinite().all()) for weight in model.parameters()):
        raise CheckpointError(
            "the checkpoint contains numbers that are not finite",
            where=str(opened.weights),
            hint="its training diverged or the file was changed: use another --checkpoint",
            kind="checkpoint.not-finite",
        )
    return model.to(device).eval().requires_grad_(False)


def translate_ids(
    models: Sequence[Searchable],
    sources: Sequence[Ids],
    options: SearchOptions,
    *,
    prefixes: Sequence[Ids] | None = None,
    sampling: SamplingOptions | None = None,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress = Silent(),
) -> list[list[Hypothesis]]:
    """Search for translations of sentences given as ids, each ending in EOS, or draw them.

    Args:
        models: one model, or an ensemble, as they are or prepared.
        sources: the sentences.
        options: of the search.
        prefixes: the first tokens of each translation, without EOS, shorter than its limit.
        sampling: draw, do not search.
        batch_tokens: most padded source tokens in one batch.
        progress: receives the number of sentences done.

    Returns:
        Hypotheses per sentence, best first, sentences in the order given.

    Raises:
        WorkError: a single sentence does not fit into memory.
    """
    device = models[0].device
    is_joint = any(model.is_joint for model in models)
    lengths = [len(source) for source in sources]
    result: list[list[Hypothesis]] = [[] for _ in sources]
    done = 0

    def search(batch: list[int]) -> list[list[Hypothesis]]:
        source, mask = padded([sources[index] for index in batch], device)
        forced = [prefixes[index] for index in batch] if prefixes else None
        if sampling:
            return draw(models, source, mask, options, sampling, forced)
        return beam_search(models, source, mask, options, forced)

    searched = in_halves(
        by_length(lengths, batch_tokens=batch_tokens, is_joint=is_joint),
        search,
        size=lambda batch: len(batch) * max(lengths[index] for index in batch),
        device=device,
        progress=progress,
        hint="a smaller --beam, a lower --max-length, or one sentence per line",
    )
    for batch, hypotheses in searched:
        for index, best in zip(batch, hypotheses, strict=True):
            result[index] = best
        done += len(batch)
        progress.advance("Translating", done, len(sources))
    return result


@dataclass(frozen=True, eq=False)
class Translator:
    """Translates raw text with one model, or with several as an ensemble.

    Args:
        models: at least one, in evaluation mode, all on one device.
        pipeline: the text pipeline of the models' runs.
        options: of the search.
        batch_tokens: most padded source tokens in one batch.
        precision: "fp32" or "bf16".
        extras: sampling, minimum Bayes risk, word alignments.
    """

    models: Sequence[TranslationModel]
    pipeline: TextPipeline
    options: SearchOptions
    batch_tokens: int = BATCH_TOKENS
    precision: str = "fp32"
    extras: TranslationExtras = field(default_factory=TranslationExtras)

    @classmethod
    def load(cls, runs: Sequence[Run], decoding: DecodingChoices) -> Translator:
        """Load one run, or several as an ensemble; the search options are those of the first.

        Raises:
            DecodingError: the runs of an ensemble do not share their text pipeline.
            CheckpointError: a run or checkpoint cannot be used.
        """
        options = decoding.search_options(runs[0])
        _check_ensemble(runs)
        device = resolve_device(decoding.device)
        models = [load_model(run, decoding.checkpoint, device) for run in runs]
        batch_tokens = decoding.batch_tokens or BATCH_TOKENS
        precision = resolve_precision(device, decoding.precision)
        translator = cls(
            models, runs[0].pipeline, options, batch_tokens, precision, decoding.extras
        )
        if decoding.extras.needs_alignments:
            choose_layer(models[0], decoding.extras.alignment_layer)  # refuse at once
        return translator

    def translate(self, lines: Sequence[str], progress: Progress = Silent()) -> list[str]:
        """Return the best translation of every line, in order; empty lines stay empty."""
        return [best[0].text for best in self.translate_nbest(lines, 1, progress)]

    def translate_nbest(
        self,
        lines: Sequence[str],
        n: int | None = None,
        progress: Progress = Silent(),
        prefixes: Sequence[str] | None = None,
    ) -> list[list[Translation]]:
        """Return the n best translations of every raw line, best first, lines in order.

        Samples come in the order drawn. Lines that are too long are cut, with a warning.

        Args:
            lines: raw text.
            n: at most the beam; None for `options.nbest`.
            progress: receives the number of lines done.
            prefixes: the raw text that each translation begins with, in whole words; empty for
                none.

        Raises:
            DecodingError: a prefix that leaves no room for a translation.
        """
        options = self.options if n is None else replace(self.options, nbest=n)
        sources = [self._encode(line, progress) for line in lines]
        full = [index for index, source in enumerate(sources) if len(source) > 1]
        forced = self._encode_prefixes(prefixes, sources) if prefixes else None
        hypotheses = self._search(
            [sources[index] for index in full],
            replace(options, nbest=options.beam) if self.extras.mbr else options,
            [forced[index] for index in full] if forced else None,
            progress,
        )
        result = [[_EMPTY if not self.extras.alignments else _EMPTY_ALIGNED] for _ in lines]
        for index, own in zip(full, hypotheses, strict=True):
            begin = self.pipeline.target.segment(prefixes[index]) if prefixes else []
            ranked = self._rank([self._to_text(each, begin) for each in own])
            result[index] = ranked[: options.nbest]
        if self.extras.needs_alignments:
            self._align(lines, sources, result, full)
        return result

    def teacher_forced_scores(
        self, sources: Sequence[str], targets: Sequence[str], progress: Progress = Silent()
    ) -> list[ScoredLine]:
        """Return the model's log-probabilities of given translations of raw lines, token by token.

        If source and translation are both empty, there are no tokens.

        Raises:
            DecodingError: there are several models.
        """
        if len(self.models) > 1:
            raise DecodingError("given translations are scored by one model, not an ensemble")
        pairs = [
            (self._encode(source, progress), self.pipeline.target.encode(target))
            for source, target in zip(sources, targets, strict=True)
        ]
        full = [index for index, pair in enumerate(pairs) if max(map(len, pair)) > 1]
        scores = teacher_forced_scores(
            self.models[0],
            [pairs[index][0] for index in full],
            [pairs[index][1] for index in full],
            precision=self.precision,
            progress=progress,
        )
        result = [ScoredLine([], []) for _ in pairs]
        for index, scored in zip(full, scores, strict=True):
            tokens = list(map(self.pipeline.target.vocabulary.token, pairs[index][1]))
            result[index] = ScoredLine(tokens, scored.log_probs)
        return result

    def _search(
        self,
        sources: Sequence[Ids],
        options: SearchOptions,
        prefixes: Sequence[Ids] | None,
        progress: Progress,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of sentences given as ids; engines of other programs replace it."""
        # no model is trained afterwards, and operations cost less; validation in training cannot
        with torch.inference_mode():
            return translate_ids(
                self._searched,
                sources,
                options,
                prefixes=prefixes,
                sampling=self.extras.sampling,
                batch_tokens=self.batch_tokens,
                progress=progress,
            )

    @property
    def _limited(self) -> Sequence[Limited]:
        """What limits the length of sentences."""
        return self.models

    @cached_property
    def _searched(self) -> Sequence[Searchable]:
        """The models as the search uses them."""
        return [prepared(model, self.precision) for model in self.models]

    def _encode(self, line: str, progress: Progress) -> list[int]:
        ids = self.pipeline.source.encode(line)
        longest = min(LONGEST_SOURCE, *(each.longest or LONGEST_SOURCE for each in self._limited))
        if len(ids) <= longest:
            return ids
        progress.warn(
            f"a line of {len(ids) - 1:,} tokens was cut to {longest - 1:,}: {line[:40]} ..."
        )
        return [*ids[: longest - 1], ids[-1]]

    def _encode_prefixes(
        self, prefixes: Sequence[str], sources: Sequence[Sequence[int]]
    ) -> list[list[int]]:
        """Return the ids of prefixes, without EOS."""
        encoded = [self.pipeline.target.encode(prefix)[:-1] for prefix in prefixes]
        for prefix, ids, source in zip(prefixes, encoded, sources, strict=True):
            limit = self.options.limit(len(source), self._limited)
            if len(source) > 1 and len(ids) >= limit:
                raise DecodingError(
                    f"a prefix of {len(ids)} tokens leaves no room in a translation of at most "
                    f"{limit}: {prefix[:60]}",
                    where="--prefix",
                    hint="a shorter prefix, or a higher --max-length, for example S+200",
                    kind="decoding.long-prefix",
                )
        return encoded

    def _rank(self, translations: list[Translation]) -> list[Translation]:
        """Sort candidates by expected utility, if that is asked for; it becomes their score."""
        if not self.extras.mbr:
            return translations
        from jtrans.decoding.mbr import MinimumBayesRisk  # it loads sacreBLEU

        risk = MinimumBayesRisk(self.extras.mbr, self.pipeline.target.language)
        log_probs = None if self.extras.sampling else [each.log_prob for each in translations]
        scores = risk.expected([each.text for each in translations], log_probs).tolist()
        scored = [
            replace(each, score=score) for each, score in zip(translations, scores, strict=True)
        ]
        return sorted(scored, key=lambda each: -each.score)

    def _align(
        self,
        lines: Sequence[str],
        sources: Sequence[Sequence[int]],
        result: list[list[Translation]],
        full: Sequence[int],
    ) -> None:
        """Add word alignments to translations, and replace unknown words, in place."""
        source, target = self.pipeline.source, self.pipeline.target
        places = [(index, rank) for index in full for rank in range(len(result[index]))]
        targets = [target.encode_pieces(result[index][rank].tokens[:-1]) for index, rank in places]
        pieces = {index: source.pieces(lines[index])[: len(sources[index]) - 1] for index in full}
        words = [
            (
                word_numbers(source, pieces[index]),
                word_numbers(target, result[index][rank].tokens[:-1]),
            )
            for index, rank in places
        ]
        of_places = [sources[index] for index, _ in places]
        for number, alignment in self._word_alignments(of_places, targets, words):
            index, rank = places[number]
            translation = result[index][rank]
            if self.extras.unk_replace and UNKNOWN in translation.tokens:
                translation = self._replace_unknown(
                    translation, source.merge(pieces[index]), alignment
                )
            text = to_pharaoh(alignment) if self.extras.alignments else None
            result[index][rank] = replace(translation, alignment=text)

    def _word_alignments(
        self,
        sources: Sequence[Ids],
        targets: Sequence[Ids],
        words: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
    ) -> Iterator[tuple[int, WordAlignment]]:
        """Yield each pair's number and its alignment, see `align_words`."""
        layer = choose_layer(self.models[0], self.extras.alignment_layer)
        for number, alignments in align_words(self.models[0], sources, targets, words):
            yield number, alignments[f"{layer} {READINGS[0]}"]

    def _replace_unknown(
        self, translation: Translation, source: Sequence[str], alignment: WordAlignment
    ) -> Translation:
        """Put the aligned source word in the place of every word with an unknown piece."""
        aligned = {j: source[i] for i, j in alignment}
        words = [
            aligned.get(j, word) if UNKNOWN in word else word
            for j, word in enumerate(translation.words)
        ]
        return replace(translation, words=words, text=self.pipeline.target.join(words))

    def _to_text(self, hypothesis: Hypothesis, begin: Sequence[str] = ()) -> Translation:
        """Return a hypothesis as text; it begins with the words `begin`, also unknown ones."""
        side = self.pipeline.target
        words = [*begin, *side.words(hypothesis.tokens)[len(begin) :]]
        return Translation(
            text=side.join(words),
            score=hypothesis.score,
            log_prob=hypothesis.log_prob,
            tokens=[side.vocabulary.token(token) for token in hypothesis.tokens],
            token_log_probs=hypothesis.token_log_probs,
            words=words,
        )


_EMPTY = Translation("", 0.0, 0.0, [], [], [])
_EMPTY_ALIGNED = replace(_EMPTY, alignment="")


def _check_ensemble(runs: Sequence[Run]) -> None:
    """Refuse an ensemble whose models do not share source and target tokens."""
    first = runs[0].pipeline.fingerprint()
    for run in runs[1:]:
        if run.pipeline.fingerprint() != first:
            raise DecodingError(
                f"{runs[0].name} and {run.name} cannot form an ensemble: "
                "they were trained with different vocabularies or segmentation",
                hint="give runs trained on the same prepared corpus, or translate with each alone",
                kind="decoding.ensemble",
            )
