"""Importing Transformers of later versions of fairseq: same function, and clear refusals.

`fairseq_0_12` was made by fairseq 0.12.2: a tiny Transformer with random weights, one matrix for
the target's embedding and the output, saved as its trainer saves it, and its log-probabilities.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from jtrans.decoding.translator import load_model
from jtrans.errors import CheckpointError
from jtrans.exchange.reformer_fairseq import import_checkpoint
from jtrans.models.zoo import system_configs
from jtrans.runs import Run

FOLDER = Path(__file__).parent / "fairseq_0_12"
CHECKPOINT = FOLDER / "checkpoint_best.pt"
OUR_IDS = torch.tensor([3, 0, 1, 2, *range(4, 12)])  # of <s> <pad> </s> <unk> and the words
Content = dict[str, Any]


def import_run(checkpoint: Path, run: Path, program: str = "fairseq") -> Run:
    return import_checkpoint(
        checkpoint,
        program=program,
        source_dict=FOLDER / "dict.de.txt",
        target_dict=FOLDER / "dict.en.txt",
        run_folder=run,
    )


@pytest.fixture
def changed(tmp_path: Path) -> Callable[[Callable[[Content], None]], Path]:
    """Return a function that writes the checkpoint with changed content."""

    def write(change: Callable[[Content], None]) -> Path:
        with torch.serialization.safe_globals([argparse.Namespace]):
            content = dict(torch.load(CHECKPOINT, weights_only=True))
        change(content)
        path = tmp_path / "changed.pt"
        torch.save(content, path)
        return path

    return write


def test_log_probabilities_are_those_of_fairseq(tmp_path: Path) -> None:
    run = import_run(CHECKPOINT, tmp_path / "run")
    assert run.pipeline.languages == ("de", "en")
    assert run.checkpoint().update == 123
    assert run.config(system_configs()).model.tie == "decoder"  # type: ignore[attr-defined]
    model = load_model(run, "best", torch.device("cpu"))
    expected = json.loads((FOLDER / "log_probs.json").read_text("utf-8"))
    sources = [[*filter(bool, OUR_IDS[row].tolist())] for row in expected["source"]]
    for source, target, log_probs in zip(
        sources, expected["target_in"], expected["log_probs"], strict=True
    ):
        ids = torch.tensor([source])
        with torch.inference_mode():
            hidden = model.decode(OUR_IDS[target][None], model.encode(ids, ids > 0))
            computed = model.project(hidden)[0].log_softmax(-1)
        torch.testing.assert_close(
            computed[:, OUR_IDS], torch.tensor(log_probs), rtol=0.0, atol=1e-5
        )


@pytest.mark.parametrize("parts", [["model"], ["model", "task"]])
def test_languages_that_the_model_does_not_know_are_those_of_task_and_dictionaries(
    parts: list[str], changed: Callable[..., Path], tmp_path: Path
) -> None:
    def forget(content: Content) -> None:
        for part in parts:
            entries = content["cfg"][part]
            values = entries if isinstance(entries, dict) else vars(entries)
            values |= {"source_lang": None, "target_lang": None}
        if parts == ["model"]:  # others than those of the dictionaries
            content["cfg"]["task"] |= {"source_lang": "nl", "target_lang": "fr"}

    languages = ("nl", "fr") if parts == ["model"] else ("de", "en")
    assert import_run(changed(forget), tmp_path / "run").pipeline.languages == languages


def test_settings_of_a_file_are_read_as_those_of_a_command(
    changed: Callable[..., Path], tmp_path: Path
) -> None:
    def nest(content: Content) -> None:
        """Save the settings as fairseq-hydra-train does: a dictionary for each side."""
        flat = vars(content["cfg"]["model"])
        sides = {
            side: {
                name.removeprefix(f"{side}_"): value
                for name, value in flat.items()
                if name.startswith(f"{side}_")
            }
            for side in ("encoder", "decoder")
        }
        shared = {key: value for key, value in flat.items() if not key.startswith((*sides,))}
        content["cfg"]["model"] = shared | sides | {"adaptive_softmax_cutoff": []}

    nested = import_run(changed(nest), tmp_path / "nested")
    plain = import_run(CHECKPOINT, tmp_path / "plain")
    assert nested.config(system_configs()).model == plain.config(system_configs()).model


def set_argument(**values: Any) -> Callable[[Content], None]:
    return lambda content: vars(content["cfg"]["model"]).update(values)


def drop_keys(content: Content) -> None:
    del content["model"]["encoder.layers.0.self_attn.k_proj.weight"]


def narrow_keys(content: Content) -> None:
    name = "decoder.layers.0.encoder_attn.k_proj.weight"
    content["model"][name] = content["model"][name][:, :4].clone()


def halve_output(content: Content) -> None:
    name = "decoder.output_projection.weight"
    content["model"][name] = content["model"][name].half()


def change_output(content: Content) -> None:
    rows = content["model"]["decoder.output_projection.weight"]
    content["model"]["decoder.output_projection.weight"] = rows.clone() + 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_argument(activation_fn="gelu"), "'gelu'"),
        (set_argument(layernorm_embedding=True), "layernorm_embedding"),
        (set_argument(encoder_learned_pos=True), "learned source positions"),
        (set_argument(encoder_layers=2), "encoder_layers is 2"),
        (drop_keys, "only part of encoder.layers.0.self_attn"),
        (narrow_keys, "have different shapes"),
        (change_output, "are one, but differ"),
        (halve_output, "are one, but differ"),
        (set_argument(base_layers=torch.ones(2)), "base_layers"),
        (set_argument(activation_dropout=torch.ones(2)), "relu_dropout cannot be"),
        (lambda content: content.pop("cfg"), "it has no arguments"),
    ],
)
def test_what_has_no_counterpart_is_refused(
    changed: Callable[..., Path],
    tmp_path: Path,
    change: Callable[[Content], None],
    message: str,
) -> None:
    with pytest.raises(CheckpointError, match=message) as caught:
        import_run(changed(change), tmp_path / "run")
    assert caught.value.exit_code == 2
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["arch", "_name"])  # of saved args and of a saved cfg
def test_a_checkpoint_of_another_architecture_names_it(
    name: str, changed: Callable[[Callable[[Content], None]], Path], tmp_path: Path
) -> None:
    unknown = {"encoder_layers": None, "arch": None, name: "fconv_iwslt_de_en"}
    with pytest.raises(CheckpointError, match="arguments have no encoder_layers") as raised:
        import_run(changed(set_argument(**unknown)), tmp_path / "run")
    assert "its architecture is 'fconv_iwslt_de_en'" in str(raised.value.hint)


def test_the_other_format_is_named_when_it_fits(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        import_run(CHECKPOINT, tmp_path / "run", program="reformer-fairseq")
    assert "--from fairseq" in (caught.value.hint or "")
