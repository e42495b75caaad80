"""The scores of runs and of whole studies, both by `jtrans.evaluation.systems.evaluate`."""

from __future__ import annotations

from collections.abc import Sequence

from jtrans.analysis.study.load import all_but_seed
from jtrans.analysis.study.members import Member
from jtrans.analysis.study.study import Study
from jtrans.evaluation.systems import ALL_METRICS, Evaluation, SystemOutput, evaluate


def score_runs(
    members: Sequence[Member], metrics: Sequence[str], lowercase: bool | None = None
) -> Evaluation:
    """Score every run separately, multi-bleu on its own words, and compare it with the first.

    Args:
        members: the runs, the baseline first; all references of their text are used.
        metrics: out of `ALL_METRICS`.
        lowercase: compare without case; None: if a run writes lower case.

    Raises:
        JtransError: a run that cannot translate, or an empty split.
    """
    sides = [member.run.pipeline.target for member in members]
    references = members[0].text.references
    return evaluate(
        [
            SystemOutput(
                member.name,
                member.hypotheses,
                member.translation.words,
                [[side.segment(line) for line in lines] for lines in references],
                all_but_seed(member.run),
            )
            for member, side in zip(members, sides, strict=True)
        ],
        references,
        metrics=metrics,
        target_language=sides[0].language,
        lowercase=any(side.lowercase for side in sides) if lowercase is None else lowercase,
    )


def score_subjects(study: Study) -> Evaluation:
    """Score the systems of a study, multi-bleu on the study's words, seeds together.

    The systems have the order and the names of the study's subjects; of several seeds, the first
    is compared.
    """
    words = [list(column) for column in zip(*study.text.words_of_references, strict=True)]
    return evaluate(
        [
            SystemOutput(
                subject.name, member.hypotheses, member.hypothesis_words, words, str(subject.index)
            )
            for subject in study.subjects
            for member in subject.members
        ],
        study.text.references,
        metrics=ALL_METRICS,
        target_language=study.target_language,
        lowercase=study.lowercase,
        compare_seeds=False,
    )
