"""`jtrans translate`: constraints of the search, sampling, minimum Bayes risk, word alignments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from plugins.command_line import Jtrans
from plugins.random_runs import MakeRun

SOURCE = "ein mann liest .\n\nein hund rennt schnell .\nhund\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.de"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def test_samples_are_the_same_in_any_file_and_differ_by_seed(
    jtrans: Jtrans, make_run: MakeRun, source: Path, tmp_path: Path
) -> None:
    run = make_run()
    options = ["--sample", "--beam", "4", "--n-best", "4", "--top-p", "0.9", "--seed", "3"]
    result = jtrans("translate", run, "-i", source, *options)
    assert result.code == 0
    rows = [line.split(" ||| ") for line in result.out.splitlines()]
    assert [row[0] for row in rows] == ["0"] * 4 + ["1"] + ["2"] * 4 + ["3"] * 4
    last = tmp_path / "last.de"
    last.write_text("hund\nein mann liest .\n", encoding="utf-8")
    other = [
        line.split(" ||| ")
        for line in jtrans("translate", run, "-i", last, *options).out.splitlines()
    ]
    assert [row[1] for row in other] == [row[1] for row in [*rows[9:], *rows[:4]]]
    options[-1] = "4"
    assert jtrans("translate", run, "-i", source, *options).out != result.out


def test_the_translation_most_like_the_others_comes_first(
    jtrans: Jtrans, make_run: MakeRun, source: Path
) -> None:
    run = make_run()
    options = ["--beam", "6", "--n-best", "6", "--mbr", "chrf", "--format", "jsonl"]
    for extra in ([], ["--sample"]):
        result = jtrans("translate", run, "-i", source, *options, *extra)
        assert result.code == 0
        for line in result.out.splitlines():
            scores = [entry["score"] for entry in json.loads(line)["translations"]]
            assert scores == sorted(scores, reverse=True)
            assert all(0.0 <= score <= 100.001 for score in scores)


def test_alignments_go_to_jsonl_and_to_a_file(
    jtrans: Jtrans, make_run: MakeRun, source: Path, tmp_path: Path
) -> None:
    run, links = make_run(), tmp_path / "links.txt"
    result = jtrans(
        "translate",
        run,
        "-i",
        source,
        "--alignments",
        "--format",
        "jsonl",
        "--alignments-file",
        links,
    )
    assert result.code == 0
    rows = [json.loads(line)["translations"][0] for line in result.out.splitlines()]
    assert [row["alignment"] for row in rows] == links.read_text().splitlines()
    assert rows[1]["alignment"] == ""
    for row, line in zip(rows, SOURCE.splitlines(), strict=True):
        pairs = [tuple(map(int, pair.split("-"))) for pair in row["alignment"].split()]
        assert sorted(j for _, j in pairs) == list(range(len(pairs)))  # every target word once
        assert all(i < len(line.split()) for i, _ in pairs)
    plain = json.loads(
        jtrans("translate", run, "-i", source, "--format", "jsonl").out.splitlines()[0]
    )
    assert "alignment" not in plain["translations"][0]


def test_translations_begin_with_their_prefixes(
    jtrans: Jtrans, make_run: MakeRun, source: Path, tmp_path: Path
) -> None:
    """A word of a prefix that the model does not know stays as it is given."""
    run, prefixes = make_run(), tmp_path / "prefix.en"
    prefixes.write_text("a dog\n\nthe man\n\n", encoding="utf-8")
    result = jtrans("translate", run, "-i", source, "--prefix", prefixes)
    lines = result.out.splitlines()
    assert result.code == 0
    assert lines[0].lower().startswith("a dog") and lines[2].lower().startswith("the man")
    free = jtrans("translate", run, "-i", source).out.splitlines()
    assert (lines[1], lines[3]) == (free[1], free[3])
    piped = jtrans("translate", run, "--prefix", prefixes, stdin=SOURCE.encode())
    assert piped.out == result.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--temperature", "0.5"], "--temperature has no effect without --sample"),
        (["--sample", "--temperature", "0"], "temperature 0.0 is not between"),
        (["--sample", "--top-p", "1.5"], "top-p 1.5 is not above 0"),
        (["--alignments"], "plain text has no place for word alignments"),
        (["--alignment-layer", "decoder.0.cross"], "no effect without word alignments"),
        (["--unk-replace", "--alignment-layer", "decoder.9.cross"], "no attention map"),
        (["--mbr", "blue"], "unknown utility 'blue'"),
        (["--stopping", "bind"], "unknown stopping rule 'bind'"),
        (["--sample", "--n-best", "9", "--beam", "3"], "beam 3 cannot give 9"),
    ],
)
def test_options_that_cannot_be_used_are_refused(
    jtrans: Jtrans,
    make_run: MakeRun,
    source: Path,
    tmp_path: Path,
    options: list[str],
    message: str,
) -> None:
    output = tmp_path / "out.en"
    result = jtrans("translate", make_run(), "-i", source, "-o", output, *options)
    assert result.code == 2
    assert message in result.err
    assert "Traceback" not in result.err
    assert not output.exists()


def test_prefixes_that_do_not_fit_are_refused(
    jtrans: Jtrans, make_run: MakeRun, source: Path, tmp_path: Path
) -> None:
    run, prefixes = make_run(), tmp_path / "prefix.en"
    prefixes.write_text("a\nb\n", encoding="utf-8")
    result = jtrans("translate", run, "-i", source, "--prefix", prefixes)
    assert result.code == 2
    assert "has 2 lines, but the input has 4" in result.err
    result = jtrans("translate", run, "--prefix", prefixes, stdin=SOURCE.encode())
    assert result.code == 2
    assert "has 2 lines, but the input has more" in result.err
    prefixes.write_text("a " * 90 + "\n\n\n\n", encoding="utf-8")
    result = jtrans("translate", run, "-i", source, "--prefix", prefixes)
    assert result.code == 2
    assert "leaves no room" in result.err and "--max-length" in result.err
