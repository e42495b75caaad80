"""The gradients of micro-batches as CUDA graphs, one for each padded size.

The forward and the backward pass of a micro-batch are more than a thousand operations. Launching
them takes the CPU some 45 ms whatever their size, while a GPU computes those of a small model in a
tenth of that. A graph launches them as a whole.

It repeats them on the same memory, so micro-batches are padded to few sizes (`padded.py`). A size
is captured when it is needed a second time; the first time the same padded micro-batch is computed
without a graph, with the same result.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from jtrans.config import TrainingConfig
from jtrans.data.batch import Batch
from jtrans.models.base import TranslationModel
from jtrans.nn.gpu.capture import Capture, CudaCapture
from jtrans.nn.memory import is_out_of_memory
from jtrans.training.captured.padded import PaddedBatch, Size
from jtrans.training.divergence.random_state import RandomState

_log = logging.getLogger(__name__)

MOST_GRAPHS = 768  # twice as many as a third of IWSLT14 needs; further sizes do without

# the loss of a batch to be differentiated, [], and its summed losses, [n], given the divisor, []
Losses = Callable[[Batch, Tensor], tuple[Tensor, Tensor]]


def can_capture(model: TranslationModel, training: TrainingConfig) -> bool:
    """Return whether gradients can be captured, unless weights are sharded.

    Idle sentences would change statistics of a batch. Recomputing a layer reads the state of the
    random generator, which a capture does not allow. Labels of source tokens are counted for each
    update, which no graph knows.
    """
    return (
        training.graphs
        and model.device.type == "cuda"
        and not (model.has_batch_statistics or model.auxiliary_weights)
        and not training.deterministic
        and training.recompute == "none"
    )


class CapturedGradients:
    """Computes gradients of micro-batches by graphs.

    Args:
        model: in training mode, on a GPU.
        losses: of a batch.
        capture: another way to capture than torch's.
        most: how many graphs are kept.
    """

    def __init__(
        self,
        model: TranslationModel,
        losses: Losses,
        capture: Capture | None = None,
        most: int = MOST_GRAPHS,
    ) -> None:
        self._model, self._losses, self._most = model, losses, most
        self._parameters = list(model.parameters())
        self._trained = [each for each in self._parameters if each.requires_grad]
        device = self._parameters[0].device
        # the size has been computed once before, which is warm-up enough
        self._capture = capture or CudaCapture(device, warm_ups=1)
        self._divisor = torch.ones((), device=device)
        # of all parameters, written by all graphs; None without one
        self._gradients: list[Tensor | None] = []
        self._copies: list[Tensor | None] = []
        self._places: list[int] = []  # in memory, of the weights
        self.kept: dict[Size, PaddedBatch] = {}  # those that are captured
        self._needed: set[Size] = set()
        self.has_failed = False
        self.is_replaying = True  # False: graphs, whose layers cannot be watched, stay unused

    def __call__(self, batch: Batch, divisor: int) -> Tensor:
        """Give the parameters the gradient of a batch of the CPU, and return its summed losses.

        The gradients are overwritten by the next call, and so are the losses, [n].
        """
        self._forget_other_weights()
        (B, S), T = batch.source.shape, batch.target_in.shape[1]
        model = self._model
        size = Size.holding(B, S, T, is_joint=model.is_joint, longest=model.longest)
        padded = self.kept.get(size) or PaddedBatch(size, self._divisor.device)
        padded.load(batch)
        self._divisor.fill_(divisor)
        if self.is_replaying and padded.replay is None and self._is_wanted(size):
            self._capture_on(padded)
        if self.is_replaying and padded.replay is not None:
            losses = padded.replay()
        else:
            losses = self._work(padded)
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient
        return losses

    def forget(self) -> None:
        """Drop all graphs, and begin as if no size had been needed and no capture had failed."""
        self.make_room()
        self.has_failed = False

    def make_room(self) -> bool:
        """Drop all graphs, whose memory is needed; sizes are captured once they are needed again.

        A size that does not fit beside the graphs is then computed without one.

        Returns:
            Whether there were any.
        """
        had_graphs = bool(self.kept)
        self.kept.clear()
        self._needed.clear()
        return had_graphs

    def _is_wanted(self, size: Size) -> bool:
        """Return whether a size is needed a second time, and there is room for its graph."""
        was_needed = size in self._needed
        self._needed.add(size)
        return was_needed and len(self.kept) < self._most and not self.has_failed

    def keep(self, gradients: list[Tensor | None]) -> list[Tensor | None]:
        """Return gradients that the next call does not overwrite: a copy if it would.

        The copy is overwritten when a copy is made again.
        """
        ours = self._gradients
        if not any(a is b and a is not None for a, b in zip(gradients, ours, strict=False)):
            return gradients
        if not self._copies:
            self._copies = [None if each is None else torch.empty_like(each) for each in ours]
        _copy(self._copies, ours)
        return self._copies

    def _work(self, padded: PaddedBatch) -> Tensor:
        total, losses = self._losses(padded.batch(), self._divisor)
        trained = iter(torch.autograd.grad(total, self._trained, allow_unused=True))
        gradients = [next(trained) if each.requires_grad else None for each in self._parameters]
        if not self._gradients:
            self._gradients = [
                None if gradient is None else torch.empty_like(parameter, requires_grad=False)
                for parameter, gradient in zip(self._parameters, gradients, strict=True)
            ]
        _copy(self._gradients, gradients)
        return losses

    def _capture_on(self, padded: PaddedBatch) -> None:
        random = RandomState.of(self._divisor.device)
        try:
            padded.replay = self._capture(lambda: self._work(padded))
            padded.held = list(self._model.buffers())  # a table of positions grows into another
            self.kept[padded.size] = padded
        except Exception as error:
            self._give_up(error)
        finally:
            random.restore()  # a capture draws random numbers, too

    def _give_up(self, error: Exception) -> None:
        """Go on without graphs, which give their memory back."""
        self.has_failed = True
        self.kept.clear()
        _log.warning(
            "updates cannot be captured as CUDA graphs, so training goes on without, with the "
            "same results but slower: %s",
            "memory ran out" if is_out_of_memory(error) else error,
        )
        if self._divisor.is_cuda:
            torch.cuda.empty_cache()

    def _forget_other_weights(self) -> None:
        places = [parameter.data_ptr() for parameter in self._parameters]
        if places != self._places:
            self.kept.clear()
            self._places = places


def _copy(to: Sequence[Tensor | None], gradients: Sequence[Tensor | None]) -> None:
    pairs = [(a, b) for a, b in zip(to, gradients, strict=True) if a is not None and b is not None]
    torch._foreach_copy_([a for a, _ in pairs], [b for _, b in pairs])
