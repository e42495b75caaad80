"""Test sets of WMT since 2021: source, references and outputs in one XML file."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from jtrans.corpora.entry import FileChoice
from jtrans.corpora.formats.readers import read_choice
from jtrans.corpora.formats.wmt_xml import read_wmt_xml
from jtrans.corpora.parallel import ParallelText
from jtrans.errors import EXIT_BAD_INPUT, CorpusError

PAIR = ("de", "en")


def text(tag: str, *segments: str, **attributes: str) -> str:
    named = "".join(f' {name}="{value}"' for name, value in attributes.items())
    lines = "".join(f'<seg id="{n}">{line}</seg>\n' for n, line in enumerate(segments, start=1))
    return f"<{tag}{named}>\n<p>\n{lines}</p>\n</{tag}>\n"


def document(*texts: str, name: str = "d1") -> str:
    return f'<doc id="{name}" origlang="de">\n{"".join(texts)}</doc>\n'


SOURCE = text("src", "Ja.", "R&amp;D&nbsp;Nein\n.", lang="de")
FIRST = text("ref", "Yes.", "No.", lang="en", translator="A")
SECOND = text("ref", "Yeah.", "Nope.", lang="en", translator="B")
OUTPUT = text("hyp", "Y.", "N.", system="Online-A", language="en")


def read(tmp_path: Path, *documents: str, languages: tuple[str, str] = PAIR) -> ParallelText:
    path = tmp_path / "newstest2021.de-en.all.xml.gz"
    body = f'<dataset id="x"><collection id="general">{"".join(documents)}</collection></dataset>'
    path.write_bytes(gzip.compress(f"<?xml version='1.0' encoding='utf-8'?>\n{body}".encode()))
    return read_wmt_xml(path, languages)


def pairs(parallel: ParallelText) -> list[tuple[str, str]]:
    return list(zip(parallel.source, parallel.target, strict=True))


def test_source_and_reference_of_one_file_are_paired(tmp_path: Path) -> None:
    parallel = read(tmp_path, document(SOURCE, FIRST, OUTPUT, OUTPUT))
    assert pairs(parallel) == [("Ja.", "Yes."), ("R&D\u00a0Nein .", "No.")]
    assert parallel.references == ()
    assert parallel.notes == {"system output left out": 2}


def test_a_set_of_two_varieties_of_a_language_is_not_read_the_other_way_round(
    tmp_path: Path,
) -> None:
    one = document(text("src", "Sim.", lang="pt"), text("ref", "É.", lang="pt-BR"))
    assert pairs(read(tmp_path, one, languages=("pt", "pt_BR"))) == [("Sim.", "É.")]
    with pytest.raises(CorpusError, match="no document with a source in pt_BR"):
        read(tmp_path, one, languages=("pt_BR", "pt"))


def test_all_translators_of_every_document_are_references(tmp_path: Path) -> None:
    documents = document(SOURCE, SECOND, FIRST), document(SOURCE, FIRST, SECOND, name="d2")
    parallel = read(tmp_path, *documents)
    assert list(parallel.target) == ["Yeah.", "Nope."] * 2
    assert [list(lines) for lines in parallel.references] == [
        ["Yeah.", "Nope."] * 2, ["Yes.", "No."] * 2,
    ]  # fmt: skip


def test_documents_without_a_reference_are_left_out_and_counted(tmp_path: Path) -> None:
    french = text("ref", "Oui.", "Non.", lang="fr", translator="A")
    documents = (document(SOURCE), document(SOURCE, FIRST), document(SOURCE, french),
                 document(FIRST))  # fmt: skip
    parallel = read(tmp_path, *documents)
    assert len(parallel) == 2
    assert parallel.notes == {"document without a reference": 2, "document without a source": 1}


def test_a_translator_of_some_documents_serves_where_nobody_did_all(tmp_path: Path) -> None:
    parallel = read(tmp_path, document(SOURCE, FIRST), document(SOURCE, SECOND, name="d2"))
    assert list(parallel.target) == ["Yes.", "No.", "Yeah.", "Nope."]
    assert parallel.notes == {"translator of some documents only": 2}
    some = read(tmp_path, document(SOURCE, FIRST), document(SOURCE, SECOND, FIRST, name="d2"))
    assert list(some.target) == ["Yes.", "No."] * 2 and some.references == ()
    assert some.notes == {"translator of some documents only": 1}


def test_segments_are_matched_by_number_and_languages_by_tag(tmp_path: Path) -> None:
    turned = '<ref lang="en-US"><p><seg id="2">No.</seg></p><p><seg id="1">Yes.</seg></p></ref>'
    parallel = read(tmp_path, document(SOURCE.replace('"de"', '"de-DE"'), turned))
    assert list(parallel.target) == ["Yes.", "No."]


def test_segments_that_nobody_translated_and_test_suites_are_left_out(tmp_path: Path) -> None:
    """As sacreBLEU does; a segment that only one of two translators lacks is blank."""
    short = text("ref", "Yes.", lang="en", translator="A")
    blank = text("ref", "Yes.", " ", lang="en", translator="A")
    for reference in (short, blank):
        parallel = read(tmp_path, document(SOURCE, reference))
        assert pairs(parallel) == [("Ja.", "Yes.")]
        assert parallel.notes == {"segment without a translation": 1}
    parallel = read(tmp_path, document(SOURCE, short, SECOND))
    assert [list(lines) for lines in parallel.references] == [["Yes.", ""], ["Yeah.", "Nope."]]
    suite = document(SOURCE, FIRST, name="d2").replace("<doc ", '<doc testsuite="x" ')
    parallel = read(tmp_path, document(SOURCE, FIRST), suite)
    assert len(parallel) == 2 and parallel.notes == {"document of a test suite": 1}
    with pytest.raises(CorpusError, match="holds no document with a source in de"):
        read(tmp_path, document(SOURCE, text("ref", "", "", lang="en")))


@pytest.mark.parametrize(
    ("reference", "part"),
    [
        (text("ref", "Yes.", "No.", "x", lang="en"), "segment 3 without a source, in document d1"),
        (text("ref", "Yes.", "No.", lang="en") * 2, "segment 1 twice in one text"),
    ],
)
def test_segments_without_a_source_are_refused(tmp_path: Path, reference: str, part: str) -> None:
    with pytest.raises(CorpusError, match=part) as caught:
        read(tmp_path, document(SOURCE, reference))
    assert caught.value.exit_code == EXIT_BAD_INPUT


def test_a_file_of_other_languages_says_what_it_holds(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="its texts: ref in en, src in de"):
        read(tmp_path, document(SOURCE, FIRST), languages=("en", "de"))
    with pytest.raises(CorpusError, match="its texts: none"):
        read(tmp_path, "<mteval><srcset><doc/></srcset></mteval>")


def test_the_catalogue_reads_them(tmp_path: Path) -> None:
    read(tmp_path, document(SOURCE, FIRST))
    choice = FileChoice(reader="wmt-xml", source="*.xml")
    files = [tmp_path / "newstest2021.de-en.all.xml.gz"]
    assert len(read_choice(choice, files, [], PAIR)) == 2
