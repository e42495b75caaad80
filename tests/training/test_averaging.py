import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from plugins.small_corpus import make_nouns, tiny_config

from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import CheckpointError, ConfigError
from jtrans.models.zoo import build_model, load_weights
from jtrans.progress import Silent
from jtrans.runs import Checkpoint, Run
from jtrans.training.session import train
from jtrans.training.weights.averaging import (
    average_checkpoints,
    average_weights,
    check_place,
    choose_checkpoints,
    replaced_average,
)
from jtrans.training.weights.best_average import validate_averages
from jtrans.training.weights.several_runs import checkpoints_of_runs, has_one_origin


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, corpus: PreparedCorpus) -> Run:
    """A run with the checkpoints 2, 4 and 6."""
    config = tiny_config(max_updates=6, validate_every=2, validate_sentences=0)
    folder = tmp_path_factory.mktemp("averaging") / "run"
    train(config, data=corpus.folder, run=folder)
    return Run(folder)


def logits(run: Run, checkpoint: Checkpoint) -> torch.Tensor:
    from jtrans.models.zoo import system_configs

    sizes = run.pipeline.vocabulary_sizes
    model = build_model(run.config(system_configs()).model, *sizes).eval()
    load_weights(model, checkpoint.weights)
    source = torch.tensor([[5, 6, 7, 1]])
    with torch.no_grad():
        memory = model.encode(source, source > 0)
        return model.project(model.decode(torch.tensor([[1, 4, 5]]), memory))


def test_the_average_of_identical_checkpoints_gives_their_logits(run: Run) -> None:  # G11
    last = run.checkpoint("last")
    average_checkpoints(run, [last] * 3, "same")
    torch.testing.assert_close(logits(run, run.checkpoint("same")), logits(run, last))


def test_the_average_is_the_mean_of_the_weights(run: Run) -> None:
    chosen = choose_checkpoints(run, last=2)
    average_checkpoints(run, chosen)
    assert [checkpoint.update for checkpoint in chosen] == [4, 6]
    first, second = (safetensors.torch.load_file(checkpoint.weights) for checkpoint in chosen)
    for name, mean in safetensors.torch.load_file(run.checkpoint("average").weights).items():
        torch.testing.assert_close(mean, (first[name] + second[name]) / 2)


def test_averages_are_taken_in_float32(tmp_path: Path) -> None:
    values = [2048.0, 1.0, 1.0]  # of which float16 has no sum: 2049 would be 2048, twice
    paths = []
    for index, value in enumerate(values):
        paths.append(tmp_path / f"{index}.safetensors")
        tensor = torch.tensor([value], dtype=torch.float16)
        safetensors.torch.save_file({"w": tensor}, paths[-1])
    means, _ = average_weights(paths)
    assert means["w"].dtype == torch.float16
    assert means["w"].item() == 683.5  # as near to 2050 / 3 as float16 can be


def test_chosen_updates_are_averaged_in_order(run: Run) -> None:
    assert [checkpoint.update for checkpoint in choose_checkpoints(run, updates=[6, 2])] == [2, 6]


def test_more_checkpoints_than_there_are_is_refused(run: Run) -> None:
    with pytest.raises(CheckpointError, match="3 checkpoints, not 5: of updates 2, 4, 6") as caught:
        choose_checkpoints(run, last=5)
    assert caught.value.hint is not None and caught.value.hint.startswith("--last 3")


def test_a_run_that_has_saved_nothing_is_refused_with_the_command_that_trains_it(
    tmp_path: Path,
) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint yet") as caught:
        choose_checkpoints(Run(tmp_path / "new"), last=5)
    assert str(caught.value.hint).startswith("train it: jtrans train ")


def test_averages_are_chosen_by_bleu_also_where_training_measured_none(
    run: Run, corpus: PreparedCorpus
) -> None:
    candidates = validate_averages(
        run, run.checkpoints(), corpus, "valid-bleu", device="cpu", progress=Silent()
    )
    values = [each.value for each in candidates]
    assert len(values) == 3 and values == sorted(values, reverse=True)


def test_an_average_is_judged_by_its_own_validation(run: Run, corpus: PreparedCorpus) -> None:
    candidates = validate_averages(
        run, run.checkpoints()[-2:], corpus, "valid-loss", device="cpu", progress=Silent()
    )
    newest, both = (each.value for each in sorted(candidates, key=lambda c: len(c.checkpoints)))
    assert newest == pytest.approx(run.validations()[-1]["valid_loss"], rel=1e-5)
    assert both != pytest.approx(newest, rel=1e-5)


@pytest.mark.parametrize("last", [0, -1])
def test_no_checkpoints_at_all_is_refused(run: Run, last: int) -> None:
    with pytest.raises(ConfigError) as caught:
        choose_checkpoints(run, last=last)
    assert caught.value.hint is not None and "--last N" in caught.value.hint


@pytest.mark.parametrize(
    "name", ["best", "last", "window", "step-00000002", "../x", "a/b", "", "12", "pointers.json"]
)
def test_names_that_mean_something_else_are_refused(run: Run, name: str) -> None:
    before = sorted(run.folder.rglob("*"))
    with pytest.raises(ConfigError):
        average_checkpoints(run, choose_checkpoints(run, last=2), name)
    assert sorted(run.folder.rglob("*")) == before


@pytest.mark.parametrize("record", [None, "", '{"of": 2}', "[]"])
def test_a_named_average_is_not_replaced_by_another(
    run: Run, tmp_path: Path, record: str | None
) -> None:
    copy = Run(Path(shutil.copytree(run.folder, tmp_path / "copy")))
    newest, earlier = (choose_checkpoints(copy, updates=each) for each in ([4, 6], [2, 4]))
    assert replaced_average(copy, newest, "mid") == []
    folder = average_checkpoints(copy, newest, "mid")
    assert replaced_average(copy, newest, "mid") == []  # averaged again
    if record is not None:
        (folder / "average.json").write_text(record, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"checkpoints/mid exists") as caught:
        replaced_average(copy, earlier, "mid")
    assert ("step-00000004, step-00000006" in caught.value.message) == (record is None)
    assert caught.value.hint == "choose another name, or delete that folder"


def test_the_average_without_a_name_follows_the_newest_checkpoints(
    run: Run, tmp_path: Path
) -> None:
    copy = Run(Path(shutil.copytree(run.folder, tmp_path / "copy")))
    average_checkpoints(copy, choose_checkpoints(copy, updates=[2, 4]))
    replaced = replaced_average(copy, choose_checkpoints(copy, last=2), "average")
    assert replaced == ["step-00000002", "step-00000004"]


def test_a_folder_with_other_files_than_an_average_is_not_replaced(
    run: Run, tmp_path: Path
) -> None:
    copy = Run(Path(shutil.copytree(run.folder, tmp_path / "copy")))
    newest = choose_checkpoints(copy, last=2)
    folder = average_checkpoints(copy, choose_checkpoints(copy, updates=[2, 4]))
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match="checkpoints/average exists"):
        replaced_average(copy, newest, "average")
    shutil.rmtree(folder)
    folder.write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match="checkpoints/average exists"):
        replaced_average(copy, newest, "average")


def test_a_place_is_refused_only_if_no_average_of_the_newest_may_have_it(
    run: Run, tmp_path: Path
) -> None:
    copy = Run(Path(shutil.copytree(run.folder, tmp_path / "copy")))
    every = choose_checkpoints(copy)
    check_place(copy, every, "mid")
    folder = average_checkpoints(copy, choose_checkpoints(copy, last=2), "mid")
    check_place(copy, every, "mid")
    average_checkpoints(copy, choose_checkpoints(copy, updates=[2, 4]), "early")
    with pytest.raises(ConfigError, match="checkpoints/early exists"):
        check_place(copy, every, "early")
    (folder / "average.json").unlink()
    with pytest.raises(ConfigError, match="checkpoints/mid exists"):
        check_place(copy, every, "mid")


def test_all_checkpoints_are_those_with_weights(run: Run, tmp_path: Path) -> None:
    copy = Run(Path(shutil.copytree(run.folder, tmp_path / "copy")))
    (copy.checkpoints_folder / "step-00000004" / "model.safetensors").unlink()
    assert [each.update for each in choose_checkpoints(copy)] == [2, 6]


def test_checkpoints_of_different_models_are_refused(run: Run, tmp_path: Path) -> None:
    safetensors.torch.save_file({"w": torch.ones(2)}, tmp_path / "other.safetensors")
    with pytest.raises(CheckpointError, match="different models"):
        average_weights([run.checkpoint("last").weights, tmp_path / "other.safetensors"])


@pytest.mark.parametrize("damage", ["cut", "sign of a weight"])
def test_a_damaged_checkpoint_is_refused_and_nothing_written(
    run: Run, tmp_path: Path, damage: str
) -> None:
    copy = Run(Path(shutil.copytree(run.folder, tmp_path / "copy")))
    weights = copy.checkpoint("last").weights
    data = bytearray(weights.read_bytes())
    data[-1] ^= 0x80
    weights.write_bytes(data[:-9] if damage == "cut" else data)
    before: list[Any] = sorted(copy.folder.rglob("*"))
    with pytest.raises(CheckpointError, match="damaged"):
        average_checkpoints(copy, choose_checkpoints(copy, last=2), "new")
    assert sorted(copy.folder.rglob("*")) == before


def test_the_error_for_a_damaged_checkpoint_names_those_that_are_not(
    run: Run, tmp_path: Path
) -> None:
    copy = Run(Path(shutil.copytree(run.folder, tmp_path / "copy")))
    first, *others = copy.checkpoints()
    first.weights.write_bytes(b"")
    with pytest.raises(CheckpointError) as caught:
        average_checkpoints(copy, copy.checkpoints())
    updates = ",".join(str(each.update) for each in others)
    assert caught.value.hint == f"choose undamaged ones: --steps {updates}"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_are_not_finite_are_not_averaged(value: float, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file({"w": torch.tensor([1.0, value])}, path)
    with pytest.raises(CheckpointError, match="finite"):
        average_weights([path])


def test_runs_of_one_model_are_averaged_by_their_shares(
    run: Run, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    tuned, copy = tmp_path / "tuned", Run(Path(shutil.copytree(run.folder, tmp_path / "base")))
    config = tiny_config(max_updates=2, validate_every=2, model={"dropout": 0.3})
    train(config, data=corpus.folder, run=tuned, initial=copy)
    runs = [copy, Run(tuned, "last")]
    checkpoints = checkpoints_of_runs(runs, [0.25, 0.75])
    assert [each.name for each in checkpoints] == [
        f"0.25 base@{copy.checkpoint('best').name}",
        "0.75 tuned@step-00000002",
    ]
    average_checkpoints(copy, checkpoints, "mixed", [1, 3])
    first, second = (safetensors.torch.load_file(each.weights) for each in checkpoints)
    for name, mean in safetensors.torch.load_file(copy.checkpoint("mixed").weights).items():
        torch.testing.assert_close(mean, first[name] / 4 + second[name] * 3 / 4)
    again = Run(Path(shutil.copytree(tuned, tmp_path / "again")))
    again.update_info(**{"from": str(tuned)})  # of the tuned run, in turn
    assert has_one_origin([*runs, again]) and has_one_origin([again, again])
    assert not has_one_origin([*runs, run])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"heads": 1}, "model.heads is 2 and 1"),
        (
            {"system": "reformer-fast"},
            r"averaged: model\.system is transformer and reformer-fast\nhint",
        ),
        (None, "their vocabularies or text pipelines differ"),
    ],
)
def test_runs_of_another_model_are_not_averaged(
    change: dict[str, Any] | None, said: str, run: Run, tmp_path: Path
) -> None:
    system = (change or {}).get("system", "transformer")
    settings = {key: value for key, value in (change or {}).items() if key != "system"}
    pipeline = run.pipeline
    if change is None:
        pipeline = make_nouns(tmp_path / "other", seed=5).pipeline
    other = Run.create(tmp_path / "o", tiny_config(system, model=settings), pipeline, {})
    with pytest.raises(CheckpointError, match=said):
        checkpoints_of_runs([run, other], None)
