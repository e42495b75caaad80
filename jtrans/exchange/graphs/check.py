"""An export to ONNX beside its run: greedy translations, log-probabilities, BLEU and speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from jtrans.decoding.batches import by_length
from jtrans.decoding.comparison import ExportCheck, compare_ways, largest_difference
from jtrans.decoding.lines.sentences import InputSentence
from jtrans.decoding.options import DecodingChoices, Limited, SearchOptions
from jtrans.decoding.search.trace import Hypothesis
from jtrans.decoding.translator import Translator
from jtrans.exchange.graphs.sessions import Graphs
from jtrans.exports import Export
from jtrans.progress import Progress
from jtrans.runs import Run


@dataclass(frozen=True, eq=False)
class GreedyTranslator(Translator):
    """A `Translator` that takes the most probable token each time, from exported graphs."""

    graphs: Graphs | None = None

    @property
    def _limited(self) -> Sequence[Limited]:
        assert self.graphs is not None
        return [self.graphs]

    def _search(
        self, sentences: Sequence[InputSentence], options: SearchOptions, progress: Progress
    ) -> list[list[Hypothesis]]:
        assert self.graphs is not None
        lengths = [len(sentence.ids) for sentence in sentences]
        result: list[list[Hypothesis]] = [[] for _ in sentences]
        for batch in by_length(lengths, batch_tokens=self.batch_tokens, is_joint=True):
            hypotheses = self.graphs.greedy([sentences[index].ids for index in batch], options)
            for index, hypothesis in zip(batch, hypotheses, strict=True):
                result[index] = [hypothesis]
        return result


def check_onnx(
    run: Run,
    export: Export,
    decoding: DecodingChoices,
    source: Sequence[str],
    references: Sequence[Sequence[str]],
    progress: Progress,
) -> ExportCheck:
    """Translate a text greedily with a run and with its export, and compare.

    Args:
        run: the run, whose checkpoint was exported.
        export: to ONNX.
        decoding: how both translate, but for the beam.
        source: raw lines.
        references: sets of as many lines.
        progress: receives the number of lines done.

    Raises:
        JtransError: the run or the export cannot be used.
    """
    greedy = replace(decoding, device="cpu", precision="fp32", search={"beam": 1})
    ours = Translator.load([run], greedy)
    graphs = Graphs.load(export.folder, export.facts, threads=torch.get_num_threads())
    theirs = GreedyTranslator([], export.pipeline, ours.options, graphs=graphs)
    ways = ("torch float32", ours), ("onnxruntime float32", theirs)
    comparison = compare_ways(*ways, source, references, progress)
    return ExportCheck(comparison, largest_difference(ours, theirs, source))
