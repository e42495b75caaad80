"""The whole path through the real entry point, each kind of work once in a process of its own."""

from __future__ import annotations

import functools
import json
import random
from pathlib import Path

import pytest
from plugins.command_line import Jtrans, run_process

NOUNS = {"Hund": "dog", "Katze": "cat", "Vogel": "bird", "Fisch": "fish", "Maus": "mouse"}
VERBS = {"sieht": "sees", "jagt": "hunts", "ruft": "calls"}
SIZES = ("model.width=16", "model.ffn_width=32", "model.heads=2", "training.batch_tokens=300")
LIMITS = ("training.max_updates=4", "training.validate_every=2", "training.validate_sentences=4")


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder with the files of a small corpus."""
    draw = random.Random(1)
    pairs: dict[str, str] = {}
    while len(pairs) < 120:
        words = [draw.choice(list(NOUNS)), draw.choice(list(VERBS)), draw.choice(list(NOUNS))]
        words += draw.choices(list(NOUNS), k=draw.randint(0, 3))
        pairs[f"{' '.join(words)}."] = f"{' '.join({**NOUNS, **VERBS}[word] for word in words)}."
    for name, part in {"train": (0, 90), "valid": (90, 105), "test": (105, 120)}.items():
        chosen = list(pairs.items())[slice(*part)]
        for ending, side in (("de", 0), ("en", 1)):
            text = "".join(f"{pair[side]}\n" for pair in chosen)
            (tmp_path / f"{name}.{ending}").write_text(text, encoding="utf-8", newline="\n")
    return tmp_path


@pytest.mark.thorough
def test_the_whole_path(workplace: Path, jtrans: Jtrans) -> None:
    process: Jtrans = functools.partial(run_process, folder=workplace)
    files = ("--train", "train", "--valid", "valid", "--test", "test", "--languages", "de-en")
    done = process("prepare", *files, "--bpe-merges", "30", "--workers", "1", "--out", "data")
    assert (done.code, done.out) == (0, ""), done.err
    assert done.err.splitlines()[-1].startswith("Next: jtrans train ")

    changes = [part for setting in (*SIZES, *LIMITS) for part in ("--set", setting)]
    for run, recipe in ((process, "transformer"), (jtrans, "reformer-fast")):
        where = ("--data", "data", "--run", f"runs/{recipe}")
        done = run("train", f"demo/{recipe}", *where, *changes, "--json")
        assert done.code == 0, done.err
        result = json.loads(done.out)
        assert (result["update"], result["reason"]) == (4, "max_updates")
        assert done.err.splitlines()[-1] == f"Next: jtrans translate runs/{recipe}"

    lines = "Hund sieht Katze.\n\n  \nVogel ruft Maus."
    ensemble = ("runs/transformer", "runs/reformer-fast", "--max-length", "8")
    options = ("--format", "jsonl", "--n-best", "2")
    done = process("translate", *ensemble, *options, stdin=lines.encode())
    assert done.code == 0, done.err
    entries = [json.loads(line) for line in done.out.splitlines()]
    assert [entry["source"] for entry in entries] == lines.split("\n")
    assert [len(entry["translations"]) for entry in entries] == [2, 1, 1, 2]
    assert [entry["translations"][0]["text"] for entry in entries[1:3]] == ["", ""]

    done = jtrans("average", "transformer", "--last", "2")
    assert done.code == 0, done.err
    done = jtrans(
        *("translate", "transformer", "--checkpoint", "average", "--max-length", "8"),
        *("--input", "test.de", "--output", "average.en"),
    )
    assert (done.code, done.out) == (0, ""), done.err
    assert (workplace / "average.en").read_text(encoding="utf-8").count("\n") == 15

    done = jtrans(
        "score", "transformer", "reformer-fast", "--beam", "1", "--max-length", "8", "--json"
    )
    assert done.code == 0, done.err
    scores = json.loads(done.out)
    assert [system["name"] for system in scores["systems"]] == ["transformer", "reformer-fast"]
    assert scores["paired"]

    done = jtrans("score", "@last", "--force", "test.en", "--src", "test.de", "--json")
    assert done.code == 0, done.err
    forced = json.loads(done.out)["sentences"]
    assert len(forced) == 15
    assert all(sentence["log_prob"] < 0 for sentence in forced)

    before = sorted(workplace.rglob("*"))
    done = jtrans(
        *("import", "train.de", "--from", "reformer-fairseq", "--run", "runs/imported"),
        *("--source-dict", "train.de", "--target-dict", "train.en", "--json"),
    )
    assert (done.code, done.err) == (2, "")
    assert json.loads(done.out)["error"]["message"]
    assert sorted(workplace.rglob("*")) == before
