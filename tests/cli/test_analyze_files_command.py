"""`jtrans analyze` on files of translations, without any run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from plugins.command_line import Jtrans
from plugins.random_runs import RunOn

from jtrans.data.prepared import PreparedCorpus

LINES = ["the cat sees a dog .", "a bird .", "the old man reads the book to a child ."]
WORSE = ["the cat sees dog .", "a bird .", "an old man reads a book to the child ."]
FILES = ("--hyp", "a.en", "--hyp", "b.en", "--ref", "test.en", "--src", "test.de")


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    """A test set of three sentences, a perfect system, a worse one, and a training text."""
    source = ["die Katze sieht einen Hund .", "ein Vogel .", "der alte Mann liest ."]
    for name, lines in {
        "test.de": source,
        "test.en": LINES,
        "a.en": LINES,
        "b.en": WORSE,
        "train.en": ["the cat .", "the dog and the bird ."],
    }.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")


@pytest.mark.usefixtures("placeholder_pictures")
def test_figures_of_files_are_written_here(jtrans: Jtrans, tmp_path: Path) -> None:
    result = jtrans("analyze", "length", *FILES)
    assert result.code == 0
    assert (tmp_path / "reports" / "test.length-bleu.svg").is_file()
    assert f"Next: jtrans analyze report {' '.join(FILES)}" in result.err
    content = json.loads(jtrans("analyze", "length", *FILES, "--json").out)
    [ratio, *_, bleu] = content["results"]
    assert bleu["counts"][0] == 3
    assert bleu["series"][0]["values"][0] == pytest.approx(100.0)
    assert bleu["series"][1]["values"][0] < 100.0
    assert ratio["series"][1]["values"][0] == pytest.approx(18 / 19)


@pytest.mark.usefixtures("placeholder_pictures")
def test_files_may_have_names_that_are_no_text(jtrans: Jtrans, tmp_path: Path) -> None:
    names = [os.fsdecode(b"r\xe9f.en"), os.fsdecode(b"tr\xe9in.en")]
    for name, old in zip(names, ("test.en", "train.en"), strict=True):
        (tmp_path / old).rename(tmp_path / name)
    systems = ("--hyp", "a.en", "--hyp", "b.en", "--ref", names[0])
    result = jtrans("analyze", "frequency", *systems, "--train", names[1])
    assert result.code == 0, result.err


@pytest.mark.thorough
def test_files_are_analysed_without_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from jtrans.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print([name for name in ('torch', 'safetensors') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code, "analyze", "report", *FILES]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert (tmp_path / "reports").is_dir()


@pytest.mark.usefixtures("placeholder_pictures")
def test_words_are_counted_in_the_training_text(jtrans: Jtrans) -> None:
    arguments = ("analyze", "frequency", *FILES, "--json")
    [figure] = json.loads(jtrans(*arguments, "--train", "train.en").out)["results"]
    counts = dict(zip(figure["bins"], figure["counts"], strict=True))
    # 3 x the; 4 x . in two lines; once cat, dog and bird
    assert (counts["1"], counts["2"], counts["3"]) == (3, 3, 3)
    refused = jtrans("analyze", "frequency", *FILES)
    assert refused.code == 2
    assert "hint: --train FILE" in refused.err


@pytest.mark.usefixtures("placeholder_pictures")
@pytest.mark.parametrize("name", ["test.de", "train.en"])
def test_pieces_in_any_file_are_refused_unless_told(
    jtrans: Jtrans, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("a l@@ i@@ ne\n" * 3, "utf-8")
    command = ("analyze", "frequency", *FILES, "--train", "train.en")
    refused = jtrans(*command)
    assert (refused.code, refused.out) == (2, "")
    assert f"{name} has BPE pieces in 3 lines" in refused.err and "--as-is" in refused.err
    assert jtrans(*command, "--as-is").code == 0


@pytest.mark.usefixtures("placeholder_pictures")
def test_a_language_that_no_name_tells_is_warned_of(jtrans: Jtrans, tmp_path: Path) -> None:
    for name, other in {"test.de": "source", "test.en": "reference", "a.en": "a"}.items():
        shutil.copy(name, tmp_path / f"{other}.txt")
    source = ("--src", "source.txt")
    told = jtrans("analyze", "length", *FILES[:-2], *source)
    assert "no file name tells the language of the source: English is assumed" in told.err
    assert "--languages de-en" in told.err
    untold = ("analyze", "length", "--hyp", "a.txt", "--ref", "reference.txt", *source)
    [warning] = json.loads(jtrans(*untold, "--json").out)["warnings"]
    assert "language of the source and the target: English" in warning
    named = jtrans(*untold, "--languages", "de-en", "--json")
    assert json.loads(named.out)["warnings"] == []


@pytest.mark.parametrize("text", ["", "\n \n\n"])
def test_a_training_text_without_words_is_refused(
    jtrans: Jtrans, tmp_path: Path, text: str
) -> None:
    (tmp_path / "void.en").write_text(text, "utf-8")
    refused = jtrans("analyze", "frequency", *FILES, "--train", "void.en")
    assert refused.code == 2
    assert refused.err.startswith(f"error: void.en {'has no words' if text else 'is empty'}")
    assert "hint: --train" in refused.err


@pytest.mark.usefixtures("placeholder_pictures")
def test_the_next_command_keeps_what_is_analysed(jtrans: Jtrans) -> None:
    more = ("--as-is", "--train", "train.en", "--languages", "de-en", "--lowercase")
    result = jtrans("analyze", "length", *FILES, *more, "--edges", "3,5", "--out", "out")
    [suggested] = [line for line in result.err.splitlines() if line.startswith("Next: ")]
    command = shlex.split(suggested.removeprefix("Next: "))
    assert command[:3] == ["jtrans", "analyze", "report"]
    assert sorted(command[3:]) == sorted([*FILES, *more])
    assert jtrans(*command[1:]).code == 0


@pytest.mark.usefixtures("placeholder_pictures")
def test_the_comparison_of_all_lines_is_that_of_score(jtrans: Jtrans, tmp_path: Path) -> None:
    for name, lines in {  # drawn test sets may be without a 4-gram
        "x.en": ["the cat sat on a mat .", "pipe *star*", "hello", "", "", "the dog ran"],
        "y.en": ["the cat is on the mat .", "pipe", "hello .", "short", "", "the dog ran away"],
        "z.en": ["the cat sat on the mat .", "pipe *star* x", "hello .", "short", "", "the dog"],
        "z.de": ["die Katze", "ein b", "hallo", "kurz", "", "der Hund"],
    }.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    systems = ("--hyp", "x.en", "--hyp", "y.en", "--ref", "z.en")
    scored = json.loads(jtrans("score", *systems, "--metric", "bleu", "--json").out)
    compared = json.loads(jtrans("analyze", "compare", *systems, "--src", "z.de", "--json").out)
    [everything, short, *_] = compared["results"][0]["rows"]
    [expected] = scored["paired"]
    assert everything[2:4] == ["all", 6]
    assert everything[4:6] == [system["bleu"] for system in scored["systems"]]
    assert everything[6:] == [expected["difference"], expected["p_value"]]
    assert short[3:] == everything[3:]  # the same lines in a bin


@pytest.mark.usefixtures("placeholder_pictures")
def test_a_single_sentence_has_the_p_of_score(jtrans: Jtrans, tmp_path: Path) -> None:
    for name in ("test.de", "test.en", "a.en", "b.en"):
        (tmp_path / f"one.{name}").write_text((tmp_path / name).read_text("utf-8").split("\n")[0])
    files = [word if word.startswith("--") else f"one.{word}" for word in FILES]
    compared = json.loads(jtrans("analyze", "compare", *files, "--json").out)
    assert compared["results"][0]["rows"][0][-1] == 1.0
    scored = json.loads(jtrans("score", *files, "--metric", "bleu", "--json").out)
    assert scored["paired"][0]["p_value"] == 1.0


@pytest.mark.usefixtures("placeholder_pictures")
def test_systems_are_compared_and_reported(jtrans: Jtrans, tmp_path: Path) -> None:
    compared = jtrans("analyze", "compare", *FILES)
    assert compared.code == 0
    assert "the cat sees dog ." in compared.out
    report = jtrans("analyze", "report", *FILES, "--out", "out")
    assert report.code == 0
    assert "training frequency is left out" in report.err
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "a.en vs b.en" in page and "test.en: 3 sentences" in page
    assert 'id="position"' not in page and "tokens/s</th>" not in page
    assert "multi-bleu" not in report.out + page  # of raw text it would mislead
    whole = jtrans("analyze", "report", *FILES, "--train", "train.en", "--json")
    names = [item["name"] for item in json.loads(whole.out)["results"]]
    assert "frequency-f-measure" in names and "position" not in names


@pytest.mark.usefixtures("placeholder_pictures")
def test_lengths_are_of_the_first_reference_where_no_source_is_given(
    jtrans: Jtrans, tmp_path: Path
) -> None:
    (tmp_path / "other.en").write_text("that is a cat .\n" * 3, "utf-8")
    command = (*FILES[:6], "--edges", "5", "--json")
    [*_, score, bleu] = json.loads(jtrans("analyze", "length", *command).out)["results"]
    assert {figure["x_label"] for figure in (score, bleu)} == {"reference words"}
    assert bleu["title"] == "BLEU by reference length"
    assert (bleu["bins"], bleu["counts"]) == (["1–5", ">5"], [1, 2])
    [*_, of_source] = json.loads(jtrans("analyze", "length", *FILES, *command[6:]).out)["results"]
    assert of_source["x_label"] == "source words"
    assert of_source["counts"] == [2, 1]
    [*_, of_several] = json.loads(jtrans("analyze", "length", *command, "--ref", "other.en").out)[
        "results"
    ]
    assert of_several["counts"] == [1, 2]
    assert "Lengths are those of the first reference." in of_several["note"]


@pytest.mark.usefixtures("placeholder_pictures")
def test_systems_are_compared_and_reported_without_the_source(
    jtrans: Jtrans, tmp_path: Path
) -> None:
    files = FILES[:6]
    results = json.loads(jtrans("analyze", "compare", *files, "--json").out)["results"]
    significance, sentences, *_ = results
    assert significance["columns"][2] == "reference words"
    assert sentences["columns"][:4] == ["line", "reference", "a.en", "b.en"]
    assert sentences["rows"][0][1:4] == [LINES[2], LINES[2], WORSE[2]]
    given = json.loads(jtrans("analyze", "compare", *FILES, "--json").out)["results"]
    assert [row[1:] for row in sentences["rows"]] == [row[2:] for row in given[1]["rows"]]
    report = jtrans("analyze", "report", *files, "--languages", "de-en")
    assert report.code == 0
    page = (tmp_path / "reports" / "report.html").read_text("utf-8")
    assert "<dt>reference, line 1</dt>" in page and "<dt>source" not in page
    assert "German" not in page and "split by moses (en)." in page


@pytest.mark.usefixtures("placeholder_pictures")
def test_only_the_target_needs_a_language_where_no_source_is_given(
    jtrans: Jtrans, tmp_path: Path
) -> None:
    for name, other in {"test.en": "reference", "a.en": "a"}.items():
        shutil.copy(name, tmp_path / f"{other}.txt")
    untold = ("analyze", "length", "--hyp", "a.txt", "--ref", "reference.txt", "--json")
    [warning] = json.loads(jtrans(*untold).out)["warnings"]
    assert "language of the target: English" in warning
    assert json.loads(jtrans(*untold, "--languages", "de-en").out)["warnings"] == []


@pytest.mark.usefixtures("placeholder_pictures")
def test_the_eighth_system_of_a_report_has_a_dot_of_its_own(jtrans: Jtrans, tmp_path: Path) -> None:
    files = list(FILES)
    for number in range(2, 8):
        (tmp_path / f"{number}.en").write_text("".join(f"{line}\n" for line in LINES), "utf-8")
        files += ["--hyp", f"{number}.en"]
    assert jtrans("analyze", "report", *files).code == 0
    page = (tmp_path / "reports" / "report.html").read_text("utf-8")
    summary = page.partition("<tbody>")[2]
    assert len(set(re.findall(r'class="(dot [^"]*)"', summary)[:8])) == 8


@pytest.mark.usefixtures("placeholder_pictures")
def test_a_file_has_the_same_numbers_with_and_without_a_run(
    jtrans: Jtrans, corpus: PreparedCorpus, run_on: RunOn, tmp_path: Path
) -> None:
    references = corpus.references("test")[0]
    for name, lines in {
        "given.en": [line.partition(" ")[2] or line for line in references],
        "reference.en": references,
        "source.de": corpus.raw_lines("test", "source"),
    }.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    run = run_on(corpus, "one").folder
    beside = jtrans("analyze", "length", run, "--hyp", "given.en", "--json")
    given = ("--hyp", "given.en", "--ref", "reference.en", "--src", "source.de")
    alone = jtrans("analyze", "length", *given, "--json")
    for with_run, without in zip(
        json.loads(beside.out)["results"], json.loads(alone.out)["results"], strict=True
    ):
        assert without["series"][0]["values"] == with_run["series"][1]["values"]
        assert without["series"][0]["low"] == with_run["series"][1]["low"]


@pytest.mark.usefixtures("placeholder_pictures")
def test_the_source_is_read_from_json_lines(jtrans: Jtrans, tmp_path: Path) -> None:
    source = (tmp_path / "test.de").read_text("utf-8").splitlines()
    objects = [
        json.dumps({"source": line, "translations": [{"text": text}]})
        for line, text in zip(source, WORSE, strict=True)
    ]
    (tmp_path / "b.jsonl").write_text("".join(f"{line}\n" for line in objects), "utf-8")
    languages = ("--languages", "de-en", "--json")
    files = (*FILES[:2], "--ref", "test.en", "--hyp")
    by_text = jtrans("analyze", "length", *files, "b.en", "--src", "test.de", *languages)
    by_object = jtrans("analyze", "length", *files, "b.jsonl", "--src", "b.jsonl", *languages)
    expected = json.loads(by_text.out.replace("b.en", "b.jsonl"))
    assert json.loads(by_object.out)["results"] == expected["results"]
    assert jtrans("score", *files, "b.jsonl", "--src", "b.jsonl").code == 0
    lines = "".join(json.dumps({"source": line}) + "\n" for line in source)
    (tmp_path / "source.jsonl").write_text(lines, "utf-8")
    assert jtrans("score", *files, "b.en", "--src", "source.jsonl").code == 0


@pytest.mark.parametrize(
    "fields", [{"text": "a bird ."}, {"translations": []}, {"translations": [{"text": 1}]}]
)
@pytest.mark.parametrize("before", ["", "\n"])
def test_json_lines_without_a_translation_are_refused(
    jtrans: Jtrans, tmp_path: Path, fields: dict[str, object], before: str
) -> None:
    lines = [json.dumps(fields)] * (len(LINES) - len(before))
    (tmp_path / "c.jsonl").write_text(before + "".join(f"{line}\n" for line in lines), "utf-8")
    result = jtrans("analyze", "length", "--hyp", "c.jsonl", *FILES)
    assert result.code == 2
    assert result.err.startswith(
        "error: line 1 of c.jsonl is not the object of a translation (c.jsonl:1)\n"
    )
    assert 'hint: every line needs "translations"' in result.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["length", "--hyp", "a.en"], "nothing to analyse"),
        (["length", "--ref", "test.en", "--src", "test.de"], "--ref without --hyp"),
        (["length", "--hyp", "a.en", "--src", "test.de"], "--src has no effect without --ref"),
        (["length", "run", *FILES], "--ref has no effect on runs"),
        (["length", *FILES[:2], "b.en", *FILES[4:]], "b.en is a file, not a run"),
        (["length", *FILES, "ref2.en"], "file: --hyp ref2.en or --ref ref2.en"),
        (["length", *FILES, "--beam", "3"], "--beam has no effect on files"),
        (["length", *FILES, "--hyp", "short.en"], "short.en has 1 line, test.de has 3"),
        (["length", *FILES[:6], "--hyp", "short.en"], "short.en has 1 line, test.en has 3"),
        (["length", *FILES, "--ref", "test.en"], "test.en is given twice"),
        (["length", *FILES, "--hyp", "none.en"], "no such file: none.en"),
        (["compare", *FILES[2:]], "compare needs two: --hyp A --hyp B"),
        (["frequency", *FILES, "--train", "none.en"], "no such file: none.en"),
        (["position"], "nothing to analyse"),
        (["labels", "--hyp", "a.en"], "nothing to analyse"),
    ],
)
def test_what_cannot_be_analysed_is_refused(
    jtrans: Jtrans, tmp_path: Path, arguments: list[str], message: str
) -> None:
    for name in ("short.en", "ref2.en"):
        (tmp_path / name).write_text("a bird .\n", "utf-8")
    result = jtrans("analyze", *arguments)
    assert result.code == 2
    assert message in result.err
    assert "hint: " in result.err
    assert not (tmp_path / "reports").exists()


@pytest.mark.usefixtures("placeholder_pictures")
def test_lower_case_beside_cased_references_is_told(jtrans: Jtrans, tmp_path: Path) -> None:
    (tmp_path / "cased.en").write_text("".join(f"{line.capitalize()}\n" for line in LINES), "utf-8")
    files = ("--hyp", "a.en", "--ref", "cased.en")
    for command in (("analyze", "length"), ("score",)):
        told = jtrans(*command, *files)
        assert told.code == 0
        assert "warning: a.en is in lower case, and the references are not: --lowerc" in told.err
        assert "lower case" not in jtrans(*command, *files, "--lowercase").err


@pytest.mark.usefixtures("placeholder_pictures")
def test_warnings_of_a_file_whose_name_is_not_utf8_are_on_the_page(
    jtrans: Jtrans, tmp_path: Path
) -> None:
    name = os.fsdecode(b"caf\xe9.en")
    (tmp_path / name).write_text("".join(f"{line.upper()}\n" for line in LINES), "utf-8")
    assert jtrans("analyze", "report", "--hyp", name, "--ref", "test.en").code == 0
    page = (tmp_path / "reports" / "report.html").read_text("utf-8")
    [warning] = re.findall("<p class=.warning.>(the references .*)</p>", page)
    assert r"caf\xe9.en" in warning and "lower case" in warning


@pytest.mark.usefixtures("placeholder_pictures")
def test_translations_from_a_pipe_are_read_once(jtrans: Jtrans, tmp_path: Path) -> None:
    pipe = tmp_path / "piped.en"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("\n".join([*WORSE, ""]), "utf-8"))
    writer.start()
    result = jtrans("analyze", "length", "--hyp", pipe, "--ref", "test.en", "--json")
    writer.join()
    assert result.code == 0, result.err
    named = jtrans("analyze", "length", "--hyp", "b.en", "--ref", "test.en", "--json")
    values = [json.loads(each.out)["results"][0]["series"][0]["values"] for each in (result, named)]
    assert values[0] == values[1]


@pytest.mark.usefixtures("placeholder_pictures")
def test_tables_of_more_systems_do_not_stay_beside_those_of_fewer(
    jtrans: Jtrans, tmp_path: Path
) -> None:
    shutil.copy(tmp_path / "b.en", tmp_path / "c.en")
    own = tmp_path / "out" / "test.compare-mine-1.csv"
    line = ("analyze", "compare", *FILES, "--out", "out")
    assert jtrans(*line, "--hyp", "c.en").code == 0
    own.write_text("kept", "utf-8")
    names = {path.name for path in own.parent.glob("*.csv")}
    assert {"test.compare-ngrams-1.csv", "test.compare-ngrams-2.csv"} <= names
    assert jtrans(*line).code == 0
    names = {path.name for path in own.parent.glob("*.csv")}
    assert {name for name in names if "ngrams" in name} == {"test.compare-ngrams.csv"}
    assert own.is_file()


def test_sentences_without_a_reference_are_warned_of(jtrans: Jtrans, tmp_path: Path) -> None:
    (tmp_path / "test.en").write_text(f"\n{LINES[1]}\n\n", "utf-8")
    warning = "2 sentences of 3 have no reference: their lines are empty"
    files = ("--hyp", "a.en", "--ref", "test.en")
    for command in (("score",), ("analyze", "compare", "--hyp", "b.en", "--json")):
        result = jtrans(*command, *files)
        assert result.code == 0 and warning in result.err
        assert "lower case" not in result.err
