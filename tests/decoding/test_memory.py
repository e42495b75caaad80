"""Translating and scoring when memory runs out: halves, the same results, or a refusal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from plugins.listener import Listener
from plugins.random_runs import ON_CPU, MakeRun

from jtrans.decoding import batched_search, teacher_forcing
from jtrans.decoding.options import HIGHEST_LIMIT, SearchOptions
from jtrans.decoding.search import beam
from jtrans.decoding.translator import Translator
from jtrans.errors import WorkError
from jtrans.runs import Run

LINES = ["ein mann liest .", "hund", "ein hund rennt schnell .", "mann", "ein ein mann rennt ."]
FAILURES = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
    MemoryError(),
]


@pytest.fixture(params=FAILURES, ids=lambda error: type(error).__name__)
def failure(request: pytest.FixtureRequest) -> Exception:
    error: Exception = request.param
    return error


@pytest.fixture(autouse=True)
def one_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched_search, "lane_count", lambda device: 1)


@pytest.fixture
def ready(make_run: MakeRun) -> Translator:
    return Translator.load([Run.open(make_run())], ON_CPU)


def limit(monkeypatch: pytest.MonkeyPatch, failure: Exception, most: int) -> list[int]:
    """Let searches and forward passes of more than `most` sentences fail; return those tried."""
    tried: list[int] = []

    def limited(original: Any, sentences: Any) -> Any:
        def call(*arguments: Any) -> Any:
            tried.append(sentences(arguments))
            if tried[-1] > most:
                raise failure
            return original(*arguments)

        return call

    search = limited(beam.beam_search, lambda arguments: len(arguments[1]))
    monkeypatch.setattr(batched_search, "beam_search", search)
    score = limited(teacher_forcing._of_batch, lambda arguments: len(arguments[2]))
    monkeypatch.setattr(teacher_forcing, "_of_batch", score)
    return tried


def test_a_search_that_does_not_fit_goes_on_in_halves(
    ready: Translator, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = ready.translate_nbest(LINES)
    tried, listener = limit(monkeypatch, failure, 2), Listener()
    translated = ready.translate_nbest(LINES, progress=listener)
    assert [best[0].text for best in translated] == [best[0].text for best in expected]
    for best, other in zip(translated, expected, strict=True):
        assert best[0].log_prob == pytest.approx(other[0].log_prob, abs=1e-5)
    assert tried == [5, 2, 3, 1, 2]
    assert len(listener.warnings) == 1 and "halved" in listener.warnings[0]
    assert listener.advances[-1][1:] == (5, 5)


def test_forced_scores_that_do_not_fit_are_computed_in_halves(
    ready: Translator, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = ["a man reads .", "dog", "a dog", "man", "a"]
    expected = ready.teacher_forced_scores(LINES, targets)
    limit(monkeypatch, failure, 1)
    scored = ready.teacher_forced_scores(LINES, targets)
    for line, other in zip(scored, expected, strict=True):
        assert line.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-5)


def test_after_a_failure_batches_of_that_size_are_not_tried_again(
    make_run: MakeRun, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Translator.load([Run.open(make_run())], ON_CPU)
    small = Translator(small.models, small.pipeline, small.options, batch_tokens=8)
    tried = limit(monkeypatch, failure, 2)
    small.translate(["hund"] * 12)  # batches of four
    assert tried == [4, 2, 2, 2, 2, 2, 2]


def test_memory_that_is_not_needed_makes_room_before_a_batch_is_halved(
    ready: Translator, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, listener, freed = limit(monkeypatch, failure, 2), Listener(), []

    def make_room() -> bool:
        freed.append(len(tried))
        return len(freed) < 4

    ids = [[4, 1], [5, 1], [4, 5, 1], [5, 4, 1], [4, 4, 5, 1]]
    settings: dict[str, Any] = {"progress": listener, "make_room": make_room}
    best = batched_search.translate_ids(ready.models, ids, ready.options, **settings)
    assert [len(each) > 0 for each in best] == [True] * 5
    assert tried == [5, 5, 2, 3, 3, 1, 2]  # each once more, then in halves
    assert freed == [1, 4]
    assert len(listener.warnings) == 1


def test_lanes_halve_their_batches_by_themselves(
    ready: Translator, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = ready.translate(LINES)
    ready = replace(ready, batch_tokens=18)  # 3 sentences in one lane, 2 in the other
    monkeypatch.setattr(batched_search, "lane_count", lambda device: 2)
    tried, listener = limit(monkeypatch, failure, 1), Listener()
    assert ready.translate(LINES, listener) == expected
    assert max(tried) == 3 and tried.count(1) == 5
    assert listener.advances[-1][1:] == (5, 5)


def test_a_single_sentence_that_does_not_fit_is_refused_with_numbers(
    ready: Translator, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(monkeypatch, failure, 0)
    for work in (
        lambda: ready.translate(["ein mann"]),
        lambda: ready.teacher_forced_scores(["ein mann"], ["a"]),
    ):
        with pytest.raises(WorkError, match="a single sentence of 3 tokens") as caught:
            work()
        assert (caught.value.kind, caught.value.exit_code) == ("work.memory", 1)
        assert caught.value.hint


def test_other_errors_are_not_taken_for_missing_memory(
    ready: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(monkeypatch, RuntimeError("shapes do not match"), 0)
    with pytest.raises(RuntimeError, match="shapes"):
        ready.translate(LINES)


@pytest.mark.parametrize("text", ["200000000", "9" * 400, "S+" + "9" * 40, f"{'9' * 400}*S"])
def test_a_limit_that_is_never_reached_costs_nothing(
    tiny_model: Any, padded: Any, text: str
) -> None:
    ids, mask = padded([[5, 6, 1], [7, 1]])
    high = SearchOptions(beam=3, nbest=3, max_length=text)
    usual = SearchOptions(beam=3, nbest=3, max_length="2000")
    assert high.limit(10) <= HIGHEST_LIMIT
    model = tiny_model(8)
    assert beam.beam_search([model], ids, mask, high) == beam.beam_search([model], ids, mask, usual)
