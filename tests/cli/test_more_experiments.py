"""The programs of docs/more-experiments.md, as the page calls them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from plugins.command_line import ROOT, Jtrans, environment
from plugins.random_runs import MakeRun

from jtrans.data.prepared import PreparedCorpus

PAGE = Path(ROOT) / "docs" / "more-experiments.md"


@pytest.fixture
def programs() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def run(program: str, *arguments: object, stdin: str = "") -> str:
    line = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(
        line, input=stdin, capture_output=True, encoding="utf-8", env=environment(), check=True
    ).stdout


def test_n_best_lists_are_reranked_from_right_to_left(
    programs: list[str],
    jtrans: Jtrans,
    make_run: MakeRun,
    corpus: PreparedCorpus,
    source: Path,
    tmp_path: Path,
) -> None:
    reverse, rerank = programs
    assert run(reverse, corpus.folder, stdin="a dog runs .\n\n") == ". runs dog a\n\n"
    forward = make_run("forward", pipeline=corpus.pipeline, data=str(corpus.folder))
    nbest, backward, scores = (tmp_path / name for name in ("nbest", "backward", "scores"))
    line = ["--input", source, "--output", nbest, "--beam", 4, "--n-best", 4, "--format", "jsonl"]
    assert jtrans("translate", forward, *line).code == 0
    backward.write_text(run(reverse, forward, "jsonl", stdin=nbest.read_text("utf-8")), "utf-8")
    scored = jtrans("score", forward, "--force", backward, "--src", backward, "--json")
    scores.write_text(scored.out, "utf-8")
    chosen = run(rerank, nbest, scores).splitlines()
    listed = [json.loads(row)["translations"] for row in nbest.read_text("utf-8").splitlines()]
    assert len(chosen) == len(listed) == 4
    for text, translations in zip(chosen, listed, strict=True):
        assert text in [each["text"] for each in translations]
