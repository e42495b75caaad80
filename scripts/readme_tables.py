"""Write the tables of README.md from data/benchmarks/*.json.

python scripts/readme_tables.py            # rewrite them
python scripts/readme_tables.py --check    # exit 1 when they are out of date
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
UNITS = {"tokens_per_second": "target tokens/s", "sentences_per_second": "sentences/s"}


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def rates(found: dict[str, Any]) -> str:
    """Return the table of an interleaved benchmark."""
    unit = next(key for key in UNITS if key in found["rows"][0])
    rows = [
        [
            row["variant"],
            f"{row[unit]:,.0f}" if row[unit] >= 100 else f"{row[unit]:.1f}",
            "{median:.2f} ({low:.2f} to {high:.2f})".format(**row["ratio"]),
            f"{row['peak_mib']:,}",
        ]
        for row in found["rows"]
    ]
    head = ["", UNITS[unit], "ratio to the first (10 to 90 %)", "peak MiB"]
    note = f"`{found['command']}`; {found['machine']}, torch {found['torch']}."
    return f"{table(head, rows)}\n\n{note}"


def scores(found: dict[str, Any]) -> str:
    """Return the table of translation quality."""
    rows = [
        [
            row["system"],
            f"{row['parameters'] / 1e6:.1f} M",
            f"{row['minutes']:.0f} min",
            f"{row['bleu']:.1f} ± {row['bleu_interval']:.1f}",
            f"{row['chrf']:.1f}",
            f"{row['tokens_per_second']:,.0f}",
        ]
        for row in found["rows"]
    ]
    head = ["system", "parameters", "trained", "BLEU", "chrF2", "decoded tokens/s"]
    notes = [f"`{found['signature']}`", f"{found['machine']}.", found["note"]]
    return f"{table(head, rows)}\n\n{' '.join(notes)}"


TABLES = {"multi30k": scores, "train": rates, "decode": rates}


def rewritten(text: str) -> str:
    """Return the README with every table between its markers made anew."""
    for name, draw in TABLES.items():
        path = ROOT / "data" / "benchmarks" / f"{name}.json"
        body = draw(json.loads(path.read_text(encoding="utf-8")))
        pattern = re.compile(f"(<!-- table {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not pattern.search(text):
            raise SystemExit(f"README.md has no place for the table {name}")
        text = pattern.sub(lambda match, body=body: match[1] + body + "\n" + match[2], text)
    return text


def main() -> None:
    """Rewrite README.md, or check it."""
    readme = ROOT / "README.md"
    before = readme.read_text(encoding="utf-8")
    after = rewritten(before)
    if "--check" in sys.argv[1:]:
        raise SystemExit(0 if after == before else "README.md: run scripts/readme_tables.py")
    readme.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()
