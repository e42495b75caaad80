"""Real treebanks: every sentence keeps the tags of its words, in both ways to give them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from plugins.command_line import run_process

from jtrans.corpora.formats.conllu import read_sentences
from jtrans.corpora.lines import read_line_file
from jtrans.data.prepared import PreparedCorpus

pytestmark = pytest.mark.realdata

ENGLISH, GERMAN = "en_ewt-ud", "de_gsd-ud"
SPLITS = {"en": (f"{ENGLISH}-train", f"{ENGLISH}-dev"), "de": (f"{GERMAN}-test", f"{GERMAN}-dev")}


def run_jtrans(folder: Path, *arguments: str) -> str:
    result = run_process(*arguments, folder=folder)
    assert result.code == 0, result.err
    return result.out


@pytest.mark.parametrize("language", ["en", "de"])
def test_a_treebank_is_prepared_with_all_its_tags(
    language: str, corpora_folder: Path, tmp_path: Path
) -> None:
    train, test = (
        str(corpora_folder / f"ud-{language}" / f"{name}.conllu.gz") for name in SPLITS[language]
    )
    files = ("--train", train, "--valid-size", "100", "--test", test, "--languages", language)
    run_jtrans(tmp_path, "prepare", *files, "--bpe-merges", "2000", "--out", "tags")
    info = json.loads((tmp_path / "tags/corpus.json").read_text(encoding="utf-8"))
    assert info["unlabelled"] == info["misaligned"] == {"train": 0, "valid": 0, "test": 0}
    assert [*info["labels"]] == ["pos"]
    corpus = PreparedCorpus.open(tmp_path / "tags")
    labels, names = corpus.pairs("test").labels["pos"], corpus.label_names["pos"]
    side, words = corpus.pipeline.source, corpus.words_lines("test", "source")
    same = total = 0
    for i, sentence in enumerate(read_sentences(Path(test))):
        if words[i] == sentence.tagged.words:  # where Moses and the treebank agree on words
            firsts = [sum(len(side.split([w])) for w in words[i][:n]) for n in range(len(words[i]))]
            same += [names[j] for j in labels[i][firsts]] == sentence.tagged.tags
            total += 1
    assert same == total > len(words) / 3


def test_labels_of_several_files_reach_pairs_whose_source_is_a_treebank(
    corpora_folder: Path, tmp_path: Path
) -> None:
    options: list[str] = []
    for split, name in zip(("train", "valid"), SPLITS["en"], strict=True):
        path = corpora_folder / "ud-en" / f"{name}.conllu.gz"
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            text = [line[9:].strip() for line in stream if line.startswith("# text = ")][:1000]
        for language in ("en", "de"):
            lines = "".join(f"{line}\n" for line in text)
            (tmp_path / f"{split}.{language}").write_text(lines, encoding="utf-8", newline="\n")
        options += [f"--{split}", split, "--labels", f"conllu:{path}"]
    options += ["--languages", "en-de", "--bpe-merges", "1000", "--keep-identical"]
    run_jtrans(tmp_path, "prepare", *options, "--out", "pairs")
    info = json.loads((tmp_path / "pairs/corpus.json").read_text(encoding="utf-8"))
    assert info["unlabelled"] == {"train": 0, "valid": 0}
    assert len(read_line_file(tmp_path / "train.en")) == 1000
