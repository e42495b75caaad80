"""Decoding as in the original Reformer code, for benchmarks only (see `reference_path`).

Unlike jtrans:

* every sentence and its representation are repeated for every hypothesis, and gathered again for
  the new order of hypotheses at every step;
* the keys and values of earlier columns are concatenated with the new ones, then gathered for the
  new order, so that the whole cache is copied twice at every step, once for every hypothesis;
* the first step computes all hypotheses of a sentence, which are the same;
* a full log-softmax over the vocabulary is scored and sorted for all hypotheses together.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from scripts.bench.reference_path import ReferencePath

if TYPE_CHECKING:
    from jtrans.models.base import TranslationModel

PADDING, EOS, SPARE = 0, 1, 3


class ReferenceDecoding:
    """Searches for translations of exactly the requested number of tokens, ``</s>`` counted.

    This way all searches of a batch do the same work, and none ends early.

    Args:
        model: a joint model that `ReferencePath` supports, in evaluation mode.
    """

    def __init__(self, model: TranslationModel) -> None:
        self.path = ReferencePath(model)
        self.layers: int = self.path.config.layers

    @torch.no_grad()
    def search(self, source: Tensor, beam: int, steps: int) -> list[list[tuple[list[int], float]]]:
        """Return for every sentence its hypotheses, best first: tokens and log-probability.

        Args:
            source: token ids, padded on the right, [B, S].
            beam: hypotheses of a sentence.
            steps: tokens of a hypothesis.
        """
        B = len(source)
        order = torch.arange(B).repeat_interleave(beam)
        mask = source != PADDING
        padding = None if bool(mask.all()) else (~mask).index_select(0, order)  # [N, S]
        u = self._encode(source, mask).index_select(1, order)  # [S, N, E]
        first = torch.arange(B)[:, None] * beam  # of every sentence
        tokens = source.new_full((B * beam, 1), EOS)
        scores = torch.zeros(B, beam)
        self.cache: list[tuple[Tensor, Tensor] | None] = [None] * self.layers
        for step in range(steps):
            log_probs = self._log_probs(tokens, u, padding).view(B, beam, -1)
            allowed = [EOS] if step + 1 == steps else None
            total = scores[..., None] + _restricted(log_probs, allowed)
            candidates = total[:, :1] if step == 0 else total
            count = min(2 * beam, candidates[0].numel())
            best, index = candidates.reshape(B, -1).topk(count)
            scores = best[:, :beam]
            parent, token = index[:, :beam] // total.shape[-1], index[:, :beam] % total.shape[-1]
            rows = (first + parent).flatten()
            tokens = torch.cat([tokens.index_select(0, rows), token.reshape(-1, 1)], dim=1)
            if step + 1 == steps:
                break  # as in fairseq, which moves caches when the next step begins
            u = u.index_select(1, rows)
            padding = None if padding is None else padding.index_select(0, rows)
            self._reorder(rows)
        hypotheses = tokens[:, 1:].view(B, beam, steps).tolist()
        return [
            [*zip(tokens, values, strict=True)]
            for tokens, values in zip(hypotheses, scores.tolist(), strict=True)
        ]

    def _encode(self, source: Tensor, mask: Tensor) -> Tensor:
        path = self.path
        u = path._embed("source_embedding", source)  # [S, B, E]
        if "prenet.norm.weight" in path.weights:
            padding = None if bool(mask.all()) else ~mask
            u = path._encoder("prenet", u, padding, path.config.prenet_layers)
        return u

    def _log_probs(self, tokens: Tensor, u: Tensor, padding: Tensor | None) -> Tensor:
        """Return log-probabilities of the next token, [N, V]."""
        path = self.path
        v = path._embed("target_embedding", tokens)[-1:]  # [1, N, E]
        x = u.unsqueeze(0).repeat(1, 1, 1, 1) + v.unsqueeze(1).repeat(1, len(u), 1, 1)
        for n in range(self.layers):
            along_target = functools.partial(self._along_target, n)
            x = path._joint_layer(f"layers.{n}", x, padding, along_target=along_target)
        x = path._reduce(x, padding)[0]  # [N, E]
        weights = path.weights
        logits = F.linear(x, weights["output.weight"], weights.get("output.bias"))
        return torch.log_softmax(logits.float(), dim=-1)

    def _along_target(self, layer: int, y: Tensor) -> Tensor:
        """Attend from the new column, [1, S, N, E], to all columns so far."""
        path, name = self.path, f"layers.{layer}.target_attention.attention"
        q, k, v = F.linear(
            y, path.weights[f"{name}.in_weight"], path.weights[f"{name}.in_bias"]
        ).chunk(3, -1)
        earlier = self.cache[layer]
        if earlier is not None:
            k, v = (
                torch.cat([old, new]) for old, new in zip(earlier, (k, v), strict=True)
            )  # [t, S, N, E]
        self.cache[layer] = k, v
        return path._attend(name, q, k, v, dropout=path._weights_dropout)

    def _reorder(self, rows: Tensor) -> None:
        self.cache = [
            None
            if entry is None
            else (entry[0].index_select(2, rows), entry[1].index_select(2, rows))
            for entry in self.cache
        ]


def _restricted(log_probs: Tensor, allowed: list[int] | None) -> Tensor:
    """Exclude all tokens but `allowed`; if None, those that must not come before the end."""
    if allowed is None:
        log_probs[..., [PADDING, EOS, SPARE]] = -math.inf
        return log_probs
    only = torch.full_like(log_probs, -math.inf)
    only[..., allowed] = log_probs[..., allowed]
    return only
