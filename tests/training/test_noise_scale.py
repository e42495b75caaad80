"""The simple noise scale: unbiased for any division of updates, and the same in a resumed run."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plugins.training_runs import CrashError, CrashingEvents
from torch import nn

from jtrans.data.prepared import PreparedCorpus
from jtrans.runs import Run
from jtrans.training import trainer as trainer_module
from jtrans.training.optimisation import noise_scale
from jtrans.training.optimisation.noise_scale import NoiseScale
from jtrans.training.session import train


def measure(noise: NoiseScale, gradients: torch.Tensor, sizes: list[int]) -> None:
    """Let `noise` measure an update of the mean of token gradients, [N, E]."""
    parameter, total = nn.Parameter(torch.zeros_like(gradients[0])), len(gradients)
    noise.begin(0, total)
    for part in gradients.split(sizes):
        parameter.grad = part.sum(0) / total
        noise.add([parameter], len(part))
    losses = gradients.new_ones(2)
    assert noise.parted(noise.joined(losses)).tolist() == [1.0, 1.0]
    noise.end(gradients.mean(0).norm())


@settings(max_examples=15)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=2, max_size=4).filter(lambda sizes: sum(sizes) < 9)
)
def test_noise_and_signal_are_unbiased_for_any_division(sizes: list[int]) -> None:
    """A token's gradient is `true` plus or minus `spread`: the mean is over all cases."""
    true, spread = torch.tensor([1.0, -2.0]).double(), torch.tensor([0.5, 3.0]).double()
    signs = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0]).double()] * sum(sizes))
    means = torch.zeros(2).double()
    for case in signs:
        noise = NoiseScale()
        measure(noise, true + case[:, None] * spread, sizes)
        noise.read()
        means += torch.tensor(noise.averages) / (1.0 - noise_scale.DECAY) / len(signs)
    assert means[0].item() == pytest.approx(float(spread.square().sum()))
    assert means[1].item() == pytest.approx(float(true.square().sum()))


def test_equal_gradients_have_no_noise_and_opposite_ones_no_signal() -> None:
    same, opposite = NoiseScale(), NoiseScale()
    measure(same, torch.ones(6, 4), [2, 4])
    measure(opposite, torch.tensor([[1.0], [-1.0]]), [1, 1])
    assert same.estimate() in (None, pytest.approx(0.0, abs=1e-5)) and same.averages[1] > 0.0
    assert opposite.estimate() is None and opposite.averages[1] < 0.0


def test_an_update_that_is_not_finite_is_left_out() -> None:
    noise = NoiseScale()
    measure(noise, torch.full((4, 2), torch.nan), [2, 2])
    assert noise.estimate() is None and noise.averages == [0.0, 0.0]


def test_what_was_measured_before_a_return_is_forgotten() -> None:
    noise = NoiseScale()
    measure(noise, torch.ones(6, 4), [2, 4])
    noise.restore([3.0, 2.0])
    assert noise.estimate() == 1.5


def logged(run: Path) -> list[float | None]:
    return [each.get("noise_scale") for each in Run(run).events() if each["event"] == "train"]


@pytest.mark.thorough
def test_a_resumed_run_logs_the_same_noise_scale(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer_module, "LOG_EVERY", 5)
    monkeypatch.setattr(noise_scale, "EVERY", 2)
    config = make_config(max_updates=20, validate_every=4, micro_batch_tokens=20)
    train(config, data=corpus.folder, run=tmp_path / "whole")
    with pytest.raises(CrashError):
        train(config, data=corpus.folder, run=tmp_path / "broken", events=CrashingEvents(13))
    train(config, data=corpus.folder, run=tmp_path / "broken")
    assert logged(tmp_path / "broken") == logged(tmp_path / "whole")
    assert any(value is not None for value in logged(tmp_path / "whole"))


@pytest.mark.parametrize(
    "settings",
    [{"batch_tokens": 1, "micro_batch_tokens": 100}, {"micro_batch_tokens": 20, "l2": 1e-3}],
    ids=["one micro-batch", "l2"],
)
def test_these_updates_have_no_noise_scale(
    settings: dict[str, Any],
    corpus: PreparedCorpus,
    make_config: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The penalty of l2 would be part of one of the two gradients that are compared."""
    monkeypatch.setattr(trainer_module, "LOG_EVERY", 5)
    monkeypatch.setattr(noise_scale, "EVERY", 1)
    config = make_config(**settings)
    train(config, data=corpus.folder, run=tmp_path / "run")
    assert set(logged(tmp_path / "run")) == {None}
