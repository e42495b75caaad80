"""Scores of runs on a split, compared with what their recipes expect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.cli import console
from jtrans.cli.score.report import Band, ScoreReport
from jtrans.errors import CorpusError
from jtrans.evaluation.leftovers import reference_warnings
from jtrans.evaluation.scores import tokenizer_name
from jtrans.evaluation.sentences import ScoredText
from jtrans.evaluation.systems import Evaluation
from jtrans.evaluation.target import TargetLanguage
from jtrans.runs import WINDOW

if TYPE_CHECKING:
    from jtrans.analysis.study.members import Member
    from jtrans.cli.score.output import TranslationFolder
    from jtrans.config import Config
    from jtrans.decoding.options import DecodingChoices
    from jtrans.evaluation.sentence_scores import SentenceScores
    from jtrans.runs import Run


def report_on_runs(
    runs: Sequence[Run],
    split: str,
    metrics: Sequence[str],
    decoding: DecodingChoices,
    *,
    data: Path | None = None,
    lowercase: bool | None = None,
    tokenizer: str | None = None,
    searches: Mapping[str, DecodingChoices] | None = None,
    sentence_scores: Sequence[SentenceScores] = (),
    output: TranslationFolder | None = None,
) -> ScoreReport:
    """Score runs on a split, with cached translations where possible.

    Args:
        runs: the runs, the baseline first.
        split: the split, which must have the same text for all runs; all references are used.
        metrics: names in `TITLES`.
        decoding: the search and the checkpoint; "window" for all checkpoints of a run's window.
        data: a prepared corpus to use instead of the one each run was trained on.
        lowercase: compare without case; None: if a run writes lower case.
        tokenizer: sacreBLEU's tokenizer for BLEU; None: that of the target language.
        searches: several searches instead of that of `decoding`, by suffix of the systems' names.
        sentence_scores: given scores in other metrics.
        output: where to write the translations.

    Raises:
        JtransError: no corpus, no such split, different texts or references, no checkpoint, or
            translations that cannot be written.
    """
    from jtrans.analysis.study.load import case_warnings
    from jtrans.analysis.study.scores import score_runs

    members = _opened(runs, split, decoding, data, searches or {})
    if output:
        output.paths(members)  # checked before anything is translated
    evaluation = score_runs(members, metrics, lowercase, tokenizer, sentence_scores)
    if output:
        output.write(members)
    details = [_details(member) for member in members]
    used = members[0].words.lowercase if lowercase is None else lowercase
    warnings = reference_warnings(members[0].text.references)
    warnings += case_warnings(members, lowercase=used)
    warnings += _add_tag_scores(members, details)
    language = members[0].run.pipeline.target.language
    target = TargetLanguage(language, "the runs' corpus", chosen=tokenizer)
    text = ScoredText(
        {member.name: member.hypotheses for member in members},
        members[0].text.references,
        language,
        used,
        tokenizer,
        sentence_scores,
    )
    if searches:  # expected scores are of a single search
        if split != "valid":
            warnings.append(
                f"a search that is chosen on {split} is fitted to it: choose with --split valid"
            )
        return ScoreReport(evaluation, target, text, details, other_warnings=warnings)
    is_window = decoding.checkpoint == WINDOW
    bands, unchecked = _bands(members, evaluation, used, tokenizer, is_window=is_window)
    return ScoreReport(evaluation, target, text, details, bands, unchecked, warnings)


def _opened(
    runs: Sequence[Run],
    split: str,
    decoding: DecodingChoices,
    data: Path | None,
    searches: Mapping[str, DecodingChoices],
) -> list[Member]:
    """Return what is scored: each run, or each of its searches or checkpoints."""
    from jtrans.analysis.study.load import open_members, open_searches, open_windows

    if searches:
        for each in searches.values():
            each.check(runs)
        return open_searches(runs, split, searches, data, _Bar())
    open_all = open_windows if decoding.checkpoint == WINDOW else open_members
    return open_all(runs, split, decoding, data, _Bar())


class _Bar(console.TerminalProgress):
    """A progress bar that does not announce every model that is loaded."""

    def say(self, label: str, text: str) -> None:
        """Show nothing."""


def _details(member: Member) -> dict[str, Any]:
    return {
        "parameters": member.run.info.get("parameters"),
        "frozen_parameters": member.run.info.get("frozen_parameters") or None,
        "tokens_per_second": member.translation.tokens_per_second,
        "checkpoint": member.checkpoint.name,
        "split": member.text.split,
        "sentences": len(member.hypotheses),
    }


def _add_tag_scores(members: Sequence[Member], details: Sequence[dict[str, Any]]) -> list[str]:
    """Add tagging scores to the details of runs that tag; return warnings."""
    from jtrans.analysis.study.tagging import tagging_scores

    warnings = []
    for member, detail in zip(members, details, strict=True):
        try:
            scores = {score.kind: score for score in tagging_scores(member)}
        except CorpusError as error:
            if error.kind != "corpus.other-labels":
                raise
            warnings.append(f"tags are not scored: {error.message}")
            continue
        if scores:
            detail["tagging"] = {kind: asdict(score) for kind, score in scores.items()}
            detail["pos_accuracy"] = scores["pos"].accuracy if "pos" in scores else None
            detail["entity_f1"] = scores["ner"].f1 if "ner" in scores else None
    return warnings


def _bands(
    members: Sequence[Member],
    evaluation: Evaluation,
    lowercase: bool,
    tokenizer: str | None,
    *,
    is_window: bool,
) -> tuple[list[Band], list[str]]:
    """Compare the score of every run, or the mean of its window, with what its recipe expects.

    Returns:
        The comparisons, and why others were not made.
    """
    from jtrans.models.zoo import system_configs

    by_name = {member.name: member for member in members}
    bands, unchecked = [], []
    for group in [run for seeds in evaluation.groups for run in seeds.runs]:
        member = by_name[group.names[0]]
        config = member.run.config(system_configs())
        trained_on = member.run.info.get("corpus")
        if config.expect and config.data.corpus not in (None, trained_on):
            other = f"it is for {config.data.corpus}, not {trained_on or 'an unnamed corpus'}"
            unchecked.append(f"{group.name}: expected range not checked: {other}")
            continue
        reasons = [
            f"it is for the split {split}, which the corpus does not have"
            for split in config.expect
            if split not in member.corpus.splits
        ]
        expected = config.expect.get(member.text.split)
        if expected is not None:
            others = _other_settings(
                member, config, expected.checkpoint, lowercase, is_window=is_window
            )
            others += _other_training([by_name[name].run for name in group.names])
            usual = tokenizer_name(member.run.pipeline.target.language)
            if expected.metric == "bleu" and tokenizer not in (None, usual):
                others.append(f"it is for the tokenizer {usual}, not {tokenizer}")
            if not others and expected.text not in (None, _digest(member)):
                others.append(
                    f"it is for other text of {member.corpus.name}, or another way to prepare it"
                )
            if expected.metric not in evaluation.metrics:
                others.append(f"it is for {expected.metric}, which --metric leaves out")
            reasons += others
            if not others:
                value = group.mean(expected.metric)
                bands.append(Band(group.name, expected.metric, expected.low, expected.high, value))
        unchecked += [f"{group.name}: expected range not checked: {reason}" for reason in reasons]
    return bands, unchecked


def _other_training(runs: Sequence[Run]) -> list[str]:
    """Return in words how the training of runs differs from that of their recipe."""
    reasons = []
    if any(run.has_finished() is False for run in runs):
        reasons.append("its training is not finished")
    if any(run.began_with for run in runs):
        reasons.append("its training began with the weights of another run")
    if changed := {key for run in runs for key in run.changed_settings}:
        reasons.append(f"during its training these changed: {', '.join(sorted(changed))}")
    return reasons


def _digest(member: Member) -> str | None:
    """Return the digest of the training text, the scored split and the text pipeline."""
    from jtrans.data.prepared import digest_of

    try:
        return digest_of(member.corpus.digests(), member.text.split)
    except KeyError:  # prepared by a version that did not record digests
        return None


def _other_settings(
    member: Member,
    config: Config,
    checkpoint: str,
    lowercase: bool,
    *,
    is_window: bool,
) -> list[str]:
    """Return in words how the scoring of a run differs from that of its recipe."""
    from jtrans.decoding.options import SearchOptions

    usual, used = SearchOptions.from_config(config), member.decoding.search_options(member.run)
    reasons = [
        f"it is for {name.replace('_', ' ')} {value}, not {vars(used)[name]}"
        for name, value in asdict(usual).items()
        if vars(used)[name] != value
    ]
    used_checkpoint = member.run.chosen or member.decoding.checkpoint
    if is_window:
        used_checkpoint = "the mean of a window"
    if used_checkpoint != checkpoint and not (is_window and checkpoint == "best"):
        reasons.append(f"it is for the checkpoint {checkpoint}, not {used_checkpoint}")
    if config.data.corpus not in (None, member.corpus.name):  # by --data
        reasons.append(f"it is for {config.data.corpus}, not {member.corpus.name}")
    own = member.run.pipeline.target.lowercase
    if own != lowercase:
        reasons.append(f"it is for {'lower-cased' if own else 'cased'} text")
    return reasons
