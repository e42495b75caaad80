"""Hybrids of Transformer and RNMT+ (docs/systems.md 8)."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jtrans.config import Config, build_config
from jtrans.data.batch import Batch
from jtrans.data.prepared import PreparedCorpus
from jtrans.decoding.translator import load_model
from jtrans.errors import ConfigError
from jtrans.models.systems import HybridConfig
from jtrans.models.zoo import build_model, system_configs
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.embedding import sinusoids
from jtrans.runs import Run
from jtrans.training.session import train
from jtrans.training.setup.build import make_trainer
from jtrans.training.weights.initial import freeze

EXACT: dict[str, Any] = {"rtol": 0.0, "atol": 1e-10}  # float64
Build = Callable[..., Any]  # tests look into the models
RNMT = {"encoder_layers": 3, "decoder_layers": 3}
HYBRID: dict[str, Any] = {"decoder": "rnmt", "rnmt_encoder_layers": 3, "rnmt_decoder_layers": 3}
SIZES: dict[str, dict[str, Any]] = {
    "rnmt-plus": {"width": 16, "heads": 2, **RNMT},
    "transformer": {
        "width": 16,
        "ffn_width": 32,
        "heads": 2,
        "encoder_layers": 2,
        "decoder_layers": 1,
    },
    "hybrid": {
        "width": 16,
        "ffn_width": 32,
        "heads": 2,
        "rnmt_heads": 2,
        "n_cascade": 1,
        "encoder_layers": 2,
        "decoder_layers": 1,
        **HYBRID,
    },
}


def logits(model: Any, batch: Batch) -> Tensor:
    """Return the logits of real target positions, [N, V]."""
    memory = model.encode(batch.source, batch.source_mask)
    return model.project(model.decode(batch.target_in, memory))[batch.target_mask]  # type: ignore[no-any-return]


def memory_states(model: Any, batch: Batch) -> Tensor:
    """Return the encoder's output at real source positions, [N, E]."""
    memory = model.encode(batch.source, batch.source_mask)
    return memory.states[batch.source_mask]  # type: ignore[no-any-return]


def give_weights(model: nn.Module, other: nn.Module) -> None:
    """Copy to `model` all weights of `other` that it has under the same names."""
    weights, theirs = model.state_dict(), other.state_dict()
    shared = weights.keys() & theirs.keys()
    assert shared
    with torch.no_grad():
        for name in shared:
            weights[name].copy_(theirs[name])


def scramble_norms(model: nn.Module) -> None:
    """Give the layer norms gains and shifts that matter."""
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            nn.init.normal_(module.weight, 1.0, 0.3)
            nn.init.normal_(module.bias, 0.0, 0.3)


# The equations, step by step


def normed(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    """Compute a layer norm feature by feature."""
    mean = x.sum(-1, keepdim=True) / x.shape[-1]
    variance = ((x - mean) ** 2).sum(-1, keepdim=True) / x.shape[-1]
    return (x - mean) / torch.sqrt(variance + norm.eps) * norm.weight + norm.bias


def attended(x: Tensor, attention: Any, heads: int) -> Tensor:
    """Compute the self-attention of one sentence without padding, [S, E], query by query."""
    E = x.shape[-1]
    q, k, v = (x @ attention.in_weight.t() + attention.in_bias).split(E, dim=-1)
    rows = []
    for i in range(len(x)):
        parts = []
        for h in range(heads):
            part = slice(h * E // heads, (h + 1) * E // heads)
            scores = torch.stack([q[i, part] @ key[part] for key in k]) / math.sqrt(E // heads)
            weights = scores.exp() / scores.exp().sum()
            terms = [weight * value[part] for weight, value in zip(weights, v, strict=True)]
            parts.append(torch.stack(terms).sum(0))
        rows.append(torch.cat(parts))
    output: nn.Linear = attention.out
    return torch.stack(rows) @ output.weight.t() + output.bias


def test_the_cascade_equals_its_equations_written_step_by_step(build: Build) -> None:
    torch.manual_seed(3)
    model = build("hybrid", encoder="cascade")
    scramble_norms(model)
    source = torch.tensor([[5, 9, 12, 4, 1]])
    mask = source != 0
    encoder = model.encoder
    x = normed(encoder.rnmt(source, mask)[0], encoder.norm)
    for layer in encoder.transformer.layers:
        x = x + attended(normed(x, layer.attention_residual.norm), layer.attention, 2)
        hidden = normed(x, layer.ffn_residual.norm)
        block = layer.feed_forward
        first, second = (part for part in block.modules() if isinstance(part, nn.Linear))
        hidden = (hidden @ first.weight.t() + first.bias).clamp(min=0.0)
        x = x + hidden @ second.weight.t() + second.bias
    expected = normed(x, encoder.transformer.norm)
    torch.testing.assert_close(model.encode(source, mask).states[0], expected, **EXACT)


def test_the_columns_equal_their_equations_written_step_by_step(build: Build) -> None:
    torch.manual_seed(3)
    model = build("hybrid", encoder="columns")
    scramble_norms(model)
    source = torch.tensor([[5, 9, 12, 4, 1]])
    mask = source != 0
    encoder = model.encoder
    left = normed(encoder.rnmt(source, mask)[0], encoder.norm)
    right = encoder.transformer(source, mask)[0]
    weight, bias = encoder.merge.weight, encoder.merge.bias
    expected = left @ weight[:, :16].t() + right @ weight[:, 16:].t() + bias
    torch.testing.assert_close(model.encode(source, mask).states[0], expected, **EXACT)


def test_positions_are_added_to_the_cascade_on_request(build: Build, batch: Batch) -> None:
    models = [
        build("hybrid", encoder="cascade", n_cascade=0, cascade_positions=has)
        for has in (False, True)
    ]
    give_weights(models[1], models[0])
    for model in models:
        model.encoder.transformer.norm = None
    plain, with_positions = (m.encode(batch.source, batch.source_mask).states for m in models)
    expected = sinusoids(plain.shape[1], 16).to(plain).expand_as(plain)
    torch.testing.assert_close(with_positions - plain, expected, **EXACT)


# H1 is the contract tests of all eight pairs, see conftest.py


@pytest.mark.parametrize("encoder", ["transformer", "rnmt", "cascade", "columns"])
def test_encoders_are_exchangeable(encoder: str, build: Build, batch: Batch) -> None:
    for decoder in ("rnmt", "transformer"):
        model = build("hybrid", encoder=encoder, decoder=decoder)
        memory = model.encode(batch.source, batch.source_mask)
        assert memory.states.shape == (3, 6, 16)  # H1
        other = build("hybrid", decoder=decoder)
        assert other.decode(batch.target_in, memory).isfinite().all()


@pytest.mark.parametrize(("encoder", "decoder"), [("cascade", "rnmt"), ("columns", "transformer")])
def test_every_dropout_has_the_rate_of_its_part(encoder: str, decoder: str, build: Build) -> None:
    rates = {"dropout": 0.1, "attention_dropout": 0.2, "relu_dropout": 0.3}
    rates |= {"rnmt_dropout": 0.4, "rnmt_attention_dropout": 0.5}
    model = build("hybrid", encoder=encoder, decoder=decoder, **rates)
    of_rnmt = ("encoder.rnmt.", "decoder.") if decoder == "rnmt" else ("encoder.rnmt.",)
    for name, part in model.named_modules():
        if isinstance(part, SharedDropout):
            is_attention, is_hidden = "attention.dropout" in name, "feed_forward.dropout" in name
            kind = (
                "attention_dropout" if is_attention else "relu_dropout" if is_hidden else "dropout"
            )
            assert part.rate == rates[f"rnmt_{kind}" if name.startswith(of_rnmt) else kind], name


def test_a_frozen_encoder_gets_no_gradient_does_not_change_and_has_no_dropout(
    build: Build, batch: Batch
) -> None:
    model = build("hybrid", rate=0.5, rnmt_dropout=0.5, encoder="cascade")
    freeze(model, ["encoder.rnmt.*"])
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    frozen = model.encoder.rnmt
    evaluated = frozen(batch.source, batch.source_mask)
    model.train()
    assert torch.equal(frozen(batch.source, batch.source_mask), evaluated)
    optimiser = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    F.cross_entropy(logits(model, batch), batch.target_out[batch.target_mask]).backward()
    optimiser.step()
    assert all(parameter.grad is None for parameter in frozen.parameters())  # H2
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[name]) == name.startswith("encoder.rnmt."), name
    assert torch.equal(frozen(batch.source, batch.source_mask), evaluated)


def test_a_cascade_without_layers_and_norms_is_rnmt_plus(build: Build, batch: Batch) -> None:
    model = build("hybrid", encoder="cascade", n_cascade=0, **HYBRID)
    model.encoder.norm, model.encoder.transformer.norm = nn.Identity(), None
    plain = build("rnmt-plus", **RNMT)
    plain.encoder.load_state_dict(model.encoder.rnmt.state_dict())
    plain.decoder.load_state_dict(model.decoder.state_dict())
    torch.testing.assert_close(logits(model, batch), logits(plain, batch), **EXACT)  # H3


@pytest.mark.parametrize("column", ["rnmt", "transformer"])
def test_columns_of_which_one_counts_are_that_one(column: str, build: Build, batch: Batch) -> None:
    model = build("hybrid", encoder="columns", **HYBRID)
    scramble_norms(model)
    alone = build("hybrid", encoder=column, **HYBRID)
    give_weights(alone, model)
    identity, zero = torch.eye(16), torch.zeros(16, 16)
    halves = [identity, zero] if column == "rnmt" else [zero, identity]
    with torch.no_grad():
        model.encoder.merge.weight.copy_(torch.cat(halves, dim=1))
    torch.testing.assert_close(logits(model, batch), logits(alone, batch), **EXACT)  # H4


def test_the_norm_at_the_joint_takes_the_scale_away(build: Build, batch: Batch) -> None:
    model = build("hybrid", encoder="rnmt", decoder="transformer")
    with torch.no_grad():
        model.encoder.rnmt.projection.weight.mul_(1e3)  # so that epsilon does not count
        before = logits(model, batch)
        model.encoder.rnmt.projection.weight.mul_(7.0)
        model.encoder.rnmt.projection.bias.mul_(7.0)
    torch.testing.assert_close(logits(model, batch), before, rtol=0.0, atol=1e-6)  # H5


def test_attention_of_all_parts_is_explained(build: Build, batch: Batch) -> None:
    kinds = {}
    for encoder in ("transformer", "rnmt", "cascade", "columns"):
        for decoder in ("rnmt", "transformer"):
            model = build("hybrid", encoder=encoder, decoder=decoder)
            maps = model.explain(batch.source, batch.target_in)
            kinds[encoder, decoder] = [each.name for each in maps]
            for each in maps:
                sums = each.weights.sum(-1)
                torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0.0, atol=1e-6)
    encoder_maps = ["encoder.0.self", "encoder.1.self"]
    layers = [f"decoder.{n}.{kind}" for n in range(2) for kind in ("self", "cross")]
    for encoder in ("transformer", "cascade", "columns"):
        assert kinds[encoder, "rnmt"] == [*encoder_maps, "decoder.0.cross"]
        assert kinds[encoder, "transformer"] == [*encoder_maps, *layers]
    assert kinds["rnmt", "rnmt"] == ["decoder.0.cross"]
    assert kinds["rnmt", "transformer"] == layers


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 10, "heads": 4}, "width 10 is not a multiple of heads 4"),
        ({"width": 10, "heads": 2}, "width 10 is not a multiple of rnmt_heads 4"),
        ({"width": 3, "heads": 1, "rnmt_heads": 1}, "width 3 must be even"),
        ({"cascade_positions": True}, "cascade_positions is for encoder = 'cascade'"),
        ({"project": False}, "project = false needs encoder = 'columns'"),
        (
            {"project": False, "encoder": "columns", "decoder": "transformer"},
            "not 'columns' and 'transformer'",
        ),
        ({"n_cascade": -1}, "n_cascade"),
        ({"encoder_layers": 0}, "encoder_layers"),
        ({"encoder": "lstm"}, "model.encoder"),
    ],
)
def test_impossible_combinations_are_refused(settings: dict[str, Any], message: str) -> None:
    values = {"model": {"system": "hybrid", **settings}}
    with pytest.raises(ConfigError) as caught:
        build_config(values, system_configs(), where="test")
    assert message in caught.value.message
    assert "\n" not in caught.value.message


# On top of trained runs


def config_of(system: str, model: dict[str, Any] | None = None, **training: Any) -> Config:
    """Return the configuration of a short training of a tiny model."""
    values = {
        "model": {"system": system, **SIZES[system], **(model or {})},
        "training": {
            "batch_tokens": 100,
            "max_updates": 2,
            "validate_sentences": 0,
            "schedule": {"name": "constant"},
            **training,
        },
    }
    return build_config(values, system_configs(), where="test")


@pytest.fixture(scope="module")
def runs(corpus: PreparedCorpus, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of RNMT+ and one of a Transformer."""
    folder = tmp_path_factory.mktemp("runs")
    for system in ("rnmt-plus", "transformer"):
        train(config_of(system), data=corpus.folder, run=folder / system)
    return {system: folder / system for system in ("rnmt-plus", "transformer")}


def trained(run: Path) -> Any:
    """Load the best model of a run."""
    return load_model(Run.open(run), "best", torch.device("cpu"))


@pytest.mark.parametrize("encoder", ["rnmt", "cascade", "columns"])
def test_a_run_of_rnmt_plus_is_restored_exactly(
    encoder: str, runs: dict[str, Path], corpus: PreparedCorpus, tmp_path: Path, batch: Batch
) -> None:
    settings = {"init_from": str(runs["rnmt-plus"]), "freeze": ["encoder.rnmt.*"]}
    config = config_of("hybrid", {"encoder": encoder}, **settings)
    train(config, data=corpus.folder, run=tmp_path / "run")
    model, origin = trained(tmp_path / "run"), trained(runs["rnmt-plus"])
    ours, theirs = model.encoder.rnmt.state_dict(), origin.encoder.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)  # H7
    inputs = batch.source, batch.source_mask
    assert torch.equal(model.encoder.rnmt(*inputs), origin.encoder(*inputs))
    info = Run.open(tmp_path / "run").info
    assert [entry["into"] for entry in info["init_from"]] == ["encoder.rnmt.*", "decoder.*"]
    assert info["frozen_parameters"] == sum(weight.numel() for weight in ours.values())


def test_columns_start_from_two_runs(
    runs: dict[str, Path], corpus: PreparedCorpus, tmp_path: Path
) -> None:
    entries = [{"run": str(run)} for run in runs.values()]
    frozen = ["encoder.rnmt.*", "encoder.transformer.*"]
    config = config_of("hybrid", {"encoder": "columns"}, init_from=entries, freeze=frozen)
    train(config, data=corpus.folder, run=tmp_path / "run")
    model, transformer = trained(tmp_path / "run"), trained(runs["transformer"])
    source = torch.tensor([[5, 9, 12, 4, 1], [6, 8, 1, 0, 0]])
    states = model.encoder.transformer(source, source != 0)
    assert torch.equal(states, transformer.encode(source, source != 0).states)


def test_a_transformer_run_gives_a_hybrid_its_decoder(
    runs: dict[str, Path], corpus: PreparedCorpus, tmp_path: Path
) -> None:
    combination = {"encoder": "rnmt", "decoder": "transformer"}
    entries = [{"run": str(runs["transformer"])}, {"run": str(runs["rnmt-plus"])}]
    config = config_of("hybrid", combination, init_from=entries, freeze=["decoder.*"])
    train(config, data=corpus.folder, run=tmp_path / "run")
    model, origin = trained(tmp_path / "run"), trained(runs["transformer"])
    for name, weight in model.decoder.state_dict().items():
        assert torch.equal(weight, origin.state_dict()[name])


@pytest.mark.parametrize(
    ("model", "origin", "message"),
    [
        (
            {"rnmt_encoder_layers": 2, "encoder": "cascade"},
            "rnmt-plus",
            "encoder_layers is 3 in the run to start from, and 2 here",
        ),
        (
            {"encoder": "cascade", "width": 32},
            "rnmt-plus",
            "width is 16 in the run to start from, and 32 here",
        ),
        ({"rnmt_heads": 4}, "rnmt-plus", "heads is 2 in the run to start from, and 4 here"),
        ({"ffn_width": 64}, "transformer", "ffn_width is 32 in the run to start from"),
        ({"encoder": "cascade"}, "transformer", "encoder 'cascade' and decoder 'rnmt' has no part"),
    ],
)
def test_runs_that_do_not_fit_are_refused_with_both_values(
    model: dict[str, Any],
    origin: str,
    message: str,
    runs: dict[str, Path],
    corpus: PreparedCorpus,
    tmp_path: Path,
) -> None:
    config = config_of("hybrid", model, init_from=str(runs[origin]))
    with pytest.raises(ConfigError) as caught:
        train(config, data=corpus.folder, run=tmp_path / "run")
    assert message in caught.value.message
    assert str(runs[origin]) in caught.value.message
    assert not (tmp_path / "run").exists()


def test_columns_not_projected_take_only_the_encoder_of_rnmt_plus() -> None:
    config = HybridConfig(width=16, encoder="columns", project=False)
    model = build_model(config, 20, 24)
    assert dict(model.initial_weights(config.rnmt)) == {"encoder.*": "encoder.rnmt.*"}


def test_training_reaches_every_part_that_is_not_frozen(corpus: PreparedCorpus) -> None:
    config = config_of("hybrid", {"encoder": "columns"}, freeze=["encoder.rnmt.*"])
    model = make_trainer(Run(Path("never")), config, corpus)[0].model
    assert [part.__class__.__name__ for part in model.frozen] == ["RnmtEncoder"]
    names = {name for name, weight in model.named_parameters() if not weight.requires_grad}
    assert names == {
        name for name, _ in model.named_parameters() if name.startswith("encoder.rnmt.")
    }
