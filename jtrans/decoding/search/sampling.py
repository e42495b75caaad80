"""Sampling: translations drawn token by token from the model's distribution.

Each token is drawn from softmax(log p / temperature), of which a filter may keep only the most
probable tokens: the k best (top-k; Fan et al. 2018), the fewest whose probabilities reach p (top-p;
Holtzman et al. 2020), those of at least epsilon (Hewitt et al. 2022). The best is always kept.

The random numbers of a sentence depend on the seed and on its tokens alone, so that it gets the
same translations in any batch, order and part of a file. Equal lines get equal ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jtrans.decoding.lanes import leave_if_unwanted
from jtrans.decoding.options import SamplingOptions, SearchOptions
from jtrans.decoding.prepared.base import Searchable
from jtrans.decoding.search.next_token import TokenRules, next_log_probs
from jtrans.decoding.search.phrases import SearchConstraints
from jtrans.decoding.search.trace import Hypothesis, require_finite
from jtrans.models.base import Memory, State
from jtrans.text.vocabulary import EOS

STEPS_AT_ONCE = 64  # for which random numbers are drawn together


def draw(
    models: Sequence[Searchable],
    source: Tensor,
    source_mask: Tensor,
    options: SearchOptions,
    sampling: SamplingOptions,
    constraints: Sequence[SearchConstraints] = (),
    memories: Sequence[Memory] | None = None,
    never: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """Draw `options.beam` translations of each sentence, independent of each other.

    Args:
        models: one model, or an ensemble, whose probabilities are averaged.
        source: token ids, padded on the right, [B, S].
        source_mask: True on real tokens, [B, S].
        options: their number, their limits, and how many are returned.
        sampling: the distribution and the seed.
        constraints: one per sentence, without required phrases; empty for none.
        memories: one per model, if they do not all read `source`.
        never: tokens that are not drawn, besides those that a search excludes.

    Returns:
        For each sentence the first `options.nbest` in the order drawn.

    Raises:
        DecodingError: the model's probabilities are not finite, or rules exclude every token.
    """
    lengths = source_mask.sum(1).tolist()
    limits = [options.limit(length, models) for length in lengths]
    random = [
        SentenceRandom(sampling.seed, source[row, :length].tolist(), options.beam)
        for row, length in enumerate(lengths)
    ]
    with torch.no_grad():
        rules = TokenRules(options, limits, source.device, constraints, never)
        memories = memories or [model.encode(source, source_mask) for model in models]
        states = [
            model.begin(memory, options.beam)
            for model, memory in zip(models, memories, strict=True)
        ]
        drawing = _Drawing(models, states, rules, sampling, random)
        while drawing.is_running:
            leave_if_unwanted()
            drawing.advance()
    return drawing.hypotheses(options)


class SentenceRandom:
    """Uniform random numbers in [0, 1) for n translations of one sentence.

    Those of translation i depend on the seed, the source tokens and i, not on n.
    """

    def __init__(self, seed: int, tokens: Sequence[int], n: int) -> None:
        text = " ".join(map(str, [seed, *tokens]))
        key = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
        self._generators = [np.random.Generator(np.random.Philox(key=[key, i])) for i in range(n)]

    def draw(self, steps: int) -> NDArray[np.float64]:
        """Return the numbers of the next steps, [steps, n]."""
        return np.stack([generator.random(steps) for generator in self._generators], axis=1)


class _Drawing:
    """The translations of one batch; A of its B sentences have unfinished ones."""

    def __init__(
        self,
        models: Sequence[Searchable],
        states: list[State],
        rules: TokenRules,
        sampling: SamplingOptions,
        random: Sequence[SentenceRandom],
    ) -> None:
        device, n = rules.limit.device, rules.options.beam
        B = len(random)
        self.models, self.states = models, states
        self.rules, self.sampling, self.random = rules, sampling, random
        self.step = 0
        self.active = torch.arange(B, device=device)  # [A]
        self.token = torch.full((B, n), EOS, device=device)  # [A, n]
        self.done = torch.zeros(B, n, dtype=torch.bool, device=device)  # [A, n]
        self.prefix = torch.empty(B, n, 0, dtype=torch.int64, device=device)  # [A, n, step]
        self.uniform = torch.empty(0)  # [STEPS_AT_ONCE, B, n]
        # per step: sentences by number [A], tokens and their log-probabilities [A, n]
        self.drawn: list[tuple[Tensor, Tensor, Tensor]] = []

    @property
    def is_running(self) -> bool:
        """Whether any translation is unfinished."""
        return bool(self.active.numel())

    def advance(self) -> None:
        """Draw one more token of every translation."""
        A, n = self.token.shape
        log_probs = next_log_probs(self.models, self.states, self.token.flatten()).view(A, n, -1)
        is_last = bool((self.rules.limit[self.active] <= self.step + 1).any())
        self.rules.apply(log_probs, self.step, self.active, self.prefix, is_last=is_last)
        require_finite(log_probs.amax(-1).masked_fill(self.done, 0.0), self.active)
        self.token = choose(log_probs, self._uniform(), self.sampling)
        log_prob = log_probs.gather(-1, self.token[..., None])[..., 0]
        self.drawn.append((self.active, self.token, log_prob))
        self.done |= self.token == EOS
        if self.rules.needs_prefix:
            self.prefix = torch.cat([self.prefix, self.token[..., None]], dim=2)
        self.step += 1
        if bool(self.done.all(1).any()):
            self._leave((~self.done.all(1)).nonzero()[:, 0])

    def hypotheses(self, options: SearchOptions) -> list[list[Hypothesis]]:
        """Return the first `nbest` translations of every sentence."""
        tokens: list[list[list[int]]] = [[[] for _ in range(options.beam)] for _ in self.random]
        log_probs: list[list[list[float]]] = [[[] for _ in sentence] for sentence in tokens]
        for active, token, log_prob in self.drawn:
            rows = zip(active.tolist(), token.tolist(), log_prob.tolist(), strict=True)
            for sentence, its_tokens, its_log_probs in rows:
                for i, drawn in enumerate(tokens[sentence]):
                    if not drawn or drawn[-1] != EOS:
                        drawn.append(its_tokens[i])
                        log_probs[sentence][i].append(its_log_probs[i])
        return [
            [Hypothesis.of(*each, options) for each in zip(*pair, strict=True)][: options.nbest]
            for pair in zip(tokens, log_probs, strict=True)
        ]

    def _uniform(self) -> Tensor:
        """Return the random numbers of this step, [A, n]."""
        place = self.step % STEPS_AT_ONCE
        if place == 0:
            n = self.token.shape[1]
            table = np.zeros((STEPS_AT_ONCE, len(self.random), n), dtype=np.float32)
            for sentence in self.active.tolist():
                table[:, sentence] = self.random[sentence].draw(STEPS_AT_ONCE)
            self.uniform = torch.from_numpy(table).to(self.token.device)
        return self.uniform[place, self.active]

    def _leave(self, keep: Tensor) -> None:
        n = self.token.shape[1]
        self.active, self.token, self.done = self.active[keep], self.token[keep], self.done[keep]
        self.prefix = self.prefix[keep]
        if self.is_running:
            rows = keep[:, None] * n + torch.arange(n, device=keep.device)  # [A', n]
            self.states = [state.select(rows) for state in self.states]


def choose(log_probs: Tensor, uniform: Tensor, sampling: SamplingOptions) -> Tensor:
    """Return the token that each random number stands for, [A, n].

    Args:
        log_probs: log-probabilities of the next token, -inf where excluded, [A, n, V].
        uniform: random numbers in [0, 1), [A, n].
        sampling: temperature and filters.
    """
    every = log_probs / sampling.temperature
    V = every.shape[-1]
    count = min(sampling.top_k or V, V)
    scaled, token = every.topk(count) if sampling.is_filtered else (every, torch.empty(0))
    share = torch.softmax(scaled, dim=-1)  # [A, n, count], in decreasing order if filtered
    if sampling.top_p < 1.0:
        before = share.cumsum(-1) - share
        share = share.masked_fill(before >= sampling.top_p, 0.0)
    if sampling.epsilon > 0.0:
        share_of_all = (scaled - every.logsumexp(-1, keepdim=True)).exp()
        is_improbable = share_of_all < sampling.epsilon
        is_improbable[..., 0] = False
        share = share.masked_fill(is_improbable, 0.0)
    total = share.cumsum(-1)
    # the first token at which the cumulative share exceeds the number, among those with any share
    index = (total <= uniform[..., None] * total[..., -1:]).sum(-1)
    last = share.shape[-1] - 1 - (share.flip(-1) > 0).to(torch.uint8).argmax(-1)
    index = torch.minimum(index, last)
    return token.gather(-1, index[..., None])[..., 0] if sampling.is_filtered else index
