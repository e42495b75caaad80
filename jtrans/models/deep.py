"""Deep Transformer with a dynamic linear combination of layers, DLCL (Wang et al. 2019).

    source [B, S] -> embed y_0 -> y_k = EncoderLayer_k( C(y_0 .. y_{k-1}) ) -> C(y_0 .. y_L)
    target [B, T] -> embed y_0 -> y_k = DecoderLayer_k( C(y_0 .. y_{k-1}) ) -> C(y_0 .. y_L)
    logits = hidden W_out^T                                                   -> [B, T, V]

The layers are those of the Transformer. C, `jtrans.nn.combination`, is a learned weighted sum with
layer norms of its own, so that a layer reads all earlier ones directly, and gradients reach them:
encoders of 20 to 30 layers train, with pre-norm and even with post-norm. Encoder and decoder have
their own weights.

Differs from the original code: weights above the diagonal, which it stores but never reads, do not
exist, and its modes on which no published result depends are left out: softmax over the weights,
one weight per feature, a normed embedding, different norms in encoder and decoder.
"""

from __future__ import annotations

from torch import Tensor

from jtrans.models.systems import DlclConfig
from jtrans.models.transformer import Transformer
from jtrans.nn.combination import LayerCombination


class Dlcl(Transformer):
    """The Transformer whose layers read all earlier layers."""

    Config = DlclConfig
    config: DlclConfig

    def __init__(self, config: DlclConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__(config, source_vocabulary, target_vocabulary)
        self.encoder.stack = self._combination(config.encoder_layers)
        self.stack: LayerCombination = self._combination(config.decoder_layers)

    def layer_weights(self) -> dict[str, Tensor]:
        """Return the weights of earlier layers (columns) in later ones (rows), by stack."""
        stacks = {"encoder": self.encoder.stack, "decoder": self.stack}
        return {
            name: stack.table()
            for name, stack in stacks.items()
            if isinstance(stack, LayerCombination)
        }

    def _combination(self, layers: int) -> LayerCombination:
        config = self.config
        return LayerCombination(
            layers, config.width, pre_norm=config.norm == "pre", initial=config.combination
        )
