"""The speed of the search on this machine: `jtrans bench decode`.

Every sentence has the same number of source tokens and gets exactly as many target tokens, so that
all systems, trained or not, do the same work.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from jtrans.bench.flops import count_flops
from jtrans.bench.machine import peak_during, product_rate
from jtrans.decoding.lanes import in_lanes, lane_count
from jtrans.decoding.options import SearchOptions
from jtrans.decoding.prepared.base import Searchable, backend_for
from jtrans.decoding.prepared.captured.graphs import WANTED
from jtrans.decoding.prepared.choose import prepared
from jtrans.decoding.search.beam import beam_search
from jtrans.models.base import TranslationModel
from jtrans.nn.device import prepare_device, wait_for
from jtrans.progress import Progress
from jtrans.text.vocabulary import EOS, SPECIALS

BATCHES, BEAMS = (1, 4, 16, 64), (1, 5)


@dataclass(frozen=True)
class SearchMeasurement:
    """The search of batches of one size with one beam."""

    batch: int  # sentences
    beam: int  # hypotheses of each; 1 is greedy
    # in whole batches, the encoder included; a CPU searches several batches at a time, as `jtrans
    # translate` does, but single sentences one after the other
    sentences_per_second: float
    step_milliseconds: float  # a step of the search of a batch, without the encoder
    step_operations: float  # torch operations of a step, views included
    flops_per_second: float  # of the model
    # memory of the search in addition to the model's, None if the system does not report it
    peak_bytes: int | None


@dataclass(frozen=True)
class DecodeMeasurement:
    """The search with one model."""

    system: str  # of the model
    parameters: int  # trainable and frozen ones
    form: str  # the class that the search uses in place of the model, or the model's own
    device: str  # one line about device and precision
    length: int  # tokens of every source and target, ``</s>`` counted
    # of matrix products of the model's sizes, measured between the searches
    product_flops_per_second: float
    searches: list[SearchMeasurement]  # for every size of batch and every beam

    def to_json(self) -> dict[str, Any]:
        """Return the measurement as plain values."""
        shares = [{"product_share": self.product_share(each)} for each in self.searches]
        value = dataclasses.asdict(self)
        searches = [each | share for each, share in zip(value["searches"], shares, strict=True)]
        return {**value, "searches": searches}

    def product_share(self, search: SearchMeasurement) -> float:
        """Return the model's FLOP/s as a share of the FLOP/s of matrix products alone."""
        return search.flops_per_second / self.product_flops_per_second


def measure_decode(
    model: TranslationModel,
    source_vocabulary: int,
    *,
    precision: str,
    length: int,
    seconds: float,
    progress: Progress,
    batches: Sequence[int] = BATCHES,
) -> DecodeMeasurement:
    """Measure the search with a model that is in evaluation mode.

    Args:
        model: it need not be trained.
        source_vocabulary: the size of the source vocabulary.
        precision: "fp32" or "bf16".
        length: tokens of every source and target, ``</s>`` counted, at least 4.
        seconds: the least time for every beam and batch size; a single search may take longer.
        progress: receives the number of these done.
        batches: the sizes of the batches, in sentences.
    """
    info = prepare_device(model.device)
    form = prepared(model, precision)
    # operations are counted without graphs, which replay the same ones unseen
    ordinary = prepared(model, precision, with_graphs=False)
    products = 0.0
    kinds = [(beam, batch) for beam in BEAMS for batch in batches]
    searches: list[SearchMeasurement] = []
    for beam in BEAMS:
        single = random_sources(1, length, source_vocabulary, model.device)
        flops = count_flops(_EqualLengths(model, single, beam).search)
        operations = _EqualLengths(ordinary, single, beam).step_operations()
        for batch in batches:
            progress.advance("Searching", len(searches), len(kinds))
            source = random_sources(batch, length, source_vocabulary, model.device)
            lanes = lane_count(model.device) if batch > 1 else 1
            timed = _EqualLengths(form, source, beam, lanes).timed(seconds)
            measured = SearchMeasurement(
                batch,
                beam,
                sentences_per_second=lanes * batch / timed.seconds,
                step_milliseconds=1000 * max(0.0, timed.seconds - timed.before_steps) / length,
                step_operations=operations,
                flops_per_second=lanes * batch * flops / timed.seconds,
                peak_bytes=timed.peak_bytes,
            )
            searches.append(measured)
            products = max(products, product_rate(model, precision))
    progress.advance("Searching", len(kinds), len(kinds))
    return DecodeMeasurement(
        system=model.config.system,
        parameters=model.parameter_count() + model.frozen_count(),
        form=type(form).__name__,
        device=info.describe(precision),
        length=length,
        product_flops_per_second=products,
        searches=searches,
    )


def random_sources(batch: int, length: int, vocabulary: int, device: torch.device) -> Tensor:
    """Return random token ids that end in ``</s>``, [B, S]; the same in every call."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(len(SPECIALS), vocabulary, (batch, length), generator=generator)
    ids[:, -1] = EOS
    return ids.to(device)


@dataclass(frozen=True)
class _SearchCost:
    """The cost of one search: seconds in all and before the first step, and peak bytes."""

    seconds: float
    before_steps: float
    peak_bytes: int | None


@dataclass(frozen=True)
class _EqualLengths:
    """Searches in which all sources and translations have the same length."""

    form: Searchable
    source: Tensor  # [B, S]
    beam: int
    lanes: int = 1  # number of searches at the same time

    def search(self, length: int | None = None) -> None:
        """Search for translations of exactly `length` tokens, and wait for the device."""
        length = length or self.source.shape[1]
        options = SearchOptions(self.beam, min_length=length - 1, max_length=str(length))

        self._in_lanes(lambda: beam_search([self.form], self.source, self.source > 0, options))

    def begin(self) -> None:
        """Encode the source and make the first state, and wait for the device."""

        def encode() -> None:
            with torch.no_grad():
                self.form.begin(self.form.encode(self.source, self.source > 0), 1)

        self._in_lanes(encode)

    def _in_lanes(self, work: Callable[[], object]) -> None:
        def compute(batches: Iterator[list[int]]) -> Iterator[None]:
            for _ in batches:
                work()
                yield

        with backend_for([self.form]):
            for _ in in_lanes([[0]] * self.lanes, compute, self.lanes):
                pass
        wait_for(self.form.device)

    def timed(self, seconds: float) -> _SearchCost:
        """Search repeatedly for at least `seconds`, and return the medians."""
        whole: list[float] = []
        before: list[float] = []
        peak = peak_during(self.search, self.form.device)  # also warms up
        if self.form.device.type == "cuda":
            for _ in range(WANTED):  # capture graphs
                self.search()
        while not whole or sum(whole) < seconds:
            before.append(_seconds(self.begin))
            whole.append(_seconds(self.search))
        return _SearchCost(statistics.median(whole), statistics.median(before), peak)

    def step_operations(self) -> float:
        """Count the operations of a step, by the difference between a long and a short search."""
        length = self.source.shape[1]
        counts: list[int] = []
        for steps in (length // 2, length):
            with _OperationCounter() as counter:
                self.search(steps)
            counts.append(counter.count)
        return (counts[1] - counts[0]) / (length - length // 2)


class _OperationCounter(TorchDispatchMode):
    """Counts torch's operations on any device, views included."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Count and call a function."""
        self.count += 1
        return func(*args, **(kwargs or {}))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
