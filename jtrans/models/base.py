"""The contract between a system and the code that trains, searches with or analyses it.

Shapes: B sentences, N = B x beam hypotheses, S source positions, T target positions,
E features, V target vocabulary. Masks are boolean, True where a token is real; padding is on
the right. For every system and prefix, `step` repeated equals `decode`.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jtrans.config import SystemConfig
from jtrans.errors import ConfigError


@dataclass
class Memory:
    """All that depends on the source alone."""

    states: Tensor  # [B, S, E]
    mask: Tensor  # True on real source tokens, [B, S]

    def select(self, rows: Tensor) -> Memory:
        """Return the memory of the sentences `rows`, [B']."""
        return Memory(self.states.index_select(0, rows), self.mask.index_select(0, rows))


class State(Protocol):
    """The state of a system for the prefixes of N = B x beam hypotheses."""

    def select(self, rows: Tensor) -> Self:
        """Return the state of other hypotheses.

        Args:
            rows: for each sentence still in the search, its surviving hypotheses as indices into
                the N old ones, [B', beam']. All hypotheses of a row belong to one sentence. As
                long as no sentence leaves the search, sentences keep their order; when some
                leave, others may take their places.
        """
        ...


@dataclass(frozen=True)
class AttentionMap:
    """The weights of one attention, for analysis.

    Analyses depend on the axes alone; names only distinguish the maps.
    """

    name: str  # ``stack.LAYER.kind`` such as ``decoder.5.cross``, or ``kind`` if there is only one
    # the kind of each axis of `weights` after the batch. ``source`` and ``target`` are positions,
    # and the last axis, one of them, is attended over; all others, such as ``head``, are parts of
    # one attention, for example ``("head", "target", "source")``
    axes: tuple[str, ...]
    weights: Tensor  # [B, *axes]


class TranslationModel(nn.Module, abc.ABC):
    """A translation system: `Config` and the six abstract methods.

    The zoo builds it as ``Model(config, source_vocabulary, target_vocabulary)``.

    Attributes:
        Config: its settings; the default of `system` is the system's name.
        is_joint: whether memory grows with S*T, so that batches are bounded by joint positions.
        has_batch_statistics: whether training normalises over a micro-batch, so that it differs
            from evaluation even without dropout, and the gradient of an update depends on its
            split into micro-batches.
        paper: its publication, for systems of other distributions.
        tiny: settings of the small model that the contract tests build, besides those named
            `width`, `ffn_width`, `heads`, `...layers` and `...dropout`, which the tests choose.
        frozen: parts that stay in evaluation mode while the others are trained.
    """

    Config: ClassVar[type[SystemConfig]]
    is_joint: ClassVar[bool] = False
    has_batch_statistics: bool = False
    paper: ClassVar[str] = ""
    tiny: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, config: SystemConfig) -> None:
        super().__init__()
        self.config = config
        self.frozen: tuple[nn.Module, ...] = ()

    @abc.abstractmethod
    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Compute all that depends on the source alone.

        Args:
            source: token ids, [B, S].
            source_mask: True on real tokens, [B, S].
        """

    @abc.abstractmethod
    def decode(self, target: Tensor, memory: Memory) -> Tensor:
        """Return the hidden states of all target positions at once, [B, T, E].

        Args:
            target: decoder input, shifted right with ``</s>`` in front, [B, T].
            memory: the result of `encode`.
        """

    @abc.abstractmethod
    def begin(self, memory: Memory, beam: int) -> State:
        """Return the state of B x beam empty prefixes, given the result of `encode`."""

    @abc.abstractmethod
    def step(self, token: Tensor, state: Any) -> Tensor:
        """Read one more token of each hypothesis, [N], and return hidden states, [N, E].

        Args:
            token: token ids, [N].
            state: the result of this system's `begin`; it is advanced in place.
        """

    @abc.abstractmethod
    def project(self, hidden: Tensor) -> Tensor:
        """Return the logits of hidden states, [..., E] -> [..., V]."""

    @abc.abstractmethod
    def explain(self, source: Tensor, target: Tensor) -> list[AttentionMap]:
        """Return every attention map of a forward pass; the model is in evaluation mode.

        Args:
            source: token ids, [B, S]; padding is id 0.
            target: decoder input, [B, T].
        """

    def output_weights(self) -> tuple[Tensor, Tensor | None] | None:
        """Return W, [V, E], and b, [V], of systems whose `project` is ``x W^T + b``.

        On a CPU they are trained by a faster form of their loss.
        """
        return None

    def layer_weights(self) -> dict[str, Tensor]:
        """Return by stack the learned weights of earlier layers in later ones, [L + 1, L + 1].

        Row k is the input of layer k + 1, or the output of the stack; only systems that learn how
        layers combine have any.
        """
        return {}

    def initial_weights(self, other: SystemConfig) -> Mapping[str, str]:
        """Return which weights of a run with the settings `other` this system starts from.

        Returns:
            Patterns of their names in that run, with `*` for any text, and their names here.

        Raises:
            ConfigError: a setting differs, so that the weights would mean something else.
        """
        if other.system == self.config.system:
            check_agreement(other, self.config)
        return {"*": "*"}

    def train(self, mode: bool = True) -> Self:
        """Switch to training mode, or to evaluation; frozen parts stay in evaluation mode."""
        super().train(mode)
        for part in self.frozen:
            part.eval()
        return self

    @property
    def longest(self) -> int | None:
        """The most tokens of a sentence on either side, ``</s>`` counted; None: no limit."""
        return None

    def tag(self, memory: Memory) -> dict[str, Tensor]:
        """Return the logits of labels of source tokens, [B, S, labels] by kind of label.

        Args:
            memory: the result of `encode`.

        Returns:
            ``pos`` for parts of speech, ``ner`` for named entities; nothing without such heads.
        """
        return {}

    @property
    def label_counts(self) -> dict[str, int]:
        """The number of labels that the logits of `tag` are for, by kind of label."""
        return {}

    @property
    def auxiliary_weights(self) -> dict[str, float]:
        """The weights of the losses of labels, by kind; the loss of translation weighs 1."""
        return {}

    def auxiliary(self, memory: Memory, labels: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the cross-entropy of labels, summed over labelled source tokens, by kind.

        Args:
            memory: the result of `encode`.
            labels: numbers of labels by kind, [B, S]; -100 where a token has none.
        """
        losses = {}
        for kind, logits in self.tag(memory).items():
            if kind in labels:
                scores = logits.to(torch.promote_types(logits.dtype, torch.float32))
                losses[kind] = F.cross_entropy(
                    scores.flatten(0, 1), labels[kind].flatten(), reduction="sum"
                )
        return losses

    def parameter_count(self) -> int:
        """Count trainable numbers, shared matrices once."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)

    def frozen_count(self) -> int:
        """Count the numbers that are not trained."""
        return sum(parameter.numel() for parameter in self.parameters()) - self.parameter_count()

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return next(self.parameters()).device


def check_agreement(
    there: SystemConfig, here: SystemConfig, names: Mapping[str, str] | None = None
) -> None:
    """Check that weights of one model mean the same in another.

    Args:
        there: the settings of the model that the weights are from.
        here: the settings of the model that starts from them.
        names: the settings to compare, with their names in the user's configuration; by default
            those of `SystemConfig.meaning`.

    Raises:
        ConfigError: a setting differs.
    """
    if names is None:
        theirs, ours = there.meaning(), here.meaning()
        # last those that only one of the models uses: they differ because others do
        names = {name: name for name in sorted(ours, key=lambda name: name not in theirs)}
    else:
        theirs, ours = ({name: getattr(c, name, None) for name in names} for c in (there, here))
    for key, name in names.items():
        if theirs.get(key) != ours[key]:
            raise ConfigError(
                f"{key} is {theirs.get(key)} in the run to start from, and {ours[key]} here",
                where=f"model.{name}",
                kind="run.other-size",
            )
