"""Sockeye, whose models are traced as by `sockeye-train` and `sockeye-translate`.

Their defaults are kept: layer norm before each part, fixed positions, smoothing over the whole
vocabulary, and a search that ends when all of the beam has ended.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scripts.bench.peers.base import BEAM, SIZES, SMOOTHING, STEPS

if TYPE_CHECKING:
    from torch import Tensor

    from jtrans.data.batch import Batch

POSITIONS = 1024  # as many as Marian's
NEVER = -100.0  # bias of a token that must not be chosen; a lower one would cost scores precision


class Sockeye:
    """Sockeye; see `Peer`."""

    name = "Sockeye"
    package = distribution = "sockeye"

    def __init__(self, vocabulary: int) -> None:
        import torch
        from sockeye import constants
        from sockeye.model import SockeyeModel, initialize_parameters

        from jtrans.text.vocabulary import EOS, PAD, SPARE, UNK

        self.model: Any = SockeyeModel(_config(vocabulary)).apply(initialize_parameters).train()
        self._objective: Any = None  # made for the first batch
        self._constants: Any = constants
        numbers = (constants.PAD_ID, constants.EOS_ID, constants.UNK_ID, constants.BOS_ID)
        self._numbers = torch.arange(vocabulary, dtype=torch.int32)  # of the tokens of jtrans
        self._numbers[[PAD, EOS, UNK, SPARE]] = torch.tensor(numbers, dtype=torch.int32)
        self._tokens = self._numbers.argsort().numpy()  # of jtrans, by these numbers

    def search(self, sentences: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the best translations, each of STEPS tokens, of which ``</s>`` is the last."""
        import numpy as np
        import torch
        from sockeye.inference import Translator

        from jtrans.data.batch import padded

        ids, mask = padded(sentences)
        lengths = torch.zeros(len(ids), 2, dtype=torch.int32)  # of a sentence, and of its prefix
        lengths[:, 0] = mask.sum(1)
        longest = torch.full((len(ids),), STEPS, dtype=torch.int32)
        with torch.inference_mode():
            result = self._beam_search(self._numbers[ids].unsqueeze(2), lengths, None, longest)
        best = np.arange(0, len(ids) * BEAM, BEAM)
        follow = Translator._get_best_word_indices_for_kth_hypotheses
        rows = follow(best, result.best_hyp_indices.numpy())
        written = result.best_word_indices.numpy()[rows, 0, np.arange(rows.shape[1])]
        return self._tokens[written].tolist()  # type: ignore[no-any-return]

    @functools.cached_property
    def _beam_search(self) -> Any:
        """Its search, with a model for inference only as `sockeye-translate` loads it.

        It keeps the weights of the first search. Sockeye has no minimum length: biases
        forbid ``</s>``, and ``<pad>``, which ends a hypothesis as well, until the search forces
        ``</s>`` at the maximum length.
        """
        import torch
        from sockeye.beam_search import CandidateScorer, get_search_algorithm
        from sockeye.model import SockeyeModel

        weights = self.model.state_dict()
        bias = weights["output_layer.bias"].clone()
        bias[[self._constants.EOS_ID, self._constants.PAD_ID]] = NEVER
        config = self.model.config.copy()
        config.disable_dropout()
        # weights of keys and values have another order in training: both models must be evaluating
        model = SockeyeModel(config, inference_only=True).eval()
        model.load_state_dict({**weights, "output_layer.bias": bias})
        return get_search_algorithm(
            models=[model],
            beam_size=BEAM,
            device=torch.device("cpu"),
            output_scores=False,
            scorer=CandidateScorer(),
            constant_length_ratio=-1.0,  # of its command without a penalty for brevity
        )

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss for each target token; the model must be in training mode."""
        from sockeye.data_io import create_batch_from_parallel_sample

        target = self._numbers[batch.target_in]
        target[:, 0] = self._constants.BOS_ID
        sample = self._numbers[batch.source], target, self._numbers[batch.target_out]
        loaded = create_batch_from_parallel_sample(*(ids.unsqueeze(2) for ids in sample))
        inputs = loaded.source, loaded.source_length, loaded.target, loaded.target_length
        if self._objective is None:
            self._objective = self._traced(inputs)
        return self._objective(*inputs, loaded.labels)[0]  # type: ignore[no-any-return]

    def _traced(self, inputs: tuple[Tensor, ...]) -> Any:
        """Return what `sockeye-train` computes for a batch: the model, traced, with its loss."""
        import torch
        from sockeye.loss import CrossEntropyLoss
        from sockeye.training import ModelWithLoss

        # its check that a second run gives the same would only warn, because of dropout
        model = torch.jit.trace(self.model, inputs, strict=False, check_trace=False)
        return ModelWithLoss(model, [CrossEntropyLoss(label_smoothing=SMOOTHING)])


def _config(vocabulary: int) -> Any:
    """Return the configuration of a model as `sockeye-train` makes it from its options."""
    from sockeye.data_io import DataConfig
    from sockeye.encoder import EmbeddingConfig
    from sockeye.model import ModelConfig
    from sockeye.transformer import TransformerConfig

    positions = {"max_seq_len_source": POSITIONS, "max_seq_len_target": POSITIONS}
    layers = TransformerConfig(
        model_size=SIZES["width"],
        attention_heads=SIZES["heads"],
        feed_forward_num_hidden=SIZES["ffn_width"],
        act_type="relu",
        num_layers=SIZES["layers"],
        dropout_attention=SIZES["dropout"],
        dropout_act=SIZES["dropout"],
        dropout_prepost=SIZES["dropout"],
        positional_embedding_type="fixed",
        preprocess_sequence="n",
        postprocess_sequence="dr",
        depth_key_value=SIZES["width"],
        **positions,
    )
    embedding = EmbeddingConfig(vocab_size=vocabulary, num_embed=SIZES["width"], dropout=0.0)
    return ModelConfig(
        config_data=DataConfig(None, num_source_factors=1, num_target_factors=1, **positions),
        vocab_source_size=vocabulary,
        vocab_target_size=vocabulary,
        config_embed_source=embedding,
        config_embed_target=embedding,
        config_encoder=layers,
        config_decoder=layers,
        weight_tying_type="src_trg_softmax",
    )
