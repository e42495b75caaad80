"""What two short sentences show of a new system: later tokens that are seen, and wrong steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from plugins.installed_systems import BringSystem, documented_system

from jtrans.errors import ConfigError
from jtrans.models import contract
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import build_model, system_configs

TARGET_VOCABULARY = 24  # of the tiny models


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_system_passes_by_a_wide_margin(
    case: tuple[str, dict[str, Any]],
    build: Callable[..., TranslationModel],
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = build(case[0], **case[1], rate=0.5).to(dtype).train()
    monkeypatch.setattr(contract, "TOLERANCE", contract.TOLERANCE / 2000)
    assert contract.fault_of(model, TARGET_VOCABULARY) is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("system", ["transformer", "dlcl", "convs2s"])
def test_the_rounding_of_short_numbers_is_no_fault(
    system: str,
    build: Callable[..., TranslationModel],
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(contract, "ROUNDINGS", contract.ROUNDINGS / 4)
    assert contract.fault_of(build(system).to(dtype), TARGET_VOCABULARY) is None


@pytest.mark.parametrize(
    ("right", "wrong", "fault"),
    [
        (
            "return self.read(target, memory)[0]",
            "return (read := self.read(target, memory)[0]) + read.mean(1, keepdim=True)",
            r"decode lets target tokens see later ones.* differ by \d.*\. Mask later positions",
        ),
        (
            "self.decoder(self.dropout(self.target(target)), hidden)",
            "self.decoder(nn.functional.dropout(self.target(target), 0.5), hidden)",
            r"decode gives other states when it is called again.* Draw random numbers only in",
        ),
        ("repeat_interleave(beam)", "repeat(beam)", r"call 1 of step gives .* Let begin give each"),
        ("state.memory, state.hidden)", "state.memory)", r"call 2 of step .* differ by \d"),
        ("self.hidden[:, rows]", "self.hidden[:, : len(rows)]", r"after select, step gives other"),
        ("(self.memory.select(rows)", "(self.memory.select(rows * 0)", r"after select, step gives"),
    ],
)
def test_other_states_than_those_of_training_are_refused(
    right: str, wrong: str, fault: str, bring_system: BringSystem
) -> None:
    bring_system(documented_system((right, wrong)))
    config = system_configs()["mine"](system="mine", width=8)
    with pytest.raises(ConfigError, match=fault) as refused:
        build_model(config, 20, 20)
    assert "mine of my-systems 1.0 is broken" in refused.value.message
    assert "\n" not in refused.value.message


def test_numbers_that_are_not_finite_are_no_fault_of_a_method(bring_system: BringSystem) -> None:
    right = "return torch.tanh("
    bring_system(documented_system().replace(right, 'return float("nan") * torch.tanh('))
    build_model(system_configs()["mine"](system="mine", width=8), 20, 20)


def test_the_check_leaves_every_part_in_its_mode(bring_system: BringSystem) -> None:
    right = "        self.decoder = "
    bring_system(documented_system().replace(right, f"        self.encoder.eval()\n{right}", 1))
    model = build_model(system_configs()["mine"](system="mine", width=8), 20, 20)
    resting = [name for name, module in model.named_modules() if not module.training]
    assert resting == ["encoder"]
