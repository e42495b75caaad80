"""`jtrans`: the top-level command, the table of commands, and the display of errors."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import re
import shlex
import signal
import sys
from collections.abc import Sequence
from typing import Any

import typer

from jtrans import __version__
from jtrans.cli import console
from jtrans.cli.options import CheckedCommand, CommandGroup, flag, option
from jtrans.cli.stop_signals import Leaving, Terminated
from jtrans.errors import EXIT_BAD_INPUT, InternalError, JtransError, WorkError, did_you_mean
from jtrans.processors import let_threads_wait

_log = logging.getLogger(__name__)

# command -> its module in jtrans.cli, which has a function (or Typer app) of the same name, and its
# section of the help
COMMANDS: dict[str, tuple[str, str]] = {
    "quickstart": ("quickstart", "Start here"),
    "corpora": ("corpora", "Corpora"),
    "prepare": ("prepare", "Corpora"),
    "bpe": ("bpe", "Corpora"),
    "recipes": ("recipes", "Training"),
    "models": ("models", "Training"),
    "train": ("train", "Training"),
    "average": ("average", "Training"),
    "scale": ("scale", "Training"),
    "translate": ("translate", "Translation"),
    "serve": ("serve", "Translation"),
    "tag": ("tag", "Translation"),
    "score": ("score", "Evaluation"),
    "analyze": ("analyze", "Evaluation"),
    "bench": ("bench", "Evaluation"),
    "import": ("import_", "Exchange"),
    "export": ("export", "Exchange"),
    "info": ("info", "About"),
}


# Some versions of Typer bundle a copy of click, so get the class through a public one.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def _version(is_given: bool) -> None:
    if is_given:
        print(f"jtrans {__version__}")
        raise typer.Exit


def _top(
    ctx: typer.Context,
    version: bool = option(
        "Print the version.", default=False, names=["--version"], callback=_version, is_eager=True
    ),
    quiet: bool = option("Show only warnings and errors.", default=False, names=["--quiet", "-q"]),
    verbose: bool = option(
        "Log the files and devices used, with times.", default=False, names=["--verbose", "-v"]
    ),
    debug: bool = flag("--debug", "Show tracebacks."),
) -> None:
    """Neural machine translation with joint source-target representations.

    Prepare a corpus, train, translate, score and analyze.
    To start: jtrans quickstart
    """
    console.settings.quiet = quiet
    console.show_log(is_shown=verbose)
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


def build_app(arguments: Sequence[str] = ()) -> typer.Typer:
    """Assemble the application from the command modules.

    Args:
        arguments: those of the command line; if they name a command, only this one is loaded.
    """
    first = next((name for name in arguments if not name.startswith("-")), "")
    commands = {first: COMMANDS[first]} if first in COMMANDS else COMMANDS
    app = typer.Typer(
        cls=CommandGroup,
        name="jtrans",
        invoke_without_command=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_top)
    for name, (module_name, panel) in commands.items():
        module = importlib.import_module(f"jtrans.cli.{module_name}")
        command = getattr(module, module_name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=panel)
        else:
            # a command may parse its arguments itself
            parser = getattr(module, "Command", CheckedCommand)
            app.command(name, cls=parser, rich_help_panel=panel)(command)
    return app


def show_error(error: JtransError, *, as_json: bool) -> None:
    """Show one error: a paragraph on stderr, or the JSON object on stdout."""
    if as_json:
        shown = {name: getattr(error, name) for name in ("kind", "message", "hint", "where")}
        with contextlib.suppress(OSError):  # stdout may be what failed
            console.print_json({"error": shown})
            return
    place = f" ({error.where})" if error.where else ""
    print(f"error: {error.message}{place}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)


def _usage_error(error: Any, arguments: Sequence[str]) -> JtransError:
    """Return the error to show for a command line that Typer refuses."""
    message = error.format_message().split(" Did you mean")[0].split(" (Possible")[0]
    hint = _usage_hint(error, message, arguments)
    value = _given_value(getattr(error, "param", None), arguments)
    ending = f" (got {value!r})" if value is not None else ""
    # Typer checks values with pydantic: reword its messages
    message = message.replace("Value error, ", "").replace("Input should be", "not")
    message = re.sub(r", unable to parse string as an? \w+", "", message)
    return JtransError(message.strip().rstrip(".") + ending, hint=hint, kind="command.usage")


def _usage_hint(error: Any, message: str, arguments: Sequence[str]) -> str:
    """Return what was probably meant, otherwise the command that shows the help."""
    if "--seeds" in arguments and re.search(r"unexpected extra argument\S* \([\d ]+\)", message):
        return "separate seeds by commas: --seeds 1,2,3"
    command = error.ctx.command_path if error.ctx else _command_path(arguments)
    extra = re.search(r"unexpected extra argument\S* \((\S+)\)", message)
    if extra and any("--run" in each.opts and not each.is_flag for each in _parameters(error.ctx)):
        return f"a run is given with --run: {command} --run {extra[1]}"
    unknown = str(getattr(error, "option_name", "")).lstrip("-")
    if any(unknown.upper() in names for names in _argument_names(error.ctx)):
        return f"{unknown.upper()} is given without an option: {command} {unknown.upper()}"
    options = {name.lstrip("-"): name for name in getattr(error, "possibilities", None) or ()}
    near = did_you_mean(unknown, options)
    return f"did you mean {options[near]}?" if near else f"{command} --help"


def _parameters(context: Any) -> Any:
    """Return the parameters of a command; none if the command is unknown."""
    return context.command.params if context else ()


def _argument_names(context: Any) -> list[list[str]]:
    """Return the names of each argument of a command, as its help shows them."""
    arguments = (each for each in _parameters(context) if each.param_type_name == "argument")
    return [re.findall("[A-Z]+", (each.metavar or each.name).upper()) for each in arguments]


def _command_path(arguments: Sequence[str]) -> str:
    """Return the command that a command line names."""
    command: Any = typer.main.get_command(build_app(arguments))
    path = ["jtrans"]
    for word in (argument for argument in arguments if not argument.startswith("-")):
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            break
        path.append(word)
    return " ".join(path)


def _given_value(parameter: Any, arguments: Sequence[str]) -> str | None:
    """Return the value that the user gave for an option, None if there is none."""
    values, names = getattr(parameter, "nargs", 1), getattr(parameter, "opts", ())
    given = []
    for place, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name in names:
            words = arguments[place + 1 :][:values]
            given.append(value if equals else shlex.join(words) if values > 1 else "".join(words))
    if not given or (len(given) > 1 and getattr(parameter, "multiple", False)):
        return None  # of a repeated option, any value can be the wrong one
    return given[-1] or None  # of other options, the last value counts


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    _prepare_streams()
    leaving = Leaving()
    let_threads_wait()
    console.settings.arguments = arguments
    code, is_final = _outcome(_general_options_first(arguments), leaving)
    _log.info("end")
    if "JTRANS_LAUNCHER" in os.environ:  # not imported otherwise, to save time
        from jtrans.training.distributed.place import say_ended

        code = say_ended(code, is_final=is_final)
    raise SystemExit(code)


def _prepare_streams() -> None:
    """Set the standard streams to UTF-8 on every machine, and keep results apart from the rest."""
    _replace_closed_streams()
    console.outlive_readers()
    for stream, errors in (
        (sys.stdin, "strict"),
        (sys.stdout, "backslashreplace"),  # for file names that are not UTF-8
        (sys.stderr, "backslashreplace"),
    ):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(encoding="utf-8", errors=errors, newline="\n")  # type: ignore[union-attr]
    console.keep_results_apart()


def _replace_closed_streams() -> None:
    """Open the null device for each standard stream that the caller has closed (``>&-``)."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _general_options_first(arguments: list[str]) -> list[str]:
    """Put the options of `jtrans` itself first: they may also follow the command."""
    everywhere = ("--verbose", "--quiet", "--debug")
    end = arguments.index("--") if "--" in arguments else len(arguments)
    anywhere, others = list[str](), list[str]()
    for word in arguments[:end]:
        is_anywhere = word in everywhere or re.fullmatch("-[qv]+", word)
        (anywhere if is_anywhere else others).append(word)
    return [*anywhere, *others, *arguments[end:]]


def _outcome(arguments: list[str], leaving: Leaving) -> tuple[int, bool]:
    """Run the command, and show its error if it fails.

    Returns:
        The exit code, and whether it is final: a launcher need not start the process again.
    """
    try:
        leaving.take_signals()
        try:
            return _run(arguments), True
        finally:
            console.close_bars()
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error, file=sys.stderr)
        else:
            show_error(_usage_error(error, arguments), as_json="--json" in arguments)
        return EXIT_BAD_INPUT, True
    except (KeyboardInterrupt, typer.Abort):
        print("interrupted", file=sys.stderr)
        return 130, True
    except BrokenPipeError:
        _drop_output()  # the reader of stdout has quit (head, less): not an error
        return 0, True
    except Exception as error:
        if leaving.code is not None:
            is_interrupt = leaving.code == 128 + signal.SIGINT
            print("interrupted" if is_interrupt else "terminated", file=sys.stderr)
            raise SystemExit(leaving.code) from None
        return _show_failure(error, arguments)


def _run(arguments: list[str]) -> int:
    try:
        app = build_app(arguments)
        outcome: Any = app(args=arguments, prog_name="jtrans", standalone_mode=False)
    except SystemExit as leaving:
        if isinstance(leaving.__context__, BrokenPipeError):  # Typer turns it into exit code 1
            raise leaving.__context__ from None
        if isinstance(leaving, Terminated):
            print("terminated", file=sys.stderr)
        raise
    return outcome if isinstance(outcome, int) else 0


def _drop_output() -> None:
    """Drop what stdout still buffers: Python would try to write it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_failure(error: Exception, arguments: Sequence[str]) -> tuple[int, bool]:
    """Show why the command failed; return as `_outcome` does."""
    if "--debug" in arguments:
        import traceback

        traceback.print_exception(error)
    shown = _as_error(error)
    # a rank that failed on this machine shows its error itself
    if shown.kind != "distributed.other-rank" or shown.where:
        show_error(shown, as_json="--json" in arguments)
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()
    is_final = not isinstance(shown, InternalError) and shown.kind != "distributed.lost"
    return shown.exit_code, is_final


def _as_error(error: Exception) -> JtransError:
    """Return the error to show for an uncaught exception."""
    from pathlib import Path

    from jtrans.files import disk_errors

    if isinstance(error, JtransError):
        return error
    if "torch" in sys.modules or isinstance(error, MemoryError):
        from jtrans.nn.memory import describe, is_out_of_memory

        if is_out_of_memory(error):
            hint = "use a smaller model, shorter lines, or a machine with more memory"
            return WorkError(f"out of memory: {describe(error)}", hint=hint, kind="work.memory")
    if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop from "):
        # raised by Path.resolve before Python 3.13; later versions raise an OSError
        return JtransError(f"s{str(error)[1:]}", hint="choose another path", kind="disk.path")
    if not isinstance(error, OSError):
        return _unexpected(error)
    try:
        with disk_errors(Path(str(error.filename or "the output"))):
            raise error
    except JtransError as known:
        return known
    except OSError:
        hint = "run again with --debug to see where"
        return WorkError(str(error), hint=hint, kind="system")


def _unexpected(error: Exception) -> InternalError:
    """Return the error for a bug, of jtrans or of the third-party systems in use."""
    from jtrans.models.zoo import installed_systems

    bug = InternalError(f"{type(error).__name__}: {error}")
    bug.hint = "this is a bug: please report it with the output of --debug and jtrans info"
    if systems := [system for system in installed_systems() if system.is_imported]:
        names = " and ".join(f"{each.point.name} of {each.distribution}" for each in systems)
        bug.hint = (
            f"the fault may be in {names}: docs/adding-a-system.md has the tests that show it; "
            f"if they pass, {bug.hint}"
        )
        bug.where = next(filter(None, (system.place_of(error) for system in systems)), None)
    return bug


if __name__ == "__main__":
    main()
