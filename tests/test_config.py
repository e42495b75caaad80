"""Configuration: files, `extends`, `--set`, options, and what is said about mistakes."""

from __future__ import annotations

import tomllib
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from jtrans.api import load_recipe
from jtrans.config import (
    Config,
    ConfigSection,
    Count,
    TrainingConfig,
    build_config,
    explain_fault,
    find_config,
    load_config,
    recipe_names,
    set_values,
)
from jtrans.config.load import merge_values
from jtrans.errors import ConfigError
from jtrans.models.systems import ReformerFastConfig
from jtrans.models.zoo import system_configs

DEMO = "demo/reformer-fast"


def load(name: str | Path, *overrides: str, **options: Any) -> Config:
    return load_config(str(name), system_configs(), overrides=overrides, options=options)


def error_of(name: str | Path, *overrides: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(name, *overrides)
    assert caught.value.exit_code == 2
    return caught.value


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write_file(text: str, name: str = "my.toml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


# Precedence


def test_what_a_file_does_not_say_is_the_default(write: Any) -> None:
    config = load(write('[model]\nsystem = "reformer-fast"\n'))
    assert config.training == TrainingConfig()
    assert config.model == ReformerFastConfig()


def test_the_file_wins_over_what_it_extends(write: Any) -> None:
    write('[model]\nsystem = "transformer"\nwidth = 64\nheads = 8\n', "base.toml")
    config = load(write('extends = "base.toml"\n[model]\nwidth = 32\n'))
    assert config.model.model_dump(include={"width", "heads"}) == {"width": 32, "heads": 8}


def test_set_wins_over_the_file_and_an_option_over_both(write: Any) -> None:
    path = write('[model]\nsystem = "transformer"\n[training]\nseed = 1\n')
    assert load(path, "training.seed=2").training.seed == 2
    config = load_config(
        str(path),
        system_configs(),
        overrides=["training.seed=2"],
        options={"training.seed": 3},
    )
    assert config.training.seed == 3


def test_a_table_given_in_part_keeps_its_other_keys() -> None:
    config = load("iwslt14-de-en/reformer-fast", "training.schedule.warmup=5")
    assert config.training.schedule.warmup == 5
    assert config.training.schedule.warmup_init == 1e-7


@given(
    base=st.dictionaries(st.sampled_from("abc"), st.integers()),
    top=st.dictionaries(st.sampled_from("abc"), st.integers()),
)
def test_merging_puts_one_over_the_other(base: dict[str, int], top: dict[str, int]) -> None:
    merged = merge_values({"x": base, "y": 1}, {"x": top})
    assert merged == {"x": {**base, **top}, "y": 1}


# extends


def test_a_recipe_can_be_extended_by_its_name(write: Any) -> None:
    config = load(write('extends = "iwslt14-de-en/reformer-fast"\n[training]\nseed = 9\n'))
    recipe = load("iwslt14-de-en/reformer-fast")
    assert config.model == recipe.model
    assert config.training.seed == 9
    assert config.training.learning_rate == recipe.training.learning_rate


def test_two_levels_of_extends_are_refused(write: Any) -> None:
    write('[model]\nsystem = "transformer"\n', "first.toml")
    write('extends = "first.toml"\n', "second.toml")
    error = error_of(write('extends = "second.toml"\n'))
    assert error.kind == "config.extends"
    assert "first.toml" in str(error.hint)


def test_a_file_that_extends_itself_is_refused(write: Any) -> None:
    error = error_of(write('extends = "own.toml"\n', "own.toml"))
    assert error.message == "own.toml extends itself"


@pytest.mark.parametrize("recipe", ["demo/transformer", "demo/convs2s"])
@pytest.mark.parametrize("name", ["adam", "nesterov", "adafactor"])
def test_another_optimiser_drops_the_settings_of_the_recipes(
    recipe: str, name: str, write: Any
) -> None:
    override = f"training.optimiser.name={name}"
    before = load_config(recipe, system_configs()).training.optimiser
    ours = load_config(recipe, system_configs(), overrides=[override]).training.optimiser
    assert (ours.name, ours.momentum) == (name, 0.99 if name == "nesterov" else None)
    assert ours.betas == (before.betas if name == "adam" else None)
    path = write(f'extends = "{recipe}"\n[training]\noptimiser = {{ name = "{name}" }}\n')
    assert load_config(path, system_configs()).training.optimiser == ours
    with pytest.raises(ConfigError, match="clip_step is a setting of adafactor"):
        chosen = ["training.optimiser.clip_step=2", "training.optimiser.name=nesterov"]
        load_config(recipe, system_configs(), overrides=chosen)


def test_another_schedule_keeps_what_it_has_too() -> None:
    rnmt = ["training.schedule.name=rnmt", "training.schedule.replicas=4"]
    config = load_config("demo/transformer", system_configs(), overrides=rnmt)
    both = [*rnmt, "training.schedule.name=cosine"]
    with pytest.raises(ConfigError, match="replicas is a setting of rnmt"):
        load_config("demo/transformer", system_configs(), overrides=both)
    warmup = load_config("demo/transformer", system_configs()).training.schedule.warmup
    assert config.training.schedule.warmup == warmup


def test_a_misspelt_section_is_named_even_if_it_holds_the_system(write: Any) -> None:
    error = error_of(write('\n[modle]\nsystem = "transformer"\n'))
    assert error.message == "unknown key modle" and str(error.where).endswith("line 2")
    assert error.hint == "did you mean model?"


def test_a_length_limit_may_be_a_plain_number(write: Any) -> None:
    path = write('[model]\nsystem = "transformer"\n[decoding]\nmax_length = 200\n')
    assert load(path).decoding.max_length == "200"
    assert load(path, "decoding.max_length=5").decoding.max_length == "5"


def test_a_missing_base_is_named(write: Any) -> None:
    error = error_of(write('extends = "absent.toml"\n'))
    assert "absent.toml" in error.message


# --set


@pytest.mark.parametrize(
    ("override", "section", "key", "value"),
    [
        ("training.learning_rate=1e-3", "training", "learning_rate", 1e-3),
        ("training.validate_every=50", "training", "validate_every", 50),
        ("training.validate_every=epoch", "training", "validate_every", "epoch"),
        ('training.precision="bf16"', "training", "precision", "bf16"),
        ("training.precision = bf16", "training", "precision", "bf16"),
        ("training.deterministic=true", "training", "deterministic", True),
        ("decoding.max_length=2*S+10", "decoding", "max_length", "2*S+10"),
        ("data.corpus=a=b", "data", "corpus", "a=b"),
    ],
)
def test_set_reads_toml_values_and_plain_text(
    override: str, section: str, key: str, value: Any
) -> None:
    assert getattr(getattr(load(DEMO, override), section), key) == value


def test_set_reads_whole_tables() -> None:
    config = load(DEMO, "training.stop={metric='valid-bleu', patience=3}")
    assert config.training.stop is not None
    assert config.training.stop.patience == 3


@pytest.mark.parametrize(
    "override", ["training.seed", "", "=3", "training.seed=", "training.seed= "]
)
def test_set_without_key_and_value_is_refused(override: str) -> None:
    error = error_of(DEMO, override)
    assert error.kind == "config.override"
    assert "KEY=VALUE" in error.message


def test_a_section_given_as_a_whole_changes_only_what_it_names() -> None:
    recipe = load_recipe("demo/reformer-fast")
    changed = load_recipe("demo/reformer-fast", {"training": {"max_updates": 3}})
    assert changed.training == recipe.training.model_copy(update={"max_updates": 3})
    assert changed.model == recipe.model


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("training.optimiser.name", "adafactor"),
        ("training.optimiser.name", "nesterov"),
        ("training.schedule.name", "plateau"),
        ("training.schedule.name", "rnmt"),
        ("training.schedule.name", "wsd"),
    ],
)
def test_a_configuration_can_be_changed_as_its_recipe_can(key: str, name: str) -> None:
    settings = {key: name, "training.max_updates": 9_000}
    recipe = load_recipe("demo/reformer-fast")
    changed = load_recipe(recipe, settings)
    assert changed == load_recipe("demo/reformer-fast", settings)
    assert recipe.expect and not changed.expect
    same = {"training.seed": 7, "training.precision": "fp32", "training.deterministic": True}
    assert load_recipe(recipe, same).expect == recipe.expect


def test_a_file_does_not_expect_the_scores_of_the_recipe_it_extends(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('extends = "demo/reformer-fast"\n', encoding="utf-8")
    assert load_recipe("demo/reformer-fast").expect and not load_recipe(str(path)).expect


@pytest.mark.parametrize("override", ["seed=2", "training=3", "training.seed.x=1", "training..x=1"])
def test_set_to_a_place_that_does_not_exist_is_one_config_error(override: str) -> None:
    error_of(DEMO, override)


# Renamed keys

OLD_KEYS = "[training]\npass_tokens = 11\npass_joint = 22\npass_overhead = 33\n"
SYSTEM = '[model]\nsystem = "transformer"\n'


def micro_batches(config: Config) -> tuple[int | None, ...]:
    training = config.training
    return training.micro_batch_tokens, training.micro_batch_joint, training.micro_batch_overhead


def test_old_keys_of_a_file_are_read_and_written_under_their_new_names(write: Any) -> None:
    config = load(write(SYSTEM + OLD_KEYS))
    assert micro_batches(config) == (11, 22, 33)
    assert "pass_" not in config.to_toml()


def test_an_old_key_of_the_base_gives_way_to_the_new_one_above_it(write: Any) -> None:
    write(SYSTEM + OLD_KEYS, "base.toml")
    config = load(write('extends = "base.toml"\n[training]\nmicro_batch_joint = 5\n'))
    assert micro_batches(config) == (11, 5, 33)
    write(SYSTEM + "[training]\nmicro_batch_joint = 5\n", "base.toml")
    config = load(write(f'extends = "base.toml"\n{OLD_KEYS}'))
    assert micro_batches(config) == (11, 22, 33)


@pytest.mark.parametrize("override", ["training.pass_joint=7", "training={pass_joint=7}"])
def test_old_keys_can_be_set(override: str) -> None:
    assert load(DEMO, override).training.micro_batch_joint == 7


def test_an_option_under_an_old_key_wins_over_the_file() -> None:
    config = load(DEMO, **{"training.pass_joint": 7})
    assert config.training.micro_batch_joint == 7


def test_setting_a_key_replaces_it_under_its_old_name() -> None:
    values: dict[str, Any] = {"training": {"pass_joint": 5}}
    names = set_values(values, [("training.pass_joint", 7)], "here")
    assert names == ["training.micro_batch_joint"]
    assert values == {"training": {"micro_batch_joint": 7}}


def test_old_keys_of_plain_values_are_read() -> None:
    values = {"model": {"system": "transformer"}, "training": {"pass_overhead": 7}}
    config = build_config(values, system_configs(), where="here")
    assert config.training.micro_batch_overhead == 7
    assert values["training"] == {"pass_overhead": 7}


def test_a_wrong_value_of_an_old_key_is_named_with_the_new_one() -> None:
    error = error_of(DEMO, "training.pass_joint=0")
    assert error.message.startswith("training.micro_batch_joint:")
    assert error.where == "from --set"


def test_a_key_under_both_names_is_refused(write: Any) -> None:
    path = write(f"{SYSTEM}{OLD_KEYS}micro_batch_joint = 5\n")
    error = error_of(path)
    assert (error.kind, error.where) == ("config.renamed-key", str(path))
    error = error_of(DEMO, "training.pass_joint=7", "training.micro_batch_joint=7")
    assert (error.kind, error.where) == ("config.renamed-key", "--set")
    assert error.hint == "remove training.pass_joint"
    both = {"training.pass_joint": 7, "training.micro_batch_joint": 7}
    with pytest.raises(ConfigError, match="is the old name of"):
        load(DEMO, **both)
    with pytest.raises(ConfigError, match="is the old name of"):
        load_recipe({"model": {"system": "transformer"}}, both)


@pytest.mark.parametrize(
    ("setting", "key", "default"),
    [
        ("max_epochs = 3", "max_epochs", None),
        ("stop = { patience = 3 }", "stop", None),
        ('schedule = { name = "plateau", factor = 0.3 }', "schedule.factor", 0.1),
    ],
)
def test_none_removes_a_setting_that_has_no_value_by_default(
    setting: str, key: str, default: float | None, write: Any
) -> None:
    path = write(f'[model]\nsystem = "reformer-fast"\n[training]\nmax_updates = 9\n{setting}\n')
    training = load(path, f"training.{key}=none").training
    assert attrgetter(key)(load(path).training) != default
    assert attrgetter(key)(training) == default


def test_none_is_refused_where_a_value_is_needed_and_a_value_where_it_is_one() -> None:
    assert "(got 'none')" in error_of(DEMO, "training.seed=none").message
    assert "(got 'none')" in error_of(DEMO, "training.schedule.warmup=none").message
    assert load(DEMO, "training.recompute=none").training.recompute == "none"


# Mistakes


@pytest.mark.parametrize(
    ("override", "key", "near"),
    [
        ("training.learning_rat=1", "training.learning_rat", "training.learning_rate"),
        ("model.widht=8", "model.widht", "model.width"),
        ("trainin.seed=1", "trainin", "training"),
        ("training.schedule.warmp=1", "training.schedule.warmp", "training.schedule.warmup"),
        ("decoding.bean=1", "decoding.bean", "decoding.beam"),
    ],
)
def test_an_unknown_key_gets_the_nearest_valid_one(override: str, key: str, near: str) -> None:
    error = error_of(DEMO, override)
    assert error.message == f"unknown key {key}"
    assert error.hint == f"did you mean {near}?"
    assert error.kind == "config.unknown-key"


def test_a_key_of_another_system_is_unknown() -> None:
    assert error_of("demo/transformer", "model.layers=3").kind == "config.unknown-key"


def test_an_unknown_key_says_whether_file_or_set_had_it(write: Any) -> None:
    path = write('[model]\nsystem = "transformer"\n[training]\nsed = 1\n')
    assert error_of(path).where == f"{path}, line 4"
    assert error_of(DEMO, "training.sed=1").where == "from --set"


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("training.seed=one", ["training.seed", "'one'"]),
        ("training.batch_tokens=0", ["training.batch_tokens", "0"]),
        ("training.label_smoothing=1.0", ["training.label_smoothing", "1.0"]),
        ("training.learning_rate=nan", ["training.learning_rate"]),
        ("training.precision=fp8", ["training.precision", "fp8"]),
        ("training.validate_every=0", ["training.validate_every", "0"]),
        ("model.width=250", ["250", "heads 4"]),
        ("model.heads=3", ["width 64 is not a multiple of heads 3"]),
        ("model.dropout=-0.1", ["model.dropout", "-0.1"]),
        ("model.tie=some", ["model.tie", "'some'"]),
        ("training.schedule=5", ["training.schedule", "5"]),
        ("training.stop={patience=0}", ["training.stop.patience", "0"]),
        ("model=5", ["model"]),
        ("expect.test={metric='bleu', low=5, high=4}", ["low 5 is above high 4"]),
    ],
)
def test_an_impossible_value_is_named_with_its_key(override: str, parts: list[str]) -> None:
    error = error_of(DEMO, override)
    assert all(part in error.message for part in parts), error.message
    assert "--set" in str(error.where)


def test_an_unknown_system_gets_the_nearest_one() -> None:
    error = error_of(DEMO, "model.system=reformer-fats")
    assert error.kind == "config.unknown-system"
    assert error.hint == "did you mean reformer-fast?"
    hint = error_of(DEMO, "model.system=of-another-package").hint
    assert hint == "jtrans models lists those installed here"


def test_a_file_without_a_system_lists_them(write: Any) -> None:
    error = error_of(write("[training]\nseed = 1\n"))
    assert error.kind == "config.missing-key"
    assert "reformer-base" in str(error.hint)


@pytest.mark.parametrize(
    "content", [b"[model\n", b"\xff\xfe[\x00", b"model = 3\n"], ids=["syntax", "utf-16", "no table"]
)
def test_a_file_that_is_no_configuration_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_bytes(content)
    assert str(path) in str(error_of(path).where)


@pytest.mark.parametrize(
    ("line", "place"),
    [("width = = 3", "line 3, column 9"), ("system = dlcl", "line 3, column 10")],
)
def test_a_fault_of_syntax_is_shown_with_its_place_and_its_line(
    line: str, place: str, tmp_path: Path
) -> None:
    path = tmp_path / "my.toml"
    path.write_text(f"# comment\n[model]\n{line}\n", encoding="utf-8")
    error = error_of(path)
    assert error.message == "not valid TOML: Invalid value"
    assert error.where == f"{path}, {place}"
    assert str(error.hint).startswith(f"look at `{line}`: text needs quotes")
    assert str(error.hint).endswith("jtrans recipes demo/transformer shows a valid file")


def test_a_file_that_ends_too_early_is_refused_with_a_valid_one_to_look_at(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text("[model", encoding="utf-8")
    error = error_of(path)
    assert "at end of document" in error.message
    assert "jtrans recipes demo/transformer" in str(error.hint)


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text('[model]\nsystem = "transformer"\n', encoding="utf-8-sig")
    assert load(path).model.system == "transformer"


# Names


@pytest.mark.parametrize(
    "key",
    [
        "training.max_epochs",
        "training.learning_rate",
        "training.validate_every",
        "model.width",
        "training.ema_decay",  # less than 1
    ],
)
def test_a_truth_value_is_no_number(key: str) -> None:
    error = error_of(DEMO, f"{key}=true")
    assert error.message == "true is not a number"
    assert error.where == f"{key}, from --set"


def test_a_run_in_place_of_a_recipe_gets_the_file_of_its_settings(write: Any) -> None:
    path = write("", "config.toml")
    assert error_of(path.parent).hint == f"its settings are in {path}"


def test_an_unknown_recipe_gets_the_nearest_one() -> None:
    error = error_of("demo/reformer-fats")
    assert error.kind == "config.unknown-recipe"
    assert error.hint == "did you mean demo/reformer-fast?"


def test_a_missing_file_is_not_taken_for_a_recipe(tmp_path: Path) -> None:
    assert error_of(tmp_path / "absent.toml").kind == "config.missing"


def test_a_recipe_of_ones_own_corpus_gets_the_one_that_fits_any() -> None:
    hint = "demo/transformer fits any corpus: --data data/prepared/alt-en-vi"
    assert str(error_of("alt-en-vi/transformer").hint).startswith(hint)
    assert error_of("multi30k-de-n/transformer").hint == "did you mean multi30k-de-en/transformer?"
    assert error_of("dmeo/transformer").hint == "did you mean demo/transformer?"


def test_what_recipes_share_is_no_recipe() -> None:
    assert error_of("_shared/iwslt").kind == "config.unknown-recipe"
    assert not any(name.startswith("_") for name in recipe_names())


def test_every_recipe_name_leads_to_its_file() -> None:
    assert all(find_config(name).is_file() for name in recipe_names())


# The resolved file


@pytest.mark.parametrize("name", ["demo/transformer", "nist-zh-en/reformer-fast-scaled"])
def test_the_resolved_file_can_be_loaded_as_it_is(name: str, write: Any) -> None:
    config = load(name, "training.max_minutes=1.5", "training.stop={patience=2}")
    assert load(write(config.to_toml())) == config


def test_the_resolved_file_has_every_default_written_out() -> None:
    values = tomllib.loads(load("demo/transformer").to_toml())
    assert values["training"]["clip_norm"] == 1.0
    assert values["training"]["precision"] == "auto"
    assert values["model"]["output_bias"] is False
    assert values["decoding"]["beam"] == 5


def test_a_configuration_cannot_be_changed() -> None:
    config = load(DEMO)
    with pytest.raises(Exception, match="frozen"):
        config.training.seed = 5  # type: ignore[misc]


def test_values_are_checked_without_a_file() -> None:
    with pytest.raises(ConfigError) as caught:
        build_config({"model": {"system": "transformer", "x": 1}}, system_configs(), where="here")
    assert caught.value.where == "here"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "training.validate_every=0",
            "'epoch', or input should be greater than 0, or a time such as '30 minutes' (got 0)",
        ),
        ("training.optimiser.betas=0.9", "betas: input should be a list (got 0.9)"),
        ("training=3", "training: input should be a section (got 3)"),
        ("training.seed=-1", "greater than or equal to 0 (got -1)"),
        ("training.seed=4294967296", "less than 4294967296 (got 4294967296)"),
        (f"training.max_updates={10**400}", f"less than {2**63} (got 1{'0' * 99}…)"),
        (f"training.schedule.warmup={10**400}", f"less than {2**63} (got 1{'0' * 99}…)"),
    ],
)
def test_a_wrong_value_is_explained_in_words_of_the_file(override: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("demo/transformer", system_configs(), overrides=[override])
    assert message in caught.value.message
    assert caught.value.where == "from --set"


def test_another_system_than_that_of_the_recipe_is_what_makes_its_settings_unknown() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("demo/transformer", system_configs(), overrides=["model.system=rnmt-plus"])
    assert ".toml, line " in str(caught.value.where)
    system = "the system is rnmt-plus (from --set)"
    assert caught.value.hint == f"{system}: start from a recipe of that system"


def test_another_system_than_that_of_the_file_extended_makes_its_settings_unknown(
    write: Any,
) -> None:
    """Its key is not misspelt, and cannot be unset."""
    write('[model]\nsystem = "reformer-base"\nlayers = 1\n', "base.toml")
    path = write('extends = "base.toml"\n[model]\nsystem = "transformer"\n')
    error = error_of(path)
    assert error.message == "unknown key model.layers"
    assert str(error.where).endswith("base.toml, line 3")
    start = f"the system is transformer ({path}, line 3): extend a recipe of that system, or"
    assert str(error.hint).startswith(start)


@pytest.mark.parametrize("override", [[], ["model.widht=3"]])
def test_a_misspelt_key_beside_another_system_than_that_of_the_base_is_misspelt(
    override: list[str], write: Any
) -> None:
    write('[model]\nsystem = "reformer-base"\n', "base.toml")
    misspelt = "" if override else "widht = 3\n"
    path = write(f'extends = "base.toml"\n[model]\nsystem = "transformer"\n{misspelt}')
    assert error_of(path, *override).hint == "did you mean model.width?"


def test_a_setting_within_something_else_than_a_section_is_refused() -> None:
    """It would drop the section of the recipe, whose settings would be the defaults then."""
    settings = ["training=1", "training.max_updates=2"]
    with pytest.raises(ConfigError) as caught:
        load_config("demo/transformer", system_configs(), overrides=settings)
    message = "training.max_updates cannot be set: training should be a section (got 1)"
    assert (caught.value.message, caught.value.where) == (message, "--set")


def test_all_that_a_value_may_be_is_named() -> None:
    with pytest.raises(ConfigError, match="'all', or input should be greater than 0") as caught:
        load_config("demo/convs2s", system_configs(), overrides=["model.attention=[0]"])
    assert caught.value.message.endswith("(got [0])")


# Faults of other schemas


class Garden(ConfigSection):
    flowers: Count
    name: str = "ours"


@pytest.mark.parametrize(
    ("values", "message", "kind", "hint"),
    [
        ({"flowers": 0}, "flowers: input should be greater than 0 (got 0)", "config.value", "dig"),
        ({}, "flowers: field required", "config.value", "dig"),
        (
            {"flowers": 1, "nam": "x"},
            "unknown key nam",
            "config.unknown-key",
            "did you mean name?",
        ),
    ],
)
def test_a_fault_of_any_schema_is_explained(
    values: dict[str, Any], message: str, kind: str, hint: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        Garden.model_validate(values)
    error = explain_fault(caught.value, Garden, where="garden.toml", hint="dig")
    assert (error.message, error.kind, error.hint) == (message, kind, hint)
    assert error.where == "garden.toml"


# Lines


BASE = """[model]
system = "transformer"
width = 64
heads = 4

[training]
max_epochs = 3
"""


@pytest.mark.parametrize(
    ("text", "key", "place"),
    [
        ("[model]\nwidht = 3\n", "model.widht", "my.toml, line 4"),
        ("\n[model]\nwidth = 66\n", "width 66", "my.toml, line 4"),
        ("[trainng]\n", "trainng", "my.toml, line 3"),
        ("training.seed = -1\n", "training.seed", "my.toml, line 3"),
        ("[training]\npass_joint = -1\n", "training.micro_batch_joint", "my.toml, line 4"),
        ('[data]\ncorpus = """\nseed = 1\n"""\ncorpse = 1\n', "data.corpse", "my.toml, line 7"),
        (
            "[training.stop]\n# patience = 5\npatience = [\n  1]\n",
            "training.stop.patience",
            "my.toml, line 5",
        ),
        ("training.optimiser = { betas = [\n2, 3]}\n", "training.optimiser.betas.0", "line 3"),
        ("model.ffn_width = 128\n", "system", "base.toml, line 2"),
    ],
)
def test_a_mistake_is_named_with_the_line_of_its_file(
    text: str, key: str, place: str, write: Any
) -> None:
    base = BASE.replace("transformer", "transfomer") if key == "system" else BASE
    write(base, "base.toml")
    error = error_of(write('extends = "base.toml"\n\n' + text))
    assert key in error.message
    assert str(error.where).endswith(place)


def test_a_mistake_of_the_file_extended_is_named_with_its_line(write: Any) -> None:
    write(BASE.replace("max_epochs = 3", 'max_epochs = "three"'), "base.toml")
    error = error_of(write('extends = "base.toml"\n[training]\nseed = 1\n'))
    assert str(error.where).endswith("base.toml, line 7")
    fixed = write('extends = "base.toml"\n[training]\nseed = 1\nmax_epochs = 4\n')
    assert load(fixed).training.max_epochs == 4


def test_an_option_goes_before_the_lines_of_files(write: Any) -> None:
    path = write(BASE)
    assert error_of(path, "model.heads=7").where == "model, from --set"
    assert error_of(path, "training.seed=-1").where == "from --set"


def test_a_byte_that_is_no_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_bytes(BASE.encode() + b"# \xff\n")
    error = error_of(tmp_path / "my.toml")
    assert str(error.where).endswith("my.toml, line 8")
    assert error.hint == "save it as UTF-8"
