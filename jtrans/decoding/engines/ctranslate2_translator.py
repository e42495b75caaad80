"""Raw text to raw text with a model exported to CTranslate2."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from jtrans.data.batch import Ids
from jtrans.decoding.batches import BATCH_TOKENS, by_length
from jtrans.decoding.engines.ctranslate2_options import COMPUTE_TYPES, check_choices
from jtrans.decoding.engines.ctranslate2_search import CTranslate2Search
from jtrans.decoding.lines.sentences import InputSentence
from jtrans.decoding.options import DecodingChoices, Limited, SearchOptions
from jtrans.decoding.search.trace import Hypothesis
from jtrans.decoding.translator import Translator
from jtrans.errors import ConfigError, DecodingError
from jtrans.exports import Export
from jtrans.nn.cpu.threads import usable_threads
from jtrans.nn.device import resolve_device
from jtrans.progress import Progress


@dataclass(frozen=True, eq=False)
class CTranslate2Translator(Translator):
    """A `Translator` whose search is that of CTranslate2."""

    engine: CTranslate2Search = field(kw_only=True)  # the loaded export
    needs_scores: bool = True  # whether scores and log-probabilities of tokens are needed

    @classmethod
    def open(cls, export: Export, decoding: DecodingChoices) -> CTranslate2Translator:
        """Load an export.

        Raises:
            DecodingError: CTranslate2 does not support a choice.
            ConfigError: CTranslate2 is not installed, or cannot use the device.
            CheckpointError: the export cannot be used.
        """
        options = check_choices(export, decoding)
        device = resolve_device(decoding.device)
        if device.type not in ("cpu", "cuda"):
            raise ConfigError(
                f"CTranslate2 cannot use {device}",
                where="--device",
                hint="--device cpu, or --engine torch",
                kind="config.absent-device",
            )
        engine = CTranslate2Search.load(
            export,
            str(device),
            COMPUTE_TYPES[decoding.precision],
            threads=usable_threads(),
            batch_tokens=decoding.batch_tokens or BATCH_TOKENS,
        )
        return cls(
            models=[],
            pipeline=export.pipeline,
            options=options,
            extras=decoding.extras,
            engine=engine,
            needs_scores=decoding.needs_scores,
        )

    @property
    def _limited(self) -> Sequence[Limited]:
        return [self.engine]

    def _search(
        self, sentences: Sequence[InputSentence], options: SearchOptions, progress: Progress
    ) -> list[list[Hypothesis]]:
        prefixes = [each.constraints.prefix for each in sentences]
        if any(each.constraints.has_phrases for each in sentences):
            raise DecodingError(
                "CTranslate2 does not support required and forbidden phrases",
                where="--engine ctranslate2",
                hint="use --engine torch, or leave the phrases out",
                kind="decoding.engine",
            )
        sources, sampling = [each.ids for each in sentences], self.extras.sampling
        if sampling:
            self.engine.reseed(sampling.seed, sources)
        return self.engine.search(
            sources,
            options,
            prefixes=prefixes if any(prefixes) else None,
            sampling=sampling,
            needs_scores=self.needs_scores or options.nbest > 1,
            progress=progress,
        )

    def _attention(
        self, sources: Sequence[Ids], targets: Sequence[Ids], lines: Sequence[int]
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        lengths = [max(map(len, pair)) for pair in zip(sources, targets, strict=True)]
        for batch in by_length(lengths, batch_tokens=self.engine.batch_tokens, is_joint=False):
            attention = self.engine.attention(
                [sources[index] for index in batch], [targets[index] for index in batch]
            )
            for index, rows in zip(batch, attention, strict=True):
                yield index, np.array(rows, dtype=np.float32)
