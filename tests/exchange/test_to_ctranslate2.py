"""Transformers exported to CTranslate2 compute what ours compute."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plugins.random_runs import JOINT, TRANSFORMER, MakeRun

from jtrans.decoding.engines.ctranslate2_options import QUANTIZATIONS
from jtrans.decoding.engines.ctranslate2_search import CTranslate2Search
from jtrans.decoding.engines.token_names import token_names
from jtrans.decoding.teacher_forcing import teacher_forced_scores
from jtrans.decoding.translator import load_model
from jtrans.errors import CheckpointError, ConfigError
from jtrans.exchange.to_ctranslate2 import export_to_ctranslate2
from jtrans.exports import Export
from jtrans.runs import Run
from jtrans.text.pipeline import TextPipeline
from jtrans.text.vocabulary import EOS, Vocabulary

pytest.importorskip("ctranslate2")

SETTINGS = st.fixed_dictionaries(
    {
        "norm": st.sampled_from(["pre", "post"]),
        "tie": st.sampled_from(["none", "decoder", "all"]),
        "position_layout": st.sampled_from(["t2t", "vaswani"]),
        "position_offset": st.integers(0, 3),
        "scale_positions": st.booleans(),
        "output_bias": st.booleans(),
        "heads": st.sampled_from([1, 2, 4]),
        "encoder_layers": st.integers(1, 2),
        "decoder_layers": st.integers(1, 3),
    }
)


def load(export: Export) -> CTranslate2Search:
    return CTranslate2Search.load(export, "cpu", "default", threads=1, batch_tokens=512)


def sentences(count: int, vocabulary: int, seed: int = 3) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 9, (count,), generator=generator).tolist()
    return [
        [*torch.randint(4, vocabulary, (length,), generator=generator).tolist(), EOS]
        for length in lengths
    ]


def shake(model: Any) -> None:
    """Replace weights that are 0 or 1 at first, so that one left out is noticed."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or ".norm" in name:
            parameter.data += 0.3 * torch.randn_like(parameter)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=SETTINGS)
def test_log_probabilities_are_equal(make_run: MakeRun, values: dict[str, Any]) -> None:
    words = [f"w{number}" for number in range(9)]
    vocabulary = Vocabulary.build(dict.fromkeys(words, 5))
    pipeline = TextPipeline.whitespace("de", "en", vocabulary, vocabulary)
    config = {"model": {**TRANSFORMER, **values}}
    name = f"run-{next(_numbers)}"
    run = Run.open(make_run(name, config=config, pipeline=pipeline, edit=shake))
    engine = load(export_to_ctranslate2(run, run.folder / "e"))
    sources, targets = (sentences(4, len(vocabulary), seed) for seed in (3, 4))
    ours = teacher_forced_scores(load_model(run), sources, targets)
    theirs = engine.log_probs(sources, targets)
    for scored, their in zip(ours, theirs, strict=True):
        assert their == pytest.approx(scored.log_probs, abs=1e-4)


_numbers = itertools.count()


# Most of the difference as a share of the spread of the log-probabilities: above 1 if the two had
# nothing in common. Without VNNI, CTranslate2's products of int8 may overflow: a fifth to a half.
ROUNDING = {"int8": 0.6, "float16": 0.01, "bfloat16": 0.05}


@pytest.mark.parametrize("quantization", QUANTIZATIONS)
def test_smaller_weights_compute_almost_the_same(make_run: MakeRun, quantization: str) -> None:
    run = Run.open(make_run())
    plain = export_to_ctranslate2(run, run.folder / "plain")
    small = export_to_ctranslate2(run, run.folder / "small", quantization=quantization)
    assert small.facts["weights"] == quantization
    source, target = sentences(60, 11), sentences(60, 11, seed=4)
    exact, rounded = (
        np.concatenate(load(export).log_probs(source, target)) for export in (plain, small)
    )
    difference = np.sqrt(np.mean((rounded - exact) ** 2))
    assert 0 < difference < ROUNDING[quantization] * exact.std()


def test_the_folder_tells_a_stranger_what_it_is(make_run: MakeRun, tmp_path: Path) -> None:
    run = Run.open(make_run())
    export = export_to_ctranslate2(run, tmp_path / "out")
    card = (export.folder / "README.md").read_text(encoding="utf-8")
    assert "# run: de to en" in card
    assert "step-00000010" in card
    assert export.pipeline == run.pipeline
    assert {"model.bin", "pipeline.json", "sha256.json"} <= {
        path.name for path in export.folder.iterdir()
    }


def test_an_export_replaces_an_export_and_nothing_else(make_run: MakeRun, tmp_path: Path) -> None:
    run = Run.open(make_run())
    export_to_ctranslate2(run, tmp_path / "out")
    assert export_to_ctranslate2(run, tmp_path / "out", quantization="int8").facts["weights"]
    other = Run.open(make_run("other"))
    with pytest.raises(CheckpointError, match="holds the export of run for ctranslate2"):
        export_to_ctranslate2(other, tmp_path / "out")
    assert Export.open(tmp_path / "out", "ctranslate2").facts["run"] == "run"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x", encoding="utf-8")
    with pytest.raises(CheckpointError, match="other than an export"):
        export_to_ctranslate2(run, tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("model", [JOINT, {**TRANSFORMER, "system": "dlcl"}])
def test_other_systems_are_refused(make_run: MakeRun, model: dict[str, Any]) -> None:
    run = Run.open(make_run(config={"model": model}))
    with pytest.raises(ConfigError, match=f"cannot compute {model['system']}") as refused:
        export_to_ctranslate2(run, run.folder / "out")
    assert "onnx" in str(refused.value.hint)
    assert not (run.folder / "out").exists()


def test_tokens_that_are_listed_twice_get_names_of_their_own() -> None:
    tokens = ["<pad>", "</s>", "<unk>", "<s>", "the", "a", "the", "the#4"]
    names = token_names(Vocabulary(tokens, [0, 0, 0, 0, 5, 4, 3, 2]))
    assert names == ["<pad>", "</s>", "<unk>", "<s>", "the#4#", "a", "the", "the#4"]


def test_only_special_tokens_have_the_names_of_special_tokens() -> None:
    tokens = ["<pad>", "</s>", "<unk>", "<s>", "the", "<s>", "</s>", "<unk>"]
    names = token_names(Vocabulary(tokens, [0, 0, 0, 0, 5, 4, 3, 2]))
    assert names == [*tokens[:5], "<s>#5", "</s>#6", "<unk>#7"]
