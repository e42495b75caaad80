"""Pervasive attention against numbers of the original code (elbayadm/attn2d, 2018 and 2020).

The numbers lie outside the repository: every folder with such a model below
JTRANS_TEST_GOLDEN_SYSTEMS, or ../shared/golden-systems beside the repository. Each holds weights,
inputs and what the original computes from them, in float32. Compared is what it computes for each
sentence alone: in a batch its results depend on padding.

Not built here, and no published result depends on them: the dense network of 2020, layers of
another width than the grid, ReLUs after the 1 x 1 convolutions, gates in the attention, sides of
different widths.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from plugins.folders import needs_golden_systems
from plugins.golden_systems import golden_folders
from torch import Tensor

from jtrans.models.pervasive import Pervasive
from jtrans.models.systems import PervasiveConfig

# our ids of the original's first four
OUR_IDS = {"pervasive-2018": [0, 2, 1, 3], "pervasive-2020": [3, 0, 1, 2]}
AGGREGATION_2018 = {
    "max": "max",
    "truncated-max": "max",  # without padding they are the same
    "mean": "mean",
    "truncated-mean": "scaled-mean",
}
AGGREGATION_2020 = {"gated-max": "gated-max", "max": "max", "attn": "attention", "avg": "mean"}
TOLERANCE = 2e-5

pytestmark = needs_golden_systems


def aggregation(content: dict[str, Any]) -> str | None:
    """Return our name of an aggregation, None where there is none."""
    if content["system"] == "pervasive-2020":
        return AGGREGATION_2020.get(content["aggregator"])
    settings = content["aggregator"]
    if settings["mode"] != "max-attention":
        return AGGREGATION_2018.get(settings["mode"])
    if settings.get("nonlin", "none") != "none" or settings.get("scale_ctx", 1) != 1:
        return None
    return {"skip": "attention", "max": "max-attention"}.get(settings["first_aggregator"])


def is_built(content: dict[str, Any]) -> bool:
    """Whether such a network exists here."""
    is_dense = content["system"] == "pervasive-2018"
    return (
        aggregation(content) is not None
        and content["source_embedding"] == content["target_embedding"]
        and content["kernel"] % 2 == 1
        and (
            content.get("bottleneck_factor") == 4
            if is_dense
            else content["convnet"] == "resnet"
            and content["bottleneck"] == channels(content)
            and not content["add_conv_relu"]
            and content["positions"] in ("none", "sinusoidal")
        )
    )


def channels(content: dict[str, Any]) -> int:
    both = int(content["source_embedding"] + content["target_embedding"])
    if content["system"] == "pervasive-2018":
        return both // 2 if content["half_inputs"] else both
    return both // int(content["divide_channels"])


def folders() -> list[Path]:
    """Return the folders of models that can be built."""
    return golden_folders(lambda content: content.get("system") in OUR_IDS and is_built(content))


@dataclass(frozen=True)
class Golden:
    """A model with the original's weights, and what the original computes from them."""

    model: Pervasive
    our_ids: list[int]
    sources: list[list[int]]
    targets: list[list[int]]
    inputs: list[list[int]]
    expected: dict[str, NDArray[np.float32]]


@pytest.fixture(scope="module", params=folders(), ids=lambda folder: folder.name)
def golden(request: pytest.FixtureRequest) -> Iterator[Golden]:
    folder = request.param
    content, inputs = (
        json.loads((folder / name).read_text(encoding="utf-8"))
        for name in ("config.json", "inputs.json")
    )
    model = Pervasive(
        config_of(content), content["source_vocabulary"], content["target_vocabulary"]
    )
    theirs = safetensors.torch.load_file(folder / "weights.safetensors")
    if content["system"] == "pervasive-2018":
        model.load_state_dict(weights_2018(model, theirs, is_halved=content["half_inputs"]))
    else:
        model.load_state_dict(weights_2020(model, theirs))
    with np.load(folder / "expected.npz") as arrays:
        expected = dict(arrays)
    ids = OUR_IDS[content["system"]]
    source, target, target_in = (
        [[ids[i] if i < 4 else i for i in row] for row in inputs[side]]
        for side in ("source", "target", "target_input")
    )
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield Golden(model.eval(), ids, source, target, target_in, expected)
    torch.set_float32_matmul_precision(before)


def config_of(content: dict[str, Any]) -> PervasiveConfig:
    """Return the configuration of the original's settings."""
    is_dense = content["system"] == "pervasive-2018"
    key = "tie_target_weights" if is_dense else "share_decoder_input_output_embed"
    return PervasiveConfig(
        network="dense" if is_dense else "residual",
        layers=content["layers"],
        kernel=content["kernel"],
        width=content["source_embedding"],
        channels=channels(content),
        ffn_width=content.get("ffn_dim", 1),
        growth=content.get("growth", 1),
        aggregation=aggregation(content),
        positions=content["positions"] == "sinusoidal",
        position_offset=2,
        tie="decoder" if content[key] else "none",
    )


class Renamed:
    """The original's tensors under our names."""

    def __init__(self, theirs: dict[str, Tensor]) -> None:
        self.theirs = theirs
        self.ours: dict[str, Tensor] = {}

    def take(self, ours: str, name: str, *parts: str) -> None:
        """Copy tensors; 1 x 1 convolutions become matrices."""
        for part in parts or ("weight", "bias"):
            tensor = self.theirs[f"{name}.{part}"]
            if tensor.dim() == 4 and tensor.shape[-1] == 1:
                tensor = tensor.flatten(1)
            self.ours[f"{ours}.{part}"] = tensor.clone()

    def take_rows(self, ours: str, name: str, our_ids: list[int]) -> None:
        """Copy a table or bias of the vocabulary in our order."""
        rows = self.theirs[name]
        order = [our_ids.index(i) for i in range(4)]
        self.ours[ours] = rows[[*order, *range(4, len(rows))]]


def weights_2020(model: Pervasive, theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    renamed, ids = Renamed(theirs), OUR_IDS["pervasive-2020"]
    take = renamed.take
    for side, embedding in (("encoder", "source"), ("decoder", "target")):
        name = f"{side}.embed_tokens.weight"
        renamed.take_rows(f"{embedding}_embedding.tokens.weight", name, ids)
    take("opening", "decoder.net.reduce_channels")
    for n in range(model.config.layers):
        ours, name = f"network.layers.{n}", f"decoder.net.residual_blocks.{n}"
        take(f"{ours}.mix", f"{name}.conv1")
        take(f"{ours}.convolution", f"{name}.mconv2", "weight")
        bias = theirs.get(f"{name}.mconv2.bias", torch.zeros(model.config.channels))
        renamed.ours[f"{ours}.convolution.bias"] = bias
        take(f"{ours}.feed_forward.inner", f"{name}.fc1")
        take(f"{ours}.feed_forward.outer", f"{name}.fc2")
    if model.config.aggregation == "gated-max":
        take("reduction.gate", "decoder.aggregator.linear")
    elif model.config.aggregation == "attention":
        take("reduction.scores.0", "decoder.aggregator.w1")
        take("reduction.scores.1", "decoder.aggregator.w2")
    take("closing", "decoder.projection")
    for part in ("weight", "bias"):
        renamed.take_rows(f"output.{part}", f"decoder.prediction.{part}", ids)
    # a narrower output is one of our width with zeros
    missing = model.config.width - renamed.ours["output.weight"].shape[1]
    renamed.ours["output.weight"] = F.pad(renamed.ours["output.weight"], (0, missing))
    renamed.ours["closing.weight"] = F.pad(renamed.ours["closing.weight"], (0, 0, 0, missing))
    renamed.ours["closing.bias"] = F.pad(renamed.ours["closing.bias"], (0, missing))
    return renamed.ours


def weights_2018(
    model: Pervasive, theirs: dict[str, Tensor], *, is_halved: bool
) -> dict[str, Tensor]:
    renamed, ids = Renamed(theirs), OUR_IDS["pervasive-2018"]
    take, ours = renamed.take, renamed.ours

    def take_norm(name: str, original: str, shift: Tensor) -> None:
        """A bias before a norm is a shift of its mean."""
        take(name, original)
        ours[f"{name}.mean"] = theirs[f"{original}.running_mean"] - shift
        ours[f"{name}.variance"] = theirs[f"{original}.running_var"].clone()

    for side, embedding in (("src", "source"), ("trg", "target")):
        name = f"{side}_embedding.label_embedding.weight"
        renamed.take_rows(f"{embedding}_embedding.tokens.weight", name, ids)
    if is_halved:
        take("opening", "net.features.initial_transiton")
    else:
        both = model.config.channels
        ours |= {"opening.weight": torch.eye(both), "opening.bias": torch.zeros(both)}
    shift = torch.zeros(model.config.channels)  # biases that the features so far lack
    for n in range(model.config.layers):
        name, original = f"network.layers.{n}", f"net.features.denseblock1.denselayer{n + 1}"
        take_norm(f"{name}.norm", f"{original}.norm1", shift)
        take(f"{name}.mix", f"{original}.conv1", "weight")
        hidden = torch.zeros(len(theirs[f"{original}.conv1.weight"]))
        bias = theirs.get(f"{original}.conv1.bias", hidden)
        take_norm(f"{name}.hidden_norm", f"{original}.norm2", bias)
        take(f"{name}.convolution", f"{original}.conv2", "weight")
        none = torch.zeros(model.config.growth)
        shift = torch.cat([shift, theirs.get(f"{original}.conv2.bias", none)])
    take_norm("network.norm", "net.features.transition1.norm", shift)
    take("network.mix", "net.features.transition1.conv", "weight")
    take_norm("network.last_norm", "net.features.norm_last", torch.zeros(()))
    if model.config.aggregation == "attention":
        take("reduction.scores", "aggregator.project.attend")
    elif model.config.aggregation == "max-attention":
        take("reduction.attention.scores", "aggregator.project.attend")
    if model.closing is not None:
        take("closing", "aggregator.lin")
    for part in ("weight", "bias"):
        renamed.take_rows(f"output.{part}", f"prediction.{part}", ids)
    return ours


def close(ours: Tensor, theirs: NDArray[np.float32]) -> None:
    torch.testing.assert_close(ours, torch.from_numpy(theirs), rtol=0.0, atol=TOLERANCE)


def in_their_order(golden: Golden, logits: Tensor) -> Tensor:
    """Return columns in the original's order, [..., V]."""
    return torch.cat([logits[..., golden.our_ids], logits[..., 4:]], dim=-1)


def padded(rows: list[list[int]]) -> Tensor:
    length = max(map(len, rows))
    return torch.tensor([row + [0] * (length - len(row)) for row in rows])


def test_a_sentence_alone_has_the_grid_and_the_scores_of_the_original(golden: Golden) -> None:
    grids: list[Tensor] = []
    hook = golden.model.network.register_forward_hook(lambda *call: grids.append(call[-1]))
    try:
        for i, (source, target) in enumerate(zip(golden.sources, golden.targets, strict=True)):
            ids = torch.tensor([source])
            with torch.inference_mode():
                memory = golden.model.encode(ids, ids != 0)
                hidden = golden.model.decode(torch.tensor([golden.inputs[i]]), memory)
                logits = golden.model.project(hidden)[0]
            close(grids[-1][0], golden.expected[f"alone_grid_{i}"])
            close(in_their_order(golden, logits), golden.expected["alone_logits"][i, : len(target)])
            scores = logits.log_softmax(-1)[torch.arange(len(target)), torch.tensor(target)]
            close(scores, golden.expected["alone_token_logprobs"][i, : len(target)])
    finally:
        hook.remove()


def test_a_sentence_in_a_batch_has_the_same_scores(golden: Golden) -> None:
    source, target_in = padded(golden.sources), padded(golden.inputs)
    with torch.inference_mode():
        memory = golden.model.encode(source, source != 0)
        logits = golden.model.project(golden.model.decode(target_in, memory))
    for i, target in enumerate(golden.targets):
        ours = in_their_order(golden, logits[i, : len(target)])
        close(ours, golden.expected["alone_logits"][i, : len(target)])


def test_greedy_steps_in_a_batch_are_those_of_the_original(golden: Golden) -> None:
    source = padded(golden.sources)
    steps = golden.expected["greedy_tokens"].shape[1]
    with torch.inference_mode():
        state = golden.model.begin(golden.model.encode(source, source != 0), 1)
        token, tokens = torch.tensor([row[0] for row in golden.inputs]), []
        for t in range(steps):
            logits = golden.model.project(golden.model.step(token, state))
            close(in_their_order(golden, logits), golden.expected["greedy_logits"][:, t])
            logits[:, 0] = -torch.inf  # padding is never chosen
            token = logits.argmax(-1)
            tokens.append(token)
    theirs = torch.tensor(golden.expected["greedy_tokens"].astype(np.int64))
    ours = torch.tensor([*golden.our_ids, *range(4, golden.model.output.out_features)])
    assert torch.equal(torch.stack(tokens, dim=1), ours[theirs])
