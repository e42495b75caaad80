"""The section `[training]`: optimiser, schedule, batches, validation, checkpoints."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from jtrans.config.section import (
    Beam,
    ConfigSection,
    Count,
    CountOrZero,
    NamedSection,
    Rate,
    SettingError,
    Text,
)

MOST_WEIGHT = 1_000.0  # of a term of the loss: with more nothing is learned
# results of a validation; "pos" and "ner": the accuracy of labels, for systems that learn them
Metric = Literal["valid-loss", "valid-bleu", "valid-chrf", "valid-pos", "valid-ner"]


class OptimiserConfig(NamedSection):
    """The optimiser and its settings (docs/systems.md 0.7)."""

    OWN: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "adam": {"betas": (0.9, 0.98), "eps": 1e-8},
        "adafactor": {"decay_power": 0.8, "clip_step": 1.0},
        "nesterov": {"momentum": 0.99},
    }
    name: Literal["adam", "adafactor", "nesterov"] = "adam"
    betas: tuple[Rate, Rate] | None = None
    eps: Annotated[float, Field(gt=0.0)] | None = None
    # adafactor: the mean of squared gradients decays by 1 - t^-decay_power; the largest root mean
    # square of a step, in units of the rate
    decay_power: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    clip_step: Annotated[float, Field(ge=1.0)] | None = None
    momentum: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None


class ScheduleConfig(NamedSection):
    """The learning rate as a function of the update number (docs/systems.md 0.7 and 7.8)."""

    OWN: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "rnmt": {
            "warmup": 500,
            "replicas": 1,
            "decay_start": 400_000,
            "decay_end": 1_200_000,
            "late_start": False,
        },
        "plateau": {"factor": 0.1, "patience": 1, "floor": 1e-4},
        "cosine": {"updates": None, "final": 0.0},
        "wsd": {"updates": None, "final": 0.0, "cooldown": 0.2},
    }
    name: Literal["inverse-sqrt", "noam", "constant", "rnmt", "plateau", "cosine", "wsd"] = (
        "inverse-sqrt"
    )
    warmup: CountOrZero = 4000  # updates; for rnmt, times the replicas
    # inverse-sqrt, cosine, wsd: rate at update 0
    warmup_init: Annotated[float, Field(ge=0.0)] = 1e-7
    floor: Annotated[float, Field(ge=0.0)] = 1e-9  # training ends below this rate
    # rnmt: as if this many replicas shared an update; the decay, in updates times replicas
    replicas: Count | None = None
    decay_start: CountOrZero | None = None
    decay_end: Count | None = None
    late_start: bool | None = None  # the decay starts after the warm-up at the earliest
    # plateau: the rate is multiplied by `factor` after `patience` validations without a lower loss
    factor: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    patience: Count | None = None
    # cosine, wsd: the update at which the rate has fallen to `final` times the highest; default:
    # `max_updates`. wsd: `cooldown` is the part of the updates after the warm-up in which it falls
    updates: Count | None = None
    final: Rate | None = None
    cooldown: Annotated[float, Field(gt=0.0, le=1.0)] | None = None

    @property
    def has_end(self) -> bool:
        """Whether the rate falls until an update that is known beforehand."""
        return self.name in ("cosine", "wsd")

    @model_validator(mode="after")
    def _check_decay(self) -> Self:
        if self.updates is not None and self.updates <= self.warmup:
            raise SettingError(
                f"the schedule ends at update {self.updates:,}, within its warm-up of "
                f"{self.warmup:,}",
                f"--set training.schedule.warmup={self.updates // 10}",
            )
        start, end = self.decay_start, self.decay_end
        if start is not None and end is not None and end <= start:
            raise ValueError(f"decay_end {end:,} must be larger than decay_start {start:,}")
        return self


class StopConfig(ConfigSection):
    """Early stopping after `patience` validations without improvement."""

    metric: Metric = "valid-loss"
    patience: Count = 10


class KeepConfig(ConfigSection):
    """How many checkpoints stay on disk."""

    last: Count = 5
    best: Count = 1
    # those of this many consecutive validations, with the best mean BLEU; 0: none
    window: CountOrZero = 0
    # also the first checkpoint of each period of so many hours of training; 0: off
    every_hours: Annotated[float, Field(ge=0.0)] = 0.0


def _check_minutes(value: object) -> object:
    match = re.fullmatch(r"(\d+(?:\.\d+)?) minutes?", str(value))
    if match is None or float(match[1]) <= 0.0:
        raise ValueError("a time such as '30 minutes'")
    return value


Minutes = Annotated[str, BeforeValidator(_check_minutes)]


class InitialWeights(ConfigSection):
    """Weights that a new run takes from another run; `*` in a pattern stands for any text."""

    run: Text  # a folder, or a name under runs/
    weights: Text | None = None  # names in that run; default: all that this system has, too
    into: Text | None = None  # their names here, with a * for each; default: the same

    @model_validator(mode="after")
    def _same_wildcards(self) -> Self:
        if self.into is None:
            return self
        if self.weights is None:
            raise ValueError(f"into = {self.into!r} needs weights = 'PATTERN' beside it")
        theirs, ours = self.weights.count("*"), self.into.count("*")
        if theirs != ours:
            raise ValueError(
                f"weights = {self.weights!r} has {theirs} *, but into = {self.into!r} has {ours}"
            )
        return self


def _entries(value: object) -> object:
    return [{"run": value}] if isinstance(value, str) else value


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


class TrainingConfig(ConfigSection):
    """How a model is trained."""

    batch_tokens: Count = 4096  # target tokens per update, over all its micro-batches
    # padded target tokens, and half the padded source tokens; default: batch_tokens
    micro_batch_tokens: Count | None = None
    # padded joint positions B*T*S (joint systems); default: 8,000 on a CPU, else 131,072
    micro_batch_joint: Count | None = None
    # the fixed cost of a micro-batch, in joint positions; default: 200 on a CPU, else 20,000
    micro_batch_overhead: Count | None = None
    optimiser: OptimiserConfig = OptimiserConfig()
    learning_rate: Annotated[float, Field(gt=0.0)] = 7e-4
    schedule: ScheduleConfig = ScheduleConfig()
    label_smoothing: Rate = 0.1
    smoothing_form: Literal["all", "others"] = "all"  # docs/systems.md 0.6
    normalise: Literal["token", "sentence"] = "token"  # the units that the loss is a mean of
    weight_decay: Annotated[float, Field(ge=0.0, le=MOST_WEIGHT)] = 0.0  # decoupled
    # in the gradient, of weight matrices only
    l2: Annotated[float, Field(ge=0.0, le=MOST_WEIGHT)] = 0.0
    clip_norm: Annotated[float, Field(ge=0.0)] = 25.0  # 0: off
    gradient_guard: bool = False  # drop updates of abnormal gradients (docs/systems.md 7.8)
    ema_decay: Rate = 0.0  # decay of a moving average of weights, which is validated; 0: off
    # weight of R-Drop (5 is usual); 0: off
    r_drop: Annotated[float, Field(ge=0.0, le=MOST_WEIGHT)] = 0.0
    cutoff: Rate = 0.0  # probability that R-Drop's second pass does not read a token; 0: off
    word_dropout: Rate = 0.0  # probability of reading <unk> instead of a token; 0: off
    bpe_dropout: Rate = 0.0  # probability of dropping a merge (0.1 is usual); 0: off
    max_epochs: Count | None = None
    max_updates: Count | None = None
    max_minutes: Annotated[float, Field(gt=0.0)] | None = None
    # or a number of updates, or a time: "30 minutes"
    validate_every: Literal["epoch"] | Count | Minutes = "epoch"
    validate_sentences: CountOrZero = 1000  # translated for BLEU; 0: no BLEU
    validate_beam: Beam = 1
    # translations that a validation shows, always of the same sentences; 0: none
    validate_samples: CountOrZero = 3
    best_metric: Metric = "valid-loss"
    stop: StopConfig | None = None
    keep: KeepConfig = KeepConfig()
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # auto: bf16 on CUDA, else fp32
    recompute: Literal["none", "hidden", "layer"] = "none"  # in the backward pass; saves memory
    compile: Literal["auto", "on", "off"] = "auto"  # torch.compile of layers
    graphs: bool = True  # on CUDA: launch the passes of a micro-batch as a whole
    deterministic: bool = False  # on CUDA: only deterministic kernels
    init_from: Annotated[tuple[InitialWeights, ...], BeforeValidator(_entries)] = ()  # or one run
    # patterns of weights that are not trained, or one
    freeze: Annotated[tuple[Text, ...], BeforeValidator(_listed)] = ()
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1  # the range that all generators accept

    @property
    def deciding_metrics(self) -> dict[str, str]:
        """The metrics that decide about checkpoints and about stopping, by their settings."""
        stop = {"training.stop.metric": self.stop.metric} if self.stop else {}
        return {"training.best_metric": self.best_metric, **stop}

    @property
    def minutes_between_validations(self) -> float | None:
        """The time of `validate_every` in minutes; None if it is not a time."""
        every = self.validate_every
        return None if isinstance(every, int) or every == "epoch" else float(every.split("m")[0])

    @property
    def most_validations(self) -> int | None:
        """The most validations that the limits of training allow; None if there is no limit."""
        if self.validate_every == "epoch":
            return self.max_epochs
        minutes = self.minutes_between_validations
        limit = self.max_updates if minutes is None else self.max_minutes
        every = self.validate_every if minutes is None else minutes
        # rounded up because training ends with a validation
        return None if limit is None else math.ceil(limit / float(every))

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        if self.weight_decay and self.l2:
            raise SettingError(
                f"weight_decay {self.weight_decay:g} and l2 {self.l2:g} are two forms of the same "
                "penalty: one of them must be 0",
                "--set training.weight_decay=0",
            )
        if self.weight_decay and self.optimiser.name == "nesterov":
            raise SettingError(
                f"weight_decay {self.weight_decay:g} is for adam and adafactor: with nesterov use "
                "l2 (and weight_decay 0)",
                f"--set training.weight_decay=0 --set training.l2={self.weight_decay:g}",
            )
        if self.cutoff and not self.r_drop:
            raise SettingError(
                f"cutoff {self.cutoff:g} is for the second pass of R-Drop, but r_drop is 0",
                "--set training.r_drop=5, or --set training.cutoff=0",
            )
        self._check_schedule()
        self._check_window()
        return self

    def _check_schedule(self) -> None:
        schedule, rate = self.schedule, self.learning_rate
        if schedule.has_end and schedule.updates is None:
            if self.max_updates is None:
                raise SettingError(
                    f"the schedule {schedule.name} needs the update at which it ends",
                    "--set training.schedule.updates=100000, or --set training.max_updates=100000",
                )
            if self.max_updates <= schedule.warmup:
                raise SettingError(
                    f"the schedule {schedule.name} ends at max_updates {self.max_updates:,}, "
                    f"within its warm-up of {schedule.warmup:,}",
                    f"--set training.schedule.warmup={self.max_updates // 10}",
                )
        if schedule.name in ("plateau", "constant", "inverse-sqrt") and rate < schedule.floor:
            raise SettingError(
                f"learning_rate {rate:g} is below the floor of the schedule, {schedule.floor:g}, "
                "where training ends",
                f"--set training.schedule.floor={rate / 1000:g}",
            )

    def _check_window(self) -> None:
        window, most = self.keep.window, self.most_validations
        if window == 1:
            raise SettingError(
                "keep.window 1 is too small: a window needs at least 2 validations",
                "--set training.keep.window=21, or 0 for none",
            )
        if window and not self.validate_sentences:
            raise SettingError(
                f"keep.window {window} chooses by BLEU, but validate_sentences is 0",
                "--set training.validate_sentences=500, or --set training.keep.window=0",
            )
        if window and most is not None and window > most:
            raise SettingError(
                f"keep.window {window} is larger than the number of validations of this run, "
                f"{most}",
                "validate more often, train longer, or --set training.keep.window=0",
            )
