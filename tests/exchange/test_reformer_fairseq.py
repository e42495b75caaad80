"""Importing checkpoints of the original code: same function, and clear refusals."""

from __future__ import annotations

import argparse
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from jtrans.decoding.translator import load_model
from jtrans.errors import CheckpointError, ConfigError, CorpusError
from jtrans.exchange.reformer_fairseq import import_checkpoint
from jtrans.models.zoo import system_configs
from jtrans.runs import Run

THEIR_IDS = [4, 7, 5, 2]  # three words and </s>
THEIR_TARGET_IN = [2, 6, 4, 5]
OUR_IDS = [4, 7, 5, 1]
OUR_TARGET_IN = [1, 6, 4, 5]

PRE = {"encoder_normalize_before": True, "decoder_normalize_before": True}
POST = {"encoder_normalize_before": False, "decoder_normalize_before": False}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "transformer pre-norm": ("transformer", {"encoder_layers": 2}),
    "transformer post-norm": ("transformer", POST),
    "transformer tied": ("transformer", {"share_decoder_input_output_embed": True}),
    "transformer all tied": ("transformer", {"share_all_embeddings": True}),
    "reformer-base": ("reformer-base", {}),
    "reformer-base post-norm": ("reformer-base", POST),
    "reformer-base with a source norm": ("reformer-base", PRE),
    "reformer-fast": ("reformer-fast", {"encoder_layers": 2, "decoder_layers": 1}),
    "reformer-fast post-norm": ("reformer-fast", POST),
    "reformer-fast max": ("reformer-fast", {"decoder_output_layer": "max"}),
    "reformer-fast max post-norm": ("reformer-fast", {"decoder_output_layer": "max"} | POST),
    "reformer-fast concat": ("reformer-fast", {"decoder_input_layer": "cat"}),
    "reformer-fast side vectors": ("reformer-fast", {"src_tgt_embed": True}),
    "reformer-base side vectors": ("reformer-base", {"src_tgt_embed": True}),
    "reformer-fast all tied": ("reformer-fast", {"share_all_embeddings": True}),
    "other spelling of the chain": (
        "reformer-fast",
        {"layer_chain": "attn1d+ffn2d+attn1d:enc+ffn2d"},
    ),
}


def import_run(original: Any, run: Path, **changes: Any) -> Any:
    return import_checkpoint(original.checkpoint, run_folder=run, **original.options(**changes))


def refusal(original: Any, run: Path, **changes: Any) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        import_run(original, run, **changes)
    assert caught.value.exit_code == 2
    assert not run.exists()
    assert [path.name for path in run.parent.iterdir() if ".tmp" in path.name] == []
    return caught.value


@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_an_imported_model_computes_what_the_original_computes(
    variant: str,
    make_original: Callable[..., Any],
    original_logits: Callable[..., Tensor],
    tmp_path: Path,
) -> None:
    kind, changes = VARIANTS[variant]
    original = make_original(kind, **changes)
    imported = import_run(original, tmp_path / "run")
    model = load_model(imported, device=torch.device("cpu"))
    source = torch.tensor([OUR_IDS])
    hidden = model.decode(torch.tensor([OUR_TARGET_IN]), model.encode(source, source != 0))
    expected = original_logits(original, THEIR_IDS, THEIR_TARGET_IN)
    expected = torch.cat([expected[:, [1, 2, 3, 0]], expected[:, 4:]], dim=1)
    torch.testing.assert_close(model.project(hidden)[0], expected, atol=1e-4, rtol=1e-5)


def test_the_run_knows_settings_and_vocabularies(
    make_original: Callable[..., Any], tmp_path: Path
) -> None:
    import_run(make_original("reformer-fast"), tmp_path / "run")
    run = Run.open(tmp_path / "run")
    model = run.config(system_configs()).model
    wanted = {"system": "reformer-fast", "width": 8, "ffn_width": 12, "heads": 2, "layers": 2}
    wanted |= {"prenet_layers": 1, "dropout": 0.25, "attention_dropout": 0.125, "norm": "pre"}
    wanted |= {"position_offset": 2, "position_layout": "t2t", "tie": "none"}
    assert {key: model.model_dump()[key] for key in wanted} == wanted
    assert run.pipeline.languages == ("de", "en")
    assert run.pipeline.source.encode("das haus ist neu unbekannt") == [4, 5, 6, 9, 2, 1]
    assert run.pipeline.target.vocabulary.counts[4:6] == [100, 99]
    assert run.checkpoint("best").update == run.checkpoint("last").update == 7


@pytest.mark.parametrize("updates", [None, -1, "7", 10**300])
def test_a_number_of_updates_that_cannot_be_counts_as_unknown(
    make_original: Callable[..., Any], tmp_path: Path, updates: Any
) -> None:
    original = make_original()
    original.save(optimizer_history=[{"num_updates": updates}])
    assert import_run(original, tmp_path / "run").checkpoint("last").update == 0


def test_bpe_codes_become_part_of_the_pipeline(
    make_original: Callable[..., Any], tmp_path: Path
) -> None:
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\nu n\nn e\nne u</w>\n", encoding="utf-8")
    imported = import_run(make_original(), tmp_path / "run", bpe_codes=codes)
    assert imported.pipeline.source.encode("unneu") == [8, 9, 1]
    assert imported.pipeline.target.decode([8, 9, 1]) == "unnew"


def test_half_precision_is_read_as_float32(
    make_original: Callable[..., Any], tmp_path: Path
) -> None:
    original = make_original()
    halves = {name: tensor.half() for name, tensor in original.tensors.items()}
    original.save(model=halves)
    model = load_model(import_run(original, tmp_path / "run"), device=torch.device("cpu"))
    weight = model.state_dict()["reduction.weight"]
    assert weight.dtype == torch.float32
    assert weight.equal(halves["decoder.output_layer.reduction.weights"].float())


def test_the_old_file_format_of_torch_is_read(
    make_original: Callable[..., Any], tmp_path: Path
) -> None:
    original = make_original()
    content = {"args": original.args, "model": original.tensors}
    torch.save(content, original.checkpoint, _use_new_zipfile_serialization=False)
    imported = import_run(original, tmp_path / "run")
    assert imported.checkpoint().update == 0


UNSUPPORTED: dict[str, tuple[str, dict[str, Any], str]] = {
    "mixed norms": (
        "reformer-fast",
        {"encoder_normalize_before": False},
        "encoder_normalize_before is False",
    ),
    "chain": ("reformer-fast", {"layer_chain": "attn1d:enc+ffn2d+attn1d:dec+ffn2d"}, "attn1d:enc"),
    "source positions": ("reformer-fast", {"encoder_learned_pos": True}, "encoder_learned_pos"),
    "target positions": ("transformer", {"decoder_learned_pos": True}, "decoder_learned_pos"),
    "positions": (
        "transformer",
        {"no_token_positional_embeddings": True},
        "no_token_positional_embeddings",
    ),
    "softmax": ("transformer", {"adaptive_softmax_cutoff": "100,200"}, "adaptive softmax"),
    "reduction": ("reformer-fast", {"decoder_output_layer": "attn-v4"}, "attn-v4"),
    "halved targets": ("reformer-fast", {"arch": "reformer_v1_big"}, "reformer_v1"),
    "widths": ("reformer-fast", {"decoder_embed_dim": 16}, "8 and 16"),
    "heads": ("transformer", {"decoder_attention_heads": 4}, "2 and 4"),
    "ffn widths": ("transformer", {"decoder_ffn_embed_dim": 24}, "12 and 24"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_a_setting_without_counterpart_is_refused_by_name(
    name: str, make_original: Callable[..., Any], tmp_path: Path
) -> None:
    kind, changes, words = UNSUPPORTED[name]
    error = refusal(make_original(kind, **changes), tmp_path / "run")
    assert words in error.message
    assert error.kind == "checkpoint.unsupported"


CONTRADICTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "layers": ({"decoder_layers": 3}, "decoder_layers is 3"),
    "norm": ({"decoder_normalize_before": False, "encoder_normalize_before": False}, "layer norm"),
    "tying": ({"share_decoder_input_output_embed": True}, "output matrix"),
    "widths": ({"encoder_ffn_embed_dim": 16, "decoder_ffn_embed_dim": 16}, "[12, 8]"),
    "missing": ({"decoder_attention_heads": None}, "no decoder_attention_heads"),
    "kind": ({"decoder_attention_heads": "two"}, "'two'"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_arguments_that_contradict_the_tensors_are_refused(
    name: str, make_original: Callable[..., Any], tmp_path: Path
) -> None:
    changes, words = CONTRADICTIONS[name]
    original = make_original()
    vars(original.args).update(changes)
    original.save()
    error = refusal(original, tmp_path / "run")
    assert words in error.message
    assert error.kind == "checkpoint.shape"


def test_tensors_without_a_place_are_refused(
    make_original: Callable[..., Any], tmp_path: Path
) -> None:
    original = make_original()
    original.save(model=original.tensors | {"decoder.project_out_dim.weight": torch.ones(2, 2)})
    assert "decoder.project_out_dim.weight" in refusal(original, tmp_path / "run").message


@pytest.mark.parametrize(
    "name", ["decoder.layers.0.sublayers.1.fc1.bias", "decoder.embed_tokens.weight"]
)
def test_missing_tensors_are_refused(
    make_original: Callable[..., Any], tmp_path: Path, name: str
) -> None:
    original = make_original()
    del original.tensors[name]
    original.save()
    refused = refusal(original, tmp_path / "run")
    assert name in refused.message and refused.kind != "checkpoint.dictionary"


def test_values_that_are_not_finite_are_refused(
    make_original: Callable[..., Any], tmp_path: Path
) -> None:
    original = make_original()
    original.tensors["decoder.embed_out"][3, 2] = float("nan")
    original.save()
    assert "decoder.embed_out" in refusal(original, tmp_path / "run").message


def test_an_impossible_size_is_refused(make_original: Callable[..., Any], tmp_path: Path) -> None:
    original = make_original(encoder_attention_heads=3, decoder_attention_heads=3)
    with pytest.raises(ConfigError, match="width 8 is not a multiple of heads 3"):
        import_run(original, tmp_path / "run")


def test_a_dictionary_of_another_size_is_refused_with_both_numbers(
    make_original: Callable[..., Any], tmp_path: Path
) -> None:
    original = make_original()
    exchanged = {"source_dict": original.target_dict, "target_dict": original.source_dict}
    error = refusal(original, tmp_path / "run", **exchanged)
    assert "12 tokens" in error.message
    assert "10 rows" in error.message
    assert error.where == str(original.target_dict)


def test_one_embedding_needs_one_dictionary(
    make_original: Callable[..., Any], tmp_path: Path
) -> None:
    original = make_original(share_all_embeddings=True)
    lines = original.source_dict.read_text(encoding="utf-8")
    original.source_dict.write_text(lines.replace("house", "home"), encoding="utf-8")
    assert "dictionaries differ" in refusal(original, tmp_path / "run").message


def test_a_malformed_codes_file_is_refused(
    make_original: Callable[..., Any], tmp_path: Path
) -> None:
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\na b c\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="line 2"):
        import_run(make_original(), tmp_path / "run", bpe_codes=codes)
    assert not (tmp_path / "run").exists()


def test_an_existing_folder_is_left_alone(
    make_original: Callable[..., Any], tmp_path: Path
) -> None:
    original = make_original()
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "note").write_text("mine", encoding="utf-8")
    with pytest.raises(CheckpointError, match="already exists"):
        import_run(original, folder)
    assert [path.name for path in folder.iterdir()] == ["note"]


@pytest.mark.parametrize(
    "content",
    [
        {"model": {}},
        {"args": argparse.Namespace()},
        {"args": {"arch": "transformer"}, "model": {}},
        {"args": argparse.Namespace(), "model": [1]},
        {"args": argparse.Namespace(), "model": {"a": 1}},
        [1, 2],
    ],
    ids=["no args", "no model", "args a dict", "model a list", "no tensor", "a list"],
)
def test_a_torch_file_of_another_kind_is_refused(
    content: Any, make_original: Callable[..., Any], tmp_path: Path
) -> None:
    original = make_original()
    torch.save(content, original.checkpoint)
    assert refusal(original, tmp_path / "run").kind == "checkpoint.format"


def test_the_origin_is_recorded_in_the_run(
    make_original: Callable[..., Any], tmp_path: Path
) -> None:
    imported = import_run(make_original(), tmp_path / "run")
    facts = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert facts["imported"]["arch"] == "my_own_architecture"
    model = load_model(imported, device=torch.device("cpu"))
    assert facts["parameters"] == sum(weights.numel() for weights in model.parameters())
    assert facts["pipeline"] == imported.pipeline.fingerprint()


def test_a_plain_pickle_is_refused(make_original: Callable[..., Any], tmp_path: Path) -> None:
    original = make_original()
    original.checkpoint.write_bytes(pickle.dumps({"args": original.args}))
    refusal(original, tmp_path / "run")
