"""The memory that a large corpus needs in training: for an epoch's plan, and for BPE-dropout.

    python -m scripts.bench.corpus_memory --data data/prepared/multi30k-de-en

A corpus of PAIRS sentence pairs is made up from the vocabulary of a prepared corpus: two million
different words, whose frequencies fall as 1 / rank. Its ids are in files, like those of a prepared
corpus. The benchmark measures the anonymous memory of the process (Linux's RssAnon), which belongs
to no file.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scripts.bench.interleave import prepared_corpus, recorded_command, write

TYPES, LONGEST_WORD, WORDS = 2_000_000, 4, 18  # words; pieces of one; words of a sentence
BLOCK = 100_000


class PeakMemory:
    """Samples the anonymous memory of this process until `peak` is called."""

    def __init__(self) -> None:
        self._peak, self._done = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def peak(self) -> int:
        """Stop sampling and return the most bytes seen."""
        self._done.set()
        self._thread.join()
        return self._peak

    def _watch(self) -> None:
        while not self._done.wait(0.02):
            self._peak = max(self._peak, anonymous_memory())


def anonymous_memory() -> int:
    """Return the bytes of memory that belong to no file."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status does not have RssAnon, the memory of this process")


def sentences(
    random: np.random.Generator, pairs: int, inner: NDArray[np.int32], final: NDArray[np.int32]
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64]]]:
    """Yield the ids of blocks of sentences, and the length of each."""
    from jtrans.text.vocabulary import EOS

    sizes = random.integers(1, LONGEST_WORD + 1, TYPES)
    pieces = random.choice(inner, (TYPES, LONGEST_WORD))
    pieces[np.arange(TYPES), sizes - 1] = random.choice(final, TYPES)
    steps = np.log(TYPES)
    for first in range(0, pairs, BLOCK):
        count = min(BLOCK, pairs - first)
        ranks = np.exp(random.random((count, WORDS)) * steps).astype(np.int64) - 1
        words = pieces[ranks]  # [count, WORDS, LONGEST_WORD]
        is_real = np.arange(LONGEST_WORD) < sizes[ranks][..., None]
        lengths = is_real.sum((1, 2)) + 1
        rows = np.concatenate(
            [words.reshape(count, -1), np.full((count, 1), EOS, np.int32)], axis=1
        )
        mask = np.concatenate([is_real.reshape(count, -1), np.ones((count, 1), bool)], axis=1)
        yield rows[mask], lengths


def make_store(folder: Path, name: str, tokens: list[str], pairs: int) -> None:
    """Write one side of the corpus."""
    ids = np.arange(len(tokens), dtype=np.int32)
    is_inner = np.array([token.endswith("@@") for token in tokens])
    is_real = ids >= 4
    random = np.random.default_rng(len(name))
    offsets, end = np.zeros(pairs + 1, np.int64), 0
    with (folder / f"{name}.bin").open("wb") as stream:
        done = 0
        for block, lengths in sentences(random, pairs, ids[is_inner], ids[is_real & ~is_inner]):
            stream.write(block.tobytes())
            offsets[done + 1 : done + 1 + lengths.size] = end + lengths.cumsum()
            done += lengths.size
            end = int(offsets[done])
    np.save(folder / f"{name}.offsets.npy", offsets)


def measure(data: Path, pairs: int, rate: float) -> dict[str, object]:
    """Return the memory of an epoch with and without BPE-dropout."""
    import torch  # counted at the start, as every training needs it  # noqa: F401

    from jtrans.config import TrainingConfig
    from jtrans.data.bpe_dropout import BpeDropout
    from jtrans.data.ids import IdStore, ParallelIds
    from jtrans.data.prepared import PreparedCorpus
    from jtrans.training.updates import UpdatePlan

    pipeline = PreparedCorpus.open(data).pipeline
    with tempfile.TemporaryDirectory() as name:
        folder, stores = Path(name), {}
        for side in ("source", "target"):
            vocabulary = getattr(pipeline, side).vocabulary
            make_store(folder, side, vocabulary.tokens, pairs)
            ids = np.memmap(folder / f"{side}.bin", np.int32, "r")
            stores[side] = IdStore(np.asarray(ids), np.load(folder / f"{side}.offsets.npy"))
        both = ParallelIds(stores["source"], stores["target"])
        training = TrainingConfig(batch_tokens=25_000)
        before, watch, started = anonymous_memory(), PeakMemory(), time.process_time()
        updates = UpdatePlan(both, training, is_joint=False).epoch(0)
        row: dict[str, object] = {
            "pairs": pairs,
            "tokens": int(both.source.flat[0].size + both.target.flat[0].size),
            "updates": len(updates),
            "start_bytes": before,
            "plan_bytes": watch.peak(),
            "plan_seconds": round(time.process_time() - started, 1),
        }
        watch, started = PeakMemory(), time.process_time()
        drawn = BpeDropout(both, pipeline, rate=rate, seed=1).epoch(0)
        del updates
        row["updates_with_dropout"] = len(UpdatePlan(drawn, training, is_joint=False).epoch(0))
        row |= {
            "bpe_dropout": rate,
            "dropout_bytes": watch.peak(),
            "dropout_seconds": round(time.process_time() - started, 1),
        }
        return row


def main() -> None:
    """Measure and print, and write the result if requested."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--data", type=prepared_corpus, required=True, help="a prepared corpus with BPE"
    )
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    row = measure(chosen.data, chosen.pairs, chosen.rate)
    print(json.dumps(row, indent=2))
    write(chosen.json, command=recorded_command("corpus_memory"), rows=[row])


if __name__ == "__main__":
    main()
