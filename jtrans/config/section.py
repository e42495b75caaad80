"""Sections of the configuration: frozen classes with types, defaults and bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

# Memory grows with the beam (3.7 GB at 500 for a batch of the demo's small model); quality does
# not and falls beyond a few dozen. A wider beam is taken for a typing error.
WIDEST_BEAM = 200

Rate = Annotated[float, Field(ge=0.0, lt=1.0)]
Count = Annotated[int, Field(gt=0, lt=2**63)]
CountOrZero = Annotated[int, Field(ge=0, lt=2**63)]
Beam = Annotated[int, Field(gt=0, le=WIDEST_BEAM)]
Text = Annotated[str, Field(min_length=1)]


class SettingError(ValueError):
    """A setting that cannot work, with what to do about it: an option to paste."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class ConfigSection(BaseModel):
    """A section of the configuration: frozen, and unknown keys are refused.

    The text ``none`` for a key whose field defaults to None is the same as leaving the key out.
    Defaults are checked like values: a run's file has them written out, and must be read again.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, validate_default=True
    )

    @model_validator(mode="before")
    @classmethod
    def _leave_out(cls, values: Any) -> Any:
        return _without_none(cls, values) if isinstance(values, Mapping) else values

    @field_validator("*", mode="wrap")
    @classmethod
    def _check_truth_value(
        cls, value: Any, read: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        if value is None and cls.model_fields[str(info.field_name)].default is None:
            return None  # whatever the type says: a file leaves it out
        if not isinstance(value, bool):
            return read(value)
        no_number = ValueError(f"{str(value).lower()} is not a number")
        try:
            result = read(value)
        except ValidationError as error:  # only numbers have bounds
            if any("than" in each["type"] for each in error.errors()):
                raise no_number from None
            raise
        if type(result) in (int, float):  # pydantic makes them 1 and 0
            raise no_number
        return result


class NamedSection(ConfigSection):
    """A section whose `name` chooses between several sets of keys.

    `OWN` has the defaults of the keys that belong to some names only. A key whose field defaults
    to None is refused for all other names.
    """

    OWN: ClassVar[Mapping[str, Mapping[str, Any]]]
    name: str

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        name = values.get("name", cls.model_fields["name"].default)
        given = {key: v for key, v in _without_none(cls, values).items() if v is not None}
        return {**cls.OWN.get(str(name), {}), **given}

    @classmethod
    def foreign_keys(cls, name: str) -> list[str]:
        """Return the keys that a section of this name refuses."""
        own = cls.OWN.get(name, {})
        return [
            key
            for key, field in cls.model_fields.items()
            if field.default is None and key not in own
        ]

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        for key in self.foreign_keys(self.name):
            if getattr(self, key) is not None:
                names = [name for name, keys in self.OWN.items() if key in keys]
                section = type(self).__name__.removesuffix("Config").lower()
                raise SettingError(
                    f"{key} is a setting of {' and '.join(names)}, not of {self.name}",
                    f"--set 'training.{section}={{name = \"{self.name}\"}}' has no other settings",
                )
        return self


def _without_none(section: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in values.items()
        if value != "none" or not _may_be_none(section.model_fields.get(key))
    }


def _may_be_none(field: FieldInfo | None) -> bool:
    """Return whether a field is None by default and accepts no text, which ``none`` could be."""
    kinds = get_args(field.annotation) if field else ()
    return field is not None and field.default is None and not any(map(_is_text, kinds))


def _is_text(kind: Any) -> bool:
    return kind is str or any(each is str or isinstance(each, str) for each in get_args(kind))
