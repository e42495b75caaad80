"""`jtrans analyze alignment`: word alignments derived from attention."""

from __future__ import annotations

from pathlib import Path

from jtrans.cli import console
from jtrans.cli.analyze.options import (
    GOLD_BASE,
    GOLD_FORMATS,
    TRANSLATING,
    OutputOptions,
    StudyOptions,
)
from jtrans.cli.analyze.show import show
from jtrans.cli.options import grouped, option


@grouped(without=TRANSLATING)
def alignment(
    *,
    gold: Path | None = option(f"Gold {GOLD_FORMATS}", "FILE", "the corpus's own"),
    gold_base: int | None = GOLD_BASE,
    layer: str | None = option("Only this attention map.", "NAME", "all"),
    study: StudyOptions,
    output: OutputOptions,
) -> None:
    """Derive word alignments from attention, and score them if there are gold alignments.

    Writes the alignments of each run's best layer or, without gold, of its last.

    [bold]Examples[/bold]

    jtrans analyze alignment runs/fast

    jtrans analyze alignment runs/fast --gold test.gold --layer reduction
    """
    from jtrans.analysis.attention.layer_alignments import (
        alignment_tables,
        best_alignment,
        find_gold,
        layer_alignments,
    )

    systems = study.load(output)
    gold_alignments = find_gold(systems, gold, gold_base)
    tables = alignment_tables(systems, gold_alignments, layer=layer)
    members = [member for subject in systems.with_model for member in subject.run_members]
    with_maps = [member for member in members if layer_alignments(member, layer)]
    without = [member.name for member in members if member not in with_maps]
    if without and with_maps:
        console.warn(f"no attention from target to source words: {', '.join(without)}")
        members = with_maps
    best = [(member.name, best_alignment(member, gold_alignments, layer)) for member in members]
    show("alignment", study, systems, tables, output, alignments=best)
