"""A group of processes that train one model together.

Each computes the gradient of its share of an update (`deal`), the sum over all ranks is that of the
whole update, and all take the same step. Decisions about time follow the clock of the first rank;
all others depend on values that all ranks have. Results of collectives are bitwise the same on
every rank.
"""

from __future__ import annotations

import contextlib
import pickle
import random
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Parameter

from jtrans.errors import ConfigError, InternalError, JtransError, how_many, usage_error
from jtrans.nn.device import resolve_device
from jtrans.training.distributed.dealing import deal, deal_evenly
from jtrans.training.distributed.meeting import meet
from jtrans.training.distributed.place import Place, launcher_process, place_of_process
from jtrans.training.distributed.ranks import (
    CONTINUES,
    LostRankError,
    NotMetError,
    OtherRankError,
    Ranks,
)
from jtrans.training.distributed.watchdog import WAITING, Failure, Watchdog
from jtrans.training.stopping import StopRequestError
from jtrans.training.updates import MicroBatch

Value = TypeVar("Value")


@contextlib.contextmanager
def joined(
    device: str | None, *, shard_model: bool, should_stop: Callable[[], bool]
) -> Iterator[Ranks]:
    """Join the processes that train together according to the environment, if there are any.

    Args:
        device: the name of the device, the same for all.
        shard_model: whether each holds only a shard of the weights.
        should_stop: called while waiting for the others.

    Raises:
        NotMetError: `should_stop` was true before all had joined.
        ConfigError: the environment is inconsistent, the processes cannot meet, or a single one has
            nothing to share the weights with.
        LostRankError: another rank has died.
        OtherRankError: another rank has failed and said why.
    """
    place = place_of_process()
    if shard_model and (place is None or place.count == 1):
        raise usage_error(
            "shard_model divides the weights among processes, and there is only one",
            "leave it out, or start several processes (jtrans train --gpus, torchrun)",
        )
    if place is None:
        yield Ranks()
        return
    try:
        group = Group(place, device, shard_model=shard_model, should_stop=should_stop)
    except StopRequestError:
        raise NotMetError("stopped before all processes had joined") from None
    try:
        yield group
        group.leave()
    except Exception as error:
        failure = group.tell(error)
        if failure is None:
            raise
        raise OtherRankError(
            f"rank {failure.rank} on {failure.host} has failed: {failure.message}",
            where=None if failure.host == socket.gethostname() else failure.host,
            exit_code=failure.exit_code,
        ) from error
    finally:
        group.close()


class Group(Ranks):
    """This process among those that train together.

    Args:
        place: its place.
        device: the name of the device, the same for all; "cuda" is a different GPU on each rank.
        shard_model: whether each rank holds only a shard of the weights.
        should_stop: called while waiting for the others.

    Raises:
        ConfigError: the port is in use, or there are more processes than GPUs.
        LostRankError: another rank did not join, or left.
        StopRequestError: `should_stop` was true before all had joined.
    """

    def __init__(
        self,
        place: Place,
        device: str | None,
        *,
        shard_model: bool,
        should_stop: Callable[[], bool],
    ) -> None:
        self.rank, self.count = place.rank, place.count
        self.is_sharding = shard_model
        self.place = place
        device_name = self.device(device)
        is_gpu = resolve_device(device_name).type == "cuda"
        if is_gpu:
            torch.cuda.set_device(resolve_device(device_name))
        # our own launcher passes a signal on to all: each stops once all have joined
        stops = should_stop if launcher_process() is None else lambda: False
        name = meet(place, "cpu:gloo,cuda:nccl" if is_gpu else "gloo", stops)
        # objects and agreements stay on the CPU, where a dead rank is noticed at once
        self._control = dist.new_group(backend="gloo") if is_gpu else dist.group.WORLD
        self._used: list[bool] | None = None  # parameters with a gradient on any rank
        self._time = 0.0
        self._stops = False
        self._is_lost = False
        self.watchdog = Watchdog(self.rank, self.count, name)
        self.watchdog.start()

    def leave(self) -> None:
        """Wait for the other ranks at the end."""
        self._call(lambda: dist.barrier(group=self._control))

    def close(self) -> None:
        """End the watchdog and leave the group."""
        self.watchdog.stop()
        if not self._is_lost:
            dist.destroy_process_group()

    def tell(self, error: Exception) -> Failure | None:
        """Report an error to the other ranks; return the failure of a rank that reported first."""
        self._is_lost = True  # the others will end, too
        if not isinstance(error, JtransError):
            return self.watchdog.tell(repr(error))
        is_final = not isinstance(error, InternalError | LostRankError)
        return self.watchdog.tell(error.message, is_final=is_final, exit_code=error.exit_code)

    def describe(self) -> str:
        """Return how many processes there are, as the end of a line about the device."""
        sharded = ", which share the weights" if self.is_sharding else ""
        return f" in each of {how_many(self.count, 'process', 'es')}{sharded}"

    def device(self, name: str | None) -> str | None:
        """Return the device of this rank, given the name that is the same for all.

        Raises:
            ConfigError: this machine has more processes than GPUs.
        """
        chosen = resolve_device(name)
        if chosen.type != "cuda" or chosen.index is not None:
            return name
        count = torch.cuda.device_count()
        if self.place.local_count > count:
            raise ConfigError(
                f"{how_many(self.place.local_count, 'process', 'es')}, but this machine has "
                f"{how_many(count, 'GPU')}",
                hint=f"start {count}, or compute on the CPU: --processes N --device cpu",
                kind="config.absent-device",
            )
        return f"cuda:{self.place.local_rank}"

    def hearing(self, should_stop: Callable[[], bool]) -> Callable[[], bool]:
        """Return a form of `should_stop` that is also true if another rank has been asked."""

        def heard() -> bool:
            if should_stop():
                self.watchdog.ask_to_stop()
            return self.watchdog.is_stopping

        return heard

    def doing(self, text: str) -> None:
        """Note what this rank does next, for the message if it gets stuck."""
        self.watchdog.doing(text)

    # The data of an update

    def deal(
        self, micro_batches: Sequence[MicroBatch], costs: Callable[[MicroBatch], float]
    ) -> tuple[Sequence[MicroBatch], int]:
        """Return this rank's micro-batches of an update, and how many of the last are idle."""
        each = [costs(micro_batch) for micro_batch in micro_batches]
        if self.is_sharding:
            return deal_evenly(micro_batches, each, self.count)[self.rank]
        return deal(micro_batches, each, self.count)[self.rank], 0

    def begin_micro_batch(self, seed: int, update: int, indices: MicroBatch) -> None:
        """Seed the random generators from seed, update and first sentence.

        So a resumed run draws the same dropout without a saved generator for each rank.
        """
        self.doing(f"computing {indices.size:,} sentence pairs")
        state = np.random.SeedSequence([seed, update, int(indices[0])]).generate_state(2)
        torch.manual_seed(int(state[0]) << 32 | int(state[1]))
        random.seed(int(state[1]))

    def add_up(self, parameters: Iterable[Parameter], losses: Tensor) -> Tensor:
        """Replace the gradients of an update by their sums over all ranks; return the losses' sums.

        The gradients become views of the one buffer that is summed. If weights are sharded, the
        backward pass has summed their gradients already.
        """
        if self.is_sharding:
            self._call(lambda: dist.all_reduce(losses))
            return losses
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        if self._used is None:  # the same in all updates; here some rank may have no micro-batch
            has_gradient = torch.tensor([parameter.grad is not None for parameter in trained]).int()
            self._call(lambda: dist.all_reduce(has_gradient, group=self._control))
            self._used = (has_gradient > 0).tolist()
        chosen = [each for each, is_used in zip(trained, self._used, strict=True) if is_used]
        sizes = [parameter.numel() for parameter in chosen]
        flat = chosen[0].new_zeros(sum(sizes) + losses.numel())
        *parts, tail = flat.split([*sizes, losses.numel()])
        tail.copy_(losses)
        views = [part.view_as(each) for part, each in zip(parts, chosen, strict=True)]
        pairs = [
            (view, each.grad)
            for view, each in zip(views, chosen, strict=True)
            if each.grad is not None
        ]
        if pairs:
            torch._foreach_copy_([view for view, _ in pairs], [gradient for _, gradient in pairs])
        self._call(lambda: dist.all_reduce(flat))
        for view, parameter in zip(views, chosen, strict=True):
            parameter.grad = view
        total: Tensor = tail
        return total

    @contextlib.contextmanager
    def noticing_losses(self) -> Iterator[None]:
        """Turn the end of a connection in a forward or backward pass into `LostRankError`."""
        try:
            yield
        except RuntimeError as error:
            if isinstance(error, dist.DistError) or "gloo" in str(error):
                raise self._lost(error) from error
            raise

    # Agreement

    def exchange(self, should_stop: Callable[[], bool], splits: int) -> int:
        """Agree on the time, and on whether any rank has been asked to stop.

        Returns:
            The number of micro-batches that the other ranks have split.
        """
        if self._is_lost:
            return 0
        clock = time.monotonic() if self.is_first else 0.0
        sums = torch.tensor([clock, should_stop(), splits], dtype=torch.float64)
        self._call(lambda: dist.all_reduce(sums, group=self._control))
        self._time, stops, total = sums.tolist()
        self._stops = stops > 0.0
        return int(total) - splits

    def now(self) -> float:
        """Return the time in seconds that all ranks agree on."""
        return self._time

    def is_stopping(self, should_stop: Callable[[], bool]) -> bool:
        """Return whether training is to stop after this update."""
        return self._stops

    def from_first(self, value: Value | None) -> Value:
        """Return the value of the first rank; those of the others are ignored."""
        values = [value if self.is_first else None]
        place = torch.device("cpu")
        self._call(lambda: dist.broadcast_object_list(values, 0, self._control, device=place))
        return values[0]  # type: ignore[return-value]

    def gather(self, value: Value) -> list[Value]:
        """Return the values of all ranks, in their order."""
        data = pickle.dumps(value)
        size = torch.tensor([len(data)])
        sizes = [torch.zeros_like(size) for _ in range(self.count)]
        self._call(lambda: dist.all_gather(sizes, size, group=self._control))
        most = max(int(each) for each in sizes)
        padded = torch.zeros(most, dtype=torch.uint8)
        padded[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        all_bytes = [torch.zeros_like(padded) for _ in range(self.count)]
        self._call(lambda: dist.all_gather(all_bytes, padded, group=self._control))
        pairs = zip(all_bytes, sizes, strict=True)
        return [pickle.loads(part[: int(count)].numpy().tobytes()) for part, count in pairs]

    def share(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors of the first rank, on the CPU."""
        kinds = self.from_first([(name, t.shape, t.dtype) for name, t in tensors.items()])
        shared = {}
        for name, shape, dtype in kinds:
            tensor = tensors[name].detach().cpu().contiguous() if self.is_first else None
            shared[name] = torch.empty(shape, dtype=dtype) if tensor is None else tensor
            self._call(lambda: dist.broadcast(shared[name], 0, group=self._control))  # noqa: B023
        return shared

    def _call(self, collective: Callable[[], object]) -> None:
        """Run a collective.

        Raises:
            LostRankError: another rank has died, or left.
        """
        self.doing(WAITING)
        try:
            collective()
        except RuntimeError as error:
            raise self._lost(error) from error
        self.doing("computing")

    def _lost(self, error: RuntimeError) -> LostRankError:
        self._is_lost = self.watchdog.is_leaving = True
        self.doing("leaving, as another rank is lost")  # which, unlike `WAITING`, has a time limit
        return LostRankError(
            self.watchdog.explain() or f"the connection to another rank is lost: {error}",
            hint=CONTINUES if launcher_process() is None else None,  # our launcher may restart it
        )
