"""Eole, the successor of OpenNMT-py: built from its training options, searching as when predicting.

Its default is a Transformer without biases; they are on here, as in jtrans and Marian, and cost it
no time. Layer norms come first, and positions are sinusoids, by its default. Attention is its plain
product of matrices, the only one it has on a CPU; compilation is off, as it is by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scripts.bench.peers.base import BEAM, SIZES, SMOOTHING, STEPS

if TYPE_CHECKING:
    from torch import Tensor

    from jtrans.data.batch import Batch

CPU = -1  # Eole's number for this device


class Eole:
    """Eole; see `Peer`."""

    name = "Eole"
    package = distribution = "eole"

    def __init__(self, vocabulary: int) -> None:
        from eole.config.run import PredictConfig, TrainConfig
        from eole.models.model import get_model_class
        from eole.predict import GNMTGlobalScorer, Translator
        from eole.utils.logging import logger
        from eole.utils.loss import LossCompute

        options = TrainConfig(
            data={},
            src_vocab="unread",
            share_vocab=True,
            model={
                "architecture": "transformer",
                "layers": SIZES["layers"],
                "heads": SIZES["heads"],
                "hidden_size": SIZES["width"],
                "transformer_ff": SIZES["ffn_width"],
                "embeddings": {"word_vec_size": SIZES["width"]},
                "add_qkvbias": True,
                "add_final_linear_bias": True,  # else only its decoder has it
                "add_ffnbias": True,
                "share_embeddings": True,
                "share_decoder_embeddings": True,
            },
            training={
                "dropout": [SIZES["dropout"]],
                "attention_dropout": [SIZES["dropout"]],
                "label_smoothing": SMOOTHING,
                "param_init_method": "xavier_uniform",
                "log_attention_entropy": False,
            },
        )
        vocabularies = _vocabularies(vocabulary)
        self.model = (
            get_model_class(options.model)
            .for_training(options.model, vocabularies, options.training, device_id=CPU)
            .train()
        )
        self._criterion = LossCompute.from_config(options, self.model, vocabularies)
        decoding = PredictConfig(
            model_path="unread",
            src="unread",
            model=options.model,
            beam_size=BEAM,
            min_length=STEPS,
            max_length=STEPS,
            # its limit by the length of the source would end some searches early
            max_length_ratio=0,
        )
        self._translator = Translator(
            self.model,
            vocabularies,
            decoding,
            options.model,
            device_id=CPU,
            global_scorer=GNMTGlobalScorer.from_config(decoding),
            logger=logger,  # else it prints
        )
        modules = self.model.modules()
        self._with_dropout = [module for module in modules if hasattr(module, "dropout_p")]

    def search(self, sentences: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the best translations, each of STEPS tokens."""
        from jtrans.data.batch import padded

        # as Eole does when it loads a model to translate: its layers then skip dropout
        self._set_dropout(0.0)
        ids, mask = padded(sentences)
        sources = {"src": ids, "srclen": mask.sum(1)}
        written = self._translator.predict_batch(sources, attn_debug=False)
        return [best.tolist() for best, *_ in written["predictions"]]

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss for each target token; the toolkit returns their sum."""
        import torch

        self._set_dropout(SIZES["dropout"])
        lengths = batch.source_mask.sum(1)
        # its targets have the start symbol and the end symbol
        target = torch.cat((batch.target_in[:, :1], batch.target_out), 1)
        states, attention, _ = self.model(batch.source, target, lengths)
        # Eole also counts sentences by corpus ("cid"), which batches of jtrans do not name
        targets = {"tgt": target, "srclen": lengths, "cid": [], "cid_line_number": []}
        loss, statistics, _ = self._criterion(targets, states, attention)
        return loss / statistics.n_tokens  # type: ignore[no-any-return]

    def _set_dropout(self, probability: float) -> None:
        for module in self._with_dropout:
            module.dropout_p = probability


def _vocabularies(size: int) -> dict[str, Any]:
    from eole.constants import DefaultTokens
    from eole.inputters.inputter import dict_to_vocabs

    from jtrans.text.vocabulary import SPECIALS

    # its specials are found by name, so that they may have the ids of jtrans
    specials = {
        "pad_token": DefaultTokens.PAD,
        "eos_token": DefaultTokens.EOS,
        "unk_token": DefaultTokens.UNK,
        "bos_token": DefaultTokens.BOS,
    }
    tokens = [*specials.values(), *map(str, range(len(SPECIALS), size))]
    sides = {"src": tokens, "tgt": tokens}
    start = {"decoder_start_token": DefaultTokens.EOS}
    return dict_to_vocabs({**sides, **start, "specials": specials})  # type: ignore[no-any-return]
