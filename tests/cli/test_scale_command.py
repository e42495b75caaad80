"""`jtrans scale`."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from plugins.command_line import Jtrans
from plugins.random_runs import RunOn

from jtrans.cli.scale.trained import make_plan
from jtrans.config import Config, load_config
from jtrans.data.prepared import PreparedCorpus
from jtrans.files import file_digest
from jtrans.models.zoo import system_configs
from jtrans.scaling.sizes import resized

PUBLISHED = ("--from-losses", 1.6, 1.58937, 1.58931, "--layers", 5, "--width-ratio", 4)


def test_the_published_losses_give_the_published_sizes(jtrans: Jtrans) -> None:
    result = jtrans("scale", *PUBLISHED, "--ratio", 2, "--json")
    value = json.loads(result.out)
    assert value["stacks"] == ["layers"]
    assert value["rounded"] == {"layers": 2, "width": 2}
    assert value["exact"]["layers"] == pytest.approx(2.25613, abs=1e-4)
    assert value["ratio"]["realised"] == pytest.approx(1.8667, abs=1e-4)


def test_a_missing_loss_is_named(jtrans: Jtrans) -> None:
    result = jtrans("scale", *PUBLISHED[:3], *PUBLISHED[4:])
    assert result.code == 2
    assert "--from-losses needs 3 values" in result.err and "BASE DEEPER WIDER" in result.err


@pytest.mark.parametrize("arguments", [(9, *PUBLISHED[:4]), (*PUBLISHED[:4], 9), (*PUBLISHED, 9)])
def test_a_fourth_loss_is_no_recipe(jtrans: Jtrans, arguments: tuple[object, ...]) -> None:
    result = jtrans("scale", *arguments)
    assert result.code == 2
    assert "--from-losses needs 3 values, and 9 is one more" in result.err


def test_the_losses_of_a_second_seed_do_not_replace_those_of_the_first(jtrans: Jtrans) -> None:
    result = jtrans("scale", *PUBLISHED, *PUBLISHED[:4])
    assert result.code == 2 and "--from-losses is given twice" in result.err


def test_the_table_names_sizes_and_the_realised_ratio(jtrans: Jtrans) -> None:
    result = jtrans("scale", *PUBLISHED)
    rows = {line.split("  ")[0]: line.split() for line in result.out.splitlines()}
    assert rows["layers"][1:] == ["5", "7.256", "7", "+2"]
    assert rows["F / E"][3:] == ["4", "6.269", "6", "+50", "%", "of", "F"]
    assert rows["parameters of the layers"][-1] == "1.867"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--from-losses", 1.6, 1.6, 1.6, "--layers", 5, "--width-ratio", 4),
        ("--from-losses", 1.6, 1.7, 1.8, "--layers", 5, "--width-ratio", 4),
        ("--from-losses", "nan", 1.5, 1.5, "--layers", 5, "--width-ratio", 4),
        ("--from-losses", 1.6, 1.6 - 1e-14, 1.6, "--layers", 5, "--width-ratio", 4),
        ("--from-losses", 5e-324, 0, 0, "--layers", 5, "--width-ratio", 4),
        (*PUBLISHED, "--ratio", 0.5),
        (*PUBLISHED, "--ratio", "inf"),
        (*PUBLISHED, "--ratio", 1e308),
        (*PUBLISHED, "--step", 0),
        (*PUBLISHED, "--step", "9" * 400),
        ("--from-losses", 1.6, 1.5, 1.5, "--layers", 5, "--width-ratio", "inf"),
        ("--from-losses", 1.6, 1.5, 1.5, "--layers", 5, "--width-ratio", 0),
        ("--from-losses", 1.6, 1.5, 1.5, "--layers", 5),
        ("--from-losses", 1.6, 1.5),
        ("demo/rnmt-plus", *PUBLISHED[:4]),
        ("demo/transformer", *PUBLISHED),
        ("demo/transformer", *PUBLISHED[:4], "--run"),
        (),
    ],
)
def test_losses_that_cannot_be_used_are_refused_in_one_paragraph(
    jtrans: Jtrans, arguments: tuple[object, ...]
) -> None:
    result = jtrans("scale", *arguments)
    assert result.code == 2
    assert result.out == ""
    assert [line.split(":")[0] for line in result.err.splitlines()] == ["error", "hint"]


def test_a_ratio_too_small_for_a_layer_says_so(jtrans: Jtrans) -> None:
    result = jtrans("scale", *PUBLISHED, "--ratio", 1.01)
    assert result.code == 0
    assert "stays as it is" in result.err and "--ratio 1.2 changes it" in result.err


@pytest.mark.parametrize(
    ("recipe", "sizes"),
    [
        ("iwslt14-de-en/reformer-fast", {"prenet_layers": 7, "layers": 7, "ffn_width": 1536}),
        ("iwslt14-de-en/transformer", {"encoder_layers": 9, "decoder_layers": 9}),
    ],
)
def test_losses_of_any_recipe_lead_to_its_sizes(
    jtrans: Jtrans, recipe: str, sizes: dict[str, int]
) -> None:
    result = jtrans("scale", recipe, *PUBLISHED[:4])
    assert result.code == 0, result.err
    command = shlex.split(result.err.rpartition("Next: ")[2])
    assert command[:3] == ["jtrans", "train", recipe]
    assert command[-2] == "--run" and command[-1].startswith(f"runs/{recipe}-")
    config = load_config(recipe, system_configs(), overrides=command[4:-2:2]).model.model_dump()
    assert {key: config[key] for key in sizes} == sizes


LOSSES = {"base": 2.0, "deeper": 1.9, "wider": 1.92, "scaled": 1.8}
TINY = [
    f"--set={setting}"
    for setting in (
        "model.width=8",
        "model.ffn_width=16",
        "model.heads=2",
        "training.max_updates=1",
        "training.validate_sentences=0",
    )
]


@pytest.fixture(scope="module")
def estimates() -> dict[str, Any]:
    """The estimates of this module, which take longer than the trainings, by their settings."""
    return {}


@pytest.fixture
def lossy(monkeypatch: pytest.MonkeyPatch, estimates: dict[str, Any]) -> dict[str, float]:
    """Losses that lead somewhere, by model; estimates are made in this process, each once."""
    from jtrans.runs import Run
    from jtrans.scaling import costs, experiment

    losses = dict(LOSSES)

    def lowest(run: Run) -> float:
        return losses[run.folder.name.partition("-")[0]] + 0.01 * int(run.folder.name[-1])

    def here(configs: dict[str, Config], data: Path, device: str | None) -> dict[str, Any]:
        from jtrans.training.estimate import estimate

        keys = {name: config.model_dump_json() for name, config in configs.items()}
        for name, key in keys.items():
            if key not in estimates:
                estimates[key] = estimate(configs[name], data=data, device=device)
        return {name: estimates[key] for name, key in keys.items()}

    monkeypatch.setattr(experiment, "lowest_loss", lowest)
    monkeypatch.setattr(costs, "predict", here)
    return losses


def test_three_models_are_trained_and_the_scaled_recipe_trains(
    jtrans: Jtrans, corpus: PreparedCorpus, tmp_path: Path, lossy: dict[str, float]
) -> None:
    line = ["scale", "demo/transformer", "--data", corpus.folder, "--out", "scale", *TINY]
    result = jtrans(*line, "--seeds", "2", "--json")
    assert result.code == 0, result.err
    value = json.loads(result.out)
    assert value["gradients"]["depth"]["values"] == pytest.approx([0.1])
    out = tmp_path / "scale"
    runs = {path.name for path in out.iterdir() if path.is_dir()}
    assert runs == {"base-2", "deeper-2", "wider-2"}
    added = value["solution"]["rounded"]
    config = load_config(str(out / "scaled.toml"), system_configs()).model.model_dump()
    assert config["encoder_layers"] == 2 + added["layers"] > 2
    assert config["ffn_width"] == 16 + 8 * added["width"]
    assert "[expect]" not in (out / "scaled.toml").read_text(encoding="utf-8")
    page = (out / "scale.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", page.partition("<main>")[2])
    numbers = json.loads((out / "scale.json").read_text(encoding="utf-8"))
    assert numbers.pop("recipe_sha256") == file_digest(out / "scaled.toml")
    assert numbers == value
    assert (out / "scale.png").read_bytes()[1:4] == b"PNG"

    command = shlex.split(result.err.rpartition("Next: ")[2])
    assert jtrans(*command[1:]).code == 0
    sizes = (
        f"{config['encoder_layers']}+{config['decoder_layers']}-layers-ffn-{config['ffn_width']}"
    )
    assert (out / f"scaled-{sizes}-2" / "run.json").is_file()
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.safetensors")}
    assert jtrans(*line, "--seeds", "2", "--run", "--json").code == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_the_configuration_file_of_a_run_is_scaled_on_its_corpus(
    corpus: PreparedCorpus, run_on: RunOn
) -> None:
    run = run_on(corpus, "mine").folder
    plan = make_plan(str(run / "config.toml"), None, None, 2.0, 1, None, [])
    assert (plan.data, plan.out) == (corpus.folder, Path("runs/scale/mine"))


def test_weights_that_fit_the_base_model_alone_are_refused_before_any_work(
    jtrans: Jtrans, corpus: PreparedCorpus, run_on: RunOn, tmp_path: Path
) -> None:
    run = run_on(corpus, "mine").folder
    text = (run / "config.toml").read_text(encoding="utf-8")
    begun = text.replace("init_from = []", f'init_from = [{{ run = "{run}" }}]')
    (tmp_path / "begun.toml").write_text(begun, encoding="utf-8")
    result = jtrans("scale", "begun.toml", "--data", corpus.folder, "--out", "scale")
    assert (result.code, "--set training.init_from=[]" in result.err) == (2, True), result.err
    assert not (tmp_path / "scale").exists()


@pytest.mark.thorough
@pytest.mark.usefixtures("placeholder_pictures")
def test_other_losses_lead_to_another_scaled_run(
    jtrans: Jtrans, corpus: PreparedCorpus, tmp_path: Path, lossy: dict[str, float]
) -> None:
    line = ["scale", "demo/transformer", "--data", "data", "--out", "scale", "--ratio", 3, *TINY]
    assert jtrans(*line, "--run", "--json").code == 0
    [first] = (tmp_path / "scale").glob("scaled-*-1")
    earlier = first.rename(first.with_name("scaled-3x-1"))  # as earlier versions named it
    before = {path: path.stat().st_mtime_ns for path in earlier.rglob("*.safetensors")}
    assert jtrans(*line, "--run", "--json").code == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert not first.exists()

    lossy |= {"deeper": 1.99, "wider": 1.7}
    assert jtrans(*line, "--run", "--json").code == 0
    [second] = (tmp_path / "scale").glob("scaled-*-layers-*-1")
    assert second.name != first.name
    assert jtrans("train", "scale/scaled.toml", "--data", "data", "--run", second).code == 0

    lossy |= {"deeper": 2.2, "wider": 2.2}
    refused = jtrans(*line, "--run")
    assert refused.code == 2
    assert "are still those of earlier losses" in refused.err


@pytest.mark.sample(1)
@pytest.mark.usefixtures("placeholder_pictures")
@pytest.mark.parametrize(
    ("change", "setting"),
    [
        (["--step", 2], "model.decoder_layers"),
        (["--set", "training.learning_rate=0.5"], "training.learning_rate"),
    ],
)
def test_runs_of_other_settings_are_not_compared(
    jtrans: Jtrans,
    corpus: PreparedCorpus,
    tmp_path: Path,
    lossy: dict[str, float],
    change: list[object],
    setting: str,
) -> None:
    line = ["scale", "demo/transformer", "--data", "data", "--out", "scale", *TINY]
    assert jtrans(*line).code == 0
    before = (tmp_path / "scale" / "scale.json").read_bytes()
    result = jtrans(*line, *change)
    assert result.code == 2
    assert f"error: {setting} is " in result.err
    assert "hint: choose another --out, or delete this run" in result.err
    assert (tmp_path / "scale" / "scale.json").read_bytes() == before
    assert jtrans(*line, "--set", "training.max_updates=2").code == 0  # trained for longer


@pytest.mark.usefixtures("placeholder_pictures")
def test_a_run_of_other_settings_is_found_before_anything_is_trained(
    jtrans: Jtrans, corpus: PreparedCorpus, tmp_path: Path, lossy: dict[str, float]
) -> None:
    line = ["scale", "demo/transformer", "--data", "data", "--out", "scale", *TINY]
    assert jtrans(*line).code == 0
    shutil.rmtree(tmp_path / "scale" / "base-1")
    assert jtrans(*line, "--step", 2).code == 2
    assert not (tmp_path / "scale" / "base-1").exists()


@pytest.mark.usefixtures("placeholder_pictures")
def test_a_run_of_other_data_is_refused_with_options_that_exist(
    jtrans: Jtrans, corpus: PreparedCorpus, tmp_path: Path, lossy: dict[str, float]
) -> None:
    line = ["scale", "demo/transformer", "--out", "scale", *TINY]
    assert jtrans(*line, "--data", "data").code == 0
    info = json.loads((tmp_path / "scale" / "base-1" / "run.json").read_text(encoding="utf-8"))
    info["train"]["pairs"] += 1
    (tmp_path / "scale" / "base-1" / "run.json").write_text(json.dumps(info), encoding="utf-8")
    result = jtrans(*line, "--data", "data")
    assert result.code == 2
    assert "different training data" in result.err
    assert "hint: choose another --out" in result.err and "--restart" not in result.err


@pytest.mark.usefixtures("placeholder_pictures")
@pytest.mark.parametrize(
    ("ratio", "losses", "same"),
    [
        (1.05, {}, None),  # the base model stays as it is
        (1.3, {"deeper": 1.6, "wider": 2.0}, "deeper-1"),  # one layer more
    ],
)
def test_a_model_that_is_trained_already_is_not_trained_again(
    jtrans: Jtrans,
    corpus: PreparedCorpus,
    tmp_path: Path,
    lossy: dict[str, float],
    ratio: float,
    losses: dict[str, float],
    same: str | None,
) -> None:
    lossy |= losses
    line = ["scale", "demo/transformer", "--data", "data", "--out", "scale", *TINY]
    result = jtrans(*line, "--ratio", ratio, "--run")
    assert result.code == 0, result.err
    runs = {path.name for path in (tmp_path / "scale").iterdir() if path.is_dir()}
    assert runs == {"base-1", "deeper-1", "wider-1"}
    models = json.loads((tmp_path / "scale" / "scale.json").read_text(encoding="utf-8"))["models"]
    own = {"base": "base", "deeper-1": "deeper"}[same or "base"]
    assert [model["name"] for model in models] == ["base", "deeper", "wider", "scaled"]
    assert models[-1] == next(each for each in models if each["name"] == own) | {"name": "scaled"}
    following = result.err.partition("Next: ")[2].split()
    assert following == (["jtrans", "score", "scale/base-1", f"scale/{same}"] if same else [])
    changed = jtrans(*line, "--ratio", ratio, "--set", "training.max_epochs=7")
    assert "warning: base, deeper, wider: these runs are finished" in changed.err


@pytest.mark.usefixtures("placeholder_pictures")
def test_a_scaled_recipe_that_was_edited_is_not_overwritten(
    jtrans: Jtrans, corpus: PreparedCorpus, tmp_path: Path, lossy: dict[str, float]
) -> None:
    line = ["scale", "demo/transformer", "--data", "data", "--out", "scale", *TINY]
    assert jtrans(*line).code == 0
    recipe = tmp_path / "scale" / "scaled.toml"
    first = recipe.read_bytes()
    assert jtrans(*line, "--ratio", 3).code == 0
    assert recipe.read_bytes() != first  # its own

    recipe.write_bytes(recipe.read_bytes() + b"# mine\n")
    edited = recipe.read_bytes()
    shutil.rmtree(tmp_path / "scale" / "base-1")
    refused = jtrans(*line)
    assert refused.code == 2
    assert f"{Path('scale', 'scaled.toml')} is another recipe, which would be" in refused.err
    assert "hint: rename it, or delete it\n" in refused.err
    assert recipe.read_bytes() == edited
    assert not (tmp_path / "scale" / "base-1").exists()  # told before anything is trained
    recipe.rename(recipe.with_name("mine.toml"))
    assert jtrans(*line).code == 0
    assert recipe.read_bytes() == first


@pytest.mark.usefixtures("placeholder_pictures")
def test_a_scaled_recipe_of_an_earlier_version_is_replaced(
    jtrans: Jtrans, corpus: PreparedCorpus, tmp_path: Path, lossy: dict[str, float]
) -> None:
    (tmp_path / "scale").mkdir()
    (tmp_path / "scale" / "scale.json").write_text("{}", encoding="utf-8")
    (tmp_path / "scale" / "scaled.toml").write_text("# of other losses\n", encoding="utf-8")
    line = ["scale", "demo/transformer", "--data", "data", "--out", "scale", *TINY]
    assert jtrans(*line).code == 0
    recipe = (tmp_path / "scale" / "scaled.toml").read_text(encoding="utf-8")
    assert recipe.startswith("# demo/transformer scaled to")


@pytest.mark.usefixtures("corpus")
def test_training_does_not_overwrite_the_recipe_of_given_losses(
    jtrans: Jtrans, tmp_path: Path
) -> None:
    assert jtrans("scale", "demo/transformer", *GIVEN, "--out", "scale").code == 0
    line = ["scale", "demo/transformer", "--data", "data", "--out", "scale", *TINY]
    refused = jtrans(*line)
    assert refused.code == 2 and "is another recipe" in refused.err
    assert [path.name for path in (tmp_path / "scale").iterdir()] == ["scaled.toml"]


@pytest.mark.usefixtures("placeholder_pictures")
def test_a_scaled_model_that_is_trained_stays_in_the_result(
    jtrans: Jtrans, corpus: PreparedCorpus, tmp_path: Path, lossy: dict[str, float]
) -> None:
    line = ["scale", "demo/transformer", "--data", "data", "--out", "scale", *TINY]
    trained = jtrans(*line, "--run")
    [scaled] = (tmp_path / "scale").glob("scaled-*-1")
    again = jtrans(*line)
    assert (trained.code, again.code) == (0, 0), again.err
    numbers = json.loads((tmp_path / "scale" / "scale.json").read_text(encoding="utf-8"))
    assert [model["name"] for model in numbers["models"]][3:] == ["scaled"]
    following = f"Next: jtrans score {Path('scale', 'base-1')} {Path('scale', scaled.name)}\n"
    assert trained.err.endswith(following) and again.err.endswith(following)

    log = scaled / "log.jsonl"
    ended = log.read_text(encoding="utf-8")
    stopped = ended.replace('"reason": "max_updates"', '"reason": "stopped"')
    assert stopped != ended
    log.write_text(stopped, encoding="utf-8")
    assert "Next: jtrans train " in jtrans(*line).err
    assert log.read_text(encoding="utf-8") == stopped


@pytest.mark.usefixtures("placeholder_pictures")
def test_the_runs_of_all_seeds_are_compared(
    jtrans: Jtrans, corpus: PreparedCorpus, tmp_path: Path, lossy: dict[str, float]
) -> None:
    line = ["scale", "demo/transformer", "--data", "data", "--out", "scale", *TINY]
    line += ["--seeds", "1,2"]
    following = jtrans(*line).err.rpartition("Next: ")[2]
    assert shlex.split(following) == ["jtrans", *line, "--run"]
    names = jtrans(*shlex.split(following)[1:]).err.rpartition("Next: jtrans score ")[2].split()
    [sizes] = {path.name[:-1] for path in (tmp_path / "scale").glob("scaled-*")}
    expected = ["base-1", "base-2", f"{sizes}1", f"{sizes}2"]
    assert names == [str(Path("scale", name)) for name in expected]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_estimate_names_the_command_that_continues(
    jtrans: Jtrans,
    corpus: PreparedCorpus,
    lossy: dict[str, float],
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
) -> None:
    def interrupted(*_: object) -> None:
        signal.raise_signal(number)

    monkeypatch.setattr("jtrans.scaling.costs.predict", interrupted)
    line = ["scale", "demo/transformer", "--data", "data", "--out", "scale", *TINY]
    stopped = jtrans(*line)
    assert stopped.code == 128 + number
    assert stopped.err.splitlines()[-2:] == [
        "stopped; everything is saved in scale",
        f"Next: {shlex.join(['jtrans', *line])}",
    ]


def test_losses_without_a_direction_end_with_an_error_and_keep_the_runs(
    jtrans: Jtrans, corpus: PreparedCorpus, tmp_path: Path, lossy: dict[str, float]
) -> None:
    lossy |= {"deeper": 2.0, "wider": 2.1}
    result = jtrans("scale", "demo/transformer", "--data", "data", "--out", "scale", *TINY)
    assert result.code == 2
    assert "give no direction" in result.err
    assert "Gradients    0.00000 of depth, -0.10000 of width" in result.err
    assert (tmp_path / "scale" / "wider-1" / "run.json").is_file()
    assert not (tmp_path / "scale" / "scaled.toml").exists()


GIVEN = ("--from-losses", 1.6, 1.5, 1.4)


@pytest.mark.parametrize("option", [("--seeds", "1,2"), ("--device", "cpu"), ("--run",)])
def test_options_of_trainings_are_refused_where_losses_are_given(
    option: tuple[str, ...], jtrans: Jtrans
) -> None:
    result = jtrans("scale", "demo/transformer", *GIVEN, *option)
    assert result.code == 2
    assert f"{option[0]} has no effect with --from-losses" in result.err


def test_given_losses_write_a_recipe_that_can_be_trained(jtrans: Jtrans, tmp_path: Path) -> None:
    line = ("demo/transformer", *GIVEN, "--set", "training.seed=7")
    result = jtrans("scale", *line, "--out", "larger", "--json")
    more = json.loads(result.out)["rounded"]
    base = load_config("demo/transformer", system_configs(), overrides=["training.seed=7"])
    scaled = load_config(str(tmp_path / "larger" / "scaled.toml"), system_configs())
    assert scaled == resized(base, more_layers=more["layers"], more_width=more["width"])
    assert more != {"layers": 0, "width": 0}
    run = Path("larger", "scaled-")
    assert f"Next: jtrans train {Path('larger', 'scaled.toml')} --run {run}" in result.err
    assert [path.name for path in (tmp_path / "larger").iterdir()] == ["scaled.toml"]


@pytest.mark.parametrize("out", [(), ("--out", "larger")])
def test_the_next_command_of_a_configuration_file_names_the_corpus(
    out: tuple[str, ...], jtrans: Jtrans, tmp_path: Path
) -> None:
    config = tmp_path / "small.toml"
    config.write_text('[model]\nsystem = "transformer"\n', encoding="utf-8")
    following = jtrans("scale", "small.toml", *GIVEN, *out).err.rpartition("Next: ")[2]
    assert " --data DIR --run " in following  # it names none
    config.rename(tmp_path / "config.toml")
    shutil.rmtree("larger", ignore_errors=True)
    (tmp_path / "run.json").write_text('{"format": 2, "data": "nouns"}', encoding="utf-8")
    following = jtrans("scale", "config.toml", *GIVEN, *out).err.rpartition("Next: ")[2]
    assert " --data nouns --run " in following


def test_a_folder_named_like_a_recipe_is_refused(jtrans: Jtrans) -> None:
    result = jtrans("scale", "demo/transformer", *GIVEN, "--out", "larger.toml")
    assert result.code == 2 and "--out larger.toml is named like a file" in result.err
    assert "hint: --out larger\n" in result.err and not Path("larger.toml").exists()


def test_given_losses_do_not_overwrite_another_recipe(jtrans: Jtrans, tmp_path: Path) -> None:
    line = ("scale", "demo/transformer", "--out", "larger", "--from-losses", 1.6)
    assert jtrans(*line, 1.5, 1.4).code == 0
    recipe = tmp_path / "larger" / "scaled.toml"
    own = recipe.read_bytes()
    refused = jtrans(*line, 1.4, 1.5)
    assert refused.code == 2 and refused.out == ""
    assert f"{Path('larger', 'scaled.toml')} is another recipe" in refused.err
    assert jtrans(*line, 1.5, 1.4).code == 0  # the same again
    assert recipe.read_bytes() == own


def test_a_ratio_that_changes_nothing_writes_nothing(jtrans: Jtrans, tmp_path: Path) -> None:
    result = jtrans("scale", "demo/transformer", *GIVEN, "--ratio", 1.01, "--out", "larger")
    assert result.code == 0
    assert "the base model stays as it is" in result.err
    assert not (tmp_path / "larger").exists()


def test_given_losses_without_a_recipe_write_nothing(jtrans: Jtrans, tmp_path: Path) -> None:
    result = jtrans("scale", *GIVEN, "--layers", 5, "--width-ratio", 4, "--out", "larger")
    assert result.code == 2
    assert "--out needs a recipe" in result.err
    assert not (tmp_path / "larger").exists()


def test_given_losses_leave_the_recipe_of_trained_models(jtrans: Jtrans, tmp_path: Path) -> None:
    (tmp_path / "trained").mkdir()
    (tmp_path / "trained" / "scale.json").write_text("{}", encoding="utf-8")
    result = jtrans("scale", "demo/transformer", *GIVEN, "--out", "trained")
    assert result.code == 2
    assert "trained has the result of models that were trained there" in result.err
    assert not (tmp_path / "trained" / "scaled.toml").exists()


def test_without_recipe_and_losses_one_of_them_is_asked_for(jtrans: Jtrans) -> None:
    result = jtrans("scale", "--run")
    assert result.code == 2
    assert "give a recipe, or --from-losses" in result.err


def test_the_plan_alone_trains_nothing(
    jtrans: Jtrans, corpus: PreparedCorpus, tmp_path: Path, lossy: dict[str, float]
) -> None:
    line = ["scale", "demo/transformer", "--data", "data", "--out", "scale", *TINY]
    result = jtrans(*line, "--plan-only")
    assert [row.split()[0] for row in result.out.splitlines()] == [
        "model",
        "base",
        "deeper",
        "wider",
    ]
    assert "memory and time of base, deeper, wider" in result.err
    models = json.loads(jtrans(*line, "--plan-only", "--json").out)["models"]
    base, deeper = (models[name]["layers"] for name in ("base", "deeper"))
    assert deeper == {stack: count + 1 for stack, count in base.items()}
    assert models["wider"]["ffn_width"] > models["base"]["ffn_width"]
    assert not (tmp_path / "scale").exists()


@pytest.mark.parametrize("command", ["train", "scale"])
def test_a_named_corpus_that_is_not_prepared_gets_the_command_that_prepares_it(
    jtrans: Jtrans, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = jtrans(command, "demo/transformer", "--data", "data/prepared/grammar-zh-en")
    assert result.code == 2
    assert "hint: jtrans prepare grammar-zh-en;" in result.err


@pytest.mark.usefixtures("placeholder_pictures")
@pytest.mark.parametrize("where", [".", "..", "absolute"])
def test_runs_of_a_recipe_of_ones_own_go_where_all_others_go(
    jtrans: Jtrans, corpus: PreparedCorpus, tmp_path: Path, lossy: dict[str, float], where: str
) -> None:
    folder = {".": tmp_path, "..": tmp_path.parent, "absolute": tmp_path / "recipes"}[where]
    assert jtrans("recipes", "demo/transformer", "--copy", folder / "mine.toml").code == 0
    path = folder / "mine.toml" if where == "absolute" else f"{where}/mine.toml"
    assert jtrans("scale", path, "--data", "data", *TINY).code == 0
    assert (tmp_path / "runs" / "scale" / "mine" / "scaled.toml").is_file()
    (folder / "mine.toml").unlink()


@pytest.mark.parametrize(
    "arguments",
    [
        ("demo/rnmt-plus",),
        ("demo/transformer", "--ratio", 0.9),
        ("demo/transformer", "--step", 0),
        ("demo/transformer", "--step", 1001),
        ("demo/transformer", "--seeds", "1,1"),
        ("demo/transformer", "--seeds", "1,2", "--set", "training.seed=5"),
        ("demo/transformer", "--run", "--plan-only"),
        ("demo/transformer", "--set", "training.init_from=@last"),
        ("demo/transformer", "--layers", 5),
        ("demo/transformer", "--data", "nowhere"),
        ("demo/transfomer",),
    ],
)
def test_a_model_that_cannot_be_scaled_is_refused_before_any_work(
    jtrans: Jtrans, corpus: PreparedCorpus, tmp_path: Path, arguments: tuple[object, ...]
) -> None:
    given = ("--data", "data") if "--data" not in arguments else ()
    result = jtrans("scale", *arguments, *given, "--out", "scale")
    assert result.code == 2
    assert [line.split(":")[0] for line in result.err.splitlines()] == ["error", "hint"]
    assert not (tmp_path / "scale").exists()
