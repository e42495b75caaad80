"""Steps of the search captured with those of the model: one launch, and no waiting in between.

Choosing continuations takes some fifty small operations, which a GPU computes in less time than
Python needs to launch them. Where the model's step is captured (`prepared/captured`), a graph holds
both, for the usual search: one model, no constraints, no rule that depends on the tokens so far.
The first step, and those at a sentence's limit, are ordinary ones.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from jtrans.decoding.options import SearchOptions
from jtrans.decoding.prepared.captured.slots import SlotStep
from jtrans.decoding.prepared.captured.state import GraphForm, GraphState
from jtrans.decoding.search.candidates import Continuations, best_continuations, survivor_places
from jtrans.decoding.search.finals import Finals
from jtrans.nn.gpu.capture import Replay
from jtrans.text.vocabulary import EOS, PAD, SPARE

# Checking on a GPU whether sentences are done means waiting for it, so this is done only every few
# steps, which is also the most replays in a row.
STEPS_BETWEEN_CHECKS = 4
LONGEST = 4_096  # steps of a search; later ones are ordinary
MOST_CHOICES = 4  # kept for a bucket, each for other options and with a graph of its own


class Replayed(NamedTuple):
    """What a replay did, in A sentences."""

    ends: Tensor  # which of the best k continuations end, [A, k]
    parent: Tensor  # parents of the best k, [A, k]
    log_prob: Tensor  # log-probabilities of the best k, [A, k]
    left: Continuations  # the k that survive


class CapturedChoice:
    """A step of the model and the choice that follows it, on buffers of a bucket's size.

    Args:
        step: that of the model, which keeps this choice.
        project: gives the logits.
        options: search options.
    """

    replay: Replay  # does the work, by a graph if it could be captured

    def __init__(
        self, step: SlotStep[Any], project: Callable[[Tensor], Tensor], options: SearchOptions
    ) -> None:
        # the step holds this choice: with a cycle both would keep GPU memory long after a search
        self.step: SlotStep[Any] = weakref.proxy(step)
        self._project = project
        B, k, device = step.bucket.lanes, step.bucket.beam, step.bias.device
        divisors = [1.0, *(options.divisor(length) for length in range(1, LONGEST + 2))]
        self._divisors = torch.tensor(divisors, device=device)  # by length
        is_short = torch.arange(LONGEST + 2, device=device) <= options.min_length
        self._end = torch.where(is_short, -math.inf, 0.0)  # added to log p of </s>, by length
        self._has_least = options.min_length > 1  # a least length that outlasts the first step
        self._never = torch.tensor([PAD, SPARE], device=device)
        self._first = torch.arange(0, B * k, k, device=device)[:, None]
        self.total = torch.zeros(B, k, device=device)
        self.last_divisor = torch.ones(B, device=device)
        self.finals = Finals(B, options, 1, device)
        # of each replay: the best, where they end, and which of them survive
        self.replays = torch.zeros(1, dtype=torch.int64, device=device)
        numbers = torch.zeros(STEPS_BETWEEN_CHECKS, B, 2 * k, device=device)
        self.best = Continuations(
            numbers, numbers.clone(), numbers.to(torch.int64), numbers.to(torch.int64)
        )
        self.ends = numbers[..., :k].to(torch.bool)
        self.places = numbers[..., :k].to(torch.int64)

    def work(self) -> Tensor:
        """Do a step of the search, and return the sums of the survivors, [lanes, beam]."""
        step, finals = self.step, self.finals
        B, k = self.total.shape
        length = step.position + 1
        hidden = step.work()
        log_probs = torch.log_softmax(self._project(hidden), dim=-1, dtype=torch.float32)
        log_probs.index_fill_(-1, self._never, -math.inf)
        if self._has_least:
            log_probs[:, EOS].add_(self._end.index_select(0, length))
        best = best_continuations(log_probs.view(B, k, -1), self.total, 2 * k)
        ends = finals.add(best, self._divisors.index_select(0, length))
        places = survivor_places(best, groups=1)
        left = best.take(places)
        finals.close(left.total, self._divisors.index_select(0, length + 1), self.last_divisor)
        written = (*self.best.tensors(), self.ends, self.places)
        for buffer, new in zip(written, (*best.tensors(), ends, places), strict=True):
            buffer.index_copy_(0, self.replays, new[None])
        self.replays.add_(1)
        self.total.copy_(left.total)
        step.token.copy_(left.token.flatten())
        step.row.copy_((left.parent + self._first).flatten())
        return self.total

    def load(self, token: Tensor, total: Tensor, finals: Finals, last_divisor: Tensor) -> None:
        """Fill the buffers with a search of A sentences; other lanes are idle.

        Args:
            token: the last one of each hypothesis, [A * k].
            total: summed log-probabilities, [A, k].
            finals: their final hypotheses.
            last_divisor: divisors of scores at the limit, [A].
        """
        A = len(total)
        self.step.token[: len(token)] = token
        self.total.zero_()[:A] = total
        self.last_divisor[:A] = last_divisor
        self.finals.load(finals)
        self.replays.zero_()

    def read(self, replays: int, sentences: int) -> list[Replayed]:
        """Return what each replay did with the first sentences, in tensors of its own."""
        whole = replays * sentences, -1
        parts = (each[:replays, :sentences].reshape(whole) for each in self.best.tensors())
        best, k = Continuations(*parts), self.total.shape[1]
        left = best.take(self.places[:replays, :sentences].reshape(whole))
        ends = self.ends[:replays, :sentences].clone()
        each = (best.parent[:, :k].clone(), best.log_prob[:, :k].clone(), *left.tensors())
        by_replay = zip(*(x.reshape(replays, sentences, k).unbind(0) for x in each), strict=True)
        return [
            Replayed(ended, parent, log_prob, Continuations(*rest))
            for ended, (parent, log_prob, *rest) in zip(ends.unbind(0), by_replay, strict=True)
        ]


def prepare_capture(model: object, state: object, options: SearchOptions) -> None:
    """Prepare a captured choice in the buffers that a state will use, if the model has graphs."""
    if isinstance(model, GraphForm) and isinstance(state, GraphState):

        def prepare(step: SlotStep[Any]) -> None:
            if options in step.choices:
                return
            with torch.inference_mode(False), torch.no_grad():  # searches in either mode may write
                choice = CapturedChoice(step, model.plain.project, options)
            while len(step.choices) >= MOST_CHOICES:
                del step.choices[next(iter(step.choices))]
            step.rewind()
            choice.replay = model.graphs.replay_of(choice.work)
            step.choices[options] = choice

        state.prepare = prepare


def captured_choice(state: object, options: SearchOptions, most: int) -> tuple[Any, int]:
    """Return the captured choice of a state and how many steps it can do; None and 0 without one.

    Args:
        state: state of the search.
        options: search options.
        most: the most steps to do.
    """
    if not isinstance(state, GraphState) or state.taken is None:
        return None, 0
    choice = state.taken.choices.get(options)
    steps = min(most, STEPS_BETWEEN_CHECKS, state.room, LONGEST - state.length)
    return (choice, steps) if choice is not None and steps > 0 else (None, 0)
