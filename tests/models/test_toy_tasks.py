"""A tiny model of every system learns to copy and reverse (docs/systems.md 0.9, property G10)."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from jtrans.data.batch import Batch
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import system_configs

EOS = 1
UPDATES, SENTENCES, PEAK = 110, 96, 2e-2
USUAL = "reformer-fast"  # the thorough tests teach all systems
Draw = Callable[[int], Batch]


@pytest.fixture(params=[pytest.param("copy", marks=pytest.mark.thorough), "reverse"])
def task(request: pytest.FixtureRequest, make_batch: Callable[..., Batch]) -> Callable[..., Draw]:
    """The task: given a seed, a function that draws so many sentences of two or three letters."""

    def seeded(seed: int) -> Draw:
        generator = torch.Generator().manual_seed(seed)
        order = slice(None) if request.param == "copy" else slice(None, None, -1)

        def letters(count: int) -> list[int]:
            return torch.randint(4, 10, (count,), generator=generator).tolist()

        def draw(count: int) -> Batch:
            lengths = torch.randint(2, 4, (count,), generator=generator).tolist()
            sources = [letters(length) for length in lengths]
            return make_batch([[*s, EOS] for s in sources], [[*s[order], EOS] for s in sources])

        return draw

    return seeded


def train(model: TranslationModel, draw: Draw) -> None:
    """Train with Adam; the rate rises for a fifth of the updates and then falls to zero."""
    optimiser = torch.optim.Adam(model.parameters(), lr=PEAK, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, PEAK, UPDATES, pct_start=0.2)
    for _ in range(UPDATES):
        batch = draw(SENTENCES)
        hidden = model.decode(batch.target_in, model.encode(batch.source, batch.source_mask))
        scores = model.project(hidden[batch.target_mask])
        optimiser.zero_grad()
        F.cross_entropy(scores, batch.target_out[batch.target_mask]).backward()
        optimiser.step()
        schedule.step()


@pytest.mark.parametrize(
    "system",
    [
        pytest.param(name, marks=[] if name == USUAL else [pytest.mark.thorough])
        for name in system_configs()
    ],
)
def test_a_tiny_model_learns(
    system: str, task: Callable[[int], Draw], build: Callable[..., TranslationModel]
) -> None:
    model = build(system).float().train()
    train(model, task(1))
    held_out = task(2)(300)
    with torch.no_grad():
        memory = model.eval().encode(held_out.source, held_out.source_mask)
        best = model.project(model.decode(held_out.target_in, memory)).argmax(-1)
    is_right = (best == held_out.target_out)[held_out.target_mask]
    assert is_right.float().mean() > 0.99
