"""fairseq, with its architecture `transformer` and the defaults of `fairseq-train`.

These defaults are post-norm, without dropout on attention or within the FFN, as in jtrans.
Sentences are padded on the right, by an option: with padding on the left, the default, fairseq's
fused layers fail in current versions of torch. For these layers the encoder has a second copy of
all their weights, which gets no gradient and is filled when a model is loaded.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scripts.bench.peers.base import BEAM, SIZES, SMOOTHING, STEPS

if TYPE_CHECKING:
    from torch import Tensor

    from jtrans.data.batch import Batch


class Fairseq:
    """fairseq; see `Peer`."""

    name = package = distribution = "fairseq"

    def __init__(self, vocabulary: int) -> None:
        _import_fairseq()
        from fairseq.criterions.label_smoothed_cross_entropy import (
            LabelSmoothedCrossEntropyCriterion,
        )
        from fairseq.tasks.translation import TranslationConfig, TranslationTask

        dictionary = _dictionary(vocabulary)
        self._task = TranslationTask(TranslationConfig(), dictionary, dictionary)
        self.model = self._task.build_model(_options()).train()
        self._criterion = LabelSmoothedCrossEntropyCriterion(
            self._task, sentence_avg=False, label_smoothing=SMOOTHING
        )

    def search(self, sentences: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the best translations, each of STEPS tokens, of which ``</s>`` is the last."""
        from jtrans.data.batch import padded

        ids, mask = padded(sentences)
        sample = {"net_input": {"src_tokens": ids, "src_lengths": mask.sum(1)}}
        written = self._task.inference_step(self._generator, None, sample)
        return [best["tokens"].tolist() for best, *_ in written]

    @functools.cached_property
    def _generator(self) -> Any:
        """Its search, with another model as `fairseq-generate` loads and prepares it.

        It keeps the weights of the first search. Only a model that was loaded, and never trained
        since, computes its encoder by torch's fused layers; one that is prepared for inference
        cannot be trained any more.
        """
        from fairseq.dataclass.configs import FairseqConfig, GenerationConfig

        # its lengths are without </s>
        generation = GenerationConfig(beam=BEAM, min_len=STEPS - 1, max_len_b=STEPS - 1)
        model = self._task.build_model(_options())
        model.load_state_dict(self.model.state_dict())
        model.prepare_for_inference_(FairseqConfig(generation=generation))
        return self._task.build_generator([model], generation)

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss for each target token; the toolkit returns their sum."""
        sample = {
            "net_input": {
                "src_tokens": batch.source,
                "src_lengths": batch.source_mask.sum(1),
                "prev_output_tokens": batch.target_in,
            },
            "target": batch.target_out,
            "ntokens": batch.target_tokens,
        }
        total, tokens, _ = self._criterion(self.model, sample)
        return total / tokens  # type: ignore[no-any-return]


def _import_fairseq() -> None:
    """Import fairseq as if Python were 3.10, the last version that imports it without help."""
    import dataclasses
    from unittest import mock

    dataclass: Any = dataclasses.dataclass

    # configurations of fairseq and Hydra have instances of other dataclasses as defaults, and
    # Python 3.11 refuses defaults without a hash
    def hashable(cls: Any = None, /, **options: Any) -> Any:
        if cls is None:
            return lambda cls: hashable(cls, **options)
        if cls.__module__.startswith(("fairseq.", "hydra.")):
            options["unsafe_hash"] = True
        return dataclass(cls, **options)

    with mock.patch.object(dataclasses, "dataclass", hashable):
        import fairseq  # noqa: F401


def _dictionary(size: int) -> Any:
    from fairseq.data import Dictionary

    from jtrans.text.vocabulary import EOS, PAD, SPARE, UNK

    dictionary = Dictionary()
    # fairseq reads the ids of its specials from these attributes: they can be those of jtrans
    dictionary.pad_index, dictionary.eos_index = PAD, EOS
    dictionary.unk_index, dictionary.bos_index = UNK, SPARE
    for token in range(len(dictionary), size):
        dictionary.add_symbol(str(token))
    return dictionary


def _options() -> Any:
    """Return the options of `fairseq-train` that make a model of SIZES."""
    from argparse import Namespace

    sizes = {
        "embed_dim": SIZES["width"],
        "ffn_embed_dim": SIZES["ffn_width"],
        "layers": SIZES["layers"],
        "attention_heads": SIZES["heads"],
    }
    sides = {f"{side}_{name}": sizes[name] for side in ("encoder", "decoder") for name in sizes}
    return Namespace(
        arch="transformer", dropout=SIZES["dropout"], share_all_embeddings=True, **sides
    )
