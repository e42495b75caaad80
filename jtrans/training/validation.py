"""Validation: loss per token on the whole valid split, BLEU on part of it.

If the valid split has several references, BLEU uses all of them, the loss only the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from jtrans.config import Config
from jtrans.data.batch import collate
from jtrans.data.bucketing import BatchSampler
from jtrans.data.prepared import PreparedCorpus
from jtrans.decoding.batched_search import translate_ids
from jtrans.decoding.halving import in_halves
from jtrans.decoding.options import SearchOptions
from jtrans.decoding.prepared.choose import prepared
from jtrans.evaluation.scores import corpus_score
from jtrans.models.base import TranslationModel
from jtrans.nn.device import autocast
from jtrans.progress import Progress, Silent
from jtrans.training.distributed.ranks import Ranks
from jtrans.training.events import SampleTranslation
from jtrans.training.objective import Objective, batch_loss
from jtrans.training.stopping import StopRequestError

Part = TypeVar("Part")


class Reporting(Silent):
    """Calls a function with the number of sentences done, and with their total if it is known."""

    def __init__(self, report: Callable[[int, int | None], None]) -> None:
        self._report = report

    def advance(self, task: str, done: int, total: int | None = None, *, unit: str = "") -> None:
        """See `Progress.advance`."""
        self._report(done, total)


class Validator:
    """Measures a model on the valid split of a corpus, as configured by `config`.

    If `is_joint`, the joint positions of a batch are limited. Each of the `ranks` measures a part,
    and all get the result. If memory runs out, `make_room` frees some, see `in_halves`.

    Raises:
        DecodingError: options of the search that cannot be used.
    """

    def __init__(
        self,
        corpus: PreparedCorpus,
        config: Config,
        *,
        is_joint: bool,
        precision: str,
        ranks: Ranks | None = None,
        make_room: Callable[[], bool] = lambda: False,
    ) -> None:
        training = config.training
        self.ranks = ranks or Ranks()
        self._make_room = make_room
        self.pairs = corpus.pairs("valid")
        self.target = corpus.pipeline.target
        self.options = SearchOptions.from_config(config, beam=training.validate_beam)
        SearchOptions.from_config(config)  # refuses options that the run could not translate with
        self.precision = precision
        self.scores = [
            "bleu",
            *(["chrf"] if "valid-chrf" in training.deciding_metrics.values() else []),
        ]
        sampler = BatchSampler(
            self.pairs.source.lengths,
            self.pairs.target.lengths,
            max_tokens=training.micro_batch_tokens or training.batch_tokens,
            max_joint=training.micro_batch_joint if is_joint else None,
            seed=0,
        )
        self.batches = [
            part for batch in sampler.batches(0) for part in sampler.cut_by_source(batch)
        ]
        # spread evenly: the first lines of a valid set are often one talk or one article
        count = min(training.validate_sentences, len(self.pairs))
        self.sentences = np.linspace(0, len(self.pairs) - 1, count).round().astype(int).tolist()
        sets = corpus.references("valid") if count else []
        self.references = [[lines[index] for index in self.sentences] for lines in sets]
        places = np.linspace(0, count - 1, min(training.validate_samples, count)).round()
        self._sampled: list[int] = places.astype(int).tolist()  # as places in `sentences`
        texts = corpus.raw_lines("valid", "source") if self._sampled else []
        self._sources = [texts[self.sentences[place]] for place in self._sampled]
        self.samples: tuple[SampleTranslation, ...] = ()  # of the last validation

    def __call__(self, model: TranslationModel, progress: Progress = Silent()) -> dict[str, float]:
        """Return `loss` (nats per target token), `perplexity` and the `scores` of translations.

        Systems with tagging heads add an accuracy for each kind of label that they learn, such as
        `pos_accuracy`, if the split has such labels.
        If the loss is not finite, nothing is translated.

        Raises:
            StopRequestError: a rank has been asked to stop.
            WorkError: a single sentence does not fit into memory.
        """
        was_training, self.samples = model.training, ()
        model.eval()
        try:
            measured = self.teacher_forced(model, progress)
            if self.sentences and math.isfinite(measured["loss"]):
                measured |= self.translation_scores(model, progress)
        finally:
            model.train(was_training)
        return measured

    def teacher_forced(self, model: TranslationModel, progress: Progress) -> dict[str, float]:
        """Return the unsmoothed loss per target token of the first reference, and accuracies."""
        kinds = [kind for kind in model.auxiliary_weights if kind in self.pairs.labels]
        rows = self._gathered(lambda: self._sums(model, kinds, progress))
        nll_sum, *correct = [math.fsum(column) for column in zip(*rows, strict=True)]
        loss = nll_sum / int(self.pairs.target.lengths.sum())
        measured = {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}
        for kind, count in zip(kinds, correct, strict=True):
            labelled = int(self.pairs.labels[kind].labelled.sum())
            measured[f"{kind}_accuracy"] = count / max(1, labelled)
        return measured

    def _sums(
        self, model: TranslationModel, kinds: Sequence[str], progress: Progress
    ) -> list[list[float]]:
        """Return summed loss and correct labels of each batch of this rank, [1 + kinds] each."""
        objective = Objective()
        batches = self.batches[self.ranks.rank :: self.ranks.count]
        pairs = sum(indices.size for indices in batches)

        def compute(indices: Sequence[int]) -> Tensor:
            batch = collate(self.pairs, np.asarray(indices)).to(model.device)
            with torch.no_grad(), autocast(model.device, self.precision):
                memory = model.encode(batch.source, batch.source_mask)
                nll = batch_loss(model, batch, objective, memory)[1]
                tags = model.tag(memory) if kinds else {}
            correct = [(tags[kind].argmax(-1) == batch.labels[kind]).sum() for kind in kinds]
            return torch.stack([nll, *(count.to(nll.dtype) for count in correct)])

        lengths = np.maximum(self.pairs.source.lengths, self.pairs.target.lengths).tolist()
        computed = in_halves(
            (indices.tolist() for indices in batches),
            compute,
            lengths=lengths,
            lines=range(1, len(lengths) + 1),
            device=model.device,
            progress=progress,
            hint="leave this pair out of valid, or use a machine with more memory",
            make_room=self._make_room,
        )
        sums, done = [], 0
        for indices, result in computed:
            sums.append(result)
            done += len(indices)
            progress.advance("Validating", done, pairs)
        rows: list[list[float]] = torch.stack(sums).tolist() if sums else []
        return rows

    def translation_scores(self, model: TranslationModel, progress: Progress) -> dict[str, float]:
        """Return sacreBLEU's scores of the chosen sentences, detokenised, with all references."""
        dealt = np.argsort(np.arange(len(self.sentences)) % self.ranks.count, kind="stable")
        texts = self._gathered(lambda: self._translations(model, progress))
        lines = [texts[place] for place in np.argsort(dealt)]
        self.samples = tuple(
            SampleTranslation(source, self.references[0][place], lines[place])
            for source, place in zip(self._sources, self._sampled, strict=True)
        )
        return {
            name: corpus_score(
                name,
                lines,
                self.references,
                target_language=self.target.language,
                lowercase=self.target.lowercase,
            )
            for name in self.scores
        }

    def _translations(self, model: TranslationModel, progress: Progress) -> list[str]:
        chosen = self.sentences[self.ranks.rank :: self.ranks.count]
        sources = [self.pairs.source[index] for index in chosen]
        searched = [prepared(model, self.precision)]
        hypotheses = translate_ids(
            searched, sources, self.options, progress=progress, make_room=self._make_room
        )
        return [self.target.decode(best[0].tokens) for best in hypotheses]

    def _gathered(self, work: Callable[[], list[Part]]) -> list[Part]:
        """Return the parts of all ranks, one rank after the other.

        Raises:
            StopRequestError: on all ranks, if one of them has been asked to stop.
        """
        try:
            part = work()
        except StopRequestError:
            self.ranks.gather(None)
            raise
        parts = [each for each in self.ranks.gather(part) if each is not None]
        if len(parts) < self.ranks.count:
            raise StopRequestError
        return [item for each in parts for item in each]
