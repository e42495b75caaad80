"""Checks of the types of arguments from Python, which no parser has checked."""

from __future__ import annotations

import functools
import os
import typing
from collections.abc import Iterable
from dataclasses import fields
from numbers import Integral, Real
from typing import Any

from jtrans.errors import JtransError, usage_error

# For each type what is accepted, also NumPy's numbers and strings for paths, and its name.
_ACCEPTED: dict[Any, tuple[tuple[type, ...], str]] = {
    int: ((Integral,), "an integer"),
    float: ((Real,), "a number"),
    str: ((str,), "a string"),
    bool: ((bool,), "True or False"),
    os.PathLike: ((str, os.PathLike), "a path"),
    type(None): ((type(None),), "None"),
}


def check_argument(name: str, given: Any, *kinds: Any) -> Any:
    """Check that an argument is of one of some types, and return it; NumPy's numbers as Python's.

    Args:
        name: of the argument.
        given: its value.
        kinds: int, float, str, bool, type(None), a class, or `os.PathLike` for a string or path
            that is not empty.

    Raises:
        ConfigError: it is of another type, or an empty path.
    """
    for kind in kinds:
        accepted, _ = _accepted(kind)
        if isinstance(given, accepted) and (kind is bool or not isinstance(given, bool)):
            if kind is os.PathLike and (str(given) == "" or "\0" in str(given)):
                problem = "a path with a zero byte" if str(given) else "an empty path"
                raise usage_error(f"{name} is {problem}", "name a file or a folder")
            is_numpy = kind in (int, float) and not isinstance(given, int)
            return kind(given) if is_numpy else given
    raise type_error(name, given, " or ".join(_accepted(kind)[1] for kind in kinds))


def _accepted(kind: Any) -> tuple[tuple[type, ...], str]:
    return _ACCEPTED.get(kind, ((kind,), kind.__name__))


def check_strings(name: str, given: Any) -> list[str]:
    """Return strings as a list; a single string is refused, as it would become its characters.

    Raises:
        ConfigError: it is not a list of strings.
    """
    if isinstance(given, str):
        raise usage_error(f"{name} is a string, not a list of strings", f"{name}=[{given!r}]")
    if not isinstance(given, Iterable):
        raise type_error(name, given, "a list of strings")
    return [check_argument(f"{name}[{place}]", each, str) for place, each in enumerate(given)]


def type_error(name: str, given: object, wanted: str) -> JtransError:
    """Return the error for an argument that is not what is wanted, such as ``a string``."""
    return usage_error(
        f"{name} is of the type {type(given).__name__}, not {wanted}", f"give {wanted}"
    )


def check_fields(options: Any) -> None:
    """Check the fields of a frozen dataclass, none of which is a list, see `check_argument`."""
    kind: Any = type(options)
    for name, kinds in _field_kinds(kind).items():
        object.__setattr__(options, name, check_argument(name, getattr(options, name), *kinds))


@functools.cache
def _field_kinds(options: Any) -> dict[str, tuple[Any, ...]]:
    hints = typing.get_type_hints(options)
    return {
        field.name: typing.get_args(hints[field.name]) or (hints[field.name],)
        for field in fields(options)
    }
