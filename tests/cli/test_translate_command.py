"""`jtrans translate`: text in, text out, order kept; refusals write nothing."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import threading
from pathlib import Path

import pytest
from plugins.command_line import SOURCE, Jtrans, start_process
from plugins.random_runs import MakeRun
from plugins.small_corpus import make_nouns

from jtrans.runs import Run


def test_one_line_comes_out_for_every_line_and_empty_ones_stay(
    jtrans: Jtrans, make_run: MakeRun, source: Path
) -> None:
    result = jtrans("translate", make_run(), "--input", source)
    lines = result.out.split("\n")
    assert result.code == 0
    assert len(lines) == 5
    assert lines[1] == lines[4] == ""
    assert "4 lines" in result.err
    assert "sentences/s" in result.err


def test_a_run_in_use_and_not_writable_translates(
    jtrans: Jtrans, make_run: MakeRun, source: Path
) -> None:
    run = make_run()
    with Run(run).lock():
        before = sorted((path, path.stat().st_mtime_ns) for path in run.rglob("*"))
        assert jtrans("translate", run, "--input", source).code == 0
        assert sorted((path, path.stat().st_mtime_ns) for path in run.rglob("*")) == before


def test_a_pipe_gives_what_the_file_gives(jtrans: Jtrans, make_run: MakeRun, source: Path) -> None:
    run = make_run()
    from_file = jtrans("translate", run, "-i", source)
    assert jtrans("translate", run, stdin=SOURCE.encode()).out == from_file.out
    windows = b"\xef\xbb\xbf" + SOURCE.replace("\n", "\r\n").encode().rstrip()
    assert jtrans("translate", run, stdin=windows).out == from_file.out


def test_nothing_in_gives_nothing_out(jtrans: Jtrans, make_run: MakeRun) -> None:
    result = jtrans("translate", make_run(), stdin=b"")
    assert (result.code, result.out) == (0, "")


def test_a_file_is_written_whole_with_the_next_step(
    jtrans: Jtrans, make_run: MakeRun, source: Path, tmp_path: Path
) -> None:
    run, out = make_run(), tmp_path / "new" / "hyp.en"
    result = jtrans("translate", run, "-i", source, "-o", out)
    assert result.out == ""
    assert "Next: jtrans score --hyp" in result.err
    assert out.read_text(encoding="utf-8") == jtrans("translate", run, "-i", source).out
    assert [path.name for path in out.parent.iterdir()] == ["hyp.en"]


@pytest.mark.parametrize("lowercase", [False, True])
def test_the_next_step_scores_in_the_case_of_the_run(
    jtrans: Jtrans, make_run: MakeRun, source: Path, tmp_path: Path, lowercase: bool
) -> None:
    pipeline = make_nouns(tmp_path / "corpus", lowercase=lowercase).pipeline
    result = jtrans("translate", make_run(pipeline=pipeline), "-i", source, "-o", "hyp.en")
    options = "--hyp hyp.en --ref REFERENCE" + (" --lowercase" if lowercase else "")
    assert f"Next: jtrans score {options}\n" in result.err


def test_json_lines_carry_scores_tokens_and_the_source(
    jtrans: Jtrans, make_run: MakeRun, source: Path
) -> None:
    out = jtrans("translate", make_run(), "-i", source, "--format", "jsonl", "--n-best", "2").out
    entries = [json.loads(line) for line in out.splitlines()]
    assert [entry["id"] for entry in entries] == [0, 1, 2, 3]
    assert [entry["source"] for entry in entries] == SOURCE.split("\n")[:-1]
    empty = {"text": "", "score": 0.0, "log_prob": 0.0, "tokens": [], "token_log_probs": []}
    assert entries[1]["translations"] == [empty]
    for entry in (entries[0], entries[2], entries[3]):
        first, second = entry["translations"]
        assert first["score"] >= second["score"]
        assert first["tokens"][-1] == "</s>"
        assert first["log_prob"] == pytest.approx(sum(first["token_log_probs"]))


def test_fields_of_json_input_are_passed_through(jtrans: Jtrans, make_run: MakeRun) -> None:
    lines = [{"source": "hund", "talk": 7}, {"id": "b", "source": "", "note": {"x": [1]}}]
    stdin = "".join(json.dumps(line) + "\n" for line in lines).encode()
    options = ("--input-format", "jsonl", "--format", "jsonl")
    result = jtrans("translate", make_run(), *options, stdin=stdin)
    first, second = (json.loads(line) for line in result.out.splitlines())
    assert (first["id"], first["talk"]) == (0, 7)
    assert (second["id"], second["note"]) == ("b", {"x": [1]})
    assert len(first["translations"]) == len(second["translations"]) == 1


def test_n_best_text_names_line_and_score(jtrans: Jtrans, make_run: MakeRun, source: Path) -> None:
    result = jtrans("translate", make_run(), "-i", source, "--n-best", "2")
    rows = [line.split(" ||| ") for line in result.out.splitlines()]
    assert [row[0] for row in rows] == ["0", "0", "1", "2", "2", "3", "3"]
    assert all(float(row[2]) <= 0 for row in rows)


def test_options_reach_the_search(jtrans: Jtrans, make_run: MakeRun, source: Path) -> None:
    run = make_run()
    short = jtrans("translate", run, "-i", source, "--max-length", "2", "--beam", "1")
    assert all(len(line.split()) <= 1 for line in short.out.splitlines())
    cut = jtrans("translate", run, "-i", source, "--batch-tokens", "1", "--precision", "fp32")
    assert cut.out == jtrans("translate", run, "-i", source).out


def test_several_runs_are_an_ensemble(jtrans: Jtrans, make_run: MakeRun, source: Path) -> None:
    runs = [make_run("a", weights_seed=1), make_run("b", weights_seed=2)]
    scores = []
    for which in ([runs[0]], [runs[1]], runs):
        out = jtrans("translate", *which, "-i", source, "--format", "jsonl").out
        scores.append([json.loads(line)["translations"][0]["score"] for line in out.splitlines()])
    assert scores[2] != scores[0]
    assert scores[2] != scores[1]


REFUSED: list[tuple[list[str], str]] = [
    (["--input", "missing.de"], "no such file: missing.de"),
    (["--input", "utf16.de"], "UTF-16"),
    (["--input", "latin.de"], "not UTF-8"),
    (["--input", "zero.de"], "zero byte in line 2"),
    (["--input", "set.sgm"], "set.sgm is a test set in XML, not plain text"),
    (["--input", "table.tsv"], "table.tsv is a table, not plain text"),
    (["--input", "bad.jsonl", "--input-format", "jsonl"], "line 2 of bad.jsonl"),
    (["--input", "deep.jsonl", "--input-format", "jsonl"], "not valid JSON (too many brackets)"),
    (["--input", "half.jsonl", "--input-format", "jsonl"], "line 1 of half.jsonl is not text"),
    (["--input", "zero.jsonl", "--input-format", "jsonl"], "zero byte in its field `source`"),
    (["--input", "nan.jsonl", "--input-format", "jsonl"], "not valid JSON (NaN, Infinity or"),
    (["--input", "digits.jsonl", "--input-format", "jsonl"], "or too large a number)"),
    (["--input", "float.jsonl", "--input-format", "jsonl"], "or too large a number)"),
    (["--format", "json"], "unknown value 'json'"),
    (["--checkpoint", "99"], "no checkpoint 99"),
    (["--beam", "0"], "beam 0"),
    (["--n-best", "9"], "9 translations per line"),
    (["--max-length", "T+5"], "length limit"),
    (["--length-penalty-form", "gnm"], "length penalty form"),
    (["--device", "gpu"], "unknown device"),
    (["--precision", "fp23"], "unknown value 'fp23'"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_bad_input_is_refused_and_nothing_is_written(
    jtrans: Jtrans, make_run: MakeRun, tmp_path: Path, options: list[str], message: str
) -> None:
    run = make_run()
    (tmp_path / "source.de").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "utf16.de").write_bytes(SOURCE.encode("utf-16"))
    (tmp_path / "zero.de").write_bytes(b"hund\nein\0hund\n")
    (tmp_path / "latin.de").write_bytes("schön\n".encode("latin-1"))
    (tmp_path / "bad.jsonl").write_text('{"source": "hund"}\n{"text": "hund"}\n', encoding="utf-8")
    for name, line in {
        "zero": '{"source": "a \\u0000"}',
        "nan": '{"source": "a", "score": NaN}',
        "digits": f'{{"source": "a", "number": {"1" * 5000}}}',
        "float": '{"source": "a", "number": 1e999}',
    }.items():
        (tmp_path / f"{name}.jsonl").write_text(f"{line}\n", encoding="utf-8")
    (tmp_path / "set.sgm").write_text('<srcset setid="x">\n<seg id="1">hund</seg>\n')
    (tmp_path / "table.tsv").write_text("hund\tdog\n")
    (tmp_path / "half.jsonl").write_text('{"source": "a \\ud800"}\n', encoding="utf-8")
    (tmp_path / "deep.jsonl").write_text("[" * 100_000 + "\n", encoding="utf-8")
    chosen = options if "--input" in options else ["--input", "source.de", *options]
    result = jtrans("translate", run, *chosen, "--output", "new/hyp.en")
    assert result.code == 2
    assert message in result.err.splitlines()[0]
    assert result.err.startswith("error: ")
    assert not list((tmp_path / "new").glob("*"))


@pytest.mark.parametrize(
    ("options", "bad", "message"),
    [
        ([], b"sch\xf6n", "byte 0xf6 in line 4"),
        ([], b"hund\0", "zero byte in line 4"),
        (["--workers", "2"], b"sch\xf6n", "byte 0xf6 in line 4"),
        (["--n-best", "2"], b"hund " * 1100, "line 4 has 1,100 tokens"),
        (["--workers", "2", "--n-best", "2"], b"hund " * 1100, "line 4 has 1,100 tokens"),
    ],
)
def test_lines_of_a_pipe_before_a_bad_one_are_answered(
    jtrans: Jtrans, make_run: MakeRun, options: list[str], bad: bytes, message: str
) -> None:
    run = make_run()
    good = b"hund\n\nein mann\n"
    result = jtrans("translate", run, *options, stdin=good + bad + b"\nhund\n")
    assert result.code == 2
    assert message in result.err
    assert result.out == jtrans("translate", run, *options, stdin=good).out
    assert result.out


def test_what_a_pipe_gave_before_a_bad_line_is_kept_beside_the_output(
    jtrans: Jtrans, make_run: MakeRun, tmp_path: Path
) -> None:
    run, output = make_run(), tmp_path / "out.en"
    good = b"hund\n\nein mann\n"
    refused = jtrans("translate", run, "-o", output, stdin=good + b"sch\xf6n\n")
    kept = tmp_path / "out.en.incomplete"
    assert refused.code == 2
    assert f"what was written before is in {kept}" in refused.err
    assert [path.name for path in tmp_path.glob("*out*")] == [kept.name]
    assert jtrans("translate", run, "-o", output, stdin=good).code == 0
    assert output.read_bytes() == kept.read_bytes() != b""
    kept.unlink()
    assert jtrans("translate", run, "-o", output, stdin=b"sch\xf6n\n").code == 2
    assert not kept.exists()


def test_a_line_without_end_from_a_pipe_is_refused(
    jtrans: Jtrans, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jtrans.files.text.LONGEST_LINE", 1 << 20)
    result = jtrans("translate", make_run(), stdin=b"hund\n" + b"x" * (2 << 20) + b"\nhund\n")
    assert result.code == 2
    assert "error: line 2 of standard input is longer than 1 MiB" in result.err
    assert result.out.count("\n") == 1  # of the line before


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b'{"text": "hund"}', "line 3 of standard input is not an object"),
        (b'{"source": "hund", "forbidden": [""]}', "line 3: the forbidden phrase"),
        (b'{"source": "hund", "prefix_tokens": ["a", "a", "a"]}', "line 3: a prefix of 3 tokens"),
    ],
)
def test_json_lines_of_a_pipe_before_a_bad_one_are_answered(
    jtrans: Jtrans, make_run: MakeRun, bad: bytes, message: str
) -> None:
    options = ["--input-format", "jsonl", "--max-length", "3"]
    good = b'{"source": "hund"}\n{"source": ""}\n'
    result = jtrans("translate", make_run(), *options, stdin=good + bad + b"\n" + good)
    assert result.code == 2
    assert message in result.err
    assert result.out.count("\n") == 2


def test_an_unknown_run_names_the_nearest(jtrans: Jtrans, make_run: MakeRun) -> None:
    make_run("runs/demo/fast")
    result = jtrans("translate", "demo/fst")
    assert result.code == 2
    assert "hint: did you mean demo/fast?" in result.err


def test_damaged_weights_are_refused(jtrans: Jtrans, make_run: MakeRun, source: Path) -> None:
    run = make_run()
    path = run / "checkpoints/step-00000010/model.safetensors"
    path.write_bytes(path.read_bytes()[:-7])
    result = jtrans("translate", run, "-i", source, "-o", "hyp.en")
    assert result.code == 2
    assert "damaged" in result.err
    assert not Path("hyp.en").exists()


def test_an_input_that_cannot_be_read_ends_the_command(make_run: MakeRun, tmp_path: Path) -> None:
    with (tmp_path / "new").open("wb") as only_written:
        process = start_process(
            *("translate", make_run()), stdin=only_written, stderr=subprocess.PIPE
        )
        error = process.communicate(timeout=120)[1]
    assert process.returncode == 2
    assert error.startswith(b"error: standard input cannot be read: Bad file descriptor")


@pytest.mark.thorough
def test_what_is_typed_in_another_encoding_is_refused_with_its_line(make_run: MakeRun) -> None:
    terminal, inside = pty.openpty()
    os.write(terminal, b"hund\nsch\xf6n\n")
    process = start_process(
        *("translate", make_run()),
        stdin=inside,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, error = process.communicate(timeout=120)
    os.close(inside)
    os.close(terminal)
    assert (process.returncode, out.count(b"\n")) == (2, 1)
    assert b"error: standard input is not UTF-8 text: byte 0xf6 in line 2" in error


def check_answers(process: subprocess.Popen[bytes]) -> None:
    """Check that every line is answered before the next is written."""
    assert process.stdin is not None
    assert process.stdout is not None
    watchdog = threading.Timer(120, process.kill)
    watchdog.start()
    for line in (b"hund\n", b"\n", b"ein mann\n"):
        process.stdin.write(line)
        process.stdin.flush()
        assert process.stdout.readline().endswith(b"\n")
    process.stdin.close()
    assert process.wait() == 0
    watchdog.cancel()


@pytest.mark.thorough
def test_workers_answer_a_slow_pipe_line_by_line(make_run: MakeRun) -> None:
    with start_process(
        *("translate", make_run(), "--workers", 2), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        check_answers(process)


# Each would make everyone wait for the first translation.
NOT_FOR_TRANSLATING = {
    *("torch._dynamo", "torch._inductor", "triton", "matplotlib", "sacrebleu", "jieba"),
    *("jtrans.training", "jtrans.analysis", "jtrans.preparation"),
}


def test_a_slow_pipe_is_answered_line_by_line_soon(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")  # Python lists its imports
    imports = tmp_path / "imports"
    with (
        imports.open("wb") as log,
        start_process(
            *("translate", make_run()), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        ) as process,
    ):
        check_answers(process)
    loaded = {line.rpartition("|")[2].strip() for line in imports.read_text().splitlines()}
    assert "jtrans.decoding.translator" in loaded and not loaded & NOT_FOR_TRANSLATING
