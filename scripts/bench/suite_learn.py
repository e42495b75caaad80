"""The scores that every system reaches in equal time: suite `learn` of systems.py.

Every recipe trains in a process of its own with one thread, then translates and scores the test
split. Its row is written at once, so that an interrupted session keeps its measurements, and a
system that fails does not stop the others. A finished run is not trained again. Minutes are of
processor time, so that other work on the machine changes nothing.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import multiprocessing
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.bench.interleave import prepared_corpus, recorded_command, rows_with, write

if TYPE_CHECKING:
    from jtrans.config import Config
    from jtrans.data.prepared import PreparedCorpus
    from jtrans.training.events import Result, TrainingEvents

ROOT = Path(__file__).resolve().parents[2]
THREADS = "1"


@dataclass(frozen=True)
class LearnedCorpus:
    """A corpus that all systems learn.

    Args:
        prepared: the name of the prepared corpus.
        recipes: the folder of its recipes.
        baseline: the recipe whose BLEU is 100 %.
        minutes: the limit of recipes that would train longer.
        accuracy: the token accuracy on valid that ends training; None: only the recipe ends it.
    """

    prepared: str
    recipes: str
    baseline: str
    minutes: dict[str, float]
    accuracy: float | None = None

    def names(self) -> list[str]:
        """Return the recipes: the baseline first, and those that start from others last."""
        from jtrans.config import recipe_names

        names = [name for name in recipe_names() if name.startswith(f"{self.recipes}/")]
        return sorted(
            names, key=lambda name: (bool(initial_runs(recipe(name))), name != self.first)
        )

    @property
    def first(self) -> str:
        """The full name of the baseline."""
        return f"{self.recipes}/{self.baseline}"


CORPORA = {
    "multi30k": LearnedCorpus(
        "multi30k-de-en",
        "multi30k-de-en",
        "transformer",
        {
            f"multi30k-de-en/{name}": 10
            for name in ("transformer", "reformer-base", "reformer-fast")
        },
    ),
    "grammar": LearnedCorpus("grammar-de-en", "demo", "transformer", {}, accuracy=0.9),
}
MOST_MINUTES = 30.0  # of recipes without a limit of their own, if accuracy ends training


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the suite."""
    parser.add_argument("--corpus", choices=CORPORA, default="multi30k")
    parser.add_argument("--data", type=prepared_corpus, help="default: data/prepared/CORPUS")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="a folder named runs")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="recipes, with or without their folder"
    )
    parser.add_argument("--minutes", type=float, help="of all, instead of their recipes' own")
    parser.add_argument("--restart", action="store_true", help="train again what is finished")
    parser.add_argument("--json", type=Path, help="default: systems_CORPUS.json of data/benchmarks")


def learn_suite(chosen: argparse.Namespace) -> None:
    """Train, translate and score one recipe after the other."""
    corpus = CORPORA[chosen.corpus]
    if chosen.runs.name != "runs":  # recipes name the runs that they start from as runs/RECIPE
        raise SystemExit(f"--runs {chosen.runs}: the folder must be called runs")
    names = corpus.names()
    if chosen.only:
        only = [f"{corpus.recipes}/{name.rpartition('/')[2]}" for name in chosen.only]
        if unknown := set(only) - set(names):
            raise SystemExit(
                f"no recipe {', '.join(sorted(unknown))}; there are {', '.join(names)}"
            )
        names = [name for name in names if name in only]
    data = (chosen.data or Path("data/prepared") / corpus.prepared).resolve()
    results = (chosen.json or ROOT / f"data/benchmarks/systems_{chosen.corpus}.json").resolve()
    os.environ["OMP_NUM_THREADS"] = THREADS  # of the processes below
    context = multiprocessing.get_context("spawn")
    failed = []
    for name in names:
        options = (chosen.corpus, name, data, chosen.runs.resolve(), results)
        job = context.Process(target=learn, args=(*options, chosen.minutes, chosen.restart))
        job.start()
        job.join()
        if job.exitcode:
            failed.append(f"{name} (exit {job.exitcode})")
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def learn(
    corpus_name: str,
    name: str,
    data: Path,
    runs: Path,
    results: Path,
    minutes: float | None,
    restart: bool,
) -> None:
    """Train a recipe, measure it, and write its row."""
    from jtrans.data.prepared import PreparedCorpus

    learned = CORPORA[corpus_name]
    runs.mkdir(parents=True, exist_ok=True)
    os.chdir(runs.parent)
    corpus = PreparedCorpus.open(data)
    if restart:
        shutil.rmtree(f"runs/{name}", ignore_errors=True)
    of_recipe = recipe(name).training.max_minutes
    limit = minutes or learned.minutes.get(name) or of_recipe or MOST_MINUTES
    clock = ProcessorTime(Path(f"runs/{name}/processor_seconds"))
    print(f"{name}: {clock.minutes:.1f} of at most {limit:g} minutes done", flush=True)
    result = train(name, corpus, learned.accuracy, limit, clock)
    row = measure(name, corpus, result, clock)
    command = recorded_command("systems")
    keep(results, learned, row, command=command, corpus=corpus.name)
    print(
        "{recipe}: {parameters:,} parameters, {minutes} min, {updates:,} updates, valid token "
        "accuracy {token_accuracy} %, BLEU {bleu} ± {bleu_interval}, chrF {chrf}".format(**row),
        flush=True,
    )


class ProcessorTime:
    """The processor time that training a recipe has taken, over all sessions.

    With one thread it is the time that a quiet machine takes, whatever else is running.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seconds = float(path.read_text(encoding="utf-8")) if path.exists() else 0.0
        self.began: float | None = None

    @property
    def minutes(self) -> float:
        """Return the minutes so far."""
        running = 0.0 if self.began is None else time.process_time() - self.began
        return (self.seconds + running) / 60

    def __enter__(self) -> None:
        """Begin to count."""
        self.began = time.process_time()

    def __exit__(self, *_: object) -> None:
        """Stop counting, and keep the time for later sessions."""
        self.save()
        self.seconds, self.began = 60 * self.minutes, None

    def save(self) -> None:
        """Keep the time so far, if there is a run."""
        if self.path.parent.exists():
            self.path.write_text(f"{60 * self.minutes:.1f}\n", encoding="utf-8")


def train(
    name: str, corpus: PreparedCorpus, accuracy: float | None, limit: float, clock: ProcessorTime
) -> Result:
    """Train for `limit` minutes, or epoch by epoch until `accuracy` is reached."""
    from jtrans import api
    from jtrans.runs import Run

    settings: dict[str, Any] = {"training.max_minutes": 1e6}  # processor time decides
    if accuracy is not None and recipe(name).training.best_metric == "valid-loss":
        settings["training.validate_sentences"] = 0  # nothing depends on BLEU

    def until(should_stop: Callable[[], bool] = lambda: False, **limits: int) -> Result:
        config = recipe(name, settings | {f"training.{key}": n for key, n in limits.items()})
        return api.train(
            config,
            data=corpus.folder,
            run=f"runs/{name}",
            device="cpu",
            events=printed(clock),
            should_stop=should_stop,
        )

    def is_over() -> bool:
        return clock.minutes >= limit

    if accuracy is None and not is_over():
        with clock:
            until(is_over)
    for epochs in itertools.count(1) if accuracy is not None and not is_over() else ():
        with clock:
            result = until(is_over, max_epochs=epochs)
        reached = token_accuracy(name, corpus)
        print(f"  epoch {result.epochs}: valid token accuracy {100 * reached:.1f} %", flush=True)
        if reached >= (accuracy or 0.0) or result.reason != "max_epochs":
            break
    last = Run.open(Path(f"runs/{name}")).checkpoint("last").update or 0
    return until(max_updates=last)  # only validates, where time ended within an epoch


def printed(clock: ProcessorTime) -> TrainingEvents:
    """Return a receiver of events that prints every validation in a line."""
    from jtrans.training.events import TrainingEvents, Validation

    class Printed(TrainingEvents):
        def validation(self, row: Validation) -> None:
            clock.save()
            bleu = "" if row.bleu is None else f", BLEU {row.bleu:.1f}"
            print(
                f"  {clock.minutes:.1f} min, update {row.update:,}: "
                f"valid loss {row.valid_loss:.3f}{bleu}",
                flush=True,
            )

    return Printed()


def measure(
    name: str, corpus: PreparedCorpus, result: Result, clock: ProcessorTime
) -> dict[str, Any]:
    """Return the row of a trained recipe."""
    from jtrans import api

    loaded = api.load(f"runs/{name}", device="cpu")
    model = loaded.translator.models[0]
    scores = loaded.score(corpus.raw_lines("test", "source"), corpus.references("test"))
    others = initial_runs(recipe(name))
    return {
        "recipe": name,
        "system": model.config.system,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        **({"starts_from": others} if others else {}),
        "minutes": round(clock.minutes, 1),
        "updates": result.update,
        "epochs": round(epochs_done(name, corpus, result), 1),
        "token_accuracy": round(100 * token_accuracy(name, corpus), 2),
        "bleu": round(scores.value("bleu"), 2),
        "bleu_interval": round(scores.interval("bleu") or 0.0, 2),
        "chrf": round(scores.value("chrf"), 2),
        "signature": scores.scores["bleu"].signature,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def token_accuracy(name: str, corpus: PreparedCorpus) -> float:
    """Return the teacher-forced accuracy of the best checkpoint on the tokens of valid."""
    import torch

    from jtrans.decoding.teacher_forcing import teacher_forced_scores
    from jtrans.decoding.translator import load_model
    from jtrans.runs import Run

    model = load_model(Run.open(Path(f"runs/{name}")), device=torch.device("cpu"))
    pairs = corpus.pairs("valid")
    sides = (
        [side[index].tolist() for index in range(len(pairs))]
        for side in (pairs.source, pairs.target)
    )
    scores = teacher_forced_scores(model, *sides)
    hits = [hit for sentence in scores for hit in sentence.hits]
    return sum(hits) / len(hits)


def epochs_done(name: str, corpus: PreparedCorpus, result: Result) -> float:
    """Return the epochs of a run, including the fraction of the last."""
    from jtrans.models.zoo import system_configs
    from jtrans.runs import Run
    from jtrans.training.updates import UpdatePlan

    config = Run.open(Path(f"runs/{name}")).config(system_configs())
    model = system_configs().entry(config.model.system).model_class()
    plan = UpdatePlan(corpus.pairs("train"), config.training, is_joint=model.is_joint)
    return result.update / len(plan.epoch(0))


def recipe(name: str, settings: dict[str, Any] | None = None) -> Config:
    """Return a recipe with some settings changed."""
    from jtrans import api

    return api.load_recipe(name, settings)


def initial_runs(config: Config) -> list[str]:
    """Return the runs that a recipe starts from."""
    return list(dict.fromkeys(entry.run for entry in config.training.init_from))


def keep(path: Path, learned: LearnedCorpus, row: dict[str, Any], **origin: str) -> None:
    """Add a row to the results, or replace the row of its recipe."""
    import filelock

    order = {name: place for place, name in enumerate(learned.names())}
    with filelock.FileLock(Path("runs/results.lock")):  # two sessions may measure at a time
        rows = rows_with(path, row, "recipe").values()
        ordered = sorted(rows, key=lambda each: order.get(each["recipe"], len(order)))
        write(path, **origin, threads=int(THREADS), rows=ordered)
