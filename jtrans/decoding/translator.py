"""Translate raw text to raw text, preserving the order of lines and empty lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from jtrans.data.batch import Ids, padded
from jtrans.decoding.batches import BATCH_TOKENS, by_length
from jtrans.decoding.beam import beam_search
from jtrans.decoding.half_precision import with_bf16_products
from jtrans.decoding.halving import in_halves
from jtrans.decoding.options import DecodingChoices, SearchOptions
from jtrans.decoding.teacher_forcing import teacher_forced_scores
from jtrans.decoding.trace import Hypothesis
from jtrans.errors import CheckpointError, DecodingError
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import build_model, load_weights, system_configs
from jtrans.nn.device import autocast, prepare_device, resolve_device, resolve_precision
from jtrans.progress import Progress, Silent
from jtrans.runs import WEIGHTS, Run
from jtrans.text.pipeline import TextPipeline

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
    """

    text: str
    score: float
    log_prob: float
    tokens: list[str]
    token_log_probs: list[float]
    words: list[str]


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
    models: Sequence[TranslationModel],
    sources: Sequence[Ids],
    options: SearchOptions,
    *,
    batch_tokens: int = BATCH_TOKENS,
    precision: str = "fp32",
    progress: Progress = Silent(),
) -> list[list[Hypothesis]]:
    """Search for translations of sentences given as ids, each ending in EOS.

    The other arguments are those of `Translator`.

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
        with torch.no_grad(), autocast(device, precision):
            return beam_search(models, source, mask, options)

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
    """

    models: Sequence[TranslationModel]
    pipeline: TextPipeline
    options: SearchOptions
    batch_tokens: int = BATCH_TOKENS
    precision: str = "fp32"

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
        return cls(models, runs[0].pipeline, options, batch_tokens, precision)

    def translate(self, lines: Sequence[str], progress: Progress = Silent()) -> list[str]:
        """Return the best translation of every line, in order; empty lines stay empty."""
        return [best[0].text for best in self.translate_nbest(lines, 1, progress)]

    def translate_nbest(
        self, lines: Sequence[str], n: int | None = None, progress: Progress = Silent()
    ) -> list[list[Translation]]:
        """Return the n best translations of every raw line, best first, lines in order.

        `n` is at most the beam; None for `options.nbest`. Lines that are too long are cut, with a
        warning.
        """
        options = self.options if n is None else replace(self.options, nbest=n)
        sources = [self._encode(line, progress) for line in lines]
        full = [index for index, source in enumerate(sources) if len(source) > 1]
        translated = translate_ids(
            self._searched,
            [sources[index] for index in full],
            options,
            batch_tokens=self.batch_tokens,
            precision=self.precision,
            progress=progress,
        )
        result = [[_EMPTY] for _ in lines]
        for index, hypotheses in zip(full, translated, strict=True):
            result[index] = [self._to_text(hypothesis) for hypothesis in hypotheses]
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

    @cached_property
    def _searched(self) -> Sequence[TranslationModel]:
        """The models as the search uses them."""
        return (
            [with_bf16_products(m) for m in self.models]
            if self.precision == "bf16"
            else self.models
        )

    def _encode(self, line: str, progress: Progress) -> list[int]:
        ids = self.pipeline.source.encode(line)
        if len(ids) <= LONGEST_SOURCE:
            return ids
        progress.warn(
            f"a line of {len(ids) - 1:,} tokens was cut to {LONGEST_SOURCE - 1:,}: {line[:40]} ..."
        )
        return [*ids[: LONGEST_SOURCE - 1], ids[-1]]

    def _to_text(self, hypothesis: Hypothesis) -> Translation:
        side = self.pipeline.target
        words = side.words(hypothesis.tokens)
        return Translation(
            text=side.join(words),
            score=hypothesis.score,
            log_prob=hypothesis.log_prob,
            tokens=[side.vocabulary.token(token) for token in hypothesis.tokens],
            token_log_probs=hypothesis.token_log_probs,
            words=words,
        )


_EMPTY = Translation("", 0.0, 0.0, [], [], [])


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
