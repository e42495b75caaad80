"""`jtrans train` and `jtrans average`: talk, JSON, signals and refusals."""

from __future__ import annotations

import io
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from plugins.command_line import Jtrans, start_process
from plugins.small_corpus import make_nouns
from safetensors.torch import load_file, save_file

from jtrans.cli.stop_signals import StopSignals
from jtrans.cli.train.ending import suggest_continuing
from jtrans.data.prepared import PreparedCorpus
from jtrans.nn import device
from jtrans.runs import Run
from jtrans.training.optimisation.guard import GradientGuard
from jtrans.training.validation import Validator

MODEL = """
[model]
system = "transformer"
encoder_layers = 1
decoder_layers = 1
width = 16
ffn_width = 32
heads = 2

[training]
batch_tokens = 100
max_updates = 6
validate_sentences = 4
schedule = { warmup = 4 }

[decoding]
max_length = "S+5"
"""


@pytest.fixture
def workplace(corpus: PreparedCorpus, tmp_path: Path) -> Path:
    """A folder with a configuration and a prepared corpus."""
    (tmp_path / "tiny.toml").write_text(MODEL, encoding="utf-8")
    return tmp_path


def test_training_ends_with_a_row_a_summary_and_the_next_command(
    workplace: Path, jtrans: Jtrans
) -> None:
    done = jtrans("train", "tiny.toml", "--data", "data", "--run", "runs/first")
    assert done.code == 0, done.err
    assert done.out == ""
    lines = done.err.splitlines()
    assert lines[0].startswith("run      runs/first  (new)      model  transformer, ")
    header = "epoch  update   train   valid     ppl    BLEU    tok/s    time"
    assert lines[1].strip() == header
    assert lines[-3].split()[:2] == ["1", "6"] or lines[-3].split()[1] == "6"
    assert "*" in lines[2]
    assert lines[-2].startswith("done: all updates are done. 6 updates in ")
    assert lines[-1] == "Next: jtrans translate runs/first"


@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_compiling_is_announced_before_the_first_update(
    quiet: tuple[str, ...], workplace: Path, jtrans: Jtrans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "compile", lambda call, **_: call)
    command = ("train", "tiny.toml", "--data", "data", "--run", "run", "--json", *quiet)
    done = jtrans(*command, "--set", "training.compile=on")
    assert json.loads(done.out)["update"] == 6
    said = "compiling layers for this device: a minute or two, before the first update"
    assert done.err.splitlines()[1:2] == ([] if quiet else [said])


def test_a_run_continues_with_its_own_data(workplace: Path, jtrans: Jtrans) -> None:
    assert jtrans("train", "tiny.toml", "--data", "data", "--run", "run").code == 0
    command = ("train", "run/config.toml", "--run", "run", "--set", "training.max_updates=8")
    continued = jtrans(*command)
    assert continued.code == 0 and "continues at update 6" in continued.err
    restarted = jtrans("train", "tiny.toml", "--run", "run", "--restart")
    assert restarted.code == 0 and "(new)" in restarted.err
    other = (
        "train",
        "tiny.toml",
        "--run",
        "run",
        "--restart",
        "--set",
        "data.corpus=multi30k-de-en",
    )
    refused = jtrans(*other)  # a recipe for another corpus
    assert refused.code == 2 and "jtrans prepare multi30k-de-en" in refused.err
    seeds = ("train", "tiny.toml", "--run", "seeds", "--seeds", "1,2")
    assert jtrans(*seeds, "--data", "data").code == 0
    assert jtrans(*seeds, "--restart").code == 0
    (Path("run") / "run.json").write_text("{", encoding="utf-8")
    damaged = jtrans("train", "tiny.toml", "--run", "run", "--restart")
    assert damaged.code == 2 and "--data DIR" in damaged.err


@pytest.mark.parametrize("options", [("--run", "run", "--restart"), ("--run", "other")])
def test_the_configuration_file_of_a_run_means_its_data(
    workplace: Path, jtrans: Jtrans, options: tuple[str, ...]
) -> None:
    assert jtrans("train", "tiny.toml", "--data", "data", "--run", "run").code == 0
    done = jtrans("train", "run/config.toml", *options)
    assert done.code == 0 and "(new)" in done.err
    assert Path(Run(Path(options[1])).info["data"]).samefile("data")


@pytest.mark.parametrize("is_old", [False, True])
def test_a_run_that_starts_over_keeps_its_data(
    workplace: Path, jtrans: Jtrans, is_old: bool
) -> None:
    make_nouns(workplace / "data" / "prepared" / "nouns", seed=5)
    command = ("train", "tiny.toml", "--run", "run", "--set", "data.corpus=nouns")
    jtrans(*command, "--data", "data")
    if is_old:  # settings were only in config.toml
        Run(Path("run")).update_info(settings=None)
    jtrans(*command, "--restart")
    assert Path(Run(Path("run")).info["data"]).samefile("data")


def test_a_run_in_place_of_a_recipe_gets_the_command_that_continues_it(
    jtrans: Jtrans, tmp_path: Path
) -> None:
    (tmp_path / "my run").mkdir()
    (tmp_path / "my run" / "config.toml").write_text(MODEL, encoding="utf-8")
    refused = jtrans("train", "my run")
    assert refused.code == 2 and "my run is a run, not a recipe" in refused.err
    path = Path("my run", "config.toml")
    assert f"hint: jtrans train '{path}' --run 'my run'\n" in refused.err


def test_a_run_whose_data_are_gone_says_where_they_were(workplace: Path, jtrans: Jtrans) -> None:
    (workplace / "data").rename(workplace / "mine")
    jtrans("train", "tiny.toml", "--data", "mine", "--run", "run")
    (workplace / "mine").rename(workplace / "moved")
    command = ("train", "run/config.toml", "--run", "run", "--set", "training.max_updates=8")
    other = ("--set", "data.corpus=nouns")  # its text is not that of the run
    make_nouns(workplace / "data" / "prepared" / "nouns", seed=5)
    for more in ((), other, ("--restart",), (*other, "--restart")):
        refused = jtrans(*command, *more)
        assert refused.code == 2 and f"is no longer in {workplace / 'mine'}" in refused.err
    (workplace / "data" / "prepared" / "empty").mkdir()
    damaged = jtrans(*command, "--set", "data.corpus=empty")
    assert damaged.code == 2 and f"is no longer in {workplace / 'mine'}" in damaged.err
    shutil.copytree("moved", "data/prepared/animals")
    assert jtrans(*command, "--set", "data.corpus=animals").code == 0
    assert jtrans(*command, "--data", "moved").code == 0


def test_chrf_is_shown_and_logged_where_it_decides(workplace: Path, jtrans: Jtrans) -> None:
    command = ("train", "tiny.toml", "--data", "data", "--run", "run")
    settings = ("training.best_metric=valid-chrf", "training.validate_every=3")
    done = jtrans(*command, *(word for each in settings for word in ("--set", each)))
    logged = [row["chrf"] for row in Run(Path("run")).events() if row["event"] == "validation"]
    assert re.findall(r"  chrF (\S+)", done.err) == [f"{chrf:.1f}" for chrf in logged]
    assert len(logged) == 2 and f"best valid chrf {max(logged):.3f}" in done.err
    assert "valid chrF" in jtrans("info", "run").out


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["keep.window=21"], "keep.window 21 is larger than the number of validations of this run"),
        (["keep.window=1"], "keep.window 1 is too small"),
        (["l2=1e-5", "weight_decay=1e-5"], "two forms of the same penalty"),
        (["optimiser={name='nestrov'}"], "did you mean nesterov?"),
        (["schedule={name='rnmt', replica=4}"], "did you mean training.schedule.replicas?"),
        (["validate_every='30 hours'"], "a time such as '30 minutes' (got '30 hours')"),
    ],
)
def test_settings_that_cannot_work_are_refused_in_a_paragraph(
    settings: list[str], message: str, workplace: Path, jtrans: Jtrans
) -> None:
    given = [
        word for each in ("validate_every=2", *settings) for word in ("--set", f"training.{each}")
    ]
    result = jtrans("train", "tiny.toml", "--data", "data", "--run", "runs/refused", *given)
    assert result.code == 2 and message in result.err, result.err
    assert len(result.err.splitlines()) == 2 and result.err.startswith("error: ")
    assert not (workplace / "runs").exists()


def test_dropped_updates_and_the_window_are_shown(
    workplace: Path, jtrans: Jtrans, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[torch.Tensor] = []

    def judge(_: GradientGuard, norm: torch.Tensor) -> torch.Tensor:
        judged.append(norm)
        return torch.tensor(len(judged) in (3, 5))

    monkeypatch.setattr(GradientGuard, "judge", judge)
    settings = ("gradient_guard=true", "keep.window=2", "validate_every=2")
    given = [word for each in settings for word in ("--set", f"training.{each}")]
    done = jtrans("train", "tiny.toml", "--data", "data", "--run", "runs/guarded", *given)
    rows = [line for line in done.err.splitlines() if " window " in line]
    assert [row.rpartition("dropped")[2].strip() for row in rows[:2]] == ["1", "2"]
    assert "2 updates of abnormal gradients dropped" in done.err
    assert "best window of 2 validations: updates " in done.err
    described = jtrans("info", "guarded").out
    assert "2 updates of abnormal gradients" in described and "mean BLEU" in described


def test_a_finished_run_says_so(workplace: Path, jtrans: Jtrans) -> None:
    arguments = ("train", "tiny.toml", "--data", "data", "--run", "runs/finished")
    jtrans(*arguments)
    again = jtrans(*arguments)
    assert again.code == 0
    assert again.err.startswith("nothing to do: runs/finished is finished")
    assert "--set training.max_updates=12" in again.err
    assert "no effect" not in again.err
    changed = jtrans(*arguments, "--set", "training.learning_rate=0.5")
    assert re.search(r"^no effect: training\.learning_rate \S+ -> 0\.5$", changed.err, re.MULTILINE)


@pytest.mark.parametrize(
    ("schedule", "hint"),
    [
        ("name='cosine', warmup=1, updates=4", "schedule.updates=8 --set training.max_updates=8"),
        ("name='cosine', warmup=1, updates=2", "schedule.updates=4"),
        ("name='wsd', warmup=1", "max_updates=12"),
    ],
)
def test_a_run_whose_schedule_is_over_continues_with_a_longer_one(
    schedule: str, hint: str, workplace: Path, jtrans: Jtrans
) -> None:
    command = ["train", "tiny.toml", "--data", "data", "--run", "runs/over"]
    command += ["--set", f"training.schedule={{{schedule}}}"]
    first = json.loads(jtrans(*command, "--json").out)
    again = jtrans(*command)
    assert f"example --set training.{hint} (the learning rate rises again);" in again.err
    options = f"--set training.{hint}".split()
    longer = json.loads(jtrans(*command, *options, "--json").out)
    assert longer["trained"] and longer["update"] == 2 * first["update"]


def test_a_run_remembers_settings_of_its_weights_that_changed_on_the_way(
    workplace: Path, jtrans: Jtrans
) -> None:
    def changed(*settings: str) -> list[str]:
        options = [word for each in settings for word in ("--set", f"training.{each}")]
        jtrans("train", "tiny.toml", "--data", "data", "--run", "runs/changed", *options)
        return Run.open(workplace / "runs" / "changed").changed_settings

    assert changed("max_updates=2", "label_smoothing=0") == []
    assert changed("max_updates=3", "label_smoothing=0", "validate_every=2") == []  # limits
    rate = "training.learning_rate"
    assert changed("max_updates=4", "label_smoothing=0", "learning_rate=1e-5") == [rate]
    assert changed() == ["training.label_smoothing", rate]
    cosine = "schedule={name='cosine', warmup=2}"
    assert changed("max_updates=7", "validate_every=1") == ["training.label_smoothing", rate]
    plateau = "schedule={name='plateau'}"
    assert "training.validate_every" in changed("max_updates=8", "validate_every=2", plateau)
    ends_later = {"training.schedule.name", "training.max_updates"}  # where the cosine ends
    assert ends_later <= {*changed("max_updates=10", cosine)}


def test_the_run_is_named_after_the_configuration_and_json_is_alone_on_stdout(
    workplace: Path, jtrans: Jtrans
) -> None:
    done = jtrans("--quiet", "train", "tiny.toml", "--data", "data", "--json")
    assert done.err == ""
    result = json.loads(done.out)
    assert (result["run"], result["update"], result["reason"]) == ("runs/tiny", 6, "max_updates")
    assert result["best"]["metric"] == "valid-loss"


def test_the_configuration_in_a_run_continues_with_it(workplace: Path, jtrans: Jtrans) -> None:
    jtrans("train", "tiny.toml", "--data", "data", "--run", "runs/own")
    more = ("--set", "training.max_updates=7", "--json")
    done = jtrans("train", "runs/own/config.toml", "--data", "data", *more)
    assert json.loads(done.out)["run"] == "runs/own"
    assert json.loads(done.out)["update"] == 7


def test_verbose_logs_files_and_device_with_times(workplace: Path, jtrans: Jtrans) -> None:
    device._prepared.cache_clear()
    arguments = ("train", "tiny.toml", "--data", "data", "--run", "runs/logged", "--json")
    done = jtrans(*arguments, "--verbose")  # before or after the command
    result = json.loads(done.out)
    log = re.findall(r"^ *\d+ ms  (.+)$", done.err, flags=re.MULTILINE)
    assert log[0] == "read tiny.toml"
    assert "read data/train.source.npy" in log
    assert any(re.match(r"device cpu, \d+ threads?, fp32", line) for line in log)
    assert f"wrote {result['run']}/checkpoints/step-00000006" in log
    assert log[-1] == "end"
    assert "done: all updates are done" in done.err
    again = jtrans("train", "tiny.toml", "--data", "data", "--run", "runs/logged")
    assert " ms  " not in again.err


def test_a_dry_run_writes_nothing(workplace: Path, jtrans: Jtrans) -> None:
    before = sorted(workplace.rglob("*"))
    done = jtrans("train", "tiny.toml", "--data", "data", "--dry-run")
    assert done.code == 0
    for word in ("parameters", "largest micro-batch", "MiB", "target tokens/s", "per epoch"):
        assert word in done.out
    assert "rises" not in done.err
    long = ("train", "tiny.toml", "--data", "data", "--set", "training.schedule.warmup=4000")
    rises = "training ends after 6 updates or so, but the learning rate rises for 4,000"
    told = jtrans(*long, "--dry-run").err
    assert rises in told and "(--set training.schedule.warmup=1)" in told
    assert rises in jtrans(*long, "--run", "new").err
    shutil.rmtree("new")
    assert sorted(workplace.rglob("*")) == before


@pytest.mark.parametrize("way", [("--dry-run",), ("--run", "runs/new")])
def test_changed_settings_without_effect_are_named_once(
    workplace: Path, jtrans: Jtrans, way: tuple[str, ...]
) -> None:
    model = 'system="transformer-pp"', "pos_tags=0", "ner_tags=0", "convolution=false"
    unused = "kernels=[5]", 'plain_attention="self"', "pos_weight=0.1"
    options = [part for each in (*model, *unused) for part in ("--set", f"model.{each}")]
    options += ["--set", "training.schedule.warmup=3", "--set", "training.schedule.name=constant"]
    options += ["--set", "training.schedule.warmup_init=1e-6"]
    names = "model.kernels, model.plain_attention, model.pos_weight, training.schedule.warmup, "
    names += "training.schedule.warmup_init"
    done = jtrans("train", "tiny.toml", "--data", "data", *way, *options)
    assert done.code == 0, done.err
    note = f"no effect: {names}"
    assert [line for line in done.err.splitlines() if "effect" in line] == [note]


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (
            ("tiny.toml", "--set", "training.learning_rat=1e-3"),
            "did you mean training.learning_rate?",
        ),
        (("tiny.toml", "--set", "model.width=250", "--set", "model.heads=4"), "hint:"),
        (("tiny.toml", "--set", "training.seed"), "--set training.learning_rate=1e-3"),
        (("demo/transformerr",), "did you mean demo/transformer?"),
        (("tiny",), "hint: rename the file"),
        (("tiny.toml", "--run", "@last"), "hint: --run runs/NAME"),
        (
            ("tiny.toml", "--dry-run", "--seeds", "1,2"),
            "--dry-run measures one process and one seed",
        ),
        (("tiny.toml", "--dry-run", "--tensorboard"), "--seeds and --tensorboard"),
        (("tiny.toml", "--seeds", "1,2", "--set", "training.seed=5"), "exclude each other"),
        (("demo/pervasive", "--set", "model.kernel=4"), "it must be odd"),
        (("demo/convs2s", "--set", "model.encoder_layers='(64, 9999)'"), "wider than the longest"),
        (("demo/convs2s", "--set", "model.decoder_layers=''"), "at least one layer"),
        (("demo/transformer-pp", "--set", "model.encoder_layers=0"), "greater than 0"),
        (("tiny.toml", "--device", "cpuu"), "did you mean cpu?"),
        (("tiny.toml", "--data", "nowhere"), "jtrans prepare"),
        (("tiny.toml", "--from", "nobody"), "hint:"),
        (("tiny.toml", "--precision", "fp99"), "hint:"),
        (("tiny.toml", "--set", "training.init_from=runs/nobody"), "hint:"),
        (("tiny.toml", "--set", 'training.freeze=["encodr.*"]'), "did you mean encoder.*?"),
        (("tiny.toml", "--set", 'training.freeze=["*"]'), "hint: freeze a part of the model"),
        (("tiny.toml", "--set", "training.freeze=encodr.*"), "did you mean encoder.*?"),
        (("tiny.toml", "--set", "training.optimiser=adam"), "such as training.optimiser.name"),
        (("tiny.toml", "--set", "training.l2=1e39"), "less than or equal to 1000"),
        (("tiny.toml", "--set", "training.validate_beam=201"), "less than or equal to 200"),
        (
            ("tiny.toml", "--set", "training.stop.metric=valid-pos"),
            "hint: --set training.stop.metric=valid-loss",
        ),
        (("tiny.toml", "--dry-run", "--set", 'training.freeze=["encodr.*"]'), "encoder.*?"),
    ],
)
def test_bad_input_is_explained_and_nothing_written(
    arguments: tuple[str, ...], hint: str, workplace: Path, jtrans: Jtrans
) -> None:
    (workplace / "tiny").write_text("", encoding="utf-8")
    before = sorted(workplace.rglob("*"))
    data = () if "--data" in arguments else ("--data", "data")
    run = () if "--run" in arguments else ("--run", "runs/never")
    done = jtrans("train", *arguments, *data, *run)
    assert done.code == 2
    assert done.err.startswith("error: ")
    assert "Traceback" not in done.err
    assert hint == "hint:" or hint in done.err
    assert sorted(workplace.rglob("*")) == before


def test_a_run_starts_from_another_with_a_part_frozen(workplace: Path, jtrans: Jtrans) -> None:
    command = ("train", "tiny.toml", "--data", "data", "--run")
    assert jtrans(*command, "runs/base").code == 0
    settings = ("training.init_from=runs/base", 'training.freeze=["encoder.*"]')
    more = [part for setting in settings for part in ("--set", setting)]
    done = jtrans(*command, "runs/next", *more)
    assert done.code == 0, done.err
    lines = done.err.splitlines()
    assert " parameters and " in lines[0]
    assert " frozen      device" in lines[0]
    assert re.match(r"initial  \* of runs/base \(step-00000006\), \d+ tensors", lines[1])
    dry = jtrans(*command, "runs/never", *more, "--dry-run")
    assert re.search(r"parameters and [\d,]+ frozen", dry.out)
    small = ("train", "tiny.toml", "--data", "data", "--from", "runs/base")
    for way in (("--dry-run",), ("--run", "runs/never")):
        refused = jtrans(*small, *way, "--set", "model.width=12")
        assert refused.code == 2 and "runs/base" in refused.err
    whole = jtrans(*command, "runs/whole", "--from", "runs/base").err.splitlines()
    assert whole[1].startswith("initial  all weights of ")
    assert whole[1].endswith("runs/base (step-00000006)")
    both = jtrans(*command, "runs/never", *more, "--from", "runs/base")
    assert both.code == 2
    assert "--set training.init_from=[]" in both.err
    done = jtrans("score", "runs/base", "runs/next", "--split", "valid", "--json")
    frozen = [system["frozen_parameters"] for system in json.loads(done.out)["systems"]]
    assert frozen[0] is None
    assert frozen[1] > 0


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143)],
    ids=["ctrl-c", "terminated"],  # a closed terminal hangs up
)
def test_a_signal_saves_the_run_and_the_same_command_continues(
    number: signal.Signals, code: int, workplace: Path, jtrans: Jtrans
) -> None:
    run = f"runs/stopped-{code}"
    limit = ("--set", "training.max_updates=100000")
    command = ("train", "tiny.toml", "--data", "data", "--run", run)
    start = (*command, "--restart", *limit)
    process = start_process(*start, folder=workplace, stderr=subprocess.PIPE)
    log = workplace / run / "log.jsonl"
    while not (log.exists() and '"validation"' in log.read_text(encoding="utf-8")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    _, talk = process.communicate(timeout=60)
    assert process.returncode == code
    assert b"everything is saved" in talk
    assert f"Next: jtrans train tiny.toml --data data --run {run} --set" in talk.decode()
    done = jtrans(*command, "--max-minutes", "0.0001", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["reason"] in ("max_updates", "max_minutes")


def closing_terminal(folder: Path, run: str, updates: int, *, ignored: bool) -> int:
    """Train on a terminal that is closed after the first validation; return the exit code."""
    import fcntl
    import pty
    import termios

    def take_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        if ignored:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

    terminal, inside = pty.openpty()
    process = start_process(
        *("train", "tiny.toml", "--data", "data", "--run", run),
        *("--set", f"training.max_updates={updates}", "--set", "training.validate_every=20"),
        folder=folder,
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
        preexec_fn=take_terminal,
    )
    os.close(inside)
    log = folder / run / "log.jsonl"
    while not (log.exists() and '"validation"' in log.read_text(encoding="utf-8")):
        assert process.poll() is None
        time.sleep(0.05)
    os.close(terminal)
    return process.wait(timeout=60)


@pytest.mark.thorough
def test_a_closed_terminal_saves_the_run(workplace: Path) -> None:
    assert closing_terminal(workplace, "runs/closed", 100000, ignored=False) == 129
    assert (Run(workplace / "runs/closed").checkpoint("last").update or 0) >= 20


@pytest.mark.thorough
def test_a_run_that_ignores_the_end_of_its_terminal_goes_on(workplace: Path) -> None:
    assert closing_terminal(workplace, "runs/disowned", 60, ignored=True) == 0
    assert Run(workplace / "runs/disowned").checkpoint("last").update == 60


def test_a_signal_within_the_writing_of_a_line_still_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Busy(io.StringIO):
        def write(self, text: str) -> int:
            raise RuntimeError("reentrant call")

    monkeypatch.setattr(sys, "stderr", Busy())
    with StopSignals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.exit_code == 143


def test_ignored_signals_stay_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.SIG_IGN)
    handlers: list[int] = []
    monkeypatch.setattr(signal, "signal", lambda number, handler: handlers.append(number))
    with StopSignals():
        pass
    assert handlers == []  # nohup jtrans train


def test_a_second_hangup_does_not_stop_the_saving(capsys: pytest.CaptureFixture[str]) -> None:
    with StopSignals() as signals:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGHUP)
        assert signals.are_set() and signals.exit_code == 129
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_rank_is_stopped_by_its_launcher_alone(number: int) -> None:
    with StopSignals(is_rank=True) as signals:
        for _ in range(2):  # from a batch system, and passed on by the launcher
            os.kill(os.getpid(), number)
        time.sleep(0.1)
        assert signals.exit_code == 128 + number


def test_a_damaged_best_checkpoint_is_replaced_with_a_warning_and_refused_by_number(
    workplace: Path, jtrans: Jtrans
) -> None:
    every = ("--set", "training.validate_every=3")
    jtrans("train", "tiny.toml", "--data", "data", "--run", "runs/first", *every)
    folder = workplace / "runs/first/checkpoints/step-00000006"
    (folder / "model.safetensors").write_bytes(b"")
    done = jtrans("translate", "runs/first", "--checkpoint", "last", stdin=b"Hund\n")
    assert done.code == 0 and done.err.count("warning: the checkpoint is damaged") == 1
    assert "using step-00000003" in done.err
    refused = jtrans("translate", "runs/first", "--checkpoint", "6", stdin=b"Hund\n")
    assert refused.code == 2 and "damaged" in refused.err
    more = ("--set", "training.max_updates=9")
    again = jtrans("train", "tiny.toml", "--data", "data", "--run", "runs/first", *every, *more)
    assert again.code == 0 and "using step-00000003" in again.err
    assert "continues at update 3" in again.err


def test_averaging_names_what_it_made(workplace: Path, jtrans: Jtrans) -> None:
    every = ("--set", "training.validate_every=2")
    jtrans("train", "tiny.toml", "--data", "data", "--run", "runs/avg", *every)
    done = jtrans("average", "runs/avg", "--last", "2", "--json")
    assert json.loads(done.out) == {
        "checkpoint": "runs/avg/checkpoints/average",
        "of": ["step-00000004", "step-00000006"],
    }
    steps = jtrans("average", "runs/avg", "--steps", "2,4", "--name", "early")
    assert steps.code == 0
    assert (workplace / "runs/avg/checkpoints/early/model.safetensors").is_file()
    refused = jtrans("average", "runs/avg", "--steps", "4,6", "--name", "early")
    assert refused.code == 2
    assert "early exists: the average of step-00000002, step-00000004" in refused.err
    again = jtrans("average", "runs/avg", "--steps", "2,6")
    assert "in place of the average of step-00000004, step-00000006" in again.err
    best = jtrans("average", "runs/avg", "--choose", "valid-loss", "--name", "best-one", "--json")
    assert best.code == 0, best.err
    result = json.loads(best.out)
    losses = [each["valid-loss"] for each in result["validated"]]
    assert len(losses) == 3 and losses == sorted(losses)
    assert result["validated"][0]["of"] == result["of"]
    (newest,) = (each for each in result["validated"] if len(each["of"]) == 1)
    logged = [e for e in Run(workplace / "runs/avg").events() if e["event"] == "validation"]
    assert newest["valid-loss"] == pytest.approx(logged[-1]["valid_loss"], rel=1e-6)
    taken = jtrans("average", "runs/avg", "--choose", "valid-loss", "--name", "early")
    assert taken.code == 2 and "early exists" in taken.err
    for metric in ("valid-loss", "valid-bleu"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Validator, "__call__", lambda *_: {"valid_loss": math.nan})
            diverged = jtrans("average", "runs/avg", "--choose", metric, "--name", "never")
        assert diverged.code == 2 and "has a finite loss" in diverged.err
    folder = workplace / "runs/avg/checkpoints/step-00000004"
    choose = ("average", "runs/avg", "--choose", "valid-loss")
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:-1])
    damaged = jtrans(*choose)
    assert damaged.code == 2 and "choose undamaged ones: --steps 2,6" in damaged.err
    (folder / "model.safetensors").unlink()
    without = json.loads(jtrans(*choose, "--json").out)
    assert len(without["validated"]) == 2
    assert not [name for each in without["validated"] for name in each["of"] if name == folder.name]
    newest_weights = workplace / "runs/avg/checkpoints/step-00000006/model.safetensors"
    (newest_weights.parent / "sha256.json").unlink()
    other = {name: tensor[:1] for name, tensor in load_file(newest_weights).items()}
    save_file(other, newest_weights)
    assert "checkpoints/step-00000006/model.safetensors" in jtrans(*choose).err


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "arguments",
    [
        ("runs/avg2",),
        ("runs/first", "--last", "50"),
        ("runs/first", "--steps", "x"),
        ("runs/first", "--steps", "1", "--last", "2"),
        ("runs/first", "--steps", "6,06"),
        ("runs/first", "--last", "0"),
        ("runs/first", "--steps", "1", "--choose", "valid-loss"),
        ("runs/first", "--choose", "valid-loss", "--data", "nowhere"),
        ("runs/first", "--last", "1", "--data", "data"),
        ("runs/first", "--last", "1", "--device", "cpu"),
        ("runs/first", "--last", "1", "--name", "best"),
        ("runs/first", "--choose", "valid-loss", "--data", "nowhere", "--name", "step-1"),
        ("runs/first", "--weights", "1"),
        ("runs/first", "runs/first", "--last", "1"),
        ("runs/first", "runs/first", "--weights", "1,x"),
        ("runs/first", "runs/first", "--weights", "1,0"),
        ("runs/first", "runs/first@nothing"),
    ],
)
def test_averages_that_cannot_be_made_are_refused(
    arguments: tuple[str, ...], workplace: Path, jtrans: Jtrans
) -> None:
    jtrans("train", "tiny.toml", "--data", "data", "--run", "runs/first")
    done = jtrans("average", *arguments)
    assert done.code == 2
    assert done.err.startswith("error: ")
    assert "hint: " in done.err


def test_runs_are_averaged_into_a_checkpoint_of_the_first(workplace: Path, jtrans: Jtrans) -> None:
    command = ("train", "tiny.toml", "--data", "data", "--run")
    jtrans(*command, "runs/base")
    jtrans(*command, "runs/tuned", "--from", "runs/base")
    jtrans(*command, "runs/other", "--set", "training.seed=9")
    done = jtrans("average", "runs/base@5", "runs/tuned", "--weights", "1,3", "--name", "mixed")
    assert done.code == 0 and "warning" not in done.err
    assert "averaged 1 base@step-00000005, 3 tuned@step-" in done.err
    assert jtrans("score", "base@mixed", "--split", "valid").code == 0
    for_good = (*command, "runs/again", "--from", "runs/base@mixed")
    begun = jtrans(*for_good)
    assert begun.code == 0 and "base (mixed)" in begun.err
    assert "runs/base@mixed" in jtrans("info", "runs/again").out
    assert jtrans(*for_good).code == 0
    for other in ("runs/base", "runs/base@5"):
        refused = jtrans(*command, "runs/again", "--from", other)
        assert refused.code == 2 and "base@mixed continues it" in refused.err
    kept = jtrans(*command, "runs/kept", "--from", "runs/base@mixed", "--keep-optimiser")
    assert kept.code == 2 and "base@mixed is an average, without the state" in kept.err
    apart = jtrans("average", "runs/base", "runs/other", "--json")
    assert [name.split("@")[0] for name in json.loads(apart.out)["of"]] == ["base", "other"]
    assert "did not begin with the same weights" in apart.err
    twice = jtrans("average", "runs/base@6", "runs/base@last")
    assert twice.code == 2 and "named twice" in twice.err
    weights = workplace / "runs/other/checkpoints/step-00000005/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    damaged = jtrans("average", "runs/base", "runs/other@5")
    assert damaged.code == 2 and "hint: name another checkpoint of that run" in damaged.err
    again = jtrans("average", "runs/base", "runs/tuned", "--name", "mixed")
    assert again.code == 2 and "mixed exists: the average of 1 base@" in again.err


@pytest.mark.parametrize("option", [["--seeds", "1,2,3"], ["--seeds=1,2,3"]])
def test_later_seeds_of_a_stopped_restart_are_not_taken_for_new_ones(
    option: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, make_run: Any
) -> None:
    monkeypatch.setattr(sys, "argv", ["jtrans", "train", "r", *option, "--restart", "--run", "x"])
    runs = [Path(make_run(f"seed-{number}")) for number in (1, 2, 3)]
    suggest_continuing(runs[1], runs)
    told = capsys.readouterr().err
    assert "Next: jtrans train r --run x --seeds 1,2\n" in told
    assert "then: jtrans train r --run x --seeds 3 --restart\n" in told
    suggest_continuing(runs[2], runs)
    assert f"Next: jtrans train r {' '.join(option)} --run x\n" in capsys.readouterr().err


def test_seeds_without_commas_are_hinted_at(jtrans: Jtrans) -> None:
    result = jtrans("train", "demo/transformer", "--seeds", "1", "2", "3")
    assert result.code == 2
    assert "hint: separate seeds by commas: --seeds 1,2,3" in result.err


def test_a_signal_that_comes_too_late_for_a_seed_stops_before_the_next(
    workplace: Path, jtrans: Jtrans, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jtrans.api import train

    def signalled(*arguments: Any, **options: Any) -> Any:
        result = train(*arguments, **options)
        signal.raise_signal(signal.SIGTERM)
        return result

    monkeypatch.setattr("jtrans.api.train", signalled)
    command = ["train", "tiny.toml", "--data", "data", "--run", "runs/many", "--seeds", "1,2"]
    command += ["--set", "training.max_updates=2"]
    for _ in range(2):  # trained, and with nothing to do
        done = jtrans(*command)
        assert done.code == 143
        assert "stopped before runs/many/seed-2" in done.err and done.err.count("Next:") == 1
        assert not Path("runs/many/seed-2").exists()
    assert jtrans(*command, "--seeds", "1").code == 0  # the last


def test_every_seed_begins_with_the_last_run_before_the_command(
    workplace: Path, jtrans: Jtrans
) -> None:
    command = ["train", "tiny.toml", "--data", "data", "--set", "training.max_updates=2"]
    assert jtrans(*command, "--run", "runs/base").code == 0
    several = [*command, "--run", "runs/many", "--from", "@last", "--seeds"]
    assert jtrans(*several, "1").code == 0
    for _ in range(2):  # the second time there is nothing to do
        done = jtrans(*several, "1,2")
        assert done.code == 0, done.err
    for seed in ("seed-1", "seed-2"):
        assert json.loads(Path("runs/many", seed, "run.json").read_text())["from"] == "runs/base"
    chained = jtrans(*command, "--seeds", "1,2", "--set", "training.init_from=@last")
    assert chained.code == 2 and "the weights of the previous one" in chained.err


def test_several_seeds_are_several_runs_that_are_scored_as_one_system(
    workplace: Path, jtrans: Jtrans
) -> None:
    command = ("train", "tiny.toml", "--data", "data", "--run", "runs/many")
    done = jtrans(*command, "--seeds", "3,11", "--set", "training.max_updates=2", "--json")
    assert done.code == 0, done.err
    folders = ["runs/many/seed-3", "runs/many/seed-11"]
    assert [each["run"] for each in json.loads(done.out)["runs"]] == folders
    assert done.err.splitlines()[-1] == f"Next: jtrans score {' '.join(folders)}"
    assert done.err.count("Next:") == 1
    scored = jtrans("score", *folders, "--split", "valid", "--json")
    (system,) = json.loads(scored.out)["groups"]
    assert system["name"] == "many (seeds 3, 11)"
    for name in ("runs/many", "many"):
        refused = jtrans("translate", name, stdin=b"x")
        assert refused.code == 2 and f"hint: name them: {' '.join(folders[::-1])}" in refused.err
    assert "did you mean many/seed-3?" in jtrans("score", "runs/many/seed3").err
    again = jtrans(*command, "--seeds", "3,11", "--set", "training.max_updates=2")
    assert again.code == 0 and again.err.count("nothing to do") == 2
    for wrong in (["--seeds", "1,x"], ["--seeds", "1,1"], ["--seeds", "1", "--seed", "2"]):
        assert jtrans(*command, *wrong).code == 2
    refused = jtrans(*command[:-1], folders[0], "--seeds", "1,2")
    assert refused.code == 2 and "is a run itself" in refused.err
