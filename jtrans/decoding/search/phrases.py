"""Phrases that a translation must contain, or must not.

Required phrases are searched for by dynamic beam allocation (Post and Vilar 2018, Fast Lexically
Constrained Decoding with Dynamic Beam Allocation; in tensors as in Hu et al. 2019, Improved
Lexically Constrained Decoding). The continuations of a sentence fall into banks by how many tokens
its phrases still need; the beam takes the best of every bank, then the second best, and so on,
those that need least first. No hypothesis ends before it contains all phrases, and none takes a
token after which those that are missing would not fit below the limit, one after the other.

Phrases begin at the beginning of a word: a phrase "house" is not part of "green@@ house".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from jtrans.data.batch import Ids
from jtrans.decoding.options import SearchOptions
from jtrans.decoding.search.candidates import Choice, Continuations, best_continuations
from jtrans.text.vocabulary import EOS, PAD, UNK


@dataclass(frozen=True)
class SearchConstraints:
    """The constraints on the translation of one sentence, as target ids without ``</s>``."""

    prefix: Ids = ()  # its first tokens, fewer than its limit
    required: Sequence[Ids] = ()  # phrases that it must contain
    forbidden: Sequence[Ids] = ()  # phrases that it must not contain
    # the tokens that end within a word, the same for all sentences
    continued: frozenset[int] = frozenset()

    @property
    def has_phrases(self) -> bool:
        """Whether any phrase is required or forbidden."""
        return bool(self.required or self.forbidden)

    @property
    def forbids_unknown(self) -> bool:
        """Whether unknown words are forbidden: those with an unknown piece anywhere."""
        return any([*phrase] == [UNK] for phrase in self.forbidden)

    @property
    def room(self) -> int:
        """The most target tokens that prefix, missing phrases and ``</s>`` take."""
        prefix, continued = self.prefix, self.continued
        missing = [phrase for phrase in self.required if not occurs(phrase, prefix, continued)]
        begun = max(
            (n for each in missing for n in range(1, len(each)) if self._ends_with(each[:n])),
            default=0,
        )
        is_within_word = len(prefix) > 0 and int(prefix[-1]) in continued
        ends_word_first = is_within_word and bool(missing) and not begun
        return len(prefix) + ends_word_first + sum(map(len, missing)) - begun + 1

    def _ends_with(self, part: Ids) -> bool:
        """Whether the prefix ends with a part that begins a word."""
        return occurs(part, self.prefix, self.continued, first=len(self.prefix) - len(part))


def occurs(part: Ids, whole: Ids, continued: frozenset[int], first: int = 0) -> bool:
    """Return whether a sequence contains another one that begins a word there.

    Args:
        part: the tokens to find, at least one.
        whole: the tokens to look through.
        continued: the tokens that end within a word.
        first: the place from which on `part` may begin.
    """
    return any(
        [*whole[i : i + len(part)]] == [*part] and (i == 0 or whole[i - 1] not in continued)
        for i in range(max(0, first), len(whole) - len(part) + 1)
    )


@dataclass(frozen=True)
class Matches:
    """Phrases in n token sequences of A sentences."""

    contained: Tensor  # whether a sequence contains a phrase, [A, n, P]
    # how many first tokens of a phrase a sequence ends with, fewer than all of them, [A, n, P]
    begun: Tensor
    at_word: Tensor  # whether a word has ended with the last token, [A, n]


class PhraseTable:
    """At most P phrases of at most L tokens for each of B sentences.

    Args:
        phrases: the phrases of each sentence.
        continued: tokens that end within a word.
        device: where the search runs.
    """

    def __init__(
        self, phrases: Sequence[Sequence[Ids]], continued: frozenset[int], device: torch.device
    ) -> None:
        P = max(map(len, phrases), default=0)
        L = max((len(phrase) for group in phrases for phrase in group), default=0)
        rows = [
            [[*map(int, phrase), *[PAD] * (L - len(phrase))] for phrase in group]
            + [[PAD] * L] * (P - len(group))
            for group in phrases
        ]
        self.tokens = torch.tensor(rows, dtype=torch.int64, device=device).view(len(phrases), P, L)
        self.length = (self.tokens != PAD).sum(-1)  # [B, P]
        self._ends_within_word = torch.zeros(
            max(continued, default=0) + 2, dtype=torch.bool, device=device
        )
        self._ends_within_word[sorted(continued)] = True

    def match(self, sequences: Tensor, active: Tensor, *, only_end: bool = False) -> Matches:
        """Find the phrases of some sentences.

        Args:
            sequences: tokens, [A, n, t].
            active: the sentences by number, [A].
            only_end: whether no sequence contains a phrase, so that only ends are compared.
        """
        phrases, length = self.tokens[active], self.length[active][:, None]  # [A, P, L], [A, 1, P]
        P, L = phrases.shape[1:]
        if only_end:  # a phrase can have begun within L - 1 tokens; one before them begins a word
            sequences = sequences[..., -L:]
        A, n, t = sequences.shape
        if t == 0:
            begun = length.new_zeros(A, n, P)
            return Matches((length == 0).expand(A, n, P), begun, begun.new_ones(A, n) > 0)
        within = self.ends_within_word(sequences)
        begins_word = ~F.pad(within[..., :-1], (1, 0))
        windows = F.pad(sequences, (0, L - 1), value=PAD).unfold(-1, L, 1)  # [A, n, t, L]
        same = windows[:, :, :, None] == phrases[:, None, None]  # [A, n, t, P, L]
        last = slice(max(0, t - L + 1), t)  # where an unfinished phrase can have begun
        is_begun = (same[:, :, last] | (windows == PAD)[:, :, last, None]).all(-1)
        is_begun &= begins_word[:, :, last, None]
        left = torch.arange(t, 0, -1, device=sequences.device)[last]  # tokens from there
        is_begun &= left[:, None] < length[:, :, None]
        begun = F.pad(is_begun * left[:, None], (0, 0, 1, 0)).amax(2)
        contained = (length == 0).expand(A, n, P)
        if not only_end:
            is_whole = (same | (phrases == PAD)[:, None, None]).all(-1) & begins_word[..., None]
            contained = contained | is_whole.any(2)
        return Matches(contained, begun, ~within[..., -1])

    def has_any(self, active: Tensor) -> Tensor:
        """Return whether each sentence has phrases, [A]."""
        return self.length[active].any(-1)

    def ends_within_word(self, tokens: Tensor) -> Tensor:
        """Return whether each token ends within a word."""
        return self._ends_within_word[tokens.clamp(max=len(self._ends_within_word) - 1)]

    def needed(self, matches: Matches, active: Tensor) -> Tensor:
        """Return how many tokens suffice for the missing phrases, one after the other, [A, n]."""
        missing = ~matches.contained
        begun = (matches.begun * missing).amax(-1)
        tokens = (self.length[active][:, None] * missing).sum(-1) - begun
        ends_word_first = missing.any(-1) & (begun == 0) & ~matches.at_word
        return tokens + ends_word_first

    def next_tokens(self, matches: Matches, active: Tensor) -> Tensor:
        """Return the token that continues each missing phrase, or pad, [A, n, P]."""
        n = matches.begun.shape[1]
        phrases = self.tokens[active][:, None].expand(-1, n, -1, -1)
        token = phrases.gather(-1, matches.begun[..., None])[..., 0]
        is_possible = (matches.begun > 0) | matches.at_word[..., None]
        return token.masked_fill(matches.contained | ~is_possible, PAD)


def phrase_table(
    phrases: Sequence[Sequence[Ids]], continued: frozenset[int], device: torch.device
) -> PhraseTable | None:
    """Return the table of some phrases, see `PhraseTable`; None if there are none."""
    return PhraseTable(phrases, continued, device) if any(phrases) else None


def block_ends_within_words(
    log_probs: Tensor, prefix: Tensor, active: Tensor, table: PhraseTable
) -> None:
    """Exclude, in place, ``</s>`` after a token that ends within a word.

    Such a word is written without its mark of continuation, and may then be a forbidden phrase.

    Args:
        log_probs: log-probabilities of the next token, [A, h, V].
        prefix: the tokens of each hypothesis so far, [A, h, t].
        active: the sentences by number, [A].
        table: the forbidden phrases; sentences without any may end anywhere.
    """
    if prefix.shape[-1]:
        is_within = table.ends_within_word(prefix[..., -1]) & table.has_any(active)[:, None]
        log_probs[..., EOS].masked_fill_(is_within, -math.inf)


def block_phrases(log_probs: Tensor, prefix: Tensor, active: Tensor, table: PhraseTable) -> None:
    """Exclude, in place, every token that would complete a phrase of its sentence.

    Args:
        log_probs: log-probabilities of the next token, [A, h, V]; pad is excluded already.
        prefix: the tokens of each hypothesis so far, [A, h, t].
        active: the sentences by number, [A].
        table: the forbidden phrases.
    """
    matches = table.match(prefix, active, only_end=True)
    is_almost_whole = matches.begun == table.length[active][:, None] - 1
    token = table.next_tokens(matches, active)
    log_probs.scatter_(-1, token.where(is_almost_whole, PAD), -math.inf)


class RequiredPhrases(Choice):
    """The choice of continuations by banks.

    Args:
        options: the beam.
        table: the phrases.
        limit: most target tokens of each sentence, [B].
    """

    needs_prefix = True

    def __init__(self, options: SearchOptions, table: PhraseTable, limit: Tensor) -> None:
        super().__init__(options)
        self.table, self.limit = table, limit

    def best(
        self, log_probs: Tensor, total: Tensor, prefix: Tensor, active: Tensor
    ) -> Continuations:
        """Return the continuations to consider, [A, 2k], those of all banks in turn."""
        table = self.table
        matches = table.match(prefix, active)
        needed = table.needed(matches, active)  # [A, h]
        log_probs[..., EOS].masked_fill_(needed > 0, -math.inf)
        parent, token = self._candidates(log_probs, total, table.next_tokens(matches, active))
        earlier = prefix.gather(1, parent[..., None].expand(-1, -1, prefix.shape[-1]))
        longer = torch.cat([earlier, token[..., None]], dim=2)  # [A, n, step + 1]
        needed = table.needed(table.match(longer, active), active)  # [A, n]
        log_prob = log_probs.flatten(1).gather(1, parent * log_probs.shape[-1] + token)
        value = log_prob + total.gather(1, parent)
        room = self.limit[active][:, None] - longer.shape[-1] - 1  # for phrases, before </s>
        value = value.masked_fill((needed > room) & (token != EOS), -math.inf)
        order = _in_turn(_without_copies(value, parent, token), needed, 2 * self.beam)
        return Continuations(*(part.gather(1, order) for part in (value, log_prob, parent, token)))

    def _candidates(
        self, log_probs: Tensor, total: Tensor, next_tokens: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return parents and tokens, [A, n] each, some of them twice.

        They are the best of all, and for each hypothesis those that continue a phrase, its two
        best, of which one may be ``</s>``, and the best that ends a word.
        """
        h, V = log_probs.shape[1:]
        best = best_continuations(log_probs, total, 2 * self.beam)
        ends_within = self.table.ends_within_word(torch.arange(V, device=log_probs.device))
        ending = log_probs.masked_fill(ends_within, -math.inf)
        ending[..., EOS] = -math.inf
        best_two, best_end = log_probs.topk(2).indices, ending.argmax(-1, keepdim=True)
        tokens = torch.cat([next_tokens, best_two, best_end], dim=2)  # [A, h, P + 3]
        parent = torch.arange(h, device=tokens.device)[None, :, None].expand_as(tokens)
        return (
            torch.cat([best.parent, parent.flatten(1)], dim=1),
            torch.cat([best.token, tokens.flatten(1)], dim=1),
        )


def _without_copies(value: Tensor, parent: Tensor, token: Tensor) -> Tensor:
    """Return the values, [A, n], -inf where the same continuation comes before."""
    same = (parent[:, :, None] == parent[:, None]) & (token[:, :, None] == token[:, None])
    return value.masked_fill(same.tril(-1).any(-1), -math.inf)


def _in_turn(value: Tensor, needed: Tensor, count: int) -> Tensor:
    """Return the best of each bank, then the second best, and so on, as indices [A, count].

    Args:
        value: the total by which continuations are ranked, [A, n].
        needed: the number of their bank, [A, n].
        count: how many; those with value -inf come last.
    """
    order = value.argsort(dim=1, descending=True, stable=True)
    bank = needed.gather(1, order)
    rank = (bank[:, :, None] == bank[:, None]).tril(-1).sum(-1)  # better ones of the same bank
    turn = rank * (needed.amax() + 1) + bank
    turn = turn.masked_fill(value.gather(1, order) == -math.inf, torch.iinfo(turn.dtype).max)
    return order.gather(1, turn.argsort(dim=1, stable=True)[:, :count])
