"""The command line as a whole: quick answers, exit codes, errors without tracebacks."""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import types
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer
from plugins.command_line import Jtrans, environment, run_process
from plugins.folders import REPOSITORY

from jtrans.cli import main
from jtrans.cli.main import COMMANDS
from jtrans.cli.stop_signals import Leaving

COMPILER = "torch._dynamo"  # takes as long to import as the rest of torch
HEAVY = ("torch", COMPILER, "sacremoses", "jieba", "matplotlib", "sacrebleu", "subword_nmt")

# Runs each command line of argv[1] in a process of its own making: forked before any import of
# a command, so that none is blamed for what another has loaded. What they share is loaded before.
PROGRAM = f"""
import contextlib, io, json, os, sys
import rich.markdown, rich.syntax, rich.traceback, typer.rich_utils
import jtrans.cli.main as main, jtrans.cli.options, jtrans.config

for number, arguments in enumerate(json.loads(sys.argv[1])):
    sys.stdout.flush()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        continue
    out, err, code = io.StringIO(), io.StringIO(), None
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main.main(arguments)
    except SystemExit as left:
        code = left.code
    loaded = [name for name in {HEAVY!r} if name in sys.modules]
    found = [number, code, out.getvalue(), err.getvalue(), loaded]
    os.write(1, (json.dumps(found) + "\\n").encode())
    os._exit(0)
"""

HELP = [[name, "--help"] for name in COMMANDS] + [
    ["bpe", "learn", "--help"],
    ["analyze", "length", "--help"],
]
ANSWERS: list[tuple[list[str], int]] = [
    ([], 0),
    (["--help"], 0),
    (["--version"], 0),
    (["recipes"], 0),
    (["recipes", "demo/transformer"], 0),
    (["corpora"], 0),
    (["corpora", "grammar-de-en"], 0),
    (["models", "nobody"], 2),
    (["tran"], 2),
    (["train", "--sett", "a=b"], 2),
    (["train", "demo/transformerr"], 2),
    (["train", "demo/transformer", "--set", "training.learning_rat=1"], 2),
    (["train", "demo/transformer", "--set", "model.width=30"], 2),
    (["train", "demo/transformer", "--set", "training.seed"], 2),
    (["train", "missing.toml"], 2),
    (["translate", "nobody"], 2),
    (["score", "nobody"], 2),
    (["score"], 2),
    (["average", "nobody"], 2),
    (["prepare", "grammar"], 2),
    (["quickstart", "--minutes", "0"], 2),
]
ANSWER_NAMES = [" ".join(arguments) or "jtrans alone" for arguments, _ in ANSWERS]


class Answers:
    """What each command line printed, how it ended, and the heavy modules it loaded."""

    def __init__(self, folder: Path) -> None:
        commands = [*HELP, *(arguments for arguments, _ in ANSWERS), ["models"]]
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps(commands)],
            cwd=folder,
            env=environment(TERM="dumb", COLUMNS="80"),
            stdout=subprocess.PIPE,
            check=True,
            timeout=300,
        )
        rows = [json.loads(line) for line in ran.stdout.decode("utf-8").splitlines()]
        self._found = {json.dumps(commands[row[0]]): row[1:] for row in rows}

    def __call__(self, arguments: list[str]) -> tuple[int, str, str, list[str]]:
        code, out, err, loaded = self._found[json.dumps(arguments)]
        return code, out, err, loaded


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return Answers(tmp_path_factory.mktemp("nothing-here"))


@pytest.mark.sample(8)
@pytest.mark.parametrize("arguments", HELP, ids=" ".join)
def test_help_loads_nothing_heavy_and_shows_two_examples(
    arguments: list[str], answers: Answers
) -> None:
    code, out, _, loaded = answers(arguments)
    command = " ".join(arguments[:-1])
    examples = re.findall(rf"^ +(?:.*[|] )?jtrans {command}\b.*", out, flags=re.MULTILINE)
    assert (code, loaded) == (0, [])
    assert len(examples) >= 2, out
    assert "Usage: jtrans" in out
    assert "…" not in out  # a name or a default that was cut off


def test_listing_systems_does_not_load_the_compiler(answers: Answers) -> None:
    code, out, _, loaded = answers(["models"])
    assert code == 0 and "reformer-fast" in out
    assert COMPILER not in loaded


def commands(command: Any, path: str = "jtrans") -> Iterator[tuple[str, Any]]:
    """Yield a command and all its subcommands with their names."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{path} {name}")


TOP: Any = typer.main.get_command(main.build_app())
HELPS = {name: inspect.cleandoc(command.help or "") for name, command in commands(TOP)}


@pytest.mark.parametrize("name", HELPS)
def test_examples_can_be_pasted_from_a_narrow_terminal(name: str) -> None:
    text = HELPS[name].partition("[bold]Examples[/bold]")[2]
    assert max(map(len, text.splitlines()), default=0) <= 78  # a wrapped line would be two commands
    for example in text.replace("\\\n", " ").split("\n\n"):
        check_command(example)


def check_command(line: str) -> None:
    """Parse a command line; raise where a command or an option is not there."""
    words = shlex.split(line.rpartition("| ")[2].partition(" < ")[0], comments=True)
    command, context = TOP, None
    while words:
        context = command.make_context("jtrans", words[1:], parent=context)
        words = [*getattr(context, "_protected_args", ()), *context.args]
        command = command.commands[words[0]] if words else command


def documented() -> list[str]:
    """Return every command line of the documents."""
    files = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
    fenced = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    blocks = [
        block.replace("\\\n", " ")
        for path in files
        for language, block in fenced.findall(path.read_text("utf-8"))
        if language in ("", "sh")
    ]
    commands = re.compile(r"^(?:[^#\n|]*\| )?(jtrans [^;&>|\n]+)", re.MULTILINE)
    return [line for block in blocks for line in commands.findall(block)]


@pytest.mark.parametrize("line", documented())
def test_the_commands_of_the_documents_exist(line: str) -> None:
    check_command(line)


@pytest.mark.parametrize(("arguments", "code"), ANSWERS, ids=ANSWER_NAMES)
def test_lists_and_refusals_load_nothing_heavy(
    arguments: list[str], code: int, answers: Answers
) -> None:
    exit_code, out, err, loaded = answers(arguments)
    assert (exit_code, loaded) == (code, [])
    if code:
        assert out == ""
        assert re.match(r"error: .+\n(hint: .+\n)?\Z", err), err
    else:
        assert out


def test_an_error_as_json_is_one_object_on_stdout(jtrans: Jtrans) -> None:
    code, out, err = jtrans("train", "demo/transformerr", "--json")
    error: dict[str, Any] = json.loads(out)["error"]
    assert (code, err) == (2, "")
    assert error["kind"] == "config.unknown-recipe"
    assert error["hint"] == "did you mean demo/transformer?"
    assert set(error) == {"kind", "message", "hint", "where"}


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("train --seed", "train"),
        ("--quiet train demo/transformer --seed", "train"),
        ("analyze length runs/x --split", "analyze length"),
        ("bench decode --recipe", "bench decode"),
    ],
)
def test_an_option_without_its_value_points_to_the_help_of_its_command(
    line: str, command: str, jtrans: Jtrans
) -> None:
    code, _, err = jtrans(*line.split())
    assert code == 2
    assert "requires an argument" in err
    assert err.endswith(f"hint: jtrans {command} --help\n")


@pytest.mark.parametrize(
    ("command", "option", "argument"),
    [
        ("translate", "run", "RUN"),
        ("score", "run", "RUN"),
        ("train", "recipe", "RECIPE"),
        ("train", "config", "CONFIG"),
    ],
)
def test_an_argument_given_as_an_option(
    jtrans: Jtrans, command: str, option: str, argument: str
) -> None:
    refused = jtrans(command, f"--{option}", "name")
    assert refused.code == 2
    error, hint = refused.err.splitlines()
    assert error.startswith("error: No such option") and f"--{option}" in error
    assert hint == f"hint: {argument} is given without an option: jtrans {command} {argument}"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("analyze length runs/a --out ''", "--out"),  # the working directory
        ("train demo/transformer --run=", "--run"),
        ("train demo/transformer --from ''", "--from"),  # as if it were not given
        ("prepare --train a --train '' --valid b --languages de-en --out c", "--train"),
        ("score --ref a --hyp b ''", "--hyp"),
        ("translate a ''", "RUN"),
        ("bench decode --recipe ''", "--recipe"),
        ("bpe apply --codes ''", "--codes"),
    ],
)
def test_an_empty_value_is_refused(line: str, name: str, jtrans: Jtrans) -> None:
    result = jtrans(*shlex.split(line))
    assert (result.code, result.out) == (2, "")
    assert f"the value of {name} is empty" in result.err


def test_text_that_is_not_utf8_is_refused_before_any_work(jtrans: Jtrans) -> None:
    result = jtrans("analyze", "attention", "nobody", "--sentence", os.fsdecode(b"l\xe4uft"))
    assert (result.code, result.out) == (2, "")
    assert "the value of --sentence is not UTF-8" in result.err


@pytest.mark.parametrize("given", [["--workers", "-3"], ["--workers=-3"]])
def test_a_wrong_option_shows_the_value_that_was_given(given: list[str], jtrans: Jtrans) -> None:
    code, _, err = jtrans("prepare", *given)
    assert code == 2
    assert "--workers" in err
    assert "(got '-3')" in err


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("average x --choose newest", "'--choose': 'newest' is not one of 'valid-loss'"),
        ("translate x --beam wide", "'--beam': not a valid integer (got 'wide')"),
        ("scale --ratio x", "'--ratio': not a valid number (got 'x')"),
        ("translate x --beam ü", "'--beam': not a valid integer (got 'ü')"),
        ("translate x --beam 5 --beam x", "'--beam': not a valid integer (got 'x')"),
        ("translate x --beam 5 -qv --beam=y", "'--beam': not a valid integer (got 'y')"),
        ("train x --processes 0", "'--processes': not greater than or equal to 1 (got '0')"),
    ],
)
def test_a_wrong_value_is_refused_in_plain_words(line: str, reason: str, jtrans: Jtrans) -> None:
    result = jtrans(*line.split())
    assert result.code == 2
    assert result.err.startswith(f"error: Invalid value for {reason}")


def test_words_behind_two_dashes_are_no_options(jtrans: Jtrans) -> None:
    result = jtrans("score", "--", "-q")
    assert result.code == 2 and result.err.startswith("error: ") and "-q" in result.err


def test_all_values_of_a_wrong_option_are_shown(jtrans: Jtrans) -> None:
    code, _, err = jtrans("scale", "--from-losses", "1.6", "x", "1.5", "--layers", "5")
    assert code == 2
    assert "(got '1.6 x 1.5')" in err


def test_a_corpus_of_the_catalogue_that_is_missing_gets_its_own_command(jtrans: Jtrans) -> None:
    code, _, err = jtrans("train", "multi30k-de-en/transformer")
    assert code == 2
    assert "hint: jtrans prepare multi30k-de-en;" in err


def test_the_unexpected_is_one_paragraph_without_traceback(
    monkeypatch: pytest.MonkeyPatch, jtrans: Jtrans
) -> None:
    def broken(*_: object) -> NoReturn:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(main, "build_app", broken)
    code, out, err = jtrans("info")
    assert (code, out) == (1, "")
    assert err.startswith("error: ZeroDivisionError: division by zero\nhint: this is a bug")
    debugged = jtrans("--debug", "info")
    assert debugged.code == 1
    assert debugged.err.startswith("Traceback") and debugged.err.endswith(err)


def test_debug_adds_a_traceback_and_changes_nothing_else(jtrans: Jtrans) -> None:
    for command in (["train", "nosuch"], ["score", "nosuch", "--json"]):
        code, out, err = jtrans(*command)
        debugged = jtrans(*command, "--debug")
        assert (debugged.code, debugged.out) == (code, out) == (2, out)
        assert debugged.err.startswith("Traceback") and debugged.err.endswith(err)


def test_a_reader_who_leaves_is_no_failure(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as pipe:
        result = run_process("recipes", folder=tmp_path, stdout=pipe)
    assert (result.code, result.err) == (0, "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_closed_standard_stream_is_no_error(closed: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m jtrans recipes {closed}"
    ran = subprocess.run(["bash", "-c", command], stdin=subprocess.PIPE, capture_output=True)
    assert ran.returncode == 0
    assert b"bug" not in ran.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_error_that_stdout_cannot_take_goes_to_stderr() -> None:
    command = [sys.executable, "-m", "jtrans", "recipes", "--json"]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=buffered)
    assert ran.returncode == 1
    assert b"error: the disk is full: cannot write the output" in ran.stderr
    assert b"Traceback" not in ran.stderr and b"Exception ignored" not in ran.stderr


@pytest.mark.parametrize("name", ["-q", "--quiet"])
def test_messages_are_left_out_wherever_that_is_asked(jtrans: Jtrans, name: str) -> None:
    assert "Next: " in jtrans("recipes").err
    done = jtrans("recipes", name)
    assert done.code == 0 and done.err == "" and done.out


INTERRUPTED_IMPORT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from jtrans.__main__ import main
main()
"""


def test_ctrl_c_while_the_program_is_being_imported_shows_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT, "info"], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_ctrl_c_later_is_told(tmp_path: Path) -> None:
    code = INTERRUPTED_IMPORT.replace('"typer"', '"jtrans.cli.info"')
    done = subprocess.run(
        [sys.executable, "-c", code, "info"], capture_output=True, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (130, b"")
    assert done.stderr.decode() == "interrupted\n"


@pytest.mark.parametrize(
    ("number", "code", "said"), [("SIGTERM", 143, "terminated"), ("SIGINT", 130, "interrupted")]
)
def test_a_signal_that_other_code_turns_into_an_error_still_ends_the_command(
    number: str,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As pydantic does with whatever is raised while it builds a model."""

    def build(_arguments: object) -> int:
        try:
            signal.raise_signal(signal.Signals[number])
        except BaseException as error:
            raise ValueError(f"cannot build it: {error}") from None
        return 0

    monkeypatch.setattr(main, "_run", build)
    before = signal.signal(signal.Signals[number], signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit) as left:
            main.main(["recipes"])
    finally:
        signal.signal(signal.Signals[number], before)
    assert left.value.code == code
    assert capsys.readouterr().err == f"{said}\n"


def test_a_signal_waits_until_torch_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception in the middle would abort the process: the C++ of torch does not expect it."""
    spec = types.SimpleNamespace(_initializing=True)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(__spec__=spec))
    before = signal.signal(signal.SIGINT, Leaving())
    try:
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.2)  # longer than the handler waits: it waits again
        spec._initializing = False
        with pytest.raises(KeyboardInterrupt):
            time.sleep(60)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_signal_within_a_callback_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python discards what a callback raises; importing runs one for every module."""
    leaving = Leaving()
    monkeypatch.setattr(sys, "unraisablehook", leaving.discarded)
    before = signal.signal(signal.SIGTERM, leaving)
    try:
        with pytest.raises(SystemExit) as left:
            watched: set[int] = set()
            weakref.finalize(watched, signal.raise_signal, signal.SIGTERM)
            del watched
            time.sleep(60)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert left.value.code == 143
