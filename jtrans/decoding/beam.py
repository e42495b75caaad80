"""Beam search over the model contract: `begin`, `step`, `project`, `select`, nothing else.

At every step the best 2k of the k V continuations of a sentence are considered (beam size k). A
continuation that ends in ``</s>`` and is among the first k is final; the first k of the others
survive. A sentence is done when k hypotheses are final (the *count* rule of the original code) or
at its length limit, where ``</s>`` is forced. Finished sentences leave the batch.

Everything stays in tensors on the device: tokens, back-pointers and log-probabilities are written
to a trace, and hypotheses are read from it once, at the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from jtrans.decoding.options import SearchOptions
from jtrans.decoding.trace import Hypothesis, Trace
from jtrans.models.base import State, TranslationModel
from jtrans.text.vocabulary import EOS, PAD, SPARE

# The maximum over 8 parts of the vocabulary first, then the best columns: on a CPU, a quarter of
# the time of one topk over everything. Vocabulary sizes are multiples of 8.
PARTS = 8
# Checking on a GPU whether sentences are done means waiting for it: only every few steps.
STEPS_BETWEEN_CHECKS = 4


def beam_search(
    models: Sequence[TranslationModel],
    source: Tensor,
    source_mask: Tensor,
    options: SearchOptions,
) -> list[list[Hypothesis]]:
    """Search for the best translations of some sentences.

    Args:
        models: one model, or an ensemble, whose probabilities are averaged.
        source: token ids, padded on the right, [B, S].
        source_mask: True on real tokens, [B, S].
        options: beam, limits and ranking.

    Returns:
        For each sentence up to `options.nbest` hypotheses, best score first.

    Raises:
        DecodingError: the model's probabilities are not finite.
    """
    with torch.no_grad():
        limits = [options.limit(length) for length in source_mask.sum(1).tolist()]
        search = _Search(models, source, source_mask, limits, options)
        while search.is_running:
            search.advance()
        return search.trace.read(options)


@dataclass
class _Continuations:
    """The best continuations of each sentence, best first; missing ones have -inf."""

    total: Tensor  # summed log-probability with this token, [A, 2k]
    log_prob: Tensor  # of the token alone, [A, 2k]
    parent: Tensor  # the hypothesis of the sentence that it continues, [A, 2k]
    token: Tensor  # [A, 2k]


class _Search:
    """The search of one batch; A of its B sentences are still active."""

    def __init__(
        self,
        models: Sequence[TranslationModel],
        source: Tensor,
        source_mask: Tensor,
        limits: list[int],
        options: SearchOptions,
    ) -> None:
        self.models = models
        self.options = options
        self.limits = limits
        device, B = source.device, source.shape[0]
        self.step = 0
        self.is_running = B > 0
        self.asks_every_step = device.type == "cpu"
        self.limit = torch.tensor(limits, device=device)  # [A]
        self.next_limit = min(limits, default=0)  # no active sentence reaches its limit before
        self.active = torch.arange(B, device=device)  # [A]
        self.done = torch.zeros(B, dtype=torch.bool, device=device)  # [A]
        self.final_count = torch.zeros(B, dtype=torch.int64, device=device)  # [A]
        self.total = torch.zeros(B, 1, device=device)  # [A, h]; h is 1 at first, then the beam
        self.token = torch.full((B,), EOS, device=device)  # [A * h]
        self.trace = Trace(max(limits, default=0), B, options.beam, device)
        self.states: list[State] = [
            model.begin(model.encode(source, source_mask), 1) for model in models if B
        ]

    def advance(self) -> None:
        """Advance every hypothesis by one token and choose the best continuations."""
        log_probs = self._allowed(self._log_probs())
        best = best_continuations(log_probs, self.total, 2 * self.options.beam)
        self._finish(best)
        self._continue(best)
        self.step += 1

    def _log_probs(self) -> Tensor:
        """Return the log-probabilities of the next token, [A, h, V], float32."""
        A, h = self.total.shape
        each = [
            # measured: on a CPU the full log-softmax is faster than torch.logsumexp
            torch.log_softmax(model.project(model.step(self.token, state)).float(), dim=-1)
            for model, state in zip(self.models, self.states, strict=True)
        ]
        if len(each) > 1:
            each = [torch.logsumexp(torch.stack(each), dim=0) - math.log(len(each))]
        return each[0].view(A, h, -1)

    def _allowed(self, log_probs: Tensor) -> Tensor:
        """Exclude the tokens that must not come next, in place."""
        log_probs[..., PAD] = -math.inf
        log_probs[..., SPARE] = -math.inf
        is_last = self.step + 1 >= self.next_limit
        if is_last:
            at_limit = (self.limit <= self.step + 1)[:, None, None]
            end = log_probs[..., EOS : EOS + 1].clone()
            log_probs.masked_fill_(at_limit, -math.inf)
        if self.step < self.options.min_length:
            log_probs[..., EOS] = -math.inf
        if is_last:
            now = log_probs[..., EOS : EOS + 1]
            log_probs[..., EOS : EOS + 1] = torch.where(at_limit, end, now)
        return log_probs

    def _finish(self, best: _Continuations) -> None:
        """Record the hypotheses that end at this step and mark the sentences that are done."""
        k = self.options.beam
        ends = (best.token[:, :k] == EOS) & best.total[:, :k].isfinite() & ~self.done[:, None]
        # the original code takes the first k to end, in order of rank
        ends &= self.final_count[:, None] + ends.cumsum(1) <= k
        self.final_count += ends.sum(1)
        self.trace.end(self.step, self.active, ends, best.parent[:, :k], best.log_prob[:, :k])
        self.done |= (self.final_count >= k) | (self.limit <= self.step + 1)

    def _continue(self, best: _Continuations) -> None:
        """Keep the first k continuations that do not end, in every unfinished sentence."""
        k, h = self.options.beam, self.total.shape[1]
        chosen = (best.token == EOS).to(torch.uint8).argsort(dim=1, stable=True)[:, :k]
        self.total = best.total.gather(1, chosen)
        token, parent = best.token.gather(1, chosen), best.parent.gather(1, chosen)
        self.trace.live(self.step, self.active, token, parent, best.log_prob.gather(1, chosen))
        self.done |= self.total[:, 0] == -math.inf  # a tiny vocabulary can run out of hypotheses
        row = torch.arange(self.active.shape[0], device=token.device)
        keep = self._sentences_left()
        if keep is not None:
            self._leave(keep)
            token, parent, row = token[keep], parent[keep], row[keep]
        if not self.is_running:
            return
        self.token = token.flatten()
        rows = row[:, None] * h + parent  # [A, k]
        is_identity = (
            self.asks_every_step
            and h == k
            and keep is None
            and torch.equal(rows.flatten(), torch.arange(rows.numel(), device=rows.device))
        )
        if not is_identity:
            self.states = [state.select(rows) for state in self.states]

    def _sentences_left(self) -> Tensor | None:
        """Return the rows of unfinished sentences; None for all rows, or if not checked."""
        is_end = self.step + 1 >= self.trace.steps
        if not (
            self.asks_every_step or is_end or self.step % STEPS_BETWEEN_CHECKS == 0
        ) or not bool(self.done.any()):
            return None
        return (~self.done).nonzero()[:, 0]

    def _leave(self, keep: Tensor) -> None:
        self.active, self.limit = self.active[keep], self.limit[keep]
        self.done, self.final_count = self.done[keep], self.final_count[keep]
        self.total = self.total[keep]
        left = self.active.tolist()
        self.is_running = bool(left)
        self.next_limit = min((self.limits[index] for index in left), default=0)


def best_continuations(log_probs: Tensor, total: Tensor, count: int) -> _Continuations:
    """Return the `count` best continuations of each sentence by summed log-probability.

    Args:
        log_probs: of the next token, [A, h, V].
        total: summed log-probability of each hypothesis, [A, h].
        count: how many; if there are fewer, the rest have total -inf.
    """
    A, h, V = log_probs.shape
    is_wide = V % PARTS == 0 and h * (V // PARTS) >= 4 * count
    find = _best_by_columns if is_wide else _best_of_all
    value, index = find(log_probs, total, min(count, h * V))
    missing = count - value.shape[1]
    log_prob = log_probs.reshape(A, h * V).gather(1, index)
    if missing:
        value = pad(value, (0, missing), value=-math.inf)
        log_prob = pad(log_prob, (0, missing), value=-math.inf)
        index = pad(index, (0, missing), value=PAD)
    return _Continuations(value, log_prob, index // V, index % V)


def _best_of_all(log_probs: Tensor, total: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return value and flat index of the best, [A, count] each."""
    best = (log_probs + total[:, :, None]).flatten(1).topk(count)
    return best.values, best.indices


def _best_by_columns(log_probs: Tensor, total: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Do the same within the best columns: exact, because they contain all of the best."""
    A, h, V = log_probs.shape
    width = V // PARTS
    peaks = log_probs.view(A, h, PARTS, width).amax(2) + total[:, :, None]  # [A, h, width]
    column = peaks.flatten(1).topk(count, sorted=False).indices  # [A, count]
    parent = column // width
    start = parent * V + column % width
    part = torch.arange(PARTS, device=log_probs.device) * width
    index = (start[:, :, None] + part).flatten(1)  # [A, count * PARTS]
    parents = parent.repeat_interleave(PARTS, dim=1)
    value = log_probs.reshape(A, h * V).gather(1, index) + total.gather(1, parents)
    best = value.topk(count)
    return best.values, index.gather(1, best.indices)
