"""CoNLL-U: sentences with words and parts of speech, read as text for both sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from jtrans.corpora.formats.conllu import read_conllu, read_sentences
from jtrans.corpora.own_files import OwnFiles
from jtrans.corpora.parallel import Gold, ParallelText, join_texts
from jtrans.errors import ConfigError, CorpusError

ENGLISH = """# sent_id = 1
# text = Don't go, Ann.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\t_\t_\t0\t_\t_\t_
2\tn't\tnot\tPART\t_\t_\t0\t_\t_\t_
3\tgo\tgo\tVERB\t_\t_\t0\t_\t_\tSpaceAfter=No
4\t,\t,\tPUNCT\t_\t_\t0\t_\t_\t_
4.1\tyou\tyou\tPRON\t_\t_\t0\t_\t_\t_
5\tAnn\tAnn\tPROPN\t_\t_\t0\t_\t_\tSpaceAfter=No
6\t.\t.\tPUNCT\t_\t_\t0\t_\t_\t_

1\t10 000\t10000\tNUM\t_\t_\t0\t_\t_\tSpaceAfter=No
2\t!\t!\tPUNCT\t_\t_\t0\t_\t_\t_
"""


def write(folder: Path, text: str = ENGLISH, name: str = "en.conllu") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def test_sentences_have_their_text_words_and_tags(tmp_path: Path) -> None:
    first, second = read_sentences(write(tmp_path))
    assert first.text == "Don't go, Ann."
    assert first.tagged.words == ["Don't", "go", ",", "Ann", "."]
    assert first.tagged.tags == ["AUX", "VERB", "PUNCT", "PROPN", "PUNCT"]
    assert first.tagged.entities == ()
    assert (second.text, second.tagged.words) == ("10 000!", ["10000", "!"])


@pytest.mark.parametrize("space", ["\u00a0", "\u202f", "\u3000"])
def test_any_kind_of_space_in_a_word_leaves_it_one_word(tmp_path: Path, space: str) -> None:
    other = write(tmp_path, ENGLISH.replace("10 000", f"10{space}000"))
    corpus = OwnFiles([str(other)], valid_size=1).read("c", ("en", "en"))
    gold = corpus.splits["train"].gold
    assert gold is not None
    assert (gold.source_words[1].split(), gold.source_tags[1]) == (["10000", "!"], "NUM PUNCT")


def test_a_word_of_spaces_alone_is_no_word(tmp_path: Path) -> None:
    blank = write(tmp_path, ENGLISH.replace("3\tgo\tgo", "3\t \tgo"))
    first = next(iter(read_sentences(blank)))
    assert first.tagged.words == ["Don't", ",", "Ann", "."]
    assert first.tagged.tags == ["AUX", "PUNCT", "PROPN", "PUNCT"]


def test_windows_line_ends_and_a_missing_last_blank_line_change_nothing(tmp_path: Path) -> None:
    plain = list(read_sentences(write(tmp_path)))
    windows = write(tmp_path, ENGLISH.rstrip().replace("\n", "\r\n"), "windows.conllu")
    assert list(read_sentences(windows)) == plain


def test_entities_are_known_in_all_sentences_or_in_none(tmp_path: Path) -> None:
    named = ENGLISH.replace(
        "Ann\tAnn\tPROPN\t_\t_\t0\t_\t_\t", "Ann\tAnn\tPROPN\t_\t_\t0\t_\t_\tNER=B-PER|"
    )
    sentences = list(read_sentences(write(tmp_path, named)))
    assert [list(each.tagged.entities) for each in sentences] == [
        ["O", "O", "O", "B-PER", "O"],
        ["O", "O"],
    ]
    chains = ENGLISH.replace("SpaceAfter=No", "Entity=(e1-person-new-cf1-1-coref")
    assert not any(each.tagged.entities for each in read_sentences(write(tmp_path, chains)))


@pytest.mark.parametrize(
    ("misc", "label"),
    [
        ("NER=O", "O"),
        ("NER=S-PER", "B-PER"),
        ("NER=U-PER", "B-PER"),
        ("ner=E-PERSON", "I-PERSON"),  # Stanza's
        ("NER=L-ORG1", "I-ORG1"),
        ("start_char=0|ner=B-DNA-domain", "B-DNA-domain"),
        ("NER=PER", "PER"),
        ("Entity=B-PER", "B-PER"),
        ("owner=Ann", ""),
    ],
)
def test_entities_of_other_schemes_are_read_as_bio(tmp_path: Path, misc: str, label: str) -> None:
    path = write(tmp_path, f"1\tAnn\tAnn\tPROPN\t_\t_\t0\t_\t_\t{misc}\n\n")
    [sentence] = read_sentences(path)
    assert "".join(sentence.tagged.entities) == label


def test_a_file_is_the_source_and_the_target_with_its_tags(tmp_path: Path) -> None:
    corpus = OwnFiles([str(write(tmp_path))], valid_size=1).read("c", ("en", "en"))
    text = corpus.splits["train"]
    assert list(text.source) == list(text.target) == ["Don't go, Ann.", "10 000!"]
    assert text.gold is not None and text.gold.source_tags[1] == "NUM PUNCT"
    assert not text.gold.alignments and not text.gold.source_entities


def test_tags_of_joined_files_follow_their_sentences() -> None:
    first = ParallelText(["a"], ["a"], gold=Gold(["a"], ["a"], (), ["X"], ["O"]))
    second = ParallelText(["b"], ["b"], gold=Gold(["b"], ["b"], (), ["NOUN"]))
    joined = join_texts([first, second])
    assert joined.gold is not None and list(joined.gold.source_tags) == ["X", "NOUN"]
    assert not joined.gold.source_entities
    assert join_texts([first, ParallelText(["c"], ["c"])]).gold is None


def test_two_languages_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="sentences of one language, not pairs of en-de"):
        read_conllu(write(tmp_path), ("en", "de"))


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("3\tgo\tgo\tVERB", "three\tgo\tgo\tVERB", "line 6 begins with 'three'"),
        ("3\tgo\tgo\tVERB", f"{'3' * 5000}\tgo\tgo\tVERB", "line 6 begins with '333"),
        ("3\tgo\tgo\tVERB", "3\tgo\tgo\tVerb, finite", "line 6 has 'Verb, finite' as its part"),
        ("3\tgo\tgo\tVERB", "3 go go VERB", "line 6 has 7 columns instead of 10"),
        (ENGLISH, "# text = nothing\n\n", "holds no sentence"),
    ],
)
def test_a_line_that_is_no_conllu_is_named(old: str, new: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=fault):
        list(read_sentences(write(tmp_path, ENGLISH.replace(old, new))))
