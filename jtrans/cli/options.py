"""Options that several commands share, and groups of options as one parameter.

A command names a group as one parameter, such as ``study: StudyOptions``; `grouped` spreads it
into one option a field, as Typer wants them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, TypeVar, dataclass_transform

import typer

SEARCH, MACHINE = "Search", "Machine"
Group = TypeVar("Group")


def option(
    text: str,
    metavar: str | None = None,
    shown: str | None = None,
    panel: str | None = None,
    *,
    default: Any = None,
    names: Sequence[str] = (),
    **more: Any,
) -> Any:
    """Declare an option as the default of its parameter.

    Args:
        text: its help.
        metavar: what it takes, as the help shows it.
        shown: its default as the help shows it, where that is not its value.
        panel: where it is in the help.
        default: ... for none, an option that must be given.
        names: only if they differ from that of the parameter.
        more: arguments of Typer.
    """
    more |= {"help": text, "metavar": metavar, "rich_help_panel": panel}
    return typer.Option(default, *names, show_default=shown or True, **more)


def flag(name: str, text: str, panel: str | None = None, shown: str | None = None) -> Any:
    """Declare an option that takes no value; its default is False, or None `shown` as this."""
    return option(text, None, shown, panel, default=None if shown else False, names=[name])


def argument(metavar: str, text: str, default: Any = ...) -> Any:
    """Declare an argument, which must be given if it has no default."""
    return typer.Argument(default, metavar=metavar, help=text)


def split_option(panel: str | None = None) -> Any:
    """Declare ``--split``."""
    return option("Split of the prepared corpus.", panel=panel, default="test")


def data_option(panel: str | None = None, shown: str = "the run's own") -> Any:
    """Declare ``--data``."""
    return option("Prepared corpus.", "DIR", shown, panel)


def device_option(panel: str | None = None) -> Any:
    """Declare ``--device``."""
    return option("auto, cpu, cuda or mps.", None, "auto", panel)


JSON = flag("--json", "Print one JSON object on stdout.")
SETTINGS = option("Change a setting; may repeat.", "KEY=VALUE", names=["--set"])
DEVICE = device_option(MACHINE)
VALID = option("Validation files.", "PREFIX")
LANGUAGES = option("Such as de-en.", "SOURCE-TARGET")
WORKERS = option("Processes.", None, "one for each processor", min=1)


def command_group(name: str, text: str, *examples: str) -> typer.Typer:
    """Return an application for a command that has commands of its own."""
    lines = "".join(f"\n\n  {example}" for example in examples)
    return typer.Typer(
        name=name,
        no_args_is_help=True,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
        help=f"{text}\n\n[bold]Examples[/bold]{lines}",
    )


@dataclass_transform(frozen_default=True)
def option_group(cls: type[Group]) -> type[Group]:
    """Make a class whose fields are options a frozen dataclass; the defaults are theirs."""
    cls.OPTIONS = {name: vars(cls)[name] for name in cls.__annotations__}  # type: ignore[attr-defined]
    for name, declared in cls.OPTIONS.items():  # type: ignore[attr-defined]
        setattr(cls, name, declared.default)
    return dataclass(frozen=True)(cls)


def grouped(
    *, without: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Spread every parameter of a command that is a group of options into its options.

    Args:
        without: options of the groups that this command does not have.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters = inspect.signature(command, eval_str=True).parameters
        groups: dict[str, list[inspect.Parameter]] = {}
        spread: list[inspect.Parameter] = []
        for name, parameter in parameters.items():
            own = [parameter]
            if is_dataclass(parameter.annotation):
                own = groups[name] = _options_of(parameter.annotation, without)
            spread += [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in own]

        def run(**values: Any) -> None:
            for name, options in groups.items():
                group = {item.name: values.pop(item.name) for item in options}
                values[name] = parameters[name].annotation(**group)
            command(**values)

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__signature__ = inspect.Signature(spread)  # type: ignore[attr-defined]
        return run

    return decorate


def _options_of(group: Any, without: Collection[str]) -> list[inspect.Parameter]:
    """Return the options of a group."""
    parameters = inspect.signature(group, eval_str=True).parameters
    return [
        parameter.replace(default=group.OPTIONS[name])
        for name, parameter in parameters.items()
        if name not in without
    ]
