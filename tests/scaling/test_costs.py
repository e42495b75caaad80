"""Estimates in other processes, and what is said of one that fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from plugins.small_corpus import MakeConfig

from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import JtransError, WorkError
from jtrans.scaling.costs import predict


def test_an_estimate_whose_process_was_killed_says_so(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
    monkeypatch.setattr("jtrans.scaling.costs.own_command", lambda: dying)
    with pytest.raises(WorkError, match=r"deeper model cannot be .* memory runs out") as error:
        predict({"deeper": make_config()}, Path("data"), None)
    assert "--step" in str(error.value.hint)
    assert error.value.kind == "scaling.estimate"


def test_an_estimate_that_refuses_its_input_ends_as_bad_input(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = {"message": "the corpus is damaged", "hint": "prepare it", "kind": "corpus.damaged"}
    answer = json.dumps({"error": error})
    code = f"print({answer!r}); exit(2)"
    monkeypatch.setattr("jtrans.scaling.costs.own_command", lambda: [sys.executable, "-c", code])
    with pytest.raises(JtransError, match="the corpus is damaged") as caught:
        predict({"base": make_config()}, Path("data"), None)
    assert (caught.value.exit_code, caught.value.kind) == (2, "corpus.damaged")


@pytest.mark.thorough
def test_costs_are_estimated_in_another_process(
    make_config: MakeConfig, corpus: PreparedCorpus
) -> None:
    estimates = predict({"base": make_config()}, corpus.folder, "cpu")
    assert estimates["base"].parameters > 0
    assert estimates["base"].memory_bytes > 0


@pytest.mark.thorough
def test_an_estimate_without_a_corpus_says_why(make_config: MakeConfig, tmp_path: Path) -> None:
    with pytest.raises(JtransError) as caught:
        predict({"base": make_config()}, tmp_path / "nowhere", "cpu")
    assert "base model" in caught.value.message
    assert (caught.value.kind, caught.value.exit_code) == ("corpus.not-prepared", 2)
