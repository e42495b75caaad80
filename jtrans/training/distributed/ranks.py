"""The interface between the training loop and the processes that train together.

`Ranks` implements it for a process that trains alone, `Group` for several
(jtrans/training/distributed/group.py). All ranks call every method that communicates in the same
order. The loop guarantees this: what it does next depends only on values that all of them have.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from torch import Tensor
from torch.nn import Parameter

from jtrans.errors import WorkError
from jtrans.training.updates import MicroBatch

Value = TypeVar("Value")
CONTINUES = "the same command, without --restart, continues from the last checkpoint"


class LostRankError(WorkError):
    """Another rank has died, or cannot be reached any more."""

    default_kind = "distributed.lost"


class NotMetError(WorkError):
    """This process was asked to stop before all others had joined; nothing has begun."""

    default_kind = "distributed.not-met"


class OtherRankError(WorkError):
    """Another rank has failed and said why."""

    default_kind = "distributed.other-rank"


class Ranks:
    """A process that trains alone."""

    rank = 0
    count = 1
    is_sharding = False  # whether each rank holds only a shard of the weights

    @property
    def is_first(self) -> bool:
        """Return whether this is the rank that writes and reports."""
        return self.rank == 0

    def describe(self) -> str:
        """Return how many processes there are, as the end of a line about the device."""
        return ""

    def device(self, name: str | None) -> str | None:
        """Return the device of this rank, given the name that is the same for all."""
        return name

    def hearing(self, should_stop: Callable[[], bool]) -> Callable[[], bool]:
        """Return a form of `should_stop` that is also true if another rank has been asked."""
        return should_stop

    def doing(self, text: str) -> None:
        """Note what this rank does next, for the message if it gets stuck."""

    # The data of an update

    def deal(
        self, micro_batches: Sequence[MicroBatch], costs: Callable[[MicroBatch], float]
    ) -> tuple[Sequence[MicroBatch], int]:
        """Return this rank's micro-batches of an update, and how many of the last are idle.

        Idle ones are computed only for the sake of the other ranks, and are not counted.
        """
        return micro_batches, 0

    def begin_micro_batch(self, seed: int, update: int, indices: MicroBatch) -> None:
        """Prepare the random generators for a micro-batch."""

    def add_up(self, parameters: Iterable[Parameter], losses: Tensor) -> Tensor:
        """Replace the gradients of an update by their sums over all ranks; return the losses' sums.

        Args:
            parameters: of the model, with the gradients of this rank's micro-batches.
            losses: the summed losses of these micro-batches, [n].

        Raises:
            LostRankError: another rank has died, or left.
        """
        return losses

    def noticing_losses(self) -> contextlib.AbstractContextManager[None]:
        """Return a context for passes that exchange weights.

        Raises:
            LostRankError: another rank has died meanwhile.
        """
        return contextlib.nullcontext()

    # Agreement

    def exchange(self, should_stop: Callable[[], bool], splits: int) -> int:
        """Agree on the time, and on whether any rank has been asked to stop.

        Args:
            should_stop: whether this rank has been asked.
            splits: the number of micro-batches that this rank has split since the last exchange.

        Returns:
            The number of micro-batches that the other ranks have split.
        """
        return 0

    def now(self) -> float:
        """Return the time in seconds that all ranks agree on."""
        return time.monotonic()

    def is_stopping(self, should_stop: Callable[[], bool]) -> bool:
        """Return whether training is to stop after this update."""
        return should_stop()

    def from_first(self, value: Value | None) -> Value:
        """Return the value of the first rank; those of the others are ignored."""
        assert value is not None
        return value

    def gather(self, value: Value) -> list[Value]:
        """Return the values of all ranks, in their order."""
        return [value]

    def share(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors of the first rank, on the CPU."""
        return tensors
