"""Beam search over the model contract: `begin`, `step`, `project`, `select`, nothing else.

At every step the best 2k of the k V continuations of a sentence are considered (beam size k). A
continuation that ends in ``</s>`` and is among the first k is final; the first k of the others
survive. A sentence is done at its length limit, where ``</s>`` is forced, or before by one of two
rules: *count*, that of the original code, when k hypotheses are final; *bound*, when no survivor
can score higher than the final hypotheses to be returned. Finished sentences leave the batch.

Everything stays in tensors on the device: tokens, back-pointers and log-probabilities are written
to a trace, and hypotheses are read from it once, at the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from jtrans.decoding.lanes import leave_if_unwanted
from jtrans.decoding.options import SearchOptions
from jtrans.decoding.prepared.base import Searchable
from jtrans.decoding.prepared.captured.state import GraphState
from jtrans.decoding.search.candidates import Choice, Continuations, survivors
from jtrans.decoding.search.captured import (
    STEPS_BETWEEN_CHECKS,
    CapturedChoice,
    captured_choice,
    prepare_capture,
)
from jtrans.decoding.search.diversity import DiverseGroups
from jtrans.decoding.search.finals import Finals
from jtrans.decoding.search.next_token import TokenRules, next_log_probs
from jtrans.decoding.search.phrases import RequiredPhrases, SearchConstraints
from jtrans.decoding.search.trace import Hypothesis, Trace
from jtrans.models.base import Memory, State
from jtrans.nn.cpu.threads import threads_for
from jtrans.text.vocabulary import EOS


def beam_search(
    models: Sequence[Searchable],
    source: Tensor,
    source_mask: Tensor,
    options: SearchOptions,
    constraints: Sequence[SearchConstraints] = (),
    memories: Sequence[Memory] | None = None,
) -> list[list[Hypothesis]]:
    """Search for the best translations of some sentences.

    Args:
        models: one model, or an ensemble, whose probabilities are averaged.
        source: token ids, padded on the right, [B, S].
        source_mask: True on real tokens, [B, S].
        options: beam, limits and ranking.
        constraints: one per sentence; empty for none.
        memories: one per model, if they do not all read `source`.

    Returns:
        For each sentence up to `options.nbest` hypotheses, best score first; none only where no
        hypothesis could fulfil the constraints on phrases.

    Raises:
        DecodingError: the model's probabilities are not finite, or rules exclude every token.
    """
    B, S = source.shape
    rows = B * options.beam * (S if any(model.is_joint for model in models) else 1)
    with torch.no_grad(), threads_for(rows, source.device):
        limits = [options.limit(length, models) for length in source_mask.sum(1).tolist()]
        rules = TokenRules(options, limits, source.device, constraints)
        choice = _choice(options, rules)
        memories = memories or [model.encode(source, source_mask) for model in models if limits]
        search = _Search(models, memories, limits, options, rules, choice)
        while search.is_running:
            leave_if_unwanted()
            search.advance()
        return search.trace.read(options, may_fail=rules.has_phrases)


def _choice(options: SearchOptions, rules: TokenRules) -> Choice:
    if rules.required is not None:
        return RequiredPhrases(options, rules.required, rules.limit)
    return DiverseGroups(options) if options.diverse_groups > 1 else Choice(options)


class _Search:
    """The search of one batch; A of its B sentences are still active."""

    def __init__(
        self,
        models: Sequence[Searchable],
        memories: Sequence[Memory],
        limits: list[int],
        options: SearchOptions,
        rules: TokenRules,
        choice: Choice,
    ) -> None:
        self.models = models
        self.is_joint = any(model.is_joint for model in models)
        self.options = options
        self.limits = limits
        self.rules = rules
        self.choice = choice
        self.keeps_prefix = rules.needs_prefix or choice.needs_prefix
        device, B = rules.limit.device, len(limits)
        self.step = 0
        self.is_running = B > 0
        self.checks_every_step = device.type == "cpu"
        self.limit = rules.limit  # [A]
        divisors = [options.divisor(limit) for limit in limits]
        self.last_divisor = torch.tensor(divisors, device=device)  # [A]
        self.next_limit = min(limits, default=0)  # no active sentence reaches its limit before
        self.active = torch.arange(B, device=device)  # [A]
        self.finals = Finals(B, options, choice.groups, device)
        self.total = torch.zeros(B, 1, device=device)  # [A, h]; h is 1 at first, then the beam
        # the tokens so far, where a rule needs them, [A, h, step]
        self.prefix = torch.empty(B, 1, 0, dtype=torch.int64, device=device)
        self.token = torch.full((B,), EOS, device=device)  # [A * h]
        self.has_final = False
        self.rows = _Rows(B, 1, device)
        self.trace = Trace(max(limits, default=0), B, options.beam)
        self.states: list[State] = [
            model.begin(memory, 1) for model, memory in zip(models, memories, strict=B > 0)
        ]
        self.is_usual = len(models) == 1 and type(choice) is Choice and rules.are_usual
        if self.is_usual:
            for model, state in zip(models, self.states, strict=B > 0):
                prepare_capture(model, state, options)

    def advance(self) -> None:
        """Advance every hypothesis by one token, or by a few, and choose the best continuations."""
        if self.is_usual:
            most = self.next_limit - 1 - self.step  # no sentence is at its limit
            captured, steps = captured_choice(self.states[0], self.options, most)
            if captured is not None:
                self._replay(captured, steps)
                return
        A, h = self.total.shape
        log_probs = next_log_probs(self.models, self.states, self.token).view(A, h, -1)
        is_last = self.step + 1 >= self.next_limit
        self.rules.apply(log_probs, self.step, self.active, self.prefix, is_last=is_last)
        best = self.choice.best(log_probs, self.total, self.prefix, self.active)
        if self._is_eventful(best):
            self._finish(best)
            self._continue(survivors(best, self.choice.groups), may_end=True)
        else:
            self._continue(best.first(self.options.beam), may_end=False)
        self.step += 1

    def _is_eventful(self, best: Continuations) -> bool:
        """Return whether a hypothesis or sentence may end; on a GPU True, without a check."""
        if not self.checks_every_step or self.step + 1 >= self.next_limit:
            return True
        if self.has_final and self.options.stopping == "bound":
            return True
        is_end = best.token == EOS
        return bool(is_end.logical_or_(best.total == -math.inf).any())

    def _finish(self, best: Continuations) -> None:
        """Record the hypotheses that end at this step and mark the sentences that are done."""
        k = self.options.beam
        ends = self.finals.add(best, self.options.divisor(self.step + 1))
        self.has_final = True
        self.trace.end(self.step, self.active, ends, best.parent[:, :k], best.log_prob[:, :k])
        self.finals.done |= self.limit <= self.step + 1

    def _continue(self, best: Continuations, *, may_end: bool) -> None:
        """Continue every unfinished sentence with k continuations that do not end.

        Args:
            best: the continuations, k of each sentence.
            may_end: whether sentences may be done.
        """
        self.total = best.total
        self.trace.live(self.step, self.active, best.token, best.parent, best.log_prob)
        keep = None
        if may_end:
            next_divisor = self.options.divisor(self.step + 2)
            self.finals.close(self.total, next_divisor, self.last_divisor)
            checks = self.checks_every_step or self.step % STEPS_BETWEEN_CHECKS == 0
            keep = self._sentences_left(checks=checks)
        self._pass_on(best, keep)

    def _pass_on(
        self, best: Continuations, keep: Tensor | None, *, is_passed: bool = False
    ) -> None:
        """Pass k continuations on to the states of the models.

        Args:
            best: the continuations, k of each sentence.
            keep: rows of the sentences that continue, [A']; None if all do.
            is_passed: whether the states have already selected these hypotheses.
        """
        row, parent, token = self.rows.number, best.parent, best.token
        if keep is not None:
            self._leave(keep)
            token, parent, row = token[keep], parent[keep], keep[:, None]
        if not self.is_running:
            return
        self.token = token.flatten()
        if self.keeps_prefix:
            self.prefix = torch.cat([self.prefix[row, parent], token[..., None]], dim=2)
        if keep is not None or not is_passed:
            chosen = torch.add(parent, row, alpha=self.rows.beam)  # [A, k]
            if not (self.checks_every_step and keep is None and self.rows.are_all(chosen)):
                self.states = [state.select(chosen) for state in self.states]
        self.rows = self.rows.of(*parent.shape)

    def _replay(self, captured: CapturedChoice, steps: int) -> None:
        """Advance by some steps that are captured with the choices that follow them."""
        captured.load(self.token, self.total, self.finals, self.last_divisor)
        for _ in range(steps):
            captured.replay()
        state = self.states[0]
        assert isinstance(state, GraphState)
        state.advanced(steps)
        for ends, parent, log_prob, left in captured.read(steps, len(self.active)):
            self.trace.end(self.step, self.active, ends, parent, log_prob)
            self.trace.live(self.step, self.active, left.token, left.parent, left.log_prob)
            self.step += 1
        self.total = left.total
        self.finals.load(captured.finals)
        self.has_final = True
        self._pass_on(left, self._sentences_left(checks=True), is_passed=True)

    def _sentences_left(self, *, checks: bool) -> Tensor | None:
        """Return the rows of unfinished sentences, [A']; None if none is done or checked."""
        done = self.finals.done
        if not (checks or self.step + 1 >= self.trace.steps) or not bool(done.any()):
            return None
        keep = (~done).nonzero()[:, 0]
        return keep if self.is_joint else _in_places(keep, done)

    def _leave(self, keep: Tensor) -> None:
        self.active, self.limit = self.active[keep], self.limit[keep]
        self.last_divisor = self.last_divisor[keep]
        self.finals.keep(keep)
        self.total = self.total[keep]
        left = self.active.tolist()
        self.is_running = bool(left)
        self.next_limit = min((self.limits[index] for index in left), default=0)


class _Rows:
    """The hypotheses of A sentences by number, N = A x beam.

    Args:
        sentences: A.
        beam: hypotheses of each.
        device: where the search runs.
    """

    def __init__(self, sentences: int, beam: int, device: torch.device) -> None:
        self.beam = beam
        self.number = torch.arange(sentences, device=device)[:, None]  # [A, 1]
        self._all = torch.arange(sentences * beam, device=device).view(sentences, beam)

    def of(self, sentences: int, beam: int) -> _Rows:
        """Return the rows of `sentences` with `beam` hypotheses each."""
        if (sentences, beam) == self._all.shape:
            return self
        return _Rows(sentences, beam, self.number.device)

    def are_all(self, rows: Tensor) -> bool:
        """Return whether `rows`, [A, beam'], are all, in order."""
        return rows.shape == self._all.shape and torch.equal(rows, self._all)


def _in_places(keep: Tensor, done: Tensor) -> Tensor:
    """Let the last unfinished sentences take the places of the first that are done.

    The caches of all others then stay where they are.

    Args:
        keep: rows of unfinished sentences, in order, [A'].
        done: whether each sentence is done, [A].
    """
    places = torch.arange(len(keep), device=keep.device)
    places[done[: len(keep)]] = keep[keep >= len(keep)]
    return places
