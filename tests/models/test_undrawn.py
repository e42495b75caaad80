"""Building models without drawing their weights."""

from __future__ import annotations

import torch
from torch import nn

from jtrans.models.undrawn import UndrawnParameters


def test_only_parameters_are_not_drawn() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    with UndrawnParameters():
        layer = nn.Linear(3, 2)
        nn.init.xavier_uniform_(layer.weight)
        nn.init.normal_(tensor=layer.bias)
        assert torch.equal(torch.get_rng_state(), before)
        nn.init.zeros_(layer.weight)
        assert not torch.equal(torch.empty(2).uniform_(), torch.empty(2).normal_())
    assert not layer.weight.any()
    assert not torch.equal(torch.get_rng_state(), before)
    after = torch.get_rng_state()
    nn.Linear(3, 2)
    assert not torch.equal(torch.get_rng_state(), after)
