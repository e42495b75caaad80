"""Two systems side by side: where they differ, and whether significantly.

The first system is the baseline; every other system is compared with it. N-grams are ranked as
in compare-mt (Neubig et al., 2019): matches of one system over matches of both, smoothed by one;
with several references, matches with any of them count, as in BLEU.
"""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from jtrans.analysis.figures.bins import AS_IN_PAPER, Binning
from jtrans.analysis.figures.length import length_bins, length_note, ngrams, sentence_counts
from jtrans.analysis.figures.results import Cell, Figure, Table
from jtrans.analysis.figures.series import Score, share_figure
from jtrans.analysis.study.members import FileMember, Member
from jtrans.analysis.study.study import Study, Subject
from jtrans.errors import usage_error
from jtrans.evaluation.bleu import MAX_ORDER, bleu_of, sacrebleu_of
from jtrans.evaluation.bootstrap import SAMPLES
from jtrans.evaluation.scores import sentence_scores
from jtrans.evaluation.seeds import SeedSample, compare_means

SHOWN = 10  # sentences and n-grams in each direction
SMOOTHING = 1.0
INVISIBLE = ("Cc", "Cf", "Zs", "Zl", "Zp")  # Unicode's controls, format characters and spaces
SEEDS_NOTE = " If a system has several seeds, text and scores are those of the first."

Ngram = tuple[str, ...]


def compare_tables(
    study: Study, binning: Binning = AS_IN_PAPER, *, shown: int = SHOWN
) -> list[Table]:
    """Compare every system with the first: by bin of length, sentences, n-grams.

    `shown` sentences and n-grams are listed in each direction.

    Raises:
        ConfigError: there is only one system.
    """
    if len(study.subjects) < 2:
        name = study.subjects[0].name
        raise usage_error(
            f"only one system: {name}"
            + (" (runs that differ only by seed count as one)" if len(study.runs) > 1 else ""),
            "compare needs two: "
            + ("jtrans analyze compare RUN RUN" if study.runs else "--hyp A --hyp B"),
        )
    first, *others = study.subjects
    tables = [_significance(study, binning)]
    for other in others:
        ending = f"-{other.index}" if len(others) > 1 else ""
        tables.append(_sentences(study, first, other, shown, ending))
        tables.append(_ngrams(study, first, other, shown, ending))
    return tables


def _significance(study: Study, binning: Binning) -> Table:
    bins, place = length_bins(study, binning)
    side = study.text.length_side.name
    groups = [(label, place == number) for number, label in enumerate(bins.labels)]
    groups.insert(0, ("all", np.ones(len(study), dtype=bool)))
    counts = [sentence_counts(study, subject) for subject in study.subjects]
    # the first row agrees with ``jtrans score`` even where a bin would have no data
    scores = [sacrebleu_of, *[bleu_of] * len(bins)]
    samples = [
        [_bleu_of_some(study, members, chosen, score) for members in counts]
        for (_, chosen), score in zip(groups, scores, strict=True)
    ]
    rows: list[list[Cell]] = []
    for number, subject in enumerate(study.subjects[1:], start=1):
        for (label, chosen), inside in zip(groups, samples, strict=True):
            size = int(chosen.sum())
            row = _compared(inside[0], inside[number], inside[1:], size)
            rows.append([study.subjects[0].name, subject.name, label, size, *row])
    columns = ["baseline", "system", f"{side} words", "sentences"]
    columns += ["BLEU baseline", "BLEU system", "difference", "p"]
    has_seeds = any(len(subject.members) > 1 for subject in study.subjects)
    note = (
        f"Corpus BLEU of the sentences of each bin; paired bootstrap over sentences"
        f"{' and seeds' if has_seeds else ''}, {SAMPLES:,} samples, two-sided, not corrected for "
        f"multiple tests ({len(bins.labels)} bins), so that a single p below 0.05 tells little. "
        + ("Values are means over seeds. " if has_seeds else "")
        + "A bin has no data where no sentence or translation has four tokens."
        + length_note(study)
    )
    return Table("compare-significance", f"BLEU by {side} length", columns, rows, note)


def _bleu_of_some(
    study: Study, members: Sequence[NDArray[np.int64]], chosen: NDArray[np.bool_], score: Score
) -> SeedSample:
    """Return the `score` of some sentences, for every seed.

    A drawn test set has sacreBLEU's score, as for ``jtrans score``, or nan without such sentences.
    """
    inside = [np.where(chosen[:, None], counts, 0) for counts in members]
    is_drawn = study.bootstrap.sums(chosen) > 0
    drawn = [sacrebleu_of(study.bootstrap.sums(counts)) for counts in inside]
    return SeedSample(
        np.array([float(score(counts.sum(axis=0))) for counts in inside]),
        np.where(is_drawn, np.stack(drawn), np.nan),
    )


def _compared(
    first: SeedSample, other: SeedSample, systems: Sequence[SeedSample], sentences: int
) -> list[Cell]:
    """Return both means, their difference and its p-value; None where there is no data."""
    if not sentences:
        return [None, None, None, None]
    known = [sample.mean if np.isfinite(sample.mean) else None for sample in (first, other)]
    if None in known:
        return [*known, None, None]
    others = [system for system in systems if system is not other]
    test = compare_means(first, other, others, sentences=sentences)
    return [first.mean, other.mean, test.difference, test.p_value]


def sentence_bleu_figure(study: Study) -> Figure:
    """Return the share of the sentences of each system by their BLEU, in tenths of its range."""
    starts = range(0, 100, 10)

    def place(member: Member | FileMember) -> NDArray[np.int64]:
        return (
            np.searchsorted(starts, shown_sentence_scores(study, member, "bleu"), side="right") - 1
        )

    number = len(study.text.references)
    return share_figure(
        study,
        [(subject, list(map(place, subject.members))) for subject in study.subjects],
        [f"{start}–{start + 10}" for start in starts],
        name="sentence-bleu",
        title="Sentences by BLEU",
        question="How many sentences are translated well, and how many badly?",
        x_label="sentence BLEU",
        note="Sentence BLEU of effective order (sacreBLEU"
        f"{f', all {number} references' if number > 1 else ''}). A bin includes its lower end.",
    )


def shown_sentence_scores(
    study: Study, subject: Subject | Member | FileMember, metric: str
) -> NDArray[np.float64]:
    """Return sacreBLEU's score of every sentence that `subject.hypotheses` shows, [sentences].

    Args:
        study: provides the references, all of which are used.
        subject: a seed, or a system; if it has several seeds, the first is shown and scored.
        metric: ``chrf`` or ``bleu`` (sentence BLEU of effective order).
    """
    return sentence_scores(
        metric,
        subject.hypotheses,
        study.text.references,
        target_language=study.target_language,
        lowercase=study.lowercase,
    )


def _sentences(study: Study, first: Subject, other: Subject, shown: int, ending: str) -> Table:
    chrf = [shown_sentence_scores(study, subject, "chrf") for subject in (first, other)]
    bleu = [shown_sentence_scores(study, subject, "bleu") for subject in (first, other)]
    difference = chrf[1] - chrf[0]
    order = np.argsort(difference, kind="stable")
    chosen = [int(i) for i in order[::-1][:shown] if difference[i] > 0]
    chosen += [int(i) for i in order[:shown] if difference[i] < 0]
    sources = {} if study.text.source is None else {"source": study.source_lines}
    rows: list[list[Cell]] = [
        [
            i + 1,
            *(lines[i] for lines in sources.values()),
            study.reference_lines[i],
            first.hypotheses[i],
            other.hypotheses[i],
            *(float(scores[i]) for scores in (*chrf, *bleu)),
            float(difference[i]),
        ]
        for i in chosen
    ]
    number = len(study.text.references)
    columns = ["line", *sources, "reference", first.name, other.name]
    columns += [f"chrF {first.name}", f"chrF {other.name}"]
    columns += [f"BLEU {first.name}", f"BLEU {other.name}", "chrF difference"]
    return Table(
        f"compare-sentences{ending}",
        f"Sentences where {other.name} and {first.name} differ most",
        columns,
        rows,
        f"By sentence chrF2: first where {other.name} is better, then where {first.name} is."
        + (f" Scored with all {number} references; the first is shown." if number > 1 else "")
        + (SEEDS_NOTE if len(first.members) + len(other.members) > 2 else ""),
    )


def _ngrams(study: Study, first: Subject, other: Subject, shown: int, ending: str) -> Table:
    matches = [ngram_matches(study, subject) for subject in (first, other)]
    expected: Counter[Ngram] = Counter()
    for references in study.text.words_of_references:
        expected.update(_limits(references))
    share = {
        ngram: (matches[1][ngram] + SMOOTHING)
        / (matches[0][ngram] + matches[1][ngram] + 2 * SMOOTHING)
        for ngram in matches[0].keys() | matches[1].keys()
    }
    rows: list[list[Cell]] = []
    for system, sign in ((other, 1), (first, -1)):
        ranked = sorted(share, key=lambda ngram: (-sign * share[ngram], len(ngram), ngram))
        for ngram in ranked[:shown]:
            if sign * (share[ngram] - 0.5) <= 0:
                break
            numbers: list[Cell] = [
                counts[ngram] if len(subject.members) > 1 else int(counts[ngram])
                for subject, counts in zip((first, other), matches, strict=True)
            ]
            text = " ".join(map(_visible, ngram))
            rows.append([system.name, text, *numbers, expected[ngram], share[ngram]])
    columns = ["better", "n-gram", f"matches {first.name}", f"matches {other.name}"]
    columns += ["in references", f"share of {other.name}"]
    return Table(
        f"compare-ngrams{ending}",
        f"N-grams that {other.name} or {first.name} gets right more often",
        columns,
        rows,
        "N-grams of 1 to 4 words that match the reference, clipped by sentence; share = "
        f"(matches + 1) / (matches of both + 2), as compare-mt ranks them.{study.words.note}",
    )


def _visible(word: str) -> str:
    """Return a word, or its code points if nothing of it can be seen: U+200D.

    Some characters of emoji sequences are invisible, and segmentation can make them words.
    """
    if not all(map(_is_invisible, word)):
        return word
    return "U+" + "+".join(f"{ord(character):04X}" for character in word)


def _is_invisible(character: str) -> bool:
    is_selector = "\ufe00" <= character <= "\ufe0f"  # selects how the one before it looks
    return is_selector or unicodedata.category(character) in INVISIBLE


def ngram_matches(study: Study, subject: Subject) -> defaultdict[Ngram, float]:
    """Count the n-grams of a system that match a reference of their line, averaged over seeds."""
    total: Counter[Ngram] = Counter()
    limits = [_limits(references) for references in study.text.words_of_references]
    for member in subject.members:
        for words, most in zip(member.hypothesis_words, limits, strict=True):
            total.update(_all_ngrams(words) & most)
    number = len(subject.members)
    return defaultdict(float, {ngram: count / number for ngram, count in total.items()})


def _limits(references: Sequence[Sequence[str]]) -> Counter[Ngram]:
    """Return how often each n-gram can match: its largest count in any one reference."""
    most: Counter[Ngram] = Counter()
    for words in references:
        most |= _all_ngrams(words)
    return most


def _all_ngrams(words: Sequence[str]) -> Counter[Ngram]:
    return Counter(chain(*(ngrams(words, order) for order in range(1, MAX_ORDER + 1))))
