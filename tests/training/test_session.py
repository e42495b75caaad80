import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from plugins.folders import contents
from plugins.small_corpus import make_corpus, tiny_config
from plugins.training_runs import CrashError, CrashingEvents

from jtrans.config import Config, build_config
from jtrans.config.schema import DecodingConfig
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import (
    CheckpointError,
    ConfigError,
    CorpusError,
    DecodingError,
    JtransError,
)
from jtrans.models.systems import PervasiveConfig
from jtrans.models.zoo import system_configs
from jtrans.nn.device import DeviceInfo
from jtrans.runs import Run
from jtrans.training.divergence.good_state import InitialState
from jtrans.training.events import Start, TrainingEvents
from jtrans.training.session import find_existing, train
from jtrans.training.setup import build
from jtrans.training.setup.build import make_trainer
from jtrans.training.validation import Validator


@pytest.fixture(scope="module")
def _three_updates(corpus: PreparedCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(tiny_config(max_updates=3), data=corpus.folder, run=folder)
    return folder


@pytest.fixture
def run(_three_updates: Path, tmp_path: Path) -> Path:
    """A run of three updates."""
    return Path(shutil.copytree(_three_updates, tmp_path / "run"))


def refusal(error: type[JtransError], run: Path, **arguments: Any) -> JtransError:
    """Train, expect to be refused with nothing written, and return the error."""
    before = contents(run)
    with pytest.raises(error) as caught:
        train(run=run, **arguments)
    assert contents(run) == before
    assert caught.value.exit_code == 2
    return caught.value


def test_a_run_keeps_the_word_counts_of_its_corpus(run: Path, corpus: PreparedCorpus) -> None:
    assert Run.open(run).word_counts() == corpus.word_counts("target")


def test_a_missing_corpus_is_refused(make_config: Any, tmp_path: Path) -> None:
    refusal(CorpusError, tmp_path / "run", config=make_config(), data=tmp_path / "nowhere")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"max_updates": None}, "config.no-limit"),
        ({"best_metric": "valid-bleu", "validate_sentences": 0}, "config.value"),
        ({"model": {"width": 2**40, "heads": 1}}, "config.too-large"),
        ({"model": {"width": 10**9, "heads": 1}}, "config.too-large"),
        ({"model": {"ffn_width": 10**18}}, "config.too-large"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    settings: dict[str, Any], kind: str, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    error = refusal(
        ConfigError, tmp_path / "run", config=make_config(**settings), data=corpus.folder
    )
    assert error.kind == kind
    assert not (tmp_path / "run").exists()


def test_sentences_longer_than_the_position_tables_are_refused(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    pairs = corpus.pairs("train")
    longest = int(max(pairs.source.lengths.max(), pairs.target.lengths.max()))
    values = make_config(max_updates=1).model_dump()
    values["model"] = {
        "system": "convs2s",
        "width": 8,
        "output_width": 8,
        "encoder_layers": "(8, 3)",
        "decoder_layers": "(8, 3)",
        "positions": longest - 1,
    }
    config = build_config(values, system_configs(), where="test")
    error = refusal(CorpusError, tmp_path / "run", config=config, data=corpus.folder)
    assert error.kind == "corpus.too-long"
    assert f"up to {longest} tokens" in error.message
    assert f"model.positions={longest}" in str(error.hint)
    values["model"]["positions"] = longest
    config = build_config(values, system_configs(), where="test")
    train(config, data=corpus.folder, run=tmp_path / "run")


def test_an_absent_device_is_refused(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    refusal(
        ConfigError, tmp_path / "run", config=make_config(), data=corpus.folder, device="cuda:99"
    )
    assert not (tmp_path / "run").exists()


def test_a_folder_with_other_things_is_left_alone(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter.txt").write_text("years of work", encoding="utf-8")
    for restart in (False, True):
        error = refusal(
            ConfigError, folder, config=make_config(), data=corpus.folder, restart=restart
        )
        assert error.kind == "run.not-a-run"


def test_the_runs_of_seeds_are_named_where_a_run_is_expected(
    run: Path, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    for seed in (1, 2):
        shutil.copytree(run, tmp_path / "seeds" / f"seed-{seed}")
    error = refusal(ConfigError, tmp_path / "seeds", config=make_config(), data=corpus.folder)
    assert str(error.hint).startswith("continue its runs with --seeds 1,2, or choose another")


def test_another_vocabulary_is_refused(run: Path, make_config: Any, tmp_path: Path) -> None:
    other = make_corpus(tmp_path / "other", pairs=21)
    error = refusal(CheckpointError, run, config=make_config(), data=other.folder)
    assert "different vocabularies" in error.message


def test_other_training_data_are_refused(
    run: Path, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    train_split = Run(run).info["train"]
    Run(run).update_info(train={**train_split, "pairs": 7})
    error = refusal(CheckpointError, run, config=make_config(), data=corpus.folder)
    assert "different training data" in error.message
    assert error.hint is not None  # the corpus, prepared anew, is not offered as the run's own
    assert error.hint.startswith("--data DIR with its own corpus continues it; --restart --data")


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"model": {"width": 32}}, "model.width"),
        ({"system": "reformer-fast"}, "model."),
        ({"seed": 2}, "training.seed"),
        ({"batch_tokens": 70}, "training.batch_tokens"),
        ({"optimiser": {"eps": 1e-6}}, "training.optimiser.eps"),
    ],
)
def test_settings_that_make_another_run_are_refused(
    change: dict[str, Any], key: str, run: Path, corpus: PreparedCorpus, make_config: Any
) -> None:
    error = refusal(ConfigError, run, config=make_config(**change), data=corpus.folder)
    assert error.message.startswith(key)
    assert error.kind == "config.fixed-key"
    assert error.hint is not None and "--restart" in error.hint


@pytest.mark.sample(2)
@pytest.mark.parametrize("metric", ["valid-bleu", "valid-chrf", "valid-loss"])
@pytest.mark.parametrize("key", ["validate_sentences", "validate_beam"])
def test_translations_that_are_compared_stay_those_of_the_same_sentences(
    metric: str, key: str, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    stop, run = {"stop": {"metric": metric}}, tmp_path / "run"
    train(make_config(max_updates=2, **stop), data=corpus.folder, run=run)
    changed = make_config(max_updates=4, **{key: 3}, **stop)
    if metric == "valid-loss":
        assert train(changed, data=corpus.folder, run=run).update == 4
        return
    error = refusal(ConfigError, run, config=changed, data=corpus.folder)
    assert error.message.startswith(f"training.{key}")
    without_stop = make_config(max_updates=4, **{key: 3})
    assert train(without_stop, data=corpus.folder, run=run).update == 4


def with_search(config: Config, **search: Any) -> Config:
    """Return a configuration with other settings of the search."""
    return config.model_copy(update={"decoding": DecodingConfig(**search)})


@pytest.mark.parametrize("deciding", [{"best_metric": "valid-bleu"}, {"keep": {"window": 2}}])
@pytest.mark.parametrize("search", [{"max_length": "2"}, {"length_penalty": 2.0}])
def test_translations_that_are_compared_stay_those_of_the_same_search(
    deciding: dict[str, Any],
    search: dict[str, Any],
    run: Path,
    corpus: PreparedCorpus,
    make_config: Any,
) -> None:
    train(make_config(max_updates=4, **deciding), data=corpus.folder, run=run, restart=True)
    changed = with_search(make_config(max_updates=6, **deciding), **{"max_length": "S+5", **search})
    error = refusal(ConfigError, run, config=changed, data=corpus.folder)
    assert error.message.startswith(f"decoding.{next(iter(search))} is")


class Changes(TrainingEvents):
    """Records the settings that change when a run continues."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def start(self, start: Start) -> None:
        self.seen.extend(start.changes)


def test_changed_rates_are_reported(run: Path, corpus: PreparedCorpus, make_config: Any) -> None:
    changes = Changes()
    config = make_config(max_updates=4, learning_rate=0.001)
    train(config, data=corpus.folder, run=run, events=changes)
    assert changes.seen == ["training.learning_rate 0.01 -> 0.001", "training.max_updates 3 -> 4"]


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("batch_tokens = 60", "batch_tokens = 90", "training.batch_tokens"),
        ("seed = 1", "seed = 2", "training.seed"),
    ],
)
def test_fixed_settings_cannot_be_changed_in_the_file_of_the_run_either(
    run: Path, corpus: PreparedCorpus, old: str, new: str, key: str
) -> None:
    path = run / "config.toml"
    text = path.read_text(encoding="utf-8")
    assert text.count(f"\n{old}\n") == 1
    edited = text.replace(f"\n{old}\n", f"\n{new}\n").replace("max_updates = 3", "max_updates = 4")
    path.write_text(edited, encoding="utf-8")
    with pytest.raises(ConfigError, match=f"{key} is .* here, but the run has"):
        train(Run(run).config(system_configs()), data=corpus.folder, run=run)
    path.write_text(text.replace("max_updates = 3", "max_updates = 4"), encoding="utf-8")
    changes = Changes()
    train(Run(run).config(system_configs()), data=corpus.folder, run=run, events=changes)
    assert changes.seen == ["training.max_updates 3 -> 4"]


def test_a_changed_search_is_reported(run: Path, corpus: PreparedCorpus, make_config: Any) -> None:
    changes = Changes()
    config = with_search(make_config(max_updates=4), beam=3, max_length="S+5")
    train(config, data=corpus.folder, run=run, events=changes)
    assert changes.seen == ["decoding.beam 5 -> 3", "training.max_updates 3 -> 4"]


def test_a_run_with_the_old_names_of_settings_continues_under_the_new_ones(
    run: Path, corpus: PreparedCorpus, make_config: Any
) -> None:
    path, changes = run / "config.toml", Changes()
    earlier = json.loads((run / "run.json").read_text(encoding="utf-8"))
    del earlier["settings"]
    (run / "run.json").write_text(json.dumps(earlier), encoding="utf-8")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("micro_batch_", "pass_"), encoding="utf-8")
    assert "pass_joint" in path.read_text(encoding="utf-8")
    result = train(make_config(max_updates=4), data=corpus.folder, run=run, events=changes)
    assert (result.update, changes.seen) == (4, ["training.max_updates 3 -> 4"])
    written = path.read_text(encoding="utf-8")
    assert written == text.replace("max_updates = 3", "max_updates = 4")


def test_restart_starts_over(run: Path, corpus: PreparedCorpus, make_config: Any) -> None:
    config = make_config(seed=5, max_updates=2)
    result = train(config, data=corpus.folder, run=run, restart=True)
    assert (result.update, len(Run(run).checkpoints())) == (2, 1)
    assert not list(run.parent.glob(".run*"))


def test_a_restart_is_checked_as_a_new_run_is(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    dense = PervasiveConfig(network="dense", aggregation="max", layers=1)

    def config(**settings: Any) -> Config:
        made: Config = make_config(max_updates=1, **settings)
        return made.model_copy(update={"model": dense})

    run = tmp_path / "run"
    train(config(r_drop=5.0), data=corpus.folder, run=run)
    spoilt = config(r_drop=5.0, cutoff=0.05)
    with pytest.raises(ConfigError, match="would count as padding"):
        train(spoilt, data=corpus.folder, run=run, restart=True)
    assert Run(run).checkpoints()


def test_a_run_in_use_is_refused_even_with_restart(
    run: Path, corpus: PreparedCorpus, make_config: Any
) -> None:
    with Run(run).lock():
        for restart in (False, True):
            error = refusal(
                JtransError, run, config=make_config(), data=corpus.folder, restart=restart
            )
            assert error.kind == "run.locked"


FILES = ["model.safetensors", "state.safetensors", "state.json", "sha256.json"]
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda content: content[:-40],
    "zeros": lambda content: bytes(len(content)),
    "swapped": lambda content: b"\x80\x02cos\nsystem\n" + content,
}


def damage_file(path: Path, damage: str) -> None:
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(DAMAGES[damage](path.read_bytes()))


def script_losses(monkeypatch: pytest.MonkeyPatch, values: Iterable[float]) -> None:
    """Let validations give these losses, one after the other."""
    losses, validate = iter(values), Validator.__call__

    def scripted(validator: Validator, *arguments: Any) -> dict[str, Any]:
        return {**validate(validator, *arguments), "loss": next(losses)}

    monkeypatch.setattr(Validator, "__call__", scripted)


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    ("name", "damage", "is_sealed"),
    [
        (name, damage, is_sealed)
        for name in FILES
        for damage in ("cut", "zeros", "swapped", "missing")
        for is_sealed in (True, False)
        if name != "sha256.json" or (is_sealed and damage != "missing")
    ],
)
def test_a_damaged_newest_checkpoint_is_passed_over(
    name: str,
    damage: str,
    is_sealed: bool,
    corpus: PreparedCorpus,
    make_config: Any,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = make_config(validate_every=2, max_updates=6)
    run = Run(tmp_path / "run")
    train(config, data=corpus.folder, run=run.folder)
    newest = run.checkpoint("last").folder
    expected = contents(newest)
    if not is_sealed:
        (newest / "sha256.json").unlink()
    damage_file(newest / name, damage)
    assert train(config, data=corpus.folder, run=run.folder).trained
    assert f"{name}" in caplog.text and "using step-00000004" in caplog.text
    for path, content in expected.items():
        if Path(path).suffix == ".safetensors":
            assert contents(newest)[path] == content


def test_the_best_checkpoint_is_the_best_of_those_that_are_left(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of an earlier state was deleted when a better one came, which is damaged now."""
    script_losses(monkeypatch, [3.0, 5.0, 4.5, 2.0, 5.0, 5.0])
    values = {"validate_every": 2, "keep": {"last": 3, "best": 1}}
    run = Run(tmp_path / "run")
    train(make_config(max_updates=8, **values), data=corpus.folder, run=run.folder)
    assert run.pointers()["best"] == run.checkpoint("last").name
    (run.checkpoint("last").folder / "state.safetensors").write_bytes(b"cut off")
    train(make_config(max_updates=10, **values), data=corpus.folder, run=run.folder)
    assert run.checkpoint("best").update == 6
    assert run.pointers()["best"] == "step-00000006"


def test_the_best_that_is_left_is_of_a_validation(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script_losses(monkeypatch, [3.0, 2.0, 5.0])
    run = Run(tmp_path / "run")
    train(make_config(max_updates=4, validate_every=2), data=corpus.folder, run=run.folder)
    config = make_config(max_updates=6, validate_every=2)
    train(config, data=corpus.folder, run=run.folder, should_stop=lambda: True)
    assert run.checkpoint("last").update == 5  # knows the loss of 4
    shutil.rmtree(run.checkpoint("best").folder)
    train(config, data=corpus.folder, run=run.folder)
    assert run.checkpoint("best").update == 2


def test_a_damaged_checkpoint_does_not_take_the_place_of_the_best(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script_losses(monkeypatch, [5.0, 4.5, 2.0, 6.0, 7.0, 8.0])
    values = {"keep": {"last": 2, "best": 1}}
    run = Run(tmp_path / "run")
    config = make_config(max_updates=6, validate_every=2, **values)
    train(config, data=corpus.folder, run=run.folder)
    (run.checkpoint("last").folder / "state.safetensors").write_bytes(b"cut off")
    # the second time it is not newer than where training resumes
    for most, kept in ((10, [4, 5, 6, 10]), (15, [4, 6, 10, 15])):
        config = make_config(max_updates=most, validate_every=5, **values)
        train(config, data=corpus.folder, run=run.folder)
        assert run.checkpoint("best").name == run.pointers()["best"] == "step-00000004"
        assert [each.update for each in run.checkpoints()] == kept


def test_a_damaged_checkpoint_that_is_written_anew_is_like_any_other(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script_losses(monkeypatch, [2.0, *[3.0] * 6])
    values = {"validate_every": 2, "keep": {"last": 1, "best": 1}}
    run = Run(tmp_path / "run")
    train(make_config(max_updates=6, **values), data=corpus.folder, run=run.folder)
    (run.checkpoint("last").folder / "state.safetensors").write_bytes(b"cut off")
    train(make_config(max_updates=8, **values), data=corpus.folder, run=run.folder)
    assert [each.update for each in run.checkpoints()] == [2, 8]


@pytest.mark.parametrize("name", FILES[:3])
@pytest.mark.parametrize("damage", ["cut", "missing", "swapped"])
def test_a_run_whose_only_checkpoint_is_damaged_is_refused(
    name: str, damage: str, run: Path, corpus: PreparedCorpus, make_config: Any
) -> None:
    damage_file(Run(run).checkpoint("last").folder / name, damage)
    error = refusal(CheckpointError, run, config=make_config(max_updates=9), data=corpus.folder)
    assert error.hint


def test_folders_of_the_user_are_neither_deleted_nor_continued_from(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(validate_every=1, max_updates=4, keep={"last": 1, "best": 1})
    run = Run(tmp_path / "run")
    train(config, data=corpus.folder, run=run.folder)
    newest = run.checkpoint("last").folder
    for name in ("step-backup", "step-12-old", "step-99"):
        shutil.copytree(newest, newest.with_name(name))
    shutil.copytree(newest, newest.with_name("step-00000002"))
    (newest.with_name("step-00000002") / "state.json").unlink()
    newest.with_name("step-00000077").mkdir()
    (newest.with_name("step-00000077") / "notes.txt").write_text("mine", encoding="utf-8")
    theirs = {path for path in contents(run.folder) if "step-00000004" not in str(path)}
    config = make_config(validate_every=1, max_updates=9, keep={"last": 1, "best": 1})
    assert train(config, data=corpus.folder, run=run.folder).update == 9
    assert {path for path in theirs if "checkpoints/step" in str(path)} <= set(contents(run.folder))


def test_an_old_checkpoint_that_cannot_be_read_does_not_end_training(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keep = {"last": 2, "best": 1}
    config = make_config(validate_every=1, max_updates=2, keep=keep)
    run = Run(tmp_path / "run")
    train(config, data=corpus.folder, run=run.folder)
    damaged = run.checkpoints()[0]
    (damaged.folder / "state.json").write_text("{", encoding="utf-8")
    longer = make_config(validate_every=1, max_updates=6, keep=keep)
    assert train(longer, data=corpus.folder, run=run.folder).update == 6
    assert damaged.folder.is_dir() and "left alone" in caplog.text


def test_after_a_damaged_checkpoint_the_one_saved_next_is_kept(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    run = Run(tmp_path / "run")
    train(make_config(validate_every=2, max_updates=6), data=corpus.folder, run=run.folder)
    run.checkpoint("last").weights.write_bytes(b"")
    config = make_config(validate_every=100, max_updates=8)
    first = train(config, data=corpus.folder, run=run.folder, should_stop=lambda: True)
    assert (first.reason, first.update) == ("stopped", 5)
    assert run.checkpoint("last").update == 5
    assert train(config, data=corpus.folder, run=run.folder).update == 8


def test_a_run_continues_only_with_its_valid_split(
    run: Path, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(corpus.folder, other)
    info = json.loads((other / "corpus.json").read_text(encoding="utf-8"))
    info["splits"]["valid"]["sha256"]["target"] = "0" * 64
    (other / "corpus.json").write_text(json.dumps(info), encoding="utf-8")
    error = refusal(CheckpointError, run, config=make_config(max_updates=9), data=other)
    assert error.kind == "run.other-corpus" and "validation data" in error.message


def test_a_run_that_does_not_name_its_valid_split_takes_that_of_the_corpus(
    run: Path, corpus: PreparedCorpus, make_config: Any
) -> None:
    info = dict(Run.open(run).info)
    valid = info.pop("valid")
    (run / "run.json").write_text(json.dumps(info), encoding="utf-8")
    assert train(make_config(max_updates=4), data=corpus.folder, run=run).update == 4
    assert Run.open(run).info["valid"] == valid


def test_training_continues_from_the_checkpoint_before_a_deleted_one(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(validate_every=4)
    train(config, data=corpus.folder, run=tmp_path / "run")
    expected = contents(Run(tmp_path / "run").checkpoint("last").folder)
    shutil.rmtree(Run(tmp_path / "run").checkpoint("last").folder)
    result = train(config, data=corpus.folder, run=tmp_path / "run")
    assert result.trained
    files = contents(Run(tmp_path / "run").checkpoint("last").folder)
    for path, content in expected.items():
        if Path(path).suffix == ".safetensors":
            assert files[path] == content


def test_what_a_crash_left_while_writing_is_removed(
    run: Path, corpus: PreparedCorpus, make_config: Any
) -> None:
    leftover = Run(run).checkpoints_folder / ".step-00000004.x1.tmp"
    leftover.mkdir()
    (leftover / "model.safetensors").write_bytes(b"half")
    pointers = leftover.with_name(".pointers.json.12.tmp")
    pointers.write_bytes(b"{")
    train(make_config(max_updates=4), data=corpus.folder, run=run)
    assert not leftover.exists() and not pointers.exists()


def test_from_starts_with_the_weights_of_another_run(
    run: Path, corpus: PreparedCorpus, make_config: Any
) -> None:
    train(make_config(max_updates=4), data=corpus.folder, run=run)
    Run(run).set_pointers(best="step-00000003")  # not the last
    trainer, _ = make_trainer(
        Run(Path("never")), make_config(seed=7), corpus, initial=Run(run), events=TrainingEvents()
    )
    import safetensors.torch

    saved = safetensors.torch.load_file(Run(run).checkpoint("best").weights)
    weights = dict(trainer.model.named_parameters())
    shared = saved.keys() & weights.keys()
    assert shared
    for name in shared:
        torch.testing.assert_close(weights[name].detach(), saved[name], rtol=0, atol=0)


def test_the_moments_of_another_run_come_along_on_request(
    run: Path, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    import safetensors.torch

    saved = safetensors.torch.load_file(Run(run).checkpoint("best").folder / "state.safetensors")
    for keeps in (False, True):
        config, folder = make_config(seed=7), tmp_path / "new"
        trainer, _ = make_trainer(
            Run(folder), config, corpus, initial=Run(run), keep_optimiser=keeps
        )
        state = trainer.optimiser.state
        assert bool(state) == keeps and trainer.state.update == 0
    for name, parameter in trainer.model.named_parameters():
        moment = state[parameter]["exp_avg"]
        torch.testing.assert_close(moment, saved[f"exp_avg.{name}"], rtol=0, atol=0)


def test_a_return_to_the_beginning_restores_the_moments_of_the_other_run(
    run: Path, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(seed=7, freeze=["encoder.*"])
    trainer, _ = make_trainer(
        Run(tmp_path / "new"), config, corpus, initial=Run(run), keep_optimiser=True
    )
    weights, state = dict(trainer.model.named_parameters()), trainer.optimiser.state
    frozen = [weight for weight in weights.values() if not weight.requires_grad]
    assert frozen and not any(weight in state for weight in frozen)
    before = {
        name: state[weight]["exp_avg"].clone()
        for name, weight in weights.items()
        if weight in state
    }
    began = InitialState(trainer.model, trainer.optimiser)
    for values in state.values():
        values["exp_avg"].add_(1.0)
        values["step"].add_(5)
    began.restore(trainer.model, trainer.optimiser, None)
    for name, moment in before.items():
        assert torch.equal(state[weights[name]]["exp_avg"], moment)
        assert int(state[weights[name]]["step"]) == Run(run).checkpoint("best").update


def test_the_moments_of_another_optimiser_are_refused(
    run: Path, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(optimiser={"name": "nesterov"})
    chosen = {"config": config, "data": corpus.folder, "initial": Run(run)}
    error = refusal(ConfigError, tmp_path / "new", **chosen, keep_optimiser=True)
    assert error.kind == "config.optimiser" and "adam" in error.message
    assert not (tmp_path / "new").exists()


def test_an_imported_run_neither_continues_nor_has_moments(
    run: Path, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    info = json.loads((run / "run.json").read_text("utf-8"))
    info["imported"] = {"from": "fairseq", "file": "best.pt", "arch": "transformer"}
    (run / "run.json").write_text(json.dumps(info), "utf-8")
    chosen: dict[str, Any] = {"config": make_config(), "data": corpus.folder}
    error = refusal(CheckpointError, run, **chosen)
    assert error.kind == "run.imported" and f"--from {run}" in str(error.hint)
    chosen |= {"initial": Run(run)}
    error = refusal(ConfigError, tmp_path / "new", **chosen, keep_optimiser=True)
    assert "was imported, without the state of an optimiser" in error.message
    assert train(**chosen, run=tmp_path / "new").trained


def test_from_a_run_with_other_vocabularies_is_refused(
    run: Path, make_config: Any, tmp_path: Path
) -> None:
    other = make_corpus(tmp_path / "other", pairs=21)
    error = refusal(
        CheckpointError,
        tmp_path / "new",
        config=make_config(),
        data=other.folder,
        initial=Run(run),
    )
    assert error.kind == "run.other-vocabulary"
    assert not (tmp_path / "new").exists()


def test_a_run_continues_from_the_run_that_it_began_with(
    run: Path, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    begun, other = tmp_path / "begun", shutil.copytree(run, tmp_path / "other")
    namesake = shutil.copytree(run, tmp_path / "elsewhere" / run.name)
    chosen: dict[str, Any] = {"config": make_config(), "data": corpus.folder}
    with pytest.raises(CrashError):
        train(**chosen, run=begun, initial=Run(run), events=CrashingEvents(1))
    assert not Run(begun).checkpoints()
    for initial in (None, Run(other), Run(namesake)):
        error = refusal(ConfigError, begun, **chosen, initial=initial)
        assert str(run) in f"{error.message} {error.hint}"
    error = refusal(ConfigError, begun, **chosen, initial=Run(run), keep_optimiser=True)
    assert error.message == "the run began without --keep-optimiser"
    train(**chosen, run=begun, initial=Run(run))
    refusal(ConfigError, begun, **chosen, initial=Run(other))
    assert not train(**chosen, run=begun).trained
    moved = run.rename(tmp_path / "moved")
    assert not train(**chosen, run=begun, initial=Run(namesake)).trained  # perhaps its new place
    moved.rename(run)
    assert "without --from" in refusal(ConfigError, run, **chosen, initial=Run(begun)).message


@pytest.mark.parametrize("way", ["--from", "init_from"])
def test_a_restart_does_not_delete_the_weights_it_begins_with(
    way: str, run: Path, corpus: PreparedCorpus, make_config: Any
) -> None:
    config = make_config(init_from=str(run)) if way == "init_from" else make_config()
    initial = Run(run) if way == "--from" else None
    chosen = {"config": config, "data": corpus.folder, "initial": initial}
    error = refusal(ConfigError, run, **chosen, restart=True)
    assert error.message.startswith("--restart would delete the run")


def test_an_empty_folder_is_free_for_a_run(tmp_path: Path) -> None:
    assert find_existing(tmp_path, restart=False) is None


def test_search_options_that_cannot_be_used_are_refused_before_training(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config()
    decoding = config.decoding.model_copy(update={"max_length": "T+5"})
    wrong = config.model_copy(update={"decoding": decoding})
    error = refusal(DecodingError, tmp_path / "run", config=wrong, data=corpus.folder)
    assert error.kind == "decoding.option"
    assert not (tmp_path / "run").exists()


@pytest.mark.sample(1)
@pytest.mark.parametrize("backend", ["MKL", "oneDNN"])
@pytest.mark.parametrize("key", ["matmul_backend", "products"])  # the old name of the key
def test_a_run_continues_with_the_matmul_backend_it_began_with(
    key: str,
    backend: str,
    corpus: PreparedCorpus,
    make_config: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str | None] = []
    of_new_runs = iter([backend, "another"])

    def use(info: DeviceInfo, recorded: str | None) -> DeviceInfo:
        asked.append(recorded)
        return replace(info, matmul_backend=str(recorded))

    monkeypatch.setattr("jtrans.training.setup.build.use_matmul_backend", use)
    monkeypatch.setattr("jtrans.training.setup.build.usual_backend", lambda _: next(of_new_runs))
    train(make_config(max_updates=1), data=corpus.folder, run=tmp_path / "run")
    path = tmp_path / "run" / "run.json"
    path.write_text(path.read_text(encoding="utf-8").replace("matmul_backend", key), "utf-8")
    train(make_config(max_updates=2), data=corpus.folder, run=tmp_path / "run")
    train(make_config(), data=corpus.folder, run=tmp_path / "run", restart=True)
    assert asked == [backend, backend, "another"]
    assert Run.open(tmp_path / "run").info["matmul_backend"] == "another"


@pytest.mark.parametrize("name", ["model.safetensors", "state.safetensors", "state.json"])
def test_a_run_does_not_continue_from_a_checkpoint_with_one_byte_changed(
    name: str, run: Path, corpus: PreparedCorpus, make_config: Any
) -> None:
    path = Run.open(run).checkpoints()[-1].folder / name
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    error = refusal(CheckpointError, run, config=make_config(max_updates=4), data=corpus.folder)
    assert error.kind == "checkpoint.damaged"
    assert "--restart" in (error.hint or "")


@pytest.mark.parametrize(
    ("limits", "is_long"),
    [
        ({"stop": {"metric": "valid-loss", "patience": 3}}, True),
        ({"max_updates": 5_000}, True),
        ({"max_updates": 4_999}, False),
        ({"max_epochs": 1}, False),
        ({"max_epochs": 100_000}, True),
        ({"max_epochs": 100_000, "max_updates": 10}, False),
        ({"max_minutes": 10.0}, False),
        ({"max_minutes": 60.0}, True),
    ],
)
def test_a_training_that_may_be_long_may_compile_layers(
    limits: dict[str, Any],
    is_long: bool,
    corpus: PreparedCorpus,
    make_config: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bool] = []

    def is_compiled(*_: Any, **options: Any) -> bool:
        asked.append(options["is_long"])
        return False

    monkeypatch.setattr(build, "is_compiled", is_compiled)
    limits = {"max_updates": None, "max_epochs": None, "max_minutes": None} | limits
    make_trainer(Run(Path("never")), make_config(**limits), corpus)
    assert asked == [is_long]
