"""Simulate equal systems and count how often `jtrans score` says that they differ.

    python -m scripts.significance --json data/benchmarks/significance.json

A run's score is the mean of its sentences' numbers, which are normal with a variance of their own
for each run, plus a normal number for its seed. Of equal systems, at most 5 % should have a p-value
below 0.05 (docs/systems.md 10.6).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from jtrans.evaluation.bootstrap import Bootstrap
from jtrans.evaluation.seeds import SeedSample, compare_means
from jtrans.files import write_json

PAIRS = 2000
SENTENCES = 200
RUNS = ((1, 1), (2, 2), (3, 3), (3, 1), (5, 5))
SPREADS = (0.0, 0.5, 1.0, 2.0, 7.0)  # between seeds, in standard errors of a score over sentences
LEVEL = 0.05
SEED = 7


def equal_systems(
    bootstrap: Bootstrap, runs: int, spread: float, number: int, generator: np.random.Generator
) -> list[SeedSample]:
    """Return `number` equal systems of some runs with seeds `spread` standard errors apart."""
    sentences = bootstrap.sentences
    own = generator.normal(0, np.sqrt(sentences), size=(sentences, number, runs))
    scores = own + generator.normal(0, spread, size=(number, runs))
    drawn = bootstrap.sums(scores) / sentences  # [samples, systems, runs]
    values = scores.mean(axis=0)
    return [SeedSample(values[i], drawn[:, i].T) for i in range(number)]


def share_that_differs(
    runs: tuple[int, int], spread: float, pairs: int, sentences: int = SENTENCES
) -> float:
    """Return the share of pairs of equal systems with a p-value below `LEVEL`."""
    generator = np.random.default_rng(SEED)
    bootstrap = Bootstrap(sentences)
    differing, at_once = 0, 100
    for first in range(0, pairs, at_once):
        number = min(at_once, pairs - first)
        sides = [equal_systems(bootstrap, count, spread, number, generator) for count in runs]
        differing += sum(
            compare_means(*pair, sentences=sentences).p_value < LEVEL
            for pair in zip(*sides, strict=True)
        )
    return differing / pairs


def main() -> None:
    """Simulate all numbers of runs and spreads, and write the shares if requested."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=PAIRS, help="of equal systems, for each share")
    parser.add_argument("--json", type=Path, help="write the shares to this file")
    chosen = parser.parse_args()
    rows = []
    for runs in RUNS:
        shares = [share_that_differs(runs, spread, chosen.pairs) for spread in SPREADS]
        print(*runs, *(f"{share:.2%}" for share in shares), flush=True)
        rows.append({"runs": runs, "shares": shares})
    if chosen.json:
        command = "python -m scripts.significance"
        result = {"command": command, "pairs": chosen.pairs, "sentences": SENTENCES}
        write_json(chosen.json, {**result, "spreads": SPREADS, "rows": rows})


if __name__ == "__main__":
    main()
