"""Finding the files of a corpus in folders that hold other things, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from jtrans.corpora.download.search import find_part, list_files
from jtrans.corpora.entry import SplitPart

PART = SplitPart.model_validate(
    {"choices": [{"reader": "plain", "source": "train.de", "target": "train.en"}]}
)


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a/train.de", "b/train.en", "b/x/train.de", "b/x/train.en"], ["b/x"] * 2),
        (["a/train.de", "a/train.fr", "b/train.de", "b/train.en"], ["b"] * 2),
        (["train.de", "b/train.de", "b/train.en", "train.EN"], ["."] * 2),
        (["a/train.de.gz", "b/train.en", "c/train.de", "c/train.en.xz"], ["c"] * 2),
        (["source/train.de", "target/train.en"], ["source", "target"]),
    ],
)
def test_both_sides_are_taken_from_one_folder_where_there_is_one(
    tmp_path: Path, names: list[str], expected: list[str]
) -> None:
    write(tmp_path, *names)
    files = find_part([list_files(tmp_path)], PART)
    assert files is not None
    folders = [path.parent.relative_to(tmp_path).as_posix() for path in files.paths]
    assert folders == expected
