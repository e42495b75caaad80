"""Hugging Face's Marian."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scripts.bench.peers.base import BEAM, SIZES, SMOOTHING, STEPS

if TYPE_CHECKING:
    from torch import Tensor

    from jtrans.data.batch import Batch


class Marian:
    """Marian; see `Peer`."""

    name = "Hugging Face Marian"
    package = distribution = "transformers"

    def __init__(self, vocabulary: int) -> None:
        from transformers import MarianConfig, MarianMTModel

        from jtrans.text.vocabulary import EOS, PAD

        self.model = MarianMTModel(
            MarianConfig(
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
        ).train()

    def search(self, sentences: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the best translations, each of STEPS tokens."""
        from jtrans.data.batch import padded

        ids, mask = padded(sentences)
        written = self.model.generate(
            input_ids=ids,
            attention_mask=mask.long(),
            num_beams=BEAM,
            min_new_tokens=STEPS,
            max_new_tokens=STEPS,
        )
        return written[:, 1:].tolist()  # type: ignore[no-any-return]

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss for each target token, torch's: the model's own has no smoothing."""
        import torch

        from jtrans.text.vocabulary import PAD

        logits = self.model(
            input_ids=batch.source,
            attention_mask=batch.source_mask.long(),
            decoder_input_ids=batch.target_in,
            use_cache=False,
        ).logits
        return torch.nn.functional.cross_entropy(
            logits.flatten(0, 1),
            batch.target_out.flatten(),
            ignore_index=PAD,
            label_smoothing=SMOOTHING,
        )
