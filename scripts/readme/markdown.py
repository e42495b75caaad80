"""Tables in Markdown, and what is said below them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).resolve().parents[2] / "data" / "benchmarks"


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


def ratio(spread: dict[str, float]) -> str:
    """Return the median of a ratio with its 10 % and 90 % values."""
    return "{median:.2f} ({low:.2f} to {high:.2f})".format(**spread)
