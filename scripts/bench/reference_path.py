"""Computing as in the original Reformer code, for benchmarks only.

Written from a description of that code, none of it copied: the same mathematics as our models,
on the same parameters, in the original's order of operations and with its detours. It is a
validated baseline: logits, loss and gradients equal ours (tests/scripts/test_reference_path.py).

Unlike jtrans:

* the layout of the grid is [T, S, B, E]; source attention and the layer norm after it copy it;
* both sides of the grid are repeated to full size before they are added;
* queries, keys and values come from one product, and each part is then copied; scaling the
  queries, layer norm, ReLU, dropout and residual each read and write the whole grid;
* attention weights are stored: mask added, cast to float32, filled, softmax, cast back, dropout;
* dropout masks are multiplied even if nothing is dropped, also into weights and hidden layers;
* every padded target position is projected to the vocabulary, and its log-probabilities kept;
* batches hold 256 tokens along the longer axis, and 16 of them make an update.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtrans.data.batch import Batch
    from jtrans.models.base import TranslationModel

UPDATE_MICRO_BATCHES = 16  # micro-batches of an update, which has 4,096 tokens
MULTIPLE = 8  # the number of sentences above this is a multiple of it

Dropout = Callable[[Tensor], Tensor]


class ReferencePath:
    """Computes with the parameters of a jtrans model, which it shares.

    Args:
        model: a pre-norm Reformer whose grid is a sum, or a pre-norm Transformer. Its training
            mode and its dropout rates are followed.
    """

    def __init__(self, model: TranslationModel) -> None:
        config: Any = model.config
        is_known = config.norm == "pre" and (
            not model.is_joint
            or (config.grid, config.reduction, config.grid_dropout)
            == ("sum", "attention", "shared")
        )
        if not is_known or getattr(config, "side_vectors", False):
            raise ValueError("the reference path supports only the published pre-norm models")
        self.model = model
        self.config = config
        self.heads: int = config.heads
        self.weights: dict[str, Tensor] = dict(model.state_dict(keep_vars=True))

    def loss(self, batch: Batch, smoothing: float) -> Tensor:
        """Return the label-smoothed loss summed over the batch's real target tokens."""
        log_probs = torch.log_softmax(self.logits(batch).float(), dim=-1)  # [B, T, V]
        log_probs = log_probs.view(-1, log_probs.shape[-1])
        is_real = batch.target_mask.view(-1, 1)
        nll = -log_probs.gather(-1, batch.target_out.view(-1, 1))[is_real]
        uniform = -log_probs.sum(-1, keepdim=True)[is_real]
        return (1.0 - smoothing) * nll.sum() + smoothing / log_probs.shape[-1] * uniform.sum()

    def logits(self, batch: Batch) -> Tensor:
        """Return the logits of all padded target positions, [B, T, V]."""
        padding = None if bool(batch.source_mask.all()) else ~batch.source_mask  # [B, S]
        u = self._embed("source_embedding", batch.source)  # [S, B, E]
        v = self._embed("target_embedding", batch.target_in)  # [T, B, E]
        if not self.model.is_joint:
            u = self._encoder("encoder", u, padding, self.config.encoder_layers)
            x = self._decoder(u, v, padding)
        else:
            if "prenet.norm.weight" in self.weights:
                u = self._encoder("prenet", u, padding, self.config.prenet_layers)
            x = self._joint(u, v, padding)  # [T, B, E]
        return F.linear(
            x.transpose(0, 1), self.weights["output.weight"], self.weights.get("output.bias")
        )

    # The joint model

    def _joint(self, u: Tensor, v: Tensor, padding: Tensor | None) -> Tensor:
        S, T = len(u), len(v)
        x = u.unsqueeze(0).repeat(T, 1, 1, 1) + v.unsqueeze(1).repeat(1, S, 1, 1)  # [T, S, B, E]
        for n in range(self.config.layers):
            x = self._joint_layer(f"layers.{n}", x, padding)
        return self._reduce(x, padding)

    def _reduce(self, x: Tensor, padding: Tensor | None) -> Tensor:
        z = self._norm("grid_norm", x)
        scores = F.linear(z, self.weights["reduction.weight"])  # [T, S, B, E]
        if padding is not None:
            scores = scores.float().masked_fill(padding.t()[None, :, :, None], -math.inf).type_as(z)
        weights = torch.softmax(scores.float(), dim=1).type_as(z)
        return self._norm("output_norm", (weights * z).sum(dim=1))

    def _joint_layer(
        self,
        name: str,
        x: Tensor,
        padding: Tensor | None,
        along_target: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        T, S, B, E = x.shape
        drop = functools.partial(self.shared_dropout, rate=self.config.dropout)

        def causal(y: Tensor) -> Tensor:
            mask = torch.full((T, T), -math.inf, device=y.device).triu_(1)
            attention = f"{name}.target_attention.attention"
            return self._self_attention(attention, y, mask=mask, dropout=self._weights_dropout)

        def along_source(y: Tensor) -> Tensor:
            y = y.transpose(0, 1)  # [S, T, B, E]
            attention = f"{name}.source_attention.attention"
            y = self._self_attention(attention, y, padding=padding, dropout=self._weights_dropout)
            return y.transpose(0, 1)

        def feed_forward(name: str, y: Tensor) -> Tensor:
            width = len(self.weights[f"{name}.inner.bias"])
            rate = self.config.relu_dropout
            hidden = functools.partial(self.shared_dropout, shape=(1, 1, B, width), rate=rate)
            return self._feed_forward(name, y, hidden)

        blocks: list[tuple[Dropout, tuple[int, ...]]] = [
            (along_target or causal, (T, 1, B, E)),
            (functools.partial(feed_forward, f"{name}.target_ffn"), (1, 1, B, E)),
            (along_source, (1, S, B, E)),
            (functools.partial(feed_forward, f"{name}.source_ffn"), (1, 1, B, E)),
        ]
        for n, (block, shape) in enumerate(blocks):
            y = block(self._norm(f"{name}.residuals.{n}.norm", x))
            x = drop(y, shape=shape) + x
        return x

    # The plain encoder and decoder, [L, B, E]

    def _encoder(self, name: str, x: Tensor, padding: Tensor | None, layers: int) -> Tensor:
        for n in range(layers):
            layer = f"{name}.layers.{n}"
            y = self._norm(f"{layer}.attention_residual.norm", x)
            y = self._self_attention(
                f"{layer}.attention", y, padding=padding, dropout=self._drop_weights
            )
            x = x + self._drop(y)
            y = self._norm(f"{layer}.ffn_residual.norm", x)
            x = x + self._drop(self._feed_forward(f"{layer}.feed_forward", y, self._drop_hidden))
        return self._norm(f"{name}.norm", x)

    def _decoder(self, memory: Tensor, x: Tensor, padding: Tensor | None) -> Tensor:
        T = len(x)
        mask = torch.full((T, T), -math.inf, device=x.device).triu_(1)
        for n in range(self.config.decoder_layers):
            layer = f"layers.{n}"
            y = self._norm(f"{layer}.residuals.0.norm", x)
            y = self._self_attention(
                f"{layer}.self_attention", y, mask=mask, dropout=self._drop_weights
            )
            x = x + self._drop(y)
            y = self._norm(f"{layer}.residuals.1.norm", x)
            x = x + self._drop(
                self._cross_attention(f"{layer}.cross_attention", y, memory, padding)
            )
            y = self._norm(f"{layer}.residuals.2.norm", x)
            x = x + self._drop(self._feed_forward(f"{layer}.feed_forward", y, self._drop_hidden))
        return self._norm("norm", x)

    # Parts

    def _embed(self, name: str, ids: Tensor) -> Tensor:
        """Embed [B, L] as [L, B, E]."""
        from jtrans.nn.embedding import PADDING, sinusoids

        config = self.config
        matrix = self.weights[f"{name}.tokens.weight"]
        L, E = ids.shape[1], matrix.shape[1]
        offset: int = config.position_offset
        table = sinusoids(
            offset + L,
            E,
            layout=config.position_layout,
            base=config.position_base,
        )[offset:].to(matrix)
        scale = math.sqrt(E)
        if config.scale_positions:
            table = table * scale
        positions = table.expand(len(ids), L, E) * (ids != PADDING).unsqueeze(-1)
        x = scale * F.embedding(ids, matrix, PADDING)
        return self._drop(x + positions).transpose(0, 1)

    def _self_attention(
        self,
        name: str,
        x: Tensor,
        *,
        dropout: Dropout,
        mask: Tensor | None = None,
        padding: Tensor | None = None,
    ) -> Tensor:
        """Attend along the first axis of [L, ..., B, E]."""
        weights = self.weights
        q, k, v = F.linear(x, weights[f"{name}.in_weight"], weights[f"{name}.in_bias"]).chunk(3, -1)
        return self._attend(name, q, k, v, dropout=dropout, mask=mask, padding=padding)

    def _cross_attention(
        self, name: str, x: Tensor, memory: Tensor, padding: Tensor | None
    ) -> Tensor:
        weights = self.weights
        q = F.linear(x, weights[f"{name}.query.weight"], weights[f"{name}.query.bias"])
        k, v = F.linear(
            memory, weights[f"{name}.key_value.weight"], weights[f"{name}.key_value.bias"]
        ).chunk(2, -1)
        return self._attend(name, q, k, v, dropout=self._drop_weights, padding=padding)

    def _attend(
        self,
        name: str,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        dropout: Dropout,
        mask: Tensor | None = None,
        padding: Tensor | None = None,
    ) -> Tensor:
        shape, B, H = q.shape, q.shape[-2], self.heads
        D = shape[-1] // H
        q = q * D**-0.5
        q, k, v = (part.contiguous().view(len(part), -1, D).transpose(0, 1) for part in (q, k, v))
        scores = torch.bmm(q, k.transpose(1, 2))  # [lines B H, Lq, Lk]
        Lq, Lk = scores.shape[1:]
        if mask is not None:
            scores += mask.unsqueeze(0)
        if padding is not None:
            scores = scores.view(-1, B, H, Lq, Lk).float()
            scores = scores.masked_fill(padding[None, :, None, None, :], -math.inf).type_as(q)
            scores = scores.view(-1, Lq, Lk)
        weights = torch.softmax(scores.float(), dim=-1).type_as(scores)
        weights = dropout(weights.view(-1, B * H, Lq, Lk)).view(-1, Lq, Lk)
        mixed = torch.bmm(weights, v).transpose(0, 1).contiguous().view(shape)
        return F.linear(mixed, self.weights[f"{name}.out.weight"], self.weights[f"{name}.out.bias"])

    def _feed_forward(self, name: str, x: Tensor, dropout: Dropout) -> Tensor:
        weights = self.weights
        hidden = F.linear(x, weights[f"{name}.inner.weight"], weights[f"{name}.inner.bias"])
        hidden = dropout(F.relu(hidden))
        return F.linear(hidden, weights[f"{name}.outer.weight"], weights[f"{name}.outer.bias"])

    def _norm(self, name: str, x: Tensor) -> Tensor:
        return F.layer_norm(
            x, x.shape[-1:], self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        )

    # Dropout

    def shared_dropout(self, x: Tensor, *, shape: tuple[int, ...], rate: float) -> Tensor:
        """Multiply by a mask of `shape`, which is all ones when nothing is dropped."""
        return x * F.dropout(x.new_ones(shape), rate, self.model.training)

    def _weights_dropout(self, weights: Tensor) -> Tensor:
        """Multiply weights [lines, B H, Lq, Lk] by a mask that all lines share."""
        rate = self.config.attention_dropout
        return self.shared_dropout(weights, shape=(1, *weights.shape[1:]), rate=rate)

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.config.dropout, self.model.training)

    def _drop_weights(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.config.attention_dropout, self.model.training)

    def _drop_hidden(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.config.relu_dropout, self.model.training)


class ReferenceTraining:
    """Does updates as the original's trainer does.

    Args:
        model: a jtrans model, trained in place.
        smoothing: label smoothing.
        clip_norm: largest norm of a gradient.
    """

    def __init__(self, model: TranslationModel, *, smoothing: float, clip_norm: float) -> None:
        self.path = ReferencePath(model.train())
        self.parameters = list(model.parameters())
        self.smoothing = smoothing
        self.clip_norm = clip_norm
        # Adam as a loop over parameters and operations
        self.optimiser = torch.optim.AdamW(
            self.parameters, lr=1e-4, betas=(0.9, 0.997), weight_decay=1e-4, foreach=False
        )

    def update(self, micro_batches: Sequence[Batch]) -> None:
        """Do one update with the gradients of all micro-batches."""
        self.optimiser.zero_grad(set_to_none=False)
        for batch in micro_batches:
            self.path.loss(batch, self.smoothing).backward()
        tokens = sum(batch.target_tokens for batch in micro_batches)
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(1.0 / tokens)
        torch.nn.utils.clip_grad_norm_(self.parameters, self.clip_norm, foreach=False)
        self.optimiser.step()


def reference_batches(
    source_lengths: NDArray[np.int64],
    target_lengths: NDArray[np.int64],
    *,
    max_tokens: int,
    seed: int,
) -> list[NDArray[np.int64]]:
    """Cut an epoch into shuffled micro-batches as the original does.

    Pairs are sorted by source, then by target length; a micro-batch of B pairs holds at most
    `max_tokens` = B x max(S, T).

    Returns:
        For each micro-batch the indices of its pairs.
    """
    random = np.random.default_rng(seed)
    order = np.lexsort((random.random(len(source_lengths)), target_lengths, source_lengths))
    longer = np.maximum(source_lengths, target_lengths)
    batches: list[NDArray[np.int64]] = []
    current: list[int] = []
    longest = 0
    for index in order.tolist():
        if current and (len(current) + 1) * max(longest, int(longer[index])) > max_tokens:
            count = len(current) // MULTIPLE * MULTIPLE or len(current)
            batches.append(np.array(current[:count]))
            current = current[count:]
            longest = int(longer[current].max()) if current else 0
        current.append(index)
        longest = max(longest, int(longer[index]))
    batches.append(np.array(current))
    return [batches[i] for i in random.permutation(len(batches))]
