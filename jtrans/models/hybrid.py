"""Hybrids of Transformer and RNMT+ (Chen et al. 2018): any encoder with any decoder of the two.

    transformer   H = TransformerEncoder(source)                                      [B, S, E]
    rnmt          H = LN( RnmtEncoder(source) )                                       [B, S, E]
    cascade       H = LN( layers( LN( RnmtEncoder(source) ) ) )                       [B, S, E]
    columns       H = [ LN( RnmtEncoder(source) ) ; TransformerEncoder(source) ] W    [B, S, E]
    logits = Decoder(target, H), of RNMT+ or of the Transformer                       [B, T, V]

RNMT+ outputs are not normalised, pre-norm Transformer stacks end in a layer norm: a layer norm at
every joint brings both to one scale. The columns have their own embeddings. The cascade is meant
for an RNMT+ encoder that is already trained and frozen: see `training.init_from` and
`training.freeze`, whose patterns find it under ``encoder.rnmt.*``.

The paper describes both in its appendices, which we did not have. We chose the layer norms, the
depth of the cascade (4), no positions in it, and the projection of the columns back to the width
of the model (``project``), which the paper only concatenates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from jtrans.config import SystemConfig
from jtrans.errors import ConfigError
from jtrans.models.base import AttentionMap, Memory, State, TranslationModel, check_agreement
from jtrans.models.parts import encoder_maps, input_embedding, source_encoder, xavier_linear
from jtrans.models.rnmt import RnmtDecoder, RnmtEncoder
from jtrans.models.systems import HybridConfig, RnmtPlusConfig, TransformerConfig
from jtrans.models.transformer import TransformerDecoder
from jtrans.nn.embedding import PADDING, sinusoids, token_embedding
from jtrans.nn.encoder import Encoder
from jtrans.nn.recorder import record_attention
from jtrans.nn.softmax import padding_bias


class TransformerEncoder(nn.Module):
    """Token vectors, positions and self-attention layers (docs/systems.md 1.2)."""

    def __init__(self, config: TransformerConfig, vocabulary: int) -> None:
        super().__init__()
        self.embedding = input_embedding(config, token_embedding(vocabulary, config.width))
        self.stack = source_encoder(config, config.encoder_layers)

    def forward(self, source: Tensor, source_mask: Tensor) -> Tensor:
        """Encode token ids, [B, S] -> [B, S, E]."""
        return self.stack(self.embedding(source), padding_bias(source_mask))  # type: ignore[no-any-return]


class Columns(nn.Module):
    """One encoder, or both side by side: all but the cascade of docs/systems.md 8.2."""

    def __init__(self, config: HybridConfig, vocabulary: int) -> None:
        super().__init__()
        E = config.width
        self.rnmt, self.norm, self.transformer, self.merge = None, None, None, None
        if config.encoder != "transformer":
            self.rnmt = RnmtEncoder(config.rnmt, vocabulary)
            self.norm = nn.LayerNorm(E)
        if config.encoder != "rnmt":
            self.transformer = TransformerEncoder(config.transformer, vocabulary)
        if config.encoder == "columns" and config.project:
            self.merge = xavier_linear(2 * E, E)

    def forward(self, source: Tensor, source_mask: Tensor) -> Tensor:
        """Encode token ids, [B, S] -> [B, S, E], or two columns not projected, [B, S, 2E]."""
        columns = []
        if self.rnmt is not None and self.norm is not None:
            columns.append(self.norm(self.rnmt(source, source_mask)))
        if self.transformer is not None:
            columns.append(self.transformer(source, source_mask))
        if len(columns) == 1:
            return columns[0]  # type: ignore[no-any-return]
        both = torch.cat(columns, dim=-1)  # [B, S, 2E]
        return both if self.merge is None else self.merge(both)

    @property
    def layers(self) -> list[nn.Module]:
        """The self-attention layers."""
        return [] if self.transformer is None else list(self.transformer.stack.layers)


class Cascade(nn.Module):
    """Transformer layers on the states of an RNMT+ encoder (docs/systems.md 8.2)."""

    def __init__(self, config: HybridConfig, vocabulary: int) -> None:
        super().__init__()
        self.rnmt = RnmtEncoder(config.rnmt, vocabulary)
        self.norm = nn.LayerNorm(config.width)
        self.transformer: Encoder = source_encoder(config.transformer, config.n_cascade)
        self.has_positions = config.cascade_positions

    def forward(self, source: Tensor, source_mask: Tensor) -> Tensor:
        """Encode token ids, [B, S] -> [B, S, E]."""
        x = self.norm(self.rnmt(source, source_mask))  # [B, S, E]
        if self.has_positions:
            x = x + sinusoids(*x.shape[1:]).to(x)
        return self.transformer(x, padding_bias(source_mask))  # type: ignore[no-any-return]

    @property
    def layers(self) -> list[nn.Module]:
        """The self-attention layers."""
        return list(self.transformer.layers)


class Hybrid(TranslationModel):
    """An encoder and a decoder of Transformer and RNMT+."""

    Config = HybridConfig
    config: HybridConfig
    tiny: ClassVar[Mapping[str, Any]] = {
        "encoder": "rnmt",
        "decoder": "transformer",
        "rnmt_heads": 2,
        "rnmt_initial_range": 0.3,
        "n_cascade": 2,
    }

    def __init__(
        self, config: HybridConfig, source_vocabulary: int, target_vocabulary: int
    ) -> None:
        super().__init__(config)
        encoder = Cascade if config.encoder == "cascade" else Columns
        self.encoder: Cascade | Columns = encoder(config, source_vocabulary)
        self.decoder: RnmtDecoder | TransformerDecoder
        if config.decoder == "rnmt":
            width = config.width if config.project else 2 * config.width
            self.decoder = RnmtDecoder(config.rnmt, target_vocabulary, width)
        else:
            self.decoder = TransformerDecoder(config.transformer, target_vocabulary)

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Encode the source, [B, S] -> memory of [B, S, E], or of two columns, [B, S, 2E]."""
        return Memory(self.encoder(source, source_mask), source_mask)

    def decode(self, target: Tensor, memory: Memory) -> Tensor:
        """Return the decoder's hidden states of all positions, [B, T, E] or [B, T, 2E]."""
        return self.decoder.decode(target, memory)

    def begin(self, memory: Memory, beam: int) -> State:
        """Return the decoder's state of empty prefixes."""
        return self.decoder.begin(memory, beam)

    def step(self, token: Tensor, state: Any) -> Tensor:
        """Read one more token per hypothesis, [N] -> [N, E] or [N, 2E]."""
        return self.decoder.step(token, state)

    def project(self, hidden: Tensor) -> Tensor:
        """Return logits, [..., E] or [..., 2E] -> [..., V]."""
        return self.decoder.project(hidden)

    def output_weights(self) -> tuple[Tensor, Tensor | None]:
        """Return the weights of `project`."""
        return self.decoder.output.weight, self.decoder.output.bias

    @torch.no_grad()
    def explain(self, source: Tensor, target: Tensor) -> list[AttentionMap]:
        """Return the self-attention of the encoder, if it has any, and all maps of the decoder."""
        with record_attention() as weights:
            memory = self.encode(source, source != PADDING)
        maps = encoder_maps(self.encoder.layers, weights)
        return [*maps, *self.decoder.explain_decoder(target, memory)]

    def initial_weights(self, other: SystemConfig) -> Mapping[str, str]:
        """Return the parts that this system shares with a run of RNMT+ or of the Transformer."""
        if other.system == self.config.system:
            return super().initial_weights(other)
        parts: dict[str, str] = {}
        if isinstance(other, RnmtPlusConfig):
            parts, settings = self._rnmt_parts()
            check_agreement(other, self.config.rnmt, settings)
        elif other.system == "transformer":
            parts, settings = self._transformer_parts()
            check_agreement(other, self.config.transformer, settings)
        if not parts:
            raise ConfigError(
                f"a hybrid of encoder {self.config.encoder!r} and decoder {self.config.decoder!r} "
                f"has no part of the system {other.system}",
                hint="start from a run of rnmt-plus or transformer that has one of its parts",
                kind="config.init-from",
            )
        return parts

    def _rnmt_parts(self) -> tuple[dict[str, str], dict[str, str]]:
        """Map the names of weights, and of settings, in an RNMT+ run to their names here."""
        parts, settings = {}, {"width": "width"}
        if self.config.encoder != "transformer":
            parts["encoder.*"] = "encoder.rnmt.*"
            settings["encoder_layers"] = "rnmt_encoder_layers"
        if self.config.decoder == "rnmt" and self.config.project:
            parts["decoder.*"] = "decoder.*"
            settings |= {"decoder_layers": "rnmt_decoder_layers", "heads": "rnmt_heads"}
        return parts, settings

    def _transformer_parts(self) -> tuple[dict[str, str], dict[str, str]]:
        """Map the names of weights, and of settings, in a Transformer run to their names here."""
        parts = {}
        settings = ["width", "ffn_width", "heads", "norm", "scale_positions"]
        settings += ["position_layout", "position_offset", "position_base"]
        if self.config.encoder in ("transformer", "columns"):
            parts["source_embedding.*"] = "encoder.transformer.embedding.*"
            parts["encoder.*"] = "encoder.transformer.stack.*"
            settings += ["encoder_layers"]
        if self.config.decoder == "transformer":
            for name in ("target_embedding.*", "layers.*", "norm.*", "output.*"):
                parts[name] = f"decoder.{name}"
            settings += ["decoder_layers", "output_bias"]
        return parts, {name: name for name in settings}
