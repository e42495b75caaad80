"""The table of one system trained on several texts: real, back-translated, distilled pairs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from scripts.readme.experiments import updates_of
from scripts.readme.markdown import BENCHMARKS, table

RECIPE = "{task}/transformer"
# the folders of the results, and the texts that they were trained on; the first is the baseline
TEXTS = {
    "real": "real pairs",
    "mixed": "+ back-translated pairs",
    "sampled": "+ back-translated pairs, sampled",
    "tagged": "+ back-translated pairs, tagged",
    "all": "+ real pairs in place of those",
    "distilled": "the real sources with translations of the first three systems",
}


def synthetic(task: str, folder: Path = BENCHMARKS / "synthetic") -> str:
    """Return the table of the trainings of a task, from the files of `scripts.reproduce`.

    Args:
        task: such as ``multi30k-de-en``.
        folder: has a folder for each text, ``TASK.TEXT``.

    Raises:
        ValueError: the texts were not scored on one test set.
    """
    from scripts.reproduction.catalogue import Experiment, Row
    from scripts.reproduction.merge import read_results
    from scripts.reproduction.notes import machines
    from scripts.reproduction.summary import BLEU, processor_minutes, summarise
    from scripts.reproduction.table import mean_of, significance_of, spread_of

    experiment = Experiment("synthetic", "", [Row(text, RECIPE) for text in TEXTS], ["test"])
    results = [
        replace(result, row=text)
        for text in TEXTS
        for result in read_results(folder / f"{task}.{text}", task)
    ]
    if not results:
        return "Not measured yet."
    tests = {
        tuple(result.data["digests"][f"test.{side}"] for side in ("source", "target"))
        for result in results
    }
    if len(tests) > 1:
        raise ValueError(f"{folder}: the texts were scored on different test sets")
    summaries = summarise(experiment, results)
    rows = [
        [
            TEXTS[summary.row.name],
            f"{summary.results[0].data['pairs']:,}",
            ",".join(str(result.seed) for result in summary.results),
            mean_of(processor_minutes(summary.results) or [], 1),
            spread_of([result.training["valid_loss"] for result in summary.results], 3),
            spread_of(summary.values("test", BLEU), 2),
            significance_of(summary.verdicts.get("test")),
            mean_of(summary.values("test", "chrf"), 1),
        ]
        for summary in summaries
    ]
    head = [
        "trained on",
        "pairs",
        "seeds",
        "processor minutes",
        "valid loss",
        "BLEU",
        "vs. real",
        "chrF2",
    ]
    first = results[0]
    size = f"{first.parameters / 1e6:.2f} M parameters"
    updates = updates_of({each.training["updates"] for each in results})
    notes = [
        f"{first.recipe}, {size}, {updates}.",
        *machines(summaries),
        f"`{first.splits['test'].signature}`",
    ]
    return f"{table(head, rows)}\n\n{' '.join(notes)}"
