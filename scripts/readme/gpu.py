"""The tables of `scripts.gpu.check`, from data/benchmarks."""

from __future__ import annotations

from typing import Any

from scripts.readme.markdown import table

# the parts that are shown, with what they measured
SHOWN = {
    "updates": "Updates in bfloat16, forward, backward and step",
    "training with graphs": "Trainings of 2 M parameters without and with CUDA graphs",
    "captured gradients, transformer": "Gradients of the Transformer without and with CUDA graphs",
    "captured gradients, reformer-base": "Gradients of Reformer-base",
    "captured gradients, reformer-fast": "Gradients of Reformer-fast",
    "training, E = 256": "Reformers of the published size on mixed lengths, without CUDA graphs",
    "training, Transformer": "The Transformer of the published size, without CUDA graphs",
    "attention (times the copy)": "Attention forward and backward, times the bare copy of its data",
    "decoding": "Beam search of 25 tokens in bfloat16",
    "products": "Matrix products in bfloat16",
}
HIDDEN = ("10 %", "90 %", "ratio")  # of a few searches, in which the first ones capture graphs


def gpu(result: dict[str, Any]) -> str:
    """Return a line about correctness and a table for each part that is shown."""
    parts: dict[str, dict[str, Any]] = result["parts"]
    checks = [row for part in parts.values() for row in part.get("rows", []) if "check" in row]
    failed = sum(not row["ok"] for row in checks)
    blocks = [f"{len(checks)} checks of correctness, {failed} of them outside of their tolerance."]
    for title, heading in SHOWN.items():
        rows = parts.get(title, {}).get("rows", [])
        if rows:
            head = [name for name in rows[0] if name not in HIDDEN and not name.endswith(" wall")]
            cells = [[_cell(row.get(name)) for name in head] for row in rows]
            blocks.append(f"{heading}:\n\n{table(head, cells)}")
    if failures := [title for title, part in parts.items() if "error" in part]:
        blocks.append(f"Parts that failed: {', '.join(failures)}.")
    place = f"{result['device']}, torch {result['torch']}, {result['processor']}, {result['date']}"
    return "\n\n".join([*blocks, f"`{result['command']}`; {place}. {result['note']}".rstrip()])


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
