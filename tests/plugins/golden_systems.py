"""Models of fairseq's line, with their weights and what the original code computes from them.

The numbers lie outside the repository, a folder for each model: see `plugins.folders`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from plugins.folders import GOLDEN_SYSTEMS
from torch import Tensor

from jtrans.models.base import TranslationModel

Model = TypeVar("Model", bound=TranslationModel)

OUR_IDS = torch.tensor([3, 0, 1, 2])  # of the original's unused, <pad>, </s>, <unk>
OUR_ORDER = [1, 2, 3, 0]  # the original's rows of <pad>, </s>, <unk> and the unused one


@dataclass(frozen=True)
class Golden(Generic[Model]):
    """A model with the original's weights, and what the original computes from them."""

    model: Model
    sources: list[list[int]]
    targets: list[list[int]]
    expected: dict[str, NDArray[np.float32]]
    greedy: dict[str, Any]


def golden_folders(is_wanted: Callable[[dict[str, Any]], bool]) -> list[Path]:
    """Return the folders whose config.json is wanted; none where there are no numbers."""
    return [
        path.parent
        for path in sorted(GOLDEN_SYSTEMS.glob("*/config.json"))
        if is_wanted(json.loads(path.read_text(encoding="utf-8")))
    ]


@contextmanager
def open_golden(
    folder: Path,
    build: Callable[[dict[str, Any]], Model],
    our_weights: Callable[[Model, dict[str, Tensor]], dict[str, Tensor]],
) -> Iterator[Golden[Model]]:
    """Yield the model of a folder; products are exact meanwhile.

    Args:
        folder: of a model.
        build: makes our model from config.json.
        our_weights: renames the original's weights for it.
    """
    content, inputs, greedy = (
        json.loads((folder / name).read_text(encoding="utf-8"))
        for name in ("config.json", "inputs.json", "expected_incremental.json")
    )
    model = build(content)
    theirs = safetensors.torch.load_file(folder / "weights.safetensors")
    model.load_state_dict(our_weights(model, theirs))
    with np.load(folder / "expected.npz") as arrays:
        expected = dict(arrays)
    sources, targets = ([our_ids(ids) for ids in inputs[side]] for side in ("source", "target"))
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield Golden(model.eval(), sources, targets, expected, greedy)
    finally:
        torch.set_float32_matmul_precision(before)


def our_ids(ids: list[int]) -> list[int]:
    """Return our ids of the original's."""
    return [int(OUR_IDS[i]) if i < len(OUR_IDS) else i for i in ids]


def in_their_order(logits: Tensor) -> Tensor:
    """Return columns in the original's order, [..., V]."""
    return torch.cat([logits[..., OUR_IDS], logits[..., 4:]], dim=-1)


def check_greedy_steps(
    golden: Golden[Any], close: Callable[[Tensor, NDArray[np.float32]], None]
) -> None:
    """Check every step of greedy decoding: the logits by `close`, and the tokens."""
    for i, source in enumerate(golden.sources):
        ids = torch.tensor([source])
        with torch.inference_mode():
            state = golden.model.begin(golden.model.encode(ids, ids != 0), 1)
            token, tokens = torch.tensor([1]), []
            for t in range(golden.greedy["steps"]):
                logits = golden.model.project(golden.model.step(token, state))
                close(in_their_order(logits[0]), golden.expected["incremental_logits"][i, t])
                logits[:, 0] = -torch.inf  # padding is never chosen
                token = logits.argmax(-1)
                tokens.append(int(token))
        assert tokens == our_ids(golden.greedy["tokens"][i])
