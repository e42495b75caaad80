"""The training loop.

    update      some passes forward and backward, then clipping and the optimiser's step
    validation  loss, perplexity, BLEU; then a checkpoint; `best` and `last` point to one
    resume      load the newest checkpoint and go on: nothing tells the difference afterwards

Everything that decides what happens next is in `TrainingState` and saved with each checkpoint.
What makes a GPU wait (reading the loss of an update) is put off until it is logged.
"""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from jtrans.data.bpe_dropout import Redrawer
from jtrans.errors import ConfigError
from jtrans.progress import Silent
from jtrans.training.checkpoint import (
    TrainingState,
    load_checkpoint,
    point_to_checkpoints,
    remove_surplus,
    save_checkpoint,
)
from jtrans.training.events import Result, TrainingView
from jtrans.training.memory import memory_errors
from jtrans.training.metrics import Meter
from jtrans.training.micro_batches import Passes
from jtrans.training.objective import Objective
from jtrans.training.schedule import make_schedule
from jtrans.training.stopping import METRICS, Limits, is_better
from jtrans.training.updates import Pass, UpdatePlan
from jtrans.training.validation import Validator

if TYPE_CHECKING:
    from jtrans.config import Config, TrainingConfig
    from jtrans.data.prepared import PreparedCorpus
    from jtrans.models.base import TranslationModel
    from jtrans.runs import Run

LOG_EVERY = 50  # updates between two train events of the log
SAVE_EVERY_SECONDS = 300.0  # at most this much work is lost by a crash


class Trainer:
    """Trains one model in one run.

    Args:
        run: where checkpoints and log go; written to by `train` only, whose caller holds its lock.
        model: freshly initialised, on its device.
        corpus: the prepared corpus.
        config: the run's configuration.
        precision: "fp32" or "bf16".
        view: hears what happens.
        should_stop: asked after each update and while validating; True saves and ends.

    Raises:
        ConfigError: settings that cannot work together.
    """

    def __init__(
        self,
        run: Run,
        model: TranslationModel,
        corpus: PreparedCorpus,
        config: Config,
        *,
        precision: str,
        view: TrainingView,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        training = config.training
        self.run = run
        self.model = model
        self.training = training
        self.precision = precision
        self.view = view
        self.should_stop = should_stop
        self.passes = Passes(
            model,
            Objective(training.label_smoothing, training.smoothing_form),
            precision=precision,
            on_split=self._split,
        )
        self.schedule = make_schedule(
            training.schedule,
            learning_rate=training.learning_rate,
            width=getattr(config.model, "width", 1),
        )
        self.limits = Limits(training, self.schedule)
        self.pairs = corpus.pairs("train")
        self.redrawer = make_redrawer(corpus, training)
        self.plan = UpdatePlan(self.pairs, training, is_joint=model.is_joint)
        self.validator = Validator(corpus, config, is_joint=model.is_joint, precision=precision)
        self.optimiser = make_optimiser(model, training)
        self.state = TrainingState()
        self.meter = Meter(run, self.state, is_joint=model.is_joint)
        self._epoch: list[list[Pass]] = []  # the updates of the current epoch
        self._saved_at = time.monotonic()

    # The loop

    def resume(self) -> None:
        """Go on from the run's newest checkpoint, if there is one.

        Raises:
            CheckpointError: it is damaged.
        """
        checkpoints = self.run.checkpoints()
        if checkpoints:
            self.state = load_checkpoint(checkpoints[-1], self.model, self.optimiser)
            self.meter = Meter(self.run, self.state, is_joint=self.model.is_joint)
            point_to_checkpoints(self.run, self.state)

    @property
    def is_finished(self) -> bool:
        """Say whether there is nothing left to do."""
        return self.state.is_validated and self.limits.reached(self.state) is not None

    def train(self) -> Result:
        """Train until a limit is reached or somebody asks to stop.

        Raises:
            WorkError: training diverged, or memory ran out.
        """
        first = self.state.update
        if self.is_finished:
            return self._result(str(self.limits.reached(self.state)), trained=False)
        self.run.cut_log(self.state.events)
        self.meter.log("start", time=_now(), precision=self.precision)
        self.meter.start_clock()
        self._saved_at = time.monotonic()
        try:
            with memory_errors():
                reason = self._loop()
        except _StopError:
            reason = "stopped"
            self.save()
        self.meter.log("end", time=_now(), reason=reason, seconds=self.state.seconds)
        result = self._result(reason, trained=self.state.update > first)
        self.view.end(result)
        return result

    def _loop(self) -> str:
        self.model.train()
        while True:
            if self._is_validation_due():
                self.validate()
            reason = self.limits.reached(self.state)
            if reason is not None:
                break
            self.update()
            self._stop_if_asked()
            if time.monotonic() - self._saved_at > SAVE_EVERY_SECONDS:
                self.save()
        if not self.state.is_validated:
            self.validate()
        return reason

    # One update

    def update(self) -> None:
        """Do the next update of the current epoch."""
        state = self.state
        if not self._epoch:
            self._begin_epoch()
        passes = self._epoch[state.position]
        tokens = self.plan.tokens(passes)
        losses = self.accumulate(passes, tokens)  # [2]
        norm = self.step(self.schedule.rate(state.update + 1))
        state.update += 1
        state.position += 1
        updates_per_epoch = len(self._epoch)
        if state.position == updates_per_epoch:
            state.epoch, state.position, self._epoch = state.epoch + 1, 0, []
        measured = torch.cat([losses, norm.view(1)])  # [3]
        self.meter.count(measured, tokens=tokens, positions=self.plan.positions(passes))
        if state.update % LOG_EVERY == 0:
            self.meter.log_updates(self.schedule.rate(state.update))
        elif self.model.device.type == "cpu":
            self.meter.read()  # costs nothing here, and finds a divergence at once
        self.view.update(self.meter.advance(self.limits, updates_per_epoch))

    def _begin_epoch(self) -> None:
        if self.redrawer is not None:
            self.pairs = self.redrawer.epoch(self.state.epoch)
            is_joint = self.model.is_joint
            self.plan = UpdatePlan(self.pairs, self.training, is_joint=is_joint)
        self._epoch = self.plan.epoch(self.state.epoch)

    def accumulate(self, passes: Sequence[Pass], tokens: int) -> Tensor:
        """Add the gradient of an update's loss per token to the parameters.

        Args:
            passes: the parts of the update.
            tokens: real target tokens of them all: what the summed loss is divided by.

        Returns:
            The summed loss with and without smoothing, [2].
        """
        return self.passes.accumulate(self.pairs, passes, tokens)

    def step(self, rate: float) -> Tensor:
        """Clip the gradient, change the parameters, forget the gradient; return its norm."""
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        norm = get_total_norm(gradients)
        limit = self.training.clip_norm
        # asking makes a GPU wait, scaling costs a CPU a pass over the gradient
        if limit and (norm.is_cuda or float(norm) > limit):
            clip_grads_with_norm_(self.model.parameters(), limit, norm)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return norm

    # Validation and checkpoints

    def validate(self) -> None:
        """Measure the model on the valid split, show it, and save a checkpoint."""
        self.meter.read()
        state = self.state
        measured = self.validator(self.model, _ValidationProgress(self))
        if not math.isfinite(measured["loss"]):
            raise self.meter.diverged(state.update, measured["loss"])
        is_best = self._judge(measured)
        state.validation, state.validated = measured, state.update
        row = self.meter.validation(measured, is_best=is_best)
        self.save()
        self.view.validation(row)

    def save(self) -> None:
        """Save a checkpoint of the state as it is, and remove those no longer needed."""
        self.meter.read()
        self.meter.elapse()
        save_checkpoint(self.run, self.model, self.optimiser, self.state)
        metric = self.training.best_metric
        remove_surplus(
            self.run,
            self.training.keep,
            metric=METRICS[metric],
            higher_is_better=metric == "valid-bleu",
        )
        self.meter.elapse()  # writing is no part of the next update's rate
        self._saved_at = time.monotonic()

    def _is_validation_due(self) -> bool:
        state, every = self.state, self.training.validate_every
        if state.update == 0 or state.is_validated:
            return False
        return state.position == 0 if every == "epoch" else state.update % every == 0

    def _judge(self, measured: dict[str, float]) -> bool:
        """Update what is best so far; say whether this validation is."""
        state, metric, stop = self.state, self.training.best_metric, self.training.stop
        value = measured[METRICS[metric]]
        is_best = is_better(metric, value, state.best["value"] if state.best else None)
        if is_best:
            state.best = {"metric": metric, "value": value, "update": state.update}
        if stop is not None:
            value = measured[METRICS[stop.metric]]
            if is_better(stop.metric, value, state.stop_best):
                state.stop_best, state.stale = value, 0
            else:
                state.stale += 1
        return is_best

    def _result(self, reason: str, *, trained: bool) -> Result:
        state = self.state
        return Result(
            run=self.run.folder,
            reason=reason,
            update=state.update,
            epochs=state.epoch,
            seconds=state.seconds,
            trained=trained,
            best=state.best,
            validation=state.validation,
            splits=state.splits,
        )

    def _split(self, sentences: int, size: int) -> None:
        self.state.splits += 1
        self.meter.log("split", sentences=sentences, size=size, splits=self.state.splits)
        self.view.split(sentences, size)

    def _stop_if_asked(self) -> None:
        if self.should_stop():
            raise _StopError


def make_redrawer(corpus: PreparedCorpus, training: TrainingConfig) -> Redrawer | None:
    """Return what cuts words anew in each epoch, if that is wanted.

    Raises:
        ConfigError: it is wanted, but the corpus has no BPE.
    """
    if not training.bpe_dropout:
        return None
    pipeline = corpus.pipeline
    if pipeline.source.codes is None and pipeline.target.codes is None:
        raise ConfigError(
            f"training.bpe_dropout {training.bpe_dropout:g} needs BPE, {corpus.folder} has none",
            hint="set training.bpe_dropout=0, or prepare the corpus with --bpe joint",
            kind="config.bpe-dropout",
        )
    pairs = corpus.pairs("train")
    return Redrawer(pairs, pipeline, rate=training.bpe_dropout, seed=training.seed)


def make_optimiser(model: TranslationModel, training: TrainingConfig) -> torch.optim.Optimizer:
    """Build Adam with decoupled weight decay (p <- p - rate decay p), in its fused form."""
    return torch.optim.AdamW(
        model.parameters(),
        lr=training.learning_rate,
        betas=training.optimiser.betas,
        eps=training.optimiser.eps,
        weight_decay=training.weight_decay,
        fused=True,  # 3 to 10 times as fast as the loop over parameters, on a CPU, too
    )


class _StopError(Exception):
    """Somebody asked to stop."""


class _ValidationProgress(Silent):
    """Hands the progress of a validation to the view, and stops when asked to."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    def advance(self, task: str, done: int, total: int | None = None, *, unit: str = "") -> None:
        if self._trainer.should_stop():
            raise _StopError
        self._trainer.view.validating(done, total)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
