"""The window of consecutive validations with the best mean BLEU (docs/systems.md 7.8)."""

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import CheckpointError, WorkError
from jtrans.runs import Run
from jtrans.training.events import TrainingEvents, Validation
from jtrans.training.optimisation.schedule import Schedule
from jtrans.training.saving.snapshot import Snapshot
from jtrans.training.session import train
from jtrans.training.state import TrainingState
from jtrans.training.stopping import Stopping
from jtrans.training.weights.window import BleuWindow

scores = st.lists(st.floats(0.0, 100.0), max_size=40)


@given(bleu=scores, size=st.integers(2, 21))
def test_the_best_of_all_windows_is_found_and_all_its_checkpoints_stay(
    bleu: list[float], size: int
) -> None:
    window, saved = BleuWindow(), set[int]()
    for update, value in enumerate(bleu, 1):
        window.add(update, value, size)
        saved = (saved | {update}) & (window.needed | {update})
        assert set(window.updates) <= saved
    means = [sum(bleu[start : start + size]) / size for start in range(len(bleu) - size + 1)]
    if means:
        start = means.index(max(means))
        assert window.updates == list(range(start + 1, start + size + 1))
        assert window.mean == means[start] and window.newest == means[-1]
    else:
        assert window.updates == [] and window.newest is None
    assert len(saved) <= 2 * size - 1


@given(bleu=scores, change=st.integers(0, 40), sizes=st.tuples(*[st.integers(2, 8)] * 2))
def test_a_window_of_another_size_begins_with_the_validations_that_are_left(
    bleu: list[float], change: int, sizes: tuple[int, int]
) -> None:
    window, saved = BleuWindow(), set[int]()
    for update, value in enumerate(bleu, 1):
        window.add(update, value, sizes[update > change])
        saved = (saved | {update}) & (window.needed | {update})
        assert set(window.updates) <= saved
        assert len(window.updates) in (0, window.size)
        gaps = [after - before for before, after in pairwise(window.updates)]
        assert gaps == [1] * len(gaps)


def test_a_window_never_spans_a_checkpoint_that_is_gone() -> None:
    window = BleuWindow()
    for update in range(1, 7):
        window.add(update, 10.0 - update, 3)
    assert (window.updates, window.recent) == ([1, 2, 3], [5, 6])
    window.keep_only({1, 2, 3, 6})
    assert (window.updates, window.recent, window.bleu) == ([1, 2, 3], [6], [4.0])
    window.keep_only({1, 3, 6})
    assert (window.updates, window.recent) == ([], [6])


class Rows(TrainingEvents):
    """Remembers the validations."""

    def __init__(self) -> None:
        self.rows: list[Validation] = []

    def validation(self, validation: Validation) -> None:
        self.rows.append(validation)


@pytest.fixture
def bleu(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The BLEU of the validations to come."""
    values: list[float] = []
    monkeypatch.setattr(
        "jtrans.training.validation.Validator.__call__",
        lambda *_: {"loss": 1.0, "perplexity": 1.0, "bleu": values.pop(0)},
    )
    return values


def test_training_keeps_the_checkpoints_of_the_window(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, bleu: list[float]
) -> None:
    bleu += [1.0, 5.0, 6.0, 7.0, 2.0, 3.0, 4.0, 1.0]
    config = make_config(validate_every=1, max_updates=8, keep={"window": 3, "last": 1})
    rows = Rows()
    result = train(config, data=corpus.folder, run=tmp_path / "run", events=rows)
    run = Run(tmp_path / "run")
    assert [each.update for each in run.window()] == [2, 3, 4]
    assert [each.update for each in run.checkpoints()] == [1, 2, 3, 4, 7, 8]  # 1 by its loss
    assert result.window is not None and result.window["mean"] == 6.0
    assert [row.window for row in rows.rows] == [None, None, 4.0, 6.0, 5.0, 4.0, 3.0, 8.0 / 3.0]
    assert [row.is_best_window for row in rows.rows] == [False, False, True, True, *[False] * 4]


def test_a_window_goes_on_when_training_does(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, bleu: list[float]
) -> None:
    bleu += [1.0, 2.0, 3.0, 4.0]
    config = make_config(validate_every=1, max_updates=4, keep={"window": 3, "last": 1})
    run = tmp_path / "run"
    first = train(config, data=corpus.folder, run=run, should_stop=lambda: len(bleu) == 2)
    assert first.reason == "stopped"
    train(config, data=corpus.folder, run=run)
    assert [each.update for each in Run(run).window()] == [2, 3, 4]


def test_a_window_has_no_checkpoint_that_was_deleted_between_two_commands(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, bleu: list[float]
) -> None:
    bleu += [9.0, 9.0, 9.0, 4.0, 5.0]
    for most in (3, 5):
        config = make_config(validate_every=1, max_updates=most, keep={"window": 3, "last": 1})
        train(config, data=corpus.folder, run=tmp_path / "run")
        run = Run(tmp_path / "run")
        assert [each.update for each in run.window()] == [most - 2, most - 1, most]
        shutil.rmtree(run.checkpoint(str(most - 1)).folder)


def test_a_window_has_no_checkpoint_that_could_not_be_written(
    corpus: PreparedCorpus,
    make_config: Any,
    tmp_path: Path,
    bleu: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = Snapshot.write

    def lose_second(snapshot: Snapshot, run: Run) -> None:
        if snapshot.state.update == 2:
            raise WorkError("no room", kind="disk.full")
        write(snapshot, run)

    monkeypatch.setattr(Snapshot, "write", lose_second)
    bleu += [9.0, 9.0, 9.0, 4.0]
    config = make_config(validate_every=1, max_updates=4, keep={"window": 2, "last": 1})
    train(config, data=corpus.folder, run=tmp_path / "run")
    assert [each.update for each in Run(tmp_path / "run").window()] == [3, 4]


def test_validations_with_others_between_them_that_were_not_counted_are_no_window(
    make_config: Any,
) -> None:
    state = TrainingState()
    for update, size in enumerate((2, 0, 2), 1):
        training = make_config(keep={"window": size}).training
        state.update = update
        stopping = Stopping(training, Schedule.from_config(training, 16))
        stopping.judge(state, {"loss": 1.0, "bleu": 5.0})
    assert (state.window.updates, state.window.recent) == ([], [3])


def test_a_run_with_too_few_validations_says_how_many(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(validate_every="30 minutes", max_epochs=1, keep={"window": 21})
    train(config, data=corpus.folder, run=tmp_path / "run")
    with pytest.raises(CheckpointError) as caught:
        Run(tmp_path / "run").window()
    message = "a window has 21 consecutive validations, and the run has only 1 so far"
    assert caught.value.message == message and caught.value.exit_code == 2
    assert caught.value.kind == "checkpoint.no-window"


def test_a_run_without_a_window_says_how_to_get_one(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    train(make_config(max_updates=2), data=corpus.folder, run=tmp_path / "run")
    run = Run(tmp_path / "run")
    with pytest.raises(CheckpointError, match="keeps no window of validations") as caught:
        run.window()
    assert "--set training.keep.window=21" in str(caught.value.hint)
    assert json.loads((run.checkpoints_folder / "pointers.json").read_bytes())["window"] is None


def test_where_one_checkpoint_is_needed_a_window_is_refused(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(validate_every=2, max_updates=6, keep={"window": 3, "last": 1})
    train(config, data=corpus.folder, run=tmp_path / "run")
    with pytest.raises(CheckpointError, match="only one can be used here") as caught:
        Run(tmp_path / "run").checkpoint("window")
    assert str(caught.value.hint).startswith("name one of 2, 4, 6, or best")
