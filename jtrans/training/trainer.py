"""The training loop.

    update      forward and backward over its micro-batches, clipping, the optimiser's step
    validation  loss, perplexity, BLEU; then a checkpoint, which `last` and perhaps `best` point to
    resume      load the newest checkpoint and continue, bit for bit as if never interrupted

Everything that determines the next step is in `TrainingState` and saved with each checkpoint.
Reading a loss at once would stall the GPU, so it is read while the next update is computed.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from jtrans.config import Config
from jtrans.data.bpe_dropout import make_bpe_dropout
from jtrans.data.prepared import PreparedCorpus
from jtrans.models.base import TranslationModel
from jtrans.nn.device import device_name
from jtrans.nn.layer import has_compiled_layers
from jtrans.runs import Checkpoint, Run, first_undamaged
from jtrans.training.checkpoint import load_checkpoint, share_state
from jtrans.training.distributed.ranks import LostRankError, Ranks
from jtrans.training.divergence.good_state import InitialState, remove_spoilt
from jtrans.training.divergence.skips import READ_LATER, DivergedError
from jtrans.training.divergence.trouble import without
from jtrans.training.events import MOST_RETURNS, Result, TrainingEvents
from jtrans.training.gradient import UpdateGradient
from jtrans.training.memory import memory_errors
from jtrans.training.metrics import Metrics, log_failure, now
from jtrans.training.optimisation.guard import GradientGuard
from jtrans.training.optimisation.optimiser import make_optimiser
from jtrans.training.optimisation.schedule import Schedule
from jtrans.training.optimisation.step import Step
from jtrans.training.saving.writer import CheckpointWriter
from jtrans.training.state import TrainingState
from jtrans.training.stopping import Stopping, StopRequestError
from jtrans.training.updates import MicroBatch, UpdatePlan
from jtrans.training.validation import Reporting, Validator
from jtrans.training.weights.moving_average import MovingAverage
from jtrans.training.weights.shards import local

if TYPE_CHECKING:  # importing torch's FSDP takes seconds
    from jtrans.training.distributed.sharding import Sharding

LOG_EVERY = 50  # updates between two train events in the log
SAVE_EVERY_SECONDS = 300.0  # at most this much work is lost by a crash


class Trainer:
    """Trains one model in one run.

    Args:
        run: receives checkpoints and log; only `train` writes, and its caller holds the run's lock.
        model: freshly initialised, on its device.
        corpus: the prepared corpus.
        config: the run's configuration.
        precision: "fp32" or "bf16".
        events: receives the training events.
        should_stop: called after each update and during validation; if True, training saves and
            ends.
        ranks: the processes that train together.
        sharding: how the model's weights are sharded over the ranks; None if they are not.

    Raises:
        ConfigError: settings that do not work together.
    """

    def __init__(
        self,
        run: Run,
        model: TranslationModel,
        corpus: PreparedCorpus,
        config: Config,
        precision: str,
        events: TrainingEvents,
        should_stop: Callable[[], bool],
        ranks: Ranks,
        sharding: Sharding | None,
    ) -> None:
        training = config.training
        self.run = run
        self.ranks = ranks
        self.model = model
        self.parameters = list(model.parameters())
        self.training = training
        self.precision = precision
        self.events = events
        self.should_stop = self.ranks.hearing(should_stop)
        self.schedule = Schedule.from_config(training, config.model.width)
        self.stopping = Stopping(training, self.schedule)
        self.pairs = corpus.pairs("train")
        self.bpe_dropout = make_bpe_dropout(
            corpus,
            training.bpe_dropout,
            training.seed,
            longest=model.longest,
            at_work=lambda: ranks.doing("splitting words for BPE-dropout"),
        )
        self.plan = UpdatePlan(self.pairs, training, is_joint=model.is_joint)
        self.sharding = sharding
        self.gradient = UpdateGradient(
            model,
            self.plan,
            training,
            precision=precision,
            on_split=self._split,
            ranks=self.ranks,
            sharding=sharding,
        )
        self.skips, self.noise = self.gradient.skips, self.gradient.noise
        self.validator = Validator(
            corpus,
            config,
            is_joint=model.is_joint,
            precision=precision,
            ranks=self.ranks,
            make_room=self.gradient.accumulator.make_room,
        )
        self.optimiser = make_optimiser(model, training)
        self.guard = GradientGuard(model.device) if training.gradient_guard else None
        embeddings = [each.weight for each in model.modules() if isinstance(each, nn.Embedding)]
        self.step = Step(self.parameters, self.optimiser, training, self.guard, embeddings)
        decay = training.ema_decay
        self.average = MovingAverage(model, decay) if decay else None
        self.writer = CheckpointWriter(run, training, is_alone=self.ranks.count == 1)
        self._set_state(TrainingState())
        self._initial: InitialState | None = None  # until the first checkpoint
        self._read_later = 0 if model.device.type == "cpu" else READ_LATER
        self._is_uncompiled = has_compiled_layers(model)  # until the first pass
        self._saved_seconds = 0.0
        self._splits = 0  # since the ranks last exchanged them

    # The loop

    def resume(self) -> None:
        """Continue from the run's newest undamaged checkpoint, if it has any.

        Raises:
            CheckpointError: all are damaged.
        """
        checkpoints = self.run.checkpoints()[::-1] if self.ranks.is_first else []
        if checkpoints:
            self._set_state(first_undamaged(checkpoints, self._load))
            updates = [each.update for each in checkpoints if each.update]
            self.writer.damaged = {each for each in updates if each > self.state.update}
            self.writer.name_those_left(self.state)
        if self.ranks.count > 1:
            parts = self.model, self.optimiser, self.average
            last = self.run.checkpoint("last") if checkpoints else None
            self._set_state(share_state(self.ranks, self.state, *parts, last))

    def _load(self, checkpoint: Checkpoint) -> TrainingState:
        return load_checkpoint(checkpoint, self.model, self.optimiser, self.average)

    def _set_state(self, state: TrainingState) -> None:
        self.state = state
        self.updates: list[list[MicroBatch]] = []  # the updates of the current epoch
        self.stopping.resume(state)
        state.trouble.use(self.training.learning_rate)
        self.metrics = Metrics(self.run, state, is_joint=self.model.is_joint, ranks=self.ranks)
        self.gradient.accumulator.limits = state.limits
        self.noise.restore(state.noise)
        if self.guard is not None:
            self.guard.averages = state.guard

    @property
    def is_finished(self) -> bool:
        """Return whether there is nothing left to do."""
        return self.state.is_validated and self.stopping.reached(self.state) is not None

    def train(self) -> Result:
        """Train until a limit is reached or `should_stop` returns True.

        Raises:
            WorkError: training diverged, or memory ran out.
        """
        first = self.state.update
        if self.is_finished:
            reason = str(self.stopping.reached(self.state))
            last = self.run.last_start_or_end()
            if last and last["event"] == "start":  # killed after the last checkpoint
                self._log_end(reason)
            return self.state.result(self.run.folder, reason, first)
        if self.ranks.is_first:
            self.state.events = self.run.cut_log(self.state.events)
        self.metrics.log(
            "start",
            time=now(),
            precision=self.precision,
            device=device_name(self.model.device),
            threads=torch.get_num_threads(),
        )
        self._exchange()
        self.metrics.start_clock()
        self._saved_seconds = self.state.seconds
        if self.state.update == 0:
            self._initial = InitialState(self.model, self.optimiser)
        failures, batches = log_failure(lambda: self.metrics), self.gradient.accumulator.batches
        with failures, self.writer.finishing(), contextlib.closing(batches):
            reason = self._train()
        self._log_end(reason)
        result = self.state.result(self.run.folder, reason, first)
        self.events.end(result)
        return result

    def _log_end(self, reason: str) -> None:
        spent = {"seconds": self.state.seconds, "processor_seconds": self.state.processor_seconds}
        self.metrics.log("end", time=now(), reason=reason, **spent)

    def _train(self) -> str:
        try:
            with memory_errors(is_sharded=self.sharding is not None), self.ranks.noticing_losses():
                return self._loop()
        except StopRequestError:
            self.save()
            return "stopped"
        except LostRankError:
            if self.sharding is None:  # otherwise the shards of the lost rank are missing
                self.save()  # ranks communicate before a step, so the last update is complete
            raise

    def _loop(self) -> str:
        while True:
            try:
                return self._until_limit()
            except DivergedError as error:
                self._go_back(error)

    def _until_limit(self) -> str:
        self.model.train()
        while True:
            if self.stopping.is_validation_due(self.state):
                self.validate()
            reason = self.stopping.reached(self.state)
            if reason is not None:
                break
            self.update()
            if self.ranks.is_stopping(self.should_stop):
                raise StopRequestError
            if self.state.seconds - self._saved_seconds > SAVE_EVERY_SECONDS:
                self.save()
        if not self.state.is_validated:
            self.validate()
        return reason

    def _go_back(self, error: DivergedError) -> None:
        """Continue from the last good state with half the rate.

        Raises:
            DivergedError: this was done `MOST_RETURNS` times, no lower rate would help, or that
                state is not finite.
        """
        lost, board = self.state, self.metrics.board
        if lost.trouble.returns >= MOST_RETURNS or error.is_final:
            raise error
        self.metrics.elapse()
        self.writer.wait()
        if self.ranks.is_first:
            remove_spoilt(self.run, keeps_one=self._initial is None)
        if self._initial is not None:
            self._initial.restore(self.model, self.optimiser, self.average)
            self._set_state(TrainingState())
        self.resume()
        event = self.state.go_back(lost, self.training.learning_rate, error.message)
        self.metrics.board = board
        self.metrics.start_clock()
        self.metrics.log("return", **vars(event))
        self.save()  # a run resumed from here must not go back again
        self.events.go_back(event)

    # One update

    def update(self) -> None:
        """Do the next update of the current epoch."""
        state = self.state
        if not self.updates:
            self.updates = self.plan_epoch()
        micro_batches = self.updates[state.position]
        tokens = self.plan.tokens(micro_batches)
        self.announce_compiling()
        losses = self.accumulate(micro_batches)  # [2 + kinds of labels]
        self._exchange()
        labelled = self.gradient.labelled(micro_batches)
        rate = self.schedule.rate(state.update + 1, state.plateau.drops) * state.trouble.factor
        norm, dropped = self.step(rate, losses)
        self.gradient.end(norm, dropped)
        state.update += 1
        if self.average is not None:
            self.average.update(state.update, dropped)
        state.position += 1
        updates_per_epoch = len(self.updates)
        if state.position == updates_per_epoch:
            state.epoch, state.position, self.updates = state.epoch + 1, 0, []
        positions = self.plan.positions(micro_batches)
        measured = torch.cat([losses, torch.stack([norm, dropped.to(norm.dtype)])])
        self.metrics.count(measured, tokens=tokens, positions=positions, labelled=labelled)
        is_logged = state.update % LOG_EVERY == 0
        self._read(0 if is_logged else self._read_later)
        if is_logged:
            self.metrics.log_updates(rate, self.noise.estimate())
        self.events.update(self.metrics.advance(self.stopping, updates_per_epoch))

    def announce_compiling(self) -> None:
        """Report before the first pass that layers are compiled, which may take a minute."""
        if self._is_uncompiled:
            self._is_uncompiled = False
            self.events.compiling()

    def plan_epoch(self) -> list[list[MicroBatch]]:
        """Return the updates of the current epoch, after drawing its pieces for BPE-dropout."""
        if self.bpe_dropout is not None:
            self.pairs = self.bpe_dropout.epoch(self.state.epoch)
            is_joint = self.model.is_joint
            largest = self.plan.largest
            self.plan = UpdatePlan(self.pairs, self.training, is_joint=is_joint, largest=largest)
            self.gradient.plan = self.plan
        updates = self.plan.epoch(self.state.epoch)
        return without(updates, self.state.trouble.left_out)

    def _read(self, later: int = 0) -> None:
        """Read the losses of all updates but the last `later` ones, and explain those skipped.

        Raises:
            DivergedError: too many were skipped.
        """
        for update, fault in self.metrics.read(later):
            skip = self.skips.explain(update, fault, self.state.trouble)
            self.metrics.log("skip", **vars(skip))
            self.events.skip(skip)
            if self.state.trouble.is_repeated:
                raise self._diverged(fault)

    def _diverged(self, fault: str, *, is_final: bool = False) -> DivergedError:
        state, folder = self.state, self.run.folder
        return self.skips.diverged(fault, folder, state.update, state.trouble, is_final=is_final)

    def accumulate(self, micro_batches: Sequence[MicroBatch]) -> Tensor:
        """Accumulate the gradient of an update's loss, see `UpdateGradient.accumulate`."""
        state = self.state
        following = [part for update in self.updates[state.position + 1 :][:1] for part in update]
        return self.gradient.accumulate(state.update, micro_batches, following)

    def _exchange(self) -> None:
        """Agree with the other ranks on the time and on stopping."""
        self.state.splits += self.ranks.exchange(self.should_stop, self._splits)
        self._splits = 0

    # Validation and checkpoints

    def validate(self) -> None:
        """Validate the model, report the result, and save a checkpoint.

        Raises:
            DivergedError: the validation loss or a weight is not finite, or too many updates were
                skipped.
        """
        self._read()
        self._check_weights()
        self.metrics.elapse()
        state, begin = self.state, self.state.seconds
        with self._averaged(), self._whole():
            measured = self.ranks.from_first(
                self.validator(self.model, Reporting(self._validating))
            )
        self._exchange()
        if not math.isfinite(measured["loss"]):
            fault = f"the validation loss is {measured['loss']}"
            with self._averaged():
                text, is_final = self.skips.explain_validation(self.validator, state.update)
            raise self._diverged(f"{fault}{text}", is_final=is_final)
        is_best = self.stopping.judge(state, measured)
        state.validation, state.validated = measured, state.update
        row = self.metrics.validation(measured, is_best=is_best, samples=self.validator.samples)
        took = state.seconds - begin
        if self.stopping.reached(state) == "max_minutes":  # a faster validation must not undo that
            took = max(took, state.validation_seconds)
        state.validated_seconds, state.validation_seconds = state.seconds, took
        self.save()
        self.events.validation(row)

    def _validating(self, done: int, total: int | None) -> None:
        if self.should_stop():
            raise StopRequestError
        self.ranks.doing("validating")
        self.events.validating(done, total)

    def save(self) -> None:
        """Save a checkpoint of the current state; a thread does most of the work.

        Raises:
            DivergedError: a weight is not finite, or too many updates were skipped.
            JtransError: a checkpoint cannot be written.
        """
        self._read()
        self._check_weights()
        self.metrics.elapse()
        self.noise.read()
        if self.guard is not None:
            self.state.guard = self.guard.averages
        if self.ranks.is_first or self.ranks.is_sharding:
            self._write()
        self._initial = None
        self._exchange()
        self.metrics.elapse()  # writing does not count towards the rate of the next update
        self._saved_seconds = self.state.seconds

    def _write(self) -> None:
        self.ranks.doing("saving a checkpoint")
        with self._averaged() as trained:
            parts = self.model, self.optimiser, self.state, trained
            self.writer.save(*parts, is_first=self.ranks.is_first)

    def _averaged(self) -> contextlib.AbstractContextManager[dict[str, Tensor]]:
        """Put the averaged weights into the model within the block, and yield the trained ones."""
        return contextlib.nullcontext({}) if self.average is None else self.average.in_place()

    def _whole(self) -> contextlib.AbstractContextManager[None]:
        """Gather all weights on every rank within the block: each translates other sentences."""
        return contextlib.nullcontext() if self.sharding is None else self.sharding.whole()

    def _check_weights(self) -> None:
        # the last loss does not show this: it was computed before the weights changed
        stacked = torch.stack([local(weight).isfinite().all() for weight in self.parameters])
        finite: list[bool] = stacked.tolist()
        if self.sharding is not None:  # every rank has a shard of each weight, and all must agree
            finite = [all(parts) for parts in zip(*self.ranks.gather(finite), strict=True)]
        if not all(finite):
            names = [name for name, _ in self.model.named_parameters()]
            raise self._diverged(f"{names[finite.index(False)]} is not finite")

    def _split(self, sentences: int, size: int) -> None:
        self.state.splits += 1
        self._splits += 1
        self.metrics.log("split", sentences=sentences, size=size, splits=self.state.splits)
        self.events.split(sentences, size)
