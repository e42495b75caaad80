"""Teacher forcing: how probable a model finds given translations, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import torch

from jtrans.decoding.batches import by_length, padded
from jtrans.models.base import Memory, TranslationModel
from jtrans.nn.device import autocast
from jtrans.progress import Progress, Silent
from jtrans.text.vocabulary import EOS

if TYPE_CHECKING:
    from jtrans.decoding.batches import Ids

FORCED_TOKENS = 2048  # padded target tokens of a batch
ROWS_AT_ONCE = 512  # target positions whose logits are held at the same time


@dataclass(frozen=True)
class ForcedTokens:
    """The tokens of one given translation, EOS included.

    Args:
        log_probs: of each token given those before it.
        hits: whether each token is the most probable one at its place.
    """

    log_probs: list[float]
    hits: list[bool]


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
    The arguments are those of `forced_tokens`.
    """
    found = forced_tokens(
        model,
        sources,
        targets,
        batch_tokens=batch_tokens,
        precision=precision,
        progress=progress,
    )
    return [sentence.log_probs for sentence in found]


def forced_tokens(
    model: TranslationModel,
    sources: Sequence[Ids],
    targets: Sequence[Ids],
    *,
    batch_tokens: int = FORCED_TOKENS,
    precision: str = "fp32",
    progress: Progress | None = None,
) -> list[ForcedTokens]:
    """Return what a model gives every target token when those before it are forced.

    Args:
        model: in evaluation mode.
        sources: source ids, each ending in EOS.
        targets: target ids, each ending in EOS.
        batch_tokens: most padded target tokens in one pass.
        precision: "fp32" or "bf16".
        progress: told how many sentences are done.

    Returns:
        Per sentence one value per target token, EOS included, sentences in the order given.
    """
    progress = progress or Silent()
    longest = [max(len(pair[0]), len(pair[1])) for pair in zip(sources, targets, strict=True)]
    batches = by_length(
        [len(source) for source in sources],
        batch_tokens=batch_tokens,
        is_joint=model.is_joint,
        costs=longest,
    )
    result = [ForcedTokens([], []) for _ in sources]
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


def _of_batch(
    model: TranslationModel, memory: Memory, targets: Sequence[Ids]
) -> list[ForcedTokens]:
    target_out, mask = padded(targets, model.device)  # [B, T]
    start = torch.full_like(target_out[:, :1], EOS)
    target_in = torch.cat([start, target_out[:, :-1]], dim=1)
    hidden = model.decode(target_in, memory)[mask]  # [M, E]
    wanted = target_out[mask]  # [M]
    log_probs: list[float] = []
    hits: list[bool] = []
    for first in range(0, len(wanted), ROWS_AT_ONCE):
        rows = hidden[first : first + ROWS_AT_ONCE]
        expected = wanted[first : first + ROWS_AT_ONCE]
        found = torch.log_softmax(model.project(rows).float(), dim=-1)  # [rows, V]
        log_probs += found.gather(1, expected[:, None])[:, 0].tolist()
        hits += (found.argmax(dim=-1) == expected).tolist()
    values, whether = iter(log_probs), iter(hits)
    return [
        ForcedTokens(list(islice(values, len(target))), list(islice(whether, len(target))))
        for target in targets
    ]
