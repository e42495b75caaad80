"""`jtrans import`: options, the answer, and refusals (the work itself: tests/exchange)."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from plugins.command_line import Jtrans

from jtrans.runs import Run

E = 4


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Write the smallest Reformer-base there is, with its dictionaries."""
    chain = "attn1d:dec+ffn2d:dec+attn1d:enc+ffn2d:enc"
    sizes: dict[str, Any] = {"embed_dim": E, "ffn_embed_dim": E, "attention_heads": 1}
    args = {f"{side}_{k}": v for side in ("encoder", "decoder") for k, v in sizes.items()}
    args |= {"encoder_layers": 0, "decoder_layers": 1, "layer_chain": chain}
    args |= {"decoder_normalize_before": True, "share_decoder_input_output_embed": True}
    shapes: dict[str, tuple[int, ...]] = {}
    shapes |= {f"{side}.embed_tokens.weight": (6, E) for side in ("encoder", "decoder")}
    norms = ["decoder.layer_norm", "decoder.output_layer.reduction.layer_norm"]
    for k in range(4):
        block = f"decoder.layers.0.sublayers.{k}"
        norms.append(f"{block}.layer_norm")
        names = ("fc1", "fc2") if k % 2 else ("self_attn.out_proj",)
        for name in names:
            shapes |= {f"{block}.{name}.weight": (E, E), f"{block}.{name}.bias": (E,)}
        if not k % 2:
            shapes |= {f"{block}.self_attn.in_proj_weight": (3 * E, E)}
            shapes |= {f"{block}.self_attn.in_proj_bias": (3 * E,)}
    for name in norms:
        shapes |= {f"{name}.weight": (E,), f"{name}.bias": (E,)}
    shapes["decoder.output_layer.reduction.weights"] = (E, E)
    model = {name: torch.ones(shape) for name, shape in shapes.items()}
    paths = {name: tmp_path / name for name in ("checkpoint.pt", "dict.a", "dict.b", "run")}
    torch.save({"args": argparse.Namespace(**args), "model": model}, paths["checkpoint.pt"])
    for name in ("dict.a", "dict.b"):
        paths[name].write_text("x 2\ny 1\n", encoding="utf-8")
    return paths


def arguments(files: dict[str, Path], source_format: str = "reformer-fairseq") -> list[object]:
    return [
        *[files["checkpoint.pt"], "--from", source_format, "--run", files["run"]],
        *["--source-dict", files["dict.a"], "--target-dict", files["dict.b"]],
    ]


def test_an_import_makes_a_run_and_says_what_it_is(jtrans: Jtrans, files: dict[str, Path]) -> None:
    answer = json.loads(jtrans("import", *arguments(files), "--json").out)
    assert answer["system"] == "reformer-base"
    assert answer["source_vocabulary"] == answer["target_vocabulary"] == 6
    assert answer["run"] == str(files["run"])
    assert Run.open(files["run"]).info["parameters"] == answer["parameters"]


def test_without_json_nothing_goes_to_standard_output(
    jtrans: Jtrans, files: dict[str, Path]
) -> None:
    assert jtrans("import", *arguments(files)).out == ""
    assert Run.exists(files["run"])


def test_an_imported_run_is_described_as_such(jtrans: Jtrans, files: dict[str, Path]) -> None:
    jtrans("import", *arguments(files))
    rows = dict(line.split(None, 1) for line in jtrans("info", files["run"]).out.splitlines())
    assert rows["corpus"].strip() == "none"
    assert rows["trained"].strip() == "elsewhere"
    assert rows["state"].strip() == "imported: reformer-fairseq, checkpoint.pt"


def test_an_unknown_format_gets_the_nearest_one(jtrans: Jtrans, files: dict[str, Path]) -> None:
    result = jtrans("import", *arguments(files, "reformer-fairsek"))
    assert result.code == 2
    assert "hint: did you mean reformer-fairseq?" in result.err


def test_a_damaged_checkpoint_makes_no_run(jtrans: Jtrans, files: dict[str, Path]) -> None:
    data = files["checkpoint.pt"].read_bytes()
    files["checkpoint.pt"].write_bytes(data[: len(data) // 2])
    result = jtrans("import", *arguments(files))
    assert result.code == 2
    assert not files["run"].exists()
