"""Test sets of NIST and WMT (.sgm) and of IWSLT (WIT3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from jtrans.corpora.formats.sgm import read_sgm
from jtrans.corpora.formats.wit3 import read_tags, read_xml
from jtrans.errors import CorpusError

SOURCE = """<srcset setid="mt06" srclang="Chinese">
<DOC docid="A" sysid="src">
<hl><seg id=1> 你好 </seg></hl>
<p><seg id="2">AT&amp;T &lt;3
第二行</seg></p></DOC>
<doc docid="B" sysid="src"><seg id="1">再见</seg></doc></srcset>
"""


def references(*names: str) -> str:
    """Make a reference file: documents of each translator, the second translator backwards."""
    docs = []
    for name in names:
        segments = f"<seg id=1>{name} A1</seg><seg id=2>{name} A2</seg>"
        a = f'<doc docid="A" sysid="{name}">{segments}</doc>'
        b = f'<doc docid="B" sysid="{name}"><seg id=1>{name} &quot;B1&quot;</seg></doc>'
        docs += [b, a] if name == "r2" else [a, b]
    return f'<refset setid="mt06" srclang="Chinese" trglang="English">{"".join(docs)}</refset>'


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_four_references_of_one_file_are_brought_into_the_order_of_the_source(
    tmp_path: Path,
) -> None:
    text = read_sgm(
        write(tmp_path / "src.sgm", SOURCE),
        [write(tmp_path / "ref.sgm", references("r1", "r2", "r3", "r4"))],
    )
    assert list(text.source) == ["你好", "AT&T <3 第二行", "再见"]
    assert len(text.references) == 4
    assert list(text.references[1]) == ["r2 A1", "r2 A2", 'r2 "B1"']
    assert list(text.target) == list(text.references[0]) == ["r1 A1", "r1 A2", 'r1 "B1"']


def test_references_may_come_in_files_of_their_own(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{name}.sgm", references(name)) for name in ("r1", "r2")]
    text = read_sgm(write(tmp_path / "src.sgm", SOURCE), files)
    assert [lines[2] for lines in text.references] == ['r1 "B1"', 'r2 "B1"']


def test_a_single_reference_is_the_target_alone(tmp_path: Path) -> None:
    sets = write(tmp_path / "src.sgm", SOURCE), [write(tmp_path / "r.sgm", references("r1"))]
    assert read_sgm(*sets).references == ()


def test_a_missing_segment_is_named(tmp_path: Path) -> None:
    other = references("r1").replace('docid="B"', 'docid="C"')
    with pytest.raises(CorpusError, match="no segment 1 of document B"):
        read_sgm(write(tmp_path / "s.sgm", SOURCE), [write(tmp_path / "r.sgm", other)])
    short = references("r1").replace("<seg id=2>r1 A2</seg>", "")
    with pytest.raises(CorpusError, match=r"has 3 segments, .* has 2"):
        read_sgm(write(tmp_path / "s.sgm", SOURCE), [write(tmp_path / "r.sgm", short)])


def test_references_given_as_source_and_files_without_segments_are_refused(tmp_path: Path) -> None:
    twice = write(tmp_path / "ref.sgm", references("r1", "r2"))
    with pytest.raises(CorpusError, match="holds 2 texts, not one source: r1, r2"):
        read_sgm(twice, [twice])
    with pytest.raises(CorpusError, match="no <seg> elements"):
        read_sgm(write(tmp_path / "s.sgm", "你好\n"), [twice])
    with pytest.raises(CorpusError, match="segment 1 of document A twice"):
        read_sgm(write(tmp_path / "t.sgm", SOURCE * 2), [twice])


def test_training_tags_go_and_the_text_of_title_and_description_stays(tmp_path: Path) -> None:
    lines = [
        "<url>http://www.ted.com/talks/x</url>",
        "<keywords>talks, science</keywords>",
        "<talkid>1</talkid>",
        "<title>Ein Titel</title>",
        "<description>Worum es geht</description>",
        " Danke, it’s R&amp;D. ",
    ]
    files = [write(tmp_path / name, "\n".join(lines) + "\n") for name in ("t.de", "t.en")]
    text = read_tags(*files)
    assert list(text.source) == ["Ein Titel", "Worum es geht", "Danke, it’s R&amp;D."]


XML = """<?xml version="1.0" encoding="UTF-8"?>
<mteval><srcset setid="x"><doc docid="1"><title>Kein Segment’</title>
<seg id="1"> It’s R&amp;D. </seg>
<seg id="2">  Ja.\u00a0</seg>
</doc></srcset></mteval>
"""


def test_segments_of_xml_sets_get_a_plain_apostrophe_and_keep_entities(tmp_path: Path) -> None:
    files = [write(tmp_path / name, XML) for name in ("t.de.xml", "t.en.xml")]
    assert list(read_xml(*files).target) == ["It's R&amp;D.", "Ja."]


def test_xml_sets_of_different_length_are_refused(tmp_path: Path) -> None:
    short = XML.replace('<seg id="2">', "<x>")
    files = [write(tmp_path / "a.xml", XML), write(tmp_path / "b.xml", short)]
    with pytest.raises(CorpusError, match=r"a\.xml has 2 segments, .*b\.xml has 1"):
        read_xml(*files)
    with pytest.raises(CorpusError, match="no <seg id> lines"):
        read_xml(files[0], write(tmp_path / "c.xml", "<mteval></mteval>\n"))


def test_odd_separators_in_test_sets_are_counted_and_do_not_end_lines(tmp_path: Path) -> None:
    lines = '<seg id="1">a\u2028b</seg>\n<seg id="2">c\x0cd</seg>\n'
    files = [write(tmp_path / name, lines) for name in ("a.xml", "b.xml")]
    text = read_xml(*files)
    assert list(text.source) == ["a\u2028b", "c\x0cd"]
    assert text.notes == {"U+2028 inside a line": 2, "form feed inside a line": 2}
    sets = write(tmp_path / "src.sgm", SOURCE.replace("你好", "你\u2028好"))
    read = read_sgm(sets, [write(tmp_path / "ref.sgm", references("r1"))])
    assert (read.source[0], read.notes) == ("你 好", {"U+2028 inside a line": 1})
