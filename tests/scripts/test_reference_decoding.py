"""The reference decoding of the benchmarks against our search: the same hypotheses and scores."""

from __future__ import annotations

import pytest
import torch

from jtrans.decoding.options import SearchOptions
from jtrans.decoding.search.beam import beam_search
from jtrans.models.zoo import build_model, system_configs
from scripts.bench.reference_decoding import ReferenceDecoding

BEAM, STEPS = 3, 6


@pytest.mark.parametrize("is_padded", [False, True])
@pytest.mark.parametrize("system", ["reformer-base", "reformer-fast"])
def test_it_finds_what_our_search_finds(system: str, is_padded: bool) -> None:
    torch.manual_seed(1)
    settings = {"system": system, "width": 16, "ffn_width": 32, "heads": 2, "layers": 2}
    model = build_model(system_configs()[system].model_validate(settings), 20, 20).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    source = torch.tensor([[5, 6, 7, 1], [8, 9, 1, 0] if is_padded else [8, 9, 5, 1]])
    ours = beam_search(
        [model],
        source,
        source != 0,
        SearchOptions(beam=BEAM, nbest=BEAM, max_length=str(STEPS), min_length=STEPS - 1),
    )
    theirs = ReferenceDecoding(model).search(source, BEAM, STEPS)
    for hypotheses, expected in zip(ours, theirs, strict=True):
        assert [each.tokens for each in hypotheses] == [tokens for tokens, _ in expected]
        scores = [score for _, score in expected]
        assert [each.log_prob for each in hypotheses] == pytest.approx(scores, abs=1e-5)
