"""Rules about the next token: n-grams, prefixes, minimum lengths, and the stopping rule "bound"."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from jtrans.decoding.options import SearchOptions
from jtrans.decoding.search.beam import beam_search
from jtrans.decoding.search.next_token import block_loops, block_repeated_ngrams
from jtrans.decoding.search.phrases import SearchConstraints
from jtrans.decoding.search.trace import Hypothesis
from jtrans.errors import DecodingError
from jtrans.text.vocabulary import EOS, UNK

SOURCES = [[5, 6, 1], [7, 1], [5, 9, 8, 11, 12, 1], [1], [13, 13, 13, 1]]


def search(
    model: Any,
    sources: tuple[Tensor, Tensor],
    options: SearchOptions,
    prefixes: Sequence[list[int]] = (),
) -> list[list[Hypothesis]]:
    """Search with one model from ids and mask together."""
    constraints = [SearchConstraints(prefix) for prefix in prefixes]
    return beam_search([model], sources[0], sources[1], options, constraints)


def ngrams(tokens: list[int], n: int) -> list[tuple[int, ...]]:
    """All n-grams of a sentence without its end."""
    body = tokens[:-1]
    return [tuple(body[i : i + n]) for i in range(len(body) - n + 1)]


def total(model: Any, source: list[int], tokens: list[int], padded: Any) -> float:
    """The log-probability of a translation, by `decode`."""
    memory = model.encode(*padded([source]))
    hidden = model.decode(torch.tensor([[EOS, *tokens[:-1]]]), memory)
    log_probs = torch.log_softmax(model.project(hidden)[0], dim=-1).detach()
    return sum(float(log_probs[t, token]) for t, token in enumerate(tokens))


@given(
    prefix=st.lists(st.integers(1, 6), max_size=12),
    n=st.integers(1, 4),
)
@settings(max_examples=100, deadline=None)
def test_exactly_the_tokens_that_would_repeat_an_ngram_are_blocked(
    prefix: list[int], n: int
) -> None:
    log_probs = torch.zeros(1, 1, 8)
    block_repeated_ngrams(log_probs, torch.tensor([[prefix]], dtype=torch.int64), n)
    old = ngrams([*prefix, EOS], n)
    for token in range(1, 8):
        new = ngrams([*prefix, token, EOS], n)
        is_repeated = len(new) > len(old) and new[-1] in old
        assert bool(log_probs[0, 0, token].isinf()) == is_repeated


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_hypothesis_repeats_an_ngram(tiny_model: Any, padded: Any, n: int) -> None:
    ids, mask = padded(SOURCES)
    for seed in range(5):
        model = tiny_model(10, seed=seed)
        options = SearchOptions(beam=4, nbest=4, max_length="14", no_repeat_ngram=n)
        results = search(model, (ids, mask), options)
        for source, hypotheses in zip(SOURCES, results, strict=True):
            for hypothesis in hypotheses:
                seen = ngrams(hypothesis.tokens, n)
                assert len(seen) == len(set(seen))
                log_prob = total(model, source, hypothesis.tokens, padded)
                assert hypothesis.log_prob == pytest.approx(log_prob, abs=1e-4)


def times_at_the_end(tokens: list[int], size: int) -> int:
    """How often the last `size` tokens come in a row at the end."""
    last, times = tokens[-size:], 1
    while tokens[: len(tokens) - size * times][-size:] == last:
        times += 1
    return times


@given(prefix=st.lists(st.integers(3, 5), max_size=10), most=st.integers(1, 3))
@settings(max_examples=60)
def test_exactly_the_tokens_that_would_go_on_with_a_loop_are_blocked(
    prefix: list[int], most: int
) -> None:
    log_probs = torch.zeros(1, 1, 8)
    block_loops(log_probs, torch.tensor([[prefix]], dtype=torch.int64), most)
    for token in range(1, 8):
        longer = [*prefix, token]
        times = max(times_at_the_end(longer, size) for size in range(1, len(longer) + 1))
        assert bool(log_probs[0, 0, token].isinf()) == (times > most)


@pytest.mark.parametrize("most", [1, 2])
def test_no_hypothesis_loops(tiny_model: Any, padded: Any, most: int) -> None:
    model = tiny_model(10, seed=3)
    with torch.no_grad():
        model.out[:, EOS] = -9.0
    free = SearchOptions(beam=4, nbest=4, max_length="14")
    guarded = SearchOptions(beam=4, nbest=4, max_length="14", max_repeats=most)

    def times(options: SearchOptions) -> int:
        results = search(model, padded(SOURCES), options)
        bodies = [
            each.tokens[:-1][: end + 1]
            for hypotheses in results
            for each in hypotheses
            for end in range(13)
        ]
        return max(times_at_the_end(body, size) for body in bodies for size in (1, 2, 3))

    assert times(free) > most
    assert times(guarded) <= most


@given(seed=st.integers(0, 1000), lengths=st.lists(st.integers(0, 4), min_size=5, max_size=5))
@settings(max_examples=30, deadline=None)
def test_translations_begin_with_their_prefixes(
    tiny_model: Any, padded: Any, seed: int, lengths: list[int]
) -> None:
    model = tiny_model(12, seed=seed)
    prefixes = [[UNK, 5, 7, 9][:length] for length in lengths]
    options = SearchOptions(beam=3, nbest=3, max_length="S+6")
    results = search(model, padded(SOURCES), options, prefixes)
    for source, prefix, hypotheses in zip(SOURCES, prefixes, results, strict=True):
        for hypothesis in hypotheses:
            assert hypothesis.tokens[: len(prefix)] == prefix
            log_prob = total(model, source, hypothesis.tokens, padded)
            assert hypothesis.log_prob == pytest.approx(log_prob, abs=1e-4)
        [alone] = search(model, padded([source]), options, [prefix])
        assert [h.tokens for h in alone] == [h.tokens for h in hypotheses]


def test_no_prefix_changes_nothing(tiny_model: Any, padded: Any) -> None:
    model, options = tiny_model(16, seed=4), SearchOptions(beam=3, nbest=3)
    plain = search(model, padded(SOURCES), options)
    assert search(model, padded(SOURCES), options, [[] for _ in SOURCES]) == plain


@pytest.mark.parametrize("least", [0, 1, 4])
def test_no_translation_is_shorter_than_the_minimum(
    tiny_model: Any, padded: Any, least: int
) -> None:
    model = tiny_model(12, seed=3)
    options = SearchOptions(beam=3, nbest=3, max_length="9", min_length=least)
    results = search(model, padded(SOURCES), options)
    lengths = [len(h.tokens) - 1 for hypotheses in results for h in hypotheses]
    assert min(lengths) >= least


@pytest.mark.parametrize("penalty", [-1.0, 0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("form", ["power", "gnmt"])
def test_the_bound_finds_the_best_of_what_an_endless_search_finds(
    tiny_model: Any, padded: Any, penalty: float, form: str
) -> None:
    """With a beam as wide as the space, it stops early and still returns the n best of all."""
    limit, words = 4, [UNK, 4, 5]
    space = [
        [*body, EOS]
        for length in range(1, limit)
        for body in itertools.product(words, repeat=length)
    ]
    for seed in (0, 1, 11):
        model = tiny_model(6, seed=seed)
        options = SearchOptions(
            beam=len(space),
            nbest=2,
            length_penalty=penalty,
            length_penalty_form=form,
            max_length=str(limit),
            stopping="bound",
        )
        [hypotheses] = search(model, padded([[5, 6, 1]]), options)
        scores = {
            tuple(tokens): options.normalise(total(model, [5, 6, 1], tokens, padded), len(tokens))
            for tokens in space
        }
        best = sorted(scores.values(), reverse=True)[:2]
        assert [h.score for h in hypotheses] == pytest.approx(best, abs=1e-5)


def test_the_bound_never_returns_less_than_the_count(tiny_model: Any, padded: Any) -> None:
    ids, mask = padded(SOURCES)
    for seed in range(20):
        model = tiny_model(16, seed=seed, scale=1.0)
        count, bound = (
            search(model, (ids, mask), SearchOptions(beam=3, max_length="S+8", stopping=rule))
            for rule in ("count", "bound")
        )
        for [first], [second] in zip(count, bound, strict=True):
            assert second.score >= first.score - 1e-6


def test_the_bound_is_quicker_where_the_best_is_clear(tiny_model: Any, padded: Any) -> None:
    model = tiny_model(16, seed=1, scale=6.0)
    with torch.no_grad():
        model.out[:, EOS] *= 3.0
    steps = {}
    for rule in ("count", "bound"):
        model.rows_seen.clear()
        options = SearchOptions(beam=5, length_penalty=0.0, max_length="40", stopping=rule)
        search(model, padded(SOURCES), options)
        steps[rule] = len(model.rows_seen)
    assert steps["bound"] <= steps["count"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"stopping": "never"}, "unknown stopping rule 'never'"),
        ({"no_repeat_ngram": -1}, "n-grams of -1 tokens"),
    ],
)
def test_impossible_rules_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(DecodingError, match=message):
        SearchOptions(**values)
