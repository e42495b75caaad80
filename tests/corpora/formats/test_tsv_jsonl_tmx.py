"""TSV, JSON lines and TMX: files that hold both sides."""

from __future__ import annotations

import gzip
import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jtrans.corpora.formats.jsonl import read_jsonl
from jtrans.corpora.formats.tmx import read_tmx
from jtrans.corpora.formats.tsv import read_tsv
from jtrans.corpora.own_files import OwnFiles, name_test_splits
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


@pytest.mark.parametrize(
    "heading", ["id en de", "ID EN DE", "id en-US de_DE", "id target source", "id TGT source"]
)
def test_a_tsv_heading_says_which_columns_are_which(tmp_path: Path, heading: str) -> None:
    path = write(tmp_path / "a.tsv", "\t".join(heading.split()) + "\n7\tYes.\tJa.\n")
    assert pairs(read_tsv(path, PAIR)) == [("Ja.", "Yes.")]


def test_two_varieties_of_a_language_have_columns_of_their_own(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "pt\tpt-br\nSim.\tÉ.\n")
    assert pairs(read_tsv(path, ("pt-BR", "pt"))) == [("É.", "Sim.")]
    path = write(tmp_path / "a.tsv", "pt\tpt-BR\nSim.\tÉ.\n")
    assert pairs(read_tsv(path, ("pt_BR", "pt"))) == [("É.", "Sim.")]
    path = write(tmp_path / "b.tsv", "zh-TW\tzh-CN\n軟體\t软件\n")
    assert pairs(read_tsv(path, ("zh", "zh-TW"))) == [("软件", "軟體")]


@pytest.mark.parametrize(
    "heading", ["de en", "src tgt", "src en", "de_AT target", "source de-DE en", "src tgt en-id"]
)
def test_languages_and_words_of_a_tsv_heading_go_together(tmp_path: Path, heading: str) -> None:
    row = {"de": "Ja.", "src": "Ja.", "de_AT": "Ja.", "de-DE": "Ja.", "source": "web"}
    cells = [row.get(name, "Yes.") for name in heading.split()]
    path = write(tmp_path / "a.tsv", "\t".join(heading.split()) + "\n" + "\t".join(cells))
    assert pairs(read_tsv(path, PAIR)) == [("Ja.", "Yes.")]


@pytest.mark.parametrize("line", [("De-facto", "en-route"), ("de", "which"), ("Source", "goal")])
def test_a_first_tsv_line_of_words_is_a_pair(tmp_path: Path, line: tuple[str, str]) -> None:
    path = write(tmp_path / "a.tsv", "\t".join(line) + "\nJa.\tYes.\n")
    assert pairs(read_tsv(path, PAIR)) == [line, ("Ja.", "Yes.")]


def test_tsv_columns_can_be_chosen(tmp_path: Path) -> None:
    path = write(tmp_path / "deu.txt", "Hi.\tHallo.\tCC-BY\n")
    assert pairs(read_tsv(path, PAIR, columns=(1, 0))) == [("Hallo.", "Hi.")]


def test_cells_that_a_spreadsheet_quoted_are_noticed(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.tsv", '"Ja, ""so"" ist es."\tYes.\n"Nein, nein."\t"No," he "said."\n'
    )
    text = read_tsv(path, PAIR)
    assert text.source[0] == '"Ja, ""so"" ist es."'
    assert [(name[:11], count) for name, count in text.notes.items()] == [("cell quoted", 1)]


def test_a_tsv_line_without_a_partner_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="1 column in line 2") as caught:
        read_tsv(write(tmp_path / "a.tsv", "Ja.\tYes.\nNein.\n"), PAIR)
    assert caught.value.where == f"{tmp_path / 'a.tsv'}:2"


def test_blank_tsv_lines_are_ignored_and_counted_as_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "Ja.\tYes.\n\nNein.\tNo.\n  \n\t\n")
    assert pairs(read_tsv(path, PAIR)) == [("Ja.", "Yes."), ("Nein.", "No."), ("", "")]
    headed = write(tmp_path / "b.tsv", "\n \nen\tde\nYes.\tJa.\n")
    assert pairs(read_tsv(headed, PAIR)) == [("Ja.", "Yes.")]
    with pytest.raises(CorpusError, match="1 column in line 4"):
        read_tsv(write(tmp_path / "a.tsv", "Ja.\tYes.\n\n\nNein.\n"), PAIR)


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_a_file_without_a_pair_comes_with_what_it_should_hold(tmp_path: Path, text: str) -> None:
    with pytest.raises(CorpusError, match="holds no pairs") as caught:
        read_tsv(write(tmp_path / "a.tsv", text), PAIR)
    assert "separate columns by tabs" in str(caught.value.hint)
    with pytest.raises(CorpusError, match="holds no pairs") as caught:
        read_jsonl(write(tmp_path / "a.jsonl", text), PAIR)
    assert '{"de": "...", "en": "..."}' in str(caught.value.hint)


@pytest.mark.parametrize(
    "line",
    [
        {"de": "Ja.", "en": "Yes.", "id": 3},
        {"translation": {"en": "Yes.", "de": "Ja."}},
        {"source": "Ja.", "target": "Yes."},
        {"tgt": "Yes.", "src": "Ja."},
        {"DE": "Ja.", "En": "Yes."},
        {"DE": "Nein.", "de": "Ja.", "En": "No.", "en": "Yes."},
        {"en-US": "Yes.", "de_DE": "Ja.", "fr_FR": "Oui."},
        {"translation": {"de_AT": "Ja.", "en": "Yes."}},
        {"source": "web", "en_GB": "Yes.", "de": "Ja."},
        {"de": None, "en": None, "source": "Ja.", "target": "Yes."},
        {"de": " Ja.\n", "en": "Yes."},
        {"de": "Ja.", "en": "Yes.", "hash": 10**4299},
    ],
)
def test_json_lines_name_both_sides_by_languages_or_words(
    tmp_path: Path, line: dict[str, Any]
) -> None:
    text = json.dumps(line).replace("0" * 4299, "0" * 5000)  # no number of Python can be so long
    path = write(tmp_path / "a.jsonl", text + "\n\n")
    assert pairs(read_jsonl(path, PAIR)) == [("Ja.", "Yes.")]


@pytest.mark.parametrize("ending", ["url", "id", "text", "len"])
def test_other_fields_of_a_language_are_not_its_text(tmp_path: Path, ending: str) -> None:
    line = {f"de_{ending}": "http://a.de/25", f"en_{ending}": "http://a.com/25"}
    path = write(tmp_path / "a.jsonl", json.dumps(line | {"german": "Ja.", "english": "Yes."}))
    with pytest.raises(CorpusError, match="object with both sides"):
        read_jsonl(path, PAIR)


def test_line_feeds_inside_json_texts_become_spaces_and_are_counted(tmp_path: Path) -> None:
    text = read_jsonl(write(tmp_path / "a.jsonl", '{"de": "a\\nb", "en": "c"}'), PAIR)
    assert pairs(text) == [("a b", "c")]
    assert text.notes == {"line feed inside a text": 1}


@pytest.mark.parametrize(
    "line",
    [
        "{",
        '{"de": "Ja."}',
        '["Ja.", "Yes."]',
        '{"de": 1, "en": 2}',
        "[" * 100_000,
        '{"source": "web", "en": "Yes."}',
        "{}",
    ],
)
def test_json_lines_without_a_pair_are_named(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "a.jsonl", f'{{"de": "Ja.", "en": "Yes."}}\n{line}\n')
    with pytest.raises(CorpusError, match="line 2") as caught:
        read_jsonl(path, PAIR)
    assert caught.value.exit_code == EXIT_BAD_INPUT
    assert '{"de": "...", "en": "..."}' in str(caught.value.hint)


@pytest.mark.parametrize("escape", ["\\ud83d", "\\ude00", "\\ude00\\ud83d", "\\u0000"])
@pytest.mark.parametrize("side", PAIR)
def test_half_a_character_is_named_with_its_line(tmp_path: Path, escape: str, side: str) -> None:
    lines = [
        '{"de": "a", "en": "b"}',
        '{"de": "a", "en": "b"}'.replace(f'"{side}": "', f'"{side}": "x{escape}'),
    ]
    path = write(tmp_path / "a.jsonl", "\n".join(lines))
    with pytest.raises(CorpusError, match=r"in line 2") as caught:
        read_jsonl(path, PAIR)
    kind = "corpus.binary" if escape == "\\u0000" else "corpus.surrogate"
    assert (caught.value.kind, caught.value.where) == (kind, f"{path}:2")
    assert ("both halves" in str(caught.value.hint)) == (kind == "corpus.surrogate")


def test_a_character_written_as_two_halves_is_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"de": "\\ud83d\\ude00", "en": "\\ud834\\udd1e!"}')
    assert pairs(read_jsonl(path, PAIR)) == [("\U0001f600", "\U0001d11e!")]


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
    assert text.notes == {"unit without both languages": 1, "inline code dropped": 2}


@pytest.mark.parametrize(
    ("languages", "tags", "sides"),
    [
        (("pt_BR", "pt"), ("pt", "pt-BR"), (1, 0)),
        (("pt-BR", "pt"), ("pt", "pt_BR"), (1, 0)),
        (("zh", "zh-TW"), ("zh-TW", "zh-CN"), (1, 0)),
        (("en", "en"), ("en-GB", "fr"), (0, 0)),
    ],
)
def test_two_varieties_of_a_language_are_two_texts_of_a_unit(
    tmp_path: Path, languages: tuple[str, str], tags: tuple[str, str], sides: tuple[int, int]
) -> None:
    texts = [f"<tuv xml:lang='{tag}'><seg>{tag}</seg></tuv>" for tag in tags]
    path = write(tmp_path / "a.tmx", f"<tmx><tu>{''.join(texts)}</tu></tmx>")
    assert pairs(read_tmx(path, languages)) == [(tags[sides[0]], tags[sides[1]])]


@pytest.mark.parametrize("tags", [("en", "en-GB"), ("en-US", "en-GB"), ("en", "en")])
def test_an_empty_segment_gives_way_to_another_of_its_language(
    tmp_path: Path, tags: tuple[str, str]
) -> None:
    texts = f"<tuv xml:lang='{tags[0]}'><seg/></tuv><tuv xml:lang='{tags[1]}'><seg>Yes.</seg></tuv>"
    text = f"<tmx><tu><tuv xml:lang='de'><seg>Ja.</seg></tuv>{texts}</tu></tmx>"
    assert pairs(read_tmx(write(tmp_path / "a.tmx", text), PAIR)) == [("Ja.", "Yes.")]


def test_a_unit_with_one_variety_is_no_pair_of_two(tmp_path: Path) -> None:
    text = "<tmx><tu><tuv xml:lang='pt'><seg>Sim.</seg></tuv></tu></tmx>"
    with pytest.raises(CorpusError, match=r"(?m)holds no pair of pt-BR and pt; its languages: pt$"):
        read_tmx(write(tmp_path / "a.tmx", text), ("pt-BR", "pt"))


@pytest.mark.parametrize("name", ["utf8", "UTF_8", "utf-8"])
def test_utf8_may_have_any_of_its_names(tmp_path: Path, name: str) -> None:
    text = TMX.replace("Hund", "Hündin").replace('encoding="UTF-8"', f'encoding="{name}"')
    assert pairs(read_tmx(write(tmp_path / "a.tmx", text), PAIR))[1] == ("Hündin", "Dog")


@pytest.mark.parametrize("name", ["GB2312", "Big5", "x-nonsense"])
def test_an_encoding_that_cannot_be_read_is_refused_with_a_way_out(
    tmp_path: Path, name: str
) -> None:
    path = write(tmp_path / "a.tmx", TMX.replace('encoding="UTF-8"', f'encoding="{name}"'))
    with pytest.raises(CorpusError, match="declares an encoding that cannot be read") as caught:
        read_tmx(path, PAIR)
    assert "iconv" in str(caught.value.hint) and caught.value.exit_code == 2


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


def unit(source: str, target: str = "Yes.", before: str = "") -> str:
    return (
        f"{before}<tmx><body><tu><tuv xml:lang='de'><seg>{source}</seg></tuv>"
        f"<tuv xml:lang='en'><seg>{target}</seg></tuv></tu></body></tmx>"
    )


@pytest.mark.parametrize(
    "before",
    [
        "",
        '<!DOCTYPE tmx SYSTEM "tmx14.dtd">',
        '<?xml version="1.0" standalone="yes"?>',
        "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?><!DOCTYPE tmx SYSTEM 't.dtd'>",
        "<!DOCTYPE tmx [<!ELEMENT tmx ANY>]>",
    ],
)
def test_entities_of_html_keep_their_characters(tmp_path: Path, before: str) -> None:
    source = "10&nbsp;km &hellip; &Auml;rger &ndash; &amp;c &lt; &unknown; &#8364;"
    text = read_tmx(write(tmp_path / "a.tmx", unit(source, before=before)), PAIR)
    assert pairs(text) == [("10\u00a0km … Ärger – &c < &unknown; €", "Yes.")]


@pytest.mark.parametrize(
    ("segment", "line", "codes"),
    [
        ('Hallo<ph x="1"/>Welt', "Hallo Welt", 1),
        ('Hallo<ph x="1">&lt;br/&gt;</ph>Welt.', "Hallo Welt.", 1),
        ("Drücke <ph>{1}</ph>, bitte", "Drücke , bitte", 1),
        ("Wort<ph>x</ph>.", "Wort.", 1),
        ("un<bpt i='1'>&lt;b&gt;</bpt>glaub<ept i='1'>&lt;/b&gt;</ept>lich", "unglaublich", 2),
        ("<bpt>&lt;p&gt;</bpt>Ja<ept>&lt;/p&gt;</ept><bpt>&lt;p&gt;</bpt>Nein", "Ja Nein", 3),
        ("Ja <hi>sehr <hi>gut</hi></hi> so", "Ja sehr gut so", 0),
        ("H<it pos='begin'>&lt;i&gt;</it>allo", "Hallo", 1),
        ("Eins<it pos='end'>&lt;/td&gt;</it>Zwei", "Eins Zwei", 1),
        ("你好<ph/>世界", "你好世界", 1),
        ("H<sub>2</sub>O", "H2O", 0),
        ("a <ut>{\\b </ut>b<ut>}</ut> c", "a b c", 2),
        ("x <ph>&lt;img alt=<sub>Ein Hund</sub>/&gt;</ph> y", "x  y", 1),
    ],
)  # fmt: skip
def test_inline_codes_are_dropped_without_joining_words_and_counted(
    tmp_path: Path, segment: str, line: str, codes: int
) -> None:
    text = read_tmx(write(tmp_path / "a.tmx", unit(segment)), PAIR)
    assert pairs(text) == [(line, "Yes.")]
    assert text.notes.get("inline code dropped", 0) == codes
    assert text.notes.get("text inside inline code dropped", 0) == segment.count("<sub>Ein")


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                ["<ph/>", "<bpt>x</bpt>", "<ept>y</ept>", "<hi>", "&nbsp;", "&eacute;"]
            ),
            st.text("abcäö .,", min_size=1),
        )
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_no_character_of_a_segment_is_lost(tmp_path: Path, parts: list[str]) -> None:
    closed = [f"{part}z</hi>" if part == "<hi>" else part for part in parts]
    text = read_tmx(write(tmp_path / "a.tmx", unit("x" + "".join(closed) + "x")), PAIR)
    plain = re.sub("<(?:bpt|ept)>.*?</(?:bpt|ept)>|<.*?>", "", "".join(closed))
    assert text.source[0].replace(" ", "") == f"x{html.unescape(plain)}x".replace(" ", "")


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
    corpus = OwnFiles(names[:2], names[2:3], names).read("mine", PAIR)
    assert pairs(corpus.splits["train"]) == [("Ja.", "Yes."), ("Nein\u2028.", "No.")]
    assert corpus.splits["train"].notes == {"U+2028 inside a line": 1}
    assert list(corpus.splits) == ["train", "valid", "test", "test2", "test3"]


def test_test_splits_are_named_without_the_ending_of_their_format() -> None:
    assert name_test_splits(["a/news.tsv", "a/web.tmx.gz", "a/talks.2014"]) == [
        "news", "web", "talks.2014",
    ]  # fmt: skip
