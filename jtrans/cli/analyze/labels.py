"""`jtrans analyze labels`: quality by part of speech and entity of the source words."""

from __future__ import annotations

from pathlib import Path

from jtrans.cli.analyze.options import (
    GOLD_BASE,
    GOLD_FORMATS,
    TEXT_FILES,
    OutputOptions,
    StudyOptions,
)
from jtrans.cli.analyze.show import show
from jtrans.cli.options import grouped, option


@grouped(without=TEXT_FILES)
def labels(
    study: StudyOptions,
    *,
    gold: Path | None = option(
        f"Gold {GOLD_FORMATS}", "FILE", "the corpus's own, else the attention of a run"
    ),
    gold_base: int | None = GOLD_BASE,
    output: OutputOptions,
) -> None:
    """Show accuracy and F-measure by part of speech and entity of the source words.

    The corpus needs labels (jtrans prepare --labels).
    Runs that predict labels are compared with them, too.

    [bold]Examples[/bold]

    jtrans analyze labels runs/base runs/tagging

    jtrans analyze labels @last --gold test.align --json
    """
    from jtrans.analysis.attention.source_labels import label_figures

    systems = study.load(output)
    show("labels", study, systems, label_figures(systems, gold, gold_base), output)
