"""Scores of translations in files, of any tool."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jtrans.analysis.study.aligned import read_aligned
from jtrans.cli import console
from jtrans.cli.score.report import ScoreReport
from jtrans.evaluation.leftovers import (
    check_hypothesis,
    check_plain_text,
    empty_references_warning,
    unsegmented_warning,
)
from jtrans.evaluation.names import check_references, distinct_names
from jtrans.evaluation.sentences import ScoredText
from jtrans.evaluation.systems import MULTI_BLEU, SystemOutput, evaluate
from jtrans.evaluation.target import find_target
from jtrans.files import as_text
from jtrans.text.language import split_languages

if TYPE_CHECKING:
    from jtrans.cli.score.options import ScoreOptions


def score_files(options: ScoreOptions) -> ScoreReport:
    """Score the files of --hyp against those of --ref.

    Raises:
        JtransError: a file cannot be read, does not have as many lines as the references, or has
            subword pieces or escaped characters without --as-is.
    """
    metrics, given = options.metrics("bleu,chrf,ter"), options.given_scores()
    hyp, ref = options.hyp or [], options.ref or []
    warnings = [check_references(list(map(Path, ref)), list(map(Path, hyp)))]
    source = [options.src] if options.src else []
    texts = read_aligned([*ref, *source, *hyp], source=len(ref) if source else None)
    references, hypotheses = texts[: len(ref)], texts[-len(hyp) :]
    language = None if options.languages is None else split_languages(options.languages)[1]
    target = find_target(
        language, [*ref, *hyp], [*references, *hypotheses], tokenizer=options.tokenize
    )
    if not options.as_is:
        warnings += [check_plain_text(*text) for text in zip(ref, references, strict=True)]
    warnings.append(empty_references_warning(references))
    lowercase, as_is = bool(options.lowercase), options.as_is
    for name, lines in zip(hyp, hypotheses, strict=True):
        warnings += check_hypothesis(name, lines, references, lowercase=lowercase, as_is=as_is)
    if MULTI_BLEU in metrics:
        by_name = dict(zip([*ref, *hyp], [*references, *hypotheses], strict=True))
        warnings.append(unsegmented_warning(target.language, by_name))
    names = distinct_names([as_text(Path(name).name) for name in hyp], [Path(name) for name in hyp])
    has_words = MULTI_BLEU in metrics
    words = [_split(lines) for lines in references] if has_words else []
    outputs = [
        SystemOutput(name, lines, _split(lines) if has_words else None, words)
        for name, lines in zip(names, hypotheses, strict=True)
    ]
    evaluation = evaluate(
        outputs,
        references,
        metrics=metrics,
        target_language=target.language,
        lowercase=lowercase,
        tokenizer=options.tokenize,
        sentence_scores=given,
    )
    console.talk(f"The {target.describe()}")
    systems = dict(zip(names, hypotheses, strict=True))
    text = ScoredText(systems, references, target.language, lowercase, options.tokenize, given)
    return ScoreReport(evaluation, target, text, other_warnings=[*filter(None, warnings)])


def _split(lines: Sequence[str]) -> list[list[str]]:
    """Split at ASCII white space only, as multi-bleu.perl does."""
    return [[word.decode() for word in line.encode().split()] for line in lines]
