"""The gradients of depth and width, from the losses of the runs, and the sizes they lead to."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from jtrans.config import Config
from jtrans.evaluation.seeds import deviation_of, t_quantile
from jtrans.scaling.experiment import CONVERGED, MEASURED, ModelRuns, ScalingPlan
from jtrans.scaling.sizes import resized, stack_sizes, width_ratio
from jtrans.scaling.solve import Gradients, Scaling, solve

if TYPE_CHECKING:
    from jtrans.training.estimate import Estimate


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


def scaled_config(plan: ScalingPlan, scaling: Scaling) -> Config:
    """Return the base configuration with the scaled sizes and the first seed."""
    added = {"more_layers": scaling.more_layers, "more_width": scaling.more_width}
    return resized(plan.config, **added).with_training(seed=plan.seeds[0])


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
        changes = dict.fromkeys(each for run in self.runs for each in run.ignored)
        if changes:
            names = ", ".join(run.name for run in self.runs if run.ignored)
            lines.append(
                f"{names}: these runs are finished and ignore changed settings, which the scaled "
                f"recipe has: {', '.join(changes)}"
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
