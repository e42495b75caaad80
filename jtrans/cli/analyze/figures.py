"""The analyses that give figures and tables: length, position, frequency, compare."""

from __future__ import annotations

from jtrans.cli.analyze.options import EDGES, TRANSLATING, BinOptions, OutputOptions, StudyOptions
from jtrans.cli.analyze.show import show
from jtrans.cli.options import grouped, option


@grouped()
def length(study: StudyOptions, bins: BinOptions, output: OutputOptions) -> None:
    """Show the length of translations, and their quality by length of the source.

    [bold]Examples[/bold]

    jtrans analyze length runs/base runs/fast

    jtrans analyze length @last --edges 5,10,15,20
    """
    from jtrans.analysis.figures.length import length_figures

    binning, systems = bins.binning(), study.load(output)
    show("length", study, systems, length_figures(systems, binning), output)


@grouped(without=TRANSLATING)
def position(study: StudyOptions, *, edges: str | None = EDGES, output: OutputOptions) -> None:
    """Show how often the correct next token is the most probable, by target position.

    [bold]Examples[/bold]

    jtrans analyze position runs/base runs/fast

    jtrans analyze position @last --split valid --json
    """
    from jtrans.analysis.figures.position import position_figures

    binning, systems = BinOptions(edges=edges).binning(), study.load(output)
    show("position", study, systems, position_figures(systems, binning), output)


@grouped()
def frequency(study: StudyOptions, bins: BinOptions, output: OutputOptions) -> None:
    """Show accuracy and F-measure by the frequency of a word in the training data.

    [bold]Examples[/bold]

    jtrans analyze frequency runs/base runs/fast

    jtrans analyze frequency @last --bins quantile
    """
    from jtrans.analysis.figures.frequency import frequency_figures

    binning, systems = bins.binning(), study.load(output)
    show("frequency", study, systems, frequency_figures(systems, binning), output)


@grouped()
def compare(
    study: StudyOptions,
    bins: BinOptions,
    *,
    top: int = option("Sentences and n-grams in each direction.", default=10, min=1),
    output: OutputOptions,
) -> None:
    """Show sentences and n-grams where systems differ, and whether significantly.

    The first system is the baseline. A figure shows the distribution of
    sentence BLEU, in steps of 10.

    [bold]Examples[/bold]

    jtrans analyze compare runs/base runs/fast

    jtrans analyze compare runs/fast --hyp other.en --top 5

    jtrans analyze compare --hyp a.en --hyp b.en --ref test.en --src test.de
    """
    from jtrans.analysis.figures.compare import compare_tables, sentence_bleu_figure

    binning, systems = bins.binning(), study.load(output)
    tables = compare_tables(systems, binning, shown=top)
    show("compare", study, systems, [*tables, sentence_bleu_figure(systems)], output)
