"""The sizes and options of every system, separate from its code.

These classes need no tensors, so that a wrong key or an impossible size is reported without
loading torch. The model files use them unchanged.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from jtrans.config import Count, CountOrZero, LayerStack, Rate, ScalableSizes, SystemConfig
from jtrans.models.convolution_stack import ConvolutionStack, read_stack


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
    position_offset: CountOrZero = 0  # position of the first token
    position_base: Annotated[float, Field(gt=1.0)] = 10000.0
    scale_positions: bool = False  # (embedding + position) sqrt(E), as the Reformer paper prints it

    @model_validator(mode="after")
    def _possible_sizes(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        _check_halves(self.width)
        return self


class TransformerConfig(AttentionSystemConfig):
    """Vaswani et al. 2017; pre-norm as in the baseline of the Reformer paper."""

    system: Literal["transformer"] = "transformer"
    encoder_layers: Count = 6
    decoder_layers: Count = 6
    output_bias: bool = False

    @property
    def scalable_sizes(self) -> ScalableSizes:
        """Both stacks: self-attention in the encoder, cross-attention as well in the decoder."""
        return ScalableSizes(
            (LayerStack("encoder_layers", 4, 2), LayerStack("decoder_layers", 8, 2))
        )


class DlclConfig(TransformerConfig):
    """Wang et al. 2019: each layer reads a learned combination of all earlier ones."""

    system: Literal["dlcl"] = "dlcl"  # type: ignore[assignment]
    without_weights: ClassVar[frozenset[str]] = frozenset({"combination"})

    combination: Literal["average", "one"] = "average"  # the initial weights of earlier layers


Kernel = Annotated[int, Field(gt=0, le=255)]  # taps
WIDEST_DILATION = 64  # positions between two taps
Tags = Annotated[int, Field(ge=0, le=127)]
LossWeight = Annotated[float, Field(ge=0.0)]


class TransformerPlusPlusConfig(TransformerConfig):
    """Thapak & Hore 2020: half of the heads convolve; two encoder layers also predict tags."""

    without_weights: ClassVar[frozenset[str]] = frozenset({"pos_weight", "ner_weight"})

    system: Literal["transformer-pp"] = "transformer-pp"  # type: ignore[assignment]
    norm: Literal["pre", "post"] = "post"
    # K of each layer, on both sides; the last one also holds for all further layers
    kernels: Annotated[tuple[Kernel, ...], Field(min_length=1)] = (3, 7, 15, 31, 31, 31)
    dilation: int | tuple[int, ...] = 2  # r of all layers, or of each
    kernel_dropout: Rate = 0.1  # DropConnect: weights of the normalised kernels
    embedding_dropout: Rate = 0.1  # embedded inputs; `dropout` is for block outputs
    convolution: bool = True  # False: plain self-attention everywhere, the ablation
    plain_attention: Literal["mixed", "self"] = "mixed"  # encoder layers from the third one on
    encoder_causal_conv: bool = True  # False: kernels of the encoder are centred
    pos_tags: Tags = 18  # parts of speech, predicted from encoder layer 1; 0: no such head
    ner_tags: Tags = 37  # named entities, predicted from encoder layer 2; 0: no such head
    pos_weight: LossWeight = 0.1  # weight of the loss per labelled token; translation: 1
    ner_weight: LossWeight = 0.1

    def meaning(self) -> dict[str, Any]:
        """Return the settings that weights depend on, kernels and dilations layer by layer."""
        if not self.convolution:
            return super().meaning()
        layers = range(max(self.encoder_layers, self.decoder_layers))
        convolutions = [self.convolution_of(layer) for layer in layers]
        return {**super().meaning(), "kernels": convolutions, "dilation": None}

    def unused(self) -> frozenset[str]:
        """Return the settings without effect."""
        names: set[str] = set()
        if not self.convolution:
            names |= {"kernels", "dilation", "kernel_dropout", "encoder_causal_conv"}
        if not self.convolution or self.encoder_layers <= 2:
            names |= {"plain_attention"}
        tags = {"pos_weight": self.pos_tags, "ner_weight": self.ner_tags}
        return frozenset(names | {name for name, count in tags.items() if not count})

    def is_mixed_in_encoder(self, layer: int) -> bool:
        """Return whether an encoder layer, counted from 0, has a mixed block."""
        return self.convolution and (layer < 2 or self.plain_attention == "mixed")

    def convolution_of(self, layer: int) -> tuple[int, int]:
        """Return kernel size and dilation of a layer, counted from 0."""
        return tuple(sizes[min(layer, len(sizes) - 1)] for sizes in (self.kernels, self._dilations))  # type: ignore[return-value]

    @property
    def _dilations(self) -> tuple[int, ...]:
        return self.dilation if isinstance(self.dilation, tuple) else (self.dilation,)

    @model_validator(mode="after")
    def _possible_halves(self) -> Self:
        if self.convolution and self.heads % 2:
            raise ValueError(f"heads {self.heads} must be even: half of them attend, half convolve")
        impossible = [r for r in self._dilations if not 0 < r <= WIDEST_DILATION]
        if impossible or not self._dilations:
            shown = impossible[0] if impossible else "[]"
            raise ValueError(f"dilation {shown} is not between 1 and {WIDEST_DILATION}")
        if self.convolution and not self.encoder_causal_conv:
            even = [kernel for kernel in self.kernels if kernel % 2 == 0]
            if even:
                raise ValueError(
                    f"kernel {even[0]} is even: centred kernels (encoder_causal_conv = false) "
                    "have equally many taps on both sides, so their sizes must be odd"
                )
        if self.ner_tags and self.encoder_layers < 2:
            raise ValueError(
                "entities are predicted from encoder layer 2, but encoder_layers is 1: "
                "use two layers or more, or ner_tags = 0"
            )
        return self


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

    @property
    def scalable_sizes(self) -> ScalableSizes:
        """Joint layers: two attentions and two FFNs each, Eq. 8 of the paper."""
        wide = self.grid_width // self.width
        return ScalableSizes((LayerStack("layers", 8 * wide**2, 4 * wide),))

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
    prenet_layers: CountOrZero = 5  # 0 leaves only its final layer norm

    @property
    def scalable_sizes(self) -> ScalableSizes:
        """PreNet and joint layers."""
        prenet = LayerStack("prenet_layers", 4, 2)
        return ScalableSizes(
            (*([prenet] if self.prenet_layers else []), *super().scalable_sizes.stacks)
        )


class PervasiveConfig(SystemConfig):
    """Elbayad et al. 2018 (`dense`) and 2020 (`residual`): a convolutional network on the grid."""

    system: Literal["pervasive"] = "pervasive"
    network: Literal["residual", "dense"] = "residual"
    layers: Count = 14  # L
    kernel: Annotated[int, Field(gt=0, le=31)] = 11  # k, along target and source; odd
    width: Count = 256  # D, of both embeddings
    channels: Count = 256  # C, of a cell of the grid; dense: of the first layer's input
    ffn_width: Count = 1024  # F; residual only
    growth: Count = 32  # g, channels that a layer adds; dense only
    # how a target position's cells become one vector; max-attention and scaled-mean: dense only,
    # gated-max: residual only
    aggregation: Literal[
        "gated-max", "max", "attention", "max-attention", "mean", "scaled-mean"
    ] = "gated-max"
    positions: bool = True  # sinusoids; the published dense networks have none
    position_offset: CountOrZero = 0  # position of the first token
    dropout: Rate = 0.1  # p: embedded inputs, every layer, attention weights, hidden states
    tie: Literal["none", "decoder", "all"] = "none"  # which embedding matrices are shared

    @property
    def scalable_sizes(self) -> ScalableSizes | None:
        """Residual layers: a k x k and a 1 x 1 convolution, an FFN; a dense network has no FFN."""
        if self.network == "dense":
            return None
        by_channel = self.kernel**2 / self.channels  # the k x k convolution, in units of C^2
        return ScalableSizes((LayerStack("layers", 1 + by_channel, 2),), width="channels")

    def unused(self) -> frozenset[str]:
        """Return the settings without effect."""
        names = {"growth" if self.network == "residual" else "ffn_width"}
        return frozenset(names if self.positions else names | {"position_offset"})

    @model_validator(mode="after")
    def _possible_network(self) -> Self:
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel {self.kernel} is even: it must be odd, to have a centre")
        if self.positions:
            _check_halves(self.width)
        others = {"residual": ("max-attention", "scaled-mean"), "dense": ("gated-max",)}
        if self.aggregation in others[self.network]:
            raise ValueError(
                f"the {self.network} network has no aggregation {self.aggregation!r}: "
                f"use {'gated-max' if self.network == 'residual' else 'max'!r}"
            )
        return self


class Convs2sConfig(SystemConfig):
    """Gehring et al. 2017: gated convolutions, and attention in every decoder layer."""

    system: Literal["convs2s"] = "convs2s"
    width: Count = 256  # E: embeddings, and the keys and values of the source
    output_width: Count = 256  # O: features from which the next token is predicted
    encoder_layers: ConvolutionStack = "4 x (256, 3)"  # layers x (channels, kernel)
    decoder_layers: ConvolutionStack = "3 x (256, 3)"
    attention: Literal["all"] | tuple[Count, ...] = "all"  # decoder layers that attend, from 1 on
    dropout: Rate = 0.2  # p: embedded inputs, inputs of convolutions, before the output matrix
    positions: Count = 1024  # rows of each position table: the longest sentence, </s> counted
    tie: Literal["none", "decoder"] = "none"  # whether the output matrix is the target embedding

    def meaning(self) -> dict[str, Any]:
        """Return the settings that weights depend on, with the numbers of the attending layers."""
        return {**super().meaning(), "attention": self.attending_layers}

    @property
    def attending_layers(self) -> tuple[int, ...]:
        """The decoder layers that attend to the source, counted from 0."""
        if self.attention == "all":
            return tuple(range(len(read_stack(self.decoder_layers))))
        return tuple(number - 1 for number in sorted(self.attention))

    @model_validator(mode="after")
    def _possible_layers(self) -> Self:
        for side, text in (("encoder", self.encoder_layers), ("decoder", self.decoder_layers)):
            for number, layer in enumerate(read_stack(text), start=1):
                if layer.kernel > self.positions:
                    raise ValueError(
                        f"kernel {layer.kernel} of {side} layer {number} is wider than the longest "
                        f"sentence, {self.positions:,} positions"
                    )
        return self

    @model_validator(mode="after")
    def _possible_attention(self) -> Self:
        depth = len(read_stack(self.decoder_layers))
        if not self.attention:
            raise ValueError("attention = [] leaves the source unread: name a decoder layer")
        if len(set(self.attending_layers)) < len(self.attending_layers):
            raise ValueError(f"attention {list(self.attention)} names a layer twice")
        if self.attending_layers[-1] >= depth:
            raise ValueError(
                f"attention names layer {self.attending_layers[-1] + 1}, "
                f"but decoder_layers = {self.decoder_layers!r} has only {depth}"
            )
        return self

    @model_validator(mode="after")
    def _possible_tie(self) -> Self:
        if self.tie == "decoder" and self.output_width != self.width:
            raise ValueError(
                f"tie = 'decoder' needs output_width = width, "
                f"but output_width is {self.output_width} and width {self.width}"
            )
        return self


class RnmtPlusConfig(SystemConfig):
    """Chen et al. 2018, RNMT+: recurrent encoder and decoder."""

    without_weights: ClassVar[frozenset[str]] = frozenset({"initial_range"})

    system: Literal["rnmt-plus"] = "rnmt-plus"
    width: Count = 256  # E = N: embeddings, states of an LSTM, encoder output
    heads: Count = 4  # h, of the additive attention
    encoder_layers: Count = 6  # bidirectional
    decoder_layers: Count = 8
    dropout: Rate = 0.3  # p: embeddings and outputs of LSTM layers
    attention_dropout: Rate = 0.3  # p_a: attention weights
    # matrices are drawn from -r to r; narrow models need more than the published 0.04 of width 1024
    initial_range: Annotated[float, Field(gt=0.0)] = 0.04

    @model_validator(mode="after")
    def _possible_heads(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        return self


class HybridConfig(SystemConfig):
    """Chen et al. 2018: any encoder of Transformer and RNMT+ with either decoder."""

    without_weights: ClassVar[frozenset[str]] = frozenset({"rnmt_initial_range"})

    system: Literal["hybrid"] = "hybrid"
    encoder: Literal["transformer", "rnmt", "cascade", "columns"] = "transformer"
    decoder: Literal["rnmt", "transformer"] = "rnmt"
    width: Count = 256  # E = N: of all parts
    # Transformer parts, pre-norm
    encoder_layers: Count = 6
    decoder_layers: Count = 6
    ffn_width: Count = 1024  # F
    heads: Count = 4  # H
    dropout: Rate = 0.3  # p: embedded inputs and block outputs
    attention_dropout: Rate = 0.0  # p_a
    relu_dropout: Rate = 0.0  # p_r
    output_bias: bool = False  # in the Transformer's decoder; RNMT+'s always has one
    # RNMT+ parts
    rnmt_encoder_layers: Count = 6
    rnmt_decoder_layers: Count = 8
    rnmt_heads: Count = 4  # of the additive attention
    rnmt_dropout: Rate = 0.3
    rnmt_attention_dropout: Rate = 0.3
    rnmt_initial_range: Annotated[float, Field(gt=0.0)] = 0.04
    # combinations
    n_cascade: CountOrZero = 4  # N_c: Transformer layers on the RNMT+ encoder
    cascade_positions: bool = False  # whether positions are added again before these layers
    project: bool = True  # columns are projected to the width; else the memory is 2E wide

    def unused(self) -> frozenset[str]:
        """Return the settings without effect."""
        names: set[str] = set()
        if self.encoder in ("rnmt", "cascade"):
            names |= {"encoder_layers"}
        if self.encoder != "cascade":
            names |= {"n_cascade"}
        if self.decoder == "rnmt":
            names |= {"decoder_layers", "output_bias"}
        else:
            names |= {"rnmt_decoder_layers", "rnmt_heads", "rnmt_attention_dropout"}
        if self.encoder == "transformer":
            names |= {"rnmt_encoder_layers"}
        is_bare = self.encoder == "cascade" and not self.n_cascade
        if self.decoder == "rnmt" and (self.encoder == "rnmt" or is_bare):
            names |= {"ffn_width", "heads", "dropout", "attention_dropout", "relu_dropout"}
        if (self.encoder, self.decoder) == ("transformer", "transformer"):
            names |= {"rnmt_dropout", "rnmt_initial_range"}
        return frozenset(names)

    @property
    def transformer(self) -> TransformerConfig:
        """The settings of the Transformer parts."""
        names = ("width", "ffn_width", "heads", "encoder_layers", "decoder_layers", "output_bias")
        rates = ("dropout", "attention_dropout", "relu_dropout")
        values = {name: getattr(self, name) for name in (*names, *rates)}
        return TransformerConfig.model_construct(**values)  # unchecked: some may be unused

    @property
    def rnmt(self) -> RnmtPlusConfig:
        """The settings of the RNMT+ parts."""
        names = set(RnmtPlusConfig.model_fields) - {"system", "width"}
        values = {name: getattr(self, f"rnmt_{name}") for name in names}
        return RnmtPlusConfig.model_construct(width=self.width, **values)

    @model_validator(mode="after")
    def _possible_combination(self) -> Self:
        heads = {"heads": self.heads, "rnmt_heads": self.rnmt_heads}
        used = {name: count for name, count in heads.items() if name not in self.unused()}
        for name, count in used.items():
            if self.width % count:
                raise ValueError(f"width {self.width} is not a multiple of {name} {count}")
        if "heads" in used or self.cascade_positions:
            _check_halves(self.width)
        if self.cascade_positions and self.encoder != "cascade":
            raise ValueError(
                f"cascade_positions is for encoder = 'cascade', not for {self.encoder!r}"
            )
        if not self.project and (self.encoder, self.decoder) != ("columns", "rnmt"):
            raise ValueError(
                "project = false needs encoder = 'columns' and decoder = 'rnmt', not "
                f"{self.encoder!r} and {self.decoder!r}, whose memory is {self.width} wide"
            )
        return self


def _check_halves(width: int) -> None:
    if width % 2 or width < 4:
        raise ValueError(f"width {width} must be even and at least 4 (sine and cosine halves)")
