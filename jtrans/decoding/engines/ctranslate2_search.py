"""The search of CTranslate2 with the options, tokens and scores of jtrans.

Both searches keep the first k hypotheses to end and rank them by log P / |Y|^a. The best
translation is the same but for rounding, unless the length limit is reached. The differences:

- CTranslate2 leaves excluded tokens out of the softmax and gives a forced prefix probability 1.
  Log-probabilities are therefore computed again, by teacher forcing. With a minimum length or
  n-gram blocking, the search itself differs a little.
- At the length limit it breaks off. Here ``</s>`` ends the hypothesis, one token earlier. It has
  ranked the hypothesis without ``</s>``, and may have dropped a finished one that is better.
- If several hypotheses end at the last step, it keeps all of them; jtrans keeps k in total. The
  best is the same, others of an n-best list may differ.
- Directly after a prefix it considers ``</s>`` only as the most probable token.
- Random numbers depend on all sentences that are searched together, not on the sentence alone.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from jtrans.data.batch import Ids
from jtrans.decoding.batches import by_length, in_order
from jtrans.decoding.engines.ctranslate2_options import PROGRAM
from jtrans.decoding.engines.token_names import token_names
from jtrans.decoding.options import SamplingOptions, SearchOptions
from jtrans.decoding.search.trace import Hypothesis
from jtrans.errors import CheckpointError, DecodingError, WorkError, first_line
from jtrans.exports import Export, import_extra
from jtrans.progress import Progress
from jtrans.text.vocabulary import EOS, PAD, SPARE

# With no length penalty at all, CTranslate2 stops by another rule. Any length to this power is 1.
NO_PENALTY = 1e-30


@dataclass(eq=False)
class CTranslate2Search:
    """A loaded export that searches."""

    translator: Any  # CTranslate2's
    export: Export  # what it was loaded from
    load_again: Callable[[], Any]  # returns another such translator
    batch_tokens: int  # most padded source tokens in one batch

    @classmethod
    def load(
        cls, export: Export, device: str, compute_type: str, *, threads: int, batch_tokens: int
    ) -> CTranslate2Search:
        """Load an export.

        Args:
            export: an export to CTranslate2.
            device: ``cpu``, ``cuda`` or ``cuda:1``.
            compute_type: in CTranslate2's words, such as ``float32``.
            threads: number of threads on a CPU.
            batch_tokens: most padded source tokens in one batch.

        Raises:
            ConfigError: CTranslate2 is not installed.
            CheckpointError: CTranslate2 cannot load the files.
            DecodingError: the device lacks the compute type.
        """
        ctranslate2 = import_extra("ctranslate2", PROGRAM)
        ctranslate2.set_log_level(logging.ERROR)
        kind, _, index = device.partition(":")
        supported = ctranslate2.get_supported_compute_types(kind, int(index or 0))
        if compute_type != "default" and compute_type not in supported:
            raise DecodingError(
                f"CTranslate2 cannot compute in {compute_type} on this {kind}",
                where="--precision",
                hint="--precision auto, or fp32",
                kind="decoding.engine",
            )
        load = functools.partial(
            _load_translator,
            export,
            kind,
            device_index=int(index or 0),
            compute_type=compute_type,
            intra_threads=threads,
        )
        return cls(load(), export, load, batch_tokens)

    def reseed(self, seed: int, sources: Sequence[Ids]) -> None:
        """Give samples the same random numbers, whatever was drawn before.

        CTranslate2 gives each thread its random numbers once, so the model is loaded again.

        Args:
            seed: seed of the samples.
            sources: the sentences to translate, on which the random numbers depend, too.
        """
        text = repr((seed, [list(map(int, source)) for source in sources]))
        key = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little")
        import_extra("ctranslate2", PROGRAM).set_random_seed(key)
        self.translator.unload_model()  # there may not be memory for two
        self.translator = self.load_again()

    @property
    def longest(self) -> int | None:
        """The most tokens of a sentence on either side, ``</s>`` counted."""
        longest = self.export.facts.get("longest")
        return int(longest) if longest is not None else None

    def search(
        self,
        sources: Sequence[Ids],
        options: SearchOptions,
        *,
        prefixes: Sequence[Ids] | None,
        sampling: SamplingOptions | None,
        needs_scores: bool,
        progress: Progress,
    ) -> list[list[Hypothesis]]:
        """Search for translations of sentences given as ids, each ending in EOS, or draw them.

        Args:
            sources: the sentences.
            options: search options.
            prefixes: the first tokens of each translation, without EOS.
            sampling: draw, do not search.
            needs_scores: compute log-probabilities of tokens. Otherwise those of the best
                hypotheses are CTranslate2's own, of whole sentences only.
            progress: receives the number of sentences done.

        Raises:
            WorkError: CTranslate2 failed, for example for lack of memory.
        """

        def search(batch: list[int]) -> list[list[Hypothesis]]:
            part = _Batch(
                self,
                [sources[index] for index in batch],
                options,
                [prefixes[index] for index in batch] if prefixes else None,
                sampling,
            )
            try:
                return part.hypotheses(needs_scores=needs_scores)
            except (RuntimeError, ValueError) as error:
                raise WorkError(
                    f"CTranslate2 failed: {first_line(error)}",
                    where="--engine ctranslate2",
                    hint="a smaller --batch-tokens, a smaller --beam, or --engine torch",
                    kind="work.engine",
                ) from error

        lengths = [len(source) for source in sources]
        batches = by_length(lengths, batch_tokens=self.batch_tokens, is_joint=False)
        searched = ((batch, search(batch)) for batch in batches)
        return in_order(searched, len(sources), progress, "Translating")

    def log_probs(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """Return the log-probability of every token of given translations, all ending in EOS."""
        scored = self.translator.score_batch(
            [self.source_names(source) for source in sources],
            [self.target_names(target[:-1]) for target in targets],
            max_input_length=0,
        )
        return [list(each.log_probs) for each in scored]

    def attention(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Any]:
        """Return the weights of given translations, all ending in EOS: [T, S - 1] of each.

        Row t belongs to the step that predicts token t. ``</s>`` of the source is left out.
        """
        results = self.translator.translate_batch(
            [self.source_names(source) for source in sources],
            [self.target_names(target[:-1]) for target in targets],
            beam_size=1,
            max_input_length=0,
            max_decoding_length=max(map(len, targets)),
            min_decoding_length=max(map(len, targets)),
            return_attention=True,
            return_end_token=True,
        )
        return [each.attention[0] for each in results]

    @property
    def vocabulary_size(self) -> int:
        """The number of target tokens."""
        return len(self._target_names)

    def source_names(self, ids: Ids) -> list[str]:
        """Return the names of source tokens, without EOS, which CTranslate2 adds."""
        return [self._source_names[int(token)] for token in ids[:-1]]

    def target_names(self, ids: Ids) -> list[str]:
        """Return the names of target tokens."""
        return [self._target_names[int(token)] for token in ids]

    def target_ids(self, names: Sequence[str]) -> list[int]:
        """Return the ids of target tokens."""
        return [self._target_ids[name] for name in names]

    @cached_property
    def _source_names(self) -> list[str]:
        return token_names(self.export.pipeline.source.vocabulary)

    @cached_property
    def _target_names(self) -> list[str]:
        return token_names(self.export.pipeline.target.vocabulary)

    @cached_property
    def _target_ids(self) -> Mapping[str, int]:
        return {name: number for number, name in enumerate(self._target_names)}


def _load_translator(export: Export, device: str, **options: Any) -> Any:
    """Return CTranslate2's translator for an export.

    Raises:
        CheckpointError: CTranslate2 cannot load the files.
    """
    ctranslate2 = import_extra("ctranslate2", PROGRAM)
    try:
        return ctranslate2.Translator(str(export.folder), device, **options)
    except (RuntimeError, ValueError) as error:
        raise CheckpointError(
            f"CTranslate2 cannot load the export: {first_line(error)}",
            where=str(export.folder),
            hint="export the run again with this version of CTranslate2: jtrans export",
            kind="export.damaged",
        ) from error


class _Output(NamedTuple):
    """A hypothesis as CTranslate2 gives it."""

    names: list[str]  # names of its tokens
    score: float
    is_exact: bool  # no token was left out of the softmax, which would change the score


@dataclass(frozen=True)
class _Candidate:
    """A hypothesis of CTranslate2, closed by EOS, and its score there."""

    tokens: list[int]
    score: float
    is_exact: bool  # the score is the one that ranks it here


@dataclass(frozen=True)
class _Batch:
    """The search of one batch."""

    engine: CTranslate2Search
    sources: Sequence[Ids]
    options: SearchOptions
    prefixes: Sequence[Ids] | None
    sampling: SamplingOptions | None

    def hypotheses(self, *, needs_scores: bool) -> list[list[Hypothesis]]:
        """Return up to `nbest` hypotheses of each sentence, best first, or samples as drawn."""
        candidates = self._drawn(self.sampling) if self.sampling else self._searched()
        n = self.options.nbest
        candidates = [group[:n] if group[0].is_exact else group for group in candidates]
        needed = [
            (source, each.tokens)
            for source, group in zip(self.sources, candidates, strict=True)
            for each in group
            if needs_scores or not each.is_exact
        ]
        computed = iter(self.engine.log_probs(*zip(*needed, strict=True)) if needed else ())
        result = []
        for group in candidates:
            hypotheses = [
                self._hypothesis(each, next(computed) if needs_scores or not each.is_exact else [])
                for each in group
            ]
            if not self.sampling:
                hypotheses.sort(key=lambda hypothesis: -hypothesis.score)
            result.append(hypotheses[:n])
        return result

    def _hypothesis(self, candidate: _Candidate, log_probs: list[float]) -> Hypothesis:
        if log_probs:
            return Hypothesis.of(candidate.tokens, log_probs, self.options)
        total = candidate.score * self.options.divisor(len(candidate.tokens))
        return Hypothesis(candidate.tokens, candidate.score, total, [])

    def _searched(self) -> list[list[_Candidate]]:
        """Search for all sentences at once, and again for those that reach their own limit."""
        limits = self._limits()
        most = max(limits)
        chosen = {
            "beam_size": self.options.beam,
            "num_hypotheses": self.options.beam,
            "length_penalty": self.options.length_penalty or NO_PENALTY,
            "return_scores": True,
        }
        rows = list(range(len(limits)))
        results = dict(zip(rows, self._decode(rows, most, **chosen), strict=True))
        late = [row for row in rows if limits[row] < most and _length(results[row]) >= limits[row]]
        late.sort(key=lambda row: limits[row])
        for limit, group in itertools.groupby(late, key=lambda row: limits[row]):
            again = list(group)
            results.update(zip(again, self._decode(again, limit, **chosen), strict=True))
        return [self._closed(results[row]) for row in rows]

    def _drawn(self, sampling: SamplingOptions) -> list[list[_Candidate]]:
        """Draw the samples of all sentences, in order, each cut at its sentence's limit."""
        n, limits = self.options.beam, self._limits()
        rows = [row for row in range(len(limits)) for _ in range(n)]
        drawn = self._decode(
            rows,
            max(limits),
            beam_size=1,
            sampling_topk=min(sampling.top_k, self.engine.vocabulary_size),
            sampling_topp=sampling.top_p,
            sampling_temperature=sampling.temperature,
        )
        result: list[list[_Candidate]] = [[] for _ in limits]
        for row, (sample,) in zip(rows, drawn, strict=True):
            longest = limits[row] - 1  # without EOS
            is_long = len(sample.names) > limits[row]
            tokens = self.engine.target_ids(sample.names[:longest] if is_long else sample.names)
            tokens = tokens if tokens[-1:] == [EOS] else [*tokens[:longest], EOS]
            result[row].append(_Candidate(tokens, 0.0, is_exact=False))
        return result

    def _decode(self, rows: Sequence[int], limit: int, **chosen: Any) -> list[list[_Output]]:
        """Return the hypotheses of some sentences, at most `limit` - 1 tokens."""
        if limit == 1:
            return [[_Output([], 0.0, is_exact=True)] for _ in rows]
        # Excluded tokens are left out of the softmax, which changes all log-probabilities. Trained
        # models choose none of these: exclude them only from sentences where that is needed.
        filler = self.engine.export.pipeline.target.vocabulary.filler if self.sampling else ()
        end, *never = self.engine.target_names([EOS, PAD, SPARE, *filler])
        least = min(self.options.min_length, limit - 1)
        shortest = least if least > 1 else 0
        results = self._translate(rows, limit, min_decoding_length=shortest, **chosen)
        again = [
            place
            for place, hypotheses in enumerate(results)
            if any({*never} & {*each.names} or each.names == [end][:least] for each in hypotheses)
        ]
        if again:
            excluded = [[name] for name in never]
            chosen |= {"suppress_sequences": excluded, "min_decoding_length": least}
            redone = self._translate([rows[place] for place in again], limit, **chosen)
            for place, hypotheses in zip(again, redone, strict=True):
                results[place] = hypotheses
        return results

    def _translate(self, rows: Sequence[int], limit: int, **chosen: Any) -> list[list[_Output]]:
        engine, prefixes, blocked = self.engine, self.prefixes, self.options.no_repeat_ngram
        excluding = ("min_decoding_length", "suppress_sequences")
        is_exact = not (prefixes or blocked or any(chosen.get(name) for name in excluding))
        results = engine.translator.translate_batch(
            [engine.source_names(self.sources[row]) for row in rows],
            [engine.target_names(prefixes[row]) for row in rows] if prefixes else None,
            max_input_length=0,
            max_decoding_length=limit - 1,
            no_repeat_ngram_size=blocked,
            return_end_token=True,
            **chosen,
        )
        return [
            [
                _Output(names, score, is_exact)
                for names, score in zip(each.hypotheses, each.scores or [0.0], strict=True)
            ]
            for each in results
        ]

    def _closed(self, hypotheses: list[_Output]) -> list[_Candidate]:
        """Return the hypotheses as ids, EOS put at the end of those that reached the limit."""
        ids = [self.engine.target_ids(each.names) for each in hypotheses]
        are_ended = [tokens[-1:] == [EOS] for tokens in ids]
        is_exact = all(are_ended) and all(each.is_exact for each in hypotheses)
        return [
            _Candidate(tokens if is_ended else [*tokens, EOS], each.score, is_exact)
            for tokens, is_ended, each in zip(ids, are_ended, hypotheses, strict=True)
        ]

    def _limits(self) -> list[int]:
        return [self.options.limit(len(source), [self.engine]) for source in self.sources]


def _length(hypotheses: Sequence[_Output]) -> int:
    return max(len(each.names) for each in hypotheses)
