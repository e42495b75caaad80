"""ConvS2S against numbers of the original code (`fconv` of fairseq, as in lyy1994/reformer).

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

from jtrans.models.convs2s import ConvS2S
from jtrans.models.systems import Convs2sConfig

FIRST_POSITION = 2  # the row of the first word in the original's position tables

pytestmark = needs_golden_systems


def folders() -> list[Path]:
    """Return the folders of models of this kind."""
    return golden_folders(lambda content: content.get("model") == "fconv")


def build(content: dict[str, Any]) -> ConvS2S:
    sizes = content["source_dictionary_size"], content["target_dictionary_size"]
    return ConvS2S(config_of(content), *sizes)


@pytest.fixture(scope="module", params=folders(), ids=lambda folder: folder.name)
def golden(request: pytest.FixtureRequest) -> Iterator[Golden[ConvS2S]]:
    with open_golden(request.param, build, our_weights) as opened:
        yield opened


def config_of(content: dict[str, Any]) -> Convs2sConfig:
    """Return the configuration of the original's settings."""
    settings = content["settings"]
    attends = content["decoder_attention_expanded"]
    tables = settings["max_source_positions"], settings["max_target_positions"]
    return Convs2sConfig(
        width=settings["encoder_embed_dim"],
        output_width=settings["decoder_out_embed_dim"],
        encoder_layers=content["encoder_layers_expanded"],
        decoder_layers=content["decoder_layers_expanded"],
        attention=tuple(number for number, attended in enumerate(attends, start=1) if attended),
        positions=max(tables) - FIRST_POSITION,
        tie="decoder" if settings["share_input_output_embed"] else "none",
    )


def our_weights(model: ConvS2S, theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the original's weights under our names."""
    weights: dict[str, Tensor] = {}
    order = [*OUR_ORDER, *range(4, 1000)]

    def take(ours: str, name: str, rows: slice | list[int] = slice(None)) -> None:
        """Take a linear layer or a convolution, if it exists."""
        if f"{name}.weight_v" not in theirs:
            return
        direction = theirs[f"{name}.weight_v"]
        if direction.dim() == 3:  # [kernel, inputs, outputs]
            direction = direction.permute(2, 0, 1).flatten(1)
        weights[f"{ours}.direction"] = direction[rows]
        weights[f"{ours}.length"] = theirs[f"{name}.weight_g"].flatten()[rows]
        weights[f"{ours}.bias"] = theirs[f"{name}.bias"][rows]

    for side, ours in (("encoder", "source_embedding"), ("decoder", "target_embedding")):
        rows = theirs[f"{side}.embed_tokens.weight"]
        weights[f"{ours}.tokens.weight"] = rows[order[: len(rows)]]
        table = torch.zeros(model.config.positions, model.config.width)
        rows = theirs[f"{side}.embed_positions.weight"][FIRST_POSITION:]
        table[: len(rows)] = rows
        weights[f"{ours}.positions"] = table
    take("source_input", "encoder.fc1")
    take("keys", "encoder.fc2")
    take("target_input", "decoder.fc1")
    take("last", "decoder.fc2")
    for ours, side, layers in (
        ("encoder", "encoder", model.encoder),
        ("layers", "decoder", model.layers),
    ):
        for n in range(len(layers)):
            take(f"{ours}.{n}.convolution.linear", f"{side}.convolutions.{n}")
            take(f"{ours}.{n}.shortcut.projection", f"{side}.projections.{n}")
            take(f"{ours}.{n}.attention.query", f"{side}.attention.{n}.in_projection")
            take(f"{ours}.{n}.attention.out", f"{side}.attention.{n}.out_projection")
    rows_of_target = order[: len(theirs["decoder.fc3.bias"])]
    take("output", "decoder.fc3", rows_of_target)
    if model.config.tie == "decoder":
        weights["output.weight"] = weights["target_embedding.tokens.weight"]
        weights["output.bias"] = theirs["decoder.fc3.bias"][rows_of_target]
    return weights


def close(ours: Tensor, theirs: NDArray[np.float32]) -> None:
    torch.testing.assert_close(ours, torch.from_numpy(theirs), rtol=0.0, atol=2e-5)


def padded(sentences: list[list[int]]) -> Tensor:
    tensors = [torch.tensor(ids) for ids in sentences]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True)


def test_there_are_models_to_compare_with() -> None:
    assert folders()


def test_keys_values_and_logits_of_a_padded_batch_are_those_of_the_original(
    golden: Golden[ConvS2S],
) -> None:
    source, target_in = padded(golden.sources), padded([[1, *ids[:-1]] for ids in golden.targets])
    with torch.inference_mode():
        memory = golden.model.encode(source, source != 0)
        logits = in_their_order(golden.model.project(golden.model.decode(target_in, memory)))
    width = golden.expected["source_mask"].shape[1]  # padded on the left there
    for i, (source_ids, target_ids) in enumerate(zip(golden.sources, golden.targets, strict=True)):
        S, T = len(source_ids), len(target_ids)
        close(memory.states[i, :S], golden.expected["encoder_out"][i, width - S :])
        close(memory.values[i, :S], golden.expected["encoder_out_attended"][i, width - S :])
        close(logits[i, :T], golden.expected["logits"][i, :T])
        picked = logits[i, :T].log_softmax(-1).gather(1, their_ids(target_ids)[:, None])[:, 0]
        close(picked, golden.expected["token_logprob"][i, :T])


def their_ids(ids: list[int]) -> Tensor:
    return torch.tensor([OUR_ORDER[i] if i < len(OUR_ORDER) else i for i in ids])


def test_attention_maps_add_up_to_that_of_the_original(golden: Golden[ConvS2S]) -> None:
    depth = len(golden.model.layers)
    width = golden.expected["source_mask"].shape[1]
    for i, (source, target) in enumerate(zip(golden.sources, golden.targets, strict=True)):
        maps = golden.model.explain(torch.tensor([source]), torch.tensor([[1, *target[:-1]]]))
        total = sum((m.weights[0] for m in maps), torch.zeros(()))
        theirs = golden.expected["attention"][i, : len(target), width - len(source) :]
        close(total / depth, theirs)


def test_greedy_steps_are_those_of_the_original(golden: Golden[ConvS2S]) -> None:
    check_greedy_steps(golden, close)
