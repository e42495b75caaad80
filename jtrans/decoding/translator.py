"""Raw text in, raw text out: the lines in their order, empty ones kept."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from jtrans.decoding.batches import BATCH_TOKENS, by_length, padded
from jtrans.decoding.beam import Hypothesis, beam_search
from jtrans.decoding.load import load_model
from jtrans.decoding.options import DecodingChoices, SearchOptions
from jtrans.decoding.teacher_forcing import teacher_forced_scores
from jtrans.errors import DecodingError, InternalError, WorkError
from jtrans.models.base import TranslationModel
from jtrans.nn.device import autocast, resolve_device, resolve_precision
from jtrans.progress import Progress, Silent

if TYPE_CHECKING:
    from jtrans.decoding.batches import Ids
    from jtrans.runs import Run
    from jtrans.text.pipeline import TextPipeline

# Time and memory grow with the square of the length, so one endless line must not stop a file.
LONGEST_SOURCE = 1024


@dataclass(frozen=True)
class Translation:
    """One translation of a line.

    Args:
        text: raw text.
        score: what the n-best list is ranked by, the length-normalised log-probability.
        log_prob: sum of `token_log_probs`.
        tokens: the model's tokens, ``</s>`` last; none for an empty line.
        token_log_probs: of each token given those before it.
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


def translate_ids(
    models: Sequence[TranslationModel],
    sources: Sequence[Ids],
    options: SearchOptions,
    *,
    batch_tokens: int = BATCH_TOKENS,
    precision: str = "fp32",
    progress: Progress | None = None,
) -> list[list[Hypothesis]]:
    """Search for translations of sentences given as ids.

    Args:
        models: one model or an ensemble, in evaluation mode.
        sources: source ids, each ending in EOS.
        options: of the search.
        batch_tokens: most padded source tokens in one batch.
        precision: "fp32" or "bf16".
        progress: for reporting how many sentences are done.

    Returns:
        Hypotheses per sentence, best first, sentences in the order given.
    """
    progress = progress or Silent()
    device = models[0].device
    is_joint = any(model.is_joint for model in models)
    lengths = [len(source) for source in sources]
    result: list[list[Hypothesis]] = [[] for _ in sources]
    done = 0
    for batch in by_length(lengths, batch_tokens=batch_tokens, is_joint=is_joint):
        source, mask = padded([sources[index] for index in batch], device)
        with _memory_errors(), torch.no_grad(), autocast(device, precision):
            hypotheses = beam_search(models, source, mask, options)
        for index, best in zip(batch, hypotheses, strict=True):
            result[index] = best
        done += len(batch)
        progress.advance("Translating", done, len(sources))
    return result


@contextlib.contextmanager
def _memory_errors() -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise WorkError(
            "the device is out of memory",
            hint=f"smaller batches: --batch-tokens {BATCH_TOKENS // 4}, or a smaller --beam",
            kind="work.memory",
        ) from error


class Translator:
    """Translates raw text with one model, or with several as an ensemble.

    Args:
        models: in evaluation mode, all on one device.
        pipeline: of the runs the models come from.
        options: of the search.
        batch_tokens: most padded source tokens in one batch.
        precision: "fp32" or "bf16".
    """

    def __init__(
        self,
        models: Sequence[TranslationModel],
        pipeline: TextPipeline,
        options: SearchOptions | None = None,
        *,
        batch_tokens: int = BATCH_TOKENS,
        precision: str = "fp32",
    ) -> None:
        if not models:
            raise InternalError("a translator needs a model")
        self.models = list(models)
        self.pipeline = pipeline
        self.options = options or SearchOptions()
        self.batch_tokens = batch_tokens
        self.precision = precision

    @classmethod
    def from_runs(
        cls,
        runs: Sequence[Run],
        checkpoint: str = "best",
        device: torch.device | str | None = None,
        precision: str = "fp32",
        *,
        options: SearchOptions | None = None,
        batch_tokens: int | None = None,
    ) -> Translator:
        """Load the models of one run, or of several that form an ensemble.

        Args:
            runs: existing runs.
            checkpoint: which checkpoint of each.
            device: where to compute, or its name; None for the machine's best.
            precision: "fp32", "bf16" or "auto".
            options: of the search; None for those of the first run's recipe.
            batch_tokens: most padded source tokens in one batch; None for the usual number.

        Raises:
            DecodingError: the runs of an ensemble do not share their text pipeline.
            CheckpointError: a run or checkpoint cannot be used.
        """
        check_ensemble(runs)
        if not isinstance(device, torch.device):
            device = resolve_device(device)
        models = [load_model(run, checkpoint, device) for run in runs]
        return cls(
            models,
            runs[0].pipeline,
            options or SearchOptions.from_run(runs[0]),
            batch_tokens=batch_tokens or BATCH_TOKENS,
            precision=resolve_precision(device, precision),
        )

    @classmethod
    def load(cls, runs: Sequence[Run], decoding: DecodingChoices) -> Translator:
        """Load one run, or several as an ensemble, as a user chose to decode (see `from_runs`)."""
        return cls.from_runs(
            runs,
            decoding.checkpoint,
            decoding.device,
            decoding.precision,
            options=decoding.search_options(runs[0]),
            batch_tokens=decoding.batch_tokens,
        )

    def translate(self, lines: Sequence[str], progress: Progress | None = None) -> list[str]:
        """Return the best translation of every line, in order; empty lines stay empty."""
        return [best[0].text for best in self.translate_nbest(lines, 1, progress)]

    def translate_nbest(
        self, lines: Sequence[str], n: int | None = None, progress: Progress | None = None
    ) -> list[list[Translation]]:
        """Return the n best translations of every line, best first, lines in order.

        Args:
            lines: raw text.
            n: how many; None for `options.nbest`. Within the beam.
            progress: for reporting how far the work is, and lines that had to be cut.
        """
        progress = progress or Silent()
        options = self.options if n is None else replace(self.options, nbest=n)
        sources = [self._encode(line, progress) for line in lines]
        full = [index for index, source in enumerate(sources) if len(source) > 1]
        translated = translate_ids(
            self.models,
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
        self, sources: Sequence[str], targets: Sequence[str], progress: Progress | None = None
    ) -> list[ScoredLine]:
        """Return how probable the model finds given translations, token by token.

        Args:
            sources: raw source lines.
            targets: their translations, raw text; where both are empty there is no token.
            progress: for reporting how far the work is.

        Raises:
            DecodingError: there are several models.
        """
        if len(self.models) > 1:
            raise DecodingError("given translations are scored by one model, not an ensemble")
        progress = progress or Silent()
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


def check_ensemble(runs: Sequence[Run]) -> None:
    """Refuse an ensemble whose models do not read and write the same tokens.

    Raises:
        DecodingError: naming the two runs that differ.
    """
    if not runs:
        raise InternalError("no run to translate with")
    first = runs[0].pipeline.fingerprint()
    for run in runs[1:]:
        if run.pipeline.fingerprint() != first:
            raise DecodingError(
                f"{runs[0].name} and {run.name} cannot form an ensemble: "
                "they were trained with different vocabularies or segmentation",
                hint="give runs trained on the same prepared corpus, or translate with each alone",
                kind="decoding.ensemble",
            )
