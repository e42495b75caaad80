"""Models, made-up sentence pairs and switches for `check.py`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from jtrans.bench.flops import training_flops
from jtrans.data.batch import Batch, collate
from jtrans.data.ids import IdStore
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import build_model, system_configs
from jtrans.nn.gpu import operator
from scripts.gpu.timing import Scale

MEAN_LENGTH, VARIATION, CORRELATION = 25.0, 0.65, 0.93  # of the lengths of IWSLT14, in tokens


def make_model(
    system: str, width: int, scale: Scale, *, dropout: float = 0.1, attention_dropout: float = 0.0
) -> TranslationModel:
    """Build a model with random weights, the same for the same arguments."""
    sizes: dict[str, Any] = {
        "width": width,
        "ffn_width": 4 * width,
        "heads": width // scale.head_width,
        "dropout": dropout,
        "attention_dropout": attention_dropout,
        "relu_dropout": 0.0,
    }
    depths = {"transformer": 1 if scale.is_tiny else 6, "reformer-fast": max(1, scale.layers - 2)}
    config_class = system_configs()[system]
    stacks = [name for name in config_class.model_fields if name.endswith("layers")]
    sizes |= dict.fromkeys(stacks, depths.get(system, scale.layers))
    torch.manual_seed(1)
    config = config_class(system=system, **sizes)
    return build_model(config, scale.vocabulary, scale.vocabulary).to(scale.device)


def lengths(count: int, *, seed: int = 1) -> NDArray[np.int64]:
    """Return log-normal lengths of pairs, correlated as translations are, [2, count]."""
    random = np.random.default_rng(seed)
    sigma = np.sqrt(np.log1p(VARIATION**2))
    covariance = sigma**2 * np.array([[1.0, CORRELATION], [CORRELATION, 1.0]])
    means = np.full(2, np.log(MEAN_LENGTH) - sigma**2 / 2)
    drawn = np.exp(random.multivariate_normal(means, covariance, count)).T
    return np.clip(np.rint(drawn), 2, 128).astype(np.int64)  # [2, count]


class Pairs:
    """Made-up sentence pairs for `collate`: the target is the source backwards, cut."""

    def __init__(self, sizes: NDArray[np.int64], vocabulary: int) -> None:
        random = np.random.default_rng(1)
        longest = int(sizes.max())
        ids = random.integers(4, vocabulary, (sizes.shape[1], longest)).astype(np.int32)
        self.source = _store([row[:n] for row, n in zip(ids, sizes[0], strict=True)])
        self.target = _store([row[::-1][:n] for row, n in zip(ids, sizes[1], strict=True)])
        self.labels: dict[str, Any] = {}

    def batch(self, indices: NDArray[np.int64], device: torch.device) -> Batch:
        """Return the batch of the pairs at `indices`."""
        return collate(self, indices).to(device)  # type: ignore[arg-type]


def _store(sentences: list[NDArray[np.int32]]) -> IdStore:
    offsets = np.cumsum([0, *map(len, sentences)])
    ids = np.concatenate(sentences)
    ids[offsets[1:] - 1] = 1  # </s>
    return IdStore(ids, offsets)


def fixed_batch(source: int, target: int, positions: int, scale: Scale) -> Batch:
    """Return a batch of pairs of equal sizes, with about `positions` joint positions in all."""
    count = max(1, positions // (source * target))
    pairs = Pairs(np.tile([[source], [target]], (1, count)), scale.vocabulary)
    return pairs.batch(np.arange(count), scale.device)


def padded_batch(scale: Scale) -> Batch:
    """Return a small batch with padding on both sides."""
    sizes = np.array([[9, 5, 7], [6, 8, 3]])
    return Pairs(sizes, scale.vocabulary).batch(np.arange(3), scale.device)


def real_positions(batch: Batch) -> int:
    """Count joint positions whose source and target are both real."""
    return int((batch.source_mask.sum(1) * batch.target_mask.sum(1)).sum())


@contextlib.contextmanager
def kernels(*, is_on: bool) -> Iterator[None]:
    """Let attention use the Triton kernels wherever they can run, or nowhere."""
    before = operator.HAS_TRITON
    operator.HAS_TRITON = before and is_on
    try:
        yield
    finally:
        operator.HAS_TRITON = before


def compile_layers(model: TranslationModel, scale: Scale) -> TranslationModel:
    """Compile each layer for training, as `jtrans train` does on a GPU."""
    import torch._dynamo

    from jtrans.nn.layer import compile_layers as compile_for_training

    torch._dynamo.config.recompile_limit = 64
    torch._dynamo.config.fail_on_recompile_limit_hit = True  # else torch silently stays eager
    compile_for_training(model, backend="eager" if scale.is_tiny else "inductor")
    return model


def compiled_frames() -> int:
    """Count the frames that torch.compile has compiled so far."""
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


def model_flops(model: TranslationModel, batch: Batch) -> float:
    """Count the FLOPs of training on a batch, real tokens only."""
    vocabulary: int = model.output.out_features  # type: ignore[assignment, union-attr]
    flops = training_flops(model.config, vocabulary, vocabulary)
    return flops(batch.source_mask.sum(1).cpu(), batch.target_mask.sum(1).cpu())
