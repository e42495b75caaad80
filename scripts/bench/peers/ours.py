"""The Transformer of jtrans that is compared with other toolkits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scripts.bench.peers.base import SIZES

if TYPE_CHECKING:
    from jtrans.models.base import TranslationModel


def jtrans_transformer(vocabulary: int) -> TranslationModel:
    """Return a Transformer of SIZES with one tied vocabulary."""
    import torch

    from jtrans.models.zoo import build_model, system_configs

    torch.manual_seed(1)
    values = {name: SIZES[name] for name in ("width", "ffn_width", "heads", "dropout")}
    layers = {"encoder_layers": SIZES["layers"], "decoder_layers": SIZES["layers"]}
    config = system_configs()["transformer"].model_validate(
        {"system": "transformer", "tie": "all", **values, **layers}
    )
    return build_model(config, vocabulary, vocabulary)
