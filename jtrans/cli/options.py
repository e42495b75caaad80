"""Options that several commands share, and groups of options as one parameter.

A command names a group as one parameter, such as ``study: StudyOptions``; `grouped` spreads it
into one option a field, as Typer wants them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import fields, is_dataclass
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]


def option(*names: str, panel: str | None = None, default: str | None = None, **more: Any) -> Any:
    """Declare an option: its panel in the help, what the help shows as default, and the rest."""
    return typer.Option(*names, rich_help_panel=panel, show_default=default or True, **more)


def split_option(panel: str | None = None) -> Any:
    """Declare ``--split``."""
    return option(help="Split of the prepared corpus.", panel=panel)


def data_option(panel: str | None = None) -> Any:
    """Declare ``--data``."""
    return option(metavar="DIR", help="Prepared corpus.", default="the run's own", panel=panel)


def grouped(
    *, without: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Spread every parameter of a command that is a group of options into its options.

    Args:
        without: options of the groups that this command does not have.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters = inspect.signature(command, eval_str=True).parameters
        groups = {
            name: _options_of(parameter.annotation, without)
            for name, parameter in parameters.items()
            if is_dataclass(parameter.annotation)
        }
        spread: list[inspect.Parameter] = []
        for name, parameter in parameters.items():
            own = groups.get(name, [parameter])
            spread += [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in own]

        def run(**values: Any) -> None:
            for name, options in groups.items():
                group = {option.name: values.pop(option.name) for option in options}
                values[name] = parameters[name].annotation(**group)
            command(**values)

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__signature__ = inspect.Signature(spread)  # type: ignore[attr-defined]
        return run

    return decorate


def _options_of(group: Any, without: Collection[str]) -> list[inspect.Parameter]:
    """Return the options of a group."""
    names = {field.name for field in fields(group)} - set(without)
    parameters = inspect.signature(group, eval_str=True).parameters
    return [parameter for name, parameter in parameters.items() if name in names]
