"""Raw text to ids and back on real text: how many lines come back exactly.

Each side is prepared as its corpus would be by default, on its own training text, and 1,000 lines
of its test (or valid) set go there and back. What cannot come back is taken out of both before they
are compared: `normalised` lists it. The table is printed with `pytest -s`.
"""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import pytest

from jtrans.corpora.parallel import Corpus, ParallelText
from jtrans.data.prepare import prepare
from jtrans.data.prepare_options import PrepareOptions
from jtrans.text.normalise import normalise

pytestmark = pytest.mark.realdata

# Corpus, languages, their segmenters, and the least share of lines, in per cent, that must come
# back exactly (of source and target). Text that is tokenised already is cut at spaces.
CORPORA = {
    "3am-zh-en": ("zh", "en", "auto", "auto", 98, 96),
    "alt-en-vi": ("en", "vi", "auto", "auto", 93, 90),
    "europarl-de-en": ("de", "en", "auto", "auto", 95, 95),
    "iwslt14-de-en": ("de", "en", "whitespace", "whitespace", 100, 100),
    "iwslt15-en-vi": ("en", "vi", "whitespace", "whitespace", 100, 100),
    "msctd-zh-en": ("zh", "en", "auto", "whitespace", 99, 100),
    "multi30k": ("de", "en", "auto", "auto", 99, 99),
    "python-docs-zh-en": ("zh", "en", "auto", "auto", 15, 25),  # full of code
    "tatoeba-de-en": ("de", "en", "auto", "auto", 99, 99),
    "tatoeba-zh-en": ("zh", "en", "auto", "auto", 98, 99),
    "vlsp2020-en-vi": ("en", "vi", "auto", "auto", 85, 85),
}
LINES, TRAIN = 1000, 8000


def read(folder: Path, split: str, language: str, count: int) -> list[str]:
    path = folder / f"{split}.{language}.gz"
    if not path.exists():
        return []
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as handle:
        return handle.read().split("\n")[:-1][:count]


def normalised(line: str, language: str) -> str:
    """Take out what no pipeline can know: spaces, where Chinese has none and at punctuation."""
    line = normalise(line)
    if language == "zh":
        return line.replace(" ", "")
    return re.sub(r"\s*([^\w\s]+|_)\s*", r"\1", line)


@pytest.mark.parametrize("name", CORPORA)
def test_lines_come_back(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = os.environ.get("JTRANS_TEST_CORPORA")
    if not place:
        pytest.skip("JTRANS_TEST_CORPORA names no folder")
    folder = Path(place) / name
    *languages, source_segment, target_segment, least_source, least_target = CORPORA[name]
    held_out = [read(folder, "test", language, LINES) for language in languages]
    train = [read(folder, "train", language, TRAIN) for language in languages]
    train = [
        one or read(folder, "valid", x, TRAIN) for one, x in zip(train, languages, strict=True)
    ]
    splits = {"train": ParallelText(*train), "valid": ParallelText(*held_out)}
    options = PrepareOptions(
        source_segment=source_segment, target_segment=target_segment, bpe_merges=4000, max_ratio=9
    )
    corpus = Corpus(name, (languages[0], languages[1]), splits)
    pipeline = prepare(corpus, tmp_path / "out", options=options).pipeline
    for side, lines, language, least in zip(
        (pipeline.source, pipeline.target), held_out, languages,
        (least_source, least_target), strict=True,
    ):  # fmt: skip
        known = [line for line in lines if 2 not in side.encode(line)]
        back = [side.decode(side.encode(line)) for line in known]
        exact = sum(a == b for a, b in zip(known, back, strict=True))
        close = sum(
            normalised(a, language) == normalised(b, language)
            for a, b in zip(known, back, strict=True)
        )
        again = sum(side.decode(side.encode(line)) == line for line in back)
        shares = [100 * count / len(known) for count in (exact, close, again)]
        with capsys.disabled():
            print(
                f"\n{name:<20}{language:<4}{len(known):>6} lines without <unk>"
                f"{shares[0]:>7.1f} % exact {shares[1]:>7.1f} % but for spaces "
                f"{shares[2]:>7.1f} % stable",
                end="",
            )
        assert shares[0] >= least and shares[1] == 100
        assert shares[2] >= 97  # a second round trip hardly changes anything more
