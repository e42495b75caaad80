"""The live table of training: one row per validation, and a bar below it."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import signal
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import typer

from jtrans.cli import console
from jtrans.cli.stop_signals import StopSignals
from jtrans.errors import how_many
from jtrans.training.events import (
    MOST_RETURNS,
    Advance,
    Result,
    Return,
    SampleTranslation,
    Skip,
    Start,
    TrainingEvents,
    Validation,
)

if TYPE_CHECKING:
    from rich.progress import Progress

    from jtrans.config import Config

HEADER = " epoch  update   train   valid     ppl    BLEU    tok/s    time"
REFRESH_SECONDS = 0.5  # drawing costs time that training could use
PLAIN_SECONDS = 60.0  # between two lines without a terminal


class TrainTable(TrainingEvents):
    """Shows training events on stderr."""

    def __init__(self) -> None:
        self._is_plain = console.is_plain(sys.stderr)
        self._is_quiet = console.settings.quiet
        self._bar: Progress | None = None
        self._drawn_at = time.monotonic()

    def measuring(self) -> None:
        """Say why training has not begun yet."""
        console.talk("measuring micro-batches, once for this model and machine: a few seconds")

    def compiling(self) -> None:
        """Say why the first update takes so long."""
        self._line("compiling layers for this device: a minute or two, before the first update", "")

    def start(self, start: Start) -> None:
        """Show the run, the model and the device."""
        state = f"continues at update {start.update:,}" if start.update else "new"
        size = f"{_size(start.parameters)} parameters"
        if start.frozen:
            size += f" and {_size(start.frozen)} frozen"
        console.talk(
            f"run      {start.run}  ({state})      model  {start.system}, {size}"
            f"      device  {start.device}      micro-batch  {start.micro_batch}"
        )
        for copied in start.copied:
            console.talk(f"initial  {copied}")
        for change in start.changes:
            console.talk(f"changed  {change}")
        for warning in start.warnings:
            console.warn(warning)
        self._is_headed = False

    def update(self, advance: Advance) -> None:
        """Update the bar; without a terminal, write one line per minute."""
        now = time.monotonic()
        wait = PLAIN_SECONDS if self._is_plain else REFRESH_SECONDS
        if self._is_quiet or now - self._drawn_at < wait:
            return
        self._drawn_at = now
        count = f"{advance.update:,}" + (f"/{advance.total:,}" if advance.total else "")
        left = "" if advance.seconds_left is None else f"   left {duration(advance.seconds_left)}"
        text = f"{count}   {advance.tokens_per_second:,.0f} tok/s{left}"
        if self._is_plain:
            console.talk(f"update {text}")
            return
        self._draw(text, advance.update / advance.total if advance.total else None)

    def split(self, sentences: int, size: int) -> None:
        """Warn that a micro-batch was too large, and how to limit the size."""
        self._line(
            f"Out of memory with a micro-batch of {how_many(sentences, 'pair')} (size {size:,}): "
            "split in half, same gradient. To limit the size: training.micro_batch_joint or "
            "training.micro_batch_tokens",
            "yellow",
        )

    def skip(self, skip: Skip) -> None:
        """Report a skipped update, and why it was skipped."""
        left_out = "; left out from now on" if skip.left_out else ""
        self._line(
            f"Update {skip.update:,} skipped, {skip.fault}: {skip.describe()}{left_out}", "yellow"
        )

    def go_back(self, event: Return) -> None:
        """Report that training diverged and continues from an earlier state."""
        self._line(
            f"{event.fault}. Back to update {event.update:,}; learning rate "
            f"{event.learning_rate:g} (rollback {event.returns} of at most {MOST_RETURNS})",
            "red",
        )

    def validating(self, done: int, total: int | None) -> None:
        """Show how many validation sentences have been translated."""
        now = time.monotonic()
        if self._is_quiet or self._is_plain or now - self._drawn_at < REFRESH_SECONDS:
            return
        self._drawn_at = now
        self._draw(f"validating {done:,}" + (f"/{total:,}" if total else ""), None)

    def validation(self, validation: Validation) -> None:
        """Add a row to the table."""
        if not self._is_headed:
            self._is_headed = True
            self._line(HEADER, "bold")
        bleu = "-" if validation.bleu is None else f"{validation.bleu:.1f}"
        loss = validation.train_loss
        train_loss = "-" if loss is None else _fitting(loss, 2)
        perplexity = _fitting(validation.perplexity, 1)
        mark = "*" if validation.is_best else " "
        window = validation.window
        best_window = "*" if validation.is_best_window else ""
        notes = f"   window {window:.2f} {best_window}" if window is not None else ""
        notes += f"   chrF {validation.chrf:.1f}" if validation.chrf is not None else ""
        notes += "".join(f"   {kind} {share:.1%}" for kind, share in validation.accuracy.items())
        notes += f"   dropped {validation.dropped:,}" if validation.dropped else ""
        notes += f"   skipped {validation.skipped:,}" if validation.skipped else ""
        self._line(
            f"{validation.epoch:>6}{validation.update:>8,}{train_loss:>8}"
            f"{_fitting(validation.valid_loss, 2):>8}{perplexity:>8}{bleu:>8} {mark}"
            f"{validation.tokens_per_second:>7,.0f}{duration(validation.seconds):>8}"
            + notes.rstrip(),
            "green" if validation.is_best else "",
        )
        self._samples(validation.samples)

    def _samples(self, samples: Sequence[SampleTranslation]) -> None:
        """Show all samples with --verbose, otherwise the first one on a terminal, in one line."""
        if logging.getLogger("jtrans").isEnabledFor(logging.INFO):
            for sample in samples:
                for name, text in dataclasses.asdict(sample).items():
                    self._line(f"{name:>14}  {text}", "dim")
        elif samples and not self._is_plain:
            first = samples[0]
            text = f"{'':8}{first.hypothesis}  (reference: {first.reference})"
            self._line(text, "dim", is_cropped=True)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _line(self, text: str, style: str, *, is_cropped: bool = False) -> None:
        if self._is_quiet:
            return
        if self._is_plain:
            console.talk(text)
            return
        shown = console.rich_console(is_stderr=True) if self._bar is None else self._bar.console
        # no markup: sentences may have brackets
        overflow: Literal["ellipsis", "fold"] = "ellipsis" if is_cropped else "fold"
        shown.print(
            console.visible(text), style=style, markup=False, overflow=overflow, no_wrap=is_cropped
        )

    def _draw(self, text: str, share: float | None) -> None:
        if self._bar is None:
            self._bar = _make_bar()
            self._bar.add_task(text)
            self._bar.start()
        task = self._bar.tasks[0].id
        total = None if share is None else 1.0
        self._bar.update(task, description=text, completed=share or 0.0, total=total)
        self._bar.refresh()


def train_with_table(recipe: str | Config, **chosen: Any) -> tuple[Result, int | None]:
    """Train as `jtrans.api.train` does, with the table.

    Returns:
        How training ended, and the exit code if a signal was received, even if training had just
        ended: then the command should not go on.
    """
    from jtrans.training.distributed.place import launcher_process, place_of_process, say_started

    place = place_of_process()
    is_first = place is None or place.rank == 0
    talks = is_first and launcher_process() is None  # jtrans's launcher prints it itself
    signals = StopSignals(talks=talks, is_rank=place is not None)
    with signals, contextlib.closing(TrainTable()) as table:
        say_started()
        from jtrans.api import train

        events = table if is_first else None
        from jtrans.training.distributed.ranks import NotMetError

        try:
            result = train(recipe, events=events, should_stop=signals.are_set, **chosen)
        except NotMetError as error:
            console.talk(error.message)
            raise typer.Exit(signals.exit_code or 128 + signal.SIGTERM) from error
    if result.reason == "stopped":  # another machine's process may have received the signal
        return result, signals.exit_code or 128 + signal.SIGTERM
    return result, signals.exit_code


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} M" if count >= 100_000 else f"{count:,}"


def _fitting(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if value < 1e4 else f"{value:.0e}"


def duration(seconds: float) -> str:
    """Return minutes and seconds, preceded by hours if there are any: 1:22, 2:03:45."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _make_bar() -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        BarColumn(bar_width=24),
        TextColumn("{task.description}"),
        console=console.rich_console(is_stderr=True),
        transient=True,
        auto_refresh=False,  # a drawing thread would compete with training
    )
