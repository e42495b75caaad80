"""Check training in several processes on this machine: deaths, signals, several nodes, speed.

    kill      random kill -9 of a rank or of all; ends byte-equal to an undisturbed run
    silent    a rank is suspended: the others end within a minute, and all start again
    stop      SIGINT, SIGTERM, or the death of the launcher: all save and end
    machines  torchrun with two nodes on the loopback device, one of which dies
    speed     2 processes of 1 thread against 1 process of 2 threads

Needs the built-in corpus (`jtrans prepare grammar-de-en`), or another by `--data`. Every command
writes one JSON object, and exits with 1 if the check failed; `--json FILE` also keeps it, beside
those of the other checks. No process may be left after a check. Processes are found in /proc.

    python -m scripts.distributed kill --cycles 50 --json data/benchmarks/distributed.json
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from jtrans.files import read_json, write_json
from jtrans.processors import is_alive
from jtrans.runs import Run
from scripts.bench.interleave import prepared_corpus, processor

TINY = {
    "model.width": 16,
    "model.ffn_width": 32,
    "model.heads": 2,
    "training.batch_tokens": 300,
    "training.micro_batch_tokens": 100,
    "training.validate_sentences": 4,
    "training.validate_every": 10,
}
# signal, and whether all processes get it, as from batch systems and systemd, or the launcher alone
STOPS = {
    "SIGINT": (signal.SIGINT, False),
    "SIGTERM": (signal.SIGTERM, False),
    "SIGTERM to all": (signal.SIGTERM, True),
    "SIGKILL": (signal.SIGKILL, False),
}
LIMIT_SECONDS = 600.0
LEFT_SECONDS = 10.0  # time for the last processes of a check to end


class Training:
    """One start of `jtrans train`, in a session of its own."""

    def __init__(self, run: Path, data: Path, *options: str, **settings: Any) -> None:
        self.run = run
        values = {**TINY, **settings}
        sets = [f"--set={key}={value}" for key, value in values.items()]
        self.arguments = ["train", "demo/transformer", "--run", str(run), "--data", str(data)]
        self.arguments += [*sets, *options]

    def start(self) -> subprocess.Popen[bytes]:
        """Start the command with its output written to `log`."""
        command = [sys.executable, "-m", "jtrans", *self.arguments]
        with self.log.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def finish(self) -> None:
        """Run the command to its end."""
        with self.start() as process:
            code = process.wait(LIMIT_SECONDS)
        if code:
            raise SystemExit(f"{self.run} ended with {code}: {self.log.read_text()}")

    @property
    def log(self) -> Path:
        """The file with the command's output."""
        return self.run.with_suffix(".txt")

    def count(self, event: str) -> int:
        """Count the events of a kind in the run's log."""
        return sum(each.get("event") == event for each in Run(self.run).events())

    def wait_for_start(self, starts: int, process: subprocess.Popen[bytes]) -> None:
        """Wait until training has started more often than `starts` times, or has ended."""
        wait_until(lambda: self.count("start") > starts or process.poll() is not None)


def ranks_of(process: subprocess.Popen[bytes]) -> list[int]:
    """Return the process numbers of the ranks that a launcher has started."""
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            status = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(status[1]) == process.pid and status[0] != "Z":
                command = (folder / "cmdline").read_bytes().split(b"\0")
                processes += [int(folder.name)] if b"jtrans" in command else []
    return sorted(processes)


def wait_until(is_true: Callable[[], bool]) -> float:
    """Wait until `is_true`, and return the seconds; end with an error if it takes too long."""
    start = time.monotonic()
    while not is_true():
        if time.monotonic() - start > LIMIT_SECONDS:
            raise SystemExit(f"stopped waiting after {LIMIT_SECONDS:.0f} seconds")
        time.sleep(0.05)
    return time.monotonic() - start


def are_gone(process_ids: Sequence[int]) -> bool:
    """Return whether all these processes have ended."""
    return not any(map(is_alive, process_ids))


def left_over(folder: Path) -> list[str]:
    """Kill the processes that name `folder` and have not ended in time; return their commands."""

    def find() -> dict[int, str]:
        commands = {}
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if str(folder) in command:
                    commands[int(process.name)] = command
        return commands

    end = time.monotonic() + LEFT_SECONDS
    while (commands := find()) and time.monotonic() < end:
        time.sleep(0.5)
    for process_id in commands:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process_id, signal.SIGKILL)
    return [*commands.values()]


def last_bytes(run: Path) -> dict[str, bytes]:
    """Return the weights and the optimiser's state of the last checkpoint."""
    folder = Run(run).checkpoint("last").folder
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.safetensors"))}


def kill(folder: Path, data: Path, cycles: int) -> dict[str, Any]:
    """Kill a rank, or all processes, at random times; compare with an undisturbed run."""
    # both continue one run of one update, so that they compute with the same library
    Training(folder / "first", data, "--processes=2", **{"training.max_updates": 1}).finish()
    for name in ("whole", "broken"):
        shutil.copytree(folder / "first", folder / name)
    kills = kill_at_random(folder / "broken", data, cycles)
    updates = (Run(folder / "broken").checkpoint("last").update or 0) + 10
    for name in ("broken", "whole"):
        settings = {"training.max_updates": updates}
        Training(folder / name, data, "--processes=2", **settings).finish()
    equal = last_bytes(folder / "whole") == last_bytes(folder / "broken")
    return {"ok": equal, "kills": kills, "updates": updates, "equal": equal}


def kill_at_random(run: Path, data: Path, cycles: int) -> dict[str, int]:
    """Train while `cycles` times a rank or all are killed; then ask to stop; count the kills."""
    draw = random.Random(1)
    options = "--processes=2", f"--max-restarts={cycles}"
    training = Training(run, data, *options, **{"training.max_updates": 1_000_000})
    kills = {"rank": 0, "all": 0}
    starts, process = training.count("start"), training.start()
    while sum(kills.values()) < cycles:
        training.wait_for_start(starts, process)
        time.sleep(draw.uniform(0.0, 2.0))
        starts, ranks = training.count("start"), ranks_of(process)
        if process.poll() is not None:
            raise SystemExit(f"the run has ended: {training.log.read_text()}")
        if len(ranks) == 2 and draw.random() < 0.75:
            os.kill(draw.choice(ranks), signal.SIGKILL)
            kills["rank"] += 1
            continue
        for number in (process.pid, *ranks):
            os.kill(number, signal.SIGKILL)
        process.wait()
        kills["all"] += 1
        process = training.start()
    training.wait_for_start(starts, process)
    process.send_signal(signal.SIGTERM)
    if process.wait(LIMIT_SECONDS) != 128 + signal.SIGTERM:
        raise SystemExit(f"the run has not stopped: {training.log.read_text()}")
    return kills


def silent(folder: Path, data: Path) -> dict[str, Any]:
    """Suspend a rank: the others end within a minute, and all start again."""
    settings = {"training.max_updates": 1_000_000}
    training = Training(folder / "run", data, "--processes=2", **settings)
    with training.start() as process:
        wait_until(lambda: training.count("validation") > 0)
        starts, stopped = training.count("start"), ranks_of(process)[1]
        os.kill(stopped, signal.SIGSTOP)
        try:
            ended = wait_until(lambda: not is_alive(stopped))
            again = wait_until(lambda: training.count("start") > starts)
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(LIMIT_SECONDS)
    says = [line for line in training.log.read_text().splitlines() if "no sign of life" in line]
    is_ok = ended < 90.0 and code == 143 and bool(says)
    return {"ok": is_ok, "ended_seconds": ended, "again_seconds": again, "says": says}


def stop(folder: Path, data: Path) -> dict[str, Any]:
    """Send signals, or kill the launcher: all save and end."""
    results: dict[str, Any] = {}
    for name, (number, is_for_all) in STOPS.items():
        settings = {"training.max_updates": 1_000_000, "training.validate_every": 1_000_000}
        training = Training(folder / name, data, "--processes=2", **settings)
        with training.start() as process:
            training.wait_for_start(0, process)
            time.sleep(3.0)
            ranks = ranks_of(process)
            for receiver in [process.pid, *(ranks if is_for_all else [])]:
                os.kill(receiver, number)
            seconds = wait_until(functools.partial(are_gone, ranks))
            code = process.wait(LIMIT_SECONDS)
        saved = max((each.update or 0 for each in Run(folder / name).checkpoints()), default=0)
        expected = -number if number == signal.SIGKILL else 128 + number
        is_ok = code == expected and saved > 0 and training.count("start") == 1
        results[name] = {"ok": is_ok, "code": code, "update": saved, "seconds": seconds}
    return {"ok": all(each["ok"] for each in results.values()), **results}


def machines(folder: Path, data: Path) -> dict[str, Any]:
    """Train on two nodes of torchrun; then one node dies."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]

    def nodes(run: str, updates: int) -> list[subprocess.Popen[bytes]]:
        training = Training(folder / run, data, **{"training.max_updates": updates})
        common = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
        common += ["--master-addr=127.0.0.1", f"--master-port={port}"]
        started = []
        for node in (0, 1):
            line = [*common, f"--node-rank={node}", "-m", "--", "jtrans", *training.arguments]
            with (folder / f"{run}-node{node}.txt").open("wb") as log:
                started.append(
                    subprocess.Popen(line, stdout=log, stderr=log, start_new_session=True)
                )
        return started

    codes = [node.wait(LIMIT_SECONDS) for node in nodes("two", 20)]
    Training(folder / "one", data, **{"training.max_updates": 20}).finish()
    updates = [Run(folder / run).checkpoint("last").update for run in ("one", "two")]
    first, second = nodes("lost", 1_000_000)
    lost = Training(folder / "lost", data)
    wait_until(lambda: Run.exists(lost.run) and lost.count("validation") > 0)
    for number in (second.pid, *ranks_of(second)):
        os.kill(number, signal.SIGKILL)
    second.wait()
    start = time.monotonic()
    code = first.wait(LIMIT_SECONDS)
    seconds = time.monotonic() - start
    lines = (folder / "lost-node0.txt").read_text().splitlines()
    says = [line for line in lines if line.startswith("error:")]
    is_ok = codes == [0, 0] and updates == [20, 20] and code != 0 and seconds < 60 and bool(says)
    return {"ok": is_ok, "codes": codes, "lost_seconds": seconds, "says": says}


def speed(folder: Path, data: Path, pairs: int) -> dict[str, Any]:
    """Compare 2 processes of 1 thread with 1 process of 2 threads, in turns."""
    rates: dict[str, list[float]] = {"processes": [], "threads": []}
    spent: dict[str, list[float]] = {"processes": [], "threads": []}  # by the first process
    common = ["train", "demo/reformer-fast", "--data", str(data)]
    settings = {"max_updates": 150, "validate_every": 1_000_000, "validate_sentences": 0}
    common += [f"--set=training.{key}={value}" for key, value in settings.items()]
    for number in range(pairs):
        for name, threads, options in (
            ("processes", "1", ["--processes=2"]),
            ("threads", "2", []),
        ):
            run = folder / f"{name}-{number}"
            command = [sys.executable, "-m", "jtrans", *common, "--run", str(run), *options]
            environment = {**os.environ, "OMP_NUM_THREADS": threads}
            subprocess.run(command, env=environment, check=True, stderr=subprocess.DEVNULL)
            *events, end = (each for each in Run(run).events() if each["event"] in ("train", "end"))
            rates[name].append(statistics.median(each["tokens_per_second"] for each in events[1:]))
            spent[name].append(end["processor_seconds"])
    ratios = [a / b for a, b in zip(rates["processes"], rates["threads"], strict=True)]
    result = {"ratios": ratios, "tokens_per_second": rates, "processor_seconds": spent}
    return {"ok": statistics.median(ratios) >= 1.0, **result}


@contextlib.contextmanager
def work_folder() -> Iterator[Path]:
    """Yield a folder for runs, which is kept if the check fails."""
    folder = Path(tempfile.mkdtemp(prefix="jtrans-distributed-"))
    yield folder
    shutil.rmtree(folder)


def keep(path: Path, check: str, result: dict[str, Any]) -> None:
    """Write the result of a check to a file that holds the results of all checks."""
    results = read_json(path) if path.exists() else {}
    machine = f"{processor()}, {os.cpu_count()} cores"
    arguments = [Path(each).name if "/" in each else each for each in sys.argv[1:]]
    command = " ".join(["python -m scripts.distributed", *arguments])
    write_json(path, {**results, check: {"command": command, "machine": machine, **result}})


def main() -> None:
    """Run one check."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("check", choices=["kill", "silent", "stop", "machines", "speed"])
    parser.add_argument("--data", type=prepared_corpus, default=Path("data/prepared/grammar-de-en"))
    parser.add_argument("--cycles", type=int, default=50, help="kills in the check kill")
    parser.add_argument("--pairs", type=int, default=3, help="pairs of runs in the check speed")
    parser.add_argument("--json", type=Path, help="keep the result in this file")
    chosen = parser.parse_args()
    checks: dict[str, Callable[[Path], dict[str, Any]]] = {
        "kill": lambda folder: kill(folder, chosen.data, chosen.cycles),
        "silent": lambda folder: silent(folder, chosen.data),
        "stop": lambda folder: stop(folder, chosen.data),
        "machines": lambda folder: machines(folder, chosen.data),
        "speed": lambda folder: speed(folder, chosen.data, chosen.pairs),
    }
    with work_folder() as folder:
        start = time.monotonic()
        result = checks[chosen.check](folder)
        left = left_over(folder)
        result = {**result, "ok": result["ok"] and not left, "left": left}
        result["minutes"] = round((time.monotonic() - start) / 60, 1)
        print(json.dumps({"check": chosen.check, **result}))
        if chosen.json is not None:
            keep(chosen.json, chosen.check, result)
        if not result["ok"]:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
