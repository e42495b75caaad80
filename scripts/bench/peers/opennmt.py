"""OpenNMT-py, with the options that its FAQ gives for a Transformer.

Biases are on, as in jtrans and Marian; by default it has none. Its layer norms always come first,
and its default attention is the fused one of torch on a GPU, plain products on a CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scripts.bench.peers.base import BEAM, SIZES, SMOOTHING, STEPS

if TYPE_CHECKING:
    from torch import Tensor

    from jtrans.data.batch import Batch


class OpenNmt:
    """OpenNMT-py; see `Peer`."""

    name = "OpenNMT-py"
    package = "onmt"
    distribution = "OpenNMT-py"

    def __init__(self, vocabulary: int) -> None:
        from onmt import opts
        from onmt.constants import DefaultTokens, ModelTask
        from onmt.inputters.inputter import dict_to_vocabs
        from onmt.model_builder import build_model
        from onmt.translate import GNMTGlobalScorer, Translator
        from onmt.utils.loss import LossCompute
        from onmt.utils.parse import ArgumentParser

        from jtrans.text.vocabulary import SPECIALS

        parser = ArgumentParser()
        opts.train_opts(parser)
        options = parser.parse_args(_options().split())
        ArgumentParser.update_model_opts(options)
        ArgumentParser.validate_model_opts(options)
        # its specials are found by name, so that they may have the ids of jtrans
        tokens = [DefaultTokens.PAD, DefaultTokens.EOS, DefaultTokens.UNK, DefaultTokens.BOS]
        tokens += [str(token) for token in range(len(SPECIALS), vocabulary)]
        vocabularies = dict_to_vocabs(
            {
                "src": tokens,
                "tgt": tokens,
                "data_task": ModelTask.SEQ2SEQ,
                "decoder_start_token": DefaultTokens.EOS,
            }
        )
        self.model = build_model(options, options, vocabularies, None, -1).train()
        self._criterion = LossCompute.from_opts(options, self.model, vocabularies["tgt"])
        self._translator = Translator(
            self.model,
            vocabularies,
            beam_size=BEAM,
            min_length=STEPS,
            max_length=STEPS,
            # its default ratio to the source would end some searches early
            max_length_ratio=0.0,
            # its default penalties
            global_scorer=GNMTGlobalScorer(
                alpha=1.0, beta=0.0, length_penalty="avg", coverage_penalty="none"
            ),
        )
        self._with_dropout = [
            module for module in self.model.modules() if hasattr(module, "dropout_p")
        ]

    def search(self, sentences: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the best translations, each of STEPS tokens."""
        from jtrans.data.batch import padded

        # as OpenNMT-py does when it loads a model to translate: its layers then skip dropout
        self._set_dropout(0.0)
        ids, mask = padded(sentences)
        written = self._translator.translate_batch(
            {"src": ids[:, :, None], "srclen": mask.sum(1)}, attn_debug=False
        )
        return [best.tolist() for [best] in written["predictions"]]

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss for each target token; the toolkit returns their sum."""
        import torch

        self._set_dropout(SIZES["dropout"])
        source, lengths = batch.source[:, :, None], batch.source_mask.sum(1)
        # its targets have both the start symbol and the end symbol
        target = torch.cat((batch.target_in[:, :1], batch.target_out), 1)[:, :, None]
        states, attention = self.model(source, target, lengths)
        loss, statistics = self._criterion({"tgt": target, "srclen": lengths}, states, attention)
        return loss / statistics.n_words  # type: ignore[no-any-return]

    def _set_dropout(self, probability: float) -> None:
        for module in self._with_dropout:
            module.dropout_p = probability


def _options() -> str:
    """Return the options of its command for training that make a model of SIZES."""
    return f"""
        -data unread -src_vocab unread
        -encoder_type transformer -decoder_type transformer -position_encoding
        -layers {SIZES["layers"]} -heads {SIZES["heads"]}
        -hidden_size {SIZES["width"]} -word_vec_size {SIZES["width"]}
        -transformer_ff {SIZES["ffn_width"]}
        -add_qkvbias -add_ffnbias -share_embeddings -share_decoder_embeddings
        -dropout {SIZES["dropout"]} -attention_dropout {SIZES["dropout"]}
        -label_smoothing {SMOOTHING} -param_init 0 -param_init_glorot
    """
