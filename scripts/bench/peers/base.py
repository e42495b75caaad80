"""What the benchmarks need of another toolkit, and the sizes of all models they compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor, nn

    from jtrans.data.batch import Batch

SIZES: dict[str, Any] = {
    "width": 256,
    "ffn_width": 1024,
    "heads": 4,
    "layers": 6,  # of the encoder and of the decoder
    "dropout": 0.1,
}
SMOOTHING = 0.1
BEAM, STEPS = 5, 15


class Peer(Protocol):
    """A Transformer of SIZES in another toolkit, with random weights.

    Both sides have one vocabulary of jtrans, and both embeddings and the output share one matrix.
    Its package is imported when a model is made, not with its module here.

    Args:
        vocabulary: the number of tokens.

    Attributes:
        name: how its users call the toolkit.
        package: the package that is imported.
        distribution: the same on PyPI, whose version is reported.
        model: the network, in training mode.
    """

    name: str
    package: str
    distribution: str
    model: nn.Module

    def __init__(self, vocabulary: int) -> None: ...

    def search(self, sentences: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the best translation of each sentence, by the toolkit's own beam search.

        The model must be in evaluation mode. The beam has BEAM hypotheses, and all translations
        have exactly STEPS tokens: ``</s>`` is impossible before.

        Args:
            sentences: ids of jtrans, each sentence ending in EOS.
        """
        ...

    def loss(self, batch: Batch) -> Tensor:
        """Return the toolkit's label-smoothed loss for each target token of a batch, a scalar."""
        ...
