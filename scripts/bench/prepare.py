r"""Compare `jtrans prepare` with sacremoses and subword-nmt on the same text, in turns.

    python -m scripts.bench.prepare compare --corpus corpora/tatoeba-de-en --languages de-en
    python -m scripts.bench.prepare scale --corpus corpora/tatoeba-de-en --languages de-en \
        --pairs 5000000

`compare` runs the two commands of each tool one after the other (A B A B ...) and checks that
codes and subwords are the same. `scale` repeats the text with changes until it has the requested
number of pairs, and measures memory while `jtrans prepare` runs on it. Both write to --output.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jtrans.files import write_json
from scripts.bench.interleave import processor

MERGES = 10_000
ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
# The sacremoses command always writes HTML entities; jtrans prepares raw words.
UNESCAPE = "".join(
    f"s/{entity}/{character}/g;"
    for entity, character in {
        "&#124;": "|", "&lt;": "<", "&gt;": ">", "&apos;": "'", "&quot;": '"',
        "&#91;": "[", "&#93;": "]", "&amp;": r"\&",
    }.items()
)  # fmt: skip
# No cleaning: jtrans keeps all text that sacremoses and subword-nmt process.
KEEP_ALL = [
    "--no-deduplicate", "--keep-leaked", "--keep-identical", "--keep-wrong-script",
    "--max-ratio", "100000", "--max-length", "100000", "--segment", "moses",
]  # fmt: skip


def main() -> None:
    """Run the comparison or the large corpus."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["compare", "scale"])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--languages", default="de-en")
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="5,000 pairs, one round")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--output", type=Path, help="JSON file to add the result to")
    parser.add_argument("--work", type=Path, help="folder for large files")
    arguments = parser.parse_args()
    work = arguments.work and arguments.work.resolve()
    with tempfile.TemporaryDirectory(dir=work) as folder:
        make = compare if arguments.what == "compare" else scale
        result = make(arguments, Path(folder))
    result = {
        "command": shlex.join(["python", "-m", "scripts.bench.prepare", *sys.argv[1:]]),
        "machine": f"{processor()}, {os.cpu_count()} cores",
        "load": [round(value, 1) for value in os.getloadavg()],
        "python": platform.python_version(),
        **result,
    }
    if arguments.output:
        output: Path = arguments.output
        known = json.loads(output.read_text("utf-8")) if output.exists() else {}
        known[arguments.what] = result
        write_json(output, known)
    print(json.dumps(result) if arguments.json else json.dumps(result, indent=2))


def compare(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Prepare the same text with jtrans and with the other tools, in turns."""
    languages = arguments.languages.split("-")
    unpack(arguments.corpus, folder, languages, limit=5000 if arguments.quick else None)
    rounds = 1 if arguments.quick else arguments.rounds
    times: dict[str, list[dict[str, float]]] = {"jtrans": [], "commands": []}
    for _ in range(rounds):
        times["jtrans"].append(run_all([jtrans_command(folder, languages)], folder))
        times["commands"].append(run_all(other_commands(languages), folder))
    ratios = [
        b["seconds"] / a["seconds"] for a, b in zip(times["jtrans"], times["commands"], strict=True)
    ]
    cpu = [
        b["cpu_seconds"] / a["cpu_seconds"]
        for a, b in zip(times["jtrans"], times["commands"], strict=True)
    ]
    return {
        "corpus": arguments.corpus.name,
        "pairs": sum(1 for _ in (folder / f"train.{languages[0]}").open("rb")),
        "rounds": times,
        "times_faster": round(statistics.median(ratios), 2),
        "times_faster_cpu": round(statistics.median(cpu), 2),
        "same_output": same_output(folder, languages),
    }


def scale(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Prepare a large corpus and measure the memory that it needs."""
    languages = arguments.languages.split("-")
    unpack(arguments.corpus, folder, languages, limit=None)
    enlarge(folder, languages, arguments.pairs)
    command = [
        sys.executable, "-m", "jtrans", "bench", "prepare", "--json", "--train", "large",
        "--valid", "valid", "--languages", arguments.languages, "--bpe-merges", str(MERGES),
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE)
    watch = MemoryWatch(process.pid)
    out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"jtrans ended with {process.returncode}")
    return {
        "pairs": arguments.pairs,
        "megabytes": round(sum((folder / f"large.{x}").stat().st_size for x in languages) / 1e6),
        "peak_proportional_mib": watch.stop(),
        "measured": json.loads(out),
    }


def unpack(corpus: Path, folder: Path, languages: Sequence[str], *, limit: int | None) -> None:
    """Copy the text of a corpus, uncompressed."""
    for split in ("train", "valid", "test"):
        for language in languages:
            with gzip.open(corpus / f"{split}.{language}.gz", "rt", encoding="utf-8") as lines:
                text = lines.read().split("\n")[:-1][:limit]
            path = folder / f"{split}.{language}"
            path.write_text("".join(f"{x}\n" for x in text), encoding="utf-8", newline="\n")


def enlarge(folder: Path, languages: Sequence[str], pairs: int) -> None:
    """Repeat the training text, each time with other changes, so that hardly any pair repeats.

    One word of each line, and one in twenty of the others, gets another letter or digit: this
    yields many new words, as in real text of that size.
    """
    random_ = random.Random(1)
    texts = [(folder / f"train.{x}").read_text("utf-8").split("\n")[:-1] for x in languages]
    handles = [(folder / f"large.{x}").open("w", encoding="utf-8") for x in languages]
    for written in range(pairs):
        is_first = written < len(texts[0])
        for lines, handle in zip(texts, handles, strict=True):
            line = lines[written % len(lines)]
            handle.write(f"{line if is_first else ' '.join(changed(line, random_))}\n")
    for handle in handles:
        handle.close()


def changed(line: str, random_: random.Random) -> Iterator[str]:
    """Yield the words of a line, some of them changed, at least one."""
    words = line.split()
    chosen = random_.randrange(len(words)) if words else 0
    for i, word in enumerate(words):
        if i == chosen or random_.random() < 0.05:
            place = random_.randrange(len(word) + 1)
            yield word[:place] + random_.choice("aeinrst0123456789") + word[place:]
        else:
            yield word


def jtrans_command(folder: Path, languages: Sequence[str]) -> str:
    """Return the command of jtrans for the shell."""
    shutil.rmtree(folder / "prepared", ignore_errors=True)
    return shlex.join(
        [sys.executable, "-m", "jtrans", "-q", "prepare", "--train", "train", "--valid", "valid",
         "--test", "test", "--languages", "-".join(languages), "--out", "prepared",
         "--bpe-merges", str(MERGES), *KEEP_ALL]
    )  # fmt: skip


def other_commands(languages: Sequence[str]) -> list[str]:
    """Return the equivalent commands of sacremoses and subword-nmt."""
    splits = ("train", "valid", "test")
    commands = [
        f"{BIN}/sacremoses -q -l {x} tokenize < {split}.{x} | sed {shlex.quote(UNESCAPE)} "
        f"> {split}.tok.{x}"
        for split in splits
        for x in languages
    ]
    texts = " ".join(f"train.tok.{x}" for x in languages)
    counts = " ".join(f"vocabulary.{x}" for x in languages)
    commands.append(
        f"{BIN}/subword-nmt learn-joint-bpe-and-vocab --input {texts} -s {MERGES} -o codes "
        f"--write-vocabulary {counts} 2> /dev/null"
    )
    return commands + [
        f"{BIN}/subword-nmt apply-bpe -c codes < {split}.tok.{x} > {split}.bpe.{x}"
        for split in splits
        for x in languages
    ]


def run_all(commands: Sequence[str], folder: Path) -> dict[str, float]:
    """Run commands one after the other."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    start, cpu, peak = time.monotonic(), 0.0, 0
    for command in commands:
        process = subprocess.Popen(command, shell=True, cwd=folder, env=environment)
        watch = MemoryWatch(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"failed: {command}")
        cpu += usage.ru_utime + usage.ru_stime
        peak = max(peak, watch.stop())
    seconds = time.monotonic() - start
    return {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        "peak_proportional_mib": peak,
    }


def same_output(folder: Path, languages: Sequence[str]) -> dict[str, Any]:
    """Compare the codes and subwords of jtrans and of the other tools."""
    from jtrans.data.prepared import PreparedCorpus

    corpus = PreparedCorpus.open(folder / "prepared")
    codes = (folder / "codes").read_bytes()
    different = {}
    for side, language in zip(("source", "target"), languages, strict=True):
        vocabulary = getattr(corpus.pipeline, side).vocabulary
        ids = getattr(corpus.pairs("train"), side)
        lines = (folder / f"train.bpe.{language}").read_bytes().decode("utf-8").split("\n")
        different[language] = sum(
            " ".join(vocabulary.tokens[i] for i in ids[index][:-1]) != lines[index].strip()
            for index in range(len(ids))
        )
    return {
        "codes": (corpus.pipeline.source.codes or "").encode("utf-8") == codes,
        "different_lines": different,
    }


class MemoryWatch:
    """Monitors the memory of a process and its children while they run."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._peak = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """Return the peak in MiB; memory that processes share counts once."""
        self._is_over.set()
        self._thread.join()
        return self._peak // 1024

    def _watch(self) -> None:
        while not self._is_over.wait(0.25):
            self._peak = max(self._peak, sum(map(proportional_kib, tree(self._process))))


def tree(process: int) -> list[int]:
    """Return a process and all its descendants."""
    processes = [process]
    for parent in processes:
        try:
            text = Path(f"/proc/{parent}/task/{parent}/children").read_text("ascii")
        except OSError:
            continue
        processes += map(int, text.split())
    return processes


def proportional_kib(process: int) -> int:
    """Return the memory of a process in KiB; what n processes share counts 1/n (Linux's Pss)."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text("ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)


if __name__ == "__main__":
    main()
