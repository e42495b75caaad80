"""The output of `jtrans info RUN`: a run's settings, curves, starts, end and checkpoints.

Everything is read from the run's folder; no checkpoint is loaded.
"""

from __future__ import annotations

import itertools
import math
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jtrans.cli.tables import print_table
from jtrans.errors import how_many
from jtrans.processors import is_alive
from jtrans.runs.event_log import number

if TYPE_CHECKING:
    from jtrans.config import Config
    from jtrans.runs import Run

MOST_ROWS = 20  # validations that the table shows
SHOWN = ("train_loss", "valid_loss", "perplexity", "bleu")
BLOCKS = "▁▂▃▄▅▆▇█"  # heights of a curve in a line of text
CURVE_WIDTH = 48
COLUMNS = ("epoch", "update", "train", "valid", "ppl", "BLEU", "time")


def run_values(run: Run) -> dict[str, Any]:
    """Return all facts about a run, as the object of --json."""
    from jtrans.models.zoo import system_configs

    config, events = run.trained_config(system_configs()), run.lasting_events()
    starts = [event for event in events if event.get("event") == "start"]
    end = events[-1] if events and _is_end(events[-1]) else {}
    pointers = run.pointers()
    best = {"checkpoint": pointers.get("best"), "value": pointers.get("best_value")}

    # skips and splits stay in the log when training goes back to an earlier update
    course = [event for event in events if event.get("event") not in ("skip", "split")]

    def highest(name: str) -> Any:
        return max((number(event, name) for event in course), default=0)

    def plain(kind: str) -> list[dict[str, Any]]:
        return [_plain(event) for event in events if event.get("event") == kind]

    return {
        **_what_was_trained(run, config),
        "updates": highest("update"),
        "epochs": highest("epoch"),
        "seconds": highest("seconds") or 0.0,
        "state": _state(run),
        "fault": end.get("fault"),
        "reason": end.get("reason"),
        "damaged_log_lines": run.damaged_lines(),
        "has_damaged_pointers": run.has_damaged_pointers,
        "starts": [{"update": each.get("update"), "time": each.get("time")} for each in starts],
        "restarts": max(0, len(starts) - 1),
        "batch_tokens": config.training.batch_tokens,
        "batch_sentences": _batch_sentences(run, config),
        "learning_rate": config.training.learning_rate,
        "best_metric": config.training.best_metric,
        "best": best if pointers.get("best") else None,
        "window": pointers.get("window"),
        "dropped": highest("dropped"),
        "skips": plain("skip"),
        "returns": plain("return"),
        "splits": sum(event.get("event") == "split" for event in events),
        "checkpoints": [each.update for each in run.checkpoints()],
        "averages": [name for name in run.saved_names() if not name.startswith("step-")],
        "noise_scale": _last(events, "noise_scale"),
        "samples": _last(events, "samples") or [],
        "validations": plain("validation"),
        "curve": plain("train"),
    }


def _what_was_trained(run: Run, config: Config) -> dict[str, Any]:
    """Return the model of a run, its data, its settings and the programs that trained it."""
    info = run.info
    return {
        "run": str(run.folder),
        "system": config.model.system,
        "parameters": info.get("parameters"),
        "frozen_parameters": info.get("frozen_parameters", 0),
        "data": info.get("data"),
        "from": run.initial_name,
        "keep_optimiser": info.get("keep_optimiser", False),
        "imported": _origin(info.get("imported")),
        "jtrans": info.get("jtrans"),
        "torch": info.get("torch"),
        "settings": {
            name: section.model_dump(mode="json", exclude_defaults=True)
            for name, section in (("model", config.model), ("training", config.training))
        },
    }


def show_run(values: Mapping[str, Any]) -> None:
    """Print the values of `run_values` as tables: the run, its samples and its validations."""
    print_table(["run", values["run"]], _rows(values))
    if samples := [each for each in values["samples"] if isinstance(each, dict)]:
        print()
        lines = [[name, str(text)] for each in samples for name, text in each.items()]
        print_table(["sample", "translations of the last validation"], lines)
    validations = values["validations"]
    shown = _spread(validations)
    if not shown:
        return
    print()
    print_table(COLUMNS, [_validation_row(each) for each in shown], right=COLUMNS)
    if len(shown) < len(validations):
        print(f"{len(shown)} of {how_many(len(validations), 'validation')}; --json has all of them")


def _rows(values: Mapping[str, Any]) -> list[list[str]]:
    from jtrans.cli.train.ending import window_text
    from jtrans.cli.train.table import duration

    best, checkpoints, restarts = values["best"], values["checkpoints"], values["restarts"]
    count = f"{values['parameters']:,}" if values["parameters"] else "unknown number of"
    frozen = f", and {values['frozen_parameters']:,} frozen" if values["frozen_parameters"] else ""
    counts = f"{how_many(values['updates'], 'update')}, {how_many(values['epochs'], 'epoch')} begun"
    ways = f", started {restarts + 1} times" if restarts else ""
    trained = f"{counts}, {duration(values['seconds'])}{ways}"
    if values["state"] == "imported":
        trained = "elsewhere"
    rows = [
        ["system", f"{values['system']}, {count} parameters{frozen}"],
        ["corpus", values["data"] or "none"],
        *([name, _settings(section)] for name, section in values["settings"].items()),
        *_initial(values),
        ["trained", trained],
        ["state", state_text(values)],
    ]
    if damaged := values["damaged_log_lines"]:
        rows.append(["log", f"{how_many(damaged, 'damaged line')} left out here"])
    if best:
        metric = values["best_metric"].replace("-", " ")
        value = f"{best['value']:.3f}" if isinstance(best["value"], int | float) else "unknown"
        rows.append(["best", f"{metric} {value}, {best['checkpoint']}"])
    if values["has_damaged_pointers"]:
        rows.append(["best", "unknown: checkpoints/pointers.json is damaged"])
    rows += _curves(values)
    if values["window"]:
        rows.append(["window", window_text(values["window"])])
    rows += _troubles(values)
    names = [f"{update:,}" for update in checkpoints] + values["averages"]
    return [*rows, ["checkpoints", ", ".join(names) or "none yet"]]


def _initial(values: Mapping[str, Any]) -> list[list[str]]:
    """Return a row with the run whose weights a run began with, if there is any."""
    if not values["from"]:
        return []
    optimiser = ", with its optimiser" if values["keep_optimiser"] else ""
    return [["initial", f"all weights of {values['from']}{optimiser}"]]


def _troubles(values: Mapping[str, Any]) -> list[list[str]]:
    """Return a row for each kind of update that did not go as planned."""
    from jtrans.cli.train.ending import returns_text, skipped_text

    rows = []
    if values["dropped"]:
        rows.append(["dropped", f"{how_many(values['dropped'], 'update')} of abnormal gradients"])
    if skips := values["skips"]:
        left_out = sum(number(each, "named") for each in skips if each.get("left_out"))
        rows.append(["skipped", skipped_text(len(skips), left_out)])
    if values["returns"]:
        last = values["returns"][-1]
        returns = number(last, "returns")
        is_halved = number(last, "learning_rate") * 2**returns == values["learning_rate"]
        rows.append(["diverged", returns_text(returns, is_halved=is_halved)])
    if values["splits"]:
        split = how_many(values["splits"], "micro-batch", "es")
        rows.append(["memory", f"{split} did not fit, split in half"])
    return rows


def state_text(values: Mapping[str, Any]) -> str:
    """Return the state of a run, described by the values of `run_values`, and the reason for it."""
    from jtrans.cli.train.ending import REASONS

    reason = values["imported"] if values["state"] == "imported" else values["reason"]
    ended = {"stopped": "stopped by a signal", "failed": values["fault"], **REASONS}.get(
        reason, reason
    )
    return f"{values['state']}{f': {ended}' if ended else ''}"


def _curves(values: Mapping[str, Any]) -> list[list[str]]:
    """Return a row per curve, with its first and last value, and one for the noise scale."""
    validations = values["validations"]
    rows = []
    for label, name, events, digits in (
        ("train loss", "nll", values["curve"], 2),
        ("valid loss", "valid_loss", validations, 2),
        ("valid BLEU", "bleu", validations, 1),
        ("valid chrF", "chrf", validations, 1),
    ):
        points = [each[name] for each in events if isinstance(each.get(name), int | float)]
        if len(points) > 1:
            first, last = (f"{point:.{digits}f}" for point in (points[0], points[-1]))
            rows.append([label, f"{first} {sparkline(points)} {last}"])
    if values["noise_scale"]:
        sentences = values["batch_sentences"]
        unit = f"target tokens; an update has {values['batch_tokens']:,}"
        if sentences is not None:
            unit = f"sentences; an update has about {sentences:,.0f}"
        rows.append(["noise scale", f"about {values['noise_scale']:,.0f} {unit}"])
    return rows


def _batch_sentences(run: Run, config: Config) -> float | None:
    """Return the mean number of sentences per update; None if losses are normalised by tokens."""
    train = run.info.get("train")  # not in imported runs
    if config.training.normalise == "token" or not train:
        return None
    return float(config.training.batch_tokens * train["pairs"] / train["tokens"]["target"])


def sparkline(values: Sequence[float], width: int = CURVE_WIDTH) -> str:
    """Return `values` as a line of at most `width` blocks, each the mean of consecutive values.

    Values that are not finite are left out.
    """
    finite = [value for value in values if math.isfinite(value)]
    columns = min(width, len(finite))
    borders = [len(finite) * column // columns for column in range(columns + 1)] if finite else []
    means = [sum(finite[start:end]) / (end - start) for start, end in itertools.pairwise(borders)]
    low, high = min(means, default=0.0), max(means, default=0.0)
    scale = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(BLOCKS[round((mean - low) * scale)] for mean in means)


def _state(run: Run) -> str:
    """Return the state of a run.

    It is `new`, `imported`, `running`, `interrupted` (its end was not logged), `stopped`, `failed`
    or `finished`.
    """
    last = run.last_start_or_end()
    if last is None:
        return "imported" if _origin(run.info.get("imported")) else "new"
    if _is_end(last):
        reason = str(last.get("reason"))
        return reason if reason in ("stopped", "failed") else "finished"
    return "running" if _is_alive(run) else "interrupted"


def _origin(imported: Any) -> str | None:
    """Return the program and the file that a run was imported from, None if it was not."""
    if not isinstance(imported, dict):
        return None
    return f"{imported.get('from')}, {imported.get('file')}"


def _is_alive(run: Run) -> bool:
    """Return whether the holder of the run's lock is alive; assumed so on another host."""
    from jtrans.errors import JtransError
    from jtrans.files import read_json

    try:
        owner = read_json(run.folder / "lock.json")
        return owner["host"] != socket.gethostname() or is_alive(int(owner["pid"]))
    except (JtransError, KeyError, TypeError, ValueError):
        return False


def _last(events: Sequence[Mapping[str, Any]], name: str) -> Any:
    """Return the newest value of a name in the events, None if none has it."""
    return next((event[name] for event in reversed(events) if event.get(name)), None)


def _is_end(event: Mapping[str, Any]) -> bool:
    return event.get("event") == "end"


def _plain(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return a logged event without its kind, numbers that JSON lacks (nan, inf) as None."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in event.items()
        if key != "event"
    }


def _settings(section: Mapping[str, Any], prefix: str = "") -> str:
    """Return the settings that are not defaults, as one line."""
    parts = []
    for name, value in section.items():
        if isinstance(value, Mapping):
            parts.append(_settings(value, f"{prefix}{name}."))
        elif name != "system":
            parts.append(f"{prefix}{name} {value}")
    return ", ".join(part for part in parts if part) or "defaults"


def _spread(validations: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return at most `MOST_ROWS` validations, evenly spread, with the first and the last."""
    last = len(validations) - 1
    if last < MOST_ROWS:
        return list(validations)
    return [validations[round(n * last / (MOST_ROWS - 1))] for n in range(MOST_ROWS)]


def _validation_row(event: Mapping[str, Any]) -> list[str]:
    from jtrans.cli.train.table import duration

    train, valid, perplexity, bleu = (event.get(name) for name in SHOWN)
    epoch, update = (f"{number(event, name):,}" for name in ("epoch", "update"))
    mark = " *" if event.get("is_best") else "  "
    losses = [_decimal(train, 2), _decimal(valid, 2), _decimal(perplexity, 1)]
    seconds = duration(number(event, "seconds"))
    return [epoch, update, *losses, f"{_decimal(bleu, 1)}{mark}", seconds]


def _decimal(value: Any, digits: int) -> str:
    return f"{value:.{digits}f}" if isinstance(value, int | float) else "-"
