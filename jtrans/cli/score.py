"""`jtrans score`: scores of translations, and a run's probabilities of given translations."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from jtrans.cli import console
from jtrans.cli.options import (
    JSON,
    SEARCH,
    CheckedCommand,
    DecodingOptions,
    argument,
    data_option,
    flag,
    grouped,
    option,
    option_group,
    split_option,
)
from jtrans.errors import EXIT_CHECK_FAILED, lines_of, usage_error

if TYPE_CHECKING:
    from jtrans.cli.score_report import ScoreReport
    from jtrans.decoding.options import DecodingChoices
    from jtrans.runs import Run

FORCE, FILES = "Given translations", "Files"
METRICS = "bleu,chrf,ter,multi-bleu"
_SEVERAL = ("--hyp", "--ref")
# which options each of the three uses of the command does not read
_TEXT = ("languages", "as_is")
_SEARCH = ("beam", "length_penalty", "length_penalty_form", "max_length", "batch_tokens")
_SCORES = ("metric", "lowercase", "tokenize", "latex", "sweep")
_MODEL = ("checkpoint", "device", "precision")
UNUSED = {
    "on the scores of runs": _TEXT,
    "with --force": (*_TEXT, *_SEARCH, *_SCORES, "split", "data"),
    "with --hyp and --ref": (*_SEARCH, *_MODEL, "split", "data", "sweep"),
}


class Command(CheckedCommand):
    """The command, allowing several values after one --hyp or --ref."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Turn ``--hyp A B`` into ``--hyp A --hyp B``, then parse as usual."""
        repeated: list[str] = []
        several = None
        for number, word in enumerate(args):
            if word.startswith("-") and word != "-":
                name = word.partition("=")[0]
                several = name if name in _SEVERAL else None
            elif several and args[number - 1] != several:
                repeated.append(several)
            repeated.append(word)
        return super().parse_args(ctx, repeated)


@option_group
class ScoreOptions:
    """The input: runs on a test set, given translations for a run, or files."""

    runs: list[str] | None = argument("RUN", "Runs; the first is the baseline.", default=None)
    split: str = split_option()
    metric: str | None = option(
        "Metrics; also chrf++.", "NAME,...", f"{METRICS}; files: no multi-bleu"
    )
    data: Path | None = data_option()
    sweep: list[str] | None = option(
        "Score every run with each of these searches: beam=1,5,10 or length-penalty=0.6,1,1.4; "
        "may repeat.",
        "NAME=VALUE,...",
        panel=SEARCH,
    )
    lowercase: bool | None = flag(
        "--lowercase/--cased", "Compare without case.", shown="the run's case; files: cased"
    )
    tokenize: str | None = option(
        "Tokenizer of BLEU, by its name in sacreBLEU: 13a, intl, char, flores200, none.",
        "NAME",
        "that of the target language",
    )
    latex: bool = flag("--latex", "Print the table for a paper, in LaTeX.")
    force: str | None = option(
        "Print the run's log-probability of these translations, line by line; of JSON lines of "
        "jtrans translate, of all translations by their tokens.",
        "FILE",
        panel=FORCE,
    )
    src: str | None = option(
        "Source lines, or JSON lines with `source`; with --hyp only counted.", "FILE", panel=FORCE
    )
    hyp: list[str] | None = option(
        "Translations, one file per system; or JSON lines of jtrans translate.",
        "FILE...",
        panel=FILES,
    )
    ref: list[str] | None = option("References, one file per set.", "FILE...", panel=FILES)
    languages: str | None = option(
        "The target decides sacreBLEU's tokenizer.", "SOURCE-TARGET", "by the files' names", FILES
    )
    as_is: bool = flag("--as-is", "Score BPE pieces and escaped characters as they are.", FILES)

    def check(self) -> None:
        """Refuse a mixture of the three uses.

        Raises:
            ConfigError: options that cannot be combined, or nothing to score.
        """
        if self.hyp or self.ref:
            if not (self.hyp and self.ref):
                raise usage_error("--hyp and --ref must be given together", "--hyp FILE --ref FILE")
            if self.runs or self.force:
                raise usage_error(
                    "runs and files of translations cannot be scored together",
                    "jtrans translate RUN --output FILE writes a run's translations to a file",
                )
        elif self.force and not self.runs:
            raise usage_error(
                "--force needs a RUN, whose log-probabilities are printed",
                f"jtrans score RUN --force {shlex.quote(self.force)} --src SOURCE",
            )
        elif not self.runs:
            raise usage_error("nothing to score", "jtrans score RUN, or --hyp FILE --ref FILE")
        elif (self.force is None) != (self.src is None):
            raise usage_error(
                "--force and --src must be given together", "--force HYPOTHESES --src SOURCE"
            )
        elif self.force and len(self.runs) > 1:
            raise usage_error("--force takes a single run", "score each run separately")

    def refuse_unused(self, decoding: DecodingOptions) -> None:
        """Refuse options that another use of the command has.

        Raises:
            ConfigError: the first of them.
        """
        runs, force, files = UNUSED
        use = files if self.hyp else force if self.force else runs
        for name in UNUSED[use]:
            group: Any = self if name in vars(self) else decoding
            if getattr(group, name) != getattr(type(group), name):
                shown = "--lowercase/--cased" if name == "lowercase" else f"--{name}"
                shown = shown.replace("_", "-")
                raise usage_error(f"{shown} has no effect {use}", "leave it out")

    def metrics(self, default: str) -> list[str]:
        """Return the names of the metrics.

        Raises:
            JtransError: an unknown metric, or a tokenizer that cannot be used.
        """
        from jtrans.evaluation.systems import TITLES, check_metrics

        given = (default if self.metric is None else self.metric).replace("_", "-").split(",")
        names = [name.strip().lower() for name in given]
        by_title = {title.lower(): name for name, title in TITLES.items()}
        metrics = check_metrics([by_title.get(name, name) for name in names])
        if self.tokenize is not None:
            from jtrans.evaluation.scores import check_tokenizer

            if "bleu" not in metrics:
                raise usage_error(
                    "--tokenize has no effect without the metric bleu", "leave it out"
                )
            check_tokenizer(self.tokenize)
        return metrics


@grouped()
def score(options: ScoreOptions, decoding: DecodingOptions, as_json: bool = JSON) -> None:
    """Score translations: of runs on a test set, or of files.

    Several systems are compared with the first by paired bootstrap.
    --checkpoint window scores each checkpoint of the window that
    training.keep.window keeps: mean and standard deviation.

    [bold]Examples[/bold]

    jtrans score runs/base runs/fast

    jtrans score runs/base --split valid --sweep length-penalty=0.6,1,1.4

    jtrans score --hyp a.en b.en --ref test.en --latex

    jtrans score @last --force a.en --src test.de --json
    """
    from jtrans.runs import find_run

    options.check()
    options.refuse_unused(decoding)
    if as_json and options.latex:
        raise usage_error("--json and --latex exclude each other", "leave one of them out")
    if options.hyp:
        _show(_score_files(options), options, as_json)
        return
    opened = [find_run(name) for name in options.runs or []]
    choices = decoding.choices()
    if options.force:
        _score_given(opened[0], choices, options, as_json)
        return
    from jtrans.cli.score_report import report_on_runs
    from jtrans.decoding.sweep import swept_searches

    report = report_on_runs(
        opened,
        options.split,
        options.metrics(METRICS),
        choices,
        data=options.data,
        lowercase=options.lowercase,
        tokenizer=options.tokenize,
        searches=swept_searches(options.sweep or [], choices),
    )
    _show(report, options, as_json)


def _score_files(options: ScoreOptions) -> ScoreReport:
    from jtrans.analysis.study.aligned import read_aligned
    from jtrans.cli.score_report import ScoreReport
    from jtrans.evaluation.leftovers import (
        check_hypothesis,
        check_plain_text,
        empty_references_warning,
        unsegmented_warning,
    )
    from jtrans.evaluation.names import check_references, distinct_names
    from jtrans.evaluation.systems import MULTI_BLEU, SystemOutput, evaluate
    from jtrans.evaluation.target import find_target
    from jtrans.text.language import split_languages

    metrics = options.metrics("bleu,chrf,ter")
    hyp, ref = options.hyp or [], options.ref or []
    doubts = [check_references(list(map(Path, ref)), list(map(Path, hyp)))]
    source = [options.src] if options.src else []
    texts = read_aligned([*ref, *source, *hyp], source=len(ref) if source else None)
    references, hypotheses = texts[: len(ref)], texts[-len(hyp) :]
    language = None if options.languages is None else split_languages(options.languages)[1]
    target = find_target(language, [*ref, *hyp], [*references, *hypotheses])
    target = replace(target, chosen=options.tokenize)
    if not options.as_is:
        doubts += [check_plain_text(*text) for text in zip(ref, references, strict=True)]
    doubts.append(empty_references_warning(references))
    lowercase, as_is = bool(options.lowercase), options.as_is
    for name, lines in zip(hyp, hypotheses, strict=True):
        doubts += check_hypothesis(name, lines, references, lowercase=lowercase, as_is=as_is)
    if MULTI_BLEU in metrics:
        by_name = dict(zip([*ref, *hyp], [*references, *hypotheses], strict=True))
        doubts.append(unsegmented_warning(target.language, by_name))
    names = distinct_names([Path(name).name for name in hyp], [Path(name) for name in hyp])
    words = [_split(lines) for lines in references]
    outputs = [
        SystemOutput(name, lines, _split(lines), words)
        for name, lines in zip(names, hypotheses, strict=True)
    ]
    evaluation = evaluate(
        outputs,
        references,
        metrics=metrics,
        target_language=target.language,
        lowercase=lowercase,
        tokenizer=options.tokenize,
    )
    console.talk(f"The {target.describe()}")
    return ScoreReport(evaluation, target, other_warnings=[*filter(None, doubts)])


def _split(lines: Sequence[str]) -> list[list[str]]:
    """Split at ASCII white space only, as multi-bleu.perl does."""
    return [[word.decode() for word in line.encode().split()] for line in lines]


def _show(report: ScoreReport, options: ScoreOptions, as_json: bool) -> None:
    for warning in report.warnings:
        console.warn(warning)
    if as_json:
        console.print_json(report.to_json())
    elif options.latex:
        report.print_latex()
    else:
        report.print()
    for band in report.bands:
        show, place = (console.talk, "within") if band.is_held else (console.warn, "outside")
        show(
            f"{band.system}: {band.metric} {band.value:.2f} is {place} the expected range "
            f"{band.low} to {band.high}"
        )
    for reason in report.unchecked:
        console.talk(reason)
    if not all(band.is_held for band in report.bands):
        raise typer.Exit(EXIT_CHECK_FAILED)


def _score_given(run: Run, decoding: DecodingChoices, options: ScoreOptions, as_json: bool) -> None:
    """Print the log-probability of every given translation and of each of its tokens."""
    from jtrans.analysis.study.aligned import aligned_lines
    from jtrans.decoding.lines.given import given_translations
    from jtrans.decoding.lines.json_lines import source_texts

    names = [str(options.src), str(options.force)]
    source_lines, lines = aligned_lines(names)
    sources = source_texts(source_lines, names[0])
    given = given_translations(lines, names[1])
    decoding.check([run])
    from jtrans.decoding.translator import Translator

    translator = Translator.load([run], decoding)
    of_each = [sources[each.line] for each in given]
    with lines_of(*names):
        scored = translator.teacher_forced_scores(of_each, given, console.TerminalProgress())
    # which translation is meant need only be said where a line has several
    has_ranks = len(given) > len(lines)
    places = [[each.line, each.rank] if has_ranks else [each.line] for each in given]
    if as_json:
        sentences = [
            {
                **dict(zip(("id", "rank"), place, strict=False)),
                "log_prob": sum(sentence.token_log_probs, 0.0),
                "tokens": sentence.tokens,
                "token_log_probs": sentence.token_log_probs,
            }
            for place, sentence in zip(places, scored, strict=True)
        ]
        console.print_json({"sentences": sentences})
        return
    for place, sentence in zip(places, scored, strict=True):
        pairs = zip(sentence.tokens, sentence.token_log_probs, strict=True)
        tokens = " ".join(f"{token}:{value:.4f}" for token, value in pairs)
        begin = "".join(f"{number}\t" for number in place) if has_ranks else ""
        print(f"{begin}{sum(sentence.token_log_probs):.4f}\t{tokens}")
