"""Process batches of sentences, halving those that do not fit into memory.

Memory that is only used for speed, such as that of CUDA graphs, is freed first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch

from jtrans.decoding.batches import Result
from jtrans.decoding.lanes import Batch
from jtrans.errors import WorkError, how_many
from jtrans.nn.memory import describe, is_out_of_memory
from jtrans.progress import Progress


def in_halves(
    batches: Iterable[Batch],
    work: Callable[[Batch], Result],
    *,
    lengths: Sequence[int],
    lines: Sequence[int],
    device: torch.device,
    progress: Progress,
    hint: str,
    make_room: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[Batch, Result]]:
    """Yield each batch with its result, or the halves of a batch that did not fit.

    After a failure, batches of at least that size are halved beforehand.

    Args:
        batches: taken one by one.
        work: computes the result of a batch.
        lengths: tokens of each sentence.
        lines: the number of each sentence's line, counted from 1, for messages.
        device: where the memory is.
        progress: is warned of the first failure.
        hint: what to do about a single sentence that does not fit.
        make_room: frees memory that the work can do without; returns whether it may have freed any,
            so that a batch is tried once more as it is.

    Raises:
        WorkError: a single sentence does not fit.
    """

    def size(batch: Batch) -> int:  # padded tokens
        return len(batch) * max(lengths[index] for index in batch)

    too_large: int | None = None  # the smallest size known not to fit
    retried: Batch | None = None
    halves: list[Batch] = []
    remaining = iter(batches)
    while (batch := halves.pop() if halves else next(remaining, None)) is not None:
        if len(batch) == 1 or too_large is None or size(batch) < too_large:
            failure: str | None = None
            try:
                result = work(batch)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                failure = describe(error)
            if failure is None:
                yield batch, result
                continue
            # not in the handler: the traceback would keep tensors alive
            is_worth_a_retry = batch is not retried and make_room()
            if device.type == "cuda":
                torch.cuda.empty_cache()
            if is_worth_a_retry:
                retried = batch
                halves.append(batch)
                continue
            if len(batch) == 1:
                raise WorkError.of_line(
                    lines[batch[0]],
                    f": out of memory with a single sentence of {size(batch):,} tokens: {failure}",
                    hint=hint,
                    kind="work.memory",
                )
            if too_large is None:
                progress.warn(
                    f"out of memory ({failure}): batches of {how_many(len(batch), 'sentence')} "
                    "and more are halved"
                )
            too_large = size(batch)
        middle = len(batch) // 2
        halves += [batch[middle:], batch[:middle]]
