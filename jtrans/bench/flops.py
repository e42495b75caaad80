"""How much arithmetic training takes, from sizes and lengths alone.

A multiply-add counts two. Matrix products are counted, and nothing else: norms, softmax and
noise are a few per cent. The backward pass costs twice the forward pass. For one joint layer and
position that is 16 E^2 for both attentions' projections, 8 E F for both FFNs, 4 S E for source
attention and 2 (T + 1) E for target attention, half of whose weights are causally zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from jtrans.config import SystemConfig

    Lengths = NDArray[np.float64]  # one number for each pair

BACKWARD = 2  # products of a backward pass for each of the forward pass


def training_flops(
    config: SystemConfig,
    source_lengths: ArrayLike,
    target_lengths: ArrayLike,
    target_vocabulary: int,
) -> float:
    """Return the FLOPs, forward and backward, of training on some pairs once.

    Args:
        config: of any system of the zoo.
        source_lengths: real source tokens of each pair, EOS counted.
        target_lengths: real target tokens of each pair, EOS counted.
        target_vocabulary: number of target tokens, V.
    """
    sizes: Any = config  # what the systems share
    source, target = (np.asarray(x, dtype=np.float64) for x in (source_lengths, target_lengths))
    if sizes.system == "transformer":
        width = sizes.width
        forward = sizes.encoder_layers * _encoder_layer(sizes, source)
        forward += sizes.decoder_layers * _decoder_layer(sizes, source, target)
    else:
        width = sizes.grid_width
        position = sizes.layers * _joint_layer(sizes, source, target)
        if sizes.reduction == "attention":
            position = position + 2 * width**2
        forward = source * target * position
        if sizes.system == "reformer-fast":
            forward += sizes.prenet_layers * _encoder_layer(sizes, source)
    forward += target * 2 * width * target_vocabulary
    return (1 + BACKWARD) * float(forward.sum())


def _joint_layer(sizes: Any, source: Lengths, target: Lengths) -> Lengths:
    """Return the FLOPs of one position."""
    E, F = int(sizes.grid_width), int(sizes.ffn_width)
    return 16 * E**2 + 8 * E * F + 4 * source * E + 2 * (target + 1) * E


def _encoder_layer(sizes: Any, source: Lengths) -> Lengths:
    """Return the FLOPs of one sentence."""
    E, F = int(sizes.width), int(sizes.ffn_width)
    return source * (8 * E**2 + 4 * E * F + 4 * source * E)


def _decoder_layer(sizes: Any, source: Lengths, target: Lengths) -> Lengths:
    """Return the FLOPs of one sentence, the keys and values of its source among them."""
    E, F = int(sizes.width), int(sizes.ffn_width)
    own = 8 * E**2 + 2 * (target + 1) * E
    cross = 4 * E**2 + 4 * source * E
    return target * (own + cross + 4 * E * F) + source * 4 * E**2
