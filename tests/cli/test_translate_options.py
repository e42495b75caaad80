"""`jtrans translate`: constraints of the search, sampling, minimum Bayes risk, word alignments."""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from plugins.command_line import SOURCE, Jtrans
from plugins.random_runs import MakeRun, RunOn

from jtrans.cli.translate.options import ProcessOptions
from jtrans.cli.translate.output import is_ordinary
from jtrans.data.prepared import PreparedCorpus
from jtrans.decoding import parallel
from jtrans.decoding.comparison import Comparison
from jtrans.decoding.lines.translation import Translation
from jtrans.decoding.options import DecodingChoices
from jtrans.decoding.parallel import Piece, TranslatedPiece
from jtrans.decoding.translator import Translator
from jtrans.errors import JtransError
from jtrans.locks import exclusive
from jtrans.workers import run_jobs


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
        (["--mbr", "chrf", "--beam", "1"], "--mbr chooses among translations"),
        (["--stopping", "bind"], "unknown stopping rule 'bind'"),
        (["--sample", "--n-best", "9", "--beam", "3"], "beam 3 cannot give 9"),
        (["--sample", "--stopping", "bound"], "--stopping bound is for a search"),
        (["--sample", "--diverse-groups", "5"], "--diverse-groups is for a search"),
        (["--min-length", "9", "--max-length", "9"], "does not fit into --max-length 9"),
        (["--data", "corpus"], "--data has no effect without --check"),
        (["--check", "--precision", "int8"], "--check translates the run's valid split"),
        (["--check", "--prefix", "p", "--workers", "2"], "--input and --output and --prefix and"),
        (["--workers", "1025"], "1024"),
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
    assert len(result.out.splitlines()) == 2  # the lines before are translated
    prefixes.write_text("a " * 90 + "\n\n\n\n", encoding="utf-8")
    result = jtrans("translate", run, "-i", source, "--prefix", prefixes)
    assert result.code == 2
    assert "leaves no room" in result.err and "--max-length" in result.err


def test_several_processes_give_what_one_gives(
    jtrans: Jtrans, make_run: MakeRun, tmp_path: Path
) -> None:
    run, source = make_run(), tmp_path / "many.de"
    source.write_text(SOURCE * 40, encoding="utf-8")
    alone = jtrans("translate", run, "-i", source)
    together = jtrans("translate", run, "-i", source, "--workers", "2")
    assert together.code == 0
    assert together.out == alone.out
    assert "160 lines" in together.err


def test_each_gpu_has_a_process_and_the_order_is_kept(
    jtrans: Jtrans, make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, source = make_run(), tmp_path / "many.de"
    source.write_text(SOURCE * 40, encoding="utf-8")
    alone = jtrans("translate", run, "-i", source)
    monkeypatch.setattr(ProcessOptions, "devices", lambda *_: ["cpu", "cpu:0"])
    # forked, which is quicker, and safe without a GPU
    forked = functools.partial(run_jobs, begins_anew=False)
    monkeypatch.setattr(parallel, "run_jobs", lambda *a, begins_anew, **b: forked(*a, **b))
    together = jtrans("translate", run, "-i", source, "--gpus", "2")
    assert together.code == 0
    assert together.out == alone.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gpus", "2"], "this machine has no GPU (--gpus 2)"),
        (["--gpus", "all"], "hint: --workers N uses the CPU"),
        (["--gpus", "0"], "--gpus must be a number or all, not 0"),
        (["--gpus", "1", "--workers", "2"], "--workers is for the CPU, --gpus for GPUs"),
        (["--gpus", "1", "--device", "cpu"], "--gpus 1 excludes --device cpu"),
    ],
)
def test_gpus_that_are_not_there_are_refused(
    jtrans: Jtrans,
    make_run: MakeRun,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    message: str,
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    result = jtrans("translate", make_run(), *options, stdin=b"hund\n")
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_more_gpus_than_there_are_are_refused(
    jtrans: Jtrans, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    result = jtrans("translate", make_run(), "--gpus", "3", stdin=b"hund\n")
    assert (result.code, result.out) == (2, "")
    assert "this machine has 2 GPUs (--gpus 3)" in result.err


def test_the_parts_of_a_file_join_to_the_whole(
    jtrans: Jtrans, make_run: MakeRun, source: Path, tmp_path: Path
) -> None:
    run, prefixes = make_run(), tmp_path / "prefix.en"
    prefixes.write_text("a dog\n\na man\n\n", encoding="utf-8")
    options = ["-i", source, "--prefix", prefixes, "--n-best", "2"]
    whole = jtrans("translate", run, *options).out
    parts = [jtrans("translate", run, *options, "--shard", f"{k}/3").out for k in (1, 2, 3)]
    assert "".join(parts) == whole
    for wrong in ("0/3", "4/3", "1", "a/b"):
        result = jtrans("translate", run, *options, "--shard", wrong)
        assert (result.code, "needs K/N with 1 <= K <= N" in result.err) == (2, True)
    result = jtrans("translate", run, "--shard", "1/2", stdin=b"hund\n")
    assert (result.code, "cannot be divided" in result.err) == (2, True)


def test_after_a_part_the_next_step_is_to_join_the_parts(
    jtrans: Jtrans, make_run: MakeRun, source: Path
) -> None:
    command = ["translate", make_run(), "-i", source, "-o", "out"]
    ended = jtrans(*command, "--shard", "1/2").err
    assert "Next: cat" in ended and "jtrans score" not in ended
    empty = jtrans(*command, "--shard", "1/9").err
    assert "0 lines\n" in empty and "sentences/s" not in empty


def test_an_interrupted_translation_is_continued(
    jtrans: Jtrans,
    make_run: MakeRun,
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, output, links = make_run(), tmp_path / "out.en", tmp_path / "links"
    phrases = tmp_path / "phrases"
    phrases.write_text("dog\n\nfast\nman\n", encoding="utf-8")
    options = ["-i", source, "--phrases", phrases]
    whole = jtrans("translate", run, *options).out
    options += ["-o", output, "--alignments-file", links]
    monkeypatch.setattr("jtrans.decoding.parallel.PIECE_LINES", 1)
    calls = []

    def interrupted(self: Translator, lines: Sequence[str], **more: Any) -> Any:
        calls.append(lines)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return translate(self, lines, **more)

    translate = Translator.translate_nbest
    with monkeypatch.context() as patch:
        patch.setattr(Translator, "translate_nbest", interrupted)
        result = jtrans("translate", run, *options)
    assert result.code == 130
    assert "stopped after 2 lines; the same command continues" in result.err
    assert not output.exists()
    assert output.with_name("out.en.part").read_text() == "".join(whole.splitlines(True)[:2])
    result = jtrans("translate", run, *options)
    assert result.code == 0
    assert "continuing" in result.err and "after 2 lines" in result.err
    assert "2 lines," in result.err
    assert output.read_text() == whole
    assert len(links.read_text().splitlines()) == 4
    assert sorted(path.name for path in tmp_path.glob("*.part*")) == []


def test_a_translation_that_starts_over_says_so(
    jtrans: Jtrans, make_run: MakeRun, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, output = make_run(), tmp_path / "out.en"
    monkeypatch.setattr("jtrans.decoding.parallel.PIECE_LINES", 1)
    (tmp_path / "bad.de").write_text("hund\n" + "hund " * 1100 + "\n", encoding="utf-8")
    result = jtrans("translate", run, "-i", "bad.de", "-o", output, "--n-best", 2)
    assert result.code == 2 and output.with_name("out.en.part").exists()
    result = jtrans("translate", run, "-i", source, "-o", output)
    assert result.code == 0
    assert "starting" in result.err
    assert "over, once there are lines to write: its input, options, .part or" in result.err
    assert output.read_text() == jtrans("translate", run, "-i", source).out


def test_a_translation_does_not_continue_with_another_text_pipeline(
    jtrans: Jtrans, make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, output = make_run(), tmp_path / "out.en"
    monkeypatch.setattr("jtrans.decoding.parallel.PIECE_LINES", 1)
    (tmp_path / "bad.de").write_text("hund\n" + "hund " * 1100 + "\n", encoding="utf-8")
    command = ["translate", run, "-i", "bad.de", "-o", output, "--n-best", 2]
    assert jtrans(*command).code == 2
    assert "continuing" in jtrans(*command).err
    pipeline = run / "pipeline.json"
    content = json.loads(pipeline.read_text(encoding="utf-8"))
    content["target"]["lowercase"] = not content["target"]["lowercase"]
    pipeline.write_text(json.dumps(content), encoding="utf-8")
    assert "continuing" not in jtrans(*command).err


def test_a_continued_translation_has_the_pieces_of_the_whole(
    jtrans: Jtrans, make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other pieces have other batches, in which log-probabilities are rounded otherwise."""
    source = tmp_path / "source.de"
    sizes: list[int] = []
    source.write_text("ein hund\n" * 800, encoding="utf-8")

    @contextlib.contextmanager
    def interrupted(
        _runs: Any, _choices: Any, pieces: Iterable[Piece], **_: Any
    ) -> Iterator[Iterator[TranslatedPiece]]:
        def results() -> Iterator[TranslatedPiece]:
            for piece in pieces:
                if len(sizes) == 3:
                    sizes.clear()
                    raise KeyboardInterrupt
                sizes.append(len(piece.sources))
                empty = Translation("", 0.0, 0.0, [], [], [])
                yield TranslatedPiece([[empty] for _ in piece.sources], [], 0.0)

        yield results()

    monkeypatch.setattr(parallel, "translate_pieces", interrupted)
    command = ["translate", make_run(), "-i", source, "-o", tmp_path / "out", "--workers", "2"]
    assert [jtrans(*command).code for _ in range(2)] == [130, 130]
    jtrans(*command)
    assert sizes == [100, 100]


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_a_stop_before_the_first_lines_says_so(
    jtrans: Jtrans,
    make_run: MakeRun,
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stop: BaseException,
    code: int,
) -> None:
    def stopped(*_: Any, **__: Any) -> Any:
        raise stop

    monkeypatch.setattr(Translator, "translate_nbest", stopped)
    result = jtrans("translate", make_run(), "-i", source, "-o", "out")
    assert result.code == code
    assert "stopped before the first lines were written" in result.err
    assert not list(tmp_path.glob("out*"))


def test_pieces_are_small_enough_to_lose_little_and_follow_from_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def sizes(total: int | None, workers: int = 1, gpus: Sequence[str] = ()) -> int:
        return parallel.piece_lines(
            DecodingChoices(device="cpu"), total, workers=workers, gpus=gpus
        )

    monkeypatch.setattr(parallel, "available_cpus", lambda: 8)
    for threads, lines in ((1, 256), (2, 512), (32, 1024)):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert sizes(None) == sizes(10**6) == lines
    assert (sizes(10**6, workers=8), sizes(10**6, workers=2)) == (256, 1024)
    assert (sizes(800, workers=8), sizes(4, workers=8)) == (32, 32)
    assert (sizes(10**6, gpus=["cuda:0"]), sizes(10**6, gpus=["cuda:0", "cuda:1"])) == (1024, 1024)


def test_a_device_is_written_to_as_it_is(jtrans: Jtrans, make_run: MakeRun, source: Path) -> None:
    null = Path("/dev/null")
    assert jtrans("translate", make_run(), "-i", source, "-o", null).code == 0
    assert not null.is_file()


def test_a_device_for_alignments_stays_one(
    jtrans: Jtrans, make_run: MakeRun, source: Path, tmp_path: Path
) -> None:
    """A file of that name would take its place."""
    links = tmp_path / "links"
    os.mkfifo(links)
    reader = os.open(links, os.O_RDONLY | os.O_NONBLOCK)
    result = jtrans("translate", make_run(), "-i", source, "-o", "out", "--alignments-file", links)
    assert result.code == 0
    assert os.read(reader, 9999).count(b"\n") == 4
    os.close(reader)
    assert links.is_fifo()


@pytest.mark.parametrize(("taken", "option"), [("out", "--output"), ("a", "--alignments-file")])
def test_an_output_that_another_process_writes_is_refused(
    jtrans: Jtrans, make_run: MakeRun, source: Path, tmp_path: Path, taken: str, option: str
) -> None:
    command = ["translate", make_run(), "-i", source, "-o", "out", "--alignments-file", "a"]
    with exclusive(tmp_path / f"{taken}.lock.json", JtransError):
        result = jtrans(*command)
    assert result.code == 2
    assert f"{taken} is being written by process" in result.err
    assert option in result.err
    assert jtrans(*command).code == 0
    left = {path.name for path in tmp_path.iterdir() if path.name.partition(".")[0] in ("out", "a")}
    assert left == {"out", "a"}


def test_a_file_of_the_user_by_the_name_of_the_lock_stays(
    jtrans: Jtrans, make_run: MakeRun, source: Path, tmp_path: Path
) -> None:
    (tmp_path / "out.lock.json").write_text('{"packages": []}', encoding="utf-8")
    refused = jtrans("translate", make_run(), "-i", source, "-o", tmp_path / "out")
    assert refused.code == 2 and "out.lock.json is in the way" in refused.err
    assert (tmp_path / "out.lock.json").read_text(encoding="utf-8") == '{"packages": []}'
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOSPC])
@pytest.mark.parametrize("failing", ["out.lock", "out.lock.json", "out.part", ".out.part.json"])
def test_errors_name_the_file_that_the_user_gave(
    jtrans: Jtrans,
    make_run: MakeRun,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    failing: str,
) -> None:
    run = make_run()

    def refusing(name: str, path: Any, *more: Any, **options: Any) -> Any:
        if Path(path).name.startswith(failing):
            raise OSError(number, os.strerror(number), str(path))
        return originals[name](path, *more, **options)

    originals: dict[str, Any] = {"os": os.open, "path": Path.open}
    monkeypatch.setattr(os, "open", functools.partial(refusing, "os"))
    monkeypatch.setattr(Path, "open", lambda self, *a, **k: refusing("path", self, *a, **k))
    result = jtrans("translate", run, "-i", source, "-o", "out")
    assert result.code in (1, 2)
    assert result.err.splitlines()[0].endswith(" write out")


def test_a_link_stays_one(jtrans: Jtrans, make_run: MakeRun, source: Path, tmp_path: Path) -> None:
    run = make_run()
    (tmp_path / "link").symlink_to("file")
    for before in (None, "earlier\n" * 9):
        if before:
            (tmp_path / "file").write_text(before, encoding="utf-8")
        assert jtrans("translate", run, "-i", source, "-o", "link").code == 0
        assert (tmp_path / "link").is_symlink()
        assert len((tmp_path / "file").read_text(encoding="utf-8").splitlines()) == 4
    with exclusive(tmp_path / "file.lock.json", JtransError):
        result = jtrans("translate", run, "-i", source, "-o", "link")
    assert result.code == 2 and "file is being written by process" in result.err


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no files in memory")
def test_a_link_to_a_file_in_memory_is_no_stream() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        link = Path(name) / "link"
        link.symlink_to("file")
        assert is_ordinary(str(link))
    for stream in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        assert not is_ordinary(stream)


def test_alignments_into_a_folder_are_refused_before_the_work(
    jtrans: Jtrans, make_run: MakeRun, source: Path, tmp_path: Path
) -> None:
    (tmp_path / "links").mkdir()
    result = jtrans(
        "translate", make_run(), "-i", source, "-o", "out", "--alignments-file", "links"
    )
    assert (result.code, "cannot write links: is a directory" in result.err) == (2, True)
    assert not (tmp_path / "out").exists()


def test_what_int8_weights_cost_is_compared_with_fp32(
    jtrans: Jtrans, corpus: PreparedCorpus, run_on: RunOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_on(corpus).folder
    options = ["--precision", "int8", "--check", "--data", corpus.folder]
    monkeypatch.setattr(Comparison, "is_held", True)
    result = jtrans("translate", run, *options)
    assert result.code == 0
    rows = [line.split()[0] for line in result.out.splitlines()]
    assert rows == ["BLEU", "fp32", "int8"]
    monkeypatch.setattr(Comparison, "is_held", False)
    report = jtrans("translate", run, *options, "--json")
    assert report.code == 4
    assert [each["name"] for each in json.loads(report.out)["systems"]] == ["fp32", "int8"]
    result = jtrans("translate", run, *options)
    assert result.code == 4
    assert "int8 loses" in result.err and "more than 0.2" in result.err


def test_one_object_is_of_a_check_alone(jtrans: Jtrans, make_run: MakeRun) -> None:
    refused = jtrans("translate", make_run(), "--json", stdin=b"hund\n")
    assert refused.code == 2
    assert "--json has no effect without --check" in json.loads(refused.out)["error"]["message"]


def test_int8_weights_translate_every_line(jtrans: Jtrans, make_run: MakeRun, source: Path) -> None:
    result = jtrans("translate", make_run(), "-i", source, "--precision", "int8")
    assert result.code == 0 and len(result.out.splitlines()) == 4


def test_samples_of_the_same_text_are_listed_once(
    jtrans: Jtrans, make_run: MakeRun, source: Path
) -> None:
    sampling = ("--sample", "--temperature", "0.01", "--beam", "6", "--mbr", "chrf")
    result = jtrans("translate", make_run(), "-i", source, *sampling, "--n-best", "6")
    assert result.code == 0, result.err
    lines = [line.split(" ||| ")[:2] for line in result.out.splitlines()]
    assert len({tuple(line) for line in lines}) == len(lines) < 10


def test_a_device_may_take_both_outputs(jtrans: Jtrans, make_run: MakeRun, source: Path) -> None:
    outputs = ("--output", "/dev/null", "--alignments-file", "/dev/null")
    assert jtrans("translate", make_run(), "-i", source, *outputs).code == 0


@pytest.mark.parametrize("precision", ["auto", "fp32"])
def test_a_check_needs_another_precision(jtrans: Jtrans, make_run: MakeRun, precision: str) -> None:
    result = jtrans("translate", make_run(), "--check", "--precision", precision)
    assert result.code == 2
    assert "add --precision int8 or bf16" in result.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output", "SOURCE"], "--input and --output name the same file"),
        (["--output", "out.gz"], "hint: --output out, and compress it afterwards"),
        (["--prefix", "out.part", "--output", "out"], "--prefix and --output name the same file"),
        (["--output", "new", "--alignments-file", "./new"], "--output and --alignments-file name"),
        (["--prefix", "SOURCE", "--alignments-file", "SOURCE"], "name the same file"),
        (["--prefix", "new.part.json", "-o", "new"], "--prefix and --output name the same file"),
        (["--prefix", "new.lock.json", "-o", "new"], "--prefix and --output name the same file"),
        (["-o", "new", "--alignments-file", "new.part.json"], "name the same file: new.part.json"),
        (["-o", "new.part", "--alignments-file", "new"], "name the same file: new.part"),
        (["--alignments-file", "-"], "go to a file, not to standard output"),
    ],
)
def test_no_file_that_is_read_or_written_is_written_over(
    jtrans: Jtrans, make_run: MakeRun, source: Path, options: list[str], message: str
) -> None:
    before = source.read_bytes()
    options = [option.replace("SOURCE", str(source)) for option in options]
    result = jtrans("translate", make_run(), "-i", source, *options)
    assert result.code == 2
    assert message in result.err
    assert source.read_bytes() == before
    assert not Path("new").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_of_two_outputs_the_full_one_is_named(jtrans: Jtrans, make_run: MakeRun) -> None:
    command = ["translate", make_run(), "-i", "-", "-o", "out", "--alignments-file", "/dev/full"]
    result = jtrans(*command, stdin=b"hund\n")
    assert result.code == 1
    assert "the disk is full: cannot write /dev/full" in result.err
    assert not Path("out").exists()
