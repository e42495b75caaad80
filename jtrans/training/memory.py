"""The limits that memory puts on micro-batches, the error if none fits, and peak memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from jtrans.errors import WorkError
from jtrans.nn.memory import describe, is_out_of_memory, most_memory_used

FIRST_WAIT, LONGEST_WAIT = 50, 6400  # updates


@dataclass
class MemoryLimits:
    """The sizes of micro-batches known not to fit into memory, saved with each checkpoint.

    A size applies to micro-batches with sentences at least as long as in the one that failed, by
    powers of two: attention needs more memory per position in longer sentences. Memory that another
    program used may become free, so all sizes double after some updates without a failure. Each
    further failure doubles that wait, up to `LONGEST_WAIT`.
    """

    # the smallest size that failed, by the bit length of its longest sentence (text: a JSON key)
    too_large: dict[str, int] = field(default_factory=dict)
    wait: int = FIRST_WAIT  # updates until the next increase
    waited: int = 0  # updates since the last failure or increase

    def fits(self, size: int, longest: int) -> bool:
        """Return whether a micro-batch of `size` and sentences up to `longest` may fit."""
        bits = longest.bit_length()
        return all(size < most for key, most in self.too_large.items() if int(key) <= bits)

    def fail(self, size: int, longest: int) -> None:
        """Record a micro-batch that did not fit."""
        if self.too_large and self.waited:  # the failures of one update count once
            self.wait = min(2 * self.wait, LONGEST_WAIT)
        self.too_large[str(longest.bit_length())] = size
        self.waited = 0

    def count_update(self) -> None:
        """Count an update that begins, and raise the limits if it is time."""
        self.waited += 1
        if self.waited >= self.wait:
            self.too_large = {key: 2 * size for key, size in self.too_large.items()}
            self.waited = 1


@contextlib.contextmanager
def memory_errors(*, is_sharded: bool = False) -> Iterator[None]:
    """Turn an allocation failure that halving micro-batches could not avoid into a `WorkError`.

    If weights are sharded, no micro-batch was halved.

    Raises:
        WorkError: memory ran out.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        if is_sharded:
            raise WorkError(
                "out of memory; with --shard-model no micro-batch is halved, as all processes "
                f"exchange weights in each: {describe(error)}",
                hint="--set training.recompute=layer continues with less memory; more processes "
                "hold smaller shards; a new run can use smaller micro-batches "
                "(training.micro_batch_tokens, or micro_batch_joint for joint models)",
                kind="work.memory",
            ) from error
        raise WorkError(
            f"out of memory, even with a micro-batch of one pair: {describe(error)}",
            hint="--set training.recompute=layer saves the most memory; a smaller model, or a "
            "corpus prepared with a lower --max-length, needs less, too",
            kind="work.memory",
        ) from error


def peak_memory(device: torch.device) -> int:
    """Return the peak memory so far, in bytes: of the GPU, or else of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return most_memory_used() or 0
