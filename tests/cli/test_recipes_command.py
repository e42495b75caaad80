"""`jtrans recipes`: list, print, copy."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from plugins.command_line import Jtrans

from jtrans.config import load_config, recipe_names
from jtrans.models.zoo import system_configs


def test_the_list_has_one_line_for_each_recipe(jtrans: Jtrans) -> None:
    lines = jtrans("recipes").out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == recipe_names()


def test_the_list_as_json_has_names_and_descriptions(jtrans: Jtrans) -> None:
    entries = json.loads(jtrans("recipes", "--json").out)["recipes"]
    assert [entry["name"] for entry in entries] == recipe_names()
    assert all(entry["description"].endswith(".") for entry in entries)


def test_verified_recipes_say_where_and_by_which_results(
    jtrans: Jtrans, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    band = '{ metric = "bleu", low = 30.1, high = 31.2, seeds = 3, minutes = 12, results = "a" }'
    verified = tmp_path / "recipes" / "mine" / "small.toml"
    verified.parent.mkdir(parents=True)
    text = f'# Mine.\n\n[model]\nsystem = "transformer"\n\n[expect]\ntest = {band}\n'
    verified.write_text(text, encoding="utf-8")
    monkeypatch.setattr("jtrans.config.load.RECIPES", tmp_path / "recipes")
    [entry] = json.loads(jtrans("recipes", "--json").out)["recipes"]
    assert entry["verified"] == ["test bleu 30.1 to 31.2, 3 seeds, 12 min, a"]
    assert entry["verified"][0] in jtrans("recipes").out


def test_expected_scores_hold_for_other_seeds_but_not_for_other_settings(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    band = '{ metric = "bleu", low = 1.0, high = 2.0 }'
    path.write_text(f'[model]\nsystem = "transformer"\n[expect]\ntest = {band}\n', "utf-8")
    child = tmp_path / "child.toml"
    child.write_text('extends = "mine.toml"\n[training]\nl2 = 0.5\n', "utf-8")

    def expected(file: Path, *overrides: str) -> bool:
        return bool(load_config(str(file), system_configs(), overrides=overrides).expect)

    assert expected(path)
    assert expected(path, "training.seed=7")
    assert not expected(path, "training.max_updates=7")
    assert not expected(child)


def test_a_recipe_is_printed_complete(jtrans: Jtrans) -> None:
    values = tomllib.loads(jtrans("recipes", "iwslt14-de-en/reformer-fast").out)
    assert values["model"]["prenet_layers"] == 5
    assert values["training"]["schedule"]["warmup"] == 8000


def test_a_recipe_as_json_holds_the_same_text(jtrans: Jtrans) -> None:
    value = json.loads(jtrans("recipes", "demo/transformer", "--json").out)
    assert value["toml"] == jtrans("recipes", "demo/transformer").out


def test_a_copy_trains_the_same_model_from_anywhere(jtrans: Jtrans, tmp_path: Path) -> None:
    copy = tmp_path / "deep" / "my.toml"
    assert jtrans("recipes", "iwslt14-de-en/reformer-fast", "--copy", copy).code == 0
    assert load_config(str(copy), system_configs()) == load_config(
        "iwslt14-de-en/reformer-fast", system_configs()
    )


def test_a_copy_expects_no_scores_as_it_will_be_changed(jtrans: Jtrans, tmp_path: Path) -> None:
    copy, name = tmp_path / "my.toml", "demo/transformer-small"
    assert jtrans("recipes", name, "--copy", copy).code == 0
    recipe = load_config(name, system_configs())
    assert recipe.expect
    assert load_config(str(copy), system_configs()) == recipe.model_copy(update={"expect": {}})


def test_a_copy_into_a_folder_keeps_the_name(jtrans: Jtrans, tmp_path: Path) -> None:
    written = json.loads(jtrans("recipes", "demo/transformer", "--copy", tmp_path, "--json").out)
    assert written["copy"] == str(tmp_path / "transformer.toml")
    assert (tmp_path / "transformer.toml").is_file()


def test_a_copy_never_overwrites(jtrans: Jtrans, tmp_path: Path) -> None:
    mine = tmp_path / "my.toml"
    mine.write_text("mine", encoding="utf-8")
    result = jtrans("recipes", "demo/transformer", "--copy", mine)
    assert result.code == 2
    assert "never overwrites" in result.err
    assert mine.read_text(encoding="utf-8") == "mine"


def test_a_copy_that_train_would_not_read_is_refused(jtrans: Jtrans, tmp_path: Path) -> None:
    result = jtrans("recipes", "demo/transformer", "--copy", tmp_path / "my")
    assert result.code == 2
    assert result.err.rstrip().endswith("my.toml")
    assert list(tmp_path.iterdir()) == []
    piped = jtrans("recipes", "demo/transformer", "--copy", "-")
    assert piped.code == 2 and "jtrans recipes demo/transformer prints it" in piped.err


def test_copying_without_a_name_is_refused(jtrans: Jtrans, tmp_path: Path) -> None:
    result = jtrans("recipes", "--copy", tmp_path / "my.toml")
    assert result.code == 2


def test_an_unknown_recipe_gets_the_nearest_one(jtrans: Jtrans) -> None:
    result = jtrans("recipes", "demo/transfomer")
    assert result.code == 2
    assert "hint: did you mean demo/transformer?" in result.err


def test_a_file_of_the_users_own_is_shown_but_not_copied(jtrans: Jtrans, tmp_path: Path) -> None:
    mine, elsewhere = tmp_path / "my.toml", tmp_path / "elsewhere.toml"
    mine.write_text('extends = "base.toml"\n', encoding="utf-8", newline="\n")
    assert jtrans("recipes", mine).out == 'extends = "base.toml"\n'
    result = jtrans("recipes", mine, "--copy", elsewhere)
    assert result.code == 2 and f"{mine} is a file of your own" in result.err
    assert not elsewhere.exists()
    mine.write_bytes(b"\xff")
    result = jtrans("recipes", mine)
    assert result.code == 2 and "is not UTF-8" in result.err


def test_the_next_command_can_be_pasted_whatever_the_names(jtrans: Jtrans, tmp_path: Path) -> None:
    copy, text, codes = tmp_path / "my r.toml", tmp_path / "a b", tmp_path / "c d"
    result = jtrans("recipes", "demo/dlcl", "--copy", copy)
    assert f"Next: jtrans train '{copy}'" in result.err
    text.write_text("aa aa aa\n", encoding="utf-8")
    result = jtrans("bpe", "learn", "--merges", 1, "--input", text, "--output", codes)
    assert f"Next: jtrans bpe apply --codes '{codes}' < '{text}' > '{text}.bpe'" in result.err
