"""The weights of earlier layers: which number stands where, and their pictures."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest
import torch

from jtrans.analysis.figures.layers import (
    has_layer_weights,
    layer_tables,
    systems_with_layer_weights,
)
from jtrans.analysis.figures.results import Heatmap
from jtrans.analysis.output.files import is_written, write_results
from jtrans.analysis.output.weight_maps import MOST_TICKS, labelled, weights_svg
from jtrans.models.base import TranslationModel
from jtrans.models.systems import DlclConfig
from jtrans.models.zoo import build_model


def dlcl(layers: int) -> TranslationModel:
    sizes = {"width": 8, "ffn_width": 8, "heads": 2, "decoder_layers": 2}
    model = build_model(DlclConfig(encoder_layers=layers, **sizes), 9, 9)
    weights = model.get_parameter("encoder.stack.weights")
    with torch.no_grad():
        weights.copy_(torch.linspace(-1.0, 1.0, len(weights)))
    return model


def maps(*models: tuple[str, TranslationModel]) -> list[Heatmap]:
    return [item for item in layer_tables(models) if isinstance(item, Heatmap)]


def test_only_dlcl_learns_weights_of_layers() -> None:
    assert "dlcl" in systems_with_layer_weights()
    assert not has_layer_weights("transformer")


def test_rows_are_inputs_and_columns_are_outputs_of_layers() -> None:
    encoder, decoder = maps(("deep", dlcl(3)))
    assert encoder.name == "layers-encoder" and decoder.name == "layers-decoder"
    assert encoder.columns == ["input of layer", "emb.", "1", "2", "3"]
    assert [row[0] for row in encoder.rows] == ["1", "2", "3", "out"]
    expected = torch.linspace(-1.0, 1.0, 10)
    assert encoder.values[0] == [pytest.approx(-1.0), None, None, None]
    assert encoder.values[3] == pytest.approx(expected[6:].tolist())


def test_shares_are_of_the_absolute_weights_of_a_row() -> None:
    encoder, _ = maps(("deep", dlcl(3)))
    for weights, shares in zip(encoder.values, encoder.shares, strict=True):
        known = [share for share in shares if share is not None]
        assert sum(known) == pytest.approx(1.0)
        total = sum(abs(weight) for weight in weights if weight is not None)
        assert known[0] == pytest.approx(abs(weights[0] or 0.0) / total)


def test_the_summary_names_the_strongest_layer_of_each_input() -> None:
    summary = layer_tables([("deep", dlcl(3))])[0]
    assert len(summary.rows) == 4 + 3
    row = summary.rows[3]
    assert row[:4] == ["deep", "encoder", "out", "3"] and row[4] == pytest.approx(1.0)
    assert row[5] == row[7]


@pytest.mark.thorough
def test_several_runs_have_files_of_their_own(tmp_path: Path) -> None:
    items = layer_tables([("a/b", dlcl(2)), ("a-b", dlcl(2))])
    files = write_results(items, tmp_path)
    assert len(set(files)) == len(files) == 3 + 4 * 6
    assert all(is_written(item, tmp_path) for item in items)


@pytest.mark.sample(1)
@pytest.mark.parametrize("layers", [1, 60])
def test_a_table_is_drawn_and_kept_whole(layers: int, tmp_path: Path) -> None:
    encoder, _ = maps(("deep", dlcl(layers)))
    table, _, data, *pictures = write_results([encoder], tmp_path)
    with table.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    assert len(rows) == layers + 2 and rows[1][2:] == [""] * layers
    content = json.loads(data.read_text(encoding="utf-8"))
    assert content["type"] == "heatmap" and len(content["shares"]) == layers + 1
    assert [path.suffix for path in pictures] == [".svg", ".png", ".pdf"]
    assert all(path.stat().st_size > 1000 for path in pictures)
    page = weights_svg(encoder)
    assert page.count("<title>") == (layers + 1) * (layers + 2)  # wide and narrow


@pytest.mark.parametrize("count", [1, 2, 13, 21, 61])
def test_the_labels_of_an_axis_are_few_and_reach_its_end(count: int) -> None:
    places = labelled(count, math.ceil(count / MOST_TICKS))
    assert places == sorted(set(places)) and places[-1] == count - 1 and len(places) <= 21
