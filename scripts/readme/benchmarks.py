"""The tables of the benchmarks, each from its file in data/benchmarks."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).resolve().parents[2] / "data" / "benchmarks"
UNITS = {"tokens_per_second": "target tokens/s", "sentences_per_second": "sentences/s"}


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def origin(results: dict[str, Any], *settings: str) -> str:
    """Return what is below a table: the command, the versions, the machine and its products."""
    place = [results["machine"], *settings, f"torch {results['torch']}"]
    place += [f"{name} {version}" for name, version in results.get("toolkits", {}).items()]
    line = f"`{results['command']}`; {', '.join(place)}."
    if "products_gflops" not in results:
        return line
    each = (f"{rate:,} ({name})" for name, rate in results["products_gflops"].items())
    return f"{line} Its products: {', '.join(each)} GFLOP/s."


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
    return f"{table(head, layers)}\n\n{table(['', *search], steps)}\n\n{origin(results)}"


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
    return f"{table(head, rows)}\n\n{origin(results, 'one thread')}"


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
    alone = f"Frequencies of tokens alone: {results['frequencies_alone']:.3f}."
    return f"{table(head, rows)}\n\n{alone} {origin(results)}"


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


# by the name of the file
TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
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
    "train_zen5": rates,
    "joint": joint,
    "decode_joint": decode_joint,
    "decode_joint_zen5": decode_joint,
    "decode_agreement": decode_agreement,
    "scaling": scaling,
    "decode": decode,
    "decode_zen5": decode,
}
