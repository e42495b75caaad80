"""The table of systems, and loading weights into them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch

from jtrans.errors import CheckpointError, InternalError
from jtrans.models import zoo
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import SYSTEMS, SystemEntry, load_weights, system_configs

Build = Callable[..., TranslationModel]


def test_a_system_is_built_by_the_name_in_its_configuration(system: str, build: Build) -> None:
    model = build(system)
    assert model.config.system == system
    assert system_configs()[system] is type(model.config)
    assert type(model).__name__ == SYSTEMS[system].model.partition(":")[2]


def test_every_system_says_what_it_is_and_what_to_read(system: str) -> None:
    assert SYSTEMS[system].summary
    assert SYSTEMS[system].paper


def test_a_table_that_names_nothing_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = SystemEntry("", "", "", config="jtrans.models.systems:NoSuchConfig")
    monkeypatch.setitem(zoo.SYSTEMS, "broken", broken)
    with pytest.raises(InternalError, match="NoSuchConfig"):
        system_configs()["broken"]


def test_a_system_has_one_configuration_class(system: str) -> None:
    assert SYSTEMS[system].model_class().Config is SYSTEMS[system].config_class()


def test_missing_weights_are_named(build: Build, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere") as caught:
        load_weights(build("transformer"), tmp_path / "nowhere.safetensors")
    assert caught.value.kind == "checkpoint.missing"


@pytest.mark.parametrize("content", [b"", b"not weights at all", b"\xff" * 200])
def test_damaged_weights_are_refused(content: bytes, build: Build, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        load_weights(build("transformer"), path)
    assert caught.value.kind == "checkpoint.damaged"
    assert caught.value.where == str(path)


@pytest.mark.parametrize("kind", [torch.int64, torch.uint8, torch.bool])
def test_weights_that_are_no_floating_point_numbers_are_refused(
    kind: torch.dtype, build: Build, tmp_path: Path
) -> None:
    model, path = build("transformer"), tmp_path / "model.safetensors"
    safetensors.torch.save_model(model, str(path))
    tensors = safetensors.torch.load_file(path)
    safetensors.torch.save_file({name: each.to(kind) for name, each in tensors.items()}, path)
    with pytest.raises(CheckpointError, match="has the type"):
        load_weights(model, path)


@pytest.mark.parametrize(
    ("system", "changes"),
    [("transformer", {"width": 32}), ("transformer", {"encoder_layers": 3}), ("reformer-base", {})],
)
def test_weights_of_another_model_are_refused(
    system: str, changes: dict[str, int], build: Build, tmp_path: Path
) -> None:
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_model(build(system, **changes), str(path))
    with pytest.raises(CheckpointError, match="does not fit") as caught:
        load_weights(build("transformer"), path)
    assert caught.value.kind == "checkpoint.shape"


def test_weights_with_one_tensor_too_many_are_refused(build: Build, tmp_path: Path) -> None:
    model = build("transformer")
    tensors = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    safetensors.torch.save_file(tensors | {"extra": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="1 unknown, such as extra"):
        load_weights(model, tmp_path / "model.safetensors")
