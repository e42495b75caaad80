"""The models of single-shot scaling, and their runs.

All are ordinary runs in one folder, such as ``deeper-1`` for seed 1, and continue where they
stopped. Another ratio uses the same runs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from jtrans.config import Config
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import ConfigError, JtransError, WorkError
from jtrans.models.zoo import system_configs
from jtrans.runs import Run
from jtrans.scaling.sizes import ffn_width, layer_counts, resized, stack_sizes, width_ratio
from jtrans.scaling.solve import layer_parameters

if TYPE_CHECKING:
    from jtrans.training.events import Result, TrainingEvents

BASE, DEEPER, WIDER, SCALED = "base", "deeper", "wider", "scaled"
MEASURED = (BASE, DEEPER, WIDER)
CONVERGED = {"patience", "floor"}  # reasons of runs that ended by themselves
# settings that a later command may change; also `max_updates`, if the rate does not end there
LIMITS = ("training.max_epochs", "training.max_minutes", "training.stop", "training.keep")


@dataclass(frozen=True)
class ScalingPlan:
    """The models to train in order to scale a model, and where."""

    recipe: str  # the name of the base model's recipe
    config: Config  # of the base model
    data: Path  # the prepared corpus
    out: Path  # the folder of all runs and of the result
    ratio: float  # the factor of the parameters of the layers
    step: int  # layers, and multiples of E in F, of the two larger models
    seeds: tuple[int, ...]  # of the runs

    @cached_property
    def configs(self) -> dict[str, Config]:
        """The configurations of the three models by name."""
        return {
            BASE: resized(self.config),
            DEEPER: resized(self.config, more_layers=self.step),
            WIDER: resized(self.config, more_width=self.step),
        }

    def check(self) -> None:
        """Check the sizes, the corpus and existing runs before anything is trained.

        Raises:
            JtransError: a system without depth and width, a corpus that cannot be read, or a run
                with other settings; weights to begin with (`training.init_from`) that do not fit
                all three sizes.
        """
        for name, config in self.configs.items():
            stack_sizes(config)
            self._check_initial_weights(name, config)
        for name, config in self.configs.items():
            self.check_runs(name, config)

    def _check_initial_weights(self, name: str, config: Config) -> None:
        if not config.training.init_from:
            return
        from jtrans.models.zoo import build_model
        from jtrans.training.weights.initial import initialise

        corpus = PreparedCorpus.open(self.data)
        model = build_model(config.model, *corpus.pipeline.vocabulary_sizes)
        try:
            initialise(model, config, corpus)
        except ConfigError as error:
            if name != BASE:
                error.hint = "leave them out: --set training.init_from=[]; or take only those of "
                error.hint += "parts that keep their sizes, such as the embeddings"
            raise

    def check_runs(self, name: str, config: Config) -> None:
        """Refuse runs of a model that were begun with other settings or data.

        Limits may differ, but not the update at which the learning rate reaches its end: the models
        would be trained with different rates.

        Raises:
            JtransError: naming the run and the setting or data that differ.
        """
        from jtrans.training.setup.continuing import check_same_run, one_of_several

        corpus, schedule = PreparedCorpus.open_for_training(self.data), config.training.schedule
        ends_at_limit = schedule.has_end and schedule.updates is None
        free = LIMITS if ends_at_limit else (*LIMITS, "training.max_updates")
        for seed in self.seeds:
            folder, own = self.run_folder(name, config, seed), config.with_training(seed=seed)
            if Run.exists(folder):
                with one_of_several(folder):
                    run = Run.open(folder)
                check_same_run(run, own, corpus, free=free)

    def is_trained(self, name: str, config: Config) -> bool:
        """Return whether every run of a model has ended, with these very settings and data."""
        from jtrans.training.setup.continuing import check_same_run

        corpus = PreparedCorpus.open(self.data)
        for seed in self.seeds:
            folder = self.run_folder(name, config, seed)
            if not (Run.exists(folder) and Run(folder).has_finished()):
                return False
            try:
                check_same_run(Run.open(folder), config.with_training(seed=seed), corpus, free=())
            except JtransError:
                return False
        return True

    def measured_name(self, config: Config) -> str | None:
        """Return which of the three models has these model settings, None if none has."""
        same = (name for name, own in self.configs.items() if own.model == config.model)
        return next(same, None)

    def run_folder(self, name: str, config: Config, seed: int) -> Path:
        """Return the folder of a run.

        That of a scaled model is named after its sizes, as these change with the losses; earlier
        versions named it after the ratio.
        """
        if name != SCALED:
            return self.out / f"{name}-{seed}"
        earlier = self.out / f"{name}-{self.ratio:g}x-{seed}"
        if Run.exists(earlier) and Run.open(earlier).config(system_configs()).model == config.model:
            return earlier
        layers = "+".join(map(str, layer_counts(config).values()))
        return self.out / f"{name}-{layers}-layers-ffn-{ffn_width(config)}-{seed}"


@dataclass(frozen=True)
class ModelRuns:
    """The runs of one model."""

    name: str  # ``base``, ``deeper``, ``wider`` or ``scaled``
    layers: dict[str, int]  # depth of every stack, by its setting
    ffn_width: int  # F
    ratio: float  # the parameters of its layers, as a multiple of those of the base model
    parameters: int  # all trainable numbers
    losses: dict[int, float]  # the lowest validation loss by seed, in nats per token
    updates: dict[int, int]  # number of updates by seed
    minutes: dict[int, float]  # of training and validation, by seed
    reasons: dict[int, str]  # why the runs ended, by seed
    ignored: tuple[str, ...] = ()  # changed settings, as text, that finished runs ignore

    @property
    def loss(self) -> float:
        """The mean of the losses."""
        return statistics.fmean(self.losses.values())


def train_model(
    plan: ScalingPlan,
    name: str,
    config: Config,
    *,
    device: str | None,
    events: Callable[[], TrainingEvents],
    should_stop: Callable[[], bool],
) -> ModelRuns | None:
    """Train one model with every seed, continuing what was begun; None if it was stopped.

    Args:
        plan: with the folder and the seeds.
        name: the name of the model.
        config: the configuration of the model.
        device: the device to train on.
        events: makes a receiver of the events of each run.
        should_stop: see `jtrans.training.session.train`.

    Raises:
        JtransError: as in `jtrans.training.session.train`; or a run has other settings.
    """
    from jtrans.training.checkpoint import check_log
    from jtrans.training.session import train
    from jtrans.training.setup.continuing import one_of_several

    plan.check_runs(name, config)
    results: dict[int, Result] = {}
    for seed in plan.seeds:
        if should_stop():  # training of a finished run does not call it
            return None
        folder = plan.run_folder(name, config, seed)
        with one_of_several(folder):
            result = train(
                config.with_training(seed=seed),
                data=plan.data,
                run=folder,
                device=device,
                events=events(),
                should_stop=should_stop,
            )
        if result.reason == "stopped":
            return None
        check_log(Run.open(result.run))
        results[seed] = result
    runs = {seed: Run.open(result.run) for seed, result in results.items()}
    base = layer_parameters(stack_sizes(plan.config), width_ratio(plan.config))
    return ModelRuns(
        name=name,
        layers=layer_counts(config),
        ffn_width=ffn_width(config),
        ratio=layer_parameters(stack_sizes(config), width_ratio(config)) / base,
        parameters=int(next(iter(runs.values())).info["parameters"]),
        losses={seed: lowest_loss(run) for seed, run in runs.items()},
        updates={seed: result.update for seed, result in results.items()},
        minutes={seed: result.seconds / 60 for seed, result in results.items()},
        reasons={seed: result.reason for seed, result in results.items()},
        ignored=tuple(dict.fromkeys(each for run in results.values() for each in run.ignored)),
    )


def lowest_loss(run: Run) -> float:
    """Return the lowest validation loss of a run, in nats per target token.

    Raises:
        WorkError: it has not been validated, or has never had a finite loss.
    """
    losses = [float(event["valid_loss"]) for event in run.validations()]
    finite = [loss for loss in losses if math.isfinite(loss)]
    if not finite:
        raise WorkError(
            f"the run {run.folder} has no validation"
            + (" with a finite loss" if losses else " in its log"),
            hint="delete it: the same command trains it again",
            kind="scaling.no-validation",
        )
    return min(finite)
