"""The documented commands prepare the very text that the kept results were made with."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from jtrans.corpora.lines import read_line_file
from jtrans.data.prepared import PreparedCorpus
from jtrans.files import write_text

pytestmark = pytest.mark.realdata

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "data" / "benchmarks" / "reproduction"


def documented(page: str, prefix: str) -> list[str]:
    """Return the words of the command that prepares the files of a prefix."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = re.search(
        rf"^jtrans (prepare --train {prefix}/train(?:.*\\\n)*.*)$", text, re.MULTILINE
    )
    assert found is not None
    return shlex.split(found[1].replace("\\\n", " "))


@pytest.mark.parametrize(
    ("page", "prefix", "corpus", "result"),
    [
        ("reproduction.md", "iwslt14", "iwslt14-de-en", "equal-updates.iwslt14-de-en"),
        ("benchmarks.md", "m30k", "multi30k", "equal-updates.multi30k-de-en"),
    ],
)
def test_the_documented_command_prepares_the_text_of_the_results(
    page: str, prefix: str, corpus: str, result: str, corpora_folder: Path, tmp_path: Path
) -> None:
    for split in ("train", "valid", "test"):
        for language in ("de", "en"):
            lines = read_line_file(corpora_folder / corpus / f"{split}.{language}.gz")
            write_text(tmp_path / prefix / f"{split}.{language}", "\n".join([*lines, ""]))
    words = [*documented(page, prefix), "--out", "prepared"]
    subprocess.run([sys.executable, "-m", "jtrans", *words], cwd=tmp_path, check=True)
    kept = json.loads((KEPT / result / "transformer-2m-1.json").read_text(encoding="utf-8"))
    assert PreparedCorpus.open(tmp_path / "prepared").digests() == kept["data"]["digests"]
