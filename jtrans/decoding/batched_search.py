"""Translate sentences of ids in batches of similar length, by search or by sampling."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch

from jtrans.data.batch import Ids, padded
from jtrans.decoding.batches import BATCH_TOKENS, by_length, in_order
from jtrans.decoding.halving import in_halves
from jtrans.decoding.lanes import in_lanes, lane_count
from jtrans.decoding.options import SamplingOptions, SearchOptions
from jtrans.decoding.prepared.base import Searchable, backend_for
from jtrans.decoding.prepared.captured.state import GraphForm
from jtrans.decoding.search.beam import beam_search
from jtrans.decoding.search.phrases import SearchConstraints
from jtrans.decoding.search.sampling import draw
from jtrans.decoding.search.trace import Hypothesis, NoTokenLeftError
from jtrans.progress import Progress, Silent


def translate_ids(
    models: Sequence[Searchable],
    sources: Sequence[Ids],
    options: SearchOptions,
    *,
    others: Sequence[Sequence[Ids]] = (),
    constraints: Sequence[SearchConstraints] = (),
    sampling: SamplingOptions | None = None,
    never: Sequence[int] = (),
    batch_tokens: int = BATCH_TOKENS,
    lines: Sequence[int] | None = None,
    progress: Progress = Silent(),
    make_room: Callable[[], bool] = lambda: False,
) -> list[list[Hypothesis]]:
    """Search for translations of sentences given as ids, each ending in EOS, or draw them.

    Args:
        models: one model, or an ensemble, as they are or prepared.
        sources: the sentences.
        options: search options.
        others: the sentences for each further model of an ensemble; empty if all models read the
            same ids.
        constraints: one per sentence; empty for none.
        sampling: draw from this distribution instead of searching.
        never: tokens that are not drawn. A search needs no such list: no trained model finds filler
            probable.
        batch_tokens: most padded source tokens in one batch.
        lines: the number of each sentence's line, for messages; None if they count from 1.
        progress: receives the number of sentences done.
        make_room: frees other memory that the search can do without, as in `in_halves`.

    Returns:
        Hypotheses per sentence, best first, sentences in the order given.

    Raises:
        DecodingError: the models' probabilities are not finite, or rules exclude every token.
        WorkError: a single sentence does not fit into memory.
    """
    device = models[0].device
    is_joint = any(model.is_joint for model in models)
    lengths = [max(map(len, each)) for each in zip(sources, *others, strict=True)]

    def search(batch: list[int]) -> list[list[Hypothesis]]:
        inputs = [padded([each[index] for index in batch], device) for each in (sources, *others)]
        own = [constraints[index] for index in batch] if constraints else ()
        memories = None
        if others:
            with torch.no_grad():
                memories = [model.encode(*ids) for model, ids in zip(models, inputs, strict=True)]
        try:
            if sampling:
                return draw(models, *inputs[0], options, sampling, own, memories, never)
            return beam_search(models, *inputs[0], options, own, memories)
        except NoTokenLeftError as error:
            raise error.of_sentence(numbers[batch[error.sentence]]) from None

    def drop_graphs() -> bool:
        graphs = [model.graphs.make_room() for model in models if isinstance(model, GraphForm)]
        return any([*graphs, make_room()])

    numbers = lines or range(1, len(lengths) + 1)
    lanes = lane_count(device)
    if is_joint:  # small batches are as fast, and the large ones of all lanes need much memory
        batch_tokens = max(1, batch_tokens // lanes)
    batches = by_length(lengths, batch_tokens=batch_tokens, is_joint=is_joint)
    one_lane = functools.partial(
        in_halves,
        work=search,
        lengths=lengths,
        lines=numbers,
        device=device,
        progress=progress,
        hint="a smaller --beam, a lower --max-length, or one sentence per line",
        make_room=drop_graphs,
    )
    with backend_for(models):
        searched = in_lanes(batches, one_lane, lanes)
        return in_order(searched, len(sources), progress, "Translating")
