"""Required and forbidden phrases, against enumeration of everything below the limit."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jtrans.data.batch import Ids
from jtrans.decoding.options import SearchOptions
from jtrans.decoding.search.beam import beam_search
from jtrans.decoding.search.phrases import SearchConstraints
from jtrans.decoding.search.trace import Hypothesis
from jtrans.text.vocabulary import EOS, UNK

SOURCES = [[5, 6, 1], [7, 1], [5, 9, 8, 11, 12, 1]]
WORDS = [UNK, 4, 5]
PHRASE = st.lists(st.sampled_from(WORDS), min_size=1, max_size=2)


def search(
    model: Any,
    padded: Any,
    options: SearchOptions,
    constraints: Sequence[SearchConstraints],
    sources: list[list[int]] = SOURCES,
) -> list[list[Hypothesis]]:
    """Search for the translations of some sentences with one model."""
    ids, mask = padded(sources)
    return beam_search([model], ids, mask, options, constraints)


def contains(tokens: Sequence[int], phrase: Ids, within: frozenset[int]) -> bool:
    """Whether a phrase comes at the beginning of a word."""
    return any(
        list(tokens[i : i + len(phrase)]) == list(phrase)
        and (i == 0 or tokens[i - 1] not in within)
        for i in range(len(tokens))
    )


def needed(tokens: Sequence[int], constraints: SearchConstraints) -> int:
    """The tokens of missing phrases side by side, less what is begun."""
    within = constraints.continued
    missing = [p for p in constraints.required if not contains(tokens, p, within)]
    begun = max(
        (
            size
            for phrase in missing
            for size in range(1, len(phrase))
            if list(tokens[-size:]) == list(phrase[:size])
            and (len(tokens) == size or tokens[-size - 1] not in within)
        ),
        default=0,
    )
    ends_word = bool(missing) and begun == 0 and len(tokens) > 0 and tokens[-1] in within
    return sum(map(len, missing)) - begun + ends_word


def log_prob(model: Any, source: list[int], tokens: list[int], padded: Any) -> float:
    """The log-probability of a translation, by `decode`."""
    hidden = model.decode(torch.tensor([[EOS, *tokens[:-1]]]), model.encode(*padded([source])))
    log_probs = torch.log_softmax(model.project(hidden)[0], dim=-1).detach()
    return sum(float(log_probs[t, token]) for t, token in enumerate(tokens))


@given(
    seed=st.integers(0, 1000),
    required=st.lists(PHRASE, max_size=2),
    forbidden=st.lists(PHRASE, max_size=1),
    within=st.frozensets(st.sampled_from([4, 5]), max_size=1),
)
@settings(max_examples=15)
def test_a_beam_as_wide_as_the_space_finds_what_enumeration_finds(
    tiny_model: Any,
    padded: Any,
    seed: int,
    required: list[list[int]],
    forbidden: list[list[int]],
    within: frozenset[int],
) -> None:
    constraints, limit = SearchConstraints([], required, forbidden, within), 5
    assume(constraints.room <= limit)
    model = tiny_model(6, seed=seed)
    options = SearchOptions(beam=120, nbest=120, max_length=str(limit))
    [hypotheses] = search(model, padded, options, [constraints], [SOURCES[0]])
    fulfilling = [
        [*body, EOS]
        for length in range(1, limit)
        for body in itertools.product(WORDS, repeat=length)
        if all(contains(body, phrase, within) for phrase in required)
        and not any(contains(body, phrase, within) for phrase in forbidden)
        and not ([UNK] in forbidden and UNK in body)
        and not (forbidden and body[-1] in within)
        and all(needed(body[:t], constraints) <= limit - t - 1 for t in range(length + 1))
    ]
    scores = {
        tuple(tokens): log_prob(model, SOURCES[0], tokens, padded) / len(tokens)
        for tokens in fulfilling
    }
    assert {tuple(each.tokens) for each in hypotheses} == set(scores)
    for hypothesis in hypotheses:
        assert hypothesis.score == pytest.approx(scores[tuple(hypothesis.tokens)], abs=1e-5)
    ranked = sorted(scores.values(), reverse=True)
    assert [each.score for each in hypotheses] == pytest.approx(ranked, abs=1e-5)


@given(
    seed=st.integers(0, 1000),
    beam=st.integers(1, 6),
    required=st.lists(
        st.lists(st.lists(st.integers(4, 11), min_size=1, max_size=3), max_size=3),
        min_size=3,
        max_size=3,
    ),
    blocking=st.sampled_from([(0, 0), (1, 0), (0, 1)]),
)
@settings(max_examples=15)
def test_any_beam_finds_only_hypotheses_with_their_phrases(
    tiny_model: Any,
    padded: Any,
    seed: int,
    beam: int,
    required: list[list[list[int]]],
    blocking: tuple[int, int],
) -> None:
    """Also where a phrase repeats what may not be repeated otherwise."""
    model = tiny_model(12, seed=seed)
    within = frozenset([11])
    constraints = [SearchConstraints([], phrases, (), within) for phrases in required]
    ngram, repeats = blocking
    options = SearchOptions(
        beam=beam, nbest=beam, max_length="12", no_repeat_ngram=ngram, max_repeats=repeats
    )
    results = search(model, padded, options, constraints)
    for own, hypotheses in zip(constraints, results, strict=True):
        assert hypotheses
        assert len({tuple(each.tokens) for each in hypotheses}) == len(hypotheses)
        for hypothesis in hypotheses:
            assert all(contains(hypothesis.tokens, phrase, within) for phrase in own.required)
            assert len(hypothesis.tokens) <= 12


def test_a_sentence_without_phrases_is_searched_as_ever(tiny_model: Any, padded: Any) -> None:
    model = tiny_model(16, seed=2)
    options = SearchOptions(beam=4, nbest=4, max_length="S+6")
    free = search(model, padded, options, [])
    none = SearchConstraints()
    some = search(model, padded, options, [none, SearchConstraints([], [[9, 8]], [[4]]), none])
    assert [h.tokens for h in some[0]] == [h.tokens for h in free[0]]
    assert [h.tokens for h in some[2]] == [h.tokens for h in free[2]]
    assert some[1] != free[1]


def test_phrases_follow_a_prefix_that_may_hold_some(tiny_model: Any, padded: Any) -> None:
    model = tiny_model(16, seed=2)
    options = SearchOptions(beam=4, nbest=4, max_length="7")
    constraints = [
        SearchConstraints([6, 9], [[9, 8], [5]]),
        SearchConstraints([9, 8, 4], [[9, 8], [5]]),
        SearchConstraints([5]),
    ]
    results = search(model, padded, options, constraints)
    for own, hypotheses in zip(constraints, results, strict=True):
        assert hypotheses
        for hypothesis in hypotheses:
            assert hypothesis.tokens[: len(own.prefix)] == own.prefix
            assert all(contains(hypothesis.tokens, p, frozenset()) for p in own.required)


def test_a_prefix_that_ends_in_a_word_which_the_limit_cuts_gives_nothing(
    tiny_model: Any, padded: Any
) -> None:
    """Written without what would follow, the word may be a forbidden phrase."""
    free, forbidding = (SearchConstraints([6, 5], (), f, frozenset([5])) for f in ([], [[4]]))
    options = SearchOptions(beam=4, nbest=4, max_length="3")
    some = search(tiny_model(8), padded, options, [free, forbidding], [[7, 1], [7, 1]])
    assert [each.tokens for each in some[0]] == [[6, 5, EOS]]
    assert some[1] == []


@pytest.mark.parametrize(
    ("prefix", "required", "room"),
    [
        ([], [[7, 8]], 3),
        ([6, 7, 8], [[7, 8]], 4),
        ([6, 7], [[7, 8]], 4),
        ([6, 7], [[7, 8], [9]], 5),
        ([5], [[7, 8]], 5),
        ([5, 7], [[7, 8]], 5),
        ([6, 5], [[5, 7]], 4),
        ([5], [], 2),
    ],
)
def test_what_a_prefix_has_of_the_phrases_needs_no_room(
    prefix: list[int], required: list[list[int]], room: int
) -> None:
    """Token 5 ends within a word: what follows it begins none."""
    assert SearchConstraints(prefix, required, (), frozenset([5])).room == room


def test_constraints_that_nothing_fulfils_give_nothing(tiny_model: Any, padded: Any) -> None:
    """Between two phrases that may not meet there is no room for a third word."""
    constraints = SearchConstraints([], [[4], [5]], [[4, 5], [5, 4]])

    def translations_within(limit: str) -> list[Hypothesis]:
        options = SearchOptions(beam=6, max_length=limit)
        return search(tiny_model(8), padded, options, [constraints], [[5, 1]])[0]

    assert translations_within("3") == []
    [hypothesis] = translations_within("4")
    first, between, last, _ = hypothesis.tokens
    assert {first, last} == {4, 5}
    assert between not in (4, 5)
