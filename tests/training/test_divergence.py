"""Training with losses and gradients that are not finite (docs/training.md)."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from plugins.rank_processes import run_ranks
from plugins.small_corpus import ENGLISH, NOUNS, VERBS, WHITESPACE, tiny_config
from plugins.training_runs import CrashError, last_files

from jtrans.config import TrainingConfig
from jtrans.corpora.parallel import Corpus, ParallelText
from jtrans.data.prepared import PreparedCorpus
from jtrans.models.base import TranslationModel
from jtrans.models.systems import PervasiveConfig
from jtrans.models.zoo import build_model
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare
from jtrans.runs import Run
from jtrans.training import trainer as trainer_module
from jtrans.training.distributed.ranks import Ranks
from jtrans.training.divergence.good_state import InitialState, remove_spoilt
from jtrans.training.divergence.skips import DivergedError
from jtrans.training.divergence.trouble import Trouble
from jtrans.training.events import Advance, Result, Return, Skip, TrainingEvents
from jtrans.training.metrics import Metrics
from jtrans.training.micro_batches import GradientAccumulator
from jtrans.training.optimisation.optimiser import make_optimiser
from jtrans.training.optimisation.step import Step
from jtrans.training.saving.snapshot import Snapshot
from jtrans.training.session import train
from jtrans.training.setup.build import make_trainer
from jtrans.training.state import TrainingState
from jtrans.training.trainer import Trainer

POISONED = 31  # the training pair with the word that no other has
WORD = "nashorn"
HUGE = 3e38  # finite, but larger by the scale of an embedding it is not

Poisoned = tuple[PreparedCorpus, Callable[[Any], Run]]


class Heard(TrainingEvents):
    """Remembers the skipped updates."""

    def __init__(self) -> None:
        self.skips: list[Skip] = []

    def skip(self, skip: Skip) -> None:
        self.skips.append(skip)


def make_corpus(folder: Path) -> PreparedCorpus:
    """Prepare a corpus with one sentence that has a word of its own."""
    draw = np.random.default_rng(1)
    source = []
    for count in range(140):
        words = [*draw.choice(NOUNS, 2), *draw.choice(VERBS, 1), *draw.choice(NOUNS, count % 5)]
        source.append(" ".join(words))
    source[POISONED] = f"hund mag {WORD}"
    target = [" ".join(ENGLISH.get(word, "dog") for word in line.split()) for line in source]
    splits = {
        "train": ParallelText(source[:120], target[:120]),
        "valid": ParallelText(source[120:], target[120:]),
    }
    options = PrepareOptions(**WHITESPACE, bpe="none", deduplicate=False, drop_leaked=False)
    return prepare(Corpus("animals", ("de", "en"), splits), folder, options=options, workers=1)


@pytest.fixture(scope="module")
def poisoned_corpus(tmp_path_factory: pytest.TempPathFactory) -> PreparedCorpus:
    return make_corpus(tmp_path_factory.mktemp("poisoned") / "corpus")


@pytest.fixture
def poisoned(poisoned_corpus: PreparedCorpus, tmp_path: Path) -> Poisoned:
    """A corpus, and a function that makes a run to start from: its vector of the word is huge."""

    def make(config: Any) -> Run:
        folder = tmp_path / "initial"
        train(config.with_training(max_updates=1), data=corpus.folder, run=folder)
        file = Run(folder).checkpoint("last").weights
        weights = safetensors.torch.load_file(file)
        row = corpus.pipeline.source.encode(WORD)[0]
        weights["source_embedding.tokens.weight"][row] = HUGE
        safetensors.torch.save_file(weights, file)
        (file.parent / "sha256.json").unlink()
        return Run(folder)

    corpus = poisoned_corpus
    assert corpus.pipeline.source.encode(WORD)[0] in corpus.pairs("train").source[POISONED]
    return corpus, make


def check(result: Result, heard: Heard, run: Path, count: int) -> None:
    """Check that one sentence was named, in one update, and left out."""
    (skip,) = heard.skips
    assert (skip.sentences, skip.left_out, skip.named) == ((POISONED,), True, 1)
    assert "source_embedding" in skip.layer
    assert (result.update, result.skipped, result.left_out) == (count, 1, (POISONED,))
    (event,) = [each for each in Run(run).events() if each["event"] == "skip"]
    assert (event["update"], event["sentences"], event["layer"]) == (
        skip.update,
        [POISONED],
        skip.layer,
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize("guard", [False, True], ids=["plain", "guard"])
@pytest.mark.parametrize("system", ["transformer", "reformer-fast"])
def test_a_run_with_one_poisoned_sentence_goes_on_and_names_it(
    system: str, guard: bool, poisoned: Poisoned, make_config: Any, tmp_path: Path
) -> None:
    corpus, initial = poisoned
    config = make_config(system, max_epochs=3, gradient_guard=guard, micro_batch_tokens=30)
    heard, run = Heard(), tmp_path / "run"
    result = train(config, data=corpus.folder, run=run, initial=initial(config), events=heard)
    check(result, heard, run, result.update)
    assert result.epochs == 3 and result.dropped == 0
    rows = [each for each in Run(run).events() if each["event"] == "validation"]
    assert rows[-1]["valid_loss"] < rows[0]["valid_loss"]
    weights = safetensors.torch.load_file(Run(run).checkpoint("last").weights)
    assert all(bool(weight.isfinite().all()) for weight in weights.values())


@pytest.mark.sample(1)
@pytest.mark.parametrize("shard_model", [False, True], ids=["copies", "shards"])
def test_the_rank_with_the_sentence_names_it_and_all_leave_it_out(
    shard_model: bool, poisoned: Poisoned, make_config: Any, tmp_path: Path
) -> None:
    corpus, initial = poisoned
    config = make_config(max_epochs=2, micro_batch_tokens=30)
    first, run = initial(config), tmp_path / "run"

    def one_rank(_: int) -> tuple[Result, list[Skip]]:
        heard = Heard()
        options: dict[str, Any] = {"initial": first, "shard_model": shard_model, "events": heard}
        return train(config, data=corpus.folder, run=run, **options), heard.skips

    ranks = run_ranks(2, one_rank)
    for result, skips in ranks:
        heard = Heard()
        heard.skips = skips
        check(result, heard, run, result.update)
    assert ranks[0][1] == ranks[1][1]
    assert len(ranks[0][1][0].ranks) == 1


def test_a_loss_that_is_not_finite_skips_its_update_though_the_gradient_is() -> None:
    model, training = torch.nn.Linear(2, 2), TrainingConfig()
    step = Step(list(model.parameters()), make_optimiser(model, training), training, None)
    before = model.weight.detach().clone()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    norm, dropped = step(0.1, torch.tensor([1.0, math.nan]))
    assert norm.isfinite() and dropped and torch.equal(model.weight, before)


def dense_trainer(corpus: PreparedCorpus, make_config: Any) -> Trainer:
    """Return a trainer of a model with batch statistics."""
    model = PervasiveConfig(
        network="dense", aggregation="max", layers=1, kernel=3, width=8, channels=8, growth=4
    )
    config = make_config().model_copy(update={"model": model})
    return make_trainer(Run(Path("never")), config, corpus, events=TrainingEvents())[0]


def saved_buffers(model: TranslationModel) -> list[torch.Tensor]:
    state = model.state_dict()
    return [state[name].clone() for name, _ in model.named_buffers() if name in state]


@pytest.mark.parametrize("is_dropped", [True, False])
def test_an_update_that_is_skipped_leaves_no_batch_statistics(
    is_dropped: bool, corpus: PreparedCorpus, make_config: Any
) -> None:
    trainer = dense_trainer(corpus, make_config)
    before = saved_buffers(trainer.model)
    trainer.accumulate(trainer.plan.epoch(0)[0])
    trainer.gradient.end(torch.tensor(1.0), torch.tensor(is_dropped))
    after = zip(before, saved_buffers(trainer.model), strict=True)
    assert before and all(torch.equal(*each) for each in after) == is_dropped


def test_a_return_to_the_beginning_restores_batch_statistics(
    corpus: PreparedCorpus, make_config: Any
) -> None:
    trainer = dense_trainer(corpus, make_config)
    before, initial = saved_buffers(trainer.model), InitialState(trainer.model, trainer.optimiser)
    trainer.accumulate(trainer.plan.epoch(0)[0])
    initial.restore(trainer.model, trainer.optimiser, None)
    for ours, expected in zip(saved_buffers(trainer.model), before, strict=True):
        assert torch.equal(ours, expected)


def spoil(monkeypatch: pytest.MonkeyPatch, is_spoilt: Callable[[int, Trainer], bool]) -> None:
    """Make the gradient of those updates, counted from 1, infinite."""
    original = Trainer.accumulate

    def accumulate(self: Trainer, micro_batches: Any) -> torch.Tensor:
        losses = original(self, micro_batches)
        if is_spoilt(self.state.update + 1, self):
            for parameter in self.model.parameters():
                parameter.grad = torch.full_like(parameter, math.inf)
        return losses

    monkeypatch.setattr(Trainer, "accumulate", accumulate)


def is_too_fast(update: int, trainer: Trainer) -> bool:
    """Stands for a rate with which training diverges; a quarter of it is low enough."""
    return update > 6 and trainer.state.trouble.factor > 0.25


def events_of(run: Path, name: str) -> list[dict[str, Any]]:
    return [event for event in Run(run).events() if event["event"] == name]


@pytest.mark.sample(1)
@pytest.mark.parametrize("saved", [4, 50], ids=["to a checkpoint", "to the beginning"])
def test_training_goes_back_with_half_the_rate(
    saved: int,
    corpus: PreparedCorpus,
    make_config: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trainer_module, "LOG_EVERY", 1)
    spoil(monkeypatch, is_too_fast)
    schedule = {"name": "constant"}
    config = make_config(max_updates=16, validate_every=saved, schedule=schedule, ema_decay=0.9)
    result = train(config, data=corpus.folder, run=tmp_path / "run")
    assert (result.update, result.returns, result.skipped) == (16, 2, 10)
    target = 4 if saved == 4 else 0
    returns = events_of(tmp_path / "run", "return")
    assert [(each["update"], each["lost"]) for each in returns] == [(target, 11 - target)] * 2
    rates = {each["update"]: each["learning_rate"] for each in events_of(tmp_path / "run", "train")}
    assert [rates[update] for update in (5, 16)] == [0.0025, 0.0025]


def test_without_a_checkpoint_training_begins_again(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends as if the lower rate had been chosen at once."""
    for name, optimiser in (("adam", {}), ("nesterov", {"name": "nesterov"})):
        schedule = {"name": "constant"}
        config = make_config(max_updates=12, optimiser=optimiser, ema_decay=0.9, schedule=schedule)
        rate = config.training.learning_rate / 4
        low = config.with_training(learning_rate=rate)
        train(low, data=corpus.folder, run=tmp_path / name / "low")
        with monkeypatch.context() as patch:
            spoil(patch, is_too_fast)
            train(config, data=corpus.folder, run=tmp_path / name / "run")
        assert last_files(tmp_path / name / "run") == last_files(tmp_path / name / "low")


@pytest.mark.parametrize(("count", "is_left_out"), [(2, True), (3, False)])
def test_more_than_a_hundredth_of_the_sentences_are_not_left_out(
    count: int, is_left_out: bool
) -> None:
    trouble = Trouble(left_out=[5])
    assert trouble.blame(7, [8, 9][: count - 1], pairs=299) == is_left_out
    assert (len(trouble.left_out), trouble.unexplained) == ((2, []) if is_left_out else (1, [7]))


@pytest.mark.parametrize(("apart", "is_repeated"), [(1, True), (11, True), (12, False)])
def test_ten_skipped_updates_among_a_hundred_are_too_many(apart: int, is_repeated: bool) -> None:
    trouble = Trouble()
    for update in range(apart, 11 * apart, apart):
        assert not trouble.is_repeated or apart == 1
        trouble.blame(update, [], pairs=1000)
    assert trouble.is_repeated == is_repeated


def test_a_loss_is_the_mean_over_the_tokens_that_were_not_skipped(tmp_path: Path) -> None:
    metrics = Metrics(Run(tmp_path), TrainingState(), is_joint=False, ranks=Ranks())
    for loss in (6.0, math.nan):
        metrics.state.update += 1
        measured = torch.tensor([loss, 4.0, 5.0, 1.0, 0.0])
        metrics.count(measured, tokens=2, positions=2, labelled={"pos": 10})
    assert metrics.read() == [(2, "the loss is nan")]
    metrics.log_updates(0.1, None)
    row = metrics.validation({"loss": 1.0, "perplexity": 2.0}, is_best=True)
    (event,) = events_of(tmp_path, "train")
    assert (event["loss"], event["nll"], row.train_loss) == (3.0, 2.0, 2.0)
    assert event["pos_loss"] == 0.5  # of the labelled tokens
    metrics.state.update += 1  # the next event begins anew
    metrics.count(torch.ones(5), tokens=2, positions=2, labelled={"pos": 10})
    metrics.read()
    metrics.log_updates(0.1, None)
    row = metrics.validation({"loss": 1.0, "perplexity": 2.0}, is_best=True)
    event = events_of(tmp_path, "train")[-1]
    assert (event["tokens"], event["nll"], row.train_loss) == (2, 0.5, 0.5)


@pytest.mark.parametrize(
    ("spoilt", "keeps_one", "left"), [([2, 3], True, [2]), ([2, 3], False, []), ([3], False, [2])]
)
def test_checkpoints_just_after_skipped_updates_are_removed(
    spoilt: list[int], keeps_one: bool, left: list[int], make_config: Any, tmp_path: Path
) -> None:
    """The oldest stays if the beginning is not in memory: there would be nothing to go back to."""
    config, run = make_config(), Run(tmp_path)
    model = build_model(config.model, 11, 11)
    optimiser = make_optimiser(model, config.training)
    for update in (2, 3):
        trouble = Trouble(unexplained=[each for each in spoilt if each <= update])
        state = TrainingState(update=update, trouble=trouble)
        Snapshot.of(model, optimiser, state).write(run)
    remove_spoilt(run, keeps_one=keeps_one)
    assert [each.update for each in run.checkpoints()] == left


class Crash(TrainingEvents):
    """Crashes after an update, but only once training has gone back so often."""

    def __init__(self, update: int, returns: int) -> None:
        self.at, self.left = update, returns

    def go_back(self, event: Return) -> None:
        self.left -= 1

    def update(self, advance: Advance) -> None:
        if advance.update == self.at and self.left <= 0:
            raise CrashError


@pytest.fixture(scope="module")
def undisturbed(
    corpus: PreparedCorpus, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Result, Path]:
    """A run that goes back twice: its result and its folder."""
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    with pytest.MonkeyPatch.context() as patch:
        spoil(patch, is_too_fast)
        config = tiny_config(max_updates=16, validate_every=5)
        return train(config, data=corpus.folder, run=run), run


@pytest.mark.sample(2)
@pytest.mark.parametrize(("update", "returns"), [(3, 0), (10, 0), (6, 1), (9, 1), (6, 2), (14, 2)])
def test_a_crashed_run_goes_back_as_often_as_an_undisturbed_one(
    update: int,
    returns: int,
    undisturbed: tuple[Result, Path],
    corpus: PreparedCorpus,
    make_config: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (expected, whole), run = undisturbed, tmp_path / "run"
    spoil(monkeypatch, is_too_fast)
    config = make_config(max_updates=16, validate_every=5)
    with pytest.raises(CrashError):
        train(config, data=corpus.folder, run=run, events=Crash(update, returns))
    result = train(config, data=corpus.folder, run=run)
    assert (result.skipped, result.returns) == (expected.skipped, expected.returns) == (10, 2)
    assert last_files(run) == last_files(whole)
    kinds = ("skip", "return", "validation")
    clock = {"seconds", "processor_seconds", "tokens_per_second"}
    logs = [
        [
            {key: value for key, value in event.items() if key not in clock and key != "fault"}
            for event in Run(folder).events()
            if event["event"] in kinds
        ]
        for folder in (run, whole)
    ]
    assert logs[0] == logs[1]


@pytest.mark.thorough
def test_the_fourth_time_training_ends_and_says_where(
    poisoned: Poisoned, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, _ = poisoned

    def explode(module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        is_late = module.training and events.trainer.state.update >= 5
        return output * math.inf if is_late else output

    events = Exploding()
    config = make_config(max_updates=30, validate_every=5)
    events.trainer, _ = make_trainer(Run(tmp_path / "run"), config, corpus, events=events)
    Run.create(tmp_path / "run", config, corpus.pipeline, {})
    events.trainer.model.get_submodule("layers.0").register_forward_hook(explode)
    with pytest.raises(DivergedError) as caught:
        events.trainer.train()
    message = caught.value.message
    assert (caught.value.kind, caught.value.exit_code) == ("work.diverged", 1)
    assert "at update 10, with 1/8 of the configured learning rate" in message
    assert "first in layers.0, sentences" in message
    assert [each.update for each in events.returns] == [5, 5, 5]
    assert [each.returns for each in events.returns] == [1, 2, 3]
    assert Run(tmp_path / "run").checkpoint("last").update == 5


class Exploding(TrainingEvents):
    """Remembers the returns."""

    trainer: Trainer

    def __init__(self) -> None:
        self.returns: list[Return] = []

    def go_back(self, event: Return) -> None:
        self.returns.append(event)


@pytest.mark.thorough
def test_a_rate_chosen_by_hand_may_be_halved_three_times_again(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_spoilt(update: int, trainer: Trainer) -> bool:
        rate = trainer.training.learning_rate * trainer.state.trouble.factor
        return update > 6 and rate > 0.0003

    spoil(monkeypatch, is_spoilt)
    run = tmp_path / "run"
    with pytest.raises(DivergedError):
        train(make_config(validate_every=5, max_updates=16), data=corpus.folder, run=run)
    config = make_config(validate_every=5, max_updates=16, learning_rate=0.001)
    result = train(config, data=corpus.folder, run=run)
    assert (result.update, result.returns) == (16, 2)


@pytest.mark.thorough
def test_several_processes_go_back_together(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 1 alone computes the infinite gradients, and both know it from their sum."""
    original = GradientAccumulator.accumulate

    def accumulate(self: Any, *arguments: Any, **options: Any) -> torch.Tensor:
        losses = original(self, *arguments, **options)
        trainer = trainers[0]
        if os.environ["RANK"] == "1" and is_too_fast(trainer.state.update + 1, trainer):
            losses += math.nan
        return losses

    trainers: list[Trainer] = []
    initialise = Trainer.__init__

    def noted(self: Trainer, *arguments: Any, **options: Any) -> None:
        initialise(self, *arguments, **options)
        trainers.append(self)

    monkeypatch.setattr(GradientAccumulator, "accumulate", accumulate)
    monkeypatch.setattr(Trainer, "__init__", noted)

    def one_rank(_: int) -> tuple[int, int, int, float]:
        config = make_config(max_updates=12, validate_every=5)
        result = train(config, data=corpus.folder, run=tmp_path / "run")
        weights = sum(float(each.detach().sum()) for each in trainers[0].model.parameters())
        return result.update, result.returns, result.skipped, weights

    first, second = run_ranks(2, one_rank)
    assert first == second
    assert first[:3] == (12, 2, 10)
    assert [each["ranks"] for each in events_of(tmp_path / "run", "skip")] == [[1]] * 10


@pytest.mark.thorough
def test_what_is_read_one_update_later_ends_the_same(
    poisoned: Poisoned, make_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU: the update after a skipped one is computed before it is known."""
    corpus, initial = poisoned
    config = make_config(max_updates=16, validate_every=5, micro_batch_tokens=30)
    first, original = initial(config), Trainer.__init__
    spoil(monkeypatch, is_too_fast)

    def later(self: Trainer, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        self._read_later = 1

    results = [train(config, data=corpus.folder, run=tmp_path / "now", initial=first)]
    monkeypatch.setattr(Trainer, "__init__", later)
    results.append(train(config, data=corpus.folder, run=tmp_path / "later", initial=first))
    assert last_files(tmp_path / "now") == last_files(tmp_path / "later")
    assert results[0].left_out == results[1].left_out == (POISONED,)
    assert results[0].returns == results[1].returns == 2


def test_a_checkpoint_of_an_earlier_version_continues(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    train(make_config(max_updates=3), data=corpus.folder, run=run)
    folder = Run(run).checkpoint("last").folder
    state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    del state["trouble"]
    (folder / "state.json").write_text(json.dumps(state), encoding="utf-8")
    (folder / "sha256.json").unlink()
    assert train(make_config(max_updates=5), data=corpus.folder, run=run).update == 5


def test_poisoned_sentences_of_valid_are_named_and_end_the_run_at_once(
    poisoned_corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    corpus = poisoned_corpus
    run, config = tmp_path / "run", make_config(max_updates=4, validate_every=2, ema_decay=0.5)
    trainer, _ = make_trainer(Run(run), config, corpus)
    Run.create(run, config, corpus.pipeline, {})
    sentence = corpus.pairs("valid").source[7].tolist()

    def explode(module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        is_it = [row[: len(sentence)].tolist() == sentence for row in inputs[0]]
        is_late = not module.training
        return output.masked_fill(torch.tensor(is_it)[:, None, None] & is_late, math.nan)

    trainer.model.get_submodule("source_embedding").register_forward_hook(explode)
    with pytest.raises(
        DivergedError, match=r"first in source_embedding.*, sentences 7 of valid"
    ) as caught:
        trainer.train()
    assert "remove these sentences from the validation text" in str(caught.value.hint)
    assert trainer.state.trouble.returns == 0
