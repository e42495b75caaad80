"""Options that several commands share, and groups of options as one parameter.

A command declares a group as one parameter, such as ``study: StudyOptions``; `grouped` expands it
into one option per field, as Typer requires.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

import typer
from typer.core import TyperCommand, TyperGroup

from jtrans.cli import completion
from jtrans.digits import whole_numbers
from jtrans.errors import JtransError, did_you_mean, name_hint, option_error, usage_error
from jtrans.processors import MOST_WORKERS, chosen_device

if TYPE_CHECKING:
    from pathlib import Path

    from jtrans.config import Config
    from jtrans.decoding.options import DecodingChoices, TranslationExtras

SEARCH, MACHINE = "Search", "Machine"
PRECISIONS = ("auto", "fp32", "bf16")
SEARCH_PRECISIONS = (*PRECISIONS, "int8")
# completion of values, by metavar
COMPLETIONS: dict[str | None, Callable[..., list[str]]] = {
    "RUN": completion.runs,
    "RECIPE|CONFIG.toml": completion.recipes,
    "best|last|N|NAME": completion.checkpoints,
    "KEY=VALUE": completion.settings,
}
# endings of files that commands write into the folder of --out
_FILE_NAMES = (".csv", ".html", ".json", ".onnx", ".pdf", ".png", ".svg", ".tex", ".toml")
TEXTS = ("TEXT", "N|TEXT")  # metavars of values that are text, not file names
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
        text: the help text.
        metavar: the form of the value in the help.
        shown: the default in the help, if not `default` itself.
        panel: the section of the help.
        default: the default value, or ... if the option is required.
        names: the option's names, if not that of the parameter.
        more: further arguments for Typer.
    """
    more |= {"help": text, "metavar": metavar, "rich_help_panel": panel}
    more.setdefault("autocompletion", COMPLETIONS.get(metavar) or completion.choice(metavar))
    return typer.Option(default, *names, show_default=shown or True, **more)


def flag(name: str, text: str, panel: str | None = None, shown: str | None = None) -> Any:
    """Declare a flag; its default is False, or None if `shown` is given."""
    return option(text, None, shown, panel, default=None if shown else False, names=[name])


def argument(
    metavar: str, text: str, default: Any = ..., complete: Callable[..., list[str]] | None = None
) -> Any:
    """Declare an argument, which is required if it has no default."""
    complete = complete or COMPLETIONS.get(metavar)
    return typer.Argument(default, metavar=metavar, help=text, autocompletion=complete)


def split_option(panel: str | None = None) -> Any:
    """Declare ``--split``."""
    return option("Split of the prepared corpus.", panel=panel, default="test")


def data_option(panel: str | None = None, shown: str = "the run's own") -> Any:
    """Declare ``--data``."""
    return option("Prepared corpus.", "DIR", shown, panel, autocompletion=completion.prepared)


def device_option(panel: str | None = None) -> Any:
    """Declare ``--device``."""
    return option("Device; cuda:1 is the second GPU.", "auto|cpu|cuda|mps", "auto", panel)


_CHECKPOINT_HELP = (
    "Checkpoint to use; N: an update, NAME: an average (jtrans average). For one of several runs: "
    "RUN@CHECKPOINT."
)
CHECKPOINT = option(_CHECKPOINT_HELP, "best|last|N|NAME", panel=SEARCH, default="best")
BEAM = option("Beam size.", None, "the run's, usually 5", SEARCH)
BATCH_TOKENS = option("Padded source tokens per batch.", None, "1024 or more", MACHINE, min=1)
PRECISION_HELP = "Arithmetic precision; auto: bf16 on GPUs that have it, else fp32."
PRECISION = option(PRECISION_HELP, "|".join(PRECISIONS), panel=MACHINE, default="auto")
SEARCH_PRECISION = option(
    f"{PRECISION_HELP[:-1]}; int8: quantised weights, on a CPU.",
    "|".join(SEARCH_PRECISIONS),
    panel=MACHINE,
    default="auto",
)
JSON = flag("--json", "Print the result as one JSON object.")
SETTINGS = option(
    "Change a setting of the recipe; KEY=none removes a limit; repeatable.",
    "KEY=VALUE",
    names=["--set"],
)
DEVICE = device_option(MACHINE)
WORKERS = option("Number of processes.", None, "one per processor", min=1, max=MOST_WORKERS)


class CheckedCommand(TyperCommand):
    """A command that refuses values that can only be mistakes.

    Empty values come from unset shell variables (``--out "$OUT"``), and would be read as the
    working directory, or as an option that is not given.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, or refuse them, naming the option whose value cannot be used."""
        given, _, order = self.make_parser(ctx).parse_args(args=list(args))  # as typed
        if not ctx.resilient_parsing:  # it is set during shell completion
            for parameter in order:
                _check_value(parameter, given.get(parameter.name))
                if parameter.nargs > 1 and order.count(parameter) > 1:
                    values = f"{parameter.opts[0]} {parameter.metavar}"
                    raise usage_error(
                        f"{parameter.opts[0]} is given twice", f"give it once: {values}"
                    )
        return super().parse_args(ctx, args)


def _check_value(parameter: Any, given: Any) -> None:
    """Refuse a value that is empty or missing, and text that is not UTF-8."""
    values = given if isinstance(given, (list, tuple)) else [given]
    name = parameter.opts[0] if parameter.param_type_name == "option" else parameter.metavar
    if parameter.nargs > 1 and any(str(value).startswith("--") for value in values):
        raise usage_error(f"{name} needs {parameter.nargs} values", f"{name} {parameter.metavar}")
    if "" in values:
        raise usage_error(
            f"the value of {name} is empty",
            "give another value; if it is a shell variable, set it first",
        )
    if parameter.metavar in TEXTS and not all(map(_is_utf8, filter(None, values))):
        raise usage_error(
            f"the value of {name} is not UTF-8",
            "enter it as UTF-8; if only the locale is not UTF-8, set PYTHONUTF8=1",
        )


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates: bytes that Python could not decode
        return False
    return True


class CommandGroup(TyperGroup):
    """A command with subcommands, which suggests the nearest one for an unknown name."""

    def invoke(self, ctx: Any) -> Any:
        """Run the subcommand; raise Ctrl-C as `typer.Abort`.

        Typer 0.29 would turn a KeyboardInterrupt into an ordinary exit code.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise typer.Abort from interrupt

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the subcommand, or refuse an unknown one, suggesting the nearest name."""
        name = args[0] if args else ""
        is_unknown = not name.startswith("-") and self.get_command(ctx, name) is None
        if name and is_unknown and not ctx.resilient_parsing:  # it is set during shell completion
            path, commands = ctx.command_path, self.commands
            groups = [key for key in commands if name in getattr(commands[key], "commands", ())]
            near = f"{groups[0]} {name}" if groups else did_you_mean(name, commands)
            raise JtransError(
                f"no such command: {' '.join([*path.split()[1:], name])}",
                hint=f"did you mean {path} {near}?" if near else f"{path} --help lists them",
                kind="command.unknown",
            )
        return super().resolve_command(ctx, args)


def command_group(name: str, text: str, *examples: str) -> typer.Typer:
    """Return an application for a command with subcommands."""
    lines = "".join(f"\n\n{example}" for example in examples)
    return typer.Typer(
        name=name,
        cls=CommandGroup,
        no_args_is_help=True,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
        help=f"{text}\n\n[bold]Examples[/bold]{lines}",
    )


@dataclass_transform(frozen_default=True)
def option_group(cls: type[Group]) -> type[Group]:
    """Turn a class whose fields are options into a frozen dataclass with their defaults."""
    cls.OPTIONS = {name: vars(cls)[name] for name in cls.__annotations__}  # type: ignore[attr-defined]
    for name, declared in cls.OPTIONS.items():  # type: ignore[attr-defined]
        setattr(cls, name, declared.default)
    return dataclass(frozen=True)(cls)


def grouped(
    *, without: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Expand every parameter of a command that is an option group into its options.

    Args:
        without: options of the groups that the command does not have.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters = inspect.signature(command, eval_str=True).parameters
        groups: dict[str, list[inspect.Parameter]] = {}
        spread: list[inspect.Parameter] = []
        for name, parameter in parameters.items():
            options = [parameter]
            if is_dataclass(parameter.annotation):
                options = groups[name] = _options_of(parameter.annotation, without)
            spread += [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in options]

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
    parameters = inspect.signature(group, eval_str=True).parameters
    return [
        parameter.replace(default=group.OPTIONS[name])
        for name, parameter in parameters.items()
        if name not in without
    ]


@option_group
class DecodingOptions:
    """Options for decoding: the checkpoint, the search, the device."""

    checkpoint: str = CHECKPOINT
    beam: int | None = BEAM
    length_penalty: float | None = option(
        "Exponent a of the length penalty.", shown="the run's, usually 1.0", panel=SEARCH
    )
    length_penalty_form: str | None = option(
        "logP / |Y|^a or logP / ((5 + |Y|) / 6)^a.",
        "power|gnmt",
        "the run's, usually power",
        SEARCH,
    )
    max_length: str | None = option(
        "Maximum target length in tokens; S: source length; both count </s>.",
        "N, S+N or N*S+M",
        "the run's, usually S+50",
        SEARCH,
    )
    batch_tokens: int | None = BATCH_TOKENS
    device: str | None = DEVICE
    precision: str = SEARCH_PRECISION

    def choices(self, extras: TranslationExtras | None = None, **search: Any) -> DecodingChoices:
        """Return the options, with extras and further search options, as `DecodingChoices`.

        Raises:
            JtransError: an unknown precision or device.
        """
        from jtrans.decoding.options import DecodingChoices, TranslationExtras

        chosen_device(self.device)  # checked even if all translations are cached
        check_choice("--precision", self.precision, SEARCH_PRECISIONS)
        search |= {
            "beam": self.beam,
            "length_penalty": self.length_penalty,
            "length_penalty_form": self.length_penalty_form,
            "max_length": self.max_length,
        }
        return DecodingChoices(
            self.checkpoint,
            self.device,
            self.precision,
            self.batch_tokens,
            search,
            extras or TranslationExtras(),
        )


def refuse_given(group: Any, names: Sequence[str], why: str, hint: str = "leave it out") -> None:
    """Refuse options of a group that differ from their defaults but would have no effect.

    Raises:
        ConfigError: naming the first of them and saying `why`.
    """
    for name in names:
        if getattr(group, name) != getattr(type(group), name):
            flags = {"lowercase": "lowercase/--cased"}
            shown = flags.get(name, name.replace("_", "-"))
            raise usage_error(f"--{shown} has no effect {why}", hint)


def check_choice(name: str, value: str, valid: Sequence[str]) -> None:
    """Refuse an invalid value.

    Raises:
        DecodingError: suggesting the nearest valid value.
    """
    if value not in valid:
        raise option_error(f"unknown value {value!r}", name_hint(value, valid), where=name)


def check_run_folder(run: Path | None) -> None:
    """Refuse ``@last`` as the folder of a run: for other commands, it is the newest run.

    Raises:
        ConfigError: `run` is ``@last``.
    """
    if str(run) == "@last":
        raise usage_error("@last is the newest run, not a folder", "--run runs/NAME", where="--run")


def check_folder_name(out: Path | None) -> None:
    """Refuse an ``--out`` that was meant to be a file.

    Raises:
        ConfigError: its name ends like that of a file, and there is no such folder.
    """
    if out is not None and out.suffix.lower() in _FILE_NAMES and not out.is_dir():
        raise usage_error(
            f"--out {out} is named like a file, but must be a folder",
            f"--out {shlex.quote(str(out.with_suffix('')))}",
        )


def refuse_last(config: Config, each: str, where: str) -> None:
    """Refuse ``@last`` as the initial weights of several trainings: it is the previous training.

    Raises:
        ConfigError: ``training.init_from`` names ``@last``.
    """
    if any(weights.run == "@last" for weights in config.training.init_from):
        raise usage_error(
            f"training.init_from=@last would start {each} from the weights of the previous one",
            "name the run instead of @last",
            where=where,
        )


def read_seeds(text: str, settings: Sequence[str] = ()) -> list[int]:
    """Return the numbers of `--seeds`.

    Args:
        text: the option's value.
        settings: those of `--set`.

    Raises:
        ConfigError: a part is not a number below 2^32, or repeated, or `settings` have a seed.
    """
    if any(setting.partition("=")[0].strip() == "training.seed" for setting in settings):
        raise usage_error("--set training.seed and --seeds exclude each other", "use one of them")
    numbers = whole_numbers(text)
    if numbers is None or max(numbers) >= 2**32:
        raise _seeds_error(f"--seeds must be whole numbers from 0 to {2**32 - 1}, not {text!r}")
    if len(set(numbers)) < len(numbers):
        raise _seeds_error(f"--seeds needs different numbers, not {text!r}")
    return numbers


def _seeds_error(message: str) -> JtransError:
    return usage_error(message, "--seeds 1,2,3", where="--seeds")
