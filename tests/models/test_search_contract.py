"""Search and forced scoring agree on every system (docs/systems.md 0.9, property G12)."""

import pytest
import torch
from torch import Tensor

from jtrans.data.batch import Batch
from jtrans.decoding.options import SearchOptions
from jtrans.decoding.search.beam import beam_search
from jtrans.models.base import TranslationModel

PAD, EOS, SPARE = 0, 1, 3
LIMIT = 9


def greedy(model: TranslationModel, source: Tensor) -> list[int]:
    """Take the best token again and again, decoding everything anew each time."""
    memory = model.encode(source[None], torch.ones(1, len(source), dtype=torch.bool))
    tokens: list[int] = []
    while len(tokens) < LIMIT - 1:
        scores = model.project(model.decode(torch.tensor([[EOS, *tokens]]), memory)[0, -1])
        banned = [PAD, SPARE] if tokens else [PAD, SPARE, EOS]
        scores[banned] = -torch.inf
        tokens.append(int(scores.argmax()))
        if tokens[-1] == EOS:
            return tokens
    return [*tokens, EOS]


@pytest.mark.sample(25)
@torch.inference_mode()
def test_beam_one_is_greedy_search(model: TranslationModel, batch: Batch) -> None:
    options = SearchOptions(beam=1, max_length=str(LIMIT))
    searched = beam_search([model], batch.source, batch.source_mask, options)
    for row, mask, (hypothesis,) in zip(batch.source, batch.source_mask, searched, strict=True):
        assert hypothesis.tokens == greedy(model, row[mask])


@pytest.mark.sample(25)
@torch.inference_mode()
def test_a_hypothesis_scores_what_forced_decoding_gives_it(
    model: TranslationModel, batch: Batch
) -> None:
    penalty = 0.6
    options = SearchOptions(beam=4, nbest=4, length_penalty=penalty, max_length=str(LIMIT))
    searched = beam_search([model], batch.source, batch.source_mask, options)
    memory = model.encode(batch.source, batch.source_mask)
    for sentence, hypotheses in enumerate(searched):
        assert hypotheses
        for hypothesis in hypotheses:
            target_in = torch.tensor([[EOS, *hypothesis.tokens[:-1]]])
            hidden = model.decode(target_in, memory.select(torch.tensor([sentence])))
            log_probs = model.project(hidden)[0].log_softmax(-1)
            forced = log_probs.gather(1, torch.tensor(hypothesis.tokens)[:, None]).sum().item()
            assert hypothesis.log_prob == pytest.approx(forced, abs=1e-5)
            expected = forced / len(hypothesis.tokens) ** penalty
            assert hypothesis.score == pytest.approx(expected, abs=1e-5)
