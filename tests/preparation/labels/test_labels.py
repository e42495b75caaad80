"""Parts of speech and entities: from a tagger's words to the pieces a model reads."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plugins.listener import Listener

from jtrans.corpora.parallel import Corpus, ParallelText, Tagged
from jtrans.data.ids import IGNORE
from jtrans.errors import ConfigError, CorpusError
from jtrans.files import write_json
from jtrans.preparation.labels.project import (
    name_labels,
    number_entities,
    overlaps,
    project,
)
from jtrans.preparation.labels.sources import (
    ConlluLabels,
    SpacyLabels,
    check_labels,
    labels_digest,
    open_labels,
)
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare
from jtrans.text.pipeline import TextSide

CODES = "#version: 0.2\nb l\n"  # hardly any merge: nearly every letter is a piece


def labels_of(
    line: str, tagged: Tagged | None, *, segmenter: str = "moses", codes: str | None = CODES
) -> dict[str, list[str]]:
    """Return the names of the labels of a line's pieces, "-" for none."""
    side = TextSide("en", segmenter, codes=codes)
    entities = [entity.removeprefix("B-").removeprefix("I-") for entity in tagged.entities if
                entity != "O"] if tagged else []  # fmt: skip
    vocabulary = name_labels(entities)
    projected = project(tagged, side, side.segment(line), vocabulary)
    return {
        kind: ["-" if i == IGNORE else vocabulary[kind][i] for i in labels]
        for kind, labels in projected.items()
    }


def test_every_piece_of_a_word_has_its_tag() -> None:
    labels = labels_of("unbelievable !", Tagged(["unbelievable", "!"], ["ADJ", "PUNCT"]))
    assert labels == {"pos": ["ADJ"] * 11 + ["PUNCT", "-"]}


def test_pieces_of_an_entity_begin_once_and_go_on() -> None:
    tagged = Tagged(["New", "York"], ["PROPN"] * 2, ["B-GPE", "I-GPE"])
    assert labels_of("New York", tagged)["ner"] == ["B-GPE", *["I-GPE"] * 6, "-"]


def test_neighbouring_entities_of_one_type_begin_each() -> None:
    tagged = Tagged(["Ann", "Bob"], ["PROPN"] * 2, ["B-PERSON", "B-PERSON"])
    labels = labels_of("Ann Bob", tagged, codes=None)
    assert labels["ner"] == ["B-PERSON", "B-PERSON", "-"]


def test_a_word_of_the_segmenter_takes_the_tag_where_it_begins() -> None:
    # the tagger splits "don't" in another way than Moses does, and takes "e.g." as one
    tagged = Tagged(["I", "do", "n't", "know"], ["PRON", "AUX", "PART", "VERB"])
    labels = labels_of("I don't know", tagged, codes=None)
    assert labels["pos"] == ["PRON", "AUX", "PART", "VERB", "-"]


def test_escapes_are_undone_and_other_text_has_no_labels() -> None:
    tagged = Tagged(["A", "&", "B"], ["X", "CCONJ", "X"])
    assert labels_of("A & B", tagged, segmenter="moses-escaped", codes=None)["pos"] == [
        "X", "CCONJ", "X", "-",
    ]  # fmt: skip
    assert labels_of("A and B", tagged)["pos"] == ["-"] * 6
    assert labels_of("A and B", None)["pos"] == ["-"] * 6


def test_characters_and_their_spaces_can_be_labelled() -> None:
    labels = labels_of(
        "a b", Tagged(["a", "b"], ["DET", "NOUN"]), segmenter="character", codes=None
    )
    assert labels["pos"] == ["DET", "-", "NOUN", "-"]  # a space is no word, and has no tag


def test_a_space_is_of_an_entity_only_if_the_words_around_it_are() -> None:
    tagged = Tagged(["I", "saw", "NY", "U", "LA"], ["X"] * 5, ["O", "O", "B-ORG", "I-ORG", "B-ORG"])
    labels = labels_of("I saw NY U LA", tagged, segmenter="character", codes=None)
    assert " ".join(labels["ner"]) == "O O O O O O B-ORG I-ORG I-ORG I-ORG O B-ORG I-ORG -"


def test_types_of_ontonotes_make_its_whole_list_and_others_only_themselves() -> None:
    assert len(name_labels(["GPE", "DATE"])["ner"]) == 37
    assert name_labels(["PER", "LOC"])["ner"] == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert name_labels([]).keys() == {"pos"}
    assert len(name_labels([])["pos"]) == 18


def test_entities_are_numbered_with_and_without_begin_marks() -> None:
    assert [number for number, _ in number_entities(["PER", "PER", "O", "LOC"])] == [1, 1, 0, 2]
    marked = ["B-PER", "B-PER", "I-PER", "O"]
    assert [number for number, _ in number_entities(marked)] == [1, 2, 2, 0]


@given(st.lists(st.text("aBcä", min_size=1, max_size=4), max_size=6), st.data())
def test_characters_keep_their_words_however_others_cut(words: list[str], data: Any) -> None:
    text = "".join(words)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=5)) | {0, len(text)})
    others = [text[a:b] for a, b in pairwise(cuts)]
    owners = overlaps(words, TextSide("de", "whitespace"), others)
    assert owners is not None and [len(owner) for owner in owners] == [len(o) for o in others]
    assert [i for owner in owners for i in owner] == [i for i, w in enumerate(words) for _ in w]


CONLLU = """# text = Anna geht zum See.
1\tAnna\tAnna\tPROPN\t_\t_\t0\t_\t_\tNER=B-PER
2\tgeht\tgehen\tVERB\t_\t_\t0\t_\t_\t_
3-4\tzum\t_\t_\t_\t_\t_\t_\t_\t_
3\tzu\tzu\tADP\t_\t_\t0\t_\t_\t_
4\tdem\tder\tDET\t_\t_\t0\t_\t_\t_
4.1\tleer\t_\tX\t_\t_\t0\t_\t_\t_
5\tSee\tSee\tNOUN\t_\t_\t0\t_\t_\tSpaceAfter=No
6\t.\t.\tPUNCT\t_\t_\t0\t_\t_\t_

1\tJa\tja\tINTJ\t_\t_\t0\t_\t_\t_
"""


@pytest.fixture
def conllu(tmp_path: Path) -> Path:
    path = tmp_path / "tags.conllu"
    path.write_text(CONLLU, encoding="utf-8")
    return path


def test_sentences_of_a_conllu_file_are_found_by_their_text(conllu: Path) -> None:
    labels = ConlluLabels(conllu)
    first, unknown, last = labels.tag(["anna geht zum See .", "Nein", "Ja"])
    assert unknown is None and last == Tagged(["Ja"], ["INTJ"], ["O"])
    assert first is not None
    assert list(first.words) == ["Anna", "geht", "zum", "See", "."]
    assert list(first.tags) == ["PROPN", "VERB", "ADP", "NOUN", "PUNCT"]
    assert labels.entity_types == ["PER"]


def test_full_width_letters_are_found_as_narrow_ones(tmp_path: Path) -> None:
    path = tmp_path / "tags.conllu"
    path.write_text("1\tABC\t_\tX\t_\t_\t0\t_\t_\t_\n", encoding="utf-8")
    for line in ("ABC", "\uff21\uff22\uff23"):
        assert ConlluLabels(path).tag([line]) == [Tagged(["ABC"], ["X"], ())]


def test_emoji_that_a_tagger_divides_are_found(tmp_path: Path) -> None:
    path = tmp_path / "tags.conllu"
    words = ["\U0001f468", "\u200d", "\U0001f469", "ok"]
    rows = (f"{number}\t{word}\t_\tX\t_\t_\t0\t_\t_\t_\n" for number, word in enumerate(words, 1))
    path.write_text("".join(rows), encoding="utf-8")
    (tagged,) = ConlluLabels(path).tag(["\U0001f468\u200d\U0001f469 ok"])
    assert tagged is not None and tagged.words[-1] == "ok"


def test_labels_of_a_file_reach_the_prepared_corpus(tmp_path: Path, conllu: Path) -> None:
    text = ParallelText(["Anna geht zum See.", "Nein", "Ja"], ["x y z a", "no", "yes"])
    splits = {"train": text, "valid": ParallelText(["Ja"], ["yes"])}
    options = PrepareOptions(bpe="none", max_ratio=3, labels=f"conllu:{conllu}")
    prepared = prepare(Corpus("c", ("de", "en"), splits), tmp_path / "out", options=options)
    labels = prepared.pairs("train").labels
    names = prepared.label_names["pos"]
    assert [names[i] for i in labels["pos"][0][:-1]] == ["PROPN", "VERB", "ADP", "NOUN", "PUNCT"]
    assert labels["pos"][1].tolist() == [IGNORE, IGNORE]
    assert prepared.info["unlabelled"] == {"train": 1, "valid": 0}
    conllu.write_text(CONLLU.replace("INTJ", "ADV"), encoding="utf-8")
    with pytest.raises(CorpusError, match="different contents of the labels"):
        prepare(Corpus("c", ("de", "en"), splits), tmp_path / "out", options=options)
    corpus = Corpus("c", ("de", "en"), splits)
    prepared = prepare(corpus, tmp_path / "out", options=options, force=True)
    assert names[prepared.pairs("valid").labels["pos"][0][0]] == "ADV"  # not those read before


def test_a_sentence_has_the_labels_of_the_first_file_that_knows_it(
    tmp_path: Path, conllu: Path
) -> None:
    other = tmp_path / "more.conllu"
    more = "1\tJa\t_\tNOUN\t_\t_\t0\t_\t_\t_\n\n1\tNein\t_\tINTJ\t_\t_\t0\t_\t_\t_\n"
    other.write_text(more, encoding="utf-8")
    text = ParallelText(["Nein", "Ja", "Doch"], ["no", "yes", "yes"])
    splits = {"train": text, "valid": ParallelText(["Doch"], ["it is"])}
    options = PrepareOptions(bpe="none", labels=(f"conllu:{conllu}", f"conllu:{other}"))
    listener = Listener()
    corpus = Corpus("c", ("de", "en"), splits)
    prepared = prepare(corpus, tmp_path / "out", options=options, progress=listener)
    names, labels = prepared.label_names["pos"], prepared.pairs("train").labels
    assert [names[labels["pos"][i][0]] for i in range(2)] == ["INTJ", "INTJ"]
    assert labels["ner"][0].tolist() == [IGNORE, IGNORE]  # its file knows no entities
    assert labels["ner"][1].tolist() == [0, IGNORE]
    assert "train 2 of 3 · valid 0 of 1" in listener.lines["Labels"]
    assert "not one sentence of valid has labels" in listener.warnings
    again = prepare(corpus, tmp_path / "out", options=options, progress=listener)
    assert "Unchanged" in listener.lines and again.info == prepared.info


def test_sentences_whose_characters_differ_are_counted(tmp_path: Path, conllu: Path) -> None:
    lines = ["Anna geht zum\u00ad See.", "Ja"]  # a soft hyphen, which the tags do not have
    text = ParallelText(lines, ["x y z a", "yes"])
    splits = {"train": text, "valid": ParallelText(["Ja"], ["yes"])}
    options = PrepareOptions(bpe="none", labels=f"conllu:{conllu}", strip_invisible=False)
    prepared = prepare(Corpus("c", ("de", "en"), splits), tmp_path / "out", options=options)
    assert prepared.info["unlabelled"] == {"train": 1, "valid": 0}
    assert prepared.info["misaligned"] == {"train": 1, "valid": 0}


def test_a_corpus_of_one_file_of_labels_is_still_up_to_date(tmp_path: Path, conllu: Path) -> None:
    splits = {"train": ParallelText(["Ja"], ["yes"]), "valid": ParallelText(["Ja"], ["yes"])}
    corpus, folder = Corpus("c", ("de", "en"), splits), tmp_path / "out"
    options = PrepareOptions(bpe="none", labels=f"conllu:{conllu}", drop_leaked=False)
    info = prepare(corpus, folder, options=options).info
    info["options"]["labels"] = f"conllu:{conllu}"  # as corpora of earlier versions have it
    write_json(folder / "corpus.json", info)
    listener = Listener()
    prepare(corpus, folder, options=options, progress=listener)
    assert "Unchanged" in listener.lines


def test_too_many_types_of_entities_are_refused() -> None:
    assert len(name_labels(f"T{i}" for i in range(63))["ner"]) == 127
    with pytest.raises(CorpusError, match="64 types of entities are too many: 129 labels"):
        name_labels(f"T{i}" for i in range(64))


def test_labels_of_another_text_are_refused_and_leave_nothing(tmp_path: Path, conllu: Path) -> None:
    splits = {
        "train": ParallelText(["etwas anderes"], ["something else"]),
        "valid": ParallelText(["nichts davon"], ["none of it"]),
    }
    options = PrepareOptions(bpe="none", labels=f"conllu:{conllu}")
    with pytest.raises(CorpusError, match="none of the 2 sentences has labels"):
        prepare(Corpus("c", ("de", "en"), splits), tmp_path / "out", options=options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("tags.txt", "neither spacy:MODEL nor conllu:FILE"),
        ("conllu:", "neither spacy:MODEL nor conllu:FILE"),
        ("conllu:nowhere.conllu", "no such file: nowhere.conllu"),
    ],
)
def test_an_impossible_source_of_labels_is_refused(name: str, part: str) -> None:
    with pytest.raises((ConfigError, CorpusError), match=part):
        check_labels([name])


def test_unusable_labels_are_refused_before_the_text_is_segmented(tmp_path: Path) -> None:
    path = tmp_path / "tags.conllu"
    path.write_text("1\tJa\tja\tINTJ\n", encoding="utf-8")
    splits = {"train": ParallelText(["Ja"], ["yes"]), "valid": ParallelText(["Ja"], ["yes"])}
    listener, options = Listener(), PrepareOptions(bpe="none", labels=f"conllu:{path}")
    with pytest.raises(CorpusError, match="4 columns"):
        prepare(
            Corpus("c", ("de", "en"), splits), tmp_path / "out", options=options, progress=listener
        )
    assert list(listener.lines) == ["Reading"]


def test_a_line_that_is_no_conllu_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.conllu"
    path.write_text("# text = x\n1 Anna PROPN\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"line 2 has 1 column instead of 10"):
        ConlluLabels(path)


def test_missing_spacy_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ConfigError, match="spaCy is not installed") as caught:
        check_labels(["spacy:de_core_news_sm"])
    assert "jtrans[labels]" in str(caught.value.hint)


class FakeDocument(list[SimpleNamespace]):
    """What this project uses of a spaCy document."""

    def has_annotation(self, name: str) -> bool:
        return name == "POS"


class FakeModel:
    """What this project uses of a spaCy pipeline."""

    def has_pipe(self, name: str) -> bool:
        return name == "ner"

    def get_pipe(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(labels=("PER",))

    def pipe(self, lines: Any, batch_size: int) -> Iterator[FakeDocument]:
        for line in lines:
            yield FakeDocument(
                SimpleNamespace(
                    text=word, pos_="NOUN" if word[0].isupper() else "VERB", is_space=False,
                    ent_iob_="B" if word == "Anna" else "O",
                    ent_type_="PER" if word == "Anna" else "",
                )
                for word in line.split()
            )  # fmt: skip


def test_tags_of_spacy_become_labels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spacy: Any = ModuleType("spacy")
    spacy.__version__ = "3.8.0"
    spacy.load = lambda name, exclude: FakeModel()
    monkeypatch.setitem(sys.modules, "spacy", spacy)
    open_labels.cache_clear()
    text = ParallelText(["Anna geht", "geht  Anna"], ["x y", "y x"])
    options = PrepareOptions(bpe="none", labels="spacy:any", drop_leaked=False)
    corpus = Corpus("c", ("de", "en"), {"train": text, "valid": replace(text)})
    prepared = prepare(corpus, tmp_path / "out", options=options, workers=1)
    open_labels.cache_clear()
    names, labels = prepared.label_names, prepared.pairs("train").labels
    assert [names["pos"][i] for i in labels["pos"][1][:-1]] == ["VERB", "NOUN"]
    assert [names["ner"][i] for i in labels["ner"][0][:-1]] == ["B-PER", "O"]


@pytest.fixture(scope="module")
def spacy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A spaCy pipeline of rules: names are proper nouns and persons, `geht` is a verb."""
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("de")
    ruler = nlp.add_pipe("attribute_ruler")
    ruler.add([[{"IS_TITLE": True}]], {"POS": "PROPN"})
    ruler.add([[{"LOWER": "geht"}]], {"POS": "VERB"})
    folder = tmp_path_factory.mktemp("spacy") / "rules"
    nlp.to_disk(folder)
    return folder


def test_a_real_spacy_pipeline_in_a_folder_labels_words(spacy_folder: Path, tmp_path: Path) -> None:
    open_labels.cache_clear()
    lines = ["Anna geht. Ab", "  ", "Berta geht nach Ulm"]
    [first, empty, third] = open_labels((f"spacy:{spacy_folder}",), "").tag(lines)
    assert empty is None and first is not None and third is not None
    assert first.words == ["Anna", "geht", ".", "Ab"]
    assert first.tags == ["PROPN", "VERB", "_", "PROPN"]
    assert third.tags == ["PROPN", "VERB", "_", "PROPN"]
    before = labels_digest([f"spacy:{spacy_folder}"])
    copy = shutil.copytree(spacy_folder, tmp_path / "copy")
    assert labels_digest([f"spacy:{copy}"]) == before
    (copy / "meta.json").write_text("{}", encoding="utf-8")
    assert labels_digest([f"spacy:{copy}"]) != before


def test_spacy_pipelines_that_cannot_label_are_refused(spacy_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="spaCy has no model nothing_sm"):
        SpacyLabels("nothing_sm")
    damaged = shutil.copytree(spacy_folder, tmp_path / "damaged")
    (damaged / "config.cfg").write_text("[nlp]\nlang = 3\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="spaCy cannot load"):
        SpacyLabels(str(damaged))
    import spacy

    spacy.blank("de").to_disk(tmp_path / "blank")
    with pytest.raises(ConfigError, match="does not tag parts of speech"):
        SpacyLabels(str(tmp_path / "blank")).tag(["Anna geht"])
