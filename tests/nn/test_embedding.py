"""Token vectors and positions (docs/systems.md 0.4, 0.5)."""

import math
from typing import Any

import pytest
import torch

from jtrans.models.pervasive import TokenVectors
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.embedding import (
    PADDING,
    InputEmbedding,
    LearnedPositionEmbedding,
    sinusoids,
    token_embedding,
)

LAYOUTS = ["t2t", "vaswani"]


def embedding(width: int = 8, dropout: float = 0.0, **changes: Any) -> InputEmbedding:
    """Return an input embedding of ten tokens."""
    options: dict[str, Any] = {
        "layout": "t2t",
        "base": 10000.0,
        "offset": 0,
        "scale_positions": False,
        "dropout": SharedDropout(dropout),
    }
    return InputEmbedding(token_embedding(10, width), **(options | changes))


def test_padding_is_zero_whatever_its_row_has_become() -> None:
    sides = embedding()
    sides.add_side_vector()
    free = SharedDropout(0.0)
    for module in (
        embedding(),
        sides,
        LearnedPositionEmbedding(10, 8, 5, free),
        TokenVectors(token_embedding(10, 8), 2.0, free),
    ):
        with torch.no_grad():
            module.tokens.weight[PADDING] = 3.0  # as a matrix tied to the output is trained
        vectors = module(torch.tensor([[4, PADDING, 5, PADDING]]))[0]
        assert (vectors[[1, 3]] == 0).all() and (vectors[[0, 2]] != 0).any(dim=1).all()


def test_the_two_halves_layout_is_its_formula() -> None:
    table = sinusoids(40, 16)
    for position in (0, 1, 17, 39):
        for i in range(8):
            angle = position * 10000.0 ** (-i / 7)
            assert table[position, i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 8 + i].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_the_interleaved_layout_is_its_formula() -> None:
    table = sinusoids(40, 16, layout="vaswani")
    for position in (0, 1, 17, 39):
        for i in range(8):
            angle = position * 10000.0 ** (-2 * i / 16)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_position_zero_is_zeros_then_ones() -> None:
    assert sinusoids(1, 6).tolist() == [[0, 0, 0, 1, 1, 1]]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("base", [1000.0, 10000.0])
def test_products_of_positions_depend_on_their_distance_alone(layout: str, base: float) -> None:
    table = sinusoids(60, 32, layout=layout, base=base).double()
    products = table @ table.t()
    for distance in (0, 1, 7, 30):
        diagonal = products.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=0, atol=1e-5)


def test_the_base_changes_the_wavelengths() -> None:
    assert not torch.allclose(sinusoids(20, 8), sinusoids(20, 8, base=1000.0))


def test_a_fresh_embedding_has_the_deviation_of_the_design_and_a_zero_padding_row() -> None:
    table = token_embedding(4000, 64)
    assert not table.weight[PADDING].any()
    assert table.weight[1:].std().item() == pytest.approx(64**-0.5, rel=0.01)
    assert table.weight[1:].mean().item() == pytest.approx(0.0, abs=0.002)


def test_scaled_token_vectors_have_about_unit_variance_per_feature() -> None:
    tokens = token_embedding(4000, 64)  # T5
    variance = (tokens(torch.arange(1, 4000)) * 64**0.5).var(dim=0)
    assert variance.min() > 0.85
    assert variance.max() < 1.15


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("offset", [0, 2])
def test_vectors_are_scaled_tokens_plus_positions(layout: str, offset: int) -> None:
    embed = embedding(layout=layout, offset=offset)
    ids = torch.tensor([[3, 4, 5], [9, 9, 1]])
    positions = sinusoids(3 + offset, 8, layout=layout)[offset:]
    torch.testing.assert_close(embed(ids), embed.tokens.weight[ids] * math.sqrt(8) + positions)


def test_positions_can_be_scaled_as_the_paper_prints_it() -> None:
    embed = embedding(scale_positions=True)
    ids = torch.tensor([[3, 4]])
    expected = (embed.tokens.weight[ids] + sinusoids(2, 8)) * math.sqrt(8)
    torch.testing.assert_close(embed(ids), expected)


def test_a_side_vector_is_added_to_every_token_and_learned() -> None:
    embed = embedding()
    plain = embed(torch.tensor([[3, 4]]))
    embed.add_side_vector()
    assert embed.side is not None
    torch.testing.assert_close(
        embed(torch.tensor([[3, 4]])), plain + (embed.side * math.sqrt(8)).expand(1, 2, 8)
    )
    assert "side" in dict(embed.named_parameters())


@pytest.mark.parametrize("scale_positions", [False, True])
def test_padding_gets_a_zero_vector(scale_positions: bool) -> None:
    vectors = embedding(scale_positions=scale_positions, offset=2)(torch.tensor([[3, 1, PADDING]]))
    assert vectors[0, :2].any(dim=-1).all()
    assert not vectors[0, 2].any()


@pytest.mark.parametrize("start", [1, 5, 255, 300, 2000])
def test_starting_later_continues_the_sentence(start: int) -> None:
    embed = embedding(offset=2)
    ids = torch.randint(1, 10, (1, start + 3))
    later = embed(ids[:, start:], start=start)  # a fresh table, perhaps longer than its first size
    torch.testing.assert_close(later, embed(ids)[:, start:])


def test_the_table_is_not_a_weight() -> None:
    embed = embedding()
    embed(torch.tensor([[3]]))
    assert set(embed.state_dict()) == {"tokens.weight"}


def test_the_table_follows_a_change_of_type() -> None:
    embed = embedding()
    embed(torch.tensor([[3]]))
    assert embed.double()(torch.tensor([[3]])).dtype == torch.float64
    assert embed.bfloat16()(torch.tensor([[3] * 600])).dtype == torch.bfloat16


def test_dropout_acts_on_the_sum_and_only_in_training() -> None:
    embed = embedding(width=64, dropout=0.5)
    ids = torch.randint(1, 10, (4, 9))
    plain = embed.eval()(ids)
    dropped = embed.train()(ids)
    kept = dropped != 0
    assert 0.4 < kept.float().mean() < 0.6
    torch.testing.assert_close(dropped[kept], 2 * plain[kept])
