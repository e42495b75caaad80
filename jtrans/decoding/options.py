"""Options for decoding. Does not import torch, so that wrong values fail at once.

`SearchOptions` configures the search; `DecodingChoices` holds everything the command line chooses.
Every search gets its options from a run's own settings and the user's through these two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from jtrans.config import Config
from jtrans.config.arguments import check_argument, check_fields, check_strings
from jtrans.config.section import WIDEST_BEAM
from jtrans.errors import how_many, name_hint, option_error
from jtrans.exports import Translatable
from jtrans.models.zoo import system_configs

LENGTH_PENALTY_FORMS = ("power", "gnmt")
STOPPING_RULES = ("count", "bound")
UTILITIES = ("chrf", "bleu")  # for minimum Bayes risk
HIGHEST_LIMIT = 10**9  # target tokens; a higher limit means none

_NUMBER = re.compile(r"(?P<plus>\d+)")
_OF_SOURCE = re.compile(r"(?:(?P<factor>\d+(?:\.\d+)?)\s*\*?\s*)?S(?:\s*\+\s*(?P<plus>\d+))?")


class Limited(Protocol):
    """A model or an engine, which may limit the length of sentences."""

    @property
    def longest(self) -> int | None:
        """The most tokens of a sentence on either side, ``</s>`` counted; None: no limit."""
        ...


@dataclass(frozen=True)
class SearchOptions:
    """How to search for translations.

    Args:
        beam: live hypotheses per sentence, and the number of finished ones that ends its search;
            at most `WIDEST_BEAM`.
        length_penalty: exponent of the length in the score.
        length_penalty_form: ``power`` divides the log-probability by |Y|^a, ``gnmt`` by
            ((5 + |Y|) / 6)^a; |Y| counts ``</s>``.
        max_length: most target tokens, ``</s>`` counted: a number, ``S+50`` or ``2*S+10``,
            S being the number of source tokens with ``</s>``. At the limit ``</s>`` is forced; for
            short sources it leaves room for one token, unless `min_length` is 0.
        nbest: hypotheses returned per sentence.
        min_length: fewest target tokens before ``</s>``; 1 as in the original code, which excludes
            the empty translation.
        stopping: when the search of a sentence ends: ``count``, with `beam` finished hypotheses, as
            in the original code; ``bound``, when no other can score higher than the `nbest` best.
        no_repeat_ngram: no n-gram of this many tokens comes twice in a hypothesis; 0: any may.
        max_repeats: no sequence of tokens, however long, comes more often than this in a row; 0:
            any may.
        diverse_groups: into how many groups the beam is divided (`search.diversity`); 1: none.
        diversity: how much a token loses, in log-probability, for each hypothesis of an earlier
            group that was continued with it.

    Raises:
        ConfigError: a value of another type.
        DecodingError: a value that cannot be used.
    """

    beam: int = 5
    length_penalty: float = 1.0
    length_penalty_form: str = "power"
    max_length: str | int = "S+50"
    nbest: int = 1
    min_length: int = 1
    stopping: str = "count"
    no_repeat_ngram: int = 0
    max_repeats: int = 0
    diverse_groups: int = 1
    diversity: float = 0.5

    @classmethod
    def from_config(cls, config: Config, **chosen: Any) -> SearchOptions:
        """Return a configuration's search options, overridden by those `chosen` that are not None.

        Raises:
            DecodingError: a value that cannot be used.
        """
        changed = {name: value for name, value in chosen.items() if value is not None}
        return cls(**{**config.decoding.model_dump(), **changed})

    def __post_init__(self) -> None:
        check_fields(self)
        self._check_beam()
        if not -10.0 <= self.length_penalty <= 10.0:  # also refuses nan
            raise option_error(
                f"length penalty {self.length_penalty} is not between -10 and 10",
                "1.0 ranks by log-probability per token, 0 by log-probability alone",
            )
        if self.length_penalty_form not in LENGTH_PENALTY_FORMS:
            raise option_error(
                f"unknown length penalty form {self.length_penalty_form!r}",
                name_hint(self.length_penalty_form, LENGTH_PENALTY_FORMS),
            )
        if self.min_length < 0:
            raise option_error(f"minimum length {self.min_length} is less than 0", "0 or more")
        if self.stopping not in STOPPING_RULES:
            raise option_error(
                f"unknown stopping rule {self.stopping!r}", name_hint(self.stopping, STOPPING_RULES)
            )
        self._check_repetitions()
        self._check_groups()
        factor, plus = self.length_rule
        if factor == 0.0 and 0 < self.min_length >= plus:
            raise option_error(
                f"a translation of at least {how_many(self.min_length, 'token')} and </s> does "
                f"not fit into --max-length {self.max_length}",
                f"--max-length {self.min_length + 50}, or a lower --min-length",
            )

    def _check_beam(self) -> None:
        if self.beam < 1:
            raise option_error(f"beam {self.beam} is less than 1", "--beam 5 is a good start")
        if self.beam > WIDEST_BEAM:
            raise option_error(
                f"beam {self.beam:,} is more than {WIDEST_BEAM}",
                "--beam 5 is usual; time and memory grow with it, and quality seldom does",
            )
        if not 1 <= self.nbest <= self.beam:
            wider = min(max(self.nbest, 5), WIDEST_BEAM)
            raise option_error(
                f"beam {self.beam} cannot give {self.nbest} translations per line",
                f"between 1 and {self.beam}"
                + (f", or a wider beam: --beam {wider}" if self.nbest > self.beam else "")
                + (" is the widest" if self.nbest >= WIDEST_BEAM else ""),
            )

    def _check_repetitions(self) -> None:
        if self.no_repeat_ngram < 0:
            raise option_error(
                f"n-grams of {self.no_repeat_ngram} tokens do not exist",
                "3 is usual, 0 allows repetitions",
            )
        if self.max_repeats < 0:
            raise option_error(
                f"max repeats {self.max_repeats} is less than 0",
                "--max-repeats 3 stops loops, 0 allows them",
            )

    def _check_groups(self) -> None:
        groups = self.diverse_groups
        if groups < 1 or self.beam % groups:
            raise option_error(
                f"a beam of {self.beam} cannot be divided into {groups} groups of the same size",
                f"--beam {groups * 2} gives each two hypotheses"
                if 1 <= groups * 2 <= WIDEST_BEAM
                else f"--beam 8 --diverse-groups 4, for example; {WIDEST_BEAM} is the widest beam",
            )
        if not 0.0 <= self.diversity <= 100.0:
            raise option_error(
                f"diversity {self.diversity} is not between 0 and 100", "0.2 to 0.8 is usual"
            )
        if groups > 1 and self.stopping == "bound":
            raise option_error(
                "--stopping bound ends a search when the best translations are known: "
                "there is nothing left for groups to find",
                "--stopping count with --diverse-groups",
            )

    def limit(self, source_length: int, models: Sequence[Limited] = ()) -> int:
        """Return the most target tokens for a source of this many tokens, both with ``</s>``.

        It is at most the longest sentence of each of the `models`, and leaves room for a token
        where translations must have one.
        """
        factor, plus = self.length_rule
        fewest = 2 if self.min_length else 1
        longest = [model.longest for model in models if model.longest is not None]
        most = round(factor * source_length + plus, 6)  # 1.4 x 45 is 63, not 62.99999999999999
        return max(fewest, int(min(most, HIGHEST_LIMIT, *longest)))

    def normalise(self, log_prob: float, length: int) -> float:
        """Return the score of a hypothesis of `length` tokens, ``</s>`` counted."""
        return log_prob / self.divisor(length)

    def divisor(self, length: int) -> float:
        """Return what divides the log-probability of a hypothesis of `length` tokens."""
        base = float(length) if self.length_penalty_form == "power" else (5.0 + length) / 6.0
        return float(base**self.length_penalty)

    @cached_property
    def length_rule(self) -> tuple[float, int]:
        """The factor of the source length and the summand of `max_length`.

        Raises:
            DecodingError: it is no such rule, or allows no token.
        """
        text = str(self.max_length).strip()
        if match := _NUMBER.fullmatch(text):
            factor, plus = 0.0, int(match["plus"])
        elif match := _OF_SOURCE.fullmatch(text):
            factor, plus = float(match["factor"] or 1), int(match["plus"] or 0)
        else:
            raise option_error(
                f"cannot read the length limit {self.max_length!r}",
                "a number (200), S+50 or 2*S+10, S being the source length",
            )
        if factor == 0.0 and plus == 0:
            raise option_error(
                f"the length limit {self.max_length!r} does not allow a single token", "S+50"
            )
        return factor, min(plus, HIGHEST_LIMIT)


@dataclass(frozen=True)
class Constraints:
    """The constraints of one line, as raw text in whole words.

    Raises:
        ConfigError: a value of another type.
    """

    prefix: str = ""  # what the translation must begin with
    prefix_tokens: Sequence[str] = ()  # a prefix as tokens of the model, instead of `prefix`
    required: Sequence[str] = ()  # phrases that it must contain
    forbidden: Sequence[str] = ()  # phrases that it must not contain

    def __post_init__(self) -> None:
        check_argument("prefix", self.prefix, str)
        for name in ("prefix_tokens", "required", "forbidden"):
            object.__setattr__(self, name, tuple(check_strings(name, getattr(self, name))))


@dataclass(frozen=True)
class SamplingOptions:
    """The distribution that sampling draws from (`jtrans.decoding.search.sampling`).

    Args:
        seed: seed of the random numbers.
        temperature: log-probabilities are divided by it; below 1 favours the probable tokens.
        top_k: only the k most probable tokens; 0: all.
        top_p: only the fewest tokens, most probable first, whose shares add up to at least this.
        epsilon: only tokens whose share of all tokens, before other restrictions, is at least this.

    Raises:
        ConfigError: a value of another type.
        DecodingError: a value that cannot be used.
    """

    seed: int = 1
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        if not 0.01 <= self.temperature <= 100.0:
            raise option_error(
                f"temperature {self.temperature} is not between 0.01 and 100",
                "--temperature 1 is the model's own distribution; without --sample, beam search "
                "finds the most probable translations",
            )
        if self.top_k < 0:
            raise option_error(f"top-k {self.top_k} is less than 0", "--top-k 10")
        if not 0.0 < self.top_p <= 1.0:
            raise option_error(f"top-p {self.top_p} is not above 0 and at most 1", "--top-p 0.9")
        if not 0.0 <= self.epsilon < 1.0:
            raise option_error(
                f"epsilon {self.epsilon} is not at least 0 and below 1", "--epsilon 0.02"
            )

    @property
    def is_filtered(self) -> bool:
        """Whether only the most probable tokens are kept, for which they are sorted."""
        return self.top_k > 0 or self.top_p < 1.0 or self.epsilon > 0.0


@dataclass(frozen=True)
class TranslationExtras:
    """What `jtrans translate` can do beyond a search.

    Args:
        sampling: draw translations instead of searching; as many as the beam.
        mbr: choose among all hypotheses or samples by expected ``chrf`` or ``bleu``.
        alignments: add word alignments.
        unk_replace: replace unknown words by the source words that they are aligned to.
        alignment_layer: the attention map for all that is read off attention; None for the usual
            one of the system.
        coverage_penalty: beta of the coverage penalty (`jtrans.decoding.lines.attended`); 0: none.
        grid: add the weights of a joint model.

    Raises:
        ConfigError: a value of another type.
        DecodingError: a value that cannot be used, or that has no effect together with others.
    """

    sampling: SamplingOptions | None = None
    mbr: str | None = None
    alignments: bool = False
    unk_replace: bool = False
    alignment_layer: str | None = None
    coverage_penalty: float = 0.0
    grid: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.mbr not in (None, *UTILITIES):
            raise option_error(f"unknown utility {self.mbr!r}", name_hint(str(self.mbr), UTILITIES))
        if self.alignment_layer and not self.needs_attention:
            raise option_error(
                "--alignment-layer has no effect without word alignments",
                "add --alignments, --alignments-file FILE, --unk-replace, --grid or "
                "--coverage-penalty",
                where="--alignment-layer",
            )
        if not 0.0 <= self.coverage_penalty <= 10.0:
            raise option_error(
                f"coverage penalty {self.coverage_penalty} is not between 0 and 10",
                "0.2 is usual, 0 leaves scores unchanged",
            )
        if self.coverage_penalty and (self.mbr or self.sampling):
            other = "--mbr" if self.mbr else "--sample"
            raise option_error(
                f"the coverage penalty ranks hypotheses, which {other} does in another way",
                f"--coverage-penalty without {other}",
            )

    def check_beside(self, options: SearchOptions) -> None:
        """Check that search options can be used with these.

        Raises:
            DecodingError: one cannot.
        """
        if self.sampling:
            for name, is_given in (
                ("--stopping bound", options.stopping == "bound"),
                ("--diverse-groups", options.diverse_groups > 1),
            ):
                if is_given:
                    raise option_error(
                        f"{name} is for a search, and --sample draws translations at random",
                        f"leave out {name} or --sample",
                    )
        if self.mbr and options.beam == 1:
            raise option_error(
                "--mbr chooses among translations, and --beam 1 gives a single translation",
                "--beam 5, or many samples: --sample --beam 32",
            )

    @property
    def needs_alignments(self) -> bool:
        """Whether words are aligned."""
        return self.alignments or self.unk_replace

    @property
    def needs_attention(self) -> bool:
        """Whether the attention of the translations to the source is computed."""
        return self.needs_alignments or self.grid or self.coverage_penalty > 0


@dataclass(frozen=True)
class DecodingChoices:
    """The user's choices for decoding with runs; None leaves them to the run or the machine.

    Args:
        checkpoint: the checkpoint of every run.
        device: its name.
        precision: ``auto``, ``fp32``, ``bf16`` or, on a CPU, ``int8``.
        batch_tokens: most padded source tokens in one batch.
        search: values of `SearchOptions` by name, in place of the run's; None keeps the run's.
        extras: sampling, minimum Bayes risk, word alignments.
        needs_scores: whether scores and log-probabilities of tokens are needed; an engine that
            gets them by a second pass may leave them out.
    """

    checkpoint: str = "best"
    device: str | None = None
    precision: str = "auto"
    batch_tokens: int | None = None
    search: Mapping[str, Any] = field(default_factory=dict)
    extras: TranslationExtras = field(default_factory=TranslationExtras)
    needs_scores: bool = True

    def search_options(self, run: Translatable) -> SearchOptions:
        """Return the search options for a run."""
        return SearchOptions.from_config(run.config(system_configs()), **self.search)

    def check(self, runs: Sequence[Translatable]) -> None:
        """Check everything that can be checked before torch is loaded.

        Raises:
            JtransError: a search option cannot be used, or a run lacks the checkpoint.
        """
        self.extras.check_beside(self.search_options(runs[0]))
        for run in runs:
            run.checkpoint(self.checkpoint)
