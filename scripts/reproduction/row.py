"""One row with one seed: train, choose the checkpoint, translate, score.

Every step continues where it was interrupted: training from its last checkpoint, translations from
the result cache of the run.
"""

from __future__ import annotations

import hashlib
import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans import __version__
from jtrans.errors import CheckpointError, ConfigError, how_many, usage_error
from scripts.reproduction.catalogue import Row, lowercase_of
from scripts.reproduction.configuration import row_config
from scripts.reproduction.data import describe_data
from scripts.reproduction.results import (
    METRICS,
    THEN,
    RowResult,
    SplitScores,
    file_name,
)
from scripts.reproduction.settings import free_settings, plain, settings_differ

if TYPE_CHECKING:
    from jtrans.config import Config
    from jtrans.data.prepared import PreparedCorpus
    from jtrans.progress import Progress
    from jtrans.runs import Run
    from jtrans.training.events import Result, TrainingEvents


@dataclass(frozen=True)
class Job:
    """The settings that all rows share.

    Args:
        task: such as ``multi30k-de-en``.
        data: the prepared corpus.
        out: the folder of runs and results.
        setting: ``paper``, or one of `SETTINGS` with its limit, ``equal-time:60``.
        overrides: further settings of all rows, each ``section.key=value``.
        average: number of the last validations' checkpoints to average; 0: take the best one.
        device: the device to train and translate on.
    """

    task: str
    data: PreparedCorpus
    out: Path
    setting: str = "paper"
    overrides: Sequence[str] = ()
    average: int = 0
    device: str | None = None

    @property
    def rows_folder(self) -> Path:
        """The folder of the results."""
        return self.out / "rows"

    def run_folder(self, row: Row, seed: int) -> Path:
        """Return the folder of a row's run."""
        return self.out / "runs" / f"{row.run_of or row.name}-{seed}"

    def config(self, row: Row, seed: int) -> Config:
        """Return the resolved configuration of a row."""
        more = {"training.seed": seed}
        if average := row.average or self.average:
            # interrupted training also leaves checkpoints between validations
            of_row = row.settings.get("training.keep.last", 0)
            more["training.keep.last"] = max(of_row, 2 * average)
        return row_config(row, self.task, self.setting, self.overrides, more)

    def checkpoint(self, row: Row) -> str:
        """Return the name of the checkpoint that a row is translated with."""
        return row.checkpoint(self.average)

    def check_run(self, row: Row, seed: int) -> None:
        """Refuse impossible settings, and a run that was begun with other settings or data.

        Raises:
            JtransError: naming the setting.
        """
        from jtrans.runs import Run
        from jtrans.training.setup.continuing import check_same_run, one_of_several

        folder, config = self.run_folder(row, seed), self.config(row, seed)
        if Run.exists(folder):
            free = free_settings(plain(config))
            compared = ("model.", "training.", "decoding.")  # a finished run keeps its search
            with one_of_several(folder):
                run = Run.open(folder)
            check_same_run(run, config, self.data, free=free, sections=compared)

    def check_average(self, row: Row, seed: int) -> None:
        """Refuse an average of more checkpoints than the row has validations.

        Raises:
            ConfigError: naming how many it has.
        """
        training = self.config(row, seed).training
        every, most, average = training.validate_every, training.max_updates, self.average
        if row.average or most is None or not isinstance(every, int):
            return
        if (validations := math.ceil(most / every)) < average:
            raise usage_error(
                f"no average of {average} checkpoints: {row.name} has "
                f"{how_many(validations, 'validation')}, in {how_many(most, 'update')}",
                f"--average {validations}, or validate more often: --set training.validate_every="
                f"{max(most // average, 1)}",
                "--average",
            )

    def check_result(self, row: Row, seed: int) -> None:
        """Refuse to replace a result whose run is elsewhere: only the run can score further splits.

        Raises:
            ConfigError: naming the result and where its run belongs.
        """
        from jtrans.runs import Run

        path, folder = self.rows_folder / file_name(row.name, seed), self.run_folder(row, seed)
        if path.is_file() and not Run.exists(folder):
            raise usage_error(
                f"{path} has not all splits of this table, and its run is not here",
                f"copy the run to {folder}, or delete the result to train the row again",
            )

    def finished(self, row: Row, seed: int, splits: Sequence[str]) -> RowResult | None:
        """Return the result of a row, if there is one with the scores of these splits.

        Raises:
            ConfigError: the result was made with other settings or other data.
        """
        path = self.rows_folder / file_name(row.name, seed)
        if not path.is_file():
            return None
        result = RowResult.read(path)
        if result.data["digests"] != self.data.digests():
            raise _other_settings(path, [f"the data, {self.data.folder}"])
        check_same_settings(path, result, self.config(row, seed), self.checkpoint(row))
        return result if result.has(splits) else None


def check_same_settings(path: Path, result: RowResult, config: Config, checkpoint: str) -> None:
    """Refuse a result of another configuration, or translated with another checkpoint.

    Raises:
        ConfigError: naming the settings.
    """
    keys = settings_differ(result.config, plain(config))
    if result.checkpoint != checkpoint:
        keys.append(f"--average (its checkpoint is {result.checkpoint})")
    if keys:
        raise _other_settings(path, keys)


def _other_settings(path: Path, keys: Sequence[str]) -> ConfigError:
    return ConfigError(
        f"{path} was made with other settings: {', '.join(keys)}",
        where=str(path),
        hint="use another --out, or delete the result and its run",
        kind="reproduce.other-settings",
    )


def run_row(
    job: Job,
    row: Row,
    seed: int,
    splits: list[str],
    *,
    events: TrainingEvents,
    should_stop: Callable[[], bool],
    progress: Progress,
) -> RowResult | None:
    """Train and score a row; return and write its result, None if stopped before the end.

    The splits that its file has already are scored, too.
    """
    from jtrans import api
    from jtrans.runs import Run
    from jtrans.training.checkpoint import check_log
    from jtrans.training.setup.continuing import one_of_several

    config, folder = job.config(row, seed), job.run_folder(row, seed)
    with one_of_several(folder):
        ended = api.train(
            config,
            data=job.data.folder,
            run=folder,
            device=job.device,
            events=events,
            should_stop=should_stop,
        )
    if ended.reason == "stopped":
        return None
    run = Run.open(folder)
    check_log(run)
    if average := row.average or job.average:
        write_average(run, average, job.checkpoint(row))
    result = _without_scores(job, row, config, run, ended)
    path = job.rows_folder / result.file_name
    # another experiment with this row may have scored other splits: they are not lost
    wanted = {*splits, *(RowResult.read(path).splits if path.is_file() else ())}
    for split in job.data.splits:
        if split in wanted:
            result.splits[split] = score_split(job, run, result.checkpoint, split, progress)
    result.write(job.rows_folder)
    return result


def _without_scores(job: Job, row: Row, config: Config, run: Run, ended: Result) -> RowResult:
    """Return the result of a trained row before any split is scored."""
    return RowResult(
        row=row.name,
        task=job.task,
        seed=config.training.seed,
        recipe=row.recipe.format(task=job.task),
        setting=job.setting,
        config=plain(config),
        data=describe_data(job.data, job.task),
        versions=versions(),
        machine=machine(run, job.device),
        parameters=int(run.info["parameters"]),
        training={
            "updates": ended.update,
            "epochs": ended.epochs,
            "minutes": round(ended.seconds / 60, 2),
            "processor_minutes": processor_minutes(run),
            "reason": ended.reason,
            "valid_loss": min(float(event["valid_loss"]) for event in run.validations()),
        },
        checkpoint=job.checkpoint(row),
        curve=curve(run),
        splits={},
    )


def curve(run: Run) -> list[list[float]]:
    """Return update, train loss and valid loss of every validation, as results have them."""
    return [
        [event["update"], round(event["train_loss"], 4), round(event["valid_loss"], 4)]
        for event in run.validations()
        if event["train_loss"] is not None
    ]


def processor_minutes(run: Run) -> float | None:
    """Return the processor time that training took, in minutes; None if the run does not say."""
    ends = [event for event in run.events() if event.get("event") == "end"]
    seconds = ends[-1].get("processor_seconds") if ends else None
    return None if seconds is None else round(float(seconds) / 60, 2)


def write_average(run: Run, average: int, name: str) -> None:
    """Write the average of the checkpoints of the last `average` validations.

    Raises:
        CheckpointError: the run has fewer validations than `average`, or has not kept the
            checkpoint of one of them.
    """
    from jtrans.training.weights.averaging import average_checkpoints

    validated = sorted({int(event["update"]) for event in run.validations()})[-average:]
    chosen = [each for each in run.checkpoints() if each.update in validated]
    if len(chosen) < average:
        again = "delete the run: the same command trains it again, and keeps them"
        fewer = f"--average {max(len(validated), 1)}, or train longer"
        raise CheckpointError(
            f"the run has {how_many(len(chosen), 'checkpoint')} of its last validations, "
            f"not {average}",
            where=str(run.folder),
            hint=fewer if len(validated) < average else again,
            kind="checkpoint.missing",
        )
    average_checkpoints(run, chosen, name)


def score_split(job: Job, run: Run, checkpoint: str, split: str, progress: Progress) -> SplitScores:
    """Translate a split and score it."""
    from jtrans.analysis.study.load import open_members
    from jtrans.analysis.study.scores import score_runs
    from jtrans.decoding.options import DecodingChoices

    decoding = DecodingChoices(checkpoint, job.device)
    members = open_members([run], split, decoding, job.data.folder, progress)
    system = score_runs(members, METRICS, lowercase=lowercase_of(job.task)).systems[0]
    bleu = system.scores["bleu"]
    text = "".join(f"{line}\n" for line in members[0].hypotheses)
    rate = members[0].translation.tokens_per_second
    return SplitScores(
        sentences=len(members[0].hypotheses),
        scores={metric: round(system.value(metric), 4) for metric in METRICS},
        signature=bleu.signature,
        drawn=[round(float(value), 3) for value in bleu.drawn],
        hypotheses=hashlib.sha256(text.encode()).hexdigest(),
        tokens_per_second=None if rate is None else round(rate, 1),
        length_ratio=None if bleu.length_ratio is None else round(bleu.length_ratio, 4),
    )


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    import sacrebleu
    import torch

    return {
        "jtrans": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "sacrebleu": sacrebleu.__version__,
    }


def _device_of(start: Mapping[str, Any]) -> str:
    name = str(start["device"])
    return f"cpu, {start['threads']} threads" if name == "cpu" else name


def machine(run: Run, device: str | None) -> dict[str, str]:
    """Return the processor of the last session, and devices and precisions of all sessions."""
    import os

    import torch

    from jtrans.nn.device import device_name, resolve_device
    from scripts.bench.interleave import processor

    here = {"device": device_name(resolve_device(device)), "threads": torch.get_num_threads()}
    starts = [event for event in run.events() if event.get("event") == "start"]
    used = [_device_of({**here, **start}) for start in starts or [here]]  # scoring has no start
    return {
        "processor": f"{processor()}, {os.cpu_count()} cores",
        "device": THEN.join(dict.fromkeys(used)),
        "precision": ", ".join(dict.fromkeys(str(start["precision"]) for start in starts)),
        "sessions": str(len(starts)),
    }
