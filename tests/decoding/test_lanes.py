"""Batches searched at the same time: the same results, and an end of all lanes with the first."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from models.conftest import tiny_model
from plugins.random_runs import JOINT, ON_CPU, TRANSFORMER, WORDS, MakeRun

from jtrans.decoding import batched_search
from jtrans.decoding.batched_search import translate_ids
from jtrans.decoding.batches import BATCH_TOKENS, default_batch_tokens
from jtrans.decoding.lanes import (
    Unwanted,
    in_lanes,
    lane_count,
    leave_if_unwanted,
    only_while,
)
from jtrans.decoding.options import SamplingOptions, SearchOptions, TranslationExtras
from jtrans.decoding.prepared.base import Searchable
from jtrans.decoding.prepared.choose import prepared
from jtrans.decoding.translator import Translator
from jtrans.nn.cpu.matmul_backend import PRECISIONS, mkl_for_tiny_products
from jtrans.runs import Run

LINES = [
    " ".join(WORDS[i % len(WORDS)] for i in range(first, first + 1 + first % 5))
    for first in range(23)
]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before, threads = threading.active_count(), torch.get_num_threads()
    yield
    assert threading.active_count() == before
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("model", [TRANSFORMER, JOINT], ids=lambda model: model["system"])
def test_lanes_change_no_translation(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, model: dict[str, Any]
) -> None:
    choices = replace(ON_CPU, batch_tokens=40)
    ready = Translator.load([Run.open(make_run(config={"model": model}))], choices)
    translated = []
    for lanes in (1, 2, 3):
        monkeypatch.setattr(batched_search, "lane_count", lambda device, lanes=lanes: lanes)
        translated.append(ready.translate_nbest(LINES, 2))
    for other in translated[1:]:
        for best, same in zip(other, translated[0], strict=True):
            assert [each.text for each in best] == [each.text for each in same]
            near = pytest.approx([each.score for each in same], abs=1e-5)
            assert [each.score for each in best] == near


def test_lanes_change_no_sample(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    extras = TranslationExtras(sampling=SamplingOptions(seed=7))
    ready = Translator.load([Run.open(make_run())], replace(ON_CPU, extras=extras))
    drawn = []
    for lanes in (1, 2):
        monkeypatch.setattr(batched_search, "lane_count", lambda device, lanes=lanes: lanes)
        drawn.append(ready.translate(LINES))
    assert drawn[0] == drawn[1] and len(set(drawn[0])) > 10


def test_the_first_failure_ends_all_lanes() -> None:
    begun = threading.Event()

    def compute(batches: Iterator[list[int]]) -> Iterator[int]:
        for [number] in batches:
            if number == 0:
                assert begun.wait(10)
                raise ValueError("zero")
            begun.set()
            while True:  # as a search that takes long
                time.sleep(0.01)
                leave_if_unwanted()
            yield number

    with pytest.raises(ValueError, match="zero"):
        list(in_lanes([[0], [1]], compute, 2))


def test_who_takes_no_more_results_ends_all_lanes() -> None:
    def compute(batches: Iterator[list[int]]) -> Iterator[int]:
        for [number] in batches:
            yield number
            while number > 1:
                time.sleep(0.01)
                leave_if_unwanted()

    results = in_lanes([[number] for number in range(6)], compute, 3)
    assert next(results) in (0, 1)
    del results


@pytest.mark.parametrize("lanes", [1, 2])
def test_what_is_no_longer_wanted_ends_all_lanes(lanes: int) -> None:
    begun: list[int] = []

    def compute(batches: Iterator[list[int]]) -> Iterator[int]:
        for [number] in batches:
            begun.append(number)
            while True:
                time.sleep(0.01)
                leave_if_unwanted()
            yield number

    with pytest.raises(Unwanted), only_while(lambda: len(begun) < lanes):
        list(in_lanes([[0], [1], [2]], compute, lanes))
    assert len(begun) == lanes
    leave_if_unwanted()  # and nothing else afterwards


def test_lanes_share_the_threads_and_inherit_the_mode() -> None:
    def compute(batches: Iterator[list[int]]) -> Iterator[tuple[int, bool]]:
        for _ in batches:
            yield torch.get_num_threads(), torch.is_inference_mode_enabled()

    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        with torch.inference_mode():
            assert set(in_lanes([[0], [1], [2]], compute, 2)) == {(2, True)}
        assert set(in_lanes([[0], [1], [2]], compute, 2)) == {(2, False)}
        assert torch.get_num_threads() == 4
        later: list[int] = []
        thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert later == [4]  # a thread that starts later has all of them, too
        assert lane_count(torch.device("cpu")) == 4
        assert default_batch_tokens(torch.device("cpu")) == BATCH_TOKENS  # of each lane
    finally:
        torch.set_num_threads(before)
    assert lane_count(torch.device("meta")) == 1


def test_lanes_leave_the_switch_of_the_process_alone() -> None:
    before = torch.get_float32_matmul_precision()

    def compute(batches: Iterator[list[int]]) -> Iterator[str]:
        for _ in batches:
            with mkl_for_tiny_products():
                yield torch.get_float32_matmul_precision()

    torch.set_float32_matmul_precision(PRECISIONS["oneDNN"])
    try:
        assert set(in_lanes([[0], [1]], compute, 2)) == {PRECISIONS["oneDNN"]}
        assert set(in_lanes([[0], [1]], compute, 1)) == {PRECISIONS["MKL"]}
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("system", ["transformer", "reformer-base"])
def test_searches_with_prepared_forms_multiply_by_mkl(
    monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    model = tiny_model(system).float().requires_grad_(False)
    backends: list[str] = []

    def searched(form: Searchable) -> set[str]:
        def step(*arguments: Any) -> torch.Tensor:
            backends.append(torch.get_float32_matmul_precision())
            return type(form).step(form, *arguments)

        monkeypatch.setattr(form, "step", step)
        backends.clear()
        translate_ids([form], [[4, 5, 2], [6, 2]], SearchOptions(beam=2, max_length="4"))
        return {*backends}

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(PRECISIONS["oneDNN"])
    try:
        assert searched(prepared(model)) == {PRECISIONS["MKL"]}
        assert searched(model) == {PRECISIONS["oneDNN"]}
        assert torch.get_float32_matmul_precision() == PRECISIONS["oneDNN"]
    finally:
        torch.set_float32_matmul_precision(before)
