"""Files cut off by a power cut, in the work folder or in a finished corpus, are noticed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from plugins.folders import contents
from plugins.listener import Listener
from plugins.sentence_pairs import PAIRS, parallel_text

from jtrans.corpora.parallel import Corpus, ParallelText
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import CorpusError
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare
from jtrans.preparation.work_folder import WorkFolder
from jtrans.progress import Progress

BLANKS = 6 * "\t_"  # the columns of CoNLL-U that are not read
OPTIONS = PrepareOptions(bpe_merges=30, truecase=True, labels="conllu:tags.conllu")


def make_corpus() -> Corpus:
    source, target = zip(*PAIRS[90:100], strict=True)
    test = ParallelText(source, target, references=(target, target[::-1]))
    train, valid = parallel_text(PAIRS[:80]), parallel_text(PAIRS[80:90])
    splits = {"train": train, "valid": valid, "test": test}
    return Corpus("mine", ("de", "en"), splits)


def run(folder: Path, *, force: bool = False, progress: Progress | None = None) -> dict[str, bytes]:
    prepare(make_corpus(), folder, options=OPTIONS, workers=1, force=force, progress=progress)
    return contents(folder)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with labels for the sentences, without waiting for the disk."""
    monkeypatch.setattr("os.fsync", lambda _file: None)
    monkeypatch.chdir(tmp_path)
    sentences = (
        "".join(f"{i}\t{word}\t_\tX{BLANKS}\n" for i, word in enumerate(line.split(), 1))
        for line, _ in PAIRS
    )
    Path("tags.conllu").write_text("\n".join(sentences), encoding="utf-8")
    return tmp_path


def cut_at(share: float) -> Callable[[bytes], bytes]:
    return lambda data: data[: int(share * len(data))]


CUTS: dict[str, Callable[[bytes], bytes]] = {
    "empty": cut_at(0),
    "half": cut_at(0.5),
    "end": lambda data: data[:-2],
    "zeros": lambda data: bytes(len(data)),
}


@pytest.fixture
def work(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Interrupt a preparation when all is done but the last step."""

    def interrupt(self: WorkFolder) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(WorkFolder, "publish", interrupt)
        run(place / "out")
    return place / ".out.work"


@pytest.mark.parametrize(
    ("cut", "step"),
    [
        pytest.param(CUTS["half"], 12, id="half-of-some"),
        pytest.param(CUTS["zeros"], 1, id="zeros", marks=pytest.mark.thorough),
        pytest.param(CUTS["half"], 1, id="half", marks=pytest.mark.thorough),
        pytest.param(CUTS["empty"], 1, id="empty", marks=pytest.mark.slow),
        pytest.param(CUTS["end"], 1, id="end", marks=pytest.mark.slow),
    ],
)
def test_work_files_that_are_cut_off_are_made_again(
    place: Path, work: Path, cut: Callable[[bytes], bytes], step: int
) -> None:
    expected = run(place / "whole")
    names = sorted(contents(work))
    assert len(names) > 40
    for damaged in [*([name] for name in names[::step]), names]:
        copy = shutil.copytree(work, place / "copy" / ".out.work")
        if not damaged[0].startswith("made/"):  # so that the steps are gone through
            shutil.rmtree(copy / "made")
        for path in (copy / name for name in damaged if (copy / name).exists()):
            path.write_bytes(cut(path.read_bytes()))
        assert run(place / "copy/out") == expected, damaged
        assert not copy.exists()
        shutil.rmtree(place / "copy")


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def halve(data: bytes) -> bytes:
    return data[: len(data) // 2].rstrip(b"\n")


@pytest.mark.parametrize(
    ("damage", "step"),
    [
        pytest.param(halve, 6, id="half-of-some"),
        *(
            pytest.param(damage, 1, id=name, marks=pytest.mark.thorough)
            for name, damage in {"gone": None, "flipped": flip, "half": halve}.items()
        ),
    ],
)
def test_a_finished_corpus_with_any_file_damaged_is_prepared_again(
    place: Path, damage: Callable[[bytes], bytes] | None, step: int
) -> None:
    expected = run(place / "whole")
    for name in ["text", *expected][::step]:
        is_text = name.startswith("text/")
        if name == "corpus.json" or (damage and name == "text") or (damage is flip and is_text):
            continue
        path = shutil.copytree(place / "whole", place / "out") / name
        if damage is None:
            path.rename(place / "gone")
        else:
            path.write_bytes(damage(path.read_bytes()))
        progress = Listener()
        assert run(place / "out", progress=progress) == expected, name
        assert any(
            "is damaged" in text and text.endswith("; preparing it again")
            for text in progress.warnings
        )
        shutil.rmtree(place / "out")
        shutil.rmtree(place / "gone", ignore_errors=True)


def test_edited_text_of_a_finished_corpus_is_not_lost(place: Path) -> None:
    expected = run(place / "out")
    path = place / "out/text/test.0.en"
    path.write_text(path.read_text("utf-8") + "An added line\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"text/test\.0\.en was changed") as caught:
        run(place / "out")
    assert "--force" in str(caught.value.hint)
    assert run(place / "out", force=True) == expected


def test_files_of_the_user_in_a_damaged_corpus_are_not_lost(place: Path) -> None:
    run(place / "out")
    (place / "out/text/notes.txt").write_text("mine", encoding="utf-8")
    run(place / "out")
    (place / "out/pipeline.json").unlink()
    with pytest.raises(CorpusError, match="is damaged"):
        run(place / "out")
    assert (place / "out/text/notes.txt").exists()


@pytest.mark.sample(4)
@pytest.mark.parametrize("key", ["options", "splits", "files"])
@pytest.mark.parametrize("value", [None, [1], {"train": 1}, {"train": {}}])
def test_nonsense_in_the_record_of_a_corpus_is_damage(place: Path, key: str, value: Any) -> None:
    run(place / "out")
    info = json.loads((place / "out/corpus.json").read_bytes())
    (place / "out/corpus.json").write_text(json.dumps({**info, key: value}), encoding="utf-8")
    with pytest.raises(CorpusError, match=r"corpus\.json|different"):
        run(place / "out")


@pytest.mark.parametrize("command", ["", "jtrans prepare --train 'my text'"])
def test_the_hint_to_prepare_again_can_be_pasted(place: Path, command: str) -> None:
    folder = place / "the corpus"
    prepare(make_corpus(), folder, options=OPTIONS, workers=1, command=command)
    (folder / "train.source.npy").unlink()
    with pytest.raises(CorpusError) as caught:
        PreparedCorpus.open(folder).check_files()
    assert caught.value.hint == (
        f"prepare it again: jtrans prepare --train 'my text' --out '{folder}' --force"
        if command
        else "rerun the jtrans prepare command that made it, with --force"
    )


@pytest.mark.parametrize("name", ["", "valid.de", "test.1.en", "test.tok.de"])
def test_a_corpus_without_digests_needs_its_text_too(place: Path, name: str) -> None:
    run(place / "out")
    info = json.loads((place / "out/corpus.json").read_bytes())
    del info["files"]
    (place / "out/corpus.json").write_text(json.dumps(info), encoding="utf-8")
    run(place / "out")
    path = place / "out/text" / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(CorpusError, match="is damaged"):
        run(place / "out")
