"""`jtrans score --sweep`: several searches, one for each value of an option."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

from jtrans.decoding.options import DecodingChoices
from jtrans.errors import name_hint, usage_error
from jtrans.runs import WINDOW

SWEPT: dict[str, Callable[[str], float]] = {"beam": int, "length-penalty": float}


def swept_searches(sweeps: Sequence[str], choices: DecodingChoices) -> dict[str, DecodingChoices]:
    """Return a search for every combination of values, by a label such as ``beam=5``.

    Args:
        sweeps: options with their values, such as ``beam=1,5,10``; without any there is no search.
        choices: the other choices of the user.

    Raises:
        ConfigError: an unknown option, a value that it cannot have, or one that is given twice.
    """
    axes: dict[str, list[str]] = {}
    for text in sweeps:
        name, values = _axis(text)
        if name in axes or choices.search[_key(name)] is not None:
            raise usage_error(f"{name} is given twice", "leave out one of them")
        axes[name] = values
    if axes and choices.checkpoint == WINDOW:
        raise usage_error("--sweep has no effect on a window", "choose another --checkpoint")
    searches = {}
    for combination in itertools.product(*axes.values()) if axes else ():
        point = dict(zip(axes, combination, strict=True))
        search = {_key(name): SWEPT[name](value) for name, value in point.items()}
        label = " ".join(f"{name}={value}" for name, value in point.items())
        searches[label] = replace(choices, search={**choices.search, **search})
    return searches


def _axis(text: str) -> tuple[str, list[str]]:
    """Return an option and its values as text."""
    name, _, listed = text.partition("=")
    if name not in SWEPT:
        hint = name_hint(name, SWEPT, "beam=1,5,10 or length-penalty=0.6,1,1.4")
        raise usage_error(f"--sweep cannot vary {name!r}", hint, where="--sweep")
    values = [value.strip() for value in listed.split(",")]
    numbers = set()
    for value in values:
        try:
            numbers.add(SWEPT[name](value))
        except ValueError:
            raise usage_error(f"--sweep: {name} cannot be {value!r}", "use numbers") from None
    if len(numbers) < max(2, len(values)):
        raise usage_error(
            f"--sweep {text} needs two or more different values", f"{name}=VALUE,VALUE"
        )
    return name, values


def _key(name: str) -> str:
    return name.replace("-", "_")
