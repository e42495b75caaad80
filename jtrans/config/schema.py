"""The configuration schema: one frozen class per section, with types, defaults and bounds."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, SerializeAsAny, model_validator

from jtrans.config.scalable import ScalableSizes
from jtrans.config.section import Beam, ConfigSection, Count, Text
from jtrans.config.training import TrainingConfig


class SystemConfig(ConfigSection):
    """The section `[model]`: each system adds its own sizes and options (`models/systems.py`)."""

    # names of settings, besides rates of dropout, that do not change what weights mean
    without_weights: ClassVar[frozenset[str]] = frozenset()

    system: str
    width: Count  # E of the hidden states; the schedule "noam" scales the learning rate by it

    def meaning(self) -> dict[str, Any]:
        """Return the settings that decide what weights mean: all but dropout rates and the like."""
        left_out = self.without_weights | frozenset(self.unused())  # a list in some plugins
        names = [name for name in type(self).model_fields if name not in left_out]
        return {name: getattr(self, name) for name in names if not name.endswith("dropout")}

    def unused(self) -> frozenset[str]:
        """Return the settings without effect: those of parts that this model does not have."""
        return frozenset()

    @property
    def scalable_sizes(self) -> ScalableSizes | None:
        """The depth and the width that `jtrans scale` increases; None if it cannot."""
        return None


class DataConfig(ConfigSection):
    """Where the training data comes from."""

    corpus: str | None = None  # the corpus this recipe is meant for; --data overrides it


class DecodingConfig(ConfigSection):
    """How a run of this recipe translates by default."""

    beam: Beam = 5
    length_penalty: float = 1.0
    length_penalty_form: Literal["power", "gnmt"] = "power"
    # target tokens with </s>: a number, S+N or N*S+M
    max_length: Annotated[str, Field(coerce_numbers_to_str=True)] = "S+50"


class ExpectBand(ConfigSection):
    """The band within which a score of this recipe is expected, and the runs it is based on."""

    metric: Literal["bleu", "chrf", "ter", "multi-bleu"]
    low: float
    high: float
    checkpoint: Text = "best"  # the one scored, such as average-10 of `jtrans average`
    seeds: Count | None = None  # number of runs that the band is based on
    minutes: Annotated[float, Field(gt=0.0)] | None = None  # training time per run
    machine: Text | None = None  # where these runs were trained
    results: Text | None = None  # the folder of their results in the repository
    text: Text | None = None  # the text and its preparation: `jtrans.data.prepared.digest_of`

    @model_validator(mode="after")
    def _check_band(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low {self.low:g} is above high {self.high:g}: no score is expected")
        return self

    def describe(self, split: str) -> str:
        """Return the band and its origin in a line, such as ``test bleu 30.1 to 31.2, 3 seeds``."""
        parts = [
            f"{split} {self.metric} {self.low:g} to {self.high:g}",
            "" if self.checkpoint == "best" else f"checkpoint {self.checkpoint}",
            f"{self.seeds} seeds" if self.seeds else "",
            f"{self.minutes:.0f} min" if self.minutes else "",
            self.machine or "",
            self.results or "",
        ]
        return ", ".join(filter(None, parts))


class Config(ConfigSection):
    """A complete configuration."""

    data: DataConfig = DataConfig()
    model: SerializeAsAny[SystemConfig]
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()
    expect: dict[str, ExpectBand] = Field(default_factory=dict)

    def with_training(self, **settings: Any) -> Self:
        """Return the configuration with other settings of training, which are not validated."""
        training = self.training.model_copy(update=settings)
        return self.model_copy(update={"training": training})

    def to_toml(self) -> str:
        """Return the resolved configuration as TOML, every default written out."""
        import tomli_w

        sections = self.model_dump(mode="json", exclude_none=True)
        return tomli_w.dumps({name: section for name, section in sections.items() if section})
