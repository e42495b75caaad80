"""The configuration schema: one frozen class per section, with types, defaults and bounds."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SerializeAsAny, model_validator

Rate = Annotated[float, Field(ge=0.0, lt=1.0)]
Count = Annotated[int, Field(gt=0)]
Text = Annotated[str, Field(min_length=1)]


class ConfigSection(BaseModel):
    """A section of the configuration: frozen, and unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class SystemConfig(ConfigSection):
    """The section `[model]`: each system adds its own sizes and options (`models/systems.py`)."""

    system: str
    width: Count  # E of the hidden states; the schedule "noam" scales the learning rate by it


class DataConfig(ConfigSection):
    """Where the training data comes from."""

    corpus: str | None = None  # the corpus this recipe is meant for; --data overrides it


class OptimiserConfig(ConfigSection):
    """The optimiser and its settings."""

    name: Literal["adam"] = "adam"
    betas: tuple[Rate, Rate] = (0.9, 0.98)
    eps: Annotated[float, Field(gt=0.0)] = 1e-8


class ScheduleConfig(ConfigSection):
    """The learning rate as a function of the update number (docs/systems.md 0.7)."""

    name: Literal["inverse-sqrt", "noam", "constant"] = "inverse-sqrt"
    warmup: Annotated[int, Field(ge=0)] = 4000
    warmup_init: Annotated[float, Field(ge=0.0)] = 1e-7  # inverse-sqrt: rate at update 0
    floor: Annotated[float, Field(ge=0.0)] = 1e-9  # training ends below this rate


class StopConfig(ConfigSection):
    """Early stopping after `patience` validations without improvement."""

    metric: Literal["valid-bleu", "valid-loss"] = "valid-loss"
    patience: Count = 10


class KeepConfig(ConfigSection):
    """How many checkpoints stay on disk."""

    last: Count = 5
    best: Count = 1


class InitialWeights(ConfigSection):
    """Weights that a new run takes from another run; `*` in a pattern stands for any text."""

    run: Text  # a folder, or a name under runs/
    weights: Text | None = None  # names in that run; default: all that the system has a place for
    into: Text | None = None  # their names here, with a * for each; default: the same

    @model_validator(mode="after")
    def _same_wildcards(self) -> Self:
        if self.into is None:
            return self
        if self.weights is None:
            raise ValueError(f"into = {self.into!r} needs weights = 'PATTERN' beside it")
        there, here = self.weights.count("*"), self.into.count("*")
        if there != here:
            raise ValueError(
                f"weights = {self.weights!r} has {there} *, but into = {self.into!r} has {here}"
            )
        return self


def _entries(value: object) -> object:
    return [{"run": value}] if isinstance(value, str) else value


class TrainingConfig(ConfigSection):
    """How a model is trained."""

    batch_tokens: Count = 4096  # target tokens per update, over all its micro-batches
    # padded target tokens, and half the padded source tokens; default: batch_tokens
    micro_batch_tokens: Count | None = None
    # padded joint positions B*T*S (joint systems); default: 8,000 on a CPU, else 65,536
    micro_batch_joint: Count | None = None
    # the fixed cost of a micro-batch, in joint positions; default: 200 on a CPU, else 5,000
    micro_batch_overhead: Count | None = None
    optimiser: OptimiserConfig = OptimiserConfig()
    learning_rate: Annotated[float, Field(gt=0.0)] = 7e-4
    schedule: ScheduleConfig = ScheduleConfig()
    label_smoothing: Rate = 0.1
    smoothing_form: Literal["all", "others"] = "all"  # docs/systems.md 0.6
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.0  # decoupled
    clip_norm: Annotated[float, Field(ge=0.0)] = 25.0  # 0: off
    bpe_dropout: Rate = 0.0  # probability of dropping a merge (0.1 is usual); 0: off
    max_epochs: Count | None = None
    max_updates: Count | None = None
    max_minutes: Annotated[float, Field(gt=0.0)] | None = None
    validate_every: Literal["epoch"] | Count = "epoch"  # or a number of updates
    validate_sentences: Annotated[int, Field(ge=0)] = 1000  # translated for BLEU; 0: no BLEU
    validate_beam: Count = 1
    best_metric: Literal["valid-bleu", "valid-loss"] = "valid-loss"
    stop: StopConfig | None = None
    keep: KeepConfig = KeepConfig()
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # auto: bf16 on CUDA, else fp32
    recompute: Literal["none", "hidden", "layer"] = "none"  # in the backward pass, to save memory
    compile: Literal["auto", "on", "off"] = "auto"  # torch.compile of layers; auto: on CUDA
    deterministic: bool = False  # on CUDA: only deterministic kernels
    init_from: Annotated[tuple[InitialWeights, ...], BeforeValidator(_entries)] = ()  # or one run
    freeze: tuple[Text, ...] = ()  # patterns of weights that are not trained
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1  # the range that all generators accept


class DecodingConfig(ConfigSection):
    """How a run of this recipe translates by default."""

    beam: Count = 5
    length_penalty: float = 1.0
    length_penalty_form: Literal["power", "gnmt"] = "power"
    # target tokens with </s>: a number, S+N or N*S+M
    max_length: Annotated[str, Field(coerce_numbers_to_str=True)] = "S+50"


class ExpectBand(ConfigSection):
    """The band within which a score of this recipe is expected."""

    metric: Literal["bleu", "chrf", "ter", "multi-bleu"]
    low: float
    high: float


class Config(ConfigSection):
    """A complete configuration."""

    data: DataConfig = DataConfig()
    model: SerializeAsAny[SystemConfig]
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()
    expect: dict[str, ExpectBand] = {}

    def to_toml(self) -> str:
        """Return the resolved configuration as TOML, every default written out."""
        import tomli_w

        return tomli_w.dumps(self.model_dump(mode="json", exclude_none=True))
