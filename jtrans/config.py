"""The typed configuration: one frozen class per TOML section, and how a file becomes one.

Precedence: defaults < `extends` < file < `--set` < named options. A run keeps the result with
every value written out, and that file can be trained again as it is.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError

from jtrans.errors import ConfigError, did_you_mean

RECIPES = Path(__file__).parent / "recipes"
SHARED = "_shared"  # the folder of RECIPES with what recipes of one corpus have in common

Rate = Annotated[float, Field(ge=0.0, lt=1.0)]
Count = Annotated[int, Field(gt=0)]


class Section(BaseModel):
    """A section of the configuration: frozen, and no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class SystemConfig(Section):
    """What every system has; each system adds its own sizes and options (`models/systems.py`)."""

    system: str


class DataConfig(Section):
    """Where the training data comes from."""

    corpus: str | None = None  # the corpus this recipe is meant for; --data wins


class OptimiserConfig(Section):
    """The optimiser of the update."""

    name: Literal["adam"] = "adam"
    betas: tuple[Rate, Rate] = (0.9, 0.98)
    eps: Annotated[float, Field(gt=0.0)] = 1e-8


class ScheduleConfig(Section):
    """The learning rate as a function of the update (systems.md 0.7)."""

    name: Literal["inverse-sqrt", "noam", "constant"] = "inverse-sqrt"
    warmup: Annotated[int, Field(ge=0)] = 4000
    warmup_init: Annotated[float, Field(ge=0.0)] = 1e-7  # inverse-sqrt: rate at update 0
    floor: Annotated[float, Field(ge=0.0)] = 1e-9  # training ends below this rate


class StopConfig(Section):
    """When to stop before the limits: no better validation for `patience` validations."""

    metric: Literal["valid-bleu", "valid-loss"] = "valid-loss"
    patience: Count = 10


class KeepConfig(Section):
    """How many checkpoints stay on disk."""

    last: Count = 5
    best: Count = 1


class TrainingConfig(Section):
    """How a model is trained."""

    batch_tokens: Count = 4096  # target tokens per update, over all devices and passes
    pass_tokens: Count | None = None  # target tokens in one pass; default: batch_tokens
    pass_joint: Count = 65536  # padded joint positions B*T*S in one pass (joint systems)
    # what a pass costs beside its positions, in positions: about 200 on a CPU, 5000 on a GPU
    pass_overhead: Count = 200
    optimiser: OptimiserConfig = OptimiserConfig()
    learning_rate: Annotated[float, Field(gt=0.0)] = 7e-4
    schedule: ScheduleConfig = ScheduleConfig()
    label_smoothing: Rate = 0.1
    smoothing_form: Literal["all", "others"] = "all"  # systems.md 0.6
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.0  # decoupled
    clip_norm: Annotated[float, Field(ge=0.0)] = 25.0  # 0: off
    bpe_dropout: Rate = 0.0  # share of merges left out, anew in each epoch (0.1 is usual); 0: off
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
    compile: Literal["auto", "on", "off"] = "auto"  # layers by torch.compile; auto: on CUDA
    deterministic: bool = False  # on CUDA: only deterministic kernels
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1  # what every generator here takes


class DecodingConfig(Section):
    """How a run of this recipe translates unless told otherwise."""

    beam: Count = 5
    length_penalty: float = 1.0
    length_penalty_form: Literal["power", "gnmt"] = "power"
    max_length: str = "S+50"  # target tokens with </s>: a number, S+N or N*S+M


class ExpectBand(Section):
    """A score this recipe reproduces."""

    metric: Literal["bleu", "chrf", "ter", "multi-bleu"]
    low: float
    high: float


class Config(Section):
    """A whole configuration."""

    data: DataConfig = DataConfig()
    model: SerializeAsAny[SystemConfig]
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()
    expect: dict[str, ExpectBand] = {}

    def to_toml(self) -> str:
        """Return the resolved configuration, every default written out."""
        import tomli_w

        return tomli_w.dumps(self.model_dump(mode="json", exclude_none=True))


def recipe_names() -> list[str]:
    """Return the names of all recipes, sorted."""
    paths = [path.relative_to(RECIPES) for path in RECIPES.rglob("*.toml")]
    return sorted(path.with_suffix("").as_posix() for path in paths if path.parts[0] != SHARED)


def find_config(name: str) -> Path:
    """Return the file of a recipe name or of a path to a TOML file.

    Raises:
        ConfigError: no such recipe or file.
    """
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise ConfigError(
                f"no such configuration file: {name}",
                hint="jtrans recipes NAME --copy my.toml makes one to start from",
                kind="config.missing",
            )
        return path
    recipe = RECIPES / f"{name}.toml"
    if name in recipe_names():
        return recipe
    near = did_you_mean(name, recipe_names())
    raise ConfigError(
        f"no such recipe: {name}",
        hint=f"did you mean {near}?" if near else "jtrans recipes lists them",
        kind="config.unknown-recipe",
    )


def load_config(
    name: str,
    systems: Mapping[str, type[SystemConfig]],
    *,
    overrides: Iterable[str] = (),
    options: Mapping[str, Any] | None = None,
) -> Config:
    """Load a recipe or a TOML file.

    Args:
        name: a recipe's name or a path ending in .toml.
        systems: the configuration class of each system (`models.zoo.system_configs`).
        overrides: `--set` values, each `section.key=value`; the value is TOML, or plain text.
        options: values of named options, by dotted key; None values are ignored.

    Raises:
        ConfigError: unknown file, key, type or value, naming the nearest valid key.
    """
    path = find_config(name)
    values = _read(path)
    base = values.pop("extends", None)
    if base is not None:
        values = merge_values(_read_base(path, str(base)), values)
    origins: dict[str, str] = {}
    for override in overrides:
        _assign(values, *_parse_override(override), origins, "from --set")
    for key, value in (options or {}).items():
        if value is not None:
            _assign(values, key, value, origins, "from an option")
    return build_config(values, systems, where=str(path), origins=origins)


def build_config(
    values: Mapping[str, Any],
    systems: Mapping[str, type[SystemConfig]],
    *,
    where: str,
    origins: Mapping[str, str] | None = None,
) -> Config:
    """Check plain values and make them a `Config`; `where` names their file in errors."""
    values = dict(values)
    model = values.get("model") or {}
    if not isinstance(model, Mapping):
        raise ConfigError(
            f"model is a section with keys of its own (got {model!r})",
            where=(origins or {}).get("model", where),
            hint="for example [model] and below it width = 256",
            kind="config.value",
        )
    system = model.get("system")
    if system is None:
        raise ConfigError(
            "model.system is missing",
            where=where,
            hint=f"one of: {', '.join(systems)}",
            kind="config.missing-key",
        )
    if system not in systems:
        near = did_you_mean(str(system), systems)
        raise ConfigError(
            f"unknown system: {system}",
            where=(origins or {}).get("model.system", where),
            hint=f"did you mean {near}?" if near else "jtrans models lists them",
            kind="config.unknown-system",
        )
    try:
        values["model"] = systems[system].model_validate(model)
    except ValidationError as error:
        raise _explain(error, systems[system], "model", where, origins or {}) from error
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise _explain(error, Config, "", where, origins or {}) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"not valid TOML: {error}", where=str(path), kind="config.toml") from None
    except OSError as error:
        raise ConfigError(
            f"cannot read the configuration: {error.strerror}", where=str(path)
        ) from None


def _read_base(path: Path, base: str) -> dict[str, Any]:
    """Read what `path` extends. A recipe counts as one file, with what it shares with others."""
    base_path = path.parent / base
    if not base_path.is_file():
        base_path = find_config(base)
    values = _read(base_path)
    shared = values.pop("extends", None)
    if shared is None:
        return values
    if RECIPES not in base_path.parents:
        raise ConfigError(
            f"{base} itself extends another file; one level is the limit",
            where=str(path),
            hint=f"extend {shared} instead",
            kind="config.extends",
        )
    return merge_values(_read(base_path.parent / str(shared)), values)


def merge_values(base: dict[str, Any], top: dict[str, Any]) -> dict[str, Any]:
    """Return `base` with the keys of `top` put over it, section by section."""
    merged = dict(base)
    for key, value in top.items():
        old = merged.get(key)
        merged[key] = (
            merge_values(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
        )
    return merged


def _parse_override(override: str) -> tuple[str, Any]:
    key, equals, text = override.partition("=")
    key = key.strip()
    if not equals or not key or not text.strip():
        raise ConfigError(
            f"--set needs KEY=VALUE, not {override!r}",
            where="--set",
            hint="for example --set training.learning_rate=1e-3",
            kind="config.override",
        )
    try:
        return key, tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return key, text.strip()  # plain text needs no quotes


def _assign(
    values: dict[str, Any], key: str, value: Any, origins: dict[str, str], origin: str
) -> None:
    *sections, last = key.split(".")
    place = values
    for section in sections:
        inner = place.setdefault(section, {})
        if not isinstance(inner, dict):
            inner = place[section] = {}
        place = inner
    place[last] = value
    origins[key] = origin


def _explain(
    error: ValidationError,
    model: type[BaseModel],
    prefix: str,
    where: str,
    origins: Mapping[str, str],
) -> ConfigError:
    """Turn the first fault pydantic found into one paragraph."""
    fault = error.errors()[0]
    parts = _key_parts(fault)
    key = ".".join([prefix, *parts] if prefix else parts)
    # the fault of a section (sizes that do not fit) comes from its keys, and the other way round
    causes = [
        origin
        for name, origin in origins.items()
        if f"{name}.".startswith(f"{key}.") or f"{key}.".startswith(f"{name}.")
    ]
    place = causes[0] if causes else where
    if fault["type"] == "extra_forbidden":
        valid = _sibling_keys(model, parts)
        near = did_you_mean(parts[-1], valid)
        section = ".".join(key.split(".")[:-1])
        hint = (
            f"did you mean {section + '.' if section else ''}{near}?"
            if near
            else f"valid keys: {', '.join(sorted(valid))}"
        )
        return ConfigError(f"unknown key {key}", where=place, hint=hint, kind="config.unknown-key")
    if fault["type"] == "value_error":
        message = str(fault["msg"]).removeprefix("Value error, ")
        return ConfigError(
            message,
            where=f"{key or prefix}, {place}",
            hint="jtrans models NAME shows the options of a system",
            kind="config.value",
        )
    shown = "" if fault["type"] == "missing" else f" (got {fault['input']!r})"
    # a value may be one of several kinds, each with a fault of its own: "epoch", or a number
    rules = [_rule(one) for one in error.errors() if _key_parts(one) == parts]
    message = f"{key}: {', or '.join(dict.fromkeys(rules))}{shown}"
    return ConfigError(
        message, where=place, hint="jtrans recipes shows examples", kind="config.value"
    )


def _key_parts(fault: Mapping[str, Any]) -> list[str]:
    """Return the key of a fault, without pydantic's marks of the kind it tried."""
    kinds = ("constrained-int", "int", "float", "str")
    parts = [str(part) for part in fault["loc"]]
    return [
        part
        for part in parts
        if part not in kinds and not part.startswith(("function", "literal["))
    ]


def _rule(fault: Mapping[str, Any]) -> str:
    kinds = {"tuple_type": "input should be a list", "model_type": "input should be a section"}
    text = kinds.get(fault["type"], str(fault["msg"]))
    return text[0].lower() + text[1:]


def _sibling_keys(model: type[BaseModel], parts: list[str]) -> list[str]:
    for part in parts[:-1]:
        field = model.model_fields.get(part)
        if field is None:
            break
        inner = [
            kind
            for kind in (field.annotation, *getattr(field.annotation, "__args__", ()))
            if isinstance(kind, type) and issubclass(kind, BaseModel)
        ]
        if not inner:
            break
        model = inner[0]
    return list(model.model_fields)
