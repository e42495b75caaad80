"""Saves checkpoints while training goes on: a copy in memory, then a thread that writes it.

Writing, hashing and syncing release Python's global lock. One checkpoint is written at a time:
saving the next waits. After an error while writing, the next save of a single process writes its
own, newer state at once; if that fails as well, or training ends first, the error is raised. With
several processes the next save raises it: they could not agree on the best checkpoint that is left.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator, Mapping

from torch import Tensor
from torch.optim import Optimizer

from jtrans.config import TrainingConfig
from jtrans.errors import JtransError
from jtrans.models.base import TranslationModel
from jtrans.nn.memory import available_memory
from jtrans.runs import Run
from jtrans.runs.event_log import vanished
from jtrans.training.saving.snapshot import Snapshot, point_to_checkpoints
from jtrans.training.saving.surplus import best_that_is_left, remove_surplus
from jtrans.training.state import TrainingState

COPY_SHARE = 0.5  # of the memory that is available; the rest is left to training
_log = logging.getLogger(__name__)


class CheckpointWriter:
    """Saves the checkpoints of one run, and removes those that are no longer needed.

    Args:
        run: whose checkpoints they are.
        training: which of them are kept.
        is_alone: whether this is the only process that trains the run.
    """

    def __init__(self, run: Run, training: TrainingConfig, *, is_alone: bool) -> None:
        self.run = run
        self.training = training
        self.is_alone = is_alone
        self.damaged: set[int] = set()  # the updates of checkpoints that resuming passed over
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def save(
        self,
        model: TranslationModel,
        optimiser: Optimizer,
        state: TrainingState,
        trained: Mapping[str, Tensor],
        *,
        is_first: bool = True,
    ) -> None:
        """Save the checkpoint of `state.update`, see `Snapshot.of`.

        Ranks other than the first only send their shards. If memory has no room for a copy, or the
        previous checkpoint could not be written, this one is written before the method returns.

        Raises:
            JtransError: it could not be written; or, with several processes, the previous one.
        """
        lost = self._lost()
        if lost and not self.is_alone:
            raise lost
        parts = model, optimiser, state, trained
        if not is_first:
            Snapshot.of(*parts, is_kept=False)
            return
        snapshot = Snapshot.of(*parts, fits=(lambda _: False) if lost else fits_as_copy)
        if not snapshot.is_copy:
            self._write(snapshot)
            if lost:
                _log.warning("the checkpoint before this one is lost: %s", lost.message)
                self.name_those_left(state)
            return
        # a daemon, so that Ctrl-C can end a process whose file system does not answer
        self._thread = threading.Thread(target=self._try, args=(snapshot,), daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until the checkpoint is written.

        Raises:
            JtransError: it could not be written; raised only once.
        """
        if self._thread is not None:
            self._thread.join()
        self._thread, error, self._error = None, self._error, None
        if error is not None:
            raise error

    def name_those_left(self, state: TrainingState) -> None:
        """Choose the best checkpoint and the window among the checkpoints that exist."""
        there = self.run.checkpoints()
        state.window.keep_only([each.update for each in there if each.update])
        state.best = best_that_is_left(there, state)
        point_to_checkpoints(self.run, state)

    def _lost(self) -> JtransError | None:
        """Wait until the checkpoint is written; return why it could not be."""
        try:
            self.wait()
        except JtransError as error:
            return error
        return None

    @contextlib.contextmanager
    def finishing(self) -> Iterator[None]:
        """Wait at the end of the block; an error of the block is raised rather than one of writing.

        Raises:
            JtransError: the last checkpoint could not be written.
        """
        try:
            yield
        except BaseException:
            try:
                self.wait()
            except JtransError as error:
                _log.warning("the last checkpoint is lost: %s", error.message)
            raise
        self.wait()

    def _try(self, snapshot: Snapshot) -> None:
        try:
            self._write(snapshot)
        except BaseException as error:  # raised again by `wait`
            self._error = error

    def _write(self, snapshot: Snapshot) -> None:
        if not self.run.folder.is_dir():  # a new folder would not be a run
            raise vanished(self.run.folder)
        snapshot.write(self.run)
        state = snapshot.state
        self.damaged.discard(state.update)  # written anew
        remove_surplus(
            self.run,
            self.training.keep,
            metric=self.training.best_metric,
            needed={*state.window.needed, *([state.best["update"]] if state.best else [])},
            damaged=self.damaged,
        )


def fits_as_copy(size: int) -> bool:
    """Return whether memory has room for a copy of `size` bytes beside training."""
    available = available_memory()
    return available is None or size <= COPY_SHARE * available
