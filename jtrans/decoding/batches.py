"""Group sentences of similar length into batches within a budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
import torch

from jtrans.decoding.lanes import Batch, lane_count
from jtrans.errors import DecodingError, option_error
from jtrans.progress import Progress

Result = TypeVar("Result")

# Padded source tokens of a batch. Measured with beam 5 and sentences of 15 tokens on one CPU core,
# Transformer of 6 + 6 layers: 28, 37, 39, 41 sentences/s at 256, 512, 1024, 2048. With 1024, a step
# has 340 rows; products of 80 rows run at nine tenths of the rate of 320. That is also why waiting
# sentences do not take the places of finished ones: the rows of the others keep a CPU nearly as
# busy, with 16 sentences at nine tenths of the rate of 64.
BATCH_TOKENS = 1024
THREADS = 2  # threads of a CPU that such a batch keeps busy
MULTIPROCESSORS = 16  # multiprocessors of a GPU that it keeps busy; calculated, not measured
# Joint models cache S vectors for each target position, so a batch costs B*S*T, and
# T is about S: a budget of n tokens holds n * JOINT_LENGTH positions. Small batches are no slower
# with them: a Reformer-fast decoded 18.2, 17.0, 16.1, 15.7 sentences/s at the same four sizes.
JOINT_LENGTH = 10


def default_batch_tokens(device: torch.device) -> int:
    """Return the padded source tokens of a batch that keep a device busy.

    They follow from its threads or multiprocessors and not from a measurement, so that the same
    text always gives the same batches.
    """
    if device.type == "cuda":
        count = torch.cuda.get_device_properties(device).multi_processor_count
        return BATCH_TOKENS * max(1, count // MULTIPROCESSORS)
    threads = torch.get_num_threads() // lane_count(device)
    return BATCH_TOKENS * max(1, threads // THREADS)


def by_length(
    lengths: Sequence[int], *, batch_tokens: int, is_joint: bool, costs: Sequence[int] | None = None
) -> list[Batch]:
    """Return sentences by number in batches of similar length, the longest first.

    Args:
        lengths: source tokens of each sentence.
        batch_tokens: most padded tokens of a batch; a longer sentence is a batch of its own.
        is_joint: whether memory grows with source times target length.
        costs: tokens of each sentence that count against the budget; default: source length.

    Raises:
        DecodingError: the budget is below 1.
    """
    if batch_tokens < 1:
        raise option_error(
            f"a batch of {batch_tokens} tokens cannot hold a sentence",
            f"--batch-tokens {BATCH_TOKENS}",
        )
    sizes = np.asarray(lengths if costs is None else costs, dtype=np.int64)
    order = np.lexsort((np.arange(sizes.size), -np.asarray(lengths, dtype=np.int64), -sizes))
    batches: list[Batch] = []
    for index in order.tolist():
        longest = int(sizes[batches[-1][0]]) if batches else 0
        if is_joint:  # the token budget shrinks with the length
            longest = max(longest, longest * longest // JOINT_LENGTH)
        if batches and (len(batches[-1]) + 1) * longest <= batch_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def check_positions(positions: int | None, lengths: Sequence[int], lines: Sequence[int]) -> None:
    """Check that a model has enough positions for sentences; None stands for any number.

    Raises:
        DecodingError: a sentence has more tokens than there are positions.
    """
    for length, line in zip(lengths, lines, strict=True):
        if positions is not None and length > positions:
            raise DecodingError.of_line(
                line,
                f": {length:,} tokens are more than the model's {positions:,} positions",
                hint=f"split the sentence, or train with --set model.positions={length}",
                kind="decoding.too-long",
            )


def in_order(
    computed: Iterable[tuple[Batch, Sequence[Result]]], count: int, progress: Progress, task: str
) -> list[Result]:
    """Return the results of all sentences in their order.

    Args:
        computed: batches, in any order, each with the results of its sentences.
        count: the number of sentences.
        progress: receives the number of sentences done.
        task: name of the work, for `progress`.
    """
    results: dict[int, Result] = {}
    for batch, values in computed:
        results.update(zip(batch, values, strict=True))
        progress.advance(task, len(results), count)
    return [results[index] for index in range(count)]
