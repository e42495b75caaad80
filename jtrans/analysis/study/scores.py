"""The scores of runs and of whole studies, both by `jtrans.evaluation.systems.evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from jtrans.analysis.study.load import seed_group_names, seed_groups
from jtrans.analysis.study.members import FileMember, Member
from jtrans.analysis.study.study import Study
from jtrans.analysis.study.words import is_same_segmentation
from jtrans.evaluation.sentence_scores import SentenceScores
from jtrans.evaluation.systems import ALL_METRICS, Evaluation, SystemOutput, evaluate
from jtrans.text.pipeline import TextSide


def score_runs(
    members: Sequence[Member],
    metrics: Sequence[str],
    lowercase: bool | None = None,
    tokenizer: str | None = None,
    sentence_scores: Sequence[SentenceScores] = (),
) -> Evaluation:
    """Score every member, multi-bleu on its own words, and compare every system with the first.

    The seeds of a system with one search are a group; a run has the mean over its window.

    Args:
        members: of `open_members`, `open_searches` or `open_windows`, the baseline first; all
            references of their text are used.
        metrics: names in `TITLES`.
        lowercase: compare without case; None: if a run writes lower case.
        tokenizer: of BLEU, one of sacreBLEU's; None: that of the target language.
        sentence_scores: given scores in other metrics.

    Raises:
        JtransError: a run that cannot translate, or an empty split.
    """
    references = members[0].text.references
    lowercase = members[0].words.lowercase if lowercase is None else lowercase
    systems = _system_of_each_run(members)
    outputs, segmented = [], _segmenting(references)
    for member in members:
        group = systems[member.run_name] + member.search
        output = _output(member, group, segmented, lowercase=lowercase)
        outputs.append(replace(output, run=member.run_name + member.search))
        member.release_model()
    return evaluate(
        outputs,
        references,
        metrics=metrics,
        target_language=members[0].run.pipeline.target.language,
        lowercase=lowercase,
        tokenizer=tokenizer,
        sentence_scores=sentence_scores,
    )


def _system_of_each_run(members: Sequence[Member]) -> dict[str, str]:
    """Return the names of the systems by those of their runs."""
    runs = {member.run_name: replace(member, name=member.run_name) for member in members}
    groups = seed_groups(list(runs.values()))
    return {
        member.name: name
        for name, group in zip(seed_group_names(groups), groups, strict=True)
        for member in group
    }


def score_subjects(study: Study) -> Evaluation:
    """Score the systems of a study, multi-bleu on each run's own words, seeds together.

    Files have no multi-bleu: it is for segmented text, and theirs is raw.
    The groups have the order and the names of the study's subjects.
    """
    segmented = _segmenting(study.text.references)
    return evaluate(
        [
            _output(member, subject.name, segmented, lowercase=study.lowercase)
            for subject in study.subjects
            for member in subject.members
        ],
        study.text.references,
        metrics=ALL_METRICS,
        target_language=study.target_language,
        lowercase=study.lowercase,
    )


def _segmenting(
    references: Sequence[Sequence[str]],
) -> Callable[[TextSide], list[list[list[str]]]]:
    """Return a function that segments the references, once for all sides that segment alike."""
    known: list[tuple[TextSide, list[list[list[str]]]]] = []

    def segmented(side: TextSide) -> list[list[list[str]]]:
        for other, words in known:
            if is_same_segmentation(side, other):
                return words
        words = [[side.segment(line) for line in lines] for lines in references]
        known.append((side, words))
        return words

    return segmented


def _output(
    member: Member | FileMember,
    group: str,
    segmented: Callable[[TextSide], list[list[list[str]]]],
    *,
    lowercase: bool,
) -> SystemOutput:
    """Return a member's translations for scoring; those of a file have no words of their own."""
    if isinstance(member, FileMember):
        return SystemOutput(member.name, member.hypotheses, None, (), group)
    side, words = member.run.pipeline.target, member.translation.words
    reference_words = segmented(side)
    if lowercase:
        # multi-bleu.perl folds A to Z only, but the pipeline of a lower-cased run all letters
        words = _lower(words)
        reference_words = [_lower(lines) for lines in reference_words]
    run = str(member.run.folder)
    return SystemOutput(member.name, member.hypotheses, words, reference_words, group, trained=run)


def _lower(lines: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[word.lower() for word in line] for line in lines]
