"""Systems that other distributions bring: found by their entry points, and refused by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from plugins.command_line import ROOT
from plugins.installed_systems import MINE, BringSystem, documented_system, install

from jtrans.config import build_config
from jtrans.errors import ConfigError
from jtrans.models.contract import attention_maps
from jtrans.models.undrawn import UndrawnParameters
from jtrans.models.zoo import SYSTEMS, build_model, build_undrawn, system_configs


def test_an_installed_system_is_one_of_the_systems(bring_system: BringSystem) -> None:
    bring_system()
    configs = system_configs()
    assert list(configs) == [*SYSTEMS, "mine"] and len(configs) == len(SYSTEMS) + 1
    config = configs["mine"](system="mine", width=8)
    assert type(build_model(config, 20, 20)).__name__ == "Mine"
    system = system_configs().entry("mine")
    assert system.distribution == "my-systems 1.0"
    assert system.summary == "GRU encoder-decoder with attention"
    assert "Luong" in system.paper


def test_a_system_that_is_installed_meanwhile_is_found(
    bring_system: BringSystem, tmp_path: Path
) -> None:
    bring_system()
    folder = tmp_path / "site"
    os.utime(folder, (1, 1))  # the clock of a file system may be coarse
    assert "yours" not in system_configs()
    install(folder, "", point="yours = my_systems:Mine", distribution="your-systems")
    assert "yours" in system_configs()


NO_CONFIG = documented_system().replace("    Config = MineConfig\n", "")
OTHER_NAME = documented_system().replace('"mine"', '"yours"')
NO_NAME = documented_system().replace('    system: Literal["mine"] = "mine"  # its name\n', "")
NO_SETTINGS = documented_system().replace("class MineConfig(SystemConfig)", "class MineConfig")
UNFINISHED = documented_system().replace("def step(", "def stride(")


@pytest.mark.parametrize(
    ("source", "point", "fault"),
    [
        ("import nowhere", MINE, "ModuleNotFoundError: No module named 'nowhere'"),
        ("1 / 0", MINE, "ZeroDivisionError"),
        ("raise SystemExit(3)", MINE, "SystemExit: 3"),
        ("", "mine = my_systems:Yours", "AttributeError"),
        ("class Mine: pass", MINE, "not a subclass of TranslationModel"),
        ("Mine = 3", MINE, "not a subclass of TranslationModel"),
        (NO_CONFIG, MINE, "no class attribute Config"),
        (NO_SETTINGS, MINE, "no class attribute Config, a SystemConfig"),
        (NO_NAME, MINE, "its Config says no name, not 'mine'"),
        (OTHER_NAME, MINE, "system = 'yours', not 'mine'"),
        (UNFINISHED, MINE, "lacks step"),
    ],
)
def test_a_broken_system_is_refused_by_the_name_of_its_distribution(
    source: str, point: str, fault: str, bring_system: BringSystem
) -> None:
    bring_system(source, point)
    with pytest.raises(ConfigError) as caught:
        system_configs()["mine"]
    assert "mine of my-systems 1.0 is broken" in caught.value.message
    assert fault in caught.value.message
    assert (caught.value.kind, caught.value.exit_code) == ("config.broken-system", 2)
    assert set(system_configs()) == {*SYSTEMS, "mine"}  # still listed, and the others work
    assert system_configs()["transformer"]


def with_setting(line: str) -> str:
    """Return the documented system with one more setting, or with others in place of `dropout`."""
    source = documented_system().replace("import Literal\n", "import Annotated, Literal\n")
    source = source.replace(
        "import nn\n",
        "import nn\nfrom pydantic import AfterValidator, BeforeValidator, PlainSerializer\n",
        1,
    )
    assert source.count("    width: Count = 64") == 1
    return source.replace("    width: Count = 64", f"    {line}\n    width: Count = 64")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("keep: Rate = 1.0", "model.keep: input should be less than 1 (got 1.0)"),
        ("keep: int = 2.5", "model.keep: input should be a valid integer"),
        ("keep: Count = -64", "model.keep: input should be greater than 0 (got -64)"),
    ],
)
def test_a_default_that_its_own_type_refuses_is_refused_before_training(
    line: str, fault: str, bring_system: BringSystem
) -> None:
    bring_system(with_setting(line))
    with pytest.raises(ConfigError) as caught:
        build_config({"model": {"system": "mine"}}, system_configs(), where="here")
    assert caught.value.message.startswith(fault)
    hint = "this is the default of mine, which its own type refuses: set model.keep"
    assert str(caught.value.hint).startswith(hint)


@pytest.mark.parametrize("line", ["keep: Rate = 1.0", "keep: Count = None"])
def test_a_run_with_a_value_in_place_of_a_wrong_default_is_read(
    line: str, bring_system: BringSystem
) -> None:
    """Its file has all values but None, and runs of earlier versions were trained like that."""
    bring_system(with_setting(line))
    values = {"model": {"system": "mine"} | ({} if "None" in line else {"keep": 0.5})}
    config = build_config(values, system_configs(), where="here")
    build_model(config.model, 20, 20)
    assert build_config(tomllib.loads(config.to_toml()), system_configs(), where="run") == config


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("act: object = torch.relu", "act = <built-in method relu"),
        ("act: Annotated[str, PlainSerializer(len)] = 'x'", "act: input should be a valid string"),
        ("act: tuple[int | None, ...] = (None, 3)", r"act = \(None, 3\)"),
        (
            "act: Annotated[int, AfterValidator(lambda given: 2 * given)] = 8",
            "act = 16, which is read as 32",
        ),
        (
            'act: Annotated[set[str], BeforeValidator(str.split)] = "a b"',
            "without an error: TypeError: descriptor 'split'",
        ),
    ],
)
def test_a_setting_that_the_file_of_a_run_cannot_hold_is_refused(
    line: str, fault: str, bring_system: BringSystem
) -> None:
    bring_system(with_setting(line))
    config = system_configs()["mine"](system="mine", width=8)
    with pytest.raises(ConfigError, match=f"a run's file could not hold the setting {fault}"):
        build_model(config, 20, 20)


def test_unused_settings_may_be_named_in_a_list(bring_system: BringSystem) -> None:
    unused = "def unused(self):\n        return ['keep']\n"
    bring_system(with_setting(f"keep: int = 3\n\n    {unused}"))
    assert system_configs()["mine"](system="mine", width=8).meaning() == {
        "system": "mine",
        "width": 8,
    }


INIT = "def __init__(self, config, source_vocabulary, target_vocabulary):\n"
SUPER = "        super().__init__(config)\n"


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ("def __init__(self, config):\n        size = 9\n" + SUPER, "TypeError: .* 4 were given"),
        (
            INIT + "        size = 9\n",
            r"AttributeError: .*__init__\(\) call \(.*my_systems\.py:\d+",
        ),
        (
            INIT + SUPER + "        nn.TransformerDecoderLayer(8, 2, memory=3)\n",
            "TypeError: .*memory",
        ),
        (INIT + SUPER + "        config.depth\n", r"AttributeError: .*'depth' \(.*\.py:\d+\)"),
    ],
)
def test_a_constructor_that_fails_is_named(
    wrong: str, fault: str, bring_system: BringSystem
) -> None:
    bring_system(documented_system((INIT + SUPER, wrong)))
    config = system_configs()["mine"](system="mine", width=8)
    with pytest.raises(ConfigError, match=f"mine of .* is broken: cannot be built: {fault}"):
        build_model(config, 20, 20)


def test_a_system_may_compute_in_bfloat16_within_itself(bring_system: BringSystem) -> None:
    within = "    def read(", "    @torch.autocast('cpu', torch.bfloat16)\n    def read("
    outside = "torch.tanh(self.combine(both))", "torch.tanh(self.combine(both)).float()"
    bring_system(documented_system(within, outside))
    build_model(system_configs()["mine"](system="mine", width=8), 20, 20)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("raise ConfigError('an odd width')", ConfigError),
        ("raise MemoryError('the weights need 9 GB')", MemoryError),
        ("torch.empty(2**62, 2**62)", RuntimeError),
    ],
)
def test_settings_that_a_constructor_refuses_are_not_called_broken(
    line: str, error: type[Exception], bring_system: BringSystem
) -> None:
    imports = "from jtrans.errors import ConfigError\nfrom torch import nn\n"
    source = documented_system().replace("from torch import nn\n", imports, 1)
    bring_system(source.replace(INIT + SUPER, f"{INIT}{SUPER}        {line}\n"))
    config = system_configs()["mine"](system="mine", width=8)
    with pytest.raises(error) as caught:
        build_model(config, 20, 20)
    assert "broken" not in str(caught.value)


@pytest.mark.parametrize("holder", ["[{}]", "({},)", "{{'last': {}}}"])
def test_weights_that_torch_does_not_know_of_are_refused(
    holder: str, bring_system: BringSystem
) -> None:
    output = "nn.Linear(E, target_vocabulary)"
    bring_system(documented_system().replace(output, holder.format(output)))
    config = system_configs()["mine"](system="mine", width=8)
    with pytest.raises(ConfigError, match=r"the weights in output are not parameters of the model"):
        build_model(config, 20, 20)


@pytest.mark.parametrize(
    ("right", "wrong", "fault"),
    [
        (
            "[0]\n\n    def begin",
            "[0][:, -1:]\n\n    def begin",
            r"decode .* \[B, T, E\], here \[2, 3",
        ),
        ("return self.output(hidden)", "return hidden", r"project .* \[2, 3, 20\].* \[2, 3, 8\]"),
        ("return hidden[:, 0]", "return hidden", r"step must return \[N, E\], here \[4, 8\]"),
        ("return hidden[:, 0]", "return None", r"step must .* but returned NoneType"),
        ("def select(", "def choose(", r"fails on two .* AttributeError: .* no attribute 'select'"),
        (
            "weights @ memory.states]",
            "weights]",
            r"fails on .* RuntimeError: .*my_systems\.py:\d+\)",
        ),
    ],
)
def test_results_of_other_shapes_are_refused(
    right: str, wrong: str, fault: str, bring_system: BringSystem
) -> None:
    bring_system(documented_system((right, wrong)))
    config = system_configs()["mine"](system="mine", width=8)
    with pytest.raises(ConfigError, match=fault):
        build_model(config, 20, 20)


@pytest.mark.parametrize(
    "axes", ['("source", "target")', '("source",)', '("target", "head")', "()"]
)
def test_attention_maps_with_other_axes_than_their_weights_are_refused(
    axes: str, bring_system: BringSystem
) -> None:
    bring_system(documented_system(('("target", "source")', axes)))
    model = build_model(system_configs()["mine"](system="mine", width=8), 20, 20)
    source, target = torch.ones(1, 4, dtype=torch.int64), torch.ones(1, 3, dtype=torch.int64)
    with pytest.raises(ConfigError, match=r"mine\.explain returned the attention map decoder\.0"):
        attention_maps(model, source, target)


def test_trying_a_new_model_draws_no_random_numbers(bring_system: BringSystem) -> None:
    bring_system()
    model_class: Any = system_configs().entry("mine").model_class()
    config = model_class.Config(width=8, dropout=0.5)
    torch.manual_seed(0)
    model = build_model(config, 20, 20)
    drawn = torch.rand(2)
    torch.manual_seed(0)
    model_class(config, 20, 20)
    assert torch.equal(torch.rand(2), drawn)
    assert model.training and torch.is_grad_enabled()


def test_a_system_may_list_its_parts_again(bring_system: BringSystem) -> None:
    names = "        self.parts = [self.encoder, self.decoder]\n    def encode("
    bring_system(documented_system().replace("    def encode(", names, 1))
    build_model(system_configs()["mine"](system="mine", width=8), 20, 20)


def test_a_name_that_is_taken_is_refused_with_both_owners(bring_system: BringSystem) -> None:
    bring_system(point="transformer = my_systems:Mine")
    with pytest.raises(ConfigError, match=r"transformer: jtrans, my-systems 1\.0") as caught:
        system_configs()["transformer"]
    assert caught.value.kind == "config.broken-system"
    assert system_configs()["reformer-base"]


def test_a_name_that_two_distributions_bring_is_refused(bring_system: BringSystem) -> None:
    bring_system()
    bring_system(distribution="your-systems")
    with pytest.raises(ConfigError, match=r"your-systems 1\.0, my-systems 1\.0"):
        system_configs().entry("mine")


def test_an_unknown_system_gets_the_nearest_installed_one(bring_system: BringSystem) -> None:
    bring_system()
    with pytest.raises(ConfigError) as caught:
        system_configs().entry("mien")
    assert caught.value.hint == "did you mean mine?"


@pytest.mark.thorough
def test_the_documented_system_passes_the_contract_tests(tmp_path: Path) -> None:
    install(tmp_path, documented_system(), point=MINE)
    command = [sys.executable, "-m", "pytest", "-q", "tests/models/test_contract.py", "-k", "mine"]
    ran = subprocess.run(
        [*command, "-p", "no:cacheprovider"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0 and " passed" in ran.stdout, ran.stdout


# In a process of its own: whether torch is loaded.
PROGRAM = """
import json, sys
import jtrans.cli.main as main
try:
    main.main(json.loads(sys.argv[1]))
except SystemExit as left:
    print(json.dumps([left.code, "torch" in sys.modules]))
"""


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--help"], 0, "Usage"),
        (["train", "demo/transformer", "--set", "model.widht=3"], 2, "did you mean model.width?"),
        (["train", "demo/transformer", "--set", "model.system=minne"], 2, "did you mean mine?"),
    ],
)
def test_an_installed_system_is_loaded_only_where_it_is_used(
    arguments: list[str], code: int, text: str, tmp_path: Path
) -> None:
    install(tmp_path, "import torch; 1 / 0", point=MINE)
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(arguments)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert json.loads(ran.stdout.splitlines()[-1]) == [code, False]
    assert text in ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("tensor", "the weights in scale are not parameters"),
        ("self.output.weight, None", r"project is not x W\^T \+ b"),
        ("self.output.weight.T, None", r"output_weights must return W as \[V, E\]"),
    ],
)
def test_what_training_would_silently_do_wrong_is_refused(
    change: str, fault: str, bring_system: BringSystem
) -> None:
    right = "    def project("
    wrong = f"    def output_weights(self):\n        return {change}\n\n{right}"
    if change == "tensor":
        right = "E = config.width"
        wrong = f"{right}\n        self.scale = torch.ones(E, requires_grad=True)"
    bring_system(documented_system((right, wrong)))
    config = system_configs()["mine"](system="mine", width=8)
    with pytest.raises(ConfigError, match=fault):
        build_model(config, 20, 20)


def test_a_system_that_checks_its_numbers_is_loaded(
    bring_system: BringSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried when it is built, and numbers that happen to be in memory may not be finite."""
    right = "return Memory(self.encoder("
    check = "assert self.source.weight.isfinite().all()\n        "
    bring_system(documented_system().replace(right, check + right))
    config = system_configs()["mine"](system="mine", width=8)
    monkeypatch.setattr(UndrawnParameters, "__enter__", lambda self: pytest.fail("not drawn"))
    state = torch.get_rng_state()
    build_undrawn(config, 20, 20)
    assert torch.equal(torch.get_rng_state(), state)
