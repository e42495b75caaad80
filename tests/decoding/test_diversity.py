"""Diverse beams against the same algorithm written with lists and full recomputation."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jtrans.decoding.options import SearchOptions
from jtrans.decoding.search.beam import beam_search
from jtrans.errors import DecodingError
from jtrans.text.vocabulary import EOS, PAD, SPARE

SOURCES = [[5, 6, 1], [7, 1], [5, 9, 8, 11, 12, 1]]
Scored = tuple[float, list[int]]


def continuations(model: Any, memory: Any, live: list[Scored], *, is_last: bool) -> list[Scored]:
    """All continuations of some hypotheses by one token."""
    result = []
    for total, tokens in live:
        hidden = model.decode(torch.tensor([[EOS, *tokens]]), memory)[:, -1]
        log_probs = torch.log_softmax(model.project(hidden)[0], dim=-1).tolist()
        for token, log_prob in enumerate(log_probs):
            is_excluded = token in (PAD, SPARE) or (token == EOS and not tokens)
            if not is_excluded and (token == EOS or not is_last):
                result.append((total + log_prob, [*tokens, token]))
    return result


def diverse_search(
    model: Any, source: list[int], options: SearchOptions, padded: Any
) -> list[list[int]]:
    """The groups one after the other at every step."""
    size, limit = options.beam // options.diverse_groups, options.limit(len(source))
    memory = model.encode(*padded([source]))
    live: list[list[Scored]] = [[(0.0, [])] for _ in range(options.diverse_groups)]
    final: list[list[Scored]] = [[] for _ in live]
    for step in range(limit):
        chosen: Counter[int] = Counter()
        for group, members in enumerate(live):
            ranked = sorted(
                continuations(model, memory, members, is_last=step + 1 == limit),
                key=lambda entry: -(entry[0] - options.diversity * chosen[entry[1][-1]]),
            )
            final[group] += [entry for entry in ranked[:size] if entry[1][-1] == EOS]
            del final[group][size:]
            live[group] = [entry for entry in ranked[: 2 * size] if entry[1][-1] != EOS][:size]
            chosen.update(tokens[-1] for _, tokens in live[group])
        if all(len(members) == size for members in final):
            break
    everything = {tuple(tokens): total for members in final for total, tokens in members}
    scores = {tokens: total / len(tokens) for tokens, total in everything.items()}
    return [list(tokens) for tokens in sorted(scores, key=lambda tokens: -scores[tokens])]


@given(
    seed=st.integers(0, 1000),
    shape=st.sampled_from([(4, 2), (6, 3), (6, 2), (3, 3)]),
    strength=st.sampled_from([0.0, 0.3, 2.0]),
)
@settings(max_examples=10)
def test_groups_choose_one_after_the_other(
    tiny_model: Any, padded: Any, seed: int, shape: tuple[int, int], strength: float
) -> None:
    model, (beam, groups) = tiny_model(16, seed=seed, scale=1.0), shape
    options = SearchOptions(
        beam=beam, nbest=beam, diverse_groups=groups, diversity=strength, max_length="S+4"
    )
    ids, mask = padded(SOURCES)
    results = beam_search([model], ids, mask, options)
    for source, hypotheses in zip(SOURCES, results, strict=True):
        expected = diverse_search(model, source, options, padded)
        assert [hypothesis.tokens for hypothesis in hypotheses] == expected[:beam]
        for hypothesis in hypotheses:
            target = torch.tensor([[EOS, *hypothesis.tokens[:-1]]])
            logits = model.project(model.decode(target, model.encode(*padded([source]))))[0]
            each = torch.log_softmax(logits, dim=-1)[range(target.shape[1]), hypothesis.tokens]
            assert hypothesis.log_prob == pytest.approx(float(each.detach().sum()), abs=1e-4)


def test_a_stronger_loss_gives_more_first_words(tiny_model: Any, padded: Any) -> None:
    ids, mask = padded(SOURCES)

    def first_tokens(strength: float) -> int:
        options = SearchOptions(beam=4, nbest=4, diverse_groups=4, diversity=strength)
        results = beam_search([tiny_model(16, seed=3)], ids, mask, options)
        return sum(len({each.tokens[0] for each in hypotheses}) for hypotheses in results)

    assert first_tokens(0.0) == len(SOURCES)  # the same hypothesis in every group
    assert first_tokens(20.0) == 4 * len(SOURCES)


@pytest.mark.parametrize(
    "values",
    [
        {"beam": 5, "diverse_groups": 2},
        {"diverse_groups": 0},
        {"beam": 4, "diverse_groups": 2, "diversity": -1.0},
        {"beam": 4, "diverse_groups": 2, "diversity": math.nan},
        {"beam": 4, "diverse_groups": 2, "stopping": "bound"},
        {"max_repeats": -1},
    ],
)
def test_groups_that_cannot_be_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(DecodingError) as caught:
        SearchOptions(**values)
    assert caught.value.hint
