"""The commands of a user on a GPU, for `check.py`: prepare, train, translate and score.

They run as processes of their own, and their output is compared with that of a CPU. Without a GPU
both are a CPU's.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from jtrans.data.prepared import PreparedCorpus
from scripts.gpu.correctness import comparison
from scripts.gpu.timing import Row, Scale

RECIPE = "demo/reformer-fast"
LINES = 100  # of the test set, that are translated
OTHER_LINES = 0.05  # share that may differ in float32: near ties of a beam
OTHER_BLEU = 0.5


def commands(scale: Scale) -> list[Row]:
    """Train the recipe of the demo, then translate and score on the GPU and on the CPU."""
    updates, lines = (20, 3) if scale.is_tiny else (1_000, LINES)
    here = str(scale.device)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, run, source = folder / "data", folder / "run", folder / "source"
        _jtrans("prepare", "grammar-de-en", "--out", data)
        raw = PreparedCorpus.open(data).raw_lines("test", "source")[:lines]
        source.write_text("".join(f"{line}\n" for line in raw), encoding="utf-8")
        settings = (f"training.max_updates={updates}", "training.validate_sentences=0")
        options = ("--device", here, *(word for each in settings for word in ("--set", each)))
        _, seconds = _jtrans("train", RECIPE, "--data", data, "--run", run, *options)
        rows: list[Row] = [{"command": "train", "device": here, "seconds": seconds}]
        written: dict[str, list[str]] = {}
        bleu: dict[str, float] = {}
        for device in dict.fromkeys((here, "cpu")):
            options = ("--device", device, "--precision", "fp32")
            out, seconds = _jtrans("translate", run, "--input", source, *options)
            written[device] = out.splitlines()
            rows.append({"command": "translate", "device": device, "seconds": seconds})
            # both must translate, not read the translations that the other has cached
            shutil.rmtree(run / "translations", ignore_errors=True)
            out, seconds = _jtrans("score", run, "--json", "--device", device)
            bleu[device] = json.loads(out)["systems"][0]["bleu"]
            rows.append(
                {"command": "score", "device": device, "seconds": seconds, "BLEU": bleu[device]}
            )
    pairs = list(zip(written[here], written["cpu"], strict=True))
    other = sum(ours != expected for ours, expected in pairs) / lines
    return [
        *rows,
        comparison("translate: share of lines unlike a CPU's", other, OTHER_LINES),
        comparison("score: BLEU beside a CPU's", abs(bleu[here] - bleu["cpu"]), OTHER_BLEU),
    ]


def _jtrans(*arguments: object) -> tuple[str, float]:
    """Return what a command prints, and the seconds it takes.

    Raises:
        RuntimeError: the command failed.
    """
    command = [sys.executable, "-m", "jtrans", *map(str, arguments)]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"jtrans {arguments[0]}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout, round(time.perf_counter() - start, 1)
