"""Train a tiny model for very many updates and look for growing memory and open files.

    python -m scripts.endurance --data data/prepared/grammar-de-en

The training is that of `jtrans train`: it logs, validates, translates and saves. Every thousand
updates the resident memory of the process, its open files and its threads are counted. A quantity
grows if its median over the last quarter of the updates exceeds that over the second quarter by
more than its tolerance; the first quarter is not used, as it fills caches. Exits with 1 if anything
grows. A signal ends it early, with the samples so far.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jtrans.training.events import Advance, TrainingEvents
from scripts.bench.interleave import prepared_corpus, write

UPDATES = 200_000
EVERY = 1000  # updates between two samples
LEAST_SAMPLES = 4  # one of each quarter
TINY = {"width": 16, "ffn_width": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
TRAINING = {"batch_tokens": 64, "validate_every": 2000, "validate_sentences": 10}
TOLERANCES = {"resident_mib": 4.0, "open_files": 0.0, "threads": 0.0}


@dataclass(frozen=True)
class Sample:
    """Time and memory that training has taken up to an update."""

    update: int
    seconds: float  # of training so far
    processor_seconds: float
    resident_mib: float
    open_files: int
    threads: int


class Sampler(TrainingEvents):
    """Takes a sample every `EVERY` updates."""

    def __init__(self, every: int) -> None:
        self.every = every
        self.samples: list[Sample] = []
        self._start = time.monotonic()

    def update(self, advance: Advance) -> None:
        """Take a sample if one is due after this update."""
        if advance.update % self.every:
            return
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        sample = Sample(
            update=advance.update,
            seconds=round(time.monotonic() - self._start, 1),
            processor_seconds=round(time.process_time(), 1),
            resident_mib=round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 2),
            open_files=_count("/proc/self/fd"),
            threads=_count("/proc/self/task"),
        )
        self.samples.append(sample)
        if len(self.samples) % 10 == 0:
            print(sample, flush=True)


def _count(folder: str) -> int:
    return sum(1 for _ in Path(folder).iterdir())


def growth(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the growth of each quantity's median from the second quarter to the last."""
    quarter = len(samples) // 4
    second, last = samples[quarter : 2 * quarter], samples[3 * quarter :]
    return {
        name: round(
            statistics.median(getattr(each, name) for each in last)
            - statistics.median(getattr(each, name) for each in second),
            2,
        )
        for name in TOLERANCES
    }


def growing(changes: Mapping[str, float]) -> list[str]:
    """Return the quantities that have grown by more than their tolerance."""
    return [name for name, change in changes.items() if change > TOLERANCES[name]]


def endure(data: Path, updates: int, every: int) -> list[Sample]:
    """Train a tiny Transformer in a temporary folder until a signal, and return the samples."""
    from jtrans.cli.stop_signals import StopSignals
    from jtrans.config import load_config
    from jtrans.models.zoo import system_configs
    from jtrans.training.session import train

    sizes = {f"model.{name}": value for name, value in TINY.items()}
    options = {**sizes, **{f"training.{name}": value for name, value in TRAINING.items()}}
    config = load_config("demo/transformer", system_configs(), options=options)
    config = config.with_training(max_updates=updates, max_epochs=None, stop=None)
    sampler = Sampler(every)
    with tempfile.TemporaryDirectory() as folder, StopSignals() as signals:
        run = Path(folder) / "run"
        train(
            config,
            data=data,
            run=run,
            device="cpu",
            events=sampler,
            should_stop=signals.are_set,
        )
    return sampler.samples


def main() -> None:
    """Train, print what has grown, and write the samples if requested."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=prepared_corpus, required=True, help="a prepared corpus")
    parser.add_argument("--updates", type=int, default=UPDATES)
    parser.add_argument("--every", type=int, default=EVERY, help="updates between two samples")
    parser.add_argument("--json", type=Path, help="write the samples to this file")
    chosen = parser.parse_args()
    samples = endure(chosen.data, chosen.updates, chosen.every)
    if len(samples) < LEAST_SAMPLES:
        raise SystemExit(f"{len(samples)} samples are too few to tell what grows: nothing written")
    changes = growth(samples)
    faults = growing(changes)
    done = samples[-1].update
    print(f"{done:,} updates, growth since the second quarter: {changes}")
    if faults:
        print(f"growing: {', '.join(faults)}")
    data = chosen.data.name
    command = f"python -m scripts.endurance --data {data} --updates {chosen.updates}"
    rows = [vars(each) for each in samples]
    result = {"updates": done, "growth": changes, "growing": faults, "rows": rows}
    write(chosen.json, command=command, model=TINY, training=TRAINING, **result)
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
