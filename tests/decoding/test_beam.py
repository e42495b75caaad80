from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from jtrans.decoding.options import SearchOptions
from jtrans.decoding.search.beam import beam_search
from jtrans.decoding.search.candidates import best_continuations
from jtrans.decoding.search.trace import Hypothesis
from jtrans.errors import DecodingError
from jtrans.text.vocabulary import EOS, PAD, SPARE, UNK

SOURCES = [[5, 6, 1], [7, 1], [5, 9, 8, 11, 12, 1], [1], [13, 13, 13, 1]]


def search(
    models: Sequence[Any], sources: tuple[Tensor, Tensor], options: SearchOptions, **more: Any
) -> list[list[Hypothesis]]:
    """Search from ids and mask together."""
    return beam_search(models, sources[0], sources[1], options, **more)


def forced(model: Any, source: list[int], tokens: list[int], padded: Any) -> list[float]:
    """The token log-probabilities of one translation, by `decode`."""
    memory = model.encode(*padded([source]))
    hidden = model.decode(torch.tensor([[EOS, *tokens[:-1]]]), memory)
    log_probs = torch.log_softmax(model.project(hidden)[0], dim=-1).detach()
    return [float(log_probs[t, token]) for t, token in enumerate(tokens)]


def reference_search(model: Any, source: list[int], options: SearchOptions, padded: Any) -> Any:
    """The rule of the reference for one sentence, written with lists and full recomputation."""
    k, limit = options.beam, options.limit(len(source))
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    final: list[tuple[float, list[int]]] = []
    for step in range(limit):
        continuations = []
        for total, tokens in live:
            memory = model.encode(*padded([source]))
            hidden = model.decode(torch.tensor([[EOS, *tokens]]), memory)[:, -1]
            log_probs = torch.log_softmax(model.project(hidden)[0], dim=-1).tolist()
            for token, log_prob in enumerate(log_probs):
                is_ruled_out = token in (PAD, SPARE) or (token == EOS and step == 0)
                if step + 1 == limit:
                    is_ruled_out = token != EOS
                if not is_ruled_out:
                    continuations.append((total + log_prob, [*tokens, token]))
        continuations.sort(key=lambda entry: -entry[0])
        final += [entry for entry in continuations[:k] if entry[1][-1] == EOS]
        live = [entry for entry in continuations[: 2 * k] if entry[1][-1] != EOS][:k]
        if len(final) >= k or not live:
            break
    scored = [(options.normalise(total, len(tokens)), tokens) for total, tokens in final[:k]]
    return sorted(scored, key=lambda entry: -entry[0])[: options.nbest]


@pytest.mark.sample(3)
@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
def test_the_search_follows_the_rule_of_the_reference(
    tiny_model: Any, padded: Any, beam: int, penalty: float
) -> None:
    options = SearchOptions(beam=beam, nbest=beam, length_penalty=penalty, max_length="S+6")
    for seed in range(6):
        model = tiny_model(16, seed=seed, scale=1.0)
        results = search([model], padded(SOURCES), options)
        for source, hypotheses in zip(SOURCES, results, strict=True):
            expected = reference_search(model, source, options, padded)
            assert [hypothesis.tokens for hypothesis in hypotheses] == [t for _, t in expected]
            scores = [hypothesis.score for hypothesis in hypotheses]
            assert scores == pytest.approx([score for score, _ in expected], abs=1e-5)


@pytest.mark.parametrize("form", ["power", "gnmt"])
def test_a_beam_as_wide_as_the_space_finds_what_enumeration_finds(
    tiny_model: Any, padded: Any, form: str
) -> None:
    model, limit = tiny_model(6, seed=3), 4
    words = [UNK, 4, 5]
    space = [
        [*body, EOS]
        for length in range(1, limit)
        for body in itertools.product(words, repeat=length)
    ]
    options = SearchOptions(
        beam=len(space),
        nbest=len(space),
        length_penalty=0.7,
        length_penalty_form=form,
        max_length=str(limit),
    )
    hypotheses = search([model], padded([[5, 6, 1]]), options)[0]
    scores = {
        tuple(tokens): options.normalise(sum(forced(model, [5, 6, 1], tokens, padded)), len(tokens))
        for tokens in space
    }
    expected = sorted(scores, key=lambda tokens: -scores[tokens])
    assert [tuple(hypothesis.tokens) for hypothesis in hypotheses] == expected
    for hypothesis in hypotheses:
        assert hypothesis.score == pytest.approx(scores[tuple(hypothesis.tokens)], abs=1e-5)


@given(seed=st.integers(0, 10_000), beam=st.integers(1, 9), scale=st.floats(0.1, 4.0))
@settings(max_examples=40, deadline=None)
def test_scores_equal_forced_scores(
    tiny_model: Any, padded: Any, seed: int, beam: int, scale: float
) -> None:
    model = tiny_model(12, seed=seed, scale=scale)
    options = SearchOptions(beam=beam, nbest=beam, max_length="S+4")
    for source, results in zip(SOURCES, search([model], padded(SOURCES), options), strict=True):
        for hypothesis in results:
            log_probs = forced(model, source, hypothesis.tokens, padded)
            assert hypothesis.token_log_probs == pytest.approx(log_probs, abs=1e-5)
            assert hypothesis.log_prob == pytest.approx(sum(log_probs), abs=1e-4)
            length = len(hypothesis.tokens)
            assert hypothesis.score == pytest.approx(hypothesis.log_prob / length)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_beam_one_is_greedy(tiny_model: Any, padded: Any, seed: int) -> None:
    model = tiny_model(12, seed=seed)
    options = SearchOptions(beam=1, max_length="9", min_length=0)
    results = search([model], padded(SOURCES), options)
    for source, [hypothesis] in zip(SOURCES, results, strict=True):
        tokens: list[int] = []
        memory = model.encode(*padded([source]))
        while (not tokens or tokens[-1] != EOS) and len(tokens) < 8:
            hidden = model.decode(torch.tensor([[EOS, *tokens]]), memory)[:, -1]
            logits = model.project(hidden)[0]
            logits[[PAD, SPARE]] = -math.inf
            tokens.append(int(logits.argmax()))
        assert hypothesis.tokens == (tokens if tokens[-1] == EOS else [*tokens, EOS])


@given(seed=st.integers(0, 10_000), order=st.permutations(range(len(SOURCES))))
@settings(max_examples=30, deadline=None)
def test_a_sentence_gives_the_same_alone_and_in_any_batch(
    tiny_model: Any, padded: Any, seed: int, order: list[int]
) -> None:
    model = tiny_model(16, seed=seed)
    options = SearchOptions(beam=3, nbest=3, max_length="S+5")
    together = search([model], padded([SOURCES[i] for i in order]), options)
    for place, i in enumerate(order):
        [alone] = search([model], padded([SOURCES[i]]), options)
        assert [h.tokens for h in together[place]] == [h.tokens for h in alone]


def test_pad_and_the_spare_symbol_never_come_and_unknown_words_may(
    tiny_model: Any, padded: Any
) -> None:
    model = tiny_model(8, seed=1)
    with torch.no_grad():
        model.out[:, [PAD, SPARE, UNK]] += 3 * model.out.abs().max()
        model.out.abs_()
        model.target.abs_()
        model.mix.abs_()
    options = SearchOptions(beam=4, nbest=4, max_length="6")
    results = search([model], padded(SOURCES), options)
    tokens = {
        token for sentence in results for hypothesis in sentence for token in hypothesis.tokens
    }
    assert UNK in tokens
    assert not tokens & {PAD, SPARE}


def test_the_end_is_forced_at_the_limit_of_each_sentence(tiny_model: Any, padded: Any) -> None:
    model = tiny_model(16, seed=2)
    with torch.no_grad():
        model.out[:, EOS] = 0.0
        model.out[:, 5:] = model.out[:, 5:].abs() + 5.0
        for part in (model.source, model.target, model.mix):
            part.abs_()
    options = SearchOptions(beam=2, max_length="S+2")
    results = search([model], padded(SOURCES), options)
    assert [len(hypotheses[0].tokens) for hypotheses in results] == [len(s) + 2 for s in SOURCES]
    assert all(hypotheses[0].tokens[-1] == EOS for hypotheses in results)


def test_finished_sentences_leave_the_batch(tiny_model: Any, padded: Any) -> None:
    model = tiny_model(16, seed=5)
    search([model], padded(SOURCES), SearchOptions(beam=3, max_length="S+2"))
    assert model.rows_seen[0] == len(SOURCES)  # one hypothesis each at the first step
    assert model.rows_seen[1] <= 3 * len(SOURCES)
    assert model.rows_seen[-1] < 3 * len(SOURCES)
    assert model.rows_seen[1:] == sorted(model.rows_seen[1:], reverse=True)


def test_an_ensemble_of_a_model_with_itself_changes_nothing(tiny_model: Any, padded: Any) -> None:
    model = tiny_model(16, seed=7)
    options = SearchOptions(beam=3, nbest=3, max_length="S+5")
    alone = search([model], padded(SOURCES), options)
    twice = search([model, model], padded(SOURCES), options)
    assert [[h.tokens for h in results] for results in twice] == [
        [h.tokens for h in results] for results in alone
    ]


def test_an_ensemble_averages_probabilities(tiny_model: Any, padded: Any) -> None:
    models = [tiny_model(16, seed=8), tiny_model(16, seed=9)]
    [[hypothesis]] = search(models, padded([[5, 6, 1]]), SearchOptions(beam=2))
    each = [torch.tensor(forced(m, [5, 6, 1], hypothesis.tokens, padded)) for m in models]
    mean = ((each[0].exp() + each[1].exp()) / 2).log()
    assert hypothesis.token_log_probs == pytest.approx(mean.tolist(), abs=1e-5)


@given(
    h=st.integers(1, 5),
    width=st.sampled_from([3, 8, 16, 64, 160]),
    count=st.integers(1, 12),
    seed=st.integers(0, 1000),
)
def test_continuations_are_the_best_of_all(h: int, width: int, count: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    log_probs = torch.randn(3, h, width, generator=generator)
    total = torch.randn(3, h, generator=generator)
    best = best_continuations(log_probs, total, count)
    everything = (log_probs + total[:, :, None]).flatten(1)
    expected = everything.sort(dim=1, descending=True).values[:, :count]
    there = expected.shape[1]
    assert torch.equal(best.total[:, :there], expected)
    assert bool((best.total[:, there:] == -math.inf).all())
    rows = torch.arange(3)[:, None]
    assert torch.equal(
        best.log_prob[:, :there], log_probs[rows, best.parent, best.token][:, :there]
    )


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_model_without_usable_probabilities_is_refused(
    tiny_model: Any, padded: Any, value: float
) -> None:
    model = tiny_model(16)
    with torch.no_grad():
        model.out.fill_(value)
    with pytest.raises(DecodingError, match="probabilities are nan") as caught:
        search([model], padded(SOURCES), SearchOptions())
    assert caught.value.exit_code == 1


def test_rules_that_exclude_every_token_are_no_fault_of_the_model(
    tiny_model: Any, padded: Any
) -> None:
    options = SearchOptions(no_repeat_ngram=1, min_length=20, max_length="30")
    with pytest.raises(DecodingError, match="no token may come next") as caught:
        search([tiny_model(8)], padded(SOURCES), options)
    assert caught.value.exit_code == 2


def test_no_sentences_give_no_hypotheses(tiny_model: Any) -> None:
    empty: Tensor = torch.zeros(0, 0, dtype=torch.int64)
    assert beam_search([tiny_model(8)], empty, empty.bool(), SearchOptions()) == []


def test_equal_scores_keep_the_order_in_which_they_ended(tiny_model: Any, padded: Any) -> None:
    model = tiny_model(16, seed=4)
    results: list[Hypothesis] = search(
        [model], padded([[5, 1]]), SearchOptions(beam=4, nbest=4, length_penalty=0.0)
    )[0]
    scores = [hypothesis.score for hypothesis in results]
    assert scores == sorted(scores, reverse=True)
    assert scores == [hypothesis.log_prob for hypothesis in results]
