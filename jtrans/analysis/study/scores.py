"""The scores of runs and of whole studies, both by `jtrans.evaluation.systems.evaluate`."""

from __future__ import annotations

from collections.abc import Sequence

from jtrans.analysis.study.load import all_but_seed, seed_group_names
from jtrans.analysis.study.members import FileMember, Member
from jtrans.analysis.study.study import Study
from jtrans.evaluation.systems import ALL_METRICS, Evaluation, SystemOutput, evaluate


def score_runs(
    members: Sequence[Member], metrics: Sequence[str], lowercase: bool | None = None
) -> Evaluation:
    """Score every run, multi-bleu on its own words, and compare systems with the first one's.

    Args:
        members: the runs, the baseline first; all references of their text are used.
        metrics: names out of `ALL_METRICS`.
        lowercase: compare without case; None: if a run writes lower case.

    Raises:
        JtransError: a run that cannot translate, or an empty split.
    """
    keys = [all_but_seed(member.run) for member in members]
    groups = [
        [member for member, other in zip(members, keys, strict=True) if other == key]
        for key in dict.fromkeys(keys)
    ]
    names = dict(zip(dict.fromkeys(keys), seed_group_names(groups), strict=True))
    return _evaluate(members, [names[key] for key in keys], metrics, lowercase)


def score_windows(
    members: Sequence[Member], metrics: Sequence[str], lowercase: bool | None = None
) -> Evaluation:
    """Score every checkpoint of the runs' windows; the checkpoints of a run are one group.

    The arguments are those of `score_runs`, with the members of `open_windows`.
    """
    groups = [member.name.rpartition("@")[0] for member in members]
    return _evaluate(members, groups, metrics, lowercase)


def _evaluate(
    members: Sequence[Member], groups: Sequence[str], metrics: Sequence[str], lowercase: bool | None
) -> Evaluation:
    references = members[0].text.references
    return evaluate(
        [_output(member, references, name) for member, name in zip(members, groups, strict=True)],
        references,
        metrics=metrics,
        target_language=members[0].run.pipeline.target.language,
        lowercase=members[0].words.lowercase if lowercase is None else lowercase,
    )


def score_subjects(study: Study) -> Evaluation:
    """Score the systems of a study, multi-bleu on each run's own words, seeds together.

    The groups have the order and the names of the study's subjects.
    """
    return evaluate(
        [
            _output(member, study.text.references, subject.name)
            for subject in study.subjects
            for member in subject.members
        ],
        study.text.references,
        metrics=ALL_METRICS,
        target_language=study.target_language,
        lowercase=study.lowercase,
    )


def _output(
    member: Member | FileMember, references: Sequence[Sequence[str]], group: str
) -> SystemOutput:
    """Return a member's translations for scoring; those of a file have the words of the study."""
    if isinstance(member, Member):
        side, words = member.run.pipeline.target, member.translation.words
    else:
        side = member.words.target
        words = [side.segment(line) for line in member.hypotheses]
    reference_words = [[side.segment(line) for line in lines] for lines in references]
    return SystemOutput(member.name, member.hypotheses, words, reference_words, group)
