"""`jtrans score`: how good translations are, and how probable a run finds given ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

from jtrans.cli import console
from jtrans.cli.decoding_options import DecodingOptions
from jtrans.cli.options import JSON, argument, data_option, flag, grouped, option, split_option
from jtrans.errors import EXIT_CHECK_FAILED, ConfigError, CorpusError

if TYPE_CHECKING:
    from jtrans.cli.score_report import ScoreReport
    from jtrans.decoding.options import DecodingChoices
    from jtrans.runs import Run

FORCE, FILES = "Given translations", "Files"
METRICS = "bleu,chrf,ter,multi-bleu"
_SEVERAL = ("--hyp", "--ref")


class Command(TyperCommand):
    """The command, with several values after one --hyp or --ref."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Turn ``--hyp A B`` into ``--hyp A --hyp B``, then parse as usual."""
        repeated: list[str] = []
        several = None
        for number, word in enumerate(args):
            if word.startswith("-"):
                several = word if word in _SEVERAL else None
            elif several and args[number - 1] != several:
                repeated.append(several)
            repeated.append(word)
        return super().parse_args(ctx, repeated)


@grouped()
def score(
    *,
    runs: list[str] | None = argument("RUN", "Runs; the first is the baseline.", default=None),
    split: str = split_option(),
    metric: str | None = option("Which scores.", "NAME,...", f"{METRICS}; files: no multi-bleu"),
    data: Path | None = data_option(),
    lowercase: bool | None = flag(
        "--lowercase/--cased",
        "Compare without case.",
        shown="as the run writes; files: cased",
    ),
    force: str | None = option(
        "Translations whose probability the run gives, line by line.", "FILE", panel=FORCE
    ),
    src: str | None = option("Their source lines; with --hyp only counted.", "FILE", panel=FORCE),
    hyp: list[str] | None = option("Translations, a file a system.", "FILE...", panel=FILES),
    ref: list[str] | None = option("References, a file a set.", "FILE...", panel=FILES),
    languages: str | None = option(
        "The target chooses sacreBLEU's tokenizer.",
        "SOURCE-TARGET",
        "the ending of the reference file",
        FILES,
    ),
    decoding: DecodingOptions,
    as_json: bool = JSON,
) -> None:
    """Score translations: of runs on a test set, or of files.

    Several systems are compared with the first one by paired bootstrap.

    [bold]Examples[/bold]

        jtrans score runs/base runs/fast

        jtrans score --hyp a.en b.en --ref test.en

        jtrans score @last --force a.en --src test.de --json
    """
    from jtrans.runs import find_run

    mode = _mode(runs, force, src, hyp, ref)
    if mode == "files":
        _show(_score_files(hyp or [], ref or [], src, languages, metric, lowercase), as_json)
        return
    opened = [find_run(name) for name in runs or []]
    choices = decoding.choices()
    if mode == "force":
        _score_given(opened[0], choices, str(force), str(src), as_json)
        return
    from jtrans.cli.score_report import report_on_runs

    metrics = _metrics(metric, METRICS)
    report = report_on_runs(opened, split, metrics, choices, data=data, lowercase=lowercase)
    _show(report, as_json)


def _mode(
    runs: Sequence[str] | None,
    force: str | None,
    src: str | None,
    hyp: Sequence[str] | None,
    ref: Sequence[str] | None,
) -> str:
    """Return which of the three uses this is; their options do not mix."""
    fault = hint = None
    if hyp or ref:
        if not (hyp and ref):
            fault, hint = "--hyp and --ref belong together", "--hyp FILE --ref FILE"
        elif runs or force:
            fault = "runs and files of translations cannot be scored together"
            hint = "jtrans translate RUN --output FILE makes a file of a run's translations"
        mode = "files"
    elif not runs:
        fault, hint = "nothing to score", "jtrans score RUN, or --hyp FILE --ref FILE"
        mode = "runs"
    elif force or src:
        if not (force and src):
            fault, hint = "--force and --src belong together", "--force HYPOTHESES --src SOURCE"
        elif len(runs) > 1:
            fault, hint = "--force takes one run", "run it once for each"
        mode = "force"
    else:
        mode = "runs"
    if fault:
        raise ConfigError(fault, hint=hint, kind="command.usage")
    return mode


def _metrics(chosen: str | None, default: str) -> list[str]:
    from jtrans.evaluation.systems import check_metrics

    names = (default if chosen is None else chosen).replace("_", "-").split(",")
    return check_metrics([name.strip().lower() for name in names])


def _score_files(
    hyp: Sequence[str],
    ref: Sequence[str],
    src: str | None,
    languages: str | None,
    metric: str | None,
    lowercase: bool | None,
) -> ScoreReport:
    from jtrans.cli.score_report import ScoreReport
    from jtrans.evaluation.systems import SystemOutput, evaluate

    metrics = _metrics(metric, "bleu,chrf,ter")
    language = _target_language(languages, ref[0])
    references = [_lines(name) for name in ref]
    for name, lines in zip(ref[1:], references[1:], strict=True):
        _check_count(name, lines, ref[0], references[0])
    if src is not None:
        _check_count(src, _lines(src), ref[0], references[0])
    names = [Path(name).name for name in hyp]
    names = names if len(set(names)) == len(names) else list(hyp)
    words = [[line.split() for line in lines] for lines in references]
    outputs = []
    for name, path in zip(names, hyp, strict=True):
        lines = _lines(path)
        _check_count(path, lines, ref[0], references[0])
        outputs.append(SystemOutput(name, lines, [line.split() for line in lines], words))
    evaluation = evaluate(
        outputs,
        references,
        metrics=metrics,
        target_language=language,
        lowercase=bool(lowercase),
    )
    return ScoreReport(evaluation)


def _lines(name: str) -> list[str]:
    from jtrans.corpora.lines import read_line_file

    lines = read_line_file(Path(name))
    if not lines:
        raise CorpusError(
            f"{name} is empty", hint="name a file with one line per sentence", kind="corpus.empty"
        )
    return lines


def _check_count(name: str, lines: Sequence[str], other: str, others: Sequence[str]) -> None:
    if len(lines) != len(others):
        raise CorpusError(
            f"{name} has {len(lines):,} lines, {other} has {len(others):,}",
            hint="line n of every file must belong to the same sentence",
            kind="corpus.line-counts",
        )


def _target_language(languages: str | None, reference: str) -> str:
    """Return the language named, or the ending of the reference file, or English."""
    if languages is None:
        ending = Path(reference.removesuffix(".gz")).suffix.removeprefix(".")
        return ending if re.fullmatch("[a-z]{2}", ending) else "en"
    source, dash, target = languages.partition("-")
    if not (source and dash and target):
        raise ConfigError(
            f"languages {languages!r} are no pair", where="--languages", hint="--languages de-en"
        )
    return target


def _show(report: ScoreReport, as_json: bool) -> None:
    if as_json:
        console.print_json(report.to_json())
    else:
        report.print()
    missed = [band for band in report.bands if not band.is_held]
    for band in missed:
        console.warn(
            f"{band.system}: {band.metric} {band.value:.2f} is outside the expected "
            f"{band.low} to {band.high}"
        )
    if missed:
        raise typer.Exit(EXIT_CHECK_FAILED)


def _score_given(run: Run, decoding: DecodingChoices, force: str, src: str, as_json: bool) -> None:
    """Print the log-probability of every given translation and of each of its tokens."""
    targets, sources = _lines(force), _lines(src)
    _check_count(force, targets, src, sources)
    decoding.check([run])
    from jtrans.decoding.translator import Translator

    translator = Translator.load([run], decoding)
    scored = translator.teacher_forced_scores(sources, targets, console.TerminalProgress())
    if as_json:
        sentences = [
            {
                "id": number,
                "log_prob": sum(sentence.token_log_probs),
                "tokens": sentence.tokens,
                "token_log_probs": sentence.token_log_probs,
            }
            for number, sentence in enumerate(scored)
        ]
        console.print_json({"sentences": sentences})
        return
    for sentence in scored:
        pairs = zip(sentence.tokens, sentence.token_log_probs, strict=True)
        tokens = " ".join(f"{token}:{value:.4f}" for token, value in pairs)
        print(f"{sum(sentence.token_log_probs):.4f}\t{tokens}")
