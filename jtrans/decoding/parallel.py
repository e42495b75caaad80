"""Translation of a long text piece by piece, in this process or in several.

Threads of one process share its Python, so that on many cores several processes are faster.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from jtrans.decoding.engines.open import open_translator
from jtrans.decoding.lines.translation import Translation
from jtrans.decoding.options import Constraints, DecodingChoices
from jtrans.decoding.translator import Translator
from jtrans.errors import ConfigError, DecodingError
from jtrans.exports import Translatable
from jtrans.nn.cpu.threads import usable_threads
from jtrans.nn.device import resolve_device
from jtrans.processors import available_cpus
from jtrans.progress import Progress, Silent
from jtrans.workers import run_jobs, worker_number

# Most lines of a piece. On a CPU an interruption loses the work on unfinished pieces: with 256
# lines for each thread 18 s at 14 sentences/s, and a minute at 4. A Transformer translated 1,500
# lines in 8.7 s of one core's time in pieces of 1,024 lines, in 9.0 s in pieces of 256 and in 9.4 s
# in pieces of 128 (start included).
PIECE_LINES = 1024
THREAD_LINES = 256
LEAST_LINES = 32


@dataclass(frozen=True)
class Piece:
    """Consecutive lines of a text."""

    sources: Sequence[str]  # raw lines
    constraints: Sequence[Constraints] | None  # one per line; None: unconstrained
    first_line: int  # the number of the first line, counted from 1, for messages


@dataclass(frozen=True)
class TranslatedPiece:
    """The translations of a piece, as far as it could be translated."""

    # n best of every line, or of those before one that cannot be translated
    translations: list[list[Translation]]
    warnings: list[str]  # about its lines
    seconds: float  # the time taken
    fault: DecodingError | None = None  # the error of the line that cannot be translated


def piece_lines(
    decoding: DecodingChoices, total: int | None, *, workers: int, gpus: Sequence[str]
) -> int:
    """Return how many lines of a file make a piece: sorted by length, and written together.

    The number follows from threads and not from a measured speed: in other pieces, lines are in
    other batches, which round differently, and the same command must always write the same.

    Args:
        decoding: the user's choices.
        total: lines of the whole file, None if unknown; all processes should get pieces.
        workers: see `translate_pieces`.
        gpus: see `translate_pieces`.
    """
    most, processes = PIECE_LINES, max(workers, len(gpus))
    if not gpus and resolve_device(decoding.device).type == "cpu":
        most = min(most, THREAD_LINES * _threads(workers))
    if processes == 1 or total is None:
        return most
    return min(most, max(LEAST_LINES, total // (4 * processes)))


def _threads(workers: int) -> int:
    """Return the threads of each process on a CPU."""
    return usable_threads() if workers <= 1 else max(1, available_cpus() // workers)


@contextlib.contextmanager
def translate_pieces(
    runs: Sequence[Translatable],
    decoding: DecodingChoices,
    pieces: Iterable[Piece],
    *,
    workers: int,
    gpus: Sequence[str],
    progress: Progress,
) -> Iterator[Iterator[TranslatedPiece]]:
    """Yield the translations of all pieces, in order; the processes end with the block.

    Args:
        runs: one run, several as an ensemble, or one export.
        decoding: the user's choices.
        pieces: taken one by one as needed.
        workers: number of processes, which share the processors. Each loads the models.
        gpus: devices, each with a process of its own; none for `workers` on the CPU.
        progress: receives the progress within a piece, if there is one process.

    Raises:
        ConfigError: several processes on another device than a CPU.
        JtransError: a run cannot be used.
        WorkError: a process died.
    """
    if len(gpus) > 1:
        with run_jobs(
            _Worker(runs, decoding, devices=tuple(gpus)),
            pieces,
            workers=len(gpus),
            hint="fewer --gpus, or a lower --batch-tokens; with --output, the same command resumes",
            begins_anew=True,
        ) as results:
            yield results
        return
    if gpus:
        decoding = replace(decoding, device=gpus[0])
    if workers <= 1:
        translator = open_translator(runs, decoding)
        yield map(functools.partial(_translate, translator, progress=progress), pieces)
        return
    _check_device(decoding)
    with run_jobs(
        _Worker(runs, decoding, _threads(workers)),
        pieces,
        workers=workers,
        hint="fewer --workers need less memory; with --output, the same command continues",
    ) as results:
        yield results


@dataclass(frozen=True)
class _Worker:
    """Translates in a worker process, which loads the models with its first piece."""

    runs: Sequence[Translatable]  # the models
    decoding: DecodingChoices  # the user's choices
    threads: int | None = None  # threads of each process; None for torch's own choice
    devices: tuple[str, ...] = ()  # one per process; empty for that of `decoding`

    def __call__(self, piece: Piece) -> TranslatedPiece:
        if not _translators:
            if self.threads is not None:
                torch.set_num_threads(self.threads)
            decoding = self.decoding
            if self.devices:
                decoding = replace(decoding, device=self.devices[worker_number()])
            _translators.append(open_translator(self.runs, decoding))
        return _translate(_translators[0], piece)


_translators: list[Translator] = []  # that of this worker process


def _check_device(decoding: DecodingChoices) -> None:
    device = resolve_device(decoding.device)
    if device.type != "cpu":
        raise ConfigError(
            f"several worker processes cannot share {device}",
            where="--workers",
            hint="leave --workers out, or add --device cpu",
            kind="config.value",
        )


def _translate(
    translator: Translator, piece: Piece, progress: Progress | None = None
) -> TranslatedPiece:
    begin = time.perf_counter()
    collected = _Warnings()
    try:
        translations = translator.translate_nbest(
            piece.sources,
            progress=progress or collected,
            constraints=piece.constraints,
            first_line=piece.first_line,
        )
    except DecodingError as fault:
        if fault.line is None:
            raise
        before_fault = slice(fault.line - piece.first_line)
        constraints = piece.constraints[before_fault] if piece.constraints else None
        part = Piece(piece.sources[before_fault], constraints, piece.first_line)
        done = _translate(translator, part, progress)  # which may have an earlier fault
        return replace(done, fault=done.fault or fault)
    return TranslatedPiece(translations, collected.texts, time.perf_counter() - begin)


class _Warnings(Silent):
    """Keeps warnings for the process that can show them."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def warn(self, text: str) -> None:
        self.texts.append(text)
