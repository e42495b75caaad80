"""The same model in jtrans and in Hugging Face's Marian, for `train.py` and `decode.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jtrans.models.base import TranslationModel

SIZES: dict[str, Any] = {
    "width": 256,
    "ffn_width": 1024,
    "heads": 4,
    "layers": 6,  # of the encoder and of the decoder
    "dropout": 0.1,
}


def jtrans_transformer(vocabulary: int) -> TranslationModel:
    """Return a Transformer of SIZES with one tied vocabulary."""
    import torch

    from jtrans.models.zoo import build_model, system_configs
    from jtrans.nn.device import prepare_device

    prepare_device(torch.device("cpu"))
    torch.manual_seed(1)
    values = {name: SIZES[name] for name in ("width", "ffn_width", "heads", "dropout")}
    layers = {"encoder_layers": SIZES["layers"], "decoder_layers": SIZES["layers"]}
    config = system_configs()["transformer"].model_validate(
        {"system": "transformer", "tie": "all", **values, **layers}
    )
    return build_model(config, vocabulary, vocabulary)


def marian(vocabulary: int) -> Any:
    """Return Hugging Face's Marian of SIZES with one tied vocabulary."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    from jtrans.text.vocabulary import EOS, PAD

    torch.manual_seed(1)
    config = MarianConfig(
        vocab_size=vocabulary,
        d_model=SIZES["width"],
        encoder_layers=SIZES["layers"],
        decoder_layers=SIZES["layers"],
        encoder_ffn_dim=SIZES["ffn_width"],
        decoder_ffn_dim=SIZES["ffn_width"],
        encoder_attention_heads=SIZES["heads"],
        decoder_attention_heads=SIZES["heads"],
        dropout=SIZES["dropout"],
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=EOS,
        forced_eos_token_id=None,
    )
    return MarianMTModel(config)
