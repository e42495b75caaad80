"""The gradients of micro-batches as CUDA graphs, one for each padded size.

The forward and the backward pass of a micro-batch are more than a thousand operations. Launching
them takes the CPU some 45 ms whatever their size, while a GPU computes those of a small model in a
tenth of that. A graph launches them as a whole.

A graph always works on the same memory, so micro-batches are padded to a few sizes (`padded.py`). A
size is captured when it is needed a second time; the first time the padded micro-batch is computed
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

MOST_GRAPHS = 768  # twice as many as a third of IWSLT14 needs; further sizes run without a graph

# the loss of a batch to be differentiated, [], and its summed losses, [n], given the divisor, []
Losses = Callable[[Batch, Tensor], tuple[Tensor, Tensor]]


def can_capture(model: TranslationModel, training: TrainingConfig) -> bool:
    """Return whether gradients can be captured, unless weights are sharded.

    Idle sentences would change batch statistics. Recomputing a layer reads the state of the random
    generator, which a capture does not allow. The losses of labels are divided by counts of the
    update, which graphs have no input for.
    """
    return (
        training.graphs
        and model.device.type == "cuda"
        and not (model.has_batch_statistics or model.auxiliary_weights)
        and not training.deterministic
        and training.recompute == "none"
    )


class CapturedGradients:
    """Computes gradients of micro-batches by CUDA graphs.

    Args:
        model: in training mode, on a GPU.
        losses: computes the losses of a batch.
        capture: captures work as a graph; None: `CudaCapture`.
        most: the largest number of graphs kept.
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
        # of all parameters, written by all graphs; None for parameters without a gradient
        self._gradients: list[Tensor | None] = []
        self._copies: list[Tensor | None] = []
        self._addresses: list[int] = []  # of the weights in memory
        self.kept: dict[Size, PaddedBatch] = {}  # the captured sizes
        self._needed: set[Size] = set()
        self.has_failed = False
        self.is_replaying = True  # False while a fault is traced: layers in a graph call no hooks

    def __call__(self, batch: Batch, divisor: int) -> Tensor:
        """Set the parameters' gradients to those of a batch on the CPU; return its losses, [n].

        The next call overwrites the gradients and the losses.
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
        """Drop all graphs to free their memory; sizes are captured again as they are needed.

        The size that did not fit beside the graphs is then computed without one.

        Returns:
            Whether there were any.
        """
        had_graphs = bool(self.kept)
        self.kept.clear()
        self._needed.clear()
        return had_graphs

    def _is_wanted(self, size: Size) -> bool:
        """Return whether a size is needed a second time and may be captured."""
        was_needed = size in self._needed
        self._needed.add(size)
        return was_needed and len(self.kept) < self._most and not self.has_failed

    def keep(self, gradients: list[Tensor | None]) -> list[Tensor | None]:
        """Return `gradients`, copied if the next call would overwrite them.

        The next copy overwrites this one.
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
            padded.held = list(self._model.buffers())  # a table of positions is replaced to grow
            self.kept[padded.size] = padded
        except Exception as error:
            self._give_up(error)
        finally:
            random.restore()  # a capture draws random numbers, too

    def _give_up(self, error: Exception) -> None:
        """Continue without graphs, and free their memory."""
        self.has_failed = True
        self.kept.clear()
        _log.warning(
            "updates cannot be captured as CUDA graphs, so training goes on without them, slower "
            "but with the same results: %s",
            "memory ran out" if is_out_of_memory(error) else error,
        )
        if self._divisor.is_cuda:
            torch.cuda.empty_cache()

    def _forget_other_weights(self) -> None:
        addresses = [parameter.data_ptr() for parameter in self._parameters]
        if addresses != self._addresses:
            self.kept.clear()
            self._addresses = addresses


def _copy(to: Sequence[Tensor | None], gradients: Sequence[Tensor | None]) -> None:
    pairs = [(a, b) for a, b in zip(to, gradients, strict=True) if a is not None and b is not None]
    torch._foreach_copy_([a for a, _ in pairs], [b for _, b in pairs])
