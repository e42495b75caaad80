"""Teacher-forced scores: a model's probabilities of given translations, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from jtrans.data.batch import Ids, padded
from jtrans.decoding.batches import by_length, check_positions, in_order
from jtrans.decoding.halving import in_halves
from jtrans.models.base import Memory, TranslationModel
from jtrans.nn.device import autocast
from jtrans.progress import Progress, Silent
from jtrans.text.vocabulary import EOS

TARGET_TOKENS = 2048  # padded target tokens of a batch
ROWS_AT_ONCE = 512  # target positions whose logits are in memory at the same time


@dataclass(frozen=True)
class TeacherForcedScores:
    """The tokens of one given translation, EOS included."""

    log_probs: list[float]  # log-probability of each token given the true tokens before it
    hits: list[bool]  # whether each token is the most probable at its position


def teacher_forced_scores(
    model: TranslationModel,
    sources: Sequence[Ids],
    targets: Sequence[Ids],
    *,
    lines: Sequence[int] | None = None,
    precision: str = "fp32",
    progress: Progress = Silent(),
) -> list[TeacherForcedScores]:
    """Score every target token given the true tokens before it.

    There is no label smoothing; the sum over a sentence is the log-probability that beam search
    reports.

    Args:
        model: in evaluation mode.
        sources: source ids, each ending in EOS.
        targets: target ids, each ending in EOS.
        lines: the number of each sentence's line, for messages; None if they count from 1.
        precision: "fp32" or "bf16".
        progress: receives the number of sentences done.

    Returns:
        One result per sentence, with a value per target token, EOS included, in the order given.

    Raises:
        DecodingError: a sentence has more tokens than the model has positions.
        WorkError: a single sentence does not fit into memory.
    """
    longest = [max(len(pair[0]), len(pair[1])) for pair in zip(sources, targets, strict=True)]
    lines = lines or range(1, len(longest) + 1)
    check_positions(model.longest, longest, lines)
    batches = by_length(
        [len(source) for source in sources],
        batch_tokens=TARGET_TOKENS,
        is_joint=model.is_joint,
        costs=longest,
    )

    def score(batch: list[int]) -> list[TeacherForcedScores]:
        with torch.no_grad(), autocast(model.device, precision):
            memory = model.encode(*padded([sources[i] for i in batch], model.device))
            return _of_batch(model, memory, [targets[i] for i in batch])

    scored = in_halves(
        batches,
        score,
        lengths=longest,
        lines=lines,
        device=model.device,
        progress=progress,
        hint="one sentence per line needs the least memory",
    )
    return in_order(scored, len(sources), progress, "Scoring")


def _of_batch(
    model: TranslationModel, memory: Memory, targets: Sequence[Ids]
) -> list[TeacherForcedScores]:
    target_out, mask = padded(targets, model.device)  # [B, T]
    start = torch.full_like(target_out[:, :1], EOS)
    target_in = torch.cat([start, target_out[:, :-1]], dim=1)
    hidden = model.decode(target_in, memory)[mask]  # [M, E], M real target positions
    real = target_out[mask]  # [M]
    log_probs, hits = [], []
    for rows, tokens in zip(hidden.split(ROWS_AT_ONCE), real.split(ROWS_AT_ONCE), strict=True):
        predicted = torch.log_softmax(model.project(rows).float(), dim=-1)  # [rows, V]
        log_probs.append(predicted.gather(1, tokens[:, None])[:, 0].cpu())
        hits.append((predicted.argmax(dim=-1) == tokens).cpu())
    sizes = [len(target) for target in targets]
    sentences = zip(torch.cat(log_probs).split(sizes), torch.cat(hits).split(sizes), strict=True)
    return [TeacherForcedScores(values.tolist(), right.tolist()) for values, right in sentences]
