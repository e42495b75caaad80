"""`jtrans info`: what a bug report needs."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from pathlib import Path

import pytest
import torch
import typer
from typer.testing import CliRunner

from jtrans import __version__
from jtrans.cli.info import info


def run(*arguments: str) -> str:
    app = typer.Typer()
    app.command()(info)
    products = torch.get_float32_matmul_precision()
    result = CliRunner().invoke(app, list(arguments))
    torch.set_float32_matmul_precision(products)
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_versions_devices_and_folders_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JTRANS_DEVICE", "cpu")
    facts = json.loads(run("--json"))
    assert facts["jtrans"] == __version__
    assert facts["python"] == platform.python_version()
    assert facts["packages"]["torch"] == importlib.metadata.version("torch")
    assert facts["devices"][0].startswith("cpu, ")
    assert "fp32 by " in facts["devices"][0]
    assert facts["folders"]["working folder"] == str(tmp_path)
    assert facts["environment"] == {"JTRANS_DEVICE": "cpu"}


def test_the_table_has_a_line_for_each_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JTRANS_OFFLINE", "1")
    lines = [line.split(maxsplit=1) for line in run().splitlines()]
    assert ["jtrans", __version__] in lines
    assert ["JTRANS_OFFLINE", "1"] in lines
    assert any(line[0] == "device" for line in lines)
