"""Sampling: the distribution drawn from, its filters, and independence of the batch."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from jtrans.decoding.options import SamplingOptions, SearchOptions
from jtrans.decoding.search.phrases import SearchConstraints
from jtrans.decoding.search.sampling import SentenceRandom, choose, draw
from jtrans.decoding.search.trace import Hypothesis
from jtrans.errors import DecodingError
from jtrans.text.vocabulary import EOS, PAD, SPARE

SOURCES = [[5, 6, 1], [7, 1], [5, 9, 8, 11, 12, 1], [13, 13, 13, 1]]


def drawn_by(
    model: Any,
    sources: tuple[Tensor, Tensor],
    options: SearchOptions,
    sampling: SamplingOptions,
    prefixes: Sequence[list[int]] = (),
) -> list[list[Hypothesis]]:
    """Draw from one model, from ids and mask together."""
    constraints = [SearchConstraints(prefix) for prefix in prefixes]
    return draw([model], sources[0], sources[1], options, sampling, constraints)


def test_first_tokens_have_the_shares_of_the_model(tiny_model: Any, padded: Any) -> None:
    model, source = tiny_model(8, seed=2, scale=0.5), [[5, 6, 1]]
    drawn: Counter[int] = Counter()
    options = SearchOptions(beam=50, nbest=50, max_length="2", min_length=0)
    for seed in range(60):
        [samples] = drawn_by(model, padded(source), options, SamplingOptions(seed=seed))
        drawn.update(sample.tokens[0] for sample in samples)
    memory = model.encode(*padded(source))
    logits = model.project(model.decode(torch.tensor([[EOS]]), memory))[0, 0].detach()
    logits[[PAD, SPARE]] = -torch.inf
    expected = logits.softmax(-1)
    total = sum(drawn.values())
    for token, share in enumerate(expected.tolist()):
        deviation = (share * (1 - share) / total) ** 0.5
        assert abs(drawn[token] / total - share) <= 4.5 * deviation + 1e-9


def test_tokens_that_must_not_come_are_not_drawn(tiny_model: Any, padded: Any) -> None:
    model, never = tiny_model(8, seed=2, scale=0.5), [4, 5, 7]
    options = SearchOptions(beam=50, nbest=50, max_length="6", min_length=0)
    ids, mask = padded([[5, 6, 1]])
    for left_out in ([], never):
        [samples] = draw([model], ids, mask, options, SamplingOptions(), never=left_out)
        drawn = {token for sample in samples for token in sample.tokens}
        assert drawn.isdisjoint(never) == bool(left_out)


@given(
    seed=st.integers(0, 1000),
    top_k=st.integers(0, 6),
    top_p=st.floats(0.05, 1.0),
    epsilon=st.floats(0.0, 0.5),
    temperature=st.floats(0.2, 3.0),
)
@settings(max_examples=30, deadline=None)
def test_filters_keep_exactly_the_probable_tokens(
    seed: int, top_k: int, top_p: float, epsilon: float, temperature: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    log_probs = torch.randn(1, 1, 9, generator=generator).log_softmax(-1)
    log_probs[0, 0, 0] = -torch.inf
    sampling = SamplingOptions(
        seed=1, temperature=temperature, top_k=top_k, top_p=top_p, epsilon=epsilon
    )
    share = (log_probs[0, 0].double() / temperature).softmax(-1)
    order = share.argsort(descending=True).tolist()
    allowed = order[: top_k or len(order)]
    mass = float(share[allowed].sum())
    before = 0.0
    kept: list[tuple[int, float]] = []
    for token in allowed:
        of_token = float(share[token]) / mass
        if before < top_p and (float(share[token]) >= epsilon or not kept):
            kept.append((token, of_token))
        before += of_token
    drawn = {
        int(choose(log_probs, torch.tensor([[number]]), sampling))
        for number in torch.linspace(0.0, 0.9999, 400).tolist()
    }
    # a borderline token may fall on either side of rounding
    near = {t for t, of_token in kept if abs(share[t] - epsilon) < 1e-5 or of_token < 0.006}
    assert drawn - near <= {token for token, _ in kept}
    assert {token for token, _ in kept} - near <= drawn | near


def test_a_sentence_gets_the_same_samples_alone_and_in_any_batch(
    tiny_model: Any, padded: Any
) -> None:
    model, sampling = tiny_model(16, seed=5), SamplingOptions(seed=7, top_p=0.9)
    options = SearchOptions(beam=3, nbest=3, max_length="S+70")
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        together = drawn_by(model, padded([SOURCES[i] for i in order]), options, sampling)
        for place, i in enumerate(order):
            [alone] = drawn_by(model, padded([SOURCES[i]]), options, sampling)
            assert [s.tokens for s in together[place]] == [s.tokens for s in alone]


def test_samples_have_the_log_probabilities_of_the_model(tiny_model: Any, padded: Any) -> None:
    model = tiny_model(16, seed=6)
    options = SearchOptions(beam=4, nbest=4, max_length="S+5")
    results = drawn_by(model, padded(SOURCES), options, SamplingOptions(temperature=2.0))
    for source, samples in zip(SOURCES, results, strict=True):
        memory = model.encode(*padded([source]))
        assert len(samples) == 4
        for sample in samples:
            assert sample.tokens[-1] == EOS and len(sample.tokens) <= len(source) + 5
            assert EOS not in sample.tokens[:-1]
            hidden = model.decode(torch.tensor([[EOS, *sample.tokens[:-1]]]), memory)
            log_probs = torch.log_softmax(model.project(hidden)[0], dim=-1)
            expected = log_probs[range(len(sample.tokens)), sample.tokens].tolist()
            assert sample.token_log_probs == pytest.approx(expected, abs=1e-5)


def test_seeds_and_samples_differ_and_more_samples_keep_the_first(
    tiny_model: Any, padded: Any
) -> None:
    model = tiny_model(16, seed=8, scale=0.3)
    options = SearchOptions(beam=6, nbest=6, max_length="12")
    [first] = drawn_by(model, padded([[5, 6, 1]]), options, SamplingOptions(seed=1))
    [second] = drawn_by(model, padded([[5, 6, 1]]), options, SamplingOptions(seed=2))
    assert len({tuple(s.tokens) for s in first}) > 1
    assert [s.tokens for s in first] != [s.tokens for s in second]
    fewer = SearchOptions(beam=2, nbest=2, max_length="12")
    [two] = drawn_by(model, padded([[5, 6, 1]]), fewer, SamplingOptions(seed=1))
    assert [s.tokens for s in two] == [s.tokens for s in first[:2]]


def test_prefixes_and_ngrams_hold_for_samples(tiny_model: Any, padded: Any) -> None:
    model = tiny_model(16, seed=9, scale=0.3)
    options = SearchOptions(beam=5, nbest=5, max_length="14", no_repeat_ngram=2)
    prefixes = [[5, 6], [], [7], [9, 9, 9]]
    results = drawn_by(model, padded(SOURCES), options, SamplingOptions(), prefixes)
    for prefix, samples in zip(prefixes, results, strict=True):
        for sample in samples:
            assert sample.tokens[: len(prefix)] == prefix
            body = sample.tokens[max(0, len(prefix) - 1) : -1]
            pairs = list(itertools.pairwise(body))
            assert len(pairs) == len(set(pairs))


def test_finished_samples_do_not_run_out_of_tokens(tiny_model: Any, padded: Any) -> None:
    """With no pair of tokens twice, what follows the end of a short one stops before a long one."""
    options = SearchOptions(beam=200, nbest=200, max_length="60", no_repeat_ngram=2)
    results = drawn_by(tiny_model(8, scale=0.1), padded(SOURCES), options, SamplingOptions())
    for samples in results:
        assert min(len(sample.tokens) for sample in samples) == 2
        assert max(len(sample.tokens) for sample in samples) > 15


def test_random_numbers_do_not_depend_on_how_they_are_drawn() -> None:
    first = SentenceRandom(3, [5, 6, 1], 4)
    second = SentenceRandom(3, [5, 6, 1], 2)
    long = first.draw(20)
    assert long.shape == (20, 4)
    short = [second.draw(7), second.draw(13)]
    assert (long[:7, :2] == short[0]).all() and (long[7:, :2] == short[1]).all()


@pytest.mark.parametrize(
    "values",
    [
        {"temperature": 0.0},
        {"temperature": float("nan")},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"epsilon": 1.0},
        {"epsilon": -0.1},
    ],
)
def test_impossible_distributions_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(DecodingError):
        SamplingOptions(**values)


def test_the_refusal_of_an_epsilon_says_that_1_is_too_much() -> None:
    with pytest.raises(DecodingError, match="not at least 0 and below 1"):
        SamplingOptions(epsilon=1.0)
