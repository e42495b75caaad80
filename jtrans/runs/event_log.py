"""The log of a run: one JSON object per training event."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jtrans.errors import WorkError
from jtrans.files import disk_errors, write_text


class EventLog:
    """The events of one run, in log.jsonl in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def log(self, event: Mapping[str, Any]) -> None:
        """Append one event to log.jsonl.

        Raises:
            WorkError: the folder has vanished, or the disk is full.
        """
        path = self.folder / "log.jsonl"
        line = json.dumps(event, ensure_ascii=False).encode() + b"\n"
        if not self.folder.is_dir():
            raise vanished(self.folder)
        with disk_errors(path), path.open("ab+") as handle:
            if handle.tell():
                handle.seek(-1, os.SEEK_END)
                if handle.read(1) != b"\n":
                    line = b"\n" + line  # a crash truncated the last line: end it
            handle.write(line)
            if event.get("event") == "validation":
                # synced before its checkpoint: a power cut must not leave that without the scores
                handle.flush()
                os.fsync(handle)

    def events(self) -> list[dict[str, Any]]:
        """Return the logged events, skipping a line truncated by a crash."""
        return [event for event in self._events_by_line() if event is not None]

    def last_start_or_end(self) -> dict[str, Any] | None:
        """Return the newest event of a start or an end of training, None if there is none."""
        return next(filter(is_start_or_end, reversed(self.events())), None)

    def has_finished(self) -> bool | None:
        """Return whether training ended by itself, neither stopped nor failed; None if never begun.

        A run that is being trained, or whose process was killed, has not.
        """
        last = self.last_start_or_end()
        return None if last is None else last.get("reason") not in (None, "stopped", "failed")

    def lasting_events(self) -> list[dict[str, Any]]:
        """Return the logged events without the curves of updates that training went back from."""
        kept: list[dict[str, Any]] = []
        for event in self.events():
            if event.get("event") == "return":
                back = number(event, "update")
                kept = [
                    each
                    for each in kept
                    if each.get("event") not in ("train", "validation")
                    or number(each, "update") <= back
                ]
            kept.append(event)
        return kept

    def validations(self) -> list[dict[str, Any]]:
        """Return the logged validations of updates that training did not go back from."""
        return [event for event in self.lasting_events() if event.get("event") == "validation"]

    def damaged_lines(self) -> int:
        """Return how many lines of the log cannot be read; a crash may leave one."""
        return sum(event is None for event in self._events_by_line())

    def _events_by_line(self) -> list[dict[str, Any] | None]:
        """Return the event of every line, None where it cannot be read."""
        path = self.folder / "log.jsonl"
        events: list[dict[str, Any] | None] = []
        lines = path.read_bytes().split(b"\n") if path.exists() else []
        for line in filter(None, lines):
            event = None
            with contextlib.suppress(ValueError, RecursionError):
                event = json.loads(line)
            events.append(event if isinstance(event, dict) else None)
        return events

    def cut_log(self, count: int) -> int:
        """Keep the first `count` events, and return how many are left.

        Later starts and ends stay, too; all other events after the newest checkpoint will be
        repeated.
        """
        events = self.events()
        events[count:] = filter(is_start_or_end, events[count:])
        lines = [json.dumps(event, ensure_ascii=False) + "\n" for event in events]
        write_text(self.folder / "log.jsonl", "".join(lines))
        return len(events)


def is_start_or_end(event: Mapping[str, Any]) -> bool:
    """Return whether a logged event is a start or an end of training."""
    return event.get("event") in ("start", "end")


def vanished(folder: Path) -> WorkError:
    """Return the error for a run's folder that is gone."""
    return WorkError(
        f"the folder of the run has vanished: {folder}",
        hint="if its disk is no longer mounted, mount it and run the same command again; if it was "
        "deleted or moved, the same command starts over",
        kind="run.vanished",
    )


def number(event: Mapping[str, Any], name: str) -> Any:
    """Return a number of a logged event; 0 if there is none, or it is not finite."""
    value = event.get(name)
    # of a damaged log, maybe with more digits than a float can have
    return value if isinstance(value, int | float) and abs(value) <= sys.float_info.max else 0
