"""Segmentation of many lines in worker processes, order kept."""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from jtrans.errors import WorkError
from jtrans.progress import Progress
from jtrans.text.pipeline import TextSide

# Lines a worker gets at a time: some tenths of a second of work, so that none idles at the end.
CHUNK = 1000

# which text, its side, some of its lines
Chunk = tuple[int, TextSide, Sequence[str]]


def available_cpus() -> int:
    """Count the processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def segment_texts(
    texts: Sequence[tuple[TextSide, Sequence[str]]], *, workers: int, progress: Progress
) -> list[list[str]]:
    """Segment several texts, each with its own side of the pipeline.

    Args:
        texts: (side, raw lines) of each text.
        workers: processes to use; 1 works in this one.
        progress: hears how many lines are done.

    Returns:
        The lines of each text with single spaces between their words.

    Raises:
        WorkError: a worker process died.
    """
    chunks = [
        (index, side, lines[start : start + CHUNK])
        for index, (side, lines) in enumerate(texts)
        for start in range(0, len(lines), CHUNK)
    ]
    total = sum(len(lines) for _, lines in texts)
    segmented: list[list[str]] = [[] for _ in texts]
    done = 0
    for index, lines in _results(chunks, min(workers, len(chunks))):
        segmented[index].extend(lines)
        done += len(lines)
        progress.advance("Segmenting", done, total)
    return segmented


def _results(chunks: Sequence[Chunk], workers: int) -> Iterator[tuple[int, list[str]]]:
    if workers <= 1:
        yield from map(_segment, chunks)
        return
    # Forked workers start at once and need no importable main module; elsewhere forking is not
    # safe or not there, and the platform's own default is right.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_ignore_interrupts)
    try:
        yield from pool.map(_segment, chunks)
    except BrokenProcessPool as error:
        raise WorkError(
            "a worker process died while segmenting (out of memory?)",
            hint="run again with --workers 1",
            kind="work.worker",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _ignore_interrupts() -> None:
    # Ctrl-C reaches the whole process group: the parent alone stops, and ends the workers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _segment(chunk: Chunk) -> tuple[int, list[str]]:
    index, side, lines = chunk
    side = _made_side(side.language, side.segmenter, side.lowercase)
    return index, [" ".join(side.segment(line)) for line in lines]


@functools.cache
def _made_side(language: str, segmenter: str, lowercase: bool) -> TextSide:
    """Return one side for all chunks of this process: its segmenter takes time to build."""
    return TextSide(language, segmenter, lowercase)
