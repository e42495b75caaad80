"""Teacher forcing: how probable a model finds given translations, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from jtrans.decoding.batches import by_length, padded
from jtrans.models.base import Memory, TranslationModel
from jtrans.nn.device import autocast
from jtrans.progress import Progress, Silent
from jtrans.text.vocabulary import EOS

if TYPE_CHECKING:
    from jtrans.decoding.batches import Ids

FORCED_TOKENS = 2048  # padded target tokens of a batch
ROWS_AT_ONCE = 512  # target positions whose logits are held at the same time


def forced_log_probs(
    model: TranslationModel,
    sources: Sequence[Ids],
    targets: Sequence[Ids],
    *,
    batch_tokens: int = FORCED_TOKENS,
    precision: str = "fp32",
    progress: Progress | None = None,
) -> list[list[float]]:
    """Return the log-probability of every target token given those before it.

    No label smoothing; the sum over a sentence is the log-probability that beam search reports.

    Args:
        model: in evaluation mode.
        sources: source ids, each ending in EOS.
        targets: target ids, each ending in EOS.
        batch_tokens: most padded target tokens in one pass.
        precision: "fp32" or "bf16".
        progress: told how many sentences are done.

    Returns:
        Per sentence one value per target token, EOS included, in the order given.
    """
    progress = progress or Silent()
    longest = [max(len(pair[0]), len(pair[1])) for pair in zip(sources, targets, strict=True)]
    batches = by_length(
        [len(source) for source in sources],
        batch_tokens=batch_tokens,
        is_joint=model.is_joint,
        costs=longest,
    )
    result: list[list[float]] = [[] for _ in sources]
    done = 0
    with torch.no_grad(), autocast(model.device, precision):
        for batch in batches:
            memory = model.encode(*padded([sources[i] for i in batch], model.device))
            found = _of_batch(model, memory, [targets[i] for i in batch])
            for index, values in zip(batch, found, strict=True):
                result[index] = values
            done += len(batch)
            progress.advance("Scoring", done, len(sources))
    return result


def _of_batch(model: TranslationModel, memory: Memory, targets: Sequence[Ids]) -> list[list[float]]:
    target_out, mask = padded(targets, model.device)  # [B, T]
    start = torch.full_like(target_out[:, :1], EOS)
    target_in = torch.cat([start, target_out[:, :-1]], dim=1)
    hidden = model.decode(target_in, memory)[mask]  # [M, E]
    wanted = target_out[mask]  # [M]
    values = [
        _log_probs(
            model, hidden[first : first + ROWS_AT_ONCE], wanted[first : first + ROWS_AT_ONCE]
        )
        for first in range(0, len(wanted), ROWS_AT_ONCE)
    ]
    rest = iter(torch.cat(values).tolist())
    return [list(islice(rest, len(target))) for target in targets]


def _log_probs(model: TranslationModel, hidden: Tensor, wanted: Tensor) -> Tensor:
    log_probs = torch.log_softmax(model.project(hidden).float(), dim=-1)  # [M, V]
    return log_probs.gather(1, wanted[:, None])[:, 0]
