"""Locks against other processes, including those of other hosts on a network file system."""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import os
import re
import shlex
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from jtrans.errors import JtransError
from jtrans.files import creation_errors, disk_errors

if TYPE_CHECKING:
    from filelock import BaseFileLock

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def exclusive(
    owner_file: Path,
    busy: Callable[[str], JtransError],
    *,
    patience_seconds: float = 0.0,
    settle_seconds: float = 0.0,
    watch_seconds: float = 0.0,
) -> Iterator[None]:
    """Keep other processes out while the block runs.

    The operating system holds the lock and frees it when this process ends, even when it is
    killed. The locked file is `owner_file` without its extension; `owner_file` itself names the
    holder. Both are deleted when the block ends.

    Args:
        owner_file: a file with an extension, such as ``lock.json``.
        busy: returns the error for a lock held by the given owner, such as "process 12 on a-host".
        patience_seconds: how long to wait for the lock.
        settle_seconds: how long to wait for the worker processes of the last holder, if it was
            killed.
        watch_seconds: network file systems do not always share locks. So if the lock is free but
            its last holder, on another host, did not release it, watch for this long whether the
            owner file is still renewed. A holder renews its file only if this is not 0.

    Raises:
        JtransError: another process holds the lock, or its file cannot be created.
    """
    lock = _acquire(owner_file, busy, patience_seconds)
    path, process = Path(lock.lock_file), os.getpid()
    inode, done, is_owner = _inode(path), threading.Event(), False
    try:
        host, owner = _read_owner(owner_file)
        if host and watch_seconds and host != socket.gethostname():
            _log.warning(
                "%s has not released %s: waiting %.0f s to see whether it is still running",
                *(owner, owner_file.parent, watch_seconds),
            )
            if _is_renewed(owner_file, watch_seconds):
                raise busy(owner)
        elif host:
            time.sleep(settle_seconds)
        is_owner = True
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        command = command if len(command) <= 200 else f"{command[:200]}..."
        since = datetime.datetime.now().astimezone().isoformat(" ", "seconds")
        record = {"host": socket.gethostname(), "pid": process, "command": command, "since": since}
        with disk_errors(owner_file):
            owner_file.write_text(json.dumps(record), encoding="utf-8")
        if watch_seconds:
            arguments = owner_file, watch_seconds / 4, done
            threading.Thread(target=_renew, args=arguments, daemon=True).start()
        yield
    finally:
        done.set()
        if os.getpid() == process:  # not in a forked child
            # if the folder has been replaced, the files in it belong to another lock
            if _inode(path) == inode:
                if is_owner:
                    owner_file.unlink(missing_ok=True)
                with contextlib.suppress(OSError):  # Windows cannot delete it while it is locked
                    path.unlink()
            lock.release()


def check_names_are_free(owner_file: Path) -> None:
    """Check that the files of a lock would not overwrite a user's files.

    Raises:
        JtransError: a file of the same name exists that is not left over from a lock.
    """
    # on file systems without locks, filelock writes the process id into the locked file
    for path, start in (
        (owner_file, rb'\{("host": .*)?|\0+'),
        (owner_file.with_suffix(""), rb"\d+"),
    ):
        try:
            with path.open("rb") as handle:
                content = handle.read(1000)
        except OSError:
            continue
        if content and not re.match(rb"\A(" + start + rb")\s*$", content, re.MULTILINE):
            raise JtransError(
                f"{path} is in the way: a lock file of this name is needed, and this is not one",
                hint="move it away, or choose another output",
                kind="disk.busy",
            )


def _acquire(
    owner_file: Path, busy: Callable[[str], JtransError], patience_seconds: float
) -> BaseFileLock:
    import filelock

    lock: BaseFileLock = filelock.FileLock(owner_file.with_suffix(""))
    with disk_errors(owner_file), creation_errors(owner_file.parent):
        owner_file.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=patience_seconds, poll_interval=0.1)
        except filelock.Timeout:
            _check_can_be_created(Path(lock.lock_file))
            raise busy(_read_owner(owner_file)[1]) from None
    return lock


def _check_can_be_created(path: Path) -> None:
    """Refuse a folder in which no lock can be created: to filelock, the lock would seem held."""
    if path.exists():
        return
    with creation_errors(path.parent):
        path.touch()


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _read_owner(path: Path) -> tuple[str, str]:
    """Return the host in an owner file ("" if missing or damaged), and the owner in words."""
    try:
        owner = json.loads(path.read_text(encoding="utf-8"))
        name = f"process {int(owner['pid'])} on {owner['host']}"
        if "since" in owner:  # owner files of earlier versions lack it
            name += f" since {owner['since']} ({owner['command']})"
        return str(owner["host"]), name
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "", "another process"


def _renew(owner_file: Path, seconds: float, done: threading.Event) -> None:
    while not done.wait(seconds):
        with contextlib.suppress(OSError):
            os.utime(owner_file)


def _is_renewed(owner_file: Path, seconds: float) -> bool:
    """Watch an owner file, and return whether its holder renews it."""
    end, times = time.monotonic() + seconds, set[int]()
    while time.monotonic() < end and len(times) < 2:
        # opening the file makes a network file system fetch its current state from the server
        with contextlib.suppress(OSError), owner_file.open("rb") as handle:
            times.add(os.fstat(handle.fileno()).st_mtime_ns)
        time.sleep(min(seconds / 4, 1.0))
    return len(times) > 1
