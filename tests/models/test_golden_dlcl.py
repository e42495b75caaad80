"""DLCL against numbers of the original code (wangqiangneu/dlcl, `dlcl_transformer`).

The numbers lie outside the repository: every folder with that model below
JTRANS_TEST_GOLDEN_SYSTEMS, or ../shared/golden-systems beside the repository. Each holds weights,
inputs and what the original computes from them, in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from plugins.folders import needs_golden_systems
from plugins.golden_systems import (
    OUR_ORDER,
    Golden,
    check_greedy_steps,
    golden_folders,
    in_their_order,
    open_golden,
)
from torch import Tensor

from jtrans.models.deep import Dlcl
from jtrans.models.systems import DlclConfig
from jtrans.nn.combination import LayerCombination

MODELS = ("dlcl_transformer", "simple_dlcl_transformer")
NORMS = {False: "post", True: "pre"}

pytestmark = needs_golden_systems


def is_built(settings: dict[str, Any]) -> bool:
    """Whether these settings are those of published results, and so exist here."""
    return (
        settings.get("weight_type", "scalar") == "scalar"
        and not settings.get("normalize_learned_weight")
        and not settings.get("normalize_embed")
        and settings["encoder_normalize_before"] == settings["decoder_normalize_before"]
    )


def folders() -> list[Path]:
    """Return the folders of models that can be built."""
    return golden_folders(
        lambda content: content.get("model") in MODELS and is_built(content["settings"])
    )


def build(content: dict[str, Any]) -> Dlcl:
    config = config_of(content["settings"])
    return Dlcl(config, content["source_dictionary_size"], content["target_dictionary_size"])


@pytest.fixture(scope="module", params=folders(), ids=lambda folder: folder.name)
def golden(request: pytest.FixtureRequest) -> Iterator[Golden[Dlcl]]:
    with open_golden(request.param, build, our_weights) as opened:
        yield opened


def config_of(settings: dict[str, Any]) -> DlclConfig:
    """Return the configuration of the original's settings."""
    tie = "decoder" if settings["share_decoder_input_output_embed"] else "none"
    return DlclConfig(
        width=settings["encoder_embed_dim"],
        ffn_width=settings["encoder_ffn_embed_dim"],
        heads=settings["encoder_attention_heads"],
        encoder_layers=settings["encoder_layers"],
        decoder_layers=settings["decoder_layers"],
        norm=NORMS[settings["encoder_normalize_before"]],
        tie="all" if settings["share_all_embeddings"] else tie,
        position_offset=2,
    )


def our_weights(model: Dlcl, theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the original's weights under our names."""
    weights: dict[str, Tensor] = {}

    def take(ours: str, name: str, *parts: str) -> None:
        for part in parts or ("weight", "bias"):
            weights[f"{ours}.{part}"] = theirs[f"{name}.{part}"]

    order = [*OUR_ORDER, *range(4, 1000)]
    for side, embedding in (("encoder", "source"), ("decoder", "target")):
        rows = theirs[f"{side}.embed_tokens.weight"]
        weights[f"{embedding}_embedding.tokens.weight"] = rows[order[: len(rows)]]
    rows = theirs.get("decoder.embed_out", theirs["decoder.embed_tokens.weight"])
    weights["output.weight"] = rows[order[: len(rows)]]
    for n in range(model.config.encoder_layers):
        ours, name = f"encoder.layers.{n}", f"encoder.layers.{n}"
        take_attention(weights, theirs, f"{ours}.attention", f"{name}.self_attn")
        take(f"{ours}.attention_residual.norm", f"{name}.layer_norms.0")
        take(f"{ours}.ffn_residual.norm", f"{name}.layer_norms.1")
        take(f"{ours}.feed_forward.inner", f"{name}.fc1")
        take(f"{ours}.feed_forward.outer", f"{name}.fc2")
    for n in range(model.config.decoder_layers):
        ours, name = f"layers.{n}", f"decoder.layers.{n}"
        take_attention(weights, theirs, f"{ours}.self_attention", f"{name}.self_attn")
        cross = f"{ours}.cross_attention"
        for part in ("weight", "bias"):
            query, key, value = theirs[f"{name}.encoder_attn.in_proj_{part}"].chunk(3)
            weights[f"{cross}.query.{part}"] = query
            weights[f"{cross}.key_value.{part}"] = torch.cat([key, value])
        take(f"{cross}.out", f"{name}.encoder_attn.out_proj")
        for k in range(3):
            take(f"{ours}.residuals.{k}.norm", f"{name}.layer_norms.{k}")
        take(f"{ours}.feed_forward.inner", f"{name}.fc1")
        take(f"{ours}.feed_forward.outer", f"{name}.fc2")
    for ours, side, norm in (
        ("encoder.stack", "encoder", "encoder.norm"),
        ("stack", "decoder", "norm"),
    ):
        table = theirs[f"{side}.history.weight"].squeeze(-1)
        weights[f"{ours}.weights"] = table[tuple(torch.tril_indices(*table.shape))]
        first = 0 if f"{side}.history.layer_norms.0.weight" in theirs else 1
        for n in range(len(table) - 1):
            take(f"{ours}.norms.{n}", f"{side}.history.layer_norms.{n + first}")
        if model.config.norm == "pre":
            take(norm, f"{side}.layer_norm")
    return weights


def take_attention(
    weights: dict[str, Tensor], theirs: dict[str, Tensor], ours: str, name: str
) -> None:
    for part in ("weight", "bias"):
        weights[f"{ours}.in_{part}"] = theirs[f"{name}.in_proj_{part}"]
        weights[f"{ours}.out.{part}"] = theirs[f"{name}.out_proj.{part}"]


def close(ours: Tensor, theirs: NDArray[np.float32]) -> None:
    torch.testing.assert_close(ours, torch.from_numpy(theirs), rtol=0.0, atol=1e-5)


def test_the_logits_are_those_of_the_original(golden: Golden[Dlcl]) -> None:
    for i, (source, target) in enumerate(zip(golden.sources, golden.targets, strict=True)):
        ids, target_in = torch.tensor([source]), torch.tensor([[1, *target[:-1]]])
        with torch.inference_mode():
            memory = golden.model.encode(ids, ids != 0)
            logits = golden.model.project(golden.model.decode(target_in, memory))[0]
        S, T = len(source), len(target)
        close(memory.states[0], golden.expected["encoder_out"][i, -S:])
        close(in_their_order(logits), golden.expected["logits"][i, :T])
        scores = logits.log_softmax(-1)[torch.arange(T), torch.tensor(target)]
        close(scores, golden.expected["token_logprob"][i, :T])


def test_what_every_layer_reads_is_what_it_reads_in_the_original(golden: Golden[Dlcl]) -> None:
    combined: dict[str, list[Tensor]] = {"encoder": [], "decoder": []}
    owners: dict[str, Any] = {"encoder": golden.model.encoder, "decoder": golden.model}
    for name, owner in owners.items():
        owner.stack = Recorded(owner.stack, combined[name])
    try:
        for i, (source, target) in enumerate(zip(golden.sources, golden.targets, strict=True)):
            for states in combined.values():
                states.clear()
            ids, target_in = torch.tensor([source]), torch.tensor([[1, *target[:-1]]])
            with torch.inference_mode():
                golden.model.decode(target_in, golden.model.encode(ids, ids != 0))
            S, T = len(source), len(target)
            close(torch.cat(combined["encoder"]), golden.expected["encoder_combined"][:, i, -S:])
            close(torch.cat(combined["decoder"]), golden.expected["decoder_combined"][:, i, :T])
    finally:
        for owner in owners.values():
            owner.stack = owner.stack.inner


class Recorded(torch.nn.Module):
    """A stack that records what its layers read, and what it returns."""

    def __init__(self, inner: LayerCombination, states: list[Tensor]) -> None:
        super().__init__()
        self.inner = inner
        self.states = states

    def forward(self, x: Tensor, layer: Any) -> Tensor:
        def recorded(n: int, x: Tensor) -> Tensor:
            self.states.append(x)
            return layer(n, x)  # type: ignore[no-any-return]

        out = self.inner(x, recorded)
        self.states.append(out)
        return out  # type: ignore[no-any-return]


def test_greedy_steps_are_those_of_the_original(golden: Golden[Dlcl]) -> None:
    check_greedy_steps(golden, close)
