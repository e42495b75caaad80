"""The scores of runs and of whole studies, both by `jtrans.evaluation.systems.evaluate`."""

from __future__ import annotations

from collections.abc import Sequence

from jtrans.analysis.study.load import all_but_seed, seed_group_names
from jtrans.analysis.study.members import Member
from jtrans.analysis.study.study import Study
from jtrans.evaluation.systems import ALL_METRICS, Evaluation, SystemOutput, evaluate


def score_runs(
    members: Sequence[Member], metrics: Sequence[str], lowercase: bool | None = None
) -> Evaluation:
    """Score every run, multi-bleu on its own words, and compare systems with the first one's.

    Args:
        members: the runs, the baseline first; all references of their text are used.
        metrics: out of `ALL_METRICS`.
        lowercase: compare without case; None: if a run writes lower case.

    Raises:
        JtransError: a run that cannot translate, or an empty split.
    """
    sides = [member.run.pipeline.target for member in members]
    keys = [all_but_seed(member.run) for member in members]
    groups = [
        [member for member, other in zip(members, keys, strict=True) if other == key]
        for key in dict.fromkeys(keys)
    ]
    names = dict(zip(dict.fromkeys(keys), seed_group_names(groups), strict=True))
    references = members[0].text.references
    return evaluate(
        [
            SystemOutput(
                member.name,
                member.hypotheses,
                member.translation.words,
                [[side.segment(line) for line in lines] for lines in references],
                names[key],
            )
            for member, side, key in zip(members, sides, keys, strict=True)
        ],
        references,
        metrics=metrics,
        target_language=sides[0].language,
        lowercase=any(side.lowercase for side in sides) if lowercase is None else lowercase,
    )


def score_subjects(study: Study) -> Evaluation:
    """Score the systems of a study, multi-bleu on the study's words, seeds together.

    The groups have the order and the names of the study's subjects.
    """
    words = [list(column) for column in zip(*study.text.words_of_references, strict=True)]
    return evaluate(
        [
            SystemOutput(
                member.name, member.hypotheses, member.hypothesis_words, words, subject.name
            )
            for subject in study.subjects
            for member in subject.members
        ],
        study.text.references,
        metrics=ALL_METRICS,
        target_language=study.target_language,
        lowercase=study.lowercase,
    )
