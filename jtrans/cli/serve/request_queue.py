"""Requests for translations: one thread translates, all waiting requests together.

A request with a long line may take minutes. It is answered alone, after the short requests that
have arrived in the meantime. Nothing is computed for clients that have disconnected.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from jtrans.cli.translate.lines import InputLine
from jtrans.errors import WorkError

if TYPE_CHECKING:
    from jtrans.decoding.lines.translation import Translation
    from jtrans.decoding.options import Constraints
    from jtrans.decoding.translator import Translator

MOST_WAITING = 10_000  # lines; further requests are refused
SIGNAL_SECONDS = 0.5  # until a signal is noticed, at the latest
MOST_TOGETHER = 256  # lines; no request is added to a batch with as many
LONG = 1_000  # characters; a longer line may take longer than all others together


@dataclass(frozen=True)
class Answer:
    """The translations of a line, and the words that alignments refer to, as in raw text."""

    translations: Sequence[Translation]
    source_words: Sequence[str]
    words: Sequence[Sequence[str]]  # those of each translation


@dataclass(frozen=True, eq=False)
class LinesRequest:
    """Lines to translate, and the future answers."""

    lines: Sequence[InputLine]
    is_wanted: Callable[[], bool] = lambda: True  # called by other threads until it is answered
    answers: Future[list[Answer]] = field(default_factory=Future)

    @property
    def is_long(self) -> bool:
        """Whether a line has more than `LONG` characters."""
        return any(len(line.source) > LONG for line in self.lines)


class RequestQueue:
    """Requests that wait for their translations."""

    def __init__(self) -> None:
        self._requests: queue.Queue[LinesRequest] = queue.Queue()
        self._lock = threading.Lock()
        self._lines = 0
        self._asked: set[LinesRequest] = set()  # unanswered requests
        self._is_stopped = False

    def ask(self, request: LinesRequest) -> list[Answer]:
        """Queue a request, and wait for its answers.

        Raises:
            CancelledError: they are no longer wanted.
            WorkError: too many lines are waiting, or the server is stopping.
            JtransError: the lines cannot be translated.
        """
        self._enter(request)
        try:
            self._requests.put(request)
            return request.answers.result()
        finally:
            self._leave(request)

    def answer(self, translator: Translator) -> NoReturn:
        """Answer requests until an exception, such as that of a signal, ends the work.

        Requests without an answer by then are refused, and so are later ones.
        """
        try:
            self._answer_forever(translator)
        finally:
            self._stop()

    def _answer_forever(self, translator: Translator) -> NoReturn:
        long: deque[LinesRequest] = deque()
        while True:
            requests = self._take(wait=not long)
            long += [request for request in requests if request.is_long]
            if short := [request for request in requests if not request.is_long]:
                _answer(translator, short)
            if long:
                _answer(translator, [long.popleft()])

    def _take(self, *, wait: bool) -> list[LinesRequest]:
        """Return the requests that have arrived, up to `MOST_TOGETHER` lines; maybe none."""
        requests: list[LinesRequest] = []
        # waiting without a timeout can miss a signal that a thread received while it was ending
        seconds = SIGNAL_SECONDS if wait else 0
        with contextlib.suppress(queue.Empty):
            while sum(len(each.lines) for each in requests) < MOST_TOGETHER:
                requests.append(self._requests.get(wait and not requests, seconds))
        return requests

    def _enter(self, request: LinesRequest) -> None:
        lines = len(request.lines)
        with self._lock:
            if self._is_stopped:
                raise _stopping()
            if self._lines and self._lines + lines > MOST_WAITING:
                raise WorkError(
                    f"{self._lines:,} lines are waiting for their translation",
                    hint="try again later",
                    kind="serve.busy",
                )
            self._lines += lines
            self._asked.add(request)

    def _leave(self, request: LinesRequest) -> None:
        with self._lock:
            self._lines -= len(request.lines)
            self._asked.remove(request)

    def _stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            for request in self._asked:
                with contextlib.suppress(InvalidStateError):  # already answered
                    request.answers.set_exception(_stopping())


def _stopping() -> WorkError:
    return WorkError(
        "the server is stopping", hint="try again once it has restarted", kind="serve.stopping"
    )


def _answer(translator: Translator, requests: Sequence[LinesRequest]) -> None:
    from jtrans.decoding.lanes import Unwanted, only_while

    wanted = [each for each in requests if each.is_wanted()]
    lines = [line for each in wanted for line in each.lines]
    while_wanted = only_while(lambda: any(each.is_wanted() for each in wanted))
    try:
        with contextlib.suppress(Unwanted), while_wanted:
            answers = iter(_translated(translator, lines))
            for request in wanted:
                request.answers.set_result([next(answers) for _ in request.lines])
    except Exception as error:
        if len(wanted) == 1:
            wanted[0].answers.set_exception(error)
        else:  # one of them may be at fault: answer each alone
            for request in wanted:
                _answer(translator, [request])
    for request in requests:
        request.answers.cancel()  # no effect if answered


def _translated(translator: Translator, lines: Sequence[InputLine]) -> list[Answer]:
    constraints: list[Constraints] | None = None
    if any(line.constraints for line in lines):
        from jtrans.decoding.options import Constraints

        constraints = [Constraints(**line.constraints) for line in lines]
    texts = [line.source for line in lines]
    source, target = translator.pipeline.source, translator.pipeline.target
    nbest = translator.translate_nbest(texts, constraints=constraints)
    return [
        Answer(
            translations,
            source.surfaces(source.merge(source.pieces(text))),
            [target.surfaces(translation.words) for translation in translations],
        )
        for text, translations in zip(texts, nbest, strict=True)
    ]
