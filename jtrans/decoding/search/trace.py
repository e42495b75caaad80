"""The record of a search, written step by step, and the hypotheses read from it at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jtrans.decoding.options import SearchOptions
from jtrans.errors import DecodingError
from jtrans.text.vocabulary import EOS


@dataclass(frozen=True)
class Hypothesis:
    """A translation produced by the search."""

    tokens: list[int]  # target ids, EOS included
    score: float  # the length-normalised log-probability, by which hypotheses are ranked
    log_prob: float  # sum of `token_log_probs`
    token_log_probs: list[float]  # log-probability of each token given the tokens before it

    @classmethod
    def of(cls, tokens: list[int], log_probs: list[float], options: SearchOptions) -> Hypothesis:
        """Return the hypothesis of some tokens, with the score that the options define."""
        total = sum(log_probs)
        return cls(tokens, options.normalise(total, len(tokens)), total, log_probs)


class Trace:
    """What a search chose at each step, on device: tokens, back-pointers and log-probabilities.

    Nothing is copied before it is read at the end.

    Args:
        steps: at most this many.
        sentences: B.
        beam: hypotheses of each sentence, k.
    """

    def __init__(self, steps: int, sentences: int, beam: int) -> None:
        self.steps = steps
        self._sentences = sentences
        self._live = _Written((sentences, beam), (np.int64, np.int64, np.float64))
        self._ended = _Written((sentences, beam), (np.bool_, np.int64, np.float64))

    def live(
        self, step: int, active: Tensor, token: Tensor, parent: Tensor, log_prob: Tensor
    ) -> None:
        """Record the hypotheses of the sentences `active`, [A], that survive `step`.

        Given are their tokens, the hypotheses of the previous step that they continue, and
        the tokens' log-probabilities, [A, k] each. The tensors must not change afterwards.
        """
        self._live.add(step, active, (token, parent, log_prob))

    def end(
        self, step: int, active: Tensor, ends: Tensor, parent: Tensor, log_prob: Tensor
    ) -> None:
        """Record the hypotheses that end at `step`, those where `ends`, [A, k], is True.

        The tensors must not change afterwards.
        """
        self._ended.add(step, active, (ends, parent, log_prob))

    def read(self, options: SearchOptions, *, may_fail: bool = False) -> list[list[Hypothesis]]:
        """Return the n best finished hypotheses of every sentence, best first.

        Args:
            options: how many, and how they are ranked.
            may_fail: whether a sentence may have none.

        Raises:
            DecodingError: a sentence has none: probabilities are nan, or rules exclude all tokens.
        """
        ends, parents, last_log_prob = self._ended.read(self._live.steps)
        step, sentence, _ = ends.nonzero()
        last = (parents[ends], last_log_prob[ends])
        tokens, log_probs = self._follow(step, sentence, *last)
        finished: list[list[Hypothesis]] = [[] for _ in range(self._sentences)]
        for i, length in enumerate((step + 1).tolist()):
            its_tokens, its_log_probs = tokens[i, :length].tolist(), log_probs[i, :length].tolist()
            finished[sentence[i]].append(Hypothesis.of(its_tokens, its_log_probs, options))
        for sentence_number, hypotheses in enumerate(finished):
            if not (hypotheses or may_fail):
                raise self._failure(sentence_number)
            hypotheses.sort(key=lambda hypothesis: -hypothesis.score)  # ties: the first to end
            if options.diverse_groups > 1:  # two groups can find the same
                different: dict[tuple[int, ...], Hypothesis] = {}
                for each in hypotheses:
                    different.setdefault(tuple(each.tokens), each)
                hypotheses[:] = different.values()
            del hypotheses[options.nbest :]
        return finished

    def _failure(self, sentence: int) -> DecodingError:
        """Return why a sentence has no finished hypothesis."""
        _, _, log_prob_of_token = self._live.read(self._live.steps)
        is_nan = np.isnan(log_prob_of_token[:, sentence]).any()
        return _not_finite() if is_nan else NoTokenLeftError(sentence)

    def _follow(
        self,
        step: NDArray[np.int64],
        sentence: NDArray[np.int64],
        parent: NDArray[np.int64],
        log_prob: NDArray[np.float64],
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Follow the back-pointers of all finished hypotheses at once.

        Given the step at which each one ended, its sentence, the hypothesis that it continued, and
        the log-probability of its end, [F] each, return tokens and log-probabilities from the left,
        [F, steps].
        """
        taken = self._live.steps
        token, parents, log_prob_of_token = self._live.read(taken)
        tokens = np.full((len(step), taken), EOS, dtype=np.int64)
        log_probs = np.zeros((len(step), taken), dtype=np.float64)
        log_probs[np.arange(len(step)), step] = log_prob
        at = parent
        for t in range(taken - 1, -1, -1):
            on = np.flatnonzero(step > t)
            tokens[on, t] = token[t, sentence[on], at[on]]
            log_probs[on, t] = log_prob_of_token[t, sentence[on], at[on]]
            at[on] = parents[t, sentence[on], at[on]]
        return tokens, log_probs


class NoTokenLeftError(DecodingError):
    """Rules exclude every token that could come next in a sentence.

    Args:
        sentence: its number in the batch, counted from 0.
    """

    def __init__(self, sentence: int) -> None:
        super().__init__(
            "no token may come next: with so few tokens in the vocabulary, the rules against "
            "repetitions and forbidden phrases leave nothing",
            hint="a lower --min-length, no --no-repeat-ngram and --max-repeats, or fewer phrases",
            kind="decoding.option",
        )
        self.sentence = sentence

    def of_sentence(self, line: int) -> DecodingError:
        """Return the error with the number of the sentence's line."""
        return DecodingError.of_line(
            line, f": {self.message}", hint=self.hint or "", kind=self.kind
        )


class _Written:
    """Values of the sentences active at some steps.

    Args:
        shape: [B, k].
        dtypes: types of the values.
    """

    def __init__(self, shape: tuple[int, int], dtypes: Sequence[type[np.generic]]) -> None:
        self.steps = 0  # nothing was added from this step on
        self._shape, self._dtypes = shape, dtypes
        self._added: list[tuple[int, Tensor, tuple[Tensor, ...]]] = []

    def add(self, step: int, active: Tensor, values: tuple[Tensor, ...]) -> None:
        """Add the values, [A, k] each, of the sentences `active`, [A]."""
        self.steps = step + 1
        self._added.append((step, active, values))

    def read(self, steps: int) -> list[NDArray[Any]]:
        """Return the values of the first `steps`, [steps, B, k] each, 0 where none were added."""
        result = [np.zeros((steps, *self._shape), dtype=dtype) for dtype in self._dtypes]
        if self._added:
            numbers, active, values = zip(*self._added, strict=True)
            where = np.repeat(numbers, [*map(len, active)]), torch.cat(active).cpu().numpy()
            for whole, parts in zip(result, zip(*values, strict=True), strict=True):
                whole[where] = torch.cat(parts).cpu().numpy()
        return result


def require_finite(log_probs: Tensor, active: Tensor) -> None:
    """Check the best log-probabilities of the hypotheses of some sentences.

    Args:
        log_probs: 0 of hypotheses that have ended, [A, n].
        active: the sentences by number, [A].

    Raises:
        DecodingError: one is nan or infinite, or rules exclude every token.
    """
    is_finite = log_probs.isfinite().all(-1)
    if not bool(is_finite.all()):
        is_nan = bool(log_probs.isnan().any())
        raise _not_finite() if is_nan else NoTokenLeftError(int(active[~is_finite][0]))


def _not_finite() -> DecodingError:
    return DecodingError(
        "the model's probabilities are nan or infinite",
        hint="its training diverged or the file is damaged: use another checkpoint",
        kind="decoding.not-finite",
        exit_code=1,
    )
