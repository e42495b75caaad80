"""Token vectors with sinusoidal positions (docs/systems.md 0.5) or learned ones."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from jtrans.errors import DecodingError
from jtrans.nn.dropout import SharedDropout

PADDING = 0  # the id of <pad>; its rows are zero and get no gradient from the lookup


def sinusoids(count: int, width: int, *, layout: str = "t2t", base: float = 10000.0) -> Tensor:
    """Return the position vectors of positions 0..count-1, [count, E].

    Args:
        count: number of positions.
        width: E, even.
        layout: ``t2t`` (all sines, then all cosines) or ``vaswani`` (interleaved).
        base: wavelength base; 10000 in every implementation.
    """
    index = torch.arange(width // 2, dtype=torch.float64)
    if layout == "t2t":
        rates = torch.exp(index * (-math.log(base) / (width // 2 - 1)))
    else:
        rates = torch.exp(index * (-2.0 * math.log(base) / width))
    angles = torch.arange(count, dtype=torch.float64)[:, None] * rates  # [count, E/2]
    halves = (angles.sin(), angles.cos())
    if layout == "t2t":
        table = torch.cat(halves, dim=1)  # [count, E]
    else:
        table = torch.stack(halves, dim=2).flatten(1)  # [count, E]
    return table.float()


def is_token(ids: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 1 for tokens and 0 for padding, [B, L] -> [B, L, 1].

    Needed as the embedding of ``<pad>`` does not stay zero if its matrix is tied to the output.
    """
    return (ids != PADDING).unsqueeze(-1).to(dtype)


def token_embedding(vocabulary: int, width: int) -> nn.Embedding:
    """Return an embedding drawn normal(0, E^-1/2) whose padding row is zero."""
    embedding = nn.Embedding(vocabulary, width, padding_idx=PADDING)
    nn.init.normal_(embedding.weight, std=width**-0.5)
    with torch.no_grad():
        embedding.weight[PADDING].zero_()
    return embedding


class InputEmbedding(nn.Module):
    """Token vectors scaled by sqrt(E), plus positions, then dropout.

    Args:
        tokens: the embedding, possibly shared with other parts.
        layout: layout of the sinusoids.
        base: base of the sinusoids.
        offset: position of the first token.
        scale_positions: scale positions by sqrt(E) too.
        dropout: dropout of the sum.
    """

    table: Tensor
    side: nn.Parameter | None

    def __init__(
        self,
        tokens: nn.Embedding,
        *,
        layout: str,
        base: float,
        offset: int,
        scale_positions: bool,
        dropout: SharedDropout,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.layout = layout
        self.base = base
        self.offset = offset
        self.scale = math.sqrt(tokens.embedding_dim)
        self.scale_positions = scale_positions
        self.dropout = dropout
        self.register_parameter("side", None)
        self.register_buffer("table", torch.empty(0, tokens.embedding_dim), persistent=False)

    def add_side_vector(self) -> None:
        """Add a learned vector, drawn like the tokens, to every token of this side."""
        width = self.tokens.embedding_dim
        self.side = nn.Parameter(torch.randn(width) * width**-0.5)

    def forward(self, ids: Tensor, start: int = 0) -> Tensor:
        """Embed token ids.

        Args:
            ids: token ids, [B, L]; padding gives zero vectors.
            start: the number of tokens that precede the first one.

        Returns:
            Vectors, [B, L, E].
        """
        L = ids.shape[1]
        positions = self.positions(start, L)  # [L, E]
        vectors = self.tokens(ids) if self.side is None else self.tokens(ids) + self.side
        x = vectors * self.scale + positions  # sqrt(E) Emb(ids) + PE
        return self.dropout(x * is_token(ids, x.dtype))  # type: ignore[no-any-return]

    def positions(self, start: int, count: int) -> Tensor:
        """Return the position vectors of `count` tokens after `start` others, [count, E]."""
        first = start + self.offset
        table = self.table  # read once: another thread may put a shorter one in its place
        if first + count > len(table):
            size = max(256, 2 * (first + count))
            table = sinusoids(size, self.tokens.embedding_dim, layout=self.layout, base=self.base)
            table = table.to(self.tokens.weight)
            self.table = table
        positions = table[first : first + count]
        return positions * self.scale if self.scale_positions else positions


class LearnedPositionEmbedding(nn.Module):
    """Token vectors plus a learned vector for each position, then dropout (docs/systems.md 9.1).

    Args:
        vocabulary: number of tokens.
        width: E.
        positions: the longest sentence, in tokens.
        dropout: dropout of the sum.
    """

    STD = 0.1

    def __init__(self, vocabulary: int, width: int, positions: int, dropout: SharedDropout) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width, padding_idx=PADDING)
        self.positions = nn.Parameter(torch.randn(positions, width) * self.STD)
        self.dropout = dropout
        nn.init.normal_(self.tokens.weight, std=self.STD)
        with torch.no_grad():
            self.tokens.weight[PADDING].zero_()

    def forward(self, ids: Tensor, start: int = 0) -> Tensor:
        """Embed token ids, [B, L] -> [B, L, E]; `start` tokens precede the first one.

        Padding gives zero vectors.

        Raises:
            DecodingError: there are more tokens than positions.
        """
        end, longest = start + ids.shape[1], len(self.positions)
        if end > longest:
            raise DecodingError(
                f"a sentence has {end:,} tokens, but this model has only {longest:,} positions",
                hint="split the sentence, or train with more positions: "
                f"--set model.positions={2 ** (end - 1).bit_length()}",
                kind="decoding.too-long",
            )
        x = self.tokens(ids) + self.positions[start:end]
        return self.dropout(x * is_token(ids, x.dtype))  # type: ignore[no-any-return]
