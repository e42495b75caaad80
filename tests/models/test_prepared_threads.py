"""Two threads can search with one prepared form: all that a search changes is its own state."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest
import torch
from models.conftest import CASES, tiny_model
from torch import Tensor

from jtrans.decoding.options import SearchOptions
from jtrans.decoding.prepared.base import Searchable
from jtrans.decoding.prepared.choose import prepared
from jtrans.decoding.search.beam import beam_search

SHAPES = [(1, 3), (3, 7), (2, 19), (1, 30)]  # sentences and their longest source
FORMS = ["transformer", "transformer-pp", "hybrid/t2r", "reformer-base", "pervasive", "convs2s"]

Found = list[list[tuple[list[int], float]]]


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """Let the interpreter change threads every few operations."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def batch_of(sentences: int, longest: int) -> tuple[Tensor, Tensor]:
    """Return ids and mask of random sentences."""
    generator = torch.Generator().manual_seed(longest)
    ids = torch.randint(3, 20, (sentences, longest), generator=generator)
    lengths = torch.arange(longest, longest - sentences, -1)
    mask = torch.arange(longest) < lengths[:, None]
    return ids * mask, mask


def search(form: Searchable, source: Tensor, mask: Tensor) -> Found:
    """Return tokens and scores of all hypotheses; inference mode is that of a thread."""
    options = SearchOptions(beam=3, nbest=3, max_length="20")
    with torch.inference_mode():
        searched = beam_search([form], source, mask, options)
    return [[(each.tokens, each.score) for each in best] for best in searched]


@pytest.mark.sample(5)
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("case", FORMS)
def test_searches_beside_each_other_find_the_same(case: str, precision: str) -> None:
    torch.manual_seed(1)
    model = tiny_model(CASES[case][0], **CASES[case][1]).float().requires_grad_(False)
    form, fresh = prepared(model, precision), prepared(model, precision)
    batches = [batch_of(*shape) for shape in SHAPES]
    expected = [search(fresh, *batch) for batch in batches]
    results: list[dict[int, Found]] = [{}, {}]

    def work(results_of_thread: dict[int, Found], order: list[int]) -> None:
        for number in order:
            results_of_thread[number] = search(form, *batches[number])

    orders = [[0, 1, 2, 3], [3, 2, 1, 0]]
    threads = [
        threading.Thread(target=work, args=given) for given in zip(results, orders, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [dict(enumerate(expected))] * 2
