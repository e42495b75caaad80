"""The three runs of single-shot scaling, their gradients, and the sizes these lead to.

All are ordinary runs in one folder, such as ``deeper-1`` for seed 1, and continue where they
stopped. Another ratio needs none of them again.
"""

from __future__ import annotations

import json
import math
import signal
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.config import Config
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import EXIT_BAD_INPUT, ConfigError, JtransError, WorkError
from jtrans.evaluation.seeds import deviation_of, t_quantile
from jtrans.files import write_text
from jtrans.models.zoo import system_configs
from jtrans.processors import own_command
from jtrans.runs import Run
from jtrans.scaling.sizes import ffn_width, layer_counts, resized, stack_sizes, width_ratio
from jtrans.scaling.solve import Gradients, Scaling, layer_parameters, solve

if TYPE_CHECKING:
    from jtrans.training.estimate import Estimate
    from jtrans.training.events import Result, TrainingEvents

BASE, DEEPER, WIDER, SCALED = "base", "deeper", "wider", "scaled"
MEASURED = (BASE, DEEPER, WIDER)
CONVERGED = {"patience", "floor"}  # reasons of runs that ended by themselves
# settings that a later command may change: the runs continue where they ended
LONGER = ("training.max_", "training.stop", "training.keep")


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

        Raises:
            JtransError: naming the setting and the run.
        """
        from jtrans.training.setup.continuing import check_same_run

        corpus = PreparedCorpus.open(self.data)
        for seed in self.seeds:
            folder, own = self.run_folder(name, config, seed), config.with_training(seed=seed)
            if Run.exists(folder):
                check_same_run(Run.open(folder), own, corpus, free=LONGER)

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
        versions wrote the ratio.
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

    @property
    def loss(self) -> float:
        """The mean of the losses."""
        return statistics.fmean(self.losses.values())


@dataclass(frozen=True)
class GradientSpread:
    """A gradient, measured with several seeds."""

    values: tuple[float, ...]  # one per seed

    @property
    def mean(self) -> float:
        """The mean, which gives the direction of scaling."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation, None for one seed."""
        return deviation_of(self.values)

    @property
    def half_interval(self) -> float | None:
        """Half the width of the 95 % interval of the mean, None for one seed."""
        if self.deviation is None:
            return None
        count = len(self.values)
        return t_quantile(count - 1) * self.deviation / math.sqrt(count)

    def __str__(self) -> str:
        """Return the mean as text, with its interval if there are several seeds."""
        half = self.half_interval
        return f"{self.mean:.5f}" + ("" if half is None else f" ± {half:.5f}")

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        summary = {"mean": self.mean, "sd": self.deviation, "interval": self.half_interval}
        return {"values": list(self.values), **summary}


@dataclass(frozen=True)
class ScalingResult:
    """The outcome of scaling a model."""

    plan: ScalingPlan  # what was trained
    runs: tuple[ModelRuns, ...]  # of all models, the scaled one last if it was trained
    depth: GradientSpread  # the gradient of depth
    width: GradientSpread  # the gradient of F/E
    scaling: Scaling  # the solution
    estimates: Mapping[str, Estimate]  # of the base and of the scaled model, by name

    @property
    def scaled_config(self) -> Config:
        """The configuration of the scaled model."""
        return scaled_config(self.plan, self.scaling)

    @property
    def warnings(self) -> list[str]:
        """The reasons to doubt the result, in words."""
        lines = []
        for name, spread in (("depth", self.depth), ("width", self.width)):
            half = spread.half_interval
            if half is not None and abs(spread.mean) < half:
                lines.append(
                    f"the gradient of {name} is {spread.mean:.4f} ± {half:.4f}: its sign is not "
                    "certain with these seeds; more seeds, or longer training, would tell"
                )
        if len(self.plan.seeds) == 1:
            lines.append(
                "one seed: how much the gradients vary is unknown (--seeds 1,2,3 would tell)"
            )
        limits = {run.reasons[seed] for run in self.runs for seed in run.updates} - CONVERGED
        if limits and len({count for run in self.runs for count in run.updates.values()}) > 1:
            counts = ", ".join(f"{run.name} {_range(run.updates.values())}" for run in self.runs)
            lines.append(
                f"the models were not trained for equally many updates ({counts}): a model with "
                "fewer looks worse than it is"
            )
        if self.scaling.changes_nothing:
            lines.append(self.scaling.too_small)
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "recipe": self.plan.recipe,
            "system": self.plan.config.model.system,
            "data": str(self.plan.data),
            "ratio": self.plan.ratio,
            "step": self.plan.step,
            "seeds": list(self.plan.seeds),
            "gradients": {"depth": self.depth.to_json(), "width": self.width.to_json()},
            "solution": self.scaling.to_json(),
            "models": [asdict(model) for model in self.runs],
            "estimates": {name: estimate.to_json() for name, estimate in self.estimates.items()},
            "warnings": self.warnings,
        }


def _range(counts: Collection[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def scaled_config(plan: ScalingPlan, scaling: Scaling) -> Config:
    """Return the base configuration with the scaled sizes and the first seed."""
    added = {"more_layers": scaling.more_layers, "more_width": scaling.more_width}
    return resized(plan.config, **added).with_training(seed=plan.seeds[0])


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
    from jtrans.training.session import train
    from jtrans.training.setup.continuing import one_of_several

    plan.check_runs(name, config)
    results: dict[int, Result] = {}
    for seed in plan.seeds:
        if should_stop():  # what is finished does not ask
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


def find_gradients(
    plan: ScalingPlan, runs: Sequence[ModelRuns]
) -> tuple[GradientSpread, GradientSpread]:
    """Return the gradients of depth and of width, from pairs of runs with the same seed."""
    base, deeper, wider = runs[: len(MEASURED)]
    pairs = [
        Gradients.from_losses(
            base.losses[seed], deeper.losses[seed], wider.losses[seed], step=plan.step
        )
        for seed in plan.seeds
    ]
    return (
        GradientSpread(tuple(pair.depth for pair in pairs)),
        GradientSpread(tuple(pair.width for pair in pairs)),
    )


def find_scaling(plan: ScalingPlan, depth: GradientSpread, width: GradientSpread) -> Scaling:
    """Solve Eq. 11 for the mean gradients; see `jtrans.scaling.solve.solve`."""
    gradients = Gradients(depth.mean, width.mean)
    return solve(stack_sizes(plan.config), width_ratio(plan.config), gradients, plan.ratio)


def predict(configs: Mapping[str, Config], data: Path, device: str | None) -> dict[str, Estimate]:
    """Estimate memory and time of training some models, each with ``jtrans train --dry-run``.

    Each estimate runs in a process of its own, whose peak memory is that of its model alone.

    Raises:
        JtransError: bad input, such as a damaged corpus.
        WorkError: an estimate failed, for example because memory ran out.
    """
    from jtrans.training.estimate import Estimate

    estimates = {}
    for name, config in configs.items():
        with tempfile.TemporaryDirectory(prefix="jtrans-scale-") as folder:
            path = Path(folder) / f"{name}.toml"
            write_text(path, config.to_toml())
            estimates[name] = Estimate(**_dry_run(name, path, data, device))
    return estimates


def _dry_run(name: str, config: Path, data: Path, device: str | None) -> dict[str, Any]:
    command = [*own_command(), "train", str(config), "--data", str(data)]
    command += ["--dry-run", "--json", *(["--device", device] if device else [])]
    ended = subprocess.run(command, capture_output=True, check=False)
    try:
        value = dict(json.loads(ended.stdout))
    except ValueError:
        value = {"error": _failure(ended)}
    if "error" in value:
        error = value["error"]
        is_bad_input = ended.returncode == EXIT_BAD_INPUT
        raise (JtransError if is_bad_input else WorkError)(
            f"memory and time of the {name} model cannot be estimated: {error['message']}",
            where=error.get("where"),
            hint=error.get("hint"),
            kind=error.get("kind") if is_bad_input else "scaling.estimate",
        )
    return value


def _failure(ended: subprocess.CompletedProcess[bytes]) -> dict[str, str | None]:
    """Describe an estimate that ended without a word of its own."""
    if ended.returncode == -signal.SIGKILL:
        return {
            "message": "its process was killed, as the system does when memory runs out",
            "hint": "a smaller --step or base model, or a machine with more memory",
        }
    text = ended.stderr.decode(errors="replace").strip()[-500:]
    return {"message": text or f"its process ended with {ended.returncode}", "hint": None}
