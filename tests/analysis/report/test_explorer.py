"""Attention kept in a run: as bytes, once."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import NoReturn

import numpy as np
import pytest
import safetensors.torch
from plugins.random_runs import ON_CPU

from jtrans.analysis.report import explorer
from jtrans.analysis.report.explorer import explain_lines
from jtrans.analysis.report.pages import fragment
from jtrans.analysis.study.load import load_study
from jtrans.analysis.study.members import Member
from jtrans.analysis.study.study import Study
from jtrans.data.prepared import PreparedCorpus
from jtrans.runs import Run
from jtrans.text.pipeline import TextPipeline

LINES = [1, 4]


@pytest.fixture
def study(fresh_study: Study) -> Study:
    """A study whose runs keep no attention yet."""
    return fresh_study


def _explain(study: Study, subject: int = 1) -> list[dict[str, object]]:
    member = study.subjects[subject].run_members[0]
    return [asdict(item) for item in explain_lines(member, LINES)]


def _again(study: Study) -> Study:
    return load_study(study.runs, "test", ON_CPU)


def _no_model(*_arguments: object) -> NoReturn:
    raise AssertionError("a model was loaded")


def test_a_second_time_no_model_is_loaded(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _explain(study)
    monkeypatch.setattr(Member, "translator", property(_no_model))
    assert _explain(_again(study)) == first


def test_other_weights_are_looked_at_again(study: Study) -> None:
    first = _explain(study)
    run = study.subjects[1].runs[0]
    weights = safetensors.torch.load_file(run.checkpoint().weights)
    with run.new_checkpoint(20) as folder:
        changed = {name: 2 * weight for name, weight in weights.items()}
        safetensors.torch.save_file(changed, folder / "model.safetensors")
    run.set_pointers(best="step-00000020")
    assert _explain(_again(study)) != first


def test_a_damaged_file_is_made_again(study: Study) -> None:
    first = _explain(study)
    [path] = (study.subjects[1].runs[0].folder / "analysis").glob("*attention*.npz")
    path.write_bytes(path.read_bytes()[:100])
    assert _explain(_again(study)) == first


def test_bytes_are_the_weights(study: Study) -> None:
    [item, _] = explain_lines(study.subjects[1].run_members[0], LINES)
    S, T = len(item.source), len(item.predicted)
    shapes = {layer.kind: layer.shape for layer in item.maps}
    assert shapes == {"joint.target": [S, T, T], "joint.source": [T, S, S], "reduction": [T, S]}
    for layer in item.maps:
        weights = np.frombuffer(base64.b64decode(layer.data), dtype=np.uint8).reshape(layer.shape)
        np.testing.assert_allclose(weights.sum(axis=-1) / 255, 1.0, atol=S / 255)


def test_pieces_of_a_run_with_other_words_are_its_own(
    corpus: PreparedCorpus, run_on: Callable[..., Run]
) -> None:
    target = replace(corpus.pipeline.target, lowercase=True)
    other = run_on(corpus, "lower")
    TextPipeline(corpus.pipeline.source, target).save(other.folder / "pipeline.json")
    study = load_study([run_on(corpus, "first"), Run.open(other.folder)], "test", ON_CPU)
    [item, _] = _explain(study)
    words = study.subjects[1].run_members[0].translation.words[LINES[0]]
    assert item["predicted"] == [*target.split(words), "</s>"]


def test_a_sentence_that_is_too_long_to_show_is_not_explained(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explorer, "MOST_PIECES", 1)
    monkeypatch.setattr(explorer, "explain", _no_model)
    monkeypatch.setattr(explorer, "PIECES", (0, 0))
    assert explorer.explored_sentences(study, LINES) == []


def test_a_sentence_is_shown_however_large_its_grids_are(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explorer, "MOST_BYTES", 1)
    assert len(explorer.explored_sentences(study, LINES)) == 1


def test_long_text_is_cut_and_keeps_its_direction() -> None:
    sentence = explorer.ExploredSentence(4, "قال " * 2000, "x" * 10_000, [])
    shown = sentence.to_json()
    assert shown["label"].startswith("5: \u2068قال")
    assert "7,600 characters left out" in shown["source"]
    assert "9,600 characters left out" in shown["reference"]


def test_a_browser_without_javascript_says_why_there_are_no_maps() -> None:
    page = fragment("explorer.html", names=[], data={"sentences": []})
    assert "need JavaScript" in page.partition("<noscript>")[2].partition("</noscript>")[0]
