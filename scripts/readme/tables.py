"""Write the tables of the documents from data/benchmarks.

python -m scripts.readme.tables            # rewrite them
python -m scripts.readme.tables --check    # exit 1 when they are out of date
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from scripts.readme import endurance, gpu, learning, speed
from scripts.readme.experiments import judged, quality, reproduced, significance
from scripts.readme.markdown import BENCHMARKS
from scripts.readme.synthetic import synthetic
from scripts.readme.toolkits import toolkits

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = (
    "README.md",
    "docs/benchmarks.md",
    "docs/reproduction.md",
    "docs/synthetic-data.md",
    "docs/systems.md",
    "docs/training.md",
)
PAGES = tuple(ROOT / name for name in DOCUMENTS)
MARKED = re.compile(r"(<!-- (\w+) ([\w -]+) -->\n).*?(<!-- end -->)", re.DOTALL)
# the tables by the names of their files
TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "distributed": endurance.distributed,
    "corpus_memory": endurance.corpus_memory,
    "endurance": endurance.endurance,
    "gpu_h100": gpu.gpu,
    "recurrent": speed.recurrent,
    "prepare": speed.prepare,
    "round_trip": speed.round_trip,
    "curves": learning.curves,
    "systems": speed.systems,
    "systems_multi30k": learning.learned,
    "systems_grammar": learning.learned,
    "grid": learning.grid,
    "deep_curves": learning.deep_curves,
    "output_loss": speed.rates,
    "processes": speed.rates,
    "allocators": speed.rates,
    "train": speed.rates,
    "train_zen3": speed.rates,
    "train_zen5": speed.rates,
    "joint": speed.joint,
    "decode_joint": speed.decode_joint,
    "decode_joint_zen5": speed.decode_joint,
    "decode_agreement": speed.decode_agreement,
    "scaling": speed.scaling,
    "decode": speed.decode,
    "decode_zen3": speed.decode,
    "decode_zen5": speed.decode,
    "significance": significance,
}


def measured(name: str) -> str:
    """Return the table of a benchmark, from its file."""
    path = BENCHMARKS / f"{name}.json"
    if not path.exists():
        return "Not measured yet."
    return TABLES[name](json.loads(path.read_text(encoding="utf-8")))


# the function that writes a part, by the first word of its mark; the other words are its arguments
WRITERS: dict[str, Callable[..., str]] = {
    "table": measured,
    "toolkits": toolkits,
    "verdict": judged,
    "quality": quality,
    "reproduction": reproduced,
    "synthetic": synthetic,
}


def rewritten(text: str) -> str:
    """Return a page with every table and verdict between its markers regenerated."""
    return MARKED.sub(
        lambda match: f"{match[1]}{WRITERS[match[2]](*match[3].split())}\n{match[4]}", text
    )


def unplaced(pages: Iterable[str]) -> set[str]:
    """Return the benchmarks that no page has a place for."""
    marks = (match for page in pages for match in MARKED.finditer(page))
    placed = {match[3] for match in marks if match[2] == "table"}
    return {path.stem for path in BENCHMARKS.glob("*.json")} - placed


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
