"""The uses of the attention of finished translations to the source.

Word alignments, the replacement of unknown words, a joint model's grid, and the coverage penalty
(Wu et al. 2016, Google's Neural Machine Translation System, eq. 14):

    score(Y) = log P(Y) / lp(Y) + beta * sum_i log min(sum_j p_ij, 1)

p_ij is the weight of source token i, ``</s>`` left out, when target token j is predicted. The
weights are those of a forward pass over the finished hypotheses, so the penalty ranks what the
search found and does not steer it: any system with attention is searched as fast as without it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from jtrans.data.batch import Ids
from jtrans.decoding.lines.constraints import UNKNOWN, EncodedConstraints
from jtrans.decoding.lines.sentences import InputSentence
from jtrans.decoding.lines.translation import Translation
from jtrans.decoding.options import TranslationExtras
from jtrans.decoding.word_alignments import READINGS, read_off
from jtrans.nn.cpu.matmul_backend import mkl_for_tiny_products
from jtrans.text.alignments import WordAlignment, to_pharaoh, word_numbers
from jtrans.text.pipeline import TextPipeline

LEAST_COVERAGE = 1e-3  # of a source token, as log 0 would rank a translation last
GRID_DIGITS = 4

# from source ids and target ids, each ending in EOS, and the numbers of their lines, to the number
# of each pair and its weights, [T, S]
Attention = Callable[
    [Sequence[Ids], Sequence[Ids], Sequence[int]], Iterator[tuple[int, NDArray[np.float32]]]
]


def coverage(weights: NDArray[np.float32]) -> float:
    """Return the sum of log min(coverage, 1) over source tokens, given [T, S]; 0 is the highest."""
    covered = weights.sum(axis=0, dtype=np.float64)
    return float(np.log(covered.clip(LEAST_COVERAGE, 1.0)).sum())


@dataclass(frozen=True)
class AttentionReader:
    """Adds what is read off the attention to translations: alignments, grids, penalties."""

    pipeline: TextPipeline  # that of the model
    extras: TranslationExtras  # those to add
    attention: Attention  # computes the weights

    def read(
        self, sentences: Sequence[InputSentence], translations: Sequence[Sequence[Translation]]
    ) -> list[list[Translation]]:
        """Return the translations of some sentences with the chosen extras, best first.

        Args:
            sentences: none of them empty.
            translations: the translations of each sentence.
        """
        target = self.pipeline.target
        result = [list(nbest) for nbest in translations]
        places = [(index, rank) for index, nbest in enumerate(result) for rank in range(len(nbest))]
        targets = [target.encode_pieces(result[index][rank].tokens[:-1]) for index, rank in places]
        source_ids = [sentences[index].ids for index, _ in places]
        pieces = [self.pipeline.source.pieces(sentence.text) for sentence in sentences]
        lines = [sentences[index].number for index, _ in places]
        # weights that are part of the output must be the same in every process, see `prepared`
        are_shown = self.extras.coverage_penalty > 0 or self.extras.grid
        with mkl_for_tiny_products() if are_shown else contextlib.nullcontext():
            for number, weights in self.attention(source_ids, targets, lines):
                index, rank = places[number]
                result[index][rank] = self._read(
                    result[index][rank], weights, pieces[index], sentences[index].constraints
                )
        if self.extras.coverage_penalty:
            for nbest in result:
                nbest.sort(key=lambda each: -each.score)
        return result

    def _read(
        self,
        translation: Translation,
        weights: NDArray[np.float32],
        pieces: list[str],
        constraints: EncodedConstraints,
    ) -> Translation:
        """Return one translation with the chosen extras.

        Args:
            translation: the translation of one sentence.
            weights: its attention to the source, [T, S].
            pieces: the pieces of the source.
            constraints: those that it was translated with.
        """
        extras = self.extras
        if extras.coverage_penalty:
            penalty = extras.coverage_penalty * coverage(weights[:, :-1])
            translation = replace(translation, score=translation.score + penalty)
        if extras.grid:
            rows = weights.astype(np.float64).round(GRID_DIGITS).tolist()
            translation = replace(translation, source_tokens=[*pieces, "</s>"], grid=rows)
        if extras.needs_alignments:
            words = (
                word_numbers(self.pipeline.source, pieces),
                self._target_words(translation.tokens[:-1], constraints.words),
            )
            alignment = dict(read_off(weights, *words))[READINGS[0]]
            # a last piece that is only BPE's marker forms no word
            alignment = [(i, j) for i, j in alignment if j < len(translation.words)]
            if extras.unk_replace and UNKNOWN in translation.tokens:
                side = self.pipeline.source
                source = side.surfaces(side.merge(pieces))
                translation = self._replace_unknown(translation, source, alignment, constraints)
            if extras.alignments:
                translation = replace(translation, alignment=to_pharaoh(alignment))
        return translation

    def _target_words(self, tokens: Sequence[str], begin: Sequence[str]) -> NDArray[np.int64]:
        """Return the number of each token's word; unknown pieces do not show where one ends."""
        side = self.pipeline.target
        forced = [number for number, word in enumerate(begin) for _ in side.split([word])]
        others = word_numbers(side, tokens[len(forced) :]) + len(begin)
        return np.concatenate([np.array(forced, dtype=np.int64), others])

    def _replace_unknown(
        self,
        translation: Translation,
        source: Sequence[str],
        alignment: WordAlignment,
        constraints: EncodedConstraints,
    ) -> Translation:
        """Put the aligned source word in the place of every word with an unknown piece.

        Where that would be a forbidden phrase, or is a space, the unknown word stays.
        """
        words = [*translation.words]
        for i, j in alignment:
            if UNKNOWN in translation.words[j] and source[i]:
                replaced = [*words[:j], source[i], *words[j + 1 :]]
                words = replaced if constraints.are_allowed(replaced) else words
        return replace(translation, words=words, text=self.pipeline.target.join(words))
