"""Training a run: its recipe, its data and its folder."""

from __future__ import annotations

import contextlib
import copy
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from jtrans.config.arguments import check_argument, type_error
from jtrans.data import PREPARED
from jtrans.errors import CorpusError, JtransError, usage_error

if TYPE_CHECKING:
    import torch

    from jtrans.config import Config
    from jtrans.training.events import Result, TrainingEvents

_AT_WORK = threading.Lock()  # held while a thread trains


def train(
    recipe: str | Path | Mapping[str, Any] | Config,
    *,
    data: str | Path | None = None,
    run: str | Path | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002
    device: str | torch.device | None = None,
    restart: bool = False,
    initial: str | Path | None = None,
    keep_optimiser: bool = False,
    tensorboard: bool = False,
    shard_model: bool = False,
    events: TrainingEvents | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Result:
    """Train a new run, or continue an existing one where it stopped.

    Ctrl-C saves the run before `KeyboardInterrupt` is raised; a second one stops at once. A process
    trains one run at a time: training seeds the random numbers of torch and Python, and sets how
    torch multiplies matrices. `load` in another thread changes the random numbers of training.

    Args:
        recipe: a name of `jtrans recipes`, a TOML file, or its sections as a mapping.
        data: folder of the prepared corpus; by default that of the existing run, or of the run
            whose configuration file is the recipe, otherwise the recipe's corpus.
        run: folder of the run; by default ``runs/RECIPE``.
        set: settings to change, such as ``{"model.width": 256}``; None removes a limit.
        device: "auto", "cpu", "cuda" or "mps".
        restart: start over, deleting the existing run.
        initial: a run with the same vocabularies; a new run starts from its best weights, or
            from those of a checkpoint: ``RUN@CHECKPOINT``.
        keep_optimiser: also take the optimiser's moments from `initial`.
        tensorboard: also write curves for TensorBoard to ``tensorboard`` in the run's folder.
        shard_model: with several processes, each holds only a shard of the weights.
        events: receives training events; by default, warnings at the start are issued as Python's.
        should_stop: called after each update and during validation; if True, save and stop.

    Returns:
        How training ended; its `run` is the folder that `load` takes.

    Raises:
        JtransError: settings or data cannot be used, training failed, or another thread is
            training.
        KeyboardInterrupt: Ctrl-C, once the run is saved.
    """
    from jtrans.runs import find_run
    from jtrans.training.events import StartWarnings, TrainingEvents
    from jtrans.training.session import train as train_run

    paths = {"data": data, "run": run, "initial": initial}
    flags = {"restart": restart, "keep_optimiser": keep_optimiser, "tensorboard": tensorboard}
    for name, path in paths.items():
        if path is not None:
            check_argument(name, path, os.PathLike)
    for name, flag in {**flags, "shard_model": shard_model}.items():
        check_argument(name, flag, bool)
    if not callable(should_stop):
        raise type_error("should_stop", should_stop, "a function")
    if not isinstance(events, TrainingEvents | None):
        raise type_error("events", events, "an object of a subclass of TrainingEvents")
    if set is not None and not (isinstance(set, Mapping) and all(map(_is_string, set))):
        raise usage_error("set must be a mapping of settings", 'set={"model.width": 256}')
    if keep_optimiser and initial is None:
        raise usage_error("keep_optimiser needs initial, the run to start from", "initial='runs/a'")
    config = load_recipe(recipe, set)
    folder = Path(run) if run else default_run(recipe)
    with _alone(), _saved_at_interrupt(should_stop) as is_over:
        return train_run(
            config,
            data=find_data(data, config, recipe, [folder], restart=restart),
            run=folder,
            device=None if device is None else str(device),  # of torch.device, too
            restart=restart,
            initial=find_run(str(initial), without=[folder], with_checkpoint=True)
            if initial is not None
            else None,
            keep_optimiser=keep_optimiser,
            tensorboard=tensorboard,
            shard_model=shard_model,
            events=StartWarnings() if events is None else events,
            should_stop=is_over,
        )


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Refuse to train in two threads, which would draw from the same random numbers."""
    if not _AT_WORK.acquire(blocking=False):
        raise JtransError(
            "another thread of this process is training",
            hint="wait until it has ended, or train in another process",
            kind="run.thread",
        )
    try:
        yield
    finally:
        _AT_WORK.release()


@contextlib.contextmanager
def _saved_at_interrupt(should_stop: Callable[[], bool]) -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C stop training like `should_stop`, and raise it afterwards.

    If the caller or the command line handles SIGINT, its handler stays.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield should_stop
        return
    interrupts: list[int] = []

    def receive(number: int, frame: FrameType | None) -> None:
        if interrupts:
            raise KeyboardInterrupt
        interrupts.append(number)

    signal.signal(signal.SIGINT, receive)
    try:
        yield lambda: bool(interrupts) or should_stop()
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if interrupts:
        raise KeyboardInterrupt


def load_recipe(
    recipe: str | Path | Mapping[str, Any] | Config, settings: Mapping[str, Any] | None = None
) -> Config:
    """Return the configuration of a recipe with some settings changed; arguments as in `train`."""
    from jtrans.config import Config, build_config, load_config, set_values
    from jtrans.config.load import drop_expectations
    from jtrans.models.zoo import system_configs

    if isinstance(recipe, Config) and not settings:
        return recipe
    if isinstance(recipe, (str, Path)):
        return load_config(str(recipe), system_configs(), options=settings)
    if not isinstance(recipe, (Config, Mapping)) or not all(map(_is_string, dict(recipe))):
        raise type_error("recipe", recipe, "a name, a path, or a mapping of sections")
    values = recipe.model_dump() if isinstance(recipe, Config) else copy.deepcopy(dict(recipe))
    drop_expectations(values, set_values(values, (settings or {}).items(), "set"))
    return build_config(values, system_configs(), where="the recipe given")


def _is_string(key: object) -> bool:
    return isinstance(key, str)


def find_data(
    data: str | Path | None,
    config: Config,
    recipe: object,
    runs: Sequence[Path] = (),
    *,
    restart: bool = False,
) -> Path:
    """Return the folder of the prepared corpus: `data`, or that of a run, or of the recipe.

    Args:
        data: the folder chosen by the user, if any.
        config: the configuration.
        recipe: what names it; for the configuration file of a run, the data of that run count.
        runs: folders of runs to continue; they need not exist. The data of the first one count.
        restart: whether the runs start over: then their data count only if the recipe is for the
            same corpus as theirs.

    Raises:
        ConfigError: `data` is None, and the recipe names no corpus.
        CorpusError: the folder is that of a catalogue corpus not yet prepared, or `data` is None
            and the data of the run no longer exist.
    """
    from jtrans.corpora.catalogue.load import find_entry, is_in_catalogue

    folder = Path(data) if data else _default_data(config, recipe, runs, restart=restart)
    is_default = folder == PREPARED / folder.name
    if is_default and not folder.exists() and is_in_catalogue(folder.name):
        is_joint = getattr(config.model, "tie", None) == "all"
        is_joint = is_joint and find_entry(folder.name).options.get("vocabulary") != "joint"
        command = f"jtrans prepare {folder.name}{' --vocabulary joint' if is_joint else ''}"
        raise CorpusError(
            f"no prepared corpus in {folder}",
            hint=f"{command}; or name another folder: --data DIR",
            kind="corpus.not-prepared",
        )
    return folder


def _default_data(config: Config, recipe: object, runs: Sequence[Path], *, restart: bool) -> Path:
    """Return the folder of the first run's data, otherwise of the recipe's prepared corpus."""
    from jtrans.runs import Run

    own = run_of_config(recipe)
    named = [] if own is None else [own]
    existing = [run for run in runs if Run.exists(run)]
    if restart:
        candidates = named + [run for run in existing if _is_for_same(run, config)]
    else:
        candidates = existing + named
    if candidates:
        run = candidates[0]
        info = _readable_info(run)
        recorded = info.get("data")
        if recorded and Path(recorded).is_dir():
            return Path(recorded)
        if recorded and not _is_text_of(info, config):
            raise CorpusError(
                f"the prepared corpus of {run} is no longer in {recorded}",
                where="--data",
                hint="--data DIR with its present folder",
                kind="corpus.not-prepared",
            )
    if config.data.corpus is None:
        raise usage_error(
            "the recipe names no corpus",
            "--data DIR, a folder written by jtrans prepare",
            where="--data",
        )
    return PREPARED / config.data.corpus


def _readable_info(run: Path) -> dict[str, Any]:
    """Return a run's info; empty if it is damaged, as the run can still start over."""
    from jtrans.runs import Run

    try:
        return Run(run).info
    except JtransError:
        return {}


def _is_for_same(run: Path, config: Config) -> bool:
    """Return whether a run's recipe was for the same corpus as `config`."""
    from jtrans.models.zoo import system_configs
    from jtrans.runs import Run

    try:
        named = Run(run).trained_config(system_configs()).data.corpus
    except JtransError:
        return False
    return named == config.data.corpus


def _is_text_of(info: Mapping[str, Any], config: Config) -> bool:
    """Return whether the recipe's prepared corpus has the training text recorded in `info`."""
    from jtrans.data.prepared import PreparedCorpus
    from jtrans.training.setup.continuing import identity

    if config.data.corpus is None:
        return False
    try:
        corpus = PreparedCorpus.open_for_training(PREPARED / config.data.corpus)
    except JtransError:  # absent or damaged
        return False
    return bool(info.get("train") == identity(corpus, "train"))


def default_run(recipe: object) -> Path:
    """Return the default folder of a recipe's run.

    Raises:
        ConfigError: the recipe has no name.
    """
    from jtrans.runs import RUNS

    if not isinstance(recipe, (str, Path)):
        raise usage_error(
            "a recipe without a name needs a run folder", "run='runs/mine'", where="run"
        )
    path = Path(recipe)
    if path.suffix != ".toml":
        return RUNS / recipe
    return run_of_config(path) or RUNS / path.stem


def run_of_config(recipe: object) -> Path | None:
    """Return the folder of the run whose configuration file is the recipe, or None."""
    from jtrans.runs import Run

    path = Path(recipe) if isinstance(recipe, (str, Path)) else Path()
    return path.parent if path.suffix == ".toml" and Run.exists(path.parent) else None
