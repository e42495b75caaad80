"""`jtrans info`: what a bug report needs."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from pathlib import Path

from plugins.command_line import Jtrans

from jtrans import __version__


def test_versions_devices_and_folders_are_given(jtrans: Jtrans, tmp_path: Path) -> None:
    facts = json.loads(jtrans("info", "--json").out)
    assert facts["jtrans"] == __version__
    assert facts["python"] == platform.python_version()
    assert facts["packages"]["torch"] == importlib.metadata.version("torch")
    assert facts["devices"][0].startswith("cpu, ")
    assert "fp32 by " in facts["devices"][0]
    assert facts["folders"]["working folder"] == str(tmp_path)
    assert facts["environment"] == {"JTRANS_DEVICE": "cpu", "JTRANS_OFFLINE": "1"}


def test_the_table_has_a_line_for_each_fact(jtrans: Jtrans) -> None:
    lines = [line.split(maxsplit=1) for line in jtrans("info").out.splitlines()]
    assert ["jtrans", __version__] in lines
    assert ["JTRANS_OFFLINE", "1"] in lines
    assert any(line[0] == "device" for line in lines)
