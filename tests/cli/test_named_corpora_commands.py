"""`jtrans prepare NAME --from` and `jtrans corpora NAME` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plugins.command_line import Jtrans

WORDS = [
    "ein",
    "großer",
    "Hund",
    "läuft",
    "heute",
    "mit",
    "dem",
    "kleinen",
    "Kind",
    "durch",
    "den",
    "alten",
    "Wald",
]


@pytest.fixture
def wit3(tmp_path: Path) -> Path:
    """Make a small release of IWSLT14: 50 training lines, two of them not clean."""
    folder = tmp_path / "wit3"
    folder.mkdir()
    for language in ("de", "en"):
        lines = [f"Satz {i} : {' '.join(WORDS[: i % 12 + 1])} ." for i in range(50)]
        lines[4] = "" if language == "de" else lines[4]
        lines[9] = "zu kurz" if language == "en" else lines[9]
        text = "".join(f"<url>{i}</url>\n{line}\n" for i, line in enumerate(lines))
        (folder / f"train.tags.de-en.{language}").write_text(text, encoding="utf-8")
        for name in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"):
            path = folder / f"IWSLT14.{name}.de-en.{language}.xml"
            path.write_text(
                '<doc>\n<seg id="1"> Wie geht’s dir. </seg>\n</doc>\n', encoding="utf-8"
            )
    return folder


def test_iwslt14_is_cleaned_and_split_by_the_published_rule(
    jtrans: Jtrans, wit3: Path, tmp_path: Path
) -> None:
    result = jtrans("prepare", "iwslt14-de-en", "--from", "wit3", "--workers", "1")
    assert result.code == 0, result.err
    prepared = tmp_path / "data/prepared/iwslt14-de-en"
    info = json.loads((prepared / "corpus.json").read_text("utf-8"))
    assert info["cleaning"]["kept"] == 46
    assert (info["cleaning"]["dropped"]["empty"], info["cleaning"]["dropped"]["ratio"]) == (1, 1)
    assert {name: split["pairs"] for name, split in info["splits"].items()} == {
        "train": 46, "valid": 2, "test": 5,
    }  # fmt: skip
    # of the lines 0-49 without 4 and 9, the 23rd and the 46th
    valid = (prepared / "text/valid.de").read_text("utf-8").splitlines()
    assert [line.split(" :")[0] for line in valid] == ["Satz 24", "Satz 47"]
    test = (prepared / "text/test.tok.de").read_text("utf-8").splitlines()
    assert test[0] == "wie geht &apos; s dir ."


def test_the_same_command_again_changes_nothing(jtrans: Jtrans, wit3: Path, tmp_path: Path) -> None:
    command = ("prepare", "iwslt14-en-de", "--from", "wit3", "--workers", "1")
    assert jtrans(*command).code == 0
    again = jtrans(*command)
    assert again.code == 0 and "Unchanged" in again.err
    info = json.loads((tmp_path / "data/prepared/iwslt14-en-de/corpus.json").read_text("utf-8"))
    assert info["languages"] == ["en", "de"]


BAD: dict[str, tuple[list[str], str]] = {
    "--from without a name": (["--from", "wit3"], "--from needs the NAME"),
    "no such folder": (["iwslt14-de-en", "--from", "nowhere"], "no such folder: nowhere"),
    "missing files": (["multi30k-de-en", "--from", "wit3"], "lacks 3 of 3 parts"),
    "licensed": (["nist-zh-en"], "LDC2000T46"),
    "offline": (["multi30k-de-en"], "JTRANS_OFFLINE"),
    "unknown name": (["multi30k-de-ne"], "no corpus called multi30k-de-ne"),
    "wrong option": (["iwslt15-vi-en", "--bpe-merges", "5"], "no meaning without BPE"),
    "name and files": (["iwslt14-de-en", "--train", "x"], "cannot be combined with NAME"),
}


@pytest.mark.parametrize(("arguments", "part"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_paragraph_exit_2_and_nothing_written(
    jtrans: Jtrans, wit3: Path, tmp_path: Path, arguments: Any, part: str
) -> None:
    before = sorted(tmp_path.rglob("*"))
    result = jtrans("prepare", *arguments)
    assert result.code == 2
    assert part in result.err
    assert result.err.count("error: ") == 1 and "hint: " in result.err
    assert sorted(tmp_path.rglob("*")) == before


def test_line_files_tables_and_memories_are_read_alike(jtrans: Jtrans, tmp_path: Path) -> None:
    rows = [f"Satz {i} steht hier .\tSentence {i} is here ." for i in range(20)]
    (tmp_path / "train.tsv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    line = {"de": "Der letzte Satz .", "en": "The last sentence ."}
    (tmp_path / "valid.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    result = jtrans(
        "prepare", "--train", "train.tsv", "--valid", "valid.jsonl", "--languages", "de-en",
        "--bpe-merges", "10", "--workers", "1", "--out", "mine",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert (tmp_path / "mine/text/valid.de").read_text("utf-8") == "Der letzte Satz .\n"


def wmt_xml(source: list[str], *references: list[str]) -> str:
    """Return a test set of WMT with one document."""
    texts = [("src", "de", source), *(("ref", "en", lines) for lines in references)]
    body = ""
    for n, (tag, language, lines) in enumerate(texts):
        segments = "".join(f'<seg id="{i}">{line}</seg>' for i, line in enumerate(lines))
        body += f'<{tag} lang="{language}" translator="{n}"><p>{segments}</p></{tag}>'
    return f'<dataset><doc id="d">{body}<hyp system="x" language="en"/></doc></dataset>'


def test_one_xml_file_of_wmt_is_a_split_with_all_its_references(
    jtrans: Jtrans, tmp_path: Path
) -> None:
    rows = [f"Satz {i} steht hier ." for i in range(20)]
    train = wmt_xml(rows, [row.replace("Satz", "Sentence") for row in rows])
    (tmp_path / "train.xml").write_text(train, encoding="utf-8")
    news = wmt_xml(["Ja .", "Nein ."], ["Yes .", "No ."], ["Yeah .", "Nope ."])
    (tmp_path / "news.xml").write_text(news, encoding="utf-8")
    result = jtrans(
        "prepare", "--train", "train.xml", "--valid", "news.xml", "--test", "news.xml",
        "--languages", "de-en", "--bpe-merges", "5", "--workers", "1", "--out", "mine",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert "test: system output left out 1" in result.err
    info = json.loads((tmp_path / "mine/corpus.json").read_text("utf-8"))
    assert {name: split["pairs"] for name, split in info["splits"].items()} == {
        "train": 20, "valid": 2, "test": 2,
    }  # fmt: skip
    assert (tmp_path / "mine/text/test.1.en").read_text("utf-8") == "Yeah .\nNope .\n"


@pytest.mark.parametrize("name", ["train.jsonl", "valid.jsonl"])
def test_half_a_character_in_json_lines_is_one_error(
    jtrans: Jtrans, tmp_path: Path, name: str
) -> None:
    for file in ("train.jsonl", "valid.jsonl"):
        half = "\\ud83d" if file == name else ""
        ends = ["", "", "", half, "", ""]
        lines = [f'{{"de": "Satz {i}", "en": "Line {i}{end}"}}' for i, end in enumerate(ends)]
        (tmp_path / file).write_text("\n".join(lines), encoding="utf-8")
    result = jtrans("prepare", "--train", "train.jsonl", "--valid", "valid.jsonl",
                    "--languages", "de-en", "--out", "mine")  # fmt: skip
    assert result.code == 2
    assert f"{name} has half a character (\\ud83d) in line 4" in result.err
    assert not (tmp_path / "mine").exists()


def test_odd_separators_in_own_files_are_told_and_break_nothing(
    jtrans: Jtrans, tmp_path: Path
) -> None:
    for name, count in (("train", 20), ("valid", 2)):
        for language in ("de", "en"):
            text = "".join(f"Satz\u2028{i} {language}\x0c .\n" for i in range(count))
            (tmp_path / f"{name}.{language}").write_bytes(text.encode())
    result = jtrans(
        "prepare", "--train", "train", "--valid", "valid", "--languages", "de-en",
        "--bpe-merges", "5", "--workers", "1", "--out", "mine",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert "train: U+2028 inside a line 40 · form feed inside a line 40" in result.err
    words = (tmp_path / "mine/text/valid.tok.de").read_bytes().decode()
    assert words == "Satz 0 de .\nSatz 1 de .\n"


def test_one_corpus_is_shown_with_sources_checksums_licence_and_citation(jtrans: Jtrans) -> None:
    result = jtrans("corpora", "multi30k-de-en")
    assert result.code == 0
    for part in ("licence", "citation", "training.tar.gz", "https://www.quest.dcs.shef.ac.uk/",
                 "https://raw.githubusercontent.com/multi30k/dataset/",
                 "20140d013d05dd9a72dfde46478663ba05737ce983f478f960c1123c6671be5e",
                 "multi30k-en-de"):  # fmt: skip
        assert part in result.out
    unknown = jtrans("corpora", "iwslt14-de-en")
    assert "unknown: the first download records it" in unknown.out
    assert "jtrans prepare nist-zh-en --from FOLDER" in jtrans("corpora", "nist-zh-en").err


def test_corpora_says_what_is_read_and_what_has_another_direction(jtrans: Jtrans) -> None:
    shown = jtrans("corpora", "iwslt14-de-en").out
    assert "train.tags.de-en.de and train.tags.de-en.en (wit3-tags)" in shown
    parts = json.loads(jtrans("corpora", "nist-zh-en", "--json").out)["parts"]
    assert parts["train"][0][0]["source"] == "LDC2000T46/*.zh"
    listed = jtrans("corpora").err
    assert "iwslt14-en-de" in listed and "except grammar-de-en, grammar-zh-en, nist-zh-en" in listed


def test_what_is_missing_is_named_without_listing_every_file_name(
    jtrans: Jtrans, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    result = jtrans("prepare", "nist-zh-en", "--from", str(tmp_path / "empty"))
    assert result.code == 2
    assert "LDC2007T09 (ISI Chinese-English" in result.err and "LDC2010T21" in result.err
    assert "28 more (jtrans corpora nist-zh-en lists them)" in result.err


def test_corpora_says_which_files_are_here(jtrans: Jtrans, tmp_path: Path) -> None:
    folder = tmp_path / "data/downloads/tatoeba-de-en"
    folder.mkdir(parents=True)
    (folder / "deu-eng.zip").write_bytes(b"PK345")
    facts = {"deu-eng.zip": {"sha256": "ab" * 32, "size": 5, "url": "https://x/deu-eng.zip"}}
    (folder / "checksums.json").write_text(json.dumps(facts), encoding="utf-8")
    shown = json.loads(jtrans("corpora", "tatoeba-de-en", "--json").out)
    assert shown["sources"][0]["here"] == "data/downloads/tatoeba-de-en/deu-eng.zip"
    assert shown["sources"][0]["sha256_here"] == "ab" * 32
    assert shown["sources"][0]["mirrors"][0]["sha256"] is None
    assert "1 of 1 files" in jtrans("corpora").out
    (folder / "deu-eng.zip").write_bytes(b"PK34")  # cut off
    shown = json.loads(jtrans("corpora", "tatoeba-de-en", "--json").out)
    assert shown["sources"][0]["here"] is None
