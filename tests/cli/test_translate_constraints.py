"""`jtrans translate`: constraints line by line, and what does not fit or contradicts itself."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from plugins.command_line import SOURCE, Jtrans
from plugins.random_runs import JOINT, MakeRun

LONGER = ["--max-length", "S+8"]


def json_lines(*objects: dict[str, Any]) -> bytes:
    """The lines of some objects."""
    return "".join(json.dumps(each) + "\n" for each in objects).encode()


def test_phrases_of_files_and_of_json_fields_are_the_same(
    jtrans: Jtrans, make_run: MakeRun, source: Path, tmp_path: Path
) -> None:
    run, required, forbidden = make_run(), tmp_path / "required", tmp_path / "forbidden"
    free = jtrans("translate", run, "-i", source, *LONGER).out.splitlines()
    banned = free[3].split()[0]
    required.write_text("fast dog\tman reads\n\n\n\n", encoding="utf-8")
    forbidden.write_text(f"\n\n\n{banned}\n", encoding="utf-8")
    files = ["--phrases", required, "--forbidden-phrases", forbidden]
    result = jtrans("translate", run, "-i", source, *files, *LONGER)
    assert result.code == 0
    lines = result.out.splitlines()
    assert "fast dog" in lines[0] and "man reads" in lines[0]
    assert lines[1:3] == free[1:3]
    assert banned not in lines[3].split()
    assert jtrans("translate", run, *files, *LONGER, stdin=SOURCE.encode()).out == result.out
    objects: list[dict[str, Any]] = [{"source": line} for line in SOURCE.splitlines()]
    objects[0]["phrases"] = ["fast dog", "man reads"]
    objects[3]["forbidden"] = [banned]
    stdin = json_lines(*objects)
    fields = jtrans("translate", run, "--input-format", "jsonl", *LONGER, stdin=stdin)
    assert fields.out == result.out
    part = jtrans("translate", run, "-i", source, *files, *LONGER, "--shard", "2/2").out
    assert part.splitlines() == lines[2:]


def test_a_prefix_of_tokens_goes_on_with_what_a_translation_began_with(
    jtrans: Jtrans, make_run: MakeRun
) -> None:
    run = make_run()
    options = ["--input-format", "jsonl", "--format", "jsonl", *LONGER]
    first = jtrans("translate", run, *options, stdin=json_lines({"source": "hund rennt"})).out
    best = json.loads(first)["translations"][0]
    request = {"source": "hund rennt", "prefix_tokens": best["tokens"][:2]}
    [line] = jtrans("translate", run, *options, stdin=json_lines(request)).out.splitlines()
    again = json.loads(line)
    assert again["prefix_tokens"] == best["tokens"][:2]
    assert again["translations"][0]["tokens"] == best["tokens"]


def test_a_constraint_of_null_is_none(jtrans: Jtrans, make_run: MakeRun) -> None:
    run, plain = make_run(), {"source": "hund rennt"}
    nulls = dict.fromkeys(("prefix", "prefix_tokens", "phrases", "forbidden"))
    options = ["--input-format", "jsonl", *LONGER]
    expected = jtrans("translate", run, *options, stdin=json_lines(plain)).out
    assert jtrans("translate", run, *options, stdin=json_lines(plain | nulls)).out == expected


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"phrases": ["a dog"], "forbidden": ["dog"]}, "'a dog' contains the forbidden"),
        ({"phrases": [" "]}, "' ' has no words"),
        ({"phrases": ["cat"]}, "parts that the target vocabulary lacks"),
        ({"phrases": ["a man a dog a man"]}, "take 7 tokens, but the translation has at most 4"),
        ({"prefix_tokens": ["cat"]}, "no target token 'cat'"),
        ({"prefix": "a dog a dog"}, "a prefix of 4 tokens leaves no room"),
        ({"prefix_tokens": ["a", "dog"] * 2}, "of at most 4 ("),
        ({"prefix": "a", "prefix_tokens": ["dog"]}, "both `prefix` and `prefix_tokens`"),
        ({"phrases": "a dog"}, "`phrases` is not a list of strings"),
        ({"prefix": ["a"]}, "`prefix` is not a string"),
    ],
)
def test_constraints_that_cannot_be_fulfilled_are_refused_with_their_line(
    jtrans: Jtrans, make_run: MakeRun, tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    path = tmp_path / "source.jsonl"
    path.write_bytes(json_lines({"source": "mann"}, {"source": "hund", **fields}))
    options = ["--input-format", "jsonl", "--max-length", "4", "-o", tmp_path / "out"]
    result = jtrans("translate", make_run(), "-i", path, *options)
    assert result.code == 2
    assert message in result.err and "line 2" in result.err
    assert "hint:" in result.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--phrases", "short"], "short has 2 lines, but the input has 4 (--phrases)"),
        (["--phrases", "four", "--sample"], "not by sampling"),
        (["--phrases", "four", "--beam", "4", "--diverse-groups", "2"], "not by diverse groups"),
        (["--beam", "5", "--diverse-groups", "2"], "cannot be divided into 2 groups"),
        (["--diversity", "0.3"], "--diversity has no effect without --diverse-groups"),
        (["--coverage-penalty", "-1"], "coverage penalty -1.0 is not between"),
        (["--coverage-penalty", "0.2", "--mbr", "chrf"], "--mbr does in another way"),
        (["--grid"], "plain text has no place for the grid"),
        (["--grid", "--format", "jsonl"], "transformer has no grid"),
    ],
)
def test_options_that_cannot_be_used_together_are_refused(
    jtrans: Jtrans, make_run: MakeRun, source: Path, options: Sequence[str], message: str
) -> None:
    Path("short").write_text("a\nb\n", encoding="utf-8")
    Path("four").write_text("dog\n\n\n\n", encoding="utf-8")
    result = jtrans("translate", make_run(), "-i", source, *options, "-o", "out")
    assert result.code == 2
    assert message in " ".join(result.err.split())
    assert not Path("out").exists()


def test_groups_and_loops_reach_the_search(jtrans: Jtrans, make_run: MakeRun, source: Path) -> None:
    run = make_run()
    options = ["--beam", "4", "--n-best", "4", *LONGER]
    plain = jtrans("translate", run, "-i", source, *options).out
    groups = ["--diverse-groups", "4", "--diversity", "30"]
    diverse = jtrans("translate", run, "-i", source, *options, *groups).out
    first = [line.split(" ||| ")[1].split()[0] for line in diverse.splitlines()[:4]]
    assert len(set(first)) == 4
    assert plain != diverse
    guarded = jtrans("translate", run, "-i", source, *options, "--max-repeats", "1").out
    words = [line.split(" ||| ")[1].split() for line in guarded.splitlines()]
    assert all(a != b for line in words for a, b in itertools.pairwise(line))


def test_the_grid_of_a_joint_system_goes_to_jsonl(
    jtrans: Jtrans, make_run: MakeRun, source: Path
) -> None:
    run = make_run(config={"model": JOINT})
    result = jtrans("translate", run, "-i", source, "--format", "jsonl", "--grid")
    first, empty, *_ = (json.loads(line)["translations"][0] for line in result.out.splitlines())
    assert first["source_tokens"] == ["ein", "mann", "liest", ".", "</s>"]
    assert [len(row) for row in first["grid"]] == [5] * len(first["tokens"])
    assert empty["grid"] == []


def test_a_line_that_is_too_long_is_translated_in_parts(jtrans: Jtrans, make_run: MakeRun) -> None:
    run = make_run()
    long = ("ein mann liest . " * 400).encode() + b"\nhund\n"
    options = ["--beam", "1", "--max-length", "6"]
    result = jtrans("translate", run, *options, stdin=long)
    assert result.code == 0
    assert "line 1 has 1,600 tokens, more than 1,023: translated in 400 parts" in result.err
    [sentence, _] = jtrans("translate", run, *options, stdin=b"ein mann liest .\nhund\n").out.split(
        "\n", 1
    )
    assert result.out.splitlines()[0] == " ".join([sentence] * 400)
    joint = make_run("joint", config={"model": JOINT})
    refused = jtrans("translate", joint, "--format", "jsonl", "--grid", stdin=long)
    assert refused.code == 2
    assert "cannot be translated in parts with a grid" in refused.err


def test_a_refused_line_of_a_file_of_constraints_is_named_with_its_file(
    jtrans: Jtrans, make_run: MakeRun, tmp_path: Path
) -> None:
    source, phrases = tmp_path / "source.de", tmp_path / "phrases.en"
    source.write_text("hund\nmann\n", encoding="utf-8")
    phrases.write_text("\ncat\n", encoding="utf-8")
    result = jtrans("translate", make_run(), "-i", source, "--phrases", phrases)
    assert result.code == 2
    assert f"({source}:2, {phrases}:2)" in result.err.replace("\n", "")
