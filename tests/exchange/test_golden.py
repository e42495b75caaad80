"""Imported models against numbers computed by the original code (exchange/reformer_fairseq.py).

The numbers lie outside the repository: the folder named by JTRANS_TEST_GOLDEN, or
../shared/golden beside the repository. Each of its folders holds a checkpoint, dictionaries,
expected.json and expected_logits.npz.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from plugins.folders import GOLDEN, needs_golden

from jtrans.data.batch import padded
from jtrans.decoding.options import SearchOptions
from jtrans.decoding.prepared.choose import prepared
from jtrans.decoding.search.beam import beam_search
from jtrans.decoding.teacher_forcing import teacher_forced_scores
from jtrans.decoding.translator import load_model
from jtrans.exchange.reformer_fairseq import import_checkpoint
from jtrans.models.base import TranslationModel
from jtrans.nn import fast
from jtrans.nn.cpu.matmul_backend import is_onednn_real_float32
from jtrans.nn.device import autocast
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.gpu import attention as gpu_attention
from jtrans.nn.layer import set_recompute
from jtrans.text.pipeline import TextPipeline
from jtrans.text.vocabulary import EOS

NAMES = ["transformer-pre", "transformer-post", "reformer-base", "reformer-fast"]
NAMES += ["reformer-fast-tied"]
OUR_ORDER = [1, 2, 3, 0]  # fairseq's columns of <pad> </s> <unk> and of the unused one

pytestmark = needs_golden


@dataclass(frozen=True)
class Golden:
    """An imported model with what the original computed."""

    model: TranslationModel
    pipeline: TextPipeline
    pairs: list[dict[str, Any]]
    logits: list[np.ndarray]  # columns in our order

    @property
    def sources(self) -> list[list[int]]:
        return [self.pipeline.source.encode(pair["source"]) for pair in self.pairs]

    @property
    def targets(self) -> list[list[int]]:
        return [self.pipeline.target.encode(pair["target"]) for pair in self.pairs]


@pytest.fixture(scope="module", params=NAMES)
def golden(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Golden]:
    folder = GOLDEN / request.param
    imported = import_checkpoint(
        folder / "checkpoint_best.pt",
        source_dict=folder / "dict.src.txt",
        target_dict=folder / "dict.tgt.txt",
        run_folder=tmp_path_factory.mktemp("golden") / request.param,
    )
    pairs = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["pairs"]
    with np.load(folder / "expected_logits.npz") as arrays:
        logits = [arrays[f"logits_{i}"] for i in range(len(pairs))]
    ours = [np.concatenate([each[:, OUR_ORDER], each[:, 4:]], axis=1) for each in logits]
    before = torch.get_float32_matmul_precision()
    yield Golden(load_model(imported, device=torch.device("cpu")), imported.pipeline, pairs, ours)
    torch.set_float32_matmul_precision(before)


@torch.no_grad()
def test_logits_are_those_of_the_original(golden: Golden) -> None:
    for source, target, expected in zip(golden.sources, golden.targets, golden.logits, strict=True):
        memory = golden.model.encode(*padded([source], torch.device("cpu")))
        hidden = golden.model.decode(torch.tensor([[EOS, *target[:-1]]]), memory)
        np.testing.assert_allclose(
            golden.model.project(hidden)[0].numpy(), expected, atol=1e-5, rtol=0
        )


@torch.no_grad()
def test_logits_are_the_same_in_a_padded_batch(golden: Golden) -> None:
    memory = golden.model.encode(*padded(golden.sources, torch.device("cpu")))
    inputs = [[EOS, *target[:-1]] for target in golden.targets]
    target_in, mask = padded(inputs, torch.device("cpu"))
    logits = golden.model.project(golden.model.decode(target_in, memory))
    for row, length, expected in zip(logits, mask.sum(1).tolist(), golden.logits, strict=True):
        np.testing.assert_allclose(row[:length].numpy(), expected, atol=1e-5, rtol=0)


# way of training: switches, and how far logits may be from the original's float32
WAYS: dict[str, tuple[dict[str, Any], float]] = {
    "plain": ({"plain": True}, 1e-5),
    "fused attention": ({"fused": True}, 1e-5),
    "in blocks": ({}, 1e-5),
    "in blocks, MKL": ({"matmul": "highest"}, 1e-5),
    "in blocks, oneDNN": ({"matmul": "medium"}, 1e-5),
    "hidden layers recomputed": ({"recompute": "hidden"}, 1e-5),
    "layers recomputed": ({"recompute": "layer"}, 1e-5),
    "short-axis operator": ({"operator": True}, 1e-5),
    # a single logit is off by 0.102; their mean error is 0.006
    "bf16": ({"precision": "bf16"}, 0.12),
    "bf16, in blocks": ({"precision": "bf16", "recompute": "hidden"}, 0.12),
    "bf16, short-axis operator": ({"precision": "bf16", "operator": True}, 0.15),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_training_gives_the_original_s_logits(
    golden: Golden, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    switches, tolerance = WAYS[way]
    if switches.get("matmul") == "medium" and not is_onednn_real_float32():
        pytest.skip("oneDNN does not compute real float32 products here")
    cpu = torch.device("cpu")
    model = copy.deepcopy(golden.model).train().requires_grad_()
    for module in model.modules():
        if isinstance(module, SharedDropout):
            module.rate = 0.0
    set_recompute(model, switches.get("recompute", "none"))
    if switches.get("plain"):
        monkeypatch.setattr(fast, "IN_BLOCKS", {})
    if switches.get("operator") or switches.get("fused"):
        monkeypatch.setattr(fast, "IN_BLOCKS", {})
        monkeypatch.setitem(fast.KERNELS, "cpu", fast.KERNELS["cuda"])
        monkeypatch.setattr(gpu_attention, "is_supported", lambda *_, **__: "operator" in switches)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(switches.get("matmul", before))
    try:
        with autocast(cpu, switches.get("precision", "fp32")):
            memory = model.encode(*padded(golden.sources, cpu))
            inputs = [[EOS, *target[:-1]] for target in golden.targets]
            target_in, mask = padded(inputs, cpu)
            logits = model.project(model.decode(target_in, memory))
    finally:
        torch.set_float32_matmul_precision(before)
    assert logits.requires_grad
    computed = logits.detach().float()
    for row, length, expected in zip(computed, mask.sum(1).tolist(), golden.logits, strict=True):
        np.testing.assert_allclose(row[:length].numpy(), expected, atol=tolerance, rtol=0)


def test_token_losses_are_those_of_the_original(golden: Golden) -> None:
    scores = teacher_forced_scores(golden.model, golden.sources, golden.targets)
    for sentence, pair in zip(scores, golden.pairs, strict=True):
        np.testing.assert_allclose(
            [-value for value in sentence.log_probs], pair["token_nll"], atol=1e-4, rtol=0
        )


@pytest.mark.parametrize(
    ("key", "beam", "penalty"),
    [
        ("beam1_lenpen1.0", 1, 1.0),
        ("beam5_lenpen1.0", 5, 1.0),
        ("beam5_lenpen0.6", 5, 0.6),
    ],
)
@pytest.mark.parametrize("is_prepared", [False, True])
def test_beam_search_finds_what_the_original_found(
    golden: Golden, key: str, beam: int, penalty: float, is_prepared: bool
) -> None:
    options = SearchOptions(beam=beam, nbest=beam, length_penalty=penalty, max_length="60")
    source, mask = padded(golden.sources, torch.device("cpu"))
    model = prepared(golden.model) if is_prepared else golden.model
    lists = beam_search([model], source, mask, options)
    for hypotheses, pair in zip(lists, golden.pairs, strict=True):
        expected = pair[key]
        texts = [golden.pipeline.target.decode(each.tokens) for each in hypotheses]
        assert texts == [each["hypothesis"] for each in expected]
        np.testing.assert_allclose(
            [each.score for each in hypotheses],
            [each["score"] for each in expected],
            atol=1e-4,
            rtol=0,
        )


def test_hypotheses_hardly_change_in_bfloat16(golden: Golden) -> None:
    if not golden.model.is_joint:
        pytest.skip("the prepared joint models round less than autocast does")
    options = SearchOptions(beam=5)
    source, mask = padded(golden.sources, torch.device("cpu"))
    exact, rounded = (
        beam_search([prepared(golden.model, precision)], source, mask, options)
        for precision in ("fp32", "bf16")
    )
    same = [
        nbest[0].tokens == theirs[0].tokens for nbest, theirs in zip(rounded, exact, strict=True)
    ]
    assert sum(same) >= len(same) - 2  # of 24, by tiny models with nearly equal hypotheses
