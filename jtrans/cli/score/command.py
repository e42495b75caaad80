"""`jtrans score`: its options, and its three uses: runs, files, given translations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from jtrans.cli import console
from jtrans.cli.options import JSON, CheckedCommand, DecodingOptions, grouped
from jtrans.cli.score.options import METRICS, ScoreOptions
from jtrans.errors import EXIT_CHECK_FAILED, usage_error

if TYPE_CHECKING:
    from jtrans.cli.score.report import ScoreReport

_SEVERAL = ("--hyp", "--ref")


class Command(CheckedCommand):
    """A command that allows several values after one --hyp or --ref."""

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


@grouped()
def score(options: ScoreOptions, decoding: DecodingOptions, as_json: bool = JSON) -> None:
    """Score translations: of runs on a test set, or of files.

    Systems are compared with the first one by paired bootstrap.
    --checkpoint window: mean and standard deviation over the checkpoints
    that training.keep.window keeps.

    [bold]Examples[/bold]

    jtrans score runs/base runs/fast

    jtrans score runs/base@best runs/base@average

    jtrans score runs/base --split valid --sweep length-penalty=0.6,1,1.4

    jtrans score --hyp a.en b.en --ref test.en --latex

    jtrans score --hyp a.en b.en --ref test.en --sentence-scores COMET=comet.json

    jtrans score @last --force a.en --src test.de --json
    """
    options.check()
    options.refuse_unused(decoding)
    if as_json and options.latex:
        raise usage_error("--json and --latex exclude each other", "leave one of them out")
    if options.sentences:
        from jtrans.cli.score.output import check_sentences

        check_sentences(options)
    if options.hyp:
        from jtrans.cli.score.files import score_files

        _show(score_files(options), options, as_json)
        return
    from jtrans.runs import find_run

    opened = [find_run(name, with_checkpoint=True) for name in options.runs or []]
    choices = decoding.choices()
    if options.force:
        from jtrans.cli.score.given import score_given

        score_given(opened[0], choices, options, as_json=as_json)
        return
    from jtrans.cli.score.output import TranslationFolder
    from jtrans.cli.score.runs import report_on_runs
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
        sentence_scores=options.given_scores(),
        output=TranslationFolder.of(options),
    )
    _show(report, options, as_json)


def _show(report: ScoreReport, options: ScoreOptions, as_json: bool) -> None:
    if options.sentences:
        from jtrans.cli.score.output import write_sentences

        write_sentences(report, options.sentences)
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
