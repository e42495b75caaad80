"""JoeyNMT.

Layer norms come first, as in its WMT examples: its default mixes both places, without a norm after
the encoder. Its decoder keeps no keys and values and reads the whole prefix again at every step;
its attention is written out in matrix products. It offers no faster path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scripts.bench.peers.base import BEAM, SIZES, SMOOTHING, STEPS

if TYPE_CHECKING:
    from torch import Tensor

    from jtrans.data.batch import Batch


class JoeyNmt:
    """JoeyNMT; see `Peer`."""

    name = "JoeyNMT"
    package = distribution = "joeynmt"

    def __init__(self, vocabulary: int) -> None:
        from joeynmt.model import build_model

        tokens = _tokens(vocabulary)
        side = {
            "type": "transformer",
            "num_layers": SIZES["layers"],
            "num_heads": SIZES["heads"],
            "hidden_size": SIZES["width"],
            "ff_size": SIZES["ffn_width"],
            "dropout": SIZES["dropout"],
            "activation": "relu",
            "layer_norm": "pre",
            "embeddings": {
                "embedding_dim": SIZES["width"],
                "scale": True,
                "dropout": SIZES["dropout"],
            },
        }
        config = {"encoder": side, "decoder": side, "tied_embeddings": True, "tied_softmax": True}
        self.model = build_model(config, tokens, tokens).train()
        self.model.loss_function = "crossentropy", SMOOTHING

    def search(self, sentences: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the best translations, each of STEPS tokens."""
        from joeynmt.search import search

        from jtrans.data.batch import padded

        ids, mask = padded(sentences)
        written, _, _ = search(
            self.model,
            _batch(ids, mask),
            max_output_length=STEPS,
            beam_size=BEAM,
            beam_alpha=-1,  # its default: no penalty, which lengths that are equal do not need
            min_output_length=STEPS - 1,  # the first step where it allows </s>, counted from zero
        )
        return written.tolist()  # type: ignore[no-any-return]

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss for each target token.

        It is the divergence from the smoothed targets: cross-entropy less their own entropy, which
        is constant.
        """
        import torch

        from jtrans.text.vocabulary import SPARE

        begin = torch.full_like(batch.target_out[:, :1], SPARE)
        target = torch.cat([begin, batch.target_out], dim=1)
        examples = _batch(batch.source, batch.source_mask, target)
        total, _, _, _ = self.model(return_type="loss", **vars(examples))
        return examples.normalize(total, "tokens")  # type: ignore[no-any-return]


def _tokens(vocabulary: int) -> Any:
    """Return a vocabulary of JoeyNMT with the ids of jtrans."""
    from types import SimpleNamespace

    from joeynmt.vocabulary import Vocabulary

    from jtrans.text.vocabulary import EOS, PAD, SPARE, SPECIALS, UNK

    specials = SimpleNamespace(
        unk_token="<unk>",
        unk_id=0,
        pad_token="<pad>",
        pad_id=1,
        bos_token="<s>",
        bos_id=2,
        eos_token="</s>",
        eos_id=3,
        sep_token=None,
        lang_tags=[],
    )
    tokens = Vocabulary([str(token) for token in range(len(SPECIALS), vocabulary)], specials)
    # The class accepts specials in this order only, but the model, loss and search know them by
    # these attributes: ids need no translation. JoeyNMT never writes the begin, so it is not </s>.
    tokens.pad_index, tokens.eos_index, tokens.unk_index, tokens.bos_index = PAD, EOS, UNK, SPARE
    return tokens


def _batch(source: Tensor, mask: Tensor, target: Tensor | None = None) -> Any:
    """Return a batch as JoeyNMT's loader makes it."""
    import torch
    from joeynmt.batch import Batch

    from jtrans.text.vocabulary import EOS, PAD

    return Batch(
        src=source,
        src_length=mask.sum(1),
        src_prompt_mask=None,
        trg=target,
        trg_prompt_mask=None,
        indices=torch.arange(len(source)),
        device=source.device,
        pad_index=PAD,
        eos_index=EOS,
        is_train=target is not None,
    )
