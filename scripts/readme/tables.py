"""Write the tables of the documents from data/benchmarks.

python -m scripts.readme.tables            # rewrite them
python -m scripts.readme.tables --check    # exit 1 when they are out of date
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scripts.reproduction.catalogue import Experiment
    from scripts.reproduction.summary import RowSummary

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ("README.md", "docs/benchmarks.md", "docs/reproduction.md", "docs/training.md")
PAGES = tuple(ROOT / name for name in DOCUMENTS)
UNITS = {"tokens_per_second": "target tokens/s", "sentences_per_second": "sentences/s"}


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def rates(results: dict[str, Any]) -> str:
    """Return the table of an interleaved benchmark."""
    unit = next(key for key in UNITS if key in results["rows"][0])
    rows = [
        [
            row["variant"],
            f"{row[unit]:,.0f}" if row[unit] >= 100 else f"{row[unit]:.1f}",
            "{median:.2f} ({low:.2f} to {high:.2f})".format(**row["ratio"]),
            f"{row['peak_mib']:,}",
        ]
        for row in results["rows"]
    ]
    head = ["", UNITS[unit], "ratio to the first (10 to 90 %)", "peak MiB"]
    note = f"`{results['command']}`; {results['machine']}, torch {results['torch']}."
    return f"{table(head, rows)}\n\n{note}"


def joint(results: dict[str, Any]) -> str:
    """Return the table of the joint models against the method of the original code."""
    base: dict[str, Any] = {}
    rows = []
    for row in results["rows"]:
        if row["system"] != base.get("system"):
            base = row
        memory = row["bytes_per_position"]
        rows.append(
            [
                row["system"],
                row["variant"],
                f"{row['positions_per_second']:,.0f} ({row['padded_positions_per_second']:,.0f})",
                f"{row['tokens_per_second']:,.0f}",
                "{median:.2f} ({low:.2f} to {high:.2f})".format(**row["ratio"]),
                f"{100 * row['product_share']:.0f} % of {row['product_gflops']:,}",
                f"{memory / 1024:,.0f} ({memory / base['bytes_per_position']:.2f})",
            ]
        )
    head = [
        "",
        "",
        "positions/s, real (padded)",
        "target tokens/s",
        "ratio to the first (10 to 90 %)",
        "share of GFLOP/s",
        "KiB a position (ratio)",
    ]
    note = f"`{results['command']}`; {results['machine']}, torch {results['torch']}."
    return f"{table(head, rows)}\n\n{note}"


def decode(results: dict[str, Any]) -> str:
    """Return the table of decoding with jtrans and other programs, by the size of the batch."""
    cells = {(row["variant"], row["batch"]): row for row in results["rows"]}
    names, batches = (list(dict.fromkeys(keys)) for keys in zip(*cells, strict=True))
    rows = [
        [name]
        + [
            "{sentences_per_second:.1f} ({ratio[median]:.2f})".format(**cells[name, batch])
            for batch in batches
        ]
        for name in names
    ]
    head = ["sentences/s (ratio to the first), processes x threads"]
    head += [f"batch {batch}" for batch in batches]
    note = f"`{results['command']}`; {results['machine']}, torch {results['torch']}."
    return f"{table(head, rows)}\n\n{note}"


def decode_joint(results: dict[str, Any]) -> str:
    """Return the table of decoding with the joint models against the original code."""
    ratio = "{median:.2f} ({low:.2f} to {high:.2f})"
    rows = [
        [
            row["system"],
            row["variant"],
            str(row["batch"]),
            f"{row['sentences_per_second']:.1f}",
            ratio.format(**row["ratio"]),
            "{median:.2f}".format(**row["ratio_to_fp32"]),
            "{median:.2f}".format(**row["ratio_to_16"]),
            f"{100 * row['product_share']:.0f} %" if "product_share" in row else "",
            f"{row['peak_mib']:,}",
        ]
        for row in results["rows"]
    ]
    head = [
        "",
        "",
        "batch",
        "sentences/s",
        "ratio to the original's (10 to 90 %)",
        "to our fp32",
        "to batches of 16",
        "share of products",
        "peak MiB",
    ]
    note = f"`{results['command']}`; {results['machine']}, torch {results['torch']}."
    return f"{table(head, rows)}\n\n{note}"


def decode_agreement(results: dict[str, Any]) -> str:
    """Return the table of translations that are the same in bf16 and in float32."""
    rows = [
        [
            row["run"],
            f"{row['sentences']:,}",
            f"{100 * row['same_best']:.1f} %",
            f"{100 * row['same_of_list']:.1f} %",
        ]
        for row in results["rows"]
    ]
    head = ["run", "sentences", "same best translation", f"same of all {results['beam']}"]
    note = f"`{results['command']}`; {results['machine']}, torch {results['torch']}."
    return f"{table(head, rows)}\n\n{note}"


def scaling(results: dict[str, Any]) -> str:
    """Return the table of positions per second by length and width, with their cost."""
    cells = {
        (row["width"], row["length"]): "{positions_per_second:,} ({cost[median]:.2f})".format(**row)
        for row in results["rows"]
    }
    widths, lengths = (list(dict.fromkeys(keys)) for keys in zip(*cells, strict=True))
    rows = [[f"S = T = {L}", *(cells[E, L] for E in widths)] for L in lengths]
    head = ["positions/s (cost of one, S = T = 25: 1)", *(f"E = {E}" for E in widths)]
    place = f"{results['machine']}, {results['device']}, torch {results['torch']}"
    note = f"`{results['command']}`; {place}."
    return f"{table(head, rows)}\n\n{note}"


def curves(results: dict[str, Any]) -> str:
    """Return the table of the variants' final losses."""
    first = results["rows"][0]
    rows = []
    for row in results["rows"]:
        start = list(zip(row["loss"], first["loss"], strict=True))[:200]
        gap = max(abs(ours - theirs) / theirs for ours, theirs in start)
        change = row["valid_loss"] / first["valid_loss"] - 1
        rows.append(
            [
                row["variant"],
                f"{100 * gap:.2f} %",
                f"{row['valid_loss']:.4f} ({100 * change:+.2f} %)",
            ]
        )
    updates = len(first["loss"])
    head = [
        "",
        "largest difference of an update's loss, first 200",
        f"valid loss after {updates} updates",
    ]
    note = f"`{results['command']}`; recipe {results['recipe']}, torch {results['torch']}."
    return f"{table(head, rows)}\n\n{note}"


def prepare(results: dict[str, Any]) -> str:
    """Return the table of the cost of preparation, against the commands that it replaces."""
    rounds = results["compare"]["rounds"]

    def median(name: str, key: str) -> float:
        return float(statistics.median(measured[key] for measured in rounds[name]))

    rows = [
        [
            f"{results['compare']['pairs']:,} pairs, {label}",
            f"{median(name, 'seconds'):.0f} s",
            f"{median(name, 'cpu_seconds'):.0f} s",
            f"{median(name, 'peak_proportional_mib'):,.0f}",
        ]
        for name, label in (
            ("jtrans", "`jtrans prepare`"),
            ("commands", "sacremoses + subword-nmt commands"),
        )
    ]
    scale = results["scale"]
    cpu = sum(step["cpu_seconds"] for step in scale["measured"]["steps"])
    rows.append(
        [
            f"{scale['pairs']:,} pairs, `jtrans prepare`",
            f"{scale['measured']['seconds']:.0f} s",
            f"{cpu:.0f} s",
            f"{scale['peak_proportional_mib']:,}",
        ]
    )
    steps = ", ".join(
        f"{step['step']} {100 * step['share']:.0f} %" for step in results["steps"]["steps"]
    )
    note = (
        f"`{results['compare']['command']}`, joint BPE of 10,000; {results['compare']['machine']}. "
        f"Of the first row's time: {steps}."
    )
    return f"{table(['', 'time', 'CPU time', 'peak MiB'], rows)}\n\n{note}"


def round_trip(results: dict[str, Any]) -> str:
    """Return the table of the lines that the pipeline restores."""
    rows = [
        [
            row["corpus"],
            row["language"],
            row["segmenter"],
            f"{row['exact']:.1f} %",
            f"{row['but_for_spaces']:.1f} %",
        ]
        for row in results["rows"]
    ]
    head = ["corpus", "language", "segmentation", "exactly", "but for spaces"]
    return f"{table(head, rows)}\n\n`{results['command']}`."


def recurrent(results: dict[str, Any]) -> str:
    """Return the tables of RNMT+'s layers beside torch's LSTM, and of the steps of a search."""
    layers = [
        [
            row["layer"],
            row["variant"],
            f"{row['tokens_per_second']:,.0f}",
            "{median:.2f} ({low:.2f} to {high:.2f})".format(**row["ratio"]),
        ]
        for row in results["rows"]
    ]
    prefixes = list(results["search"][0]["milliseconds"])
    steps = [
        [row["recipe"]]
        + [f"{row['milliseconds'][n]:.1f} ({row['rate'][n]['median']:.2f})" for n in prefixes]
        for row in results["search"]
    ]
    head = ["layer", "", "tokens/s, forward and backward", "ratio to torch (10 to 90 %)"]
    search = [f"ms a step (rate) after {n}" for n in prefixes]
    note = f"`{results['command']}`; {results['machine']}, torch {results['torch']}."
    return f"{table(head, layers)}\n\n{table(['', *search], steps)}\n\n{note}"


def ratio(spread: dict[str, float]) -> str:
    """Return the median of a ratio with its 10 % and 90 % values."""
    return "{median:.2f} ({low:.2f} to {high:.2f})".format(**spread)


def systems(results: dict[str, Any]) -> str:
    """Return the table of the speed of all systems."""
    rows = []
    for row in results["rows"]:
        training, batched, single = (
            row[name] for name in ("training", "decoding", "decoding_single")
        )
        rows.append(
            [
                row["system"],
                f"{row['parameters'] / 1e6:.1f} M",
                f"{training['tokens_per_second']:,.0f}",
                ratio(training["ratio"]),
                f"{batched['sentences_per_second']:.1f}",
                ratio(batched["ratio"]),
                f"{single['sentences_per_second']:.2f}",
                ratio(single["ratio"]),
                f"{row['peak_mib']:,}",
            ]
        )
    beside = "beside the Transformer (10 to 90 %)"
    head = ["", "parameters", "trained target tokens/s", beside, "decoded sentences/s, batch 16"]
    head += [beside, "one by one", beside, "peak MiB"]
    place = f"{results['machine']}, one thread, torch {results['torch']}"
    return f"{table(head, rows)}\n\n`{results['command']}`; {place}."


def learned(results: dict[str, Any]) -> str:
    """Return the table of the scores that all systems reach in equal time."""
    best = results["rows"][0]["bleu"] if results["rows"] else 0.0
    rows = [
        [
            row["recipe"],
            f"{row['parameters'] / 1e6:.2f} M",
            f"{row['minutes']:.0f}"
            + "".join(f", after {name.rpartition('/')[2]}" for name in row.get("starts_from", [])),
            f"{row['updates']:,}",
            f"{row['epochs']:.1f}",
            f"{row['token_accuracy']:.1f} %",
            f"{row['bleu']:.1f} ± {row['bleu_interval']:.1f}",
            f"{row['chrf']:.1f}",
            f"{100 * row['bleu'] / best:.0f} %" if best else "",
        ]
        for row in results["rows"]
    ]
    head = ["recipe", "parameters", "minutes", "updates", "epochs", "token accuracy (valid)"]
    head += ["BLEU (test)", "chrF2", "of the first row's BLEU"]
    signature = results["rows"][0]["signature"] if results["rows"] else ""
    machines: dict[str, list[str]] = {}
    for row in results["rows"]:
        machine = row.get("machine", results["machine"])
        machines.setdefault(machine, []).append(row["recipe"].rpartition("/")[2])
    where = "; ".join(
        f"{machine}: {', '.join(names)}" if len(machines) > 1 else machine
        for machine, names in machines.items()
    )
    note = f"`{results['command']}`; {where}; one thread, torch {results['torch']}."
    return f"{table(head, rows)}\n\n`{signature}` {note}"


def grid(results: dict[str, Any]) -> str:
    """Return the table of pervasive attention beside Reformer-fast."""
    learnt = results["learned"]
    rows = []
    for row in learnt["rows"]:
        name = row["recipe"].rpartition("/")[2]
        fp32, bf16 = (
            next(each for each in results["rows"] if each["variant"] == f"{name} {precision}")
            for precision in ("fp32", "bf16")
        )
        memory = (fp32[f"bytes_per_position_{policy}"] / 1024 for policy in ("none", "layer"))
        rows.append(
            [
                name,
                f"{row['parameters'] / 1e6:.2f} M",
                f"{row['minutes']:.0f}",
                f"{row['updates']:,}",
                f"{row['token_accuracy']:.1f} %",
                f"{row['bleu']:.1f} ± {row['bleu_interval']:.1f}",
                f"{fp32['positions_per_second']:,.0f}",
                f"{bf16['positions_per_second']:,.0f}",
                " / ".join(f"{each:.1f}" for each in memory),
            ]
        )
    head = ["", "parameters", "minutes", "updates", "token accuracy (valid)", "BLEU (test)"]
    head += ["positions/s, fp32", "bf16", "KiB a position, fp32 (layers recomputed)"]
    note = f"`{learnt['command']}`, one thread; `{results['command']}`, in turns, two threads; "
    return f"{table(head, rows)}\n\n{note}{results['machine']}, torch {results['torch']}."


def deep_curves(results: dict[str, Any]) -> str:
    """Return the table of the last losses of deep encoders."""
    rows = [
        [
            row["variant"],
            f"{row['parameters'] / 1e6:.2f} M",
            f"{row['train'][-1]:.3f}",
            f"{row['valid'][-1][1]:.3f}",
            f"{row['valid_other_sources']:.3f}",
        ]
        for row in results["rows"]
    ]
    updates = max((row["updates"] for row in results["rows"]), default=0)
    head = ["norm and encoder layers", "parameters", f"train loss, update {updates}", "valid loss"]
    head += ["valid loss with the sources of other sentences"]
    note = f"`{results['command']}`; {results['machine']}, torch {results['torch']}."
    alone = f"Frequencies of tokens alone: {results['frequencies_alone']:.3f}."
    return f"{table(head, rows)}\n\n{alone} {note}"


def distributed(results: dict[str, Any]) -> str:
    """Return the table of the checks of training in several processes."""
    said: dict[str, Callable[[dict[str, Any]], str]] = {
        "kill": lambda result: (
            f"{result['kills']['rank']} kills of a process and {result['kills']['all']} of all; "
            f"after {result['updates']} updates the bytes of the undisturbed run"
        ),
        "silent": lambda result: f"ended after {result['ended_seconds']:.0f} s, started again",
        "stop": lambda result: "saved and ended after SIGINT, SIGTERM and the launcher's SIGKILL",
        "machines": lambda result: f"a lost node ended the other in {result['lost_seconds']:.0f} s",
        "speed": lambda result: (
            f"2 processes are {statistics.median(result['ratios']):.2f} times as fast as 2 threads"
        ),
    }
    rows = [
        [f"`{result['command']}`", said[check](result) if result["ok"] else "failed"]
        for check, result in results.items()
    ]
    machine = next(iter(results.values()))["machine"]
    note = f"{machine}; `speed` alone on the machine, the others beside other work."
    return f"{table(['check', 'outcome'], rows)}\n\n{note}"


def endurance(results: dict[str, Any]) -> str:
    """Return the growth of a long run from its second quarter to its last."""
    growth = results["growth"]
    head = ["updates", "memory", "open files", "threads"]
    row = [
        f"{results['updates']:,}",
        f"{growth['resident_mib']:+.1f} MiB",
        f"{growth['open_files']:+.0f}",
        f"{growth['threads']:+.0f}",
    ]
    note = "Growth of the medians from the second quarter of the updates to the last"
    return (
        f"{table(head, [row])}\n\n{note}; `{results['command']}`, {results['machine']}, "
        f"torch {results['torch']}."
    )


def corpus_memory(results: dict[str, Any]) -> str:
    """Return the memory that a large corpus needs while training."""
    (row,) = results["rows"]
    pairs = f"{row['pairs'] / 1e6:.0f} M pairs, {row['tokens'] / 1e6:.0f} M tokens of both sides"
    rows = [
        [name, f"{row[f'{key}_bytes'] / 2**30:.2f} GiB", f"{row[f'{key}_seconds']:.0f} s"]
        for name, key in (
            ("the updates of an epoch", "plan"),
            (f"the same with BPE-dropout of {row['bpe_dropout']}", "dropout"),
        )
    ]
    head = [pairs, "peak of memory", "processor time"]
    note = (
        f"Memory that belongs to no file, {row['start_bytes'] / 2**30:.2f} GiB at the start "
        f"included; `{results['command']}`, {results['machine']}, torch {results['torch']}."
    )
    return f"{table(head, rows)}\n\n{note}"


TABLES = {
    "distributed": distributed,
    "corpus_memory": corpus_memory,
    "endurance": endurance,
    "recurrent": recurrent,
    "prepare": prepare,
    "round_trip": round_trip,
    "curves": curves,
    "systems": systems,
    "systems_multi30k": learned,
    "systems_grammar": learned,
    "grid": grid,
    "deep_curves": deep_curves,
    "train": rates,
    "joint": joint,
    "decode_joint": decode_joint,
    "decode_agreement": decode_agreement,
    "scaling": scaling,
    "decode": decode,
}
MARKED = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


JUDGED = re.compile(r"(<!-- verdict ([\w-]+) ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
SHORTENED = re.compile(r"(<!-- quality ([\w-]+) ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
REPRODUCED = re.compile(r"(<!-- reproduction ([\w-]+) ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def reproduced_rows(experiment: Experiment, task: str) -> list[RowSummary]:
    """Return the rows of an experiment that have results."""
    from scripts.reproduction.results import read_results
    from scripts.reproduction.summary import summarise

    folder = ROOT / "data" / "benchmarks" / "reproduction" / f"{experiment.name}.{task}"
    return summarise(experiment, read_results(folder))


def reproduced(name: str, task: str) -> str:
    """Return the table of an experiment of `scripts.reproduce`, from its rows' files."""
    from scripts.reproduction.catalogue import find_experiment
    from scripts.reproduction.summary import notes
    from scripts.reproduction.summary import table as reproduced_table

    experiment = find_experiment(name, task)
    summaries = reproduced_rows(experiment, task)
    if not summaries:
        return "Not measured yet."
    lines = " ".join(notes(experiment, summaries))
    return f"{table(*reproduced_table(experiment, summaries))}\n\n{lines}"


def quality(name: str, task: str) -> str:
    """Return the short table of an experiment: systems, their cost and their scores on test."""
    from scripts.reproduction.catalogue import find_experiment
    from scripts.reproduction.summary import (
        BLEU,
        mean_of,
        processor_minutes,
        significance_of,
        spread_of,
    )

    summaries = reproduced_rows(find_experiment(name, task), task)
    if not summaries:
        return "Not measured yet."
    rows = [
        [
            summary.row.recipe_for(task),
            f"{summary.results[0].parameters / 1e6:.2f} M",
            mean_of(processor_minutes(summary.results) or [], 0),
            spread_of(summary.values("test", BLEU), 1),
            significance_of(summary.verdicts.get("test")),
            mean_of(summary.values("test", "chrf"), 1),
        ]
        for summary in summaries
    ]
    head = ["recipe", "parameters", "processor minutes", "BLEU", "beside the first", "chrF2"]
    first = summaries[0].results[0]
    seeds = ", ".join(f"{summary.row.name} {len(summary.results)}" for summary in summaries)
    notes = [
        f"{first.training['updates']:,} updates each, seeds: {seeds}.",
        f"{first.place}, {first.machine['precision']}, torch {first.versions['torch']}.",
        f"`{first.splits['test'].signature}`",
    ]
    return f"{table(head, rows)}\n\n{' '.join(notes)}"


def judged(name: str, task: str) -> str:
    """Return the verdict on an experiment, from its rows' files."""
    from scripts.reproduction.catalogue import find_experiment
    from scripts.reproduction.verdict import verdict

    experiment = find_experiment(name, task)
    return verdict(experiment, reproduced_rows(experiment, task))


def rewritten(text: str) -> str:
    """Return a page with every table and verdict between its markers regenerated."""
    text = JUDGED.sub(lambda match: f"{match[1]}{judged(match[2], match[3])}\n{match[4]}", text)
    text = SHORTENED.sub(lambda match: f"{match[1]}{quality(match[2], match[3])}\n{match[4]}", text)
    text = REPRODUCED.sub(
        lambda match: f"{match[1]}{reproduced(match[2], match[3])}\n{match[4]}", text
    )

    def drawn(match: re.Match[str]) -> str:
        path = ROOT / "data" / "benchmarks" / f"{match[2]}.json"
        if not path.exists():
            return f"{match[1]}Not measured yet.\n{match[3]}"
        body = TABLES[match[2]](json.loads(path.read_text(encoding="utf-8")))
        return f"{match[1]}{body}\n{match[3]}"

    return MARKED.sub(drawn, text)


def unplaced(pages: Iterable[str]) -> set[str]:
    """Return the benchmarks that no page has a place for."""
    files = (ROOT / "data" / "benchmarks").glob("*.json")
    return {path.stem for path in files} - {
        match[2] for page in pages for match in MARKED.finditer(page)
    }


def main() -> None:
    """Rewrite the pages, or check them."""
    before = {page: page.read_text(encoding="utf-8") for page in PAGES}
    if names := unplaced(before.values()):
        raise SystemExit(f"no page has a place for {', '.join(sorted(names))}")
    for page, text in before.items():
        after = rewritten(text)
        if "--check" not in sys.argv[1:]:
            page.write_text(after, encoding="utf-8")
        elif after != text:
            raise SystemExit(f"{page.relative_to(ROOT)}: run python -m scripts.readme.tables")


if __name__ == "__main__":
    main()
