"""The first update of a session compiles layers and loads kernels: it is said, and is no rate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from jtrans.data.prepared import PreparedCorpus
from jtrans.runs import Run
from jtrans.training import trainer as trainer_module
from jtrans.training.distributed import ranks as ranks_module
from jtrans.training.events import Advance, Start, TrainingEvents, Validation
from jtrans.training.feeding import size
from jtrans.training.optimisation.step import Step
from jtrans.training.session import train
from jtrans.training.state import Totals

WARM_UP = 90.0  # seconds of the first update of a session; every other update takes one


class Heard(TrainingEvents):
    """Remembers what it heard, and its order."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.advances: list[Advance] = []
        self.rows: list[Validation] = []

    def measuring(self) -> None:
        self.names.append("measuring")

    def compiling(self) -> None:
        self.names.append("compiling")

    def start(self, start: Start) -> None:
        self.names.append("start")

    def update(self, advance: Advance) -> None:
        self.names.append(f"update {advance.update}")
        self.advances.append(advance)

    def validation(self, validation: Validation) -> None:
        self.rows.append(validation)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, corpus: PreparedCorpus, tmp_path: Path) -> Any:
    """Return a function that trains for a session by a clock of the test; logs every update."""
    seconds, step = [0.0], Step.__call__
    next_seconds = [WARM_UP]

    class Clock:
        def monotonic(self) -> float:
            return seconds[0]

    def timed_step(self: Step, *arguments: Any) -> tuple[Tensor, Tensor]:
        seconds[0] += next_seconds[0]
        next_seconds[0] = 1.0
        return step(self, *arguments)

    def train_on(config: Any, should_stop: Callable[[], bool] = lambda: False) -> Heard:
        next_seconds[0] = WARM_UP
        heard = Heard()
        run = tmp_path / "run"
        train(config, data=corpus.folder, run=run, events=heard, should_stop=should_stop)
        return heard

    monkeypatch.setattr(ranks_module, "time", Clock())
    monkeypatch.setattr(Step, "__call__", timed_step)
    monkeypatch.setattr(trainer_module, "LOG_EVERY", 1)
    return train_on


def logged(run: Path, event: str) -> list[dict[str, Any]]:
    return [each for each in Run(run).events() if each["event"] == event]


def test_rates_and_the_time_left_are_those_of_the_other_updates(
    session: Any, make_config: Any, tmp_path: Path
) -> None:
    config = make_config("reformer-base", max_updates=5, validate_every=3, validate_sentences=0)
    heard = session(config)
    tokens = [event["tokens"] for event in logged(tmp_path / "run", "train")]
    rates = [advance.tokens_per_second for advance in heard.advances]
    others = [tokens[1], sum(tokens[1:3]) / 2, tokens[3], sum(tokens[3:]) / 2]
    assert rates == pytest.approx([tokens[0] / WARM_UP, *others])
    assert [advance.seconds_left for advance in heard.advances] == [None, 3.0, 2.0, 1.0, 0.0]
    first, second, *_ = [advance.positions_per_second for advance in heard.advances]
    assert first is not None and second is not None and second > 10.0 * first
    assert [row.tokens_per_second for row in heard.rows] == pytest.approx([others[1], others[3]])
    assert [row.seconds for row in heard.rows] == [WARM_UP + 2.0, WARM_UP + 4.0]


def test_a_resumed_run_has_a_warm_up_in_each_session(
    session: Any, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(max_updates=6, validate_every=6, validate_sentences=0)
    session(config, should_stop=iter([False, False, True]).__next__)
    heard = session(config)
    assert heard.names[0] == "start"
    done = [advance.update for advance in heard.advances]
    tokens = [event["tokens"] for event in logged(tmp_path / "run", "train")]
    is_warm = [update not in (1, done[0]) for update in range(1, 7)]
    warm = sum(each for each, is_one in zip(tokens, is_warm, strict=True) if is_one)
    (row,) = heard.rows
    assert 1 < done[0] < 6
    assert row.tokens_per_second == pytest.approx(warm / 4)
    assert row.seconds == 2 * WARM_UP + 4.0
    left = [advance.seconds_left for advance in heard.advances]
    assert left == [None, *(6.0 - update for update in done[1:])]


def test_warm_ups_alone_give_the_rate() -> None:
    totals = Totals()
    assert totals.tokens_per_second == 0.0
    totals.add_update(tokens=300, positions=900, seconds=30.0, is_warm_up=True)
    assert (totals.tokens_per_second, totals.positions_per_second) == (10.0, 30.0)
    totals.add_update(tokens=200, positions=400, seconds=2.0, is_warm_up=False)
    assert (totals.tokens_per_second, totals.positions_per_second) == (100.0, 200.0)
    assert (totals.tokens, totals.positions, totals.seconds) == (500, 1300, 32.0)


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let layers that torch would compile run as they are written."""
    monkeypatch.setattr(torch, "compile", lambda call, **_: call)


@pytest.mark.usefixtures("uncompiled")
def test_that_layers_are_compiled_is_said_once_in_a_session(session: Any, make_config: Any) -> None:
    heard = session(make_config(compile="on", max_updates=2))
    assert heard.names == ["start", "compiling", "update 1", "update 2"]
    heard = session(make_config(compile="on", max_updates=3))
    assert heard.names == ["start", "compiling", "update 3"]
    assert session(make_config(compile="on", max_updates=3)).names == []  # finished
    assert "compiling" not in session(make_config(compile="off", max_updates=4)).names


@pytest.mark.usefixtures("uncompiled")
def test_a_measurement_compiles_before_the_first_update(
    session: Any, make_config: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JTRANS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(size, "SMALLEST", {"cpu": {True: 8, False: 8}})
    monkeypatch.setattr(size, "FEWEST_UPDATES", 1)
    monkeypatch.setattr(size, "TIMED_SECONDS", 1e-9)
    heard = session(make_config(compile="on", max_updates=1, batch_tokens=400))
    assert heard.names == ["measuring", "compiling", "start", "update 1"]
