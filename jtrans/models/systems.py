"""The sizes and options of every system, apart from its code.

These classes need no tensors, so that a wrong key or an impossible size is reported without
loading torch. The model files use them unchanged.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from jtrans.config import Count, Rate, SystemConfig


class AttentionSystemConfig(SystemConfig):
    """Options that the Transformer and the joint systems share."""

    width: Count = 256  # E, d_model
    ffn_width: Count = 1024  # F, d_ff
    heads: Count = 4  # H
    norm: Literal["pre", "post"] = "pre"
    dropout: Rate = 0.1  # p: embedded inputs and block outputs
    attention_dropout: Rate = 0.0  # p_a: attention weights
    relu_dropout: Rate = 0.0  # p_r: after the ReLU
    tie: Literal["none", "decoder", "all"] = "none"  # which embedding matrices are shared
    position_layout: Literal["t2t", "vaswani"] = "t2t"
    position_offset: Annotated[int, Field(ge=0)] = 0  # position of the first token
    position_base: Annotated[float, Field(gt=1.0)] = 10000.0
    scale_positions: bool = False  # (embedding + position) sqrt(E), as the Reformer paper prints it

    @model_validator(mode="after")
    def _possible_sizes(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        if self.width % 2 or self.width < 4:
            raise ValueError(
                f"width {self.width} must be even and at least 4 (sine and cosine halves)"
            )
        return self


class TransformerConfig(AttentionSystemConfig):
    """Vaswani et al. 2017; pre-norm as in the baseline of the Reformer paper."""

    system: Literal["transformer"] = "transformer"
    encoder_layers: Count = 6
    decoder_layers: Count = 6
    output_bias: bool = False


class DlclConfig(TransformerConfig):
    """Wang et al. 2019: each layer reads a learned combination of all earlier ones."""

    system: Literal["dlcl"] = "dlcl"  # type: ignore[assignment]
    combination: Literal["average", "one"] = "average"  # the initial weights of earlier layers


class ReformerConfig(AttentionSystemConfig):
    """Li et al. 2020, Reformer-base: joint layers only."""

    system: Literal["reformer-base"] = "reformer-base"
    layers: Count = 7  # N, joint layers
    grid: Literal["sum", "concat"] = "sum"  # how u_i and v_j combine; concat doubles the width
    side_vectors: bool = False  # a learned vector added to all source, another to all target tokens
    grid_dropout: Literal["shared", "independent"] = "shared"  # Dropout1d/2d, or the ablation
    reduction: Literal["attention", "max"] = "attention"

    @property
    def grid_width(self) -> int:
        """The width of one vector of the grid."""
        return self.width if self.grid == "sum" else 2 * self.width

    @model_validator(mode="after")
    def _possible_grid(self) -> Self:
        if self.grid == "concat" and self.tie != "none":
            raise ValueError(
                f"grid = 'concat' makes the output matrix {self.grid_width} wide, "
                f"so it cannot be tied to embeddings {self.width} wide: use tie = 'none'"
            )
        return self


class ReformerFastConfig(ReformerConfig):
    """Li et al. 2020, Reformer-fast: a source encoder (PreNet) before fewer joint layers."""

    system: Literal["reformer-fast"] = "reformer-fast"  # type: ignore[assignment]
    layers: Count = 5
    prenet_layers: Annotated[int, Field(ge=0)] = 5  # 0 leaves only its final layer norm


class PervasiveConfig(SystemConfig):
    """Elbayad et al. 2018 (`dense`) and 2020 (`residual`): a convolutional network on the grid."""

    system: Literal["pervasive"] = "pervasive"
    network: Literal["residual", "dense"] = "residual"
    layers: Count = 14  # L
    kernel: Annotated[int, Field(gt=0, le=31)] = 11  # k, along target and source; odd
    width: Count = 256  # D, of both embeddings
    channels: Count = 256  # C, of a cell of the grid; dense: of what the first layer reads
    ffn_width: Count = 1024  # F; residual only
    growth: Count = 32  # g, channels that a layer adds; dense only
    # how a target position's cells become one vector; max-attention and scaled-mean: dense only,
    # gated-max: residual only
    aggregation: Literal[
        "gated-max", "max", "attention", "max-attention", "mean", "scaled-mean"
    ] = "gated-max"
    positions: bool = True  # sinusoids; the published dense networks have none
    position_offset: Annotated[int, Field(ge=0)] = 0  # position of the first token
    dropout: Rate = 0.1  # p: embedded inputs, every layer, attention weights, hidden states
    tie: Literal["none", "decoder", "all"] = "none"  # which embedding matrices are shared

    @model_validator(mode="after")
    def _possible_network(self) -> Self:
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel {self.kernel} is even: it must be odd, to have a centre")
        if self.positions and (self.width % 2 or self.width < 4):
            raise ValueError(
                f"width {self.width} must be even and at least 4 (sine and cosine halves)"
            )
        others = {"residual": ("max-attention", "scaled-mean"), "dense": ("gated-max",)}
        if self.aggregation in others[self.network]:
            raise ValueError(
                f"the {self.network} network has no aggregation {self.aggregation!r}: "
                f"use {'gated-max' if self.network == 'residual' else 'max'!r}"
            )
        return self
