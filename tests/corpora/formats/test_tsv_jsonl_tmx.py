"""TSV, JSON lines and TMX: files that hold both sides."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from jtrans.corpora.formats.jsonl import read_jsonl
from jtrans.corpora.formats.tmx import read_tmx
from jtrans.corpora.formats.tsv import read_tsv
from jtrans.corpora.own_files import name_test_splits, read_corpus
from jtrans.corpora.parallel import ParallelText
from jtrans.errors import EXIT_BAD_INPUT, CorpusError

PAIR = ("de", "en")


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def pairs(text: ParallelText) -> list[tuple[str, str]]:
    return list(zip(text.source, text.target, strict=True))


def test_tsv_columns_are_source_and_target(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", 'Ja. \tYes.\n"Hallo"\tHi.\tCC-BY\n')
    assert pairs(read_tsv(path, PAIR)) == [("Ja.", "Yes."), ('"Hallo"', "Hi.")]


def test_a_tsv_heading_says_which_columns_are_which(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "id\ten\tde\n7\tYes.\tJa.\n")
    assert pairs(read_tsv(path, PAIR)) == [("Ja.", "Yes.")]


def test_tsv_columns_can_be_chosen(tmp_path: Path) -> None:
    path = write(tmp_path / "deu.txt", "Hi.\tHallo.\tCC-BY\n")
    assert pairs(read_tsv(path, PAIR, columns=(1, 0))) == [("Hallo.", "Hi.")]


def test_a_tsv_line_without_a_partner_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="1 columns in line 2") as caught:
        read_tsv(write(tmp_path / "a.tsv", "Ja.\tYes.\nNein.\n"), PAIR)
    assert caught.value.where == f"{tmp_path / 'a.tsv'}:2"


@pytest.mark.parametrize(
    "line",
    [
        {"de": "Ja.", "en": "Yes.", "id": 3},
        {"translation": {"en": "Yes.", "de": "Ja."}},
        {"source": "Ja.", "target": "Yes."},
        {"de": " Ja.\n", "en": "Yes."},
    ],
)
def test_json_lines_hold_a_pair_in_one_of_three_forms(tmp_path: Path, line: dict[str, Any]) -> None:
    path = write(tmp_path / "a.jsonl", json.dumps(line) + "\n\n")
    assert pairs(read_jsonl(path, PAIR)) == [("Ja.", "Yes.")]


def test_line_feeds_inside_json_texts_become_spaces_and_are_counted(tmp_path: Path) -> None:
    text = read_jsonl(write(tmp_path / "a.jsonl", '{"de": "a\\nb", "en": "c"}'), PAIR)
    assert pairs(text) == [("a b", "c")]
    assert text.notes == {"line feed inside a text": 1}


@pytest.mark.parametrize(
    "line", ["{", '{"de": "Ja."}', '["Ja.", "Yes."]', '{"de": 1, "en": 2}', "[" * 100_000]
)
def test_json_lines_without_a_pair_are_named(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "a.jsonl", f'{{"de": "Ja.", "en": "Yes."}}\n{line}\n')
    with pytest.raises(CorpusError, match="line 2") as caught:
        read_jsonl(path, PAIR)
    assert caught.value.exit_code == EXIT_BAD_INPUT
    assert '{"de": "...", "en": "..."}' in str(caught.value.hint)


TMX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="de"/><body>
<tu><tuv xml:lang="DE-DE"><seg>Ja &amp; <bpt i="1">&lt;b&gt;</bpt>nein<ept i="1">&lt;/b&gt;</ept>.
 </seg></tuv><tuv xml:lang="en"><seg>Yes &amp; <hi>no</hi>.</seg></tuv></tu>
<tu><tuv xml:lang="de"><seg>Hallo.</seg></tuv><tuv xml:lang="fr"><seg>Salut.</seg></tuv></tu>
<tu><tuv lang="en-GB"><seg>Dog</seg></tuv><tuv lang="de-AT"><seg>H</seg></tuv>
<tuv lang="de"><seg>Hund</seg></tuv></tu>
</body></tmx>
"""


def test_tmx_units_give_pairs_without_inline_codes(tmp_path: Path) -> None:
    text = read_tmx(write(tmp_path / "a.tmx", TMX), PAIR)
    assert pairs(text) == [("Ja & nein.", "Yes & no."), ("Hund", "Dog")]
    assert text.notes == {"unit without both languages": 1}


def test_a_packed_tmx_file_of_another_encoding_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx.gz"
    path.write_bytes(gzip.compress(TMX.replace("UTF-8", "UTF-16").encode("utf-16")))
    assert pairs(read_tmx(path, PAIR))[1] == ("Hund", "Dog")


@pytest.mark.parametrize(
    "declaration",
    [
        '<!ENTITY x SYSTEM "file:///etc/passwd">',
        '<!ENTITY a "ha"><!ENTITY x "&a;&a;&a;&a;&a;">',
        '<!ENTITY % p SYSTEM "http://127.0.0.1:1/x.dtd">%p;',
    ],
)
def test_tmx_files_that_declare_entities_are_refused(tmp_path: Path, declaration: str) -> None:
    text = f"<!DOCTYPE tmx [{declaration}]><tmx><body/></tmx>"
    with pytest.raises(CorpusError, match="declares the entity") as caught:
        read_tmx(write(tmp_path / "a.tmx", text), PAIR)
    assert caught.value.kind == "corpus.entities"


def test_tmx_that_is_cut_off_or_of_other_languages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="not well-formed XML"):
        read_tmx(write(tmp_path / "a.tmx", TMX[:-30]), PAIR)
    with pytest.raises(CorpusError, match="its languages: de, de-at, de-de, en, en-gb, fr"):
        read_tmx(write(tmp_path / "b.tmx", TMX), ("zh", "en"))


def test_a_corpus_may_mix_forms(tmp_path: Path) -> None:
    write(tmp_path / "one.tsv", "Ja.\tYes.\n")
    write(tmp_path / "two.de", "Nein\u2028.\n")
    write(tmp_path / "two.en", "No.\n")
    write(tmp_path / "valid.jsonl", '{"source": "a", "target": "b"}\n')
    names = [str(tmp_path / name) for name in ("one.tsv", "two", "valid.jsonl")]
    corpus = read_corpus("mine", PAIR, train=names[:2], valid=names[2], test=names)
    assert pairs(corpus.splits["train"]) == [("Ja.", "Yes."), ("Nein\u2028.", "No.")]
    assert corpus.splits["train"].notes == {"U+2028 inside a line": 1}
    assert list(corpus.splits) == ["train", "valid", "test", "test2", "test3"]


def test_test_splits_are_named_without_the_ending_of_their_format() -> None:
    assert name_test_splits(["a/news.tsv", "a/web.tmx.gz", "a/talks.2014"]) == [
        "news", "web", "talks.2014",
    ]  # fmt: skip
