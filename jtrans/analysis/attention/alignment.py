"""Which source word a system looks at for each target word, and whether that is right.

Attention of the source by target positions, and the Reduction's weights, are read with the
reference as decoder input. Pieces are put together to words (weights summed over the pieces of a
source word, averaged over those of a target word), ``</s>`` is left out, and every target word is
linked to the source word with most weight. Where there are several references, the first is read.

A decoder's row can be read in two ways: the row that *predicts* a word, or the row after the word
was *read*; which one fits better differs between systems and layers, so both are given.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jtrans.analysis.attention.links import (
    GoldSentence,
    Links,
    error_rates,
    format_links,
    read_gold,
)
from jtrans.analysis.figures.figure import Cell, Table
from jtrans.analysis.figures.position import continues
from jtrans.analysis.study.members import is_same_segmentation
from jtrans.errors import ConfigError, CorpusError, did_you_mean
from jtrans.text.vocabulary import EOS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtrans.analysis.study.members import Member
    from jtrans.analysis.study.study import Study
    from jtrans.models.base import AttentionMap
    from jtrans.text.pipeline import TextSide

READINGS = ("predicting", "reading")
BATCH_TOKENS = 256  # explain keeps all weights of a pass: S times S for every target position


@dataclass(frozen=True)
class LayerAlignment:
    """The links one layer gives.

    Args:
        layer: name of the attention map.
        reading: one of `READINGS`.
        links: per sentence.
    """

    layer: str
    reading: str
    links: list[Links]

    @property
    def pharaoh(self) -> list[str]:
        """The links in Pharaoh format, a line per sentence."""
        return [format_links(links) for links in self.links]


def alignment_tables(
    study: Study, gold: Sequence[GoldSentence] | None = None, *, layer: str | None = None
) -> list[Table]:
    """Return how good every layer's alignment is, and the best layer of every system.

    Args:
        study: the systems.
        gold: gold links per sentence; without them the layers are only listed.
        layer: the only layer to look at.

    Raises:
        ConfigError: no such layer.
        CorpusError: there is no run, or one that cuts words otherwise than the gold links.
    """
    if not study.with_model:
        raise CorpusError(
            "alignments need a run, not only files of translations", hint="name a RUN"
        )
    if gold is not None:
        _check_words(study)
    columns = ["system", "layer", "row", "links"]
    columns += ["AER", "precision", "recall"] if gold is not None else []
    rows: list[list[Cell]] = []
    best: list[list[Cell]] = []
    for subject in study.with_model:
        own: list[list[Cell]] = []
        for member in subject.run_members:
            for found in chosen(member, layer):
                total = sum(len(links) for links in found.links)
                row: list[Cell] = [member.name, found.layer, found.reading, total]
                if gold is not None:
                    row += list(error_rates(found.links, gold))
                own.append(row)
        rows += own
        if gold is not None:
            best.append(min(own, key=_by_error))
    note = (
        "Links from the weights of each layer, averaged over heads (Reduction: over features), "
        "reference forced. Row: of the position that predicts the word, or that has read it."
    ) + study.text.only_first
    tables = [Table("alignment-layers", "Alignment by layer", columns, rows, note)]
    if gold is not None:
        tables.insert(0, Table("alignment", "Best layer", columns, best, "Lowest AER. " + note))
    return tables


def find_gold(study: Study, path: Path | None = None) -> list[GoldSentence] | None:
    """Read gold links from a file, else those of the prepared corpus; None when it has none.

    Raises:
        CorpusError: they do not fit the split.
    """
    if path is None:
        path = study.corpus.folder / "text" / f"{study.split}.alignments.txt"
        if not path.is_file():
            return None
    return read_gold(path, study.source_words, study.reference_words)


def _check_words(study: Study) -> None:
    first = study.with_model[0].run_members[0]
    for subject in study.with_model:
        for member in subject.run_members:
            if not all(
                is_same_segmentation(
                    getattr(member.run.pipeline, side), getattr(first.run.pipeline, side)
                )
                for side in ("source", "target")
            ):
                raise CorpusError(
                    f"{member.name} cuts words otherwise than {first.name}: gold links of words "
                    "fit only one of them",
                    hint="analyse it alone, with its own --gold FILE",
                    kind="corpus.alignment-words",
                )


def _by_error(row: Sequence[Cell]) -> float:
    rate = row[4]
    return rate if isinstance(rate, float) else math.inf


def chosen(member: Member, layer: str | None) -> list[LayerAlignment]:
    """Return the alignments of a run: of every layer, or of one.

    Raises:
        ConfigError: no such layer.
    """
    found = align(member)
    names = list(dict.fromkeys(alignment.layer for alignment in found))
    if layer is not None and layer not in names:
        near = did_you_mean(layer, names)
        raise ConfigError(
            f"{member.name} has no attention map {layer!r} from target to source",
            where="--layer",
            hint=f"did you mean {near}?" if near else f"it has {', '.join(names) or 'none'}",
            kind="config.unknown-layer",
        )
    return [alignment for alignment in found if layer in (None, alignment.layer)]


def best_alignment(
    member: Member, gold: Sequence[GoldSentence] | None, layer: str | None = None
) -> LayerAlignment:
    """Return the alignment with the lowest error rate, without gold that of the last layer.

    Raises:
        ConfigError: no such layer, or none at all.
    """
    found = chosen(member, layer)
    if not found:
        raise ConfigError(
            f"{member.name} has no attention from target to source words",
            hint="alignments need a system with attention, or the Reduction of a joint one",
            kind="config.unknown-layer",
        )
    if gold is None:
        return next(alignment for alignment in found if alignment.layer == found[-1].layer)
    rates = [error_rates(alignment.links, gold)[0] for alignment in found]
    return found[int(np.argmin([math.inf if rate is None else rate for rate in rates]))]


def align(member: Member) -> list[LayerAlignment]:
    """Return the links of every layer of a run, from the run's folder if they are there."""
    kept = member.kept("alignment")
    arrays = kept.read()
    if arrays is None:
        arrays = _pack(_compute(member))
        kept.write(arrays, member.how.progress)
    return _unpack(arrays)


def _compute(member: Member) -> dict[str, list[Links]]:
    import torch

    from jtrans.decoding.batches import by_length, padded

    model, pipeline = member.model, member.run.pipeline
    words = [
        (_Words.of(pipeline.source, source), _Words.of(pipeline.target, target))
        for source, target in zip(member.source_pieces, member.reference_pieces, strict=True)
    ]
    lengths = [
        max(map(len, pair)) for pair in zip(member.source_ids, member.reference_ids, strict=True)
    ]
    result: dict[str, list[Links]] = {}
    done = 0
    for batch in by_length(lengths, batch_tokens=BATCH_TOKENS, is_joint=True):
        source, mask = padded([member.source_ids[i] for i in batch], model.device)
        target, _ = padded([[EOS, *member.reference_ids[i]] for i in batch], model.device)
        with torch.no_grad():
            maps = model.explain(source, target)
        for name, weights in _target_to_source(maps, mask.float()):
            for row, index in enumerate(batch):
                for reading, links in _links(weights[row], *words[index]):
                    key = f"{name} {reading}"
                    result.setdefault(key, [[] for _ in words])[index] = links
        done += len(batch)
        member.how.progress.advance("Aligning", done, len(words))
    return result


def _target_to_source(maps: Sequence[AttentionMap], mask: Any) -> Iterator[tuple[str, Any]]:
    """Yield every map that says where target positions look in the source, [B, T, S].

    All axes but target and the attended source are averaged over: heads, features, and in joint
    systems the source positions that ask (real ones only).
    """
    for found in maps:
        if found.axes[-1] != "source" or found.axes.count("target") != 1:
            continue
        weights = found.weights.float()
        for place in range(len(found.axes) - 2, -1, -1):
            axis = found.axes[place]
            if axis == "source":
                shape = [mask.shape[0], *[1] * (weights.dim() - 1)]
                shape[place + 1] = mask.shape[1]
                share = (mask / mask.sum(dim=1, keepdim=True)).view(shape)
                weights = (weights * share).sum(dim=place + 1)
            elif axis != "target":
                weights = weights.mean(dim=place + 1)
        yield found.name, weights.cpu().numpy()


@dataclass(frozen=True)
class _Words:
    """The word of every piece of a sentence."""

    word: NDArray[np.int64]

    @classmethod
    def of(cls, side: TextSide, pieces: Sequence[str]) -> _Words:
        number, numbers = 0, []
        for piece in pieces:
            numbers.append(number)
            number += not continues(side, piece)
        return cls(np.array(numbers, dtype=np.int64))

    @cached_property
    def merge(self) -> NDArray[np.float64]:
        """Which pieces a word has, [words, pieces]."""
        count = int(self.word.max(initial=-1)) + 1
        merge: NDArray[np.float64] = np.equal.outer(np.arange(count), self.word).astype(np.float64)
        return merge


def _links(weights: NDArray[Any], source: _Words, target: _Words) -> Iterator[tuple[str, Links]]:
    """Yield the links of one sentence in both readings.

    Args:
        weights: [T, S]; decoder input is ``</s>`` and then the reference.
        source: words of the source pieces.
        target: words of the reference pieces.
    """
    S, T = len(source.word), len(target.word)
    for shift, reading in enumerate(READINGS):
        links: Links = []
        if S and T:
            pieces = weights[shift : shift + T, :S]  # [T, S]
            by_word = target.merge @ pieces @ source.merge.T
            links = [(int(i), j) for j, i in enumerate(by_word.argmax(axis=1))]
        yield reading, links


def _pack(found: dict[str, list[Links]]) -> dict[str, NDArray[Any]]:
    names = list(found)
    lines = [[format_links(links) for links in found[name]] for name in names]
    return {"names": np.array(json.dumps(names)), "lines": np.array(json.dumps(lines))}


def _unpack(arrays: dict[str, NDArray[Any]]) -> list[LayerAlignment]:
    names = json.loads(str(arrays["names"]))
    result = []
    for name, lines in zip(names, json.loads(str(arrays["lines"])), strict=True):
        layer, reading = name.rsplit(" ", 1)
        links = [
            [(int(i), int(j)) for i, j in (pair.split("-") for pair in line.split())]
            for line in lines
        ]
        result.append(LayerAlignment(layer, reading, links))
    return result
