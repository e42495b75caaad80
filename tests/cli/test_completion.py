"""What a shell offers for the words of a command line, and suggestions for mistyped ones."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from plugins.command_line import Jtrans, environment

from jtrans.errors import CheckpointError
from jtrans.runs import Run

HEAVY = ("torch", "matplotlib", "jieba", "sacremoses")

# Completes as a shell asks for it and tells which heavy modules that has loaded, for each request
# in a process forked before any command is imported, so that none has what another has loaded.
PROGRAM = f"""
import contextlib, io, json, os, sys, traceback
import typer.rich_utils
import jtrans.cli.main as main, jtrans.cli.options

for request in sys.stdin:
    folder, variables = json.loads(request)
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        continue
    out = io.StringIO()
    try:
        os.chdir(folder)
        os.environ.update(variables)
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            main.main([])
    except Exception:
        traceback.print_exc(file=out)
    loaded = [name for name in {HEAVY!r} if name in sys.modules]
    os.write(1, (json.dumps([out.getvalue(), loaded]) + "\\n").encode())
    os._exit(0)
"""

Complete = Callable[..., set[str]]


def run_folder(folder: Path, *checkpoints: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "run.json").write_text('{"format": 1}', encoding="utf-8")
    (folder / "config.toml").write_text("", encoding="utf-8")
    for name in checkpoints:
        (folder / "checkpoints" / name).mkdir(parents=True)
        (folder / "checkpoints" / name / "model.safetensors").write_bytes(b"")
    return folder


@pytest.fixture(scope="module")
def shell_process() -> Iterator[subprocess.Popen[str]]:
    """A process that completes one request after the other."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process


@pytest.fixture
def complete(tmp_path: Path, shell_process: subprocess.Popen[str]) -> Complete:
    """Return a function that completes the last word of a command line, in a folder with runs."""
    run_folder(tmp_path / "runs/base", "step-00000050", "step-00001200", "average")
    run_folder(tmp_path / "runs/study/fast")
    run_folder(tmp_path / "runs/imported", "step-00000000")
    run_folder(tmp_path / "runs/of two words")  # a shell would read three
    for name in ("news", "talks"):
        (tmp_path / "data/prepared" / name).mkdir(parents=True)
        (tmp_path / "data/prepared" / name / "corpus.json").write_text("{}", encoding="utf-8")

    def run(*words: str, shell: str = "bash") -> set[str]:
        line = " ".join(["jtrans", *words])
        variables = {"_JTRANS_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line}
        variables |= {"COMP_WORDS": line, "COMP_CWORD": str(len(words))}
        assert shell_process.stdin is not None and shell_process.stdout is not None
        print(json.dumps([str(tmp_path), variables]), file=shell_process.stdin, flush=True)
        out, loaded = json.loads(shell_process.stdout.readline())
        assert loaded == []
        if shell == "bash":
            return set(out.split())
        return set(out.replace('"', " ").split())

    return run


CASES: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "commands": (("tra",), {"train", "translate"}),
    "subcommands": (("analyze", "le"), {"length"}),
    "runs": (("translate", ""), {"base", "imported", "study/fast", "@last"}),
    "a run": (("translate", "st"), {"study/fast"}),
    "a second run": (("score", "base", "stu"), {"study/fast"}),
    "runs of an analysis": (("analyze", "length", "b"), {"base"}),
    "runs by their folders": (
        ("average", "runs/"),
        {"runs/base", "runs/imported", "runs/study/fast"},
    ),
    "recipes": (("train", "demo/transformer-s"), {"demo/transformer-small"}),
    "recipes to print": (
        ("recipes", "demo/reformer-f"),
        {"demo/reformer-fast", "demo/reformer-fast-tiny"},
    ),
    "corpora": (("prepare", "multi"), {"multi30k-de-en", "multi30k-en-de"}),
    "corpora to show": (("corpora", "grammar"), {"grammar-de-en", "grammar-zh-en"}),
    "systems": (("models", "transformer"), {"transformer", "transformer-pp"}),
    "prepared corpora": (
        ("train", "x", "--data", ""),
        {"data/prepared/news", "data/prepared/talks"},
    ),
    "checkpoints": (
        ("translate", "base", "--checkpoint", ""),
        {"best", "last", "average", "50", "1200"},
    ),
    "the checkpoint of an import": (
        ("translate", "imported", "--checkpoint", ""),
        {"best", "last", "0"},
    ),
    "checkpoints of the run of an option": (
        ("bench", "decode", "--run", "base", "--checkpoint", ""),
        {"best", "last", "average", "50", "1200"},
    ),
    "after an unknown command": (("nope", "trai"), {"train"}),
    "a checkpoint": (("analyze", "length", "base", "--checkpoint", "1"), {"1200"}),
    "files of several systems, by the shell": (("score", "--hyp", "a", "ba"), set()),
    "formats with a hyphen": (("import", "x", "--from", "r"), {"reformer-fairseq"}),
    "sides of a pair": (("prepare", "--drop-leaked", "so"), {"source"}),
    "options": (("translate", "base", "--checkp"), {"--checkpoint"}),
    "values that the help names": (("export", "base", "--to", ""), {"ctranslate2", "onnx"}),
    "a precision": (("translate", "base", "--precision", "f"), {"fp32"}),
    "settings": (("train", "x", "--set", "training.learning"), {"training.learning_rate"}),
    "settings of sections": (("train", "x", "--set", "training.stop."), {
        "training.stop.metric", "training.stop.patience"}),
    "settings of models": (("train", "x", "--set", "model.n_"), {"model.n_cascade"}),
    "nothing": (("translate", "nobody"), set()),
}  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", CASES)
def test_bash_completes(name: str, complete: Complete) -> None:
    words, expected = CASES[name]
    assert complete(*words) == expected


def test_the_command_itself_completes(tmp_path: Path) -> None:
    line = {"_JTRANS_COMPLETE": "complete_bash", "COMP_WORDS": "jtrans tra", "COMP_CWORD": "1"}
    variables = {"_TYPER_COMPLETE_ARGS": "jtrans tra", **line}
    program = "import sys; from jtrans.cli.main import main; sys.argv = ['jtrans']; main()"
    outcome = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(**variables),
        capture_output=True,
        text=True,
    )
    assert set(outcome.stdout.split()) == {"train", "translate"}


def test_zsh_completes(complete: Complete) -> None:
    assert {"base", "study/fast", "@last"} <= complete("translate", "", shell="zsh")
    assert "data/prepared/news" in complete("train", "x", "--data", "data/prepared/n", shell="zsh")


def test_completion_works_where_nothing_is_yet(tmp_path: Path, complete: Complete) -> None:
    for folder in ("runs", "data"):
        (tmp_path / folder).rename(tmp_path / f"no-{folder}")
    assert complete("translate", "") == set()
    assert complete("translate", "base", "--checkpoint", "") == {"best", "last"}


MISTYPED: dict[str, tuple[str, str]] = {
    "a command": ("trian", "jtrans train"),
    "a subcommand": ("analyze lenght", "jtrans analyze length"),
    "a subcommand of bpe": ("bpe lern", "jtrans bpe learn"),
    "a subcommand of bench": ("bench trian", "jtrans bench train"),
    "a subcommand without its command": ("frequency", "jtrans analyze frequency"),
    "an option": ("analyze length x --splt test", "--split"),
    "a run": ("translate bsae", "base"),
    "the last run": ("translate @lst", "@last"),
    "a device": ("bench train --device cdua", "cuda"),
    "a corpus": ("prepare mutli30k-de-en", "multi30k-de-en"),
    "a recipe": ("recipes demo/tranformer", "demo/transformer"),
    "a system": ("models tranformer", "transformer"),
    "a prepared corpus": ("train demo/transformer --data data/prepared/nwes", "data/prepared/news"),
}


@pytest.mark.parametrize("name", MISTYPED)
def test_the_nearest_name_is_suggested(
    name: str, jtrans: Jtrans, tmp_path: Path, complete: Complete
) -> None:
    line, suggestion = MISTYPED[name]
    result = jtrans(*line.split())
    assert result.code == 2
    assert result.err.startswith("error: ") and result.err.count("error: ") == 1
    assert f"hint: did you mean {suggestion}?" in result.err


def test_a_name_that_nothing_resembles_points_to_the_help(jtrans: Jtrans) -> None:
    result = jtrans("analyze", "zzzzz", "--json")
    error = json.loads(result.out)["error"]
    assert (result.code, error["kind"]) == (2, "command.unknown")
    assert error["message"] == "no such command: analyze zzzzz"
    assert error["hint"] == "jtrans analyze --help lists them"
    far = jtrans("analyze", "compare", "x", "--zzzzz")
    assert "hint: jtrans analyze compare --help" in far.err


def test_the_nearest_checkpoint_is_suggested_beside_all(complete: Complete, tmp_path: Path) -> None:
    run = Run(tmp_path / "runs/base")
    run.set_pointers(last="step-00001200", best="step-00000050")
    with pytest.raises(CheckpointError) as caught:
        run.checkpoint("bset")
    assert str(caught.value.hint).startswith("did you mean best? available: best, last, average")
    assert complete("translate", "base", "--checkpoint", "b") == {"best"}
