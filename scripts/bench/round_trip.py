r"""Measure how much real text survives the round trip raw text -> ids -> raw text.

    python -m scripts.bench.round_trip --corpora FOLDER
    python -m scripts.bench.round_trip --corpora FOLDER multi30k \
        --output data/benchmarks/round_trip.json

FOLDER holds one folder for each corpus with train.de.gz, test.de.gz ...; if a corpus has no
training text, its valid set is used. Each side is prepared with the defaults on its own training
text; 1,000 lines of the test set make the round trip.

Differences that cannot be restored are excluded from the comparison or normalised before it:

- Characters that are not in the training text become <unk>: lines with <unk> are counted apart.
- Differences that no reader can see (`jtrans.text.normalise`): control characters, kinds of white
  space, doubled spaces and spaces at the ends, decomposed characters.
- Spaces around punctuation and symbols (Moses and jieba cut there and guess the original spaces),
  and all spaces in Chinese, which has none of its own. Only "exact" counts these differences, "but
  for spaces" does not.

Nothing is lost by the segmenters for characters and for text with spaces between its tokens.
"""

from __future__ import annotations

import argparse
import gzip
import re
import shlex
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from jtrans.corpora.catalogue.load import find_entry
from jtrans.corpora.download.search import find_part, list_files
from jtrans.corpora.formats.readers import read_choice
from jtrans.corpora.parallel import Corpus, ParallelText, join_texts
from jtrans.files import write_json
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare
from jtrans.text.pipeline import TextSide
from jtrans.text.vocabulary import UNK

# Name, languages, and their segmenters.
CORPORA = {
    "3am-zh-en": ("zh", "en", "auto", "auto"),
    "alt-en-vi": ("en", "vi", "auto", "auto"),
    "europarl-de-en": ("de", "en", "auto", "auto"),
    "iwslt14-de-en": ("de", "en", "whitespace", "whitespace"),
    "iwslt14-de-en/raw": ("de", "en", "moses-escaped", "moses-escaped"),
    "iwslt15-en-vi": ("en", "vi", "whitespace", "whitespace"),
    "msctd-zh-en": ("zh", "en", "auto", "whitespace"),
    "multi30k": ("de", "en", "auto", "auto"),
    "multi30k/fr": ("fr", "en", "auto", "auto"),
    "python-docs-zh-en": ("zh", "en", "auto", "auto"),  # full of code
    "tatoeba-de-en": ("de", "en", "auto", "auto"),
    "tatoeba-zh-en": ("zh", "en", "auto", "auto"),
    "vlsp2020-en-vi": ("en", "vi", "auto", "auto"),
}
LINES = 1000


@dataclass(frozen=True)
class Result:
    """The results for the lines of one side.

    Attributes:
        corpus: its name in `CORPORA`.
        language: the language of the side.
        segmenter: the segmenter of the side.
        lines: number of lines that made the round trip.
        with_unknown: number of these with characters that the training text lacks.
        exact: percentage of the other lines that came back unchanged.
        but_for_spaces: percentage of the other lines that came back unchanged except for spaces.
        stable: percentage of results that a second round trip does not change.
    """

    corpus: str
    language: str
    segmenter: str
    lines: int
    with_unknown: int
    exact: float
    but_for_spaces: float
    stable: float


def main() -> None:
    """Measure, print a table, and write it to a file if requested."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CORPORA)}")
    parser.add_argument("--corpora", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--train", type=int, default=50_000, help="training lines at most")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(CORPORA):
        parser.error(f"no such corpus: {', '.join(sorted(unknown))}")
    print(f"{'corpus':<20}{'':<4}{'segmenter':<15}lines  <unk>  exact  but for spaces  stable")
    results: list[Result] = []
    for name in arguments.names or CORPORA:
        with tempfile.TemporaryDirectory() as work:
            measured = measure(name, arguments.corpora, Path(work), train=arguments.train)
        results += measured
        for result in measured:
            print(
                f"{result.corpus:<20}{result.language:<4}{result.segmenter:<15}{result.lines:>5}"
                f"{result.with_unknown:>7}{result.exact:>7.1f}{result.but_for_spaces:>16.1f}"
                f"{result.stable:>8.1f}",
                flush=True,
            )
    if arguments.output:
        shown = ["corpora" if each == str(arguments.corpora) else each for each in sys.argv[1:]]
        value = {
            "command": shlex.join(["python", "-m", "scripts.bench.round_trip", *shown]),
            "train_lines_at_most": arguments.train,
            "not_restored": [
                "characters that are not in the training text (lines with <unk> are left out)",
                "control characters, kinds of white space, doubled spaces, decomposed characters",
                "full-width letters, digits and signs in Chinese",
                "exact, not but_for_spaces: spaces around punctuation, all spaces in Chinese",
            ],
            "rows": [asdict(result) for result in results],
        }
        write_json(arguments.output, value)


def measure(name: str, corpora: Path, work: Path, *, train: int) -> list[Result]:
    """Encode and decode both sides of the first test lines."""
    *languages, source_segment, target_segment = CORPORA[name]
    train_text, held_out = read(name, corpora, languages, train)
    options = PrepareOptions(
        source_segment=source_segment, target_segment=target_segment, bpe_merges=4000, max_ratio=9
    )
    splits = {
        "train": ParallelText(train_text[0], train_text[1]),
        "valid": ParallelText(held_out[0], held_out[1]),
    }
    corpus = Corpus(name, (languages[0], languages[1]), splits)
    pipeline = prepare(corpus, work / "out", options=options).pipeline
    sides = zip((pipeline.source, pipeline.target), held_out, strict=True)
    return [journey(name, side, lines) for side, lines in sides]


def journey(name: str, side: TextSide, lines: list[str]) -> Result:
    """Encode and decode lines, then encode and decode the results again."""
    known = [line for line in lines if UNK not in side.encode(line)]
    back = [side.decode(side.encode(line)) for line in known]
    pairs = list(zip(known, back, strict=True))
    counts = (
        sum(a == b for a, b in pairs),
        sum(without_spaces(a, side) == without_spaces(b, side) for a, b in pairs),
        sum(side.decode(side.encode(line)) == line for line in back),
    )
    exact, but_for_spaces, stable = (round(100 * count / len(known), 2) for count in counts)
    return Result(
        name, side.language, side.segmenter, len(lines), len(lines) - len(known),
        exact, but_for_spaces, stable,
    )  # fmt: skip


def without_spaces(line: str, side: TextSide) -> str:
    """Remove spaces that no pipeline can restore: within Chinese and at punctuation."""
    line = side.normalise(line)
    if side.language == "zh":
        return line.replace(" ", "")
    return re.sub(r"\s*([^\w\s]+|_)\s*", r"\1", line)


def read(
    name: str, corpora: Path, languages: list[str], train: int
) -> tuple[list[list[str]], list[list[str]]]:
    """Return both sides of the training text and of the test lines."""
    if name == "iwslt14-de-en/raw":
        return read_iwslt14(corpora / name, train)
    folder = corpora / name.split("/")[0]
    held_out = [read_split(folder, "test", language, LINES) for language in languages]
    train_text = [
        read_split(folder, "train", language, train) or read_split(folder, "valid", language, train)
        for language in languages
    ]
    return train_text, held_out


def read_iwslt14(folder: Path, train: int) -> tuple[list[list[str]], list[list[str]]]:
    """Read the XML files: the first lines are held out, the others are for training."""
    entry = find_entry("iwslt14-de-en")
    files = [find_part([list_files(folder)], part) for part in entry.parts["test"]]
    text = join_texts(
        [read_choice(f.choice, f.sources, f.targets, entry.languages) for f in files if f]
    )
    sides = [text.source, text.target]
    return [list(x[LINES : LINES + train]) for x in sides], [list(x[:LINES]) for x in sides]


def read_split(folder: Path, split: str, language: str, count: int) -> list[str]:
    """Return the first lines of one file, none if it is missing."""
    path = folder / f"{split}.{language}.gz"
    if not path.exists():
        return []
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as handle:
        return handle.read().split("\n")[:-1][:count]


if __name__ == "__main__":
    main()
