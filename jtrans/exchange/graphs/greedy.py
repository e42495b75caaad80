"""Greedy translation with an ONNX export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jtrans.decoding.batches import by_length
from jtrans.decoding.lines.sentences import InputSentence
from jtrans.decoding.options import Limited, SearchOptions
from jtrans.decoding.search.trace import Hypothesis
from jtrans.decoding.translator import Translator
from jtrans.exchange.graphs.sessions import Graphs
from jtrans.exports import Export
from jtrans.nn.cpu.threads import usable_threads
from jtrans.progress import Progress


@dataclass(frozen=True, eq=False)
class GreedyTranslator(Translator):
    """A `Translator` that runs exported graphs and always chooses the most probable token."""

    graphs: Graphs = field(kw_only=True)

    @classmethod
    def open(cls, export: Export, options: SearchOptions) -> GreedyTranslator:
        """Load an export; of the search options, only the length limits count.

        Raises:
            JtransError: the export cannot be used.
        """
        graphs = Graphs.load(export.folder, export.facts, threads=usable_threads())
        return cls([], export.pipeline, options, graphs=graphs)

    @property
    def _limited(self) -> Sequence[Limited]:
        return [self.graphs]

    def _search(
        self, sentences: Sequence[InputSentence], options: SearchOptions, progress: Progress
    ) -> list[list[Hypothesis]]:
        lengths = [len(sentence.ids) for sentence in sentences]
        result: list[list[Hypothesis]] = [[] for _ in sentences]
        for batch in by_length(lengths, batch_tokens=self.batch_tokens, is_joint=True):
            hypotheses = self.graphs.greedy([sentences[index].ids for index in batch], options)
            for index, hypothesis in zip(batch, hypotheses, strict=True):
                result[index] = [hypothesis]
        return result
