"""The record of a search, written step by step, and the hypotheses read from it at the end."""

from __future__ import annotations

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
    """A translation produced by the search.

    Args:
        tokens: target ids, EOS included.
        score: the length-normalised log-probability, by which hypotheses are ranked.
        log_prob: sum of `token_log_probs`.
        token_log_probs: of each token given the tokens before it.
    """

    tokens: list[int]
    score: float
    log_prob: float
    token_log_probs: list[float]


class Trace:
    """Tokens, back-pointers and log-probabilities of a search, [steps, B, k] each, on device.

    There is room for few steps at first; it doubles when needed, whatever the limit is.
    """

    first_capacity = 64

    def __init__(self, steps: int, sentences: int, beam: int, device: torch.device) -> None:
        self.steps = steps  # at most this many
        shape = (min(steps, self.first_capacity), sentences, beam)
        self._taken = 0
        self._token = torch.empty(shape, dtype=torch.int64, device=device)
        self._parent = torch.empty(shape, dtype=torch.int64, device=device)
        self._log_prob = torch.empty(shape, device=device)
        self._ends = torch.zeros(shape, dtype=torch.bool, device=device)
        self._end_parent = torch.empty(shape, dtype=torch.int64, device=device)
        self._end_log_prob = torch.empty(shape, device=device)

    def live(
        self, step: int, active: Tensor, token: Tensor, parent: Tensor, log_prob: Tensor
    ) -> None:
        """Write the hypotheses of the sentences `active`, [A], that survive `step`.

        Given are their tokens, the hypotheses of the previous step that they continue, and
        the tokens' log-probabilities, [A, k] each.
        """
        self._taken = step + 1
        self._token[step].index_copy_(0, active, token)
        self._parent[step].index_copy_(0, active, parent)
        self._log_prob[step].index_copy_(0, active, log_prob)

    def end(
        self, step: int, active: Tensor, ends: Tensor, parent: Tensor, log_prob: Tensor
    ) -> None:
        """Write the hypotheses that end at `step`, before those that survive it.

        They are those where `ends`, [A, k].
        """
        if step >= len(self._ends):
            self._double()
        self._ends[step].index_copy_(0, active, ends)
        self._end_parent[step].index_copy_(0, active, parent)
        self._end_log_prob[step].index_copy_(0, active, log_prob)

    def _double(self) -> None:
        for name in ("token", "parent", "log_prob", "ends", "end_parent", "end_log_prob"):
            old: Tensor = getattr(self, f"_{name}")
            setattr(self, f"_{name}", torch.cat([old, torch.zeros_like(old)]))

    def read(self, options: SearchOptions, *, may_fail: bool = False) -> list[list[Hypothesis]]:
        """Return the n best finished hypotheses of every sentence, best first.

        Args:
            options: how many, and how they are ranked.
            may_fail: whether a sentence may have none.

        Raises:
            DecodingError: a sentence has none, for example because probabilities are nan.
        """
        step, sentence, rank = (axis.cpu().numpy() for axis in self._ends.nonzero(as_tuple=True))
        tokens, log_probs = self._follow(step, sentence, rank)
        finished: list[list[Hypothesis]] = [[] for _ in range(self._ends.shape[1])]
        for i, length in enumerate((step + 1).tolist()):
            token_log_probs = log_probs[i, :length].tolist()
            log_prob = sum(token_log_probs)
            score = options.normalise(log_prob, length)
            finished[sentence[i]].append(
                Hypothesis(tokens[i, :length].tolist(), score, log_prob, token_log_probs)
            )
        for hypotheses in finished:
            if not (hypotheses or may_fail):
                raise _not_finite()
            hypotheses.sort(key=lambda hypothesis: -hypothesis.score)  # ties: the first to end
            if options.diverse_groups > 1:  # two groups can find the same
                hypotheses[:] = {tuple(each.tokens): each for each in reversed(hypotheses)}.values()
                hypotheses.reverse()
            del hypotheses[options.nbest :]
        return finished

    def _follow(
        self, step: NDArray[Any], sentence: NDArray[Any], rank: NDArray[Any]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Follow the back-pointers of all finished hypotheses at once.

        Given the step at which each one ended, its sentence, and its place among the candidates
        of that step, [F] each, return tokens and log-probabilities from the left, [F, steps].
        """
        taken = self._taken
        token, parent, log_prob = (
            part[:taken].cpu().numpy() for part in (self._token, self._parent, self._log_prob)
        )
        tokens = np.full((len(step), taken), EOS, dtype=np.int64)
        log_probs = np.zeros((len(step), taken), dtype=np.float64)
        row = np.arange(len(step))
        log_probs[row, step] = self._end_log_prob.cpu().numpy()[step, sentence, rank]
        at = self._end_parent.cpu().numpy()[step, sentence, rank]
        for t in range(taken - 1, -1, -1):
            on = np.flatnonzero(step > t)
            tokens[on, t] = token[t, sentence[on], at[on]]
            log_probs[on, t] = log_prob[t, sentence[on], at[on]]
            at[on] = parent[t, sentence[on], at[on]]
        return tokens, log_probs


def require_finite(log_probs: Tensor) -> None:
    """Check the best log-probabilities of some hypotheses.

    Raises:
        DecodingError: one is nan or infinite.
    """
    if not bool(log_probs.isfinite().all()):
        raise _not_finite()


def _not_finite() -> DecodingError:
    return DecodingError(
        "the model's probabilities are nan or infinite",
        hint="its training diverged or the file is damaged: use another checkpoint",
        kind="decoding.not-finite",
        exit_code=1,
    )
