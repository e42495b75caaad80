"""Sample translations of validations: which sentences, and where they are shown."""

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from jtrans.cli.train.table import TrainTable
from jtrans.data.prepared import PreparedCorpus
from jtrans.runs import Run
from jtrans.training.events import SampleTranslation, Validation
from jtrans.training.session import train

SAMPLES = (SampleTranslation("ein [b]", "a [b]", "the [b]"), SampleTranslation("x", "y", "z"))
ROW = Validation(1, 5, 2.0, 2.0, 7.4, 3.0, True, 100.0, 1.0, samples=SAMPLES)


def validations(run: Path) -> list[dict[str, Any]]:
    return [event for event in Run(run).events() if event["event"] == "validation"]


def test_every_validation_logs_the_same_sentences_and_new_translations(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(validate_every=6, validate_sentences=9, validate_samples=4)
    train(config, data=corpus.folder, run=tmp_path / "run")
    first, last = (row["samples"] for row in validations(tmp_path / "run"))
    pairs = list(
        zip(corpus.raw_lines("valid", "source"), corpus.raw_lines("valid", "target"), strict=True)
    )
    shown = [(sample["source"], sample["reference"]) for sample in first]
    assert len(set(shown)) == 4 and set(shown) <= set(pairs)
    assert shown[0] == pairs[0] and shown[-1] == pairs[-1]  # spread over the split
    assert shown == [(sample["source"], sample["reference"]) for sample in last]
    assert all(isinstance(sample["hypothesis"], str) for sample in last)


@pytest.mark.parametrize(("sentences", "samples"), [(0, 3), (4, 0)])
def test_without_translations_or_on_request_there_are_no_samples(
    sentences: int, samples: int, corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    config = make_config(max_updates=2, validate_sentences=sentences, validate_samples=samples)
    train(config, data=corpus.folder, run=tmp_path / "run")
    assert "samples" not in validations(tmp_path / "run")[-1]


def test_samples_change_no_byte_of_the_training(
    corpus: PreparedCorpus, make_config: Any, tmp_path: Path
) -> None:
    for samples in (0, 3):
        config = make_config(validate_every=4, validate_samples=samples)
        train(config, data=corpus.folder, run=tmp_path / str(samples))
    without, with_samples = (Run(tmp_path / name).checkpoint("last").folder for name in "03")
    for name in ("model.safetensors", "state.safetensors"):
        assert (without / name).read_bytes() == (with_samples / name).read_bytes()


@pytest.mark.parametrize("is_verbose", [False, True])
@pytest.mark.parametrize("is_terminal", [False, True])
def test_the_table_shows_one_on_a_terminal_and_all_if_verbose(
    is_terminal: bool,
    is_verbose: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("jtrans.cli.console.is_plain", lambda stream: not is_terminal)
    caplog.set_level(logging.INFO if is_verbose else logging.WARNING, logger="jtrans")
    table = TrainTable()
    table._is_headed = True
    table.validation(ROW)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().err).splitlines()
    cells = [line.split(maxsplit=1) for line in lines[1:]]
    names = ["source", "reference", "hypothesis"]
    if is_verbose:
        assert [cell[0] for cell in cells] == names * 2
        assert cells[2][1].strip() == "the [b]"
    else:
        shown = ["the [b]  (reference: a [b])"] if is_terminal else []
        assert [line.strip() for line in lines[1:]] == shown
