"""Properties of the Transformer (docs/systems.md 1.6) and of what all systems of its kind share."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jtrans.config import SystemConfig
from jtrans.data.batch import Batch
from jtrans.errors import ConfigError
from jtrans.models.base import TranslationModel
from jtrans.models.systems import TransformerConfig
from jtrans.models.zoo import build_model

EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-10}
ATTENTION_SYSTEMS = ["transformer", "reformer-base", "reformer-fast"]
Build = Callable[..., Any]  # tests look into the models


def logits(model: TranslationModel, batch: Batch) -> Tensor:
    """Return the logits of all positions, [B, T, V]."""
    with torch.no_grad():
        memory = model.encode(batch.source, batch.source_mask)
        return model.project(model.decode(batch.target_in, memory))


@pytest.fixture
def orders(batch: Batch) -> Tensor:
    """One permutation per sentence that also moves its padding, [B, S]."""
    return torch.stack([torch.randperm(batch.source.shape[1]) for _ in batch.source])


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_without_positions_the_encoder_moves_with_its_tokens(
    build: Build, batch: Batch, orders: Tensor, norm: str
) -> None:
    model = build("transformer", norm=norm)
    model.source_embedding.table = torch.zeros(64, 16, dtype=torch.float64)  # T1
    moved = Batch(
        batch.source.gather(1, orders),
        batch.source_mask.gather(1, orders),
        batch.target_in,
        batch.target_out,
        batch.target_mask,
        batch.indices,
    )
    states, moved_states = (model.encode(b.source, b.source_mask).states for b in (batch, moved))
    expected = states.gather(1, orders[:, :, None].expand_as(states))
    mask = moved.source_mask
    torch.testing.assert_close(moved_states[mask], expected[mask], **EXACT)
    torch.testing.assert_close(logits(model, moved), logits(model, batch), **EXACT)


def test_with_positions_the_order_of_the_source_matters(build: Build, batch: Batch) -> None:
    model = build("transformer")
    before = logits(model, batch)
    batch = Batch(**(vars(batch) | {"source": batch.source[:, [1, 0, 2, 3, 4, 5]]}))
    assert (logits(model, batch) - before)[:2].abs().max() > 1e-4


@pytest.mark.parametrize("system", ATTENTION_SYSTEMS)
def test_tokens_moved_together_with_their_positions_change_nothing(
    system: str, build: Build, make_batch: Callable[..., Batch]
) -> None:
    model = build(system)  # T2, R7
    batch = make_batch([[5, 9, 12, 4, 7, 1], [8, 3, 11, 10, 6, 1]], [[7, 4, 1], [9, 5, 1]])
    before = logits(model, batch)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    model.source_embedding.table = model.source_embedding.table[:6][order]
    moved = Batch(**(vars(batch) | {"source": batch.source[:, order]}))
    torch.testing.assert_close(logits(model, moved), before, **EXACT)


def test_one_matrix_for_all_gets_the_sum_of_the_gradients_of_its_three_uses(
    build: Build, batch: Batch
) -> None:
    tied, untied = build("transformer", tie="all"), build("transformer", tie="none")
    assert len({m.weight.data_ptr() for m in matrices(tied)}) == 1  # T4
    untied.source_embedding.tokens = nn.Embedding(24, 16, padding_idx=0).double()
    for parameter, value in zip(matrices(untied), matrices(tied), strict=True):
        parameter.weight.data = value.weight.data.clone()
    state = {k: v for k, v in tied.state_dict().items() if "tokens" not in k and "output" not in k}
    untied.load_state_dict(state, strict=False)
    for model in (tied, untied):
        hidden = model.decode(batch.target_in, model.encode(batch.source, batch.source_mask))
        scores = model.project(hidden[batch.target_mask])
        F.cross_entropy(scores, batch.target_out[batch.target_mask]).backward()
    gradients = [m.weight.grad for m in matrices(untied)]
    torch.testing.assert_close(tied.output.weight.grad, sum(gradients), **EXACT)
    assert tied.output.weight.grad[0].any()  # the padding row as an output


def matrices(model: Any) -> list[Any]:
    """Return the modules that hold the source, target and output matrices."""
    return [model.source_embedding.tokens, model.target_embedding.tokens, model.output]


def test_tying_the_decoder_leaves_the_source_alone(build: Build) -> None:
    source, target, output = matrices(build("transformer", tie="decoder"))
    assert target.weight is output.weight
    assert source.weight is not target.weight


def test_one_matrix_for_two_vocabularies_is_refused() -> None:
    with pytest.raises(ConfigError, match="20 tokens and the target 24") as caught:
        build_model(TransformerConfig(tie="all"), 20, 24)
    assert caught.value.where == "model.tie"
    assert "--vocabulary joint" in str(caught.value.hint)


def test_post_norm_states_have_zero_mean_and_unit_variance_at_first(
    build: Build, batch: Batch
) -> None:
    model = build("transformer", norm="post")  # T7
    hidden = model.decode(batch.target_in, model.encode(batch.source, batch.source_mask))
    torch.testing.assert_close(hidden.mean(-1), torch.zeros_like(hidden[..., 0]), **EXACT)
    variance = hidden.var(-1, correction=0)
    torch.testing.assert_close(variance, torch.ones_like(variance), rtol=0.0, atol=1e-3)


@torch.no_grad()
def test_pre_norm_with_silent_blocks_is_the_norm_of_the_embedding(
    build: Build, batch: Batch
) -> None:
    model = build("transformer")  # T8
    for name, parameter in model.named_parameters():
        if ".out." in name or ".outer." in name:
            parameter.zero_()
    memory = model.encode(batch.source, batch.source_mask)
    embedded = model.source_embedding(batch.source)
    torch.testing.assert_close(memory.states, F.layer_norm(embedded, (16,)), **EXACT)
    expected = F.layer_norm(model.target_embedding(batch.target_in), (16,))
    torch.testing.assert_close(model.decode(batch.target_in, memory), expected, **EXACT)


def test_the_source_is_looked_at_once_per_sentence(build: Build, batch: Batch) -> None:
    model = build("transformer")
    with torch.inference_mode():
        state = model.begin(model.encode(batch.source, batch.source_mask), 1)
        state = state.select(torch.tensor([[0] * 4, [1] * 4, [2] * 4]))
    for keys, values in state.source_keys_values:
        assert keys.shape == values.shape == (3, 2, batch.source.shape[1], 8)


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize(("layout", "offset"), [("t2t", 0), ("t2t", 2), ("vaswani", 0)])
def test_options_of_positions_reach_both_sides(
    build: Build, side: str, layout: str, offset: int
) -> None:
    model = build("transformer", position_layout=layout, position_offset=offset)
    other = build("transformer", position_base=1000.0)
    embed, plain = (getattr(m, f"{side}_embedding") for m in (model, other))
    assert (embed.layout, embed.offset, embed.base) == (layout, offset, 10000.0)
    assert plain.base == 1000.0


@pytest.mark.parametrize("system", ATTENTION_SYSTEMS)
def test_every_dropout_has_its_rate(system: str, build: Build) -> None:
    model = build(system, dropout=0.1, attention_dropout=0.2, relu_dropout=0.3)
    for name, module in model.named_modules():
        if name.endswith("dropout") and hasattr(module, "rate"):
            is_attention = "attention.dropout" in name
            is_hidden = "feed_forward.dropout" in name or "ffn.dropout" in name
            assert module.rate == (0.2 if is_attention else 0.3 if is_hidden else 0.1), name


@pytest.mark.parametrize("system", ATTENTION_SYSTEMS)
def test_a_fresh_model_has_zero_biases_and_plain_norms(system: str, build: Build) -> None:
    model = build(system)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            assert (module.weight == 1).all()
            assert module.eps == 1e-5


@pytest.mark.parametrize("tie", ["none", "decoder"])
def test_embeddings_and_output_have_the_deviation_of_the_design(tie: str) -> None:
    config: SystemConfig = TransformerConfig(
        width=64, ffn_width=64, encoder_layers=1, decoder_layers=1, tie=tie
    )
    for matrix in matrices(build_model(config, 2000, 3000)):
        assert matrix.weight[1:].std().item() == pytest.approx(64**-0.5, rel=0.02)
    source, target, _ = matrices(build_model(config, 2000, 3000))
    assert not source.weight[0].any()
    assert not target.weight[0].any()
