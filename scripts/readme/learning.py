"""The tables of what models learn, each from its file in data/benchmarks."""

from __future__ import annotations

from typing import Any

from scripts.readme.markdown import origin, table
from scripts.reproduction.table import minutes_of


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


def learned(results: dict[str, Any]) -> str:
    """Return the table of the scores that all systems reach in equal time."""
    best = results["rows"][0]["bleu"] if results["rows"] else 0.0
    rows = [
        [
            row["recipe"],
            f"{row['parameters'] / 1e6:.2f} M",
            minutes_of([row["minutes"]])
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
    learnt = results.get("learned")
    if learnt is None:
        return f"Not measured yet: what the systems learn. {origin(results)}"
    timed = {each["variant"]: each for each in results["rows"]}
    rows = []
    for row in learnt["rows"]:
        name = row["recipe"].rpartition("/")[2]
        fp32, bf16 = timed[f"{name} fp32"], timed.get(f"{name} bf16")  # if the processor has it
        memory = (fp32[f"bytes_per_position_{policy}"] / 1024 for policy in ("none", "layer"))
        rows.append(
            [
                name,
                f"{row['parameters'] / 1e6:.2f} M",
                minutes_of([row["minutes"]]),
                f"{row['updates']:,}",
                f"{row['token_accuracy']:.1f} %",
                f"{row['bleu']:.1f} ± {row['bleu_interval']:.1f}",
                f"{fp32['positions_per_second']:,.0f}",
                f"{bf16['positions_per_second']:,.0f}" if bf16 else "",
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
