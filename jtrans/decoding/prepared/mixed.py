"""The mixed block of Transformer++ (docs/systems.md 6.2), prepared for the search.

The query of a prefix is never computed. With P[t, s] the sum over a head's channels of
``LocalConv_t alpha_t[s]``, the convolution half of position t is ``P[t] v``:

    p_s      = exp(q_s - q')                                   a power of each channel, once
    Z_t      = sum_{s <= t} p_s                                the normaliser
    P[t, s]  = (LocalConv_t / Z_t) p_s^T                       two products of attention's sizes
    result   = sum_{s <= t} P[t, s] v_s

So positions are kept in slots like keys and values of attention, and no state moves with a
hypothesis. In the model q' is the highest score so far; here it is 0 as long as all powers and
their inverses stay in the range of float32. After the first score that is too large, a layer keeps
scores instead of powers, and q' is the highest score of each prefix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from jtrans.decoding.prepared.target import TargetSlots
from jtrans.models.transformer import DecoderLayer, TransformerDecoding
from jtrans.nn.convolution.mixed import MixedAttention

# exp(2 * 40) times a few hundred channels does not overflow in float32: shares of positions that
# are not a hypothesis's own are computed, too, before they are left out
WIDEST_SCORE = 40.0


@dataclass(frozen=True)
class Kernels:
    """The normalised kernels of a layer, times 1/sqrt(D)."""

    taps: Tensor  # [H/2, 1, K, D]
    dilation: int

    @classmethod
    def of(cls, block: MixedAttention, dtype: torch.dtype) -> Kernels:
        """Return those of a mixed block."""
        taps = block.local.taps().detach()  # [E/2, K]
        by_head = taps.view(block.heads, 1, -1, taps.shape[1]).mT  # [H/2, 1, K, D]
        scaled = by_head * by_head.shape[3] ** -0.5
        return cls(scaled.to(dtype).contiguous(), block.local.dilation)


def mixed_blocks(decoder: TransformerDecoding) -> list[MixedAttention]:
    """Return the mixed blocks of a decoder, all of its self-attentions or none."""
    layers: list[DecoderLayer] = list(decoder.layers)  # type: ignore[arg-type]
    blocks = [layer.self_attention for layer in layers]
    return [block for block in blocks if isinstance(block, MixedAttention)]


def mixed_projection(block: MixedAttention) -> tuple[Tensor, Tensor]:
    """Return weight and bias of both halves, without biases that shift all scores alike.

    The queries of the attention half are scaled by 1/sqrt(D).
    """
    weight, bias = block.in_weight.detach().clone(), block.in_bias.detach().clone()
    C = weight.shape[1] // 2
    scale = (C // block.heads) ** -0.5
    weight[:C] *= scale
    bias[:C] *= scale
    bias[C : 2 * C] = 0.0
    bias[4 * C : 5 * C] = 0.0
    return weight, bias


class MixedSlots(TargetSlots):
    """The slots of both halves of L mixed blocks.

    In `held` there are keys and values of the L attention halves, then the powers p, or scores, and
    values v of the convolution halves, then the inputs of the kernels, which have no values.

    Args:
        kernels: one per layer.
        heads: H, those of both halves.
        width: E.
        others: further arguments of `TargetSlots`.
    """

    def __init__(self, kernels: list[Kernels], *, heads: int, width: int, **others: Any) -> None:
        super().__init__(3 * len(kernels), heads=heads // 2, width=width // 2, **others)
        self.kernels = kernels
        self._has_scores = [False for _ in kernels]  # whether a layer keeps scores, not powers
        self._is_own = self.bias  # 1 on the slots of a hypothesis's prefix, [B * H/2, beam, slots]
        # by dilation: the most taps, and the rows that they read, [B * H/2, beam, K]
        self._most: dict[int, int] = {}
        for each in kernels:
            most = self._most.get(each.dilation, 0)
            self._most[each.dilation] = max(most, each.taps.shape[2])
        self._read: dict[int, Tensor] = {}

    def advance(self) -> None:
        """Give each hypothesis a new slot of its own, in all layers."""
        super().advance()
        _, B, H, room, _ = self.held[0].shape
        self._is_own = self._added.exp().expand(B, H, self.beam, -1).flatten(0, 1)
        # the slots of a prefix are in the order of its positions
        slots = (self.bias[:, : self.used] == 0.0).nonzero()[:, 1].view(B, 1, self.beam, -1)
        rows = slots + room * torch.arange(B * H, device=slots.device).view(B, H, 1, 1)
        for r, most in self._most.items():
            read = rows[..., (self.length - 1) % r :: r][..., -most:]
            self._read[r] = read.flatten(0, 1)

    def attend(self, layer: int, projected: Tensor) -> Tensor:
        """Write the slots of the new position and compute both halves.

        Args:
            layer: its number.
            projected: queries, scaled by 1/sqrt(D), keys and values of the attention half, then
                kernels' inputs, scores and values of the other one, [N, 3E].

        Returns:
            Both halves, heads side by side, [N, E].
        """
        attention, other = projected.chunk(2, dim=-1)
        return torch.cat([super().attend(layer, attention), self._convolve(layer, other)], dim=-1)

    def _convolve(self, layer: int, projected: Tensor) -> Tensor:
        """Return the convolution half, [N, 3E/2] -> [N, E/2]."""
        L = len(self.kernels)
        held, inputs = self._new[L + layer], self._new[2 * L + layer]
        _, B, H, beam, D = held.shape
        parts = projected.to(held.dtype).view(B, beam, 3, H, D).permute(2, 0, 3, 1, 4)
        inputs[0].copy_(parts[0])
        held[1].copy_(parts[2])
        if not self._has_scores[layer] and not float(parts[1].abs().amax()) <= WIDEST_SCORE:
            self.held[L + layer][0].log_()
            self._has_scores[layer] = True
        if self._has_scores[layer]:
            held[0].copy_(parts[1])
            powers = self._powers_of_each(self._keys[L + layer].mT)  # [B * H/2, beam, slots, D]
            share = self._local(layer) / powers.sum(2)  # [B * H/2, beam, D]
            weights = torch.matmul(powers, share.unsqueeze(-1)).squeeze(-1)  # P
        else:
            torch.exp(parts[1], out=held[0])
            powers, is_own = self._keys[L + layer], self._is_own  # [B * H/2, D, slots]
            share = self._local(layer) / torch.bmm(is_own, powers.mT)
            weights = torch.bmm(share, powers).mul_(is_own)
        mixed = torch.bmm(weights, self._values[L + layer])
        return mixed.view(B, H, beam, D).transpose(1, 2).reshape(B * beam, H * D)

    def _powers_of_each(self, scores: Tensor) -> Tensor:
        """Return the powers of each hypothesis's prefix, 0 on slots that are not its own.

        Args:
            scores: [B * H/2, slots, D].

        Returns:
            [B * H/2, beam, slots, D].
        """
        relative = self._is_own.log().unsqueeze(-1) + scores.unsqueeze(1)
        return relative.sub_(relative.amax(2, keepdim=True)).exp_()

    def _local(self, layer: int) -> Tensor:
        """Return the convolution at the last position, [B * H/2, beam, D]."""
        kernels, inputs = self.kernels[layer], self.held[2 * len(self.kernels) + layer][0]
        B, H, _, D = inputs.shape
        K = kernels.taps.shape[2]
        rows = self._read[kernels.dilation][..., -K:]  # [B * H/2, beam, K]
        read = inputs.reshape(-1, D).index_select(0, rows.flatten()).view(B, H, self.beam, -1, D)
        local = (read * kernels.taps[:, :, -read.shape[3] :]).sum(3)
        return local.view(B * H, self.beam, D)
