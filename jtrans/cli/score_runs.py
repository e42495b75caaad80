"""`jtrans score RUN...`: translate a split with each run, unless that is kept, and score it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.cli.score_report import Band, Report

if TYPE_CHECKING:
    from jtrans.decoding.options import SearchOptions
    from jtrans.decoding.stored import SplitTranslation
    from jtrans.decoding.translator import Translator
    from jtrans.evaluation.systems import System, SystemScores
    from jtrans.progress import Progress
    from jtrans.runs import Run


@dataclass(frozen=True)
class HowToTranslate:
    """The options of the command that decide translations; None leaves it to the run."""

    checkpoint: str
    search: dict[str, Any]
    device: str | None
    precision: str
    batch_tokens: int | None

    def options(self, run: Run) -> SearchOptions:
        """Return the search options for a run."""
        from jtrans.cli.decoding_options import search_options

        return search_options(run, **self.search)

    def load(self, run: Run) -> Translator:
        """Load the run's model."""
        from jtrans.cli.decoding_options import load_translator

        return load_translator(
            [run],
            self.options(run),
            checkpoint=self.checkpoint,
            device=self.device,
            precision=self.precision,
            batch_tokens=self.batch_tokens,
        )


def score_runs(
    runs: Sequence[Run],
    split: str,
    metrics: Sequence[str],
    how: HowToTranslate,
    *,
    data: Path | None,
    lowercase: bool | None,
    progress: Progress,
) -> Report:
    """Score the translations of a split by some runs.

    Args:
        runs: the first one is the baseline.
        split: of the prepared corpus, which must hold the same text for all runs; all its
            references are used.
        metrics: out of `ALL_METRICS`.
        how: checkpoint and search.
        data: a prepared corpus to use instead of the one each run was trained on.
        lowercase: compare without case; None: when a run writes lower case.
        progress: told how far translating is.

    Raises:
        CorpusError: no corpus, no such split, different texts or references.
    """
    from jtrans.analysis.study.study import all_but_seed, open_corpus, shared_lines
    from jtrans.evaluation.systems import compare_systems, group_by_seed, score_systems

    corpora = [open_corpus(run, data) for run in runs]
    source, references = shared_lines(runs, corpora, split)
    for run in runs:
        how.options(run)  # refuse before the first minute of work
        run.checkpoint(how.checkpoint)
    if lowercase is None:
        lowercase = any(run.pipeline.target.lowercase for run in runs)
    names = _names([run.name for run in runs], [str(run.folder) for run in runs])
    translations = [_translate(run, split, source, how, progress) for run in runs]
    systems = [
        _system(name, run, translation, references)
        for name, run, translation in zip(names, runs, translations, strict=True)
    ]
    choices: dict[str, Any] = {
        "metrics": metrics,
        "target_language": runs[0].pipeline.target.language,
        "lowercase": lowercase,
    }
    scores = score_systems(systems, references, **choices)
    facts = {
        name: _facts(run, split, translation)
        for name, run, translation in zip(names, runs, translations, strict=True)
    }
    return Report(
        metrics,
        scores,
        facts,
        compare_systems(systems, references, **choices),
        group_by_seed(scores, [all_but_seed(run) for run in runs], metrics),
        _bands(runs, split, scores),
        len(references),
    )


def _translate(
    run: Run, split: str, source: Sequence[str], how: HowToTranslate, progress: Progress
) -> SplitTranslation:
    from jtrans.decoding.stored import translate_split

    return translate_split(
        run,
        split,
        source,
        how.options(run),
        checkpoint=how.checkpoint,
        precision=how.precision,
        load=lambda: how.load(run),
        progress=progress,
    )


def _system(
    name: str, run: Run, translation: SplitTranslation, references: Sequence[Sequence[str]]
) -> System:
    from jtrans.evaluation.systems import System

    segment = run.pipeline.target.segment
    reference_words = [[segment(line) for line in lines] for lines in references]
    return System(name, translation.lines, translation.words, reference_words)


def _facts(run: Run, split: str, translation: SplitTranslation) -> dict[str, Any]:
    return {
        "parameters": run.info.get("parameters"),
        "tokens_per_second": translation.tokens_per_second,
        "checkpoint": translation.checkpoint,
        "split": split,
        "sentences": len(translation.lines),
    }


def _names(names: Sequence[str], folders: Sequence[str]) -> list[str]:
    """Return the names, or the folders where names repeat."""
    return list(names if len(set(names)) == len(names) else folders)


def _bands(runs: Sequence[Run], split: str, scores: Sequence[SystemScores]) -> list[Band]:
    from jtrans.models.zoo import system_configs

    bands = []
    for run, system in zip(runs, scores, strict=True):
        expected = run.config(system_configs()).expect.get(split)
        computed = [*system.scores, *(["multi-bleu"] if system.multi_bleu else [])]
        if expected is not None and expected.metric in computed:
            value = system.value(expected.metric)
            bands.append(Band(system.name, expected.metric, expected.low, expected.high, value))
    return bands
