"""Word alignments read off a model's attention from target to source.

Subwords are merged into words (weights summed over the subwords of a source word, averaged over
those of a target word), ``</s>`` is left out, and every target word is aligned to the source word
with the largest weight.

A target word can be aligned by two rows: the row that *predicts* the word, or the next row, which
has just *read* it. Which is better differs between systems and layers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jtrans.data.batch import Ids, padded
from jtrans.decoding.batches import by_length, check_positions
from jtrans.decoding.halving import in_halves
from jtrans.decoding.lanes import Batch
from jtrans.errors import ConfigError, name_hint
from jtrans.models.base import AttentionMap, TranslationModel
from jtrans.models.contract import attention_maps
from jtrans.nn.recorder import keep_instead
from jtrans.progress import Silent
from jtrans.text.alignments import WordAlignment
from jtrans.text.vocabulary import EOS

READINGS = ("predicting", "reading")
BATCH_TOKENS = 256  # explain holds all weights of a batch: S x S for every target position


def align_words(
    model: TranslationModel,
    sources: Sequence[Ids],
    targets: Sequence[Ids],
    words: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> Iterator[tuple[int, dict[str, WordAlignment]]]:
    """Yield each pair's number and its alignments, by layer and reading: ``LAYER READING``.

    Args:
        model: in evaluation mode.
        sources: source ids, each ending in EOS.
        targets: target ids, each ending in EOS.
        words: for each pair, the word number of each source and of each target subword.
    """
    for index, maps in attention_to_source(model, sources, targets):
        alignments = {
            f"{name} {reading}": alignment
            for name, weights in maps.items()
            for reading, alignment in read_off(weights, *words[index])
        }
        yield index, alignments


def attention_to_source(
    model: TranslationModel,
    sources: Sequence[Ids],
    targets: Sequence[Ids],
    lines: Sequence[int] | None = None,
    layer: str | None = None,
) -> Iterator[tuple[int, dict[str, NDArray[np.float32]]]]:
    """Yield each pair's number and its maps of attention from target to source, by name.

    A map has the weights of the source positions in the row that predicts each target token,
    ``</s>`` among both, [T, S].

    Args:
        model: in evaluation mode.
        sources: source ids, each ending in EOS.
        targets: target ids, each ending in EOS.
        lines: the number of each sentence's line, for messages; None if they count from 1.
        layer: the only map to return, which needs only its own memory; None for all.

    Raises:
        DecodingError: a sentence has more tokens than the model has positions.
        WorkError: a single sentence does not fit into memory.
    """
    lengths = [max(map(len, pair)) for pair in zip(sources, targets, strict=True)]
    lines = lines or range(1, len(lengths) + 1)
    check_positions(model.longest, lengths, lines)
    kept = _only(None if layer is None else _block_of(model, layer))

    def explain(batch: Batch) -> list[tuple[str, NDArray[np.float32]]]:
        source, mask = padded([sources[i] for i in batch], model.device)
        target, _ = padded([[EOS, *targets[i][:-1]] for i in batch], model.device)
        with keep_instead(kept):
            maps = attention_maps(model, source, target)
        return [*target_to_source([m for m in maps if layer in (None, m.name)], mask)]

    explained = in_halves(
        by_length(lengths, batch_tokens=BATCH_TOKENS, is_joint=True),
        explain,
        lengths=lengths,
        lines=lines,
        device=model.device,
        progress=Silent(),
        hint="shorter sentences, or a machine with more memory",
    )
    for batch, maps in explained:
        for row, index in enumerate(batch):
            T, S = len(targets[index]), len(sources[index])
            yield index, {name: weights[row, :T, :S] for name, weights in maps}


def choose_layer(model: TranslationModel, layer: str | None = None) -> str:
    """Return the attention map for alignments: `layer`, or one that usually aligns well.

    That is the Reduction of a joint system, otherwise the last layer but one (Garg et al. 2019,
    Jointly Learning to Align and Translate), or the only one.

    Raises:
        ConfigError: the system has no such map, or none at all.
    """
    shortest = _shortest(model)
    mask = torch.ones_like(shortest, dtype=torch.bool)
    names = [name for name, _ in target_to_source(attention_maps(model, shortest, shortest), mask)]
    if not names:
        raise ConfigError(
            f"{model.config.system} has no attention from target to source words",
            hint="word alignments need a system with it, such as transformer or reformer-fast",
            kind="config.unknown-layer",
        )
    if layer is not None and layer not in names:
        raise ConfigError(
            f"{model.config.system} has no attention map {layer!r} from target to source",
            where="--alignment-layer",
            hint=name_hint(layer, names, f"it has {', '.join(names)}"),
            kind="config.unknown-layer",
        )
    alone = [name for name in names if "." not in name]
    return layer or next(iter(alone), names[max(0, len(names) - 2)])


def _shortest(model: TranslationModel) -> Tensor:
    return torch.full((1, 1), EOS, device=model.device)


def _block_of(model: TranslationModel, layer: str) -> Hashable | None:
    """Return the block whose weights are the map `layer`; None if it combines several."""
    marks: dict[Hashable, float] = {}

    def marked(block: Hashable, weights: Tensor) -> Tensor:
        mark = marks.setdefault(block, 2.0 ** len(marks))  # no mean of some equals another
        return torch.full_like(weights, mark, dtype=torch.float64)

    shortest = _shortest(model)
    with keep_instead(marked):
        maps = {each.name: each.weights for each in attention_maps(model, shortest, shortest)}
    return next((block for block, mark in marks.items() if (maps[layer] == mark).all()), None)


def _only(wanted: Hashable | None) -> Callable[[Hashable, Tensor], Tensor]:
    """Return a function that keeps the weights of one block (None: all), and others' shapes."""
    return lambda block, weights: (
        weights if wanted in (None, block) else weights.new_zeros(()).expand_as(weights)
    )


def target_to_source(
    maps: Sequence[AttentionMap], mask: Tensor
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield every map of attention from target to source positions, [B, T, S].

    The mean is taken over all other axes: heads, features, and in joint systems the
    (real) source positions of the queries.

    Args:
        maps: the maps of a forward pass.
        mask: True on real source tokens, [B, S].
    """
    real = mask.float()
    for attention_map in maps:
        axes = attention_map.axes
        if axes[-1] != "source" or axes.count("target") != 1:
            continue
        weights = attention_map.weights.float()
        for place in range(len(axes) - 2, -1, -1):
            if axes[place] == "source":
                shape = [real.shape[0], *[1] * (weights.dim() - 1)]
                shape[place + 1] = real.shape[1]
                share = (real / real.sum(dim=1, keepdim=True)).view(shape)
                weights = (weights * share).sum(dim=place + 1)
            elif axes[place] != "target":
                weights = weights.mean(dim=place + 1)
        yield attention_map.name, weights.cpu().numpy()


def read_off(
    weights: NDArray[np.float32], source: NDArray[np.int64], target: NDArray[np.int64]
) -> Iterator[tuple[str, WordAlignment]]:
    """Yield the alignment of one sentence by both readings.

    Given are weights [T + 1, S + 1], for ``</s>`` too, and the word numbers of the source subwords,
    [S], and of the target subwords, [T].
    """
    S, T = len(source), len(target)
    for shift, reading in enumerate(READINGS):
        alignment: WordAlignment = []
        if S and T:
            pieces = weights[shift : shift + T, :S]  # [T, S]
            by_word = _membership(target) @ pieces @ _membership(source).T
            alignment = [(int(i), j) for j, i in enumerate(by_word.argmax(axis=1))]
        yield reading, alignment


def _membership(word: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return whether each subword belongs to each word, [words, subwords]."""
    words = np.arange(word[-1] + 1)
    return np.equal.outer(words, word).astype(np.float64)
