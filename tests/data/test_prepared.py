"""Opening a prepared corpus: damage and misuse are refused with what to do."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jtrans.corpora.parallel import Corpus, ParallelText
from jtrans.data.prepared import PreparedCorpus, digest_of
from jtrans.errors import EXIT_BAD_INPUT, CorpusError
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = [f"ein Haus Nummer {i} am Meer" for i in range(20)]
    text = ParallelText(lines, [line.replace("ein Haus", "a house") for line in lines])
    valid = ParallelText(["ein Meer"], ["a sea"])
    corpus = Corpus("sea", ("de", "en"), {"train": text, "valid": valid})
    folder = tmp_path_factory.mktemp("prepared") / "sea"
    prepare(corpus, folder, options=PrepareOptions(bpe_merges=10), workers=1)
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "sea"))


def use(folder: Path) -> None:
    """Read everything a prepared corpus offers."""
    corpus = PreparedCorpus.open(folder)
    for split in corpus.splits:
        corpus.pairs(split)
    corpus.raw_lines("valid", "source")
    corpus.words_lines("valid", "target")


def edit_json(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    value = json.loads(path.read_text("utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "ids cut off": lambda f: cut(f / "train.source.npy"),
    "offsets cut off": lambda f: cut(f / "train.target.offsets.npy"),
    "ids gone": lambda f: (f / "valid.source.npy").unlink(),
    "ids of another kind": lambda f: np.save(f / "train.source.npy", np.zeros(3)),
    "offsets of another file": lambda f: np.save(
        f / "train.source.offsets.npy", np.array([0, 5, 3])
    ),
    "sides exchanged between splits": lambda f: [
        shutil.copy(f / f"valid.source{ending}", f / f"train.source{ending}")
        for ending in (".npy", ".offsets.npy")
    ],
    "ids beyond the vocabulary": lambda f: np.save(
        f / "valid.target.npy", np.full_like(np.load(f / "valid.target.npy"), 30_000)
    ),
    "pipeline gone": lambda f: (f / "pipeline.json").unlink(),
    "pipeline tampered with": lambda f: edit_json(
        f / "pipeline.json", lambda value: value["source"].update(lowercase=True)
    ),
    "text too short": lambda f: (f / "text" / "valid.de").write_text("", encoding="utf-8"),
    "text gone": lambda f: (f / "text" / "valid.tok.en").unlink(),
    "no JSON": lambda f: (f / "corpus.json").write_text("{", encoding="utf-8"),
    "JSON of something else": lambda f: edit_json(
        f / "corpus.json", lambda value: value.pop("splits")
    ),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_corpus_is_refused(folder: Path, damage: Callable[[Path], None]) -> None:
    use(folder)
    damage(folder)
    with pytest.raises(CorpusError) as caught:
        use(folder)
    assert "damaged" in caught.value.message
    assert caught.value.exit_code == EXIT_BAD_INPUT
    assert "--force" in str(caught.value.hint)


def test_a_folder_without_a_corpus_is_refused_with_the_command_that_makes_one(
    tmp_path: Path,
) -> None:
    with pytest.raises(CorpusError, match="no prepared corpus in") as caught:
        PreparedCorpus.open(tmp_path / "not here")
    command = str(caught.value.hint).partition(": ")[2]
    assert shlex.split(command)[-2:] == ["--out", str(tmp_path / "not here")]


def test_a_corpus_given_by_its_name_gets_its_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder, "data/prepared/captions")
    with pytest.raises(CorpusError) as caught:
        PreparedCorpus.open(Path("captions"))
    assert caught.value.hint == f"did you mean {Path('data/prepared/captions')}?"


def test_another_format_version_is_refused(folder: Path) -> None:
    edit_json(folder / "corpus.json", lambda value: value.update(format=99))
    with pytest.raises(CorpusError, match="format 99, this jtrans reads format 1"):
        PreparedCorpus.open(folder)


@pytest.mark.parametrize("content", [[], {"format": 1}])
def test_a_corpus_json_of_something_else_is_not_to_be_replaced(
    folder: Path, content: object
) -> None:
    (folder / "corpus.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(
        CorpusError, match=r"jtrans prepare did not write its corpus\.json"
    ) as caught:
        PreparedCorpus.open(folder)
    assert "--force" not in str(caught.value.hint)


def test_a_file_that_is_no_array_is_refused_without_the_advice_of_numpy(folder: Path) -> None:
    (folder / "train.source.npy").write_bytes(b"x")
    with pytest.raises(CorpusError, match=r"cannot read train\.source\.npy: it is not a complete"):
        len(PreparedCorpus.open(folder).pairs("train"))


def test_an_unknown_split_gets_the_nearest_name(folder: Path) -> None:
    with pytest.raises(CorpusError, match="no split vaild") as caught:
        PreparedCorpus.open(folder).pairs("vaild")
    assert caught.value.hint == "did you mean valid? it has train, valid"


@pytest.mark.parametrize(
    ("changed", "is_other"),
    [
        ("train.source", True),
        ("train.target", True),
        ("valid.source", True),
        ("valid.target", True),
        ("pipeline", True),
        ("test.source", False),
    ],
)
def test_a_digest_is_of_the_text_that_scores_depend_on(
    folder: Path, changed: str, is_other: bool
) -> None:
    digests = PreparedCorpus.open(folder).digests() | {"test.source": "a"}
    before = digest_of(digests, "valid")
    assert (digest_of({**digests, changed: "another"}, "valid") != before) == is_other


def test_ids_are_int32_and_memory_mapped(folder: Path) -> None:
    ids = PreparedCorpus.open(folder).pairs("train").source[3]
    assert ids.dtype == np.int32
    assert isinstance(ids, np.memmap)


def test_a_sentence_outside_the_split_is_an_index_error(folder: Path) -> None:
    source = PreparedCorpus.open(folder).pairs("train").source
    for index in (-1, len(source)):
        with pytest.raises(IndexError):
            source[index]
