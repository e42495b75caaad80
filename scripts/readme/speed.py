"""The tables of speed, each from its file in data/benchmarks."""

from __future__ import annotations

import statistics
from typing import Any

from scripts.readme.markdown import origin, ratio, table

UNITS = {"tokens_per_second": "target tokens/s", "sentences_per_second": "sentences/s"}


def rates(results: dict[str, Any]) -> str:
    """Return the table of an interleaved benchmark, with peak memory if it was measured."""
    unit = next(key for key in UNITS if key in results["rows"][0])
    peak = {"peak_mib": "peak MiB"} if "peak_mib" in results["rows"][0] else {}
    rows = [
        [
            row["variant"],
            f"{row[unit]:,.0f}" if row[unit] >= 100 else f"{row[unit]:.1f}",
            ratio(row["ratio"]),
            *(f"{row[key]:,}" for key in peak),
        ]
        for row in results["rows"]
    ]
    head = ["", UNITS[unit], "ratio to the first (10 to 90 %)", *peak.values()]
    return f"{table(head, rows)}\n\n{origin(results)}"


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
                ratio(row["ratio"]),
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
    return f"{table(head, rows)}\n\n{origin(results)}"


def decode(results: dict[str, Any]) -> str:
    """Return the table of decoding with jtrans and other programs, by the size of the batch."""
    cells = {(row["variant"], row["batch"]): row for row in results["rows"]}
    names, batches = (list(dict.fromkeys(keys)) for keys in zip(*cells, strict=True))
    shown = {
        key: "{sentences_per_second:.1f} ({ratio[median]:.2f})".format(**row)
        for key, row in cells.items()
    }
    rows = [[name, *(shown.get((name, batch), "") for batch in batches)] for name in names]
    head = ["sentences/s (ratio to the first), processes x threads"]
    head += [f"batch {batch}" for batch in batches]
    return f"{table(head, rows)}\n\n{origin(results)}"


def decode_joint(results: dict[str, Any]) -> str:
    """Return the table of decoding with the joint models against the original code."""
    rows = [
        [
            row["system"],
            row["variant"],
            str(row["batch"]),
            f"{row['sentences_per_second']:.1f}",
            ratio(row["ratio"]) if row["ratio"] else "",
            "{median:.2f}".format(**row["ratio_to_fp32"]) if row["ratio_to_fp32"] else "",
            "{median:.2f}".format(**row["ratio_to_16"]) if row["ratio_to_16"] else "",
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
    return f"{table(head, rows)}\n\n{origin(results)}"


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
    return f"{table(head, rows)}\n\n{origin(results)}"


def scaling(results: dict[str, Any]) -> str:
    """Return the table of positions per second by length and width, with their cost."""
    cells = {
        (row["width"], row["length"]): "{positions_per_second:,} ({cost[median]:.2f})".format(**row)
        for row in results["rows"]
    }
    widths, lengths = (list(dict.fromkeys(keys)) for keys in zip(*cells, strict=True))
    rows = [[f"S = T = {L}", *(cells[E, L] for E in widths)] for L in lengths]
    head = ["positions/s (cost of one, S = T = 25: 1)", *(f"E = {E}" for E in widths)]
    return f"{table(head, rows)}\n\n{origin(results, results['device'])}"


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
            f"{scale['pairs']:,} pairs, `jtrans bench prepare`",
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
        f"Shares of the time of `jtrans bench prepare` on this text: {steps}. The "
        f"{scale['pairs']:,} pairs are the same ones, repeated with changed letters."
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
            ratio(row["ratio"]),
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
    return f"{table(head, layers)}\n\n{table(['', *search], steps)}\n\n{origin(results)}"


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
    return f"{table(head, rows)}\n\n{origin(results, 'one thread')}"
