"""Weights taken from other runs, and weights that are not trained."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import safetensors.torch
import torch
from plugins.folders import contents
from plugins.small_corpus import make_corpus, tiny_config
from torch import Tensor

from jtrans.data.prepared import PreparedCorpus
from jtrans.decoding.translator import load_model
from jtrans.errors import ConfigError, JtransError
from jtrans.models.base import TranslationModel, check_agreement
from jtrans.models.zoo import system_configs
from jtrans.runs import OPTIMISER, Run
from jtrans.text.pipeline import TextPipeline, TextSide
from jtrans.text.vocabulary import Vocabulary
from jtrans.training.estimate import estimate
from jtrans.training.events import Start, TrainingEvents
from jtrans.training.session import train
from jtrans.training.setup.build import make_trainer
from jtrans.training.setup.checks import check_rate, check_tied
from jtrans.training.trainer import Trainer
from jtrans.training.weights.initial import freeze

Make = Callable[..., TranslationModel]


class Starts(TrainingEvents):
    """Records how training began."""

    def __init__(self) -> None:
        self.start_event: Start | None = None

    def start(self, start: Start) -> None:
        self.start_event = start


@pytest.fixture(scope="module")
def _two_updates(corpus: PreparedCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "source"
    train(tiny_config(max_updates=2, validate_every=1), data=corpus.folder, run=folder)
    Run(folder).set_pointers(best="step-00000001")  # not the last
    return folder


@pytest.fixture
def source(_two_updates: Path, tmp_path: Path) -> Path:
    """A run of a Transformer to start from."""
    return Path(shutil.copytree(_two_updates, tmp_path / "source"))


def best_weights(run: Path) -> dict[str, Tensor]:
    return safetensors.torch.load_file(Run.open(run).checkpoint("best").weights)


def last_weights(run: Path) -> dict[str, Tensor]:
    return safetensors.torch.load_file(Run.open(run).checkpoint("last").weights)


def trained(
    make_config: Any, corpus: PreparedCorpus, run: Path, **settings: Any
) -> dict[str, Tensor]:
    """Train a run and return its last weights."""
    train(make_config(**settings), data=corpus.folder, run=run)
    return last_weights(run)


def refusal(make_config: Any, corpus: PreparedCorpus, run: Path, **settings: Any) -> JtransError:
    """Expect exit 2 with nothing written, and return the error."""
    before = contents(run.parent)
    with pytest.raises(JtransError) as caught:
        train(make_config(**settings), data=corpus.folder, run=run)
    assert contents(run.parent) == before
    assert caught.value.exit_code == 2
    return caught.value


# Starting from other runs


def test_a_run_named_alone_gives_all_its_weights(
    source: Path, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(max_updates=1, init_from=str(source), freeze=("encoder.*", "l*", "n*"))
    starts = Starts()
    train(config, data=corpus.folder, run=tmp_path / "new", events=starts)
    theirs, ours = best_weights(source), last_weights(tmp_path / "new")
    names = [name for name in theirs if name.startswith(("encoder", "l", "n"))]
    assert all(torch.equal(ours[name], theirs[name]) for name in names)
    assert starts.start_event is not None
    assert starts.start_event.copied[0].startswith(f"* of {source} (step-00000001), ")
    recorded = Run.open(tmp_path / "new").info["init_from"]
    assert recorded[0] | {"tensors": 0} == {
        "run": str(source),
        "checkpoint": "step-00000001",
        "weights": "*",
        "into": "*",
        "tensors": 0,
    }


def test_patterns_choose_weights_and_rename_them(
    source: Path, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    entry = {"run": str(source), "weights": "encoder.layers.*", "into": "prenet.layers.*"}
    ours = trained(
        make_config,
        corpus,
        tmp_path / "new",
        system="reformer-fast",
        init_from=[entry],
        freeze=["prenet.layers.*"],
        max_updates=2,
    )
    copied = {k: v for k, v in best_weights(source).items() if k.startswith("encoder.layers.")}
    assert copied
    for name, value in copied.items():
        assert torch.equal(ours[name.replace("encoder", "prenet")], value)


def test_a_moving_average_starts_from_the_weights_that_were_copied(
    source: Path, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    slow = {"learning_rate": 1e-7, "schedule": {"name": "constant"}}
    settings = {"init_from": str(source), "seed": 3, "ema_decay": 0.9, "validate_sentences": 0}
    ours = trained(make_config, corpus, tmp_path / "new", **slow, **settings, max_updates=1)
    for name, value in best_weights(source).items():
        torch.testing.assert_close(ours[name], value, rtol=0.0, atol=1e-5)


def test_several_runs_give_their_parts(
    source: Path, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    trained(make_config, corpus, other, max_updates=2, seed=7)
    entries = [
        {"run": str(source), "weights": "encoder.*"},
        {"run": str(other), "weights": "layers.*"},
    ]
    frozen = ["encoder.*", "layers.*"]
    run = tmp_path / "new"
    ours = trained(make_config, corpus, run, init_from=entries, freeze=frozen, max_updates=1)
    for folder, prefix in ((source, "encoder."), (other, "layers.")):
        for name, value in best_weights(folder).items():
            if name.startswith(prefix):
                assert torch.equal(ours[name], value)


def test_the_run_is_not_read_again_when_training_continues(
    source: Path, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    settings = {"init_from": str(source), "freeze": ["encoder.*"], "seed": 3}
    whole = trained(make_config, corpus, tmp_path / "whole", **settings, max_updates=4)
    trained(make_config, corpus, tmp_path / "halves", **settings, max_updates=2)
    shutil.rmtree(source)
    halves = trained(make_config, corpus, tmp_path / "halves", **settings, max_updates=4)
    assert whole.keys() == halves.keys()
    assert all(torch.equal(whole[name], halves[name]) for name in whole)


def test_a_run_without_checkpoints_starts_from_the_other_run_again(
    source: Path, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    settings = {"init_from": str(source), "max_updates": 2}
    run = tmp_path / "new"
    first = trained(make_config, corpus, run, **settings)
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").mkdir()
    again = trained(make_config, corpus, run, **settings)
    assert all(torch.equal(first[name], again[name]) for name in first)


@pytest.mark.parametrize(
    ("settings", "message", "hint"),
    [
        ({"model": {"width": 32}}, "width is 16 in the run to start from, and 32 here", "sizes"),
        (
            {"model": {"encoder_layers": 2}},
            "encoder_layers is 1 in the run to start from, and 2 here",
            "make the sizes equal",
        ),
        ({"model": {"heads": 4}}, "heads is 2 in the run to start from, and 4 here", "PATTERN"),
        (
            {"system": "reformer-fast"},
            "no place here for",
            "the weights are grid_norm.*, layers.*",
        ),
    ],
)
def test_another_size_or_system_is_refused(
    settings: dict[str, Any],
    message: str,
    hint: str,
    source: Path,
    corpus: PreparedCorpus,
    make_config: Any,
    tmp_path: Path,
) -> None:
    error = refusal(make_config, corpus, tmp_path / "new", init_from=str(source), **settings)
    assert message in error.message
    assert str(source) in error.message
    assert hint in (error.hint or "")
    assert (error.where or "").startswith("training.init_from")


@pytest.mark.parametrize(
    ("entry", "settings", "message", "hint"),
    [
        (
            {"weights": "encodr.*"},
            {},
            "matches 'encodr.*'",
            "did you mean encoder.*?",
        ),
        ({"weights": "encoder"}, {}, "matches 'encoder'", "did you mean encoder.*?"),
        (
            {"weights": "encoder.*", "into": "encoders.*"},
            {},
            "no weight of this model matches 'encoders.*'",
            "did you mean encoder.*?",
        ),
        (
            {"weights": "encoder.*"},
            {"model": {"encoder_layers": 3}},
            "RUN has 1 layer in encoder.layers, this model 3",
            "make the sizes equal",
        ),
        (
            {"weights": "encoder.*"},
            {"model": {"width": 32}},
            "RUN has width 16, this model 32: encoder.",
            "make the sizes equal",
        ),
        (
            {"weights": "encoder.*"},
            {"model": {"norm": "post"}},
            "no place here for 2 weights of RUN, such as encoder.norm.",
            "did you mean",
        ),
    ],
)
def test_patterns_that_do_not_fit_are_refused_with_both_values_and_a_way_out(
    entry: dict[str, str],
    settings: dict[str, Any],
    message: str,
    hint: str,
    source: Path,
    corpus: PreparedCorpus,
    make_config: Any,
    tmp_path: Path,
) -> None:
    entries = [{"run": str(source), **entry}]
    error = refusal(make_config, corpus, tmp_path / "new", init_from=entries, **settings)
    assert message.replace("RUN", str(source)) in error.message
    assert hint in (error.hint or "")
    assert "\n" not in error.message


def test_two_matrices_cannot_become_one(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    untied = tmp_path / "untied"
    trained(make_config, corpus, untied, model={"tie": "none"}, max_updates=2)
    entries = [{"run": str(untied), "weights": "*"}]
    error = refusal(
        make_config, corpus, tmp_path / "new", init_from=entries, model={"tie": "decoder"}
    )
    assert f"shares its matrix with another weight here, but not in {untied}" in error.message
    error = refusal(
        make_config, corpus, tmp_path / "new", init_from=str(untied), model={"tie": "decoder"}
    )
    assert "tie is none in the run to start from, and decoder here" in error.message


def test_a_weight_taken_twice_is_refused(
    source: Path, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    entries = [{"run": str(source)}, {"run": str(source), "weights": "encoder.*"}]
    error = refusal(make_config, corpus, tmp_path / "new", init_from=entries)
    assert "is taken from" in error.message


def test_other_vocabularies_are_refused_with_their_sizes(
    source: Path, make_config: Any, tmp_path: Path
) -> None:
    other = make_corpus(tmp_path / "other", pairs=21)
    error = refusal(make_config, other, tmp_path / "new", init_from=str(source))
    assert error.kind == "run.other-vocabulary"
    for side in (Run.open(source).pipeline.source, other.pipeline.source):
        assert f"{len(side.vocabulary)} source and" in error.message


@pytest.mark.parametrize("damage", ["missing", "untrained"])
def test_a_run_that_is_missing_or_untrained_is_refused(
    damage: str, source: Path, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    shutil.rmtree(source if damage == "missing" else source / "checkpoints")
    error = refusal(make_config, corpus, tmp_path / "new", init_from=str(source))
    assert str(source) in f"{error.message} {error.where}"
    assert error.hint


def test_a_missing_run_named_after_a_recipe_gets_the_command_that_trains_it(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = {"init_from": "runs/demo/transformer"}
    error = refusal(make_config, corpus, tmp_path / "new", **config)
    assert error.hint == "train it first: jtrans train demo/transformer"


def test_a_run_to_take_all_from_excludes_patterns(
    source: Path, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(init_from=str(source))
    with pytest.raises(ConfigError) as caught:
        train(config, data=corpus.folder, run=tmp_path / "new", initial=Run.open(source))
    assert caught.value.hint == "leave out --from, or add --set training.init_from=[]"


@pytest.mark.parametrize(
    "setting", [{"heads": 4}, {"position_offset": 2}, {"scale_positions": True}]
)
def test_a_run_whose_weights_mean_something_else_is_refused(
    source: Path, corpus: PreparedCorpus, make_config: Any, tmp_path: Path, setting: dict[str, Any]
) -> None:
    config = make_config(model=setting)
    with pytest.raises(ConfigError) as caught:
        train(config, data=corpus.folder, run=tmp_path / "new", initial=Run.open(source))
    assert caught.value.where == f"model.{next(iter(setting))}"
    assert str(source / "config.toml") in str(caught.value.hint)
    assert not (tmp_path / "new").exists()


def test_settings_that_say_nothing_about_weights_may_differ() -> None:
    configs: Any = system_configs()
    settings: list[tuple[str, dict[str, Any]]] = [
        ("dlcl", {"combination": "one"}),
        ("rnmt-plus", {"initial_range": 0.3}),
        ("transformer-pp", {"pos_weight": 1.0, "ner_weight": 2.0}),
        ("hybrid", {"rnmt_initial_range": 0.3, "dropout": 0.7}),
    ]
    settings += [  # the same in other words
        ("transformer-pp", {"kernels": (3, 7, 15, 31), "dilation": (2,)}),
        ("convs2s", {"attention": tuple(range(1, len(configs["convs2s"]().attending_layers) + 1))}),
    ]
    for system, setting in settings:
        check_agreement(configs[system](), configs[system](**setting))
    with pytest.raises(ConfigError, match="kernels is"):
        check_agreement(configs["transformer-pp"](), configs["transformer-pp"](dilation=1))
    with pytest.raises(ConfigError, match="heads is 4"):
        check_agreement(configs["dlcl"](), configs["dlcl"](heads=8))


def test_one_matrix_for_two_vocabularies_of_equal_size_is_refused(make_config: Any) -> None:
    def corpus_of(*tokens: str) -> Any:
        sides = [TextSide("de", vocabulary=Vocabulary.build({token: 1})) for token in tokens]
        return SimpleNamespace(pipeline=TextPipeline(*sides), folder=Path("data"))

    config = make_config(model={"tie": "all"})
    check_tied(config, corpus_of("a", "a"))
    check_tied(make_config(model={"tie": "decoder"}), corpus_of("a", "b"))
    with pytest.raises(ConfigError, match="one vocabulary for both sides, but data has two"):
        check_tied(config, corpus_of("a", "b"))


@pytest.mark.parametrize(("rate", "is_low"), [(7e-4, True), (0.5, False)])
def test_a_factor_of_noam_that_looks_like_a_rate_is_warned_of(
    make_config: Any, rate: float, is_low: bool
) -> None:
    config = make_config(learning_rate=rate, schedule={"name": "noam", "warmup": 10})
    assert len(check_rate(config)) == is_low
    assert not check_rate(make_config(learning_rate=rate))


def test_a_run_of_other_sizes_to_take_all_from_is_refused_with_the_sizes(
    source: Path, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(model={"decoder_layers": 2, "dropout": 0.0})
    with pytest.raises(ConfigError) as caught:
        train(config, data=corpus.folder, run=tmp_path / "new", initial=Run.open(source))
    assert caught.value.message.endswith(": model.decoder_layers is 1 there, 2 here")
    assert caught.value.kind == "run.other-size"
    assert not (tmp_path / "new").exists()


def test_a_run_of_another_system_to_take_all_from_is_refused_by_its_name(
    source: Path, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(model={"system": "dlcl"})
    with pytest.raises(ConfigError) as caught:
        train(config, data=corpus.folder, run=tmp_path / "new", initial=Run.open(source))
    assert "is a run of the system transformer" in caught.value.message
    assert "do not fit dlcl" in caught.value.message
    assert caught.value.kind == "run.other-system"


@pytest.mark.parametrize(
    ("init_from", "message"),
    [
        ([{"run": "x", "into": "a.*"}], "into = 'a.*' needs weights"),
        (
            [{"run": "x", "weights": "*.b.*", "into": "a.*"}],
            "weights = '*.b.*' has 2 *, but into = 'a.*' has 1",
        ),
        ([{"weights": "a.*"}], "run"),
        ([{"run": "x", "weight": "a.*"}], "unknown key training.init_from.0.weight"),
        (7, "training.init_from: input should be a list"),
        ("", "training.init_from.0.run"),
    ],
)
def test_entries_that_cannot_be_meant_are_refused(
    init_from: Any, message: str, make_config: Any
) -> None:
    with pytest.raises(ConfigError) as caught:
        make_config(init_from=init_from)
    assert message in caught.value.message


# Freezing


def test_frozen_weights_have_no_gradient_no_optimiser_state_and_do_not_change(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(
        max_updates=2,
        freeze=["encoder.*", "*_embedding.*"],
        weight_decay=0.1,
        model={"tie": "none"},
    )
    trainer, _ = make_trainer(Run(tmp_path), config, corpus)
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    train(config, data=corpus.folder, run=tmp_path / "run")
    after = last_weights(tmp_path / "run")
    is_frozen = {name: name.startswith("encoder.") or "_embedding" in name for name in before}
    assert {name: torch.equal(before[name], after[name]) for name in before} == is_frozen
    moments = safetensors.torch.load_file(
        Run.open(tmp_path / "run").checkpoint("last").folder / OPTIMISER
    )
    trained_names = {name.partition(".")[2] for name in moments if not name.startswith("random")}
    assert trained_names == {name for name in before if not is_frozen[name]}
    model = load_model(Run.open(tmp_path / "run"), "last", torch.device("cpu"))
    frozen = sum(value.numel() for name, value in before.items() if is_frozen[name])
    assert trainer.model.frozen_count() == frozen
    total = sum(parameter.numel() for parameter in model.parameters())
    assert trainer.model.parameter_count() == total - frozen
    info = Run.open(tmp_path / "run").info
    assert (info["parameters"], info["frozen_parameters"]) == (total - frozen, frozen)


def test_frozen_parts_stay_in_evaluation_mode(corpus: PreparedCorpus, make_config: Any) -> None:
    config = make_config(freeze=["encoder.*", "layers.0.feed_forward.*"], model={"dropout": 0.5})
    model = make_trainer(Run(Path("never")), config, corpus)[0].model
    for _ in range(2):
        model.train()
        frozen = [model.get_submodule(n) for n in ("encoder", "layers.0.feed_forward")]
        assert not any(part.training for module in frozen for part in module.modules())
        assert model.get_submodule("layers.0.residuals.0").training
        assert model.get_submodule("source_embedding").training
        model.eval()
        assert not any(part.training for part in model.modules())


def test_frozen_parts_are_in_evaluation_mode_from_the_first_update_on(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes, accumulate = [], Trainer.accumulate

    def noted(self: Trainer, micro_batches: Any) -> Tensor:
        modes.append((self.model.training, [part.training for part in self.model.frozen]))
        return accumulate(self, micro_batches)

    monkeypatch.setattr(Trainer, "accumulate", noted)
    config = make_config(freeze=["encoder.*"], max_updates=2, validate_sentences=0)
    train(config, data=corpus.folder, run=tmp_path / "run")
    assert modes == [(True, [False])] * 2


def test_a_shared_matrix_is_frozen_under_either_name(
    corpus: PreparedCorpus, make_config: Any
) -> None:
    for pattern in ("output.*", "target_embedding.*"):
        config = make_config(freeze=[pattern], model={"tie": "decoder"})
        model = make_trainer(Run(Path("never")), config, corpus)[0].model
        assert not model.get_parameter("target_embedding.tokens.weight").requires_grad


@pytest.mark.parametrize(
    ("patterns", "message", "hint"),
    [
        (["encodr.*"], "no weight of this model matches 'encodr.*'", "did you mean encoder.*?"),
        (["encoder"], "no weight of this model matches 'encoder'", "did you mean encoder.*?"),
        (["encoder.*", "zzz"], "matches 'zzz'", "the weights are encoder.*, layers.*, norm.*"),
        (["*"], "weights are frozen: there is nothing to train", "freeze a part"),
    ],
)
def test_patterns_that_freeze_nothing_or_all_are_refused(
    patterns: list[str],
    message: str,
    hint: str,
    corpus: PreparedCorpus,
    make_config: Any,
    tmp_path: Path,
) -> None:
    error = refusal(make_config, corpus, tmp_path / "new", freeze=patterns)
    assert message in error.message
    assert hint in (error.hint or "")


@pytest.mark.parametrize("change", [{"freeze": []}, {"init_from": []}])
def test_a_run_cannot_change_what_it_froze_or_started_from(
    change: dict[str, Any], source: Path, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    settings = {"init_from": str(source), "freeze": ["encoder.*"], "max_updates": 2}
    trained(make_config, corpus, tmp_path / "new", **settings)
    error = refusal(make_config, corpus, tmp_path / "new", **(settings | change))
    assert error.kind == "config.fixed-key"
    assert "None" not in error.message
    had = "[encoder.*]" if "freeze" in change else f"[{{ run = {source} }}]"
    assert error.message.endswith(f"is [] here, but the run has {had}")


def test_an_estimate_counts_frozen_weights_and_checks_the_other_run(
    source: Path, corpus: PreparedCorpus, make_config: Any
) -> None:
    config = make_config(init_from=str(source), freeze=["encoder.*"])
    estimated = estimate(config, data=corpus.folder)
    assert estimated.frozen_parameters > 0
    whole = estimate(make_config(), data=corpus.folder)
    assert estimated.parameters + estimated.frozen_parameters == whole.parameters
    with pytest.raises(JtransError):
        estimate(make_config(init_from="nowhere"), data=corpus.folder)


@pytest.mark.parametrize("name", ["transformer", "reformer-base", "reformer-fast"])
def test_a_model_of_any_system_can_be_frozen_but_for_one_part(
    name: str, corpus: PreparedCorpus, make_config: Any
) -> None:
    config = make_config(system=name)
    model = make_trainer(Run(Path("never")), config, corpus)[0].model
    freeze(model, ["source_embedding.*"])
    model.train()
    source = torch.tensor([[5, 6, 1]])
    memory = model.encode(source, source != 0)
    model.project(model.decode(torch.tensor([[1, 5]]), memory)).sum().backward()
    for key, parameter in model.named_parameters():
        assert (parameter.grad is None) == key.startswith("source_embedding"), key
