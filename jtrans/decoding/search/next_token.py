"""The distribution of the next token, and the rules about what may come next.

A rule changes log-probabilities to -inf and never renormalises the others, so that the sum over a
hypothesis remains the model's own log-probability of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from jtrans.decoding.options import SearchOptions
from jtrans.decoding.prepared.base import Searchable
from jtrans.decoding.search.phrases import (
    PhraseTable,
    SearchConstraints,
    block_ends_within_words,
    block_phrases,
    phrase_table,
)
from jtrans.models.base import State
from jtrans.text.vocabulary import EOS, PAD, SPARE, UNK


def next_log_probs(models: Sequence[Searchable], states: Sequence[State], token: Tensor) -> Tensor:
    """Read one more token of each hypothesis, [N], and return log-probabilities, [N, V], float32.

    Those of an ensemble are the logarithms of the mean of the models' probabilities.
    """
    each = [
        # measured: on a CPU the full log-softmax is faster than torch.logsumexp
        torch.log_softmax(model.project(model.step(token, state)), dim=-1, dtype=torch.float32)
        for model, state in zip(models, states, strict=True)
    ]
    if len(each) == 1:
        return each[0]
    return torch.logsumexp(torch.stack(each), dim=0) - math.log(len(each))


class TokenRules:
    """What may come next in the translations of B sentences.

    Pad, the unused symbol and `never` are excluded everywhere, ``</s>`` before the minimum length,
    and all other tokens at the limit of a sentence.

    Args:
        options: minimum length and n-grams.
        limits: most target tokens of each sentence.
        device: where the search runs.
        constraints: one per sentence; empty for none.
        never: further tokens to exclude.
    """

    def __init__(
        self,
        options: SearchOptions,
        limits: Sequence[int],
        device: torch.device,
        constraints: Sequence[SearchConstraints],
        never: Sequence[int] = (),
    ) -> None:
        self.options = options
        self.limit = torch.tensor(limits, device=device)  # [B]
        self._never = torch.tensor([PAD, SPARE, *never], device=device)
        prefixes = [list(map(int, each.prefix)) for each in constraints]
        self.longest = max(map(len, prefixes), default=0)
        rows = [[*prefix, *[PAD] * (self.longest - len(prefix))] for prefix in prefixes]
        continued = next((each.continued for each in constraints if each.continued), frozenset())
        # None without any
        self.required = phrase_table([each.required for each in constraints], continued, device)
        self._forbidden = phrase_table([each.forbidden for each in constraints], continued, device)
        forbids_unknown = [each.forbids_unknown for each in constraints]
        self._forbids_unknown = torch.tensor(forbids_unknown, device=device)  # [B]
        self._forced = torch.tensor(rows, dtype=torch.int64, device=device)  # [B, longest]

    @property
    def has_phrases(self) -> bool:
        """Whether phrases are required or forbidden in any sentence."""
        return self.required is not None or self._forbidden is not None

    @property
    def are_usual(self) -> bool:
        """Whether the only rules are minimum length, limits and tokens that are always excluded."""
        return not (self.has_phrases or self.needs_prefix or self.longest)

    @property
    def needs_prefix(self) -> bool:
        """Whether `apply` depends on the tokens of the hypotheses so far."""
        options = self.options
        return options.no_repeat_ngram > 0 or options.max_repeats > 0 or self._forbidden is not None

    def apply(
        self, log_probs: Tensor, step: int, active: Tensor, prefix: Tensor, *, is_last: bool
    ) -> None:
        """Exclude the tokens that must not come next, in place.

        Args:
            log_probs: those of the next token in h hypotheses of A sentences, [A, h, V].
            step: tokens of each hypothesis so far.
            active: the sentences by number, [A].
            prefix: the tokens so far, [A, h, step]; not read unless `needs_prefix`.
            is_last: whether any sentence is at its limit.
        """
        log_probs.index_fill_(-1, self._never, -math.inf)
        if self._forbidden is not None:  # at the limit, too
            block_ends_within_words(log_probs, prefix, active, self._forbidden)
        required = [*self._required(log_probs, step, active, is_last=is_last)]
        if self.options.no_repeat_ngram or self.options.max_repeats:
            self._block_repetitions(log_probs, prefix, active)
        if self._forbidden is not None:
            self._block_forbidden(log_probs, step, active, prefix, self._forbidden)
        if step < self.options.min_length:
            log_probs[..., EOS] = -math.inf
        for token, log_prob, where in required:
            log_probs.masked_fill_(where, -math.inf)
            excluded = log_probs.gather(-1, token)
            log_probs.scatter_(-1, token, torch.where(where, log_prob, excluded))

    def _block_forbidden(
        self, log_probs: Tensor, step: int, active: Tensor, prefix: Tensor, table: PhraseTable
    ) -> None:
        """Exclude what completes a phrase, unknown pieces, and words that the limit would cut."""
        block_phrases(log_probs, prefix, active, table)
        no_unknown = self._forbids_unknown[active][:, None]
        log_probs[..., UNK].masked_fill_(no_unknown, -math.inf)
        is_cut = table.ends_within_word(torch.arange(log_probs.shape[-1], device=active.device))
        ends_next = table.has_any(active) & (self.limit[active] <= step + 2)
        log_probs.masked_fill_(is_cut & ends_next[:, None, None], -math.inf)

    def _block_repetitions(self, log_probs: Tensor, prefix: Tensor, active: Tensor) -> None:
        """Exclude repetitions, but no token that continues a required phrase."""
        token, log_prob = torch.empty(0), torch.empty(0)
        if self.required is not None:
            token = self.required.next_tokens(self.required.match(prefix, active), active)
            log_prob = log_probs.gather(-1, token)
        if self.options.no_repeat_ngram:
            block_repeated_ngrams(log_probs, prefix, self.options.no_repeat_ngram)
        if self.options.max_repeats:
            block_loops(log_probs, prefix, self.options.max_repeats)
        if self.required is not None:
            log_probs.scatter_(-1, token, log_prob)

    def _required(
        self, log_probs: Tensor, step: int, active: Tensor, *, is_last: bool
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield what must come next: the token, its log-probability, and where, [A, h, 1] each."""
        A, h, _ = log_probs.shape
        if step < self.longest:
            token = self._forced[active, step][:, None, None].expand(A, h, 1)
            yield token, log_probs.gather(-1, token), token != PAD
        if is_last:
            end = torch.full((A, h, 1), EOS, device=log_probs.device)
            at_limit = (self.limit[active] <= step + 1)[:, None, None]
            yield end, log_probs.gather(-1, end), at_limit


def block_repeated_ngrams(log_probs: Tensor, prefix: Tensor, n: int) -> None:
    """Exclude, in place, every token that would repeat an n-gram of its own hypothesis.

    Args:
        log_probs: log-probabilities of the next token, [A, h, V]; pad is excluded already.
        prefix: the tokens of each hypothesis so far, [A, h, t].
        n: tokens in an n-gram, 1 or more.
    """
    t = prefix.shape[-1]
    if t < n:
        return
    ngrams = prefix.unfold(-1, n, 1)  # [A, h, t - n + 1, n]
    latest = prefix[..., None, t - n + 1 :]  # the last n - 1 tokens, [A, h, 1, n - 1]
    is_begun = (ngrams[..., :-1] == latest).all(-1)  # [A, h, t - n + 1]
    log_probs.scatter_(-1, torch.where(is_begun, ngrams[..., -1], PAD), -math.inf)


def block_loops(log_probs: Tensor, prefix: Tensor, most: int) -> None:
    """Exclude, in place, every token by which a sequence would come too often in a row.

    Args:
        log_probs: log-probabilities of the next token, [A, h, V]; pad is excluded already.
        prefix: the tokens of each hypothesis so far, [A, h, t].
        most: how often any sequence of tokens may come in a row, 1 or more.
    """
    t = prefix.shape[-1]
    longest = (t + 1) // (most + 1)  # tokens of the longest sequence that fits so often
    if longest == 0:
        return
    latest = prefix.flip(-1)  # the last token first
    ended = F.pad(latest, (0, longest), value=-1).unfold(-1, t, 1)[..., 1 : longest + 1, :]
    # how many of the last tokens are the same as those p tokens before them, [A, h, longest]
    same = (ended == latest[..., None, :]).to(torch.uint8).cumprod(-1).sum(-1)
    period = torch.arange(1, longest + 1, device=prefix.device)
    is_full = same >= period * most - 1
    log_probs.scatter_(-1, torch.where(is_full, latest[..., :longest], PAD), -math.inf)
