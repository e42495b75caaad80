"""Make the built-in corpora again, byte for byte, or compare them with the grammars' output.

python -m scripts.grammar.freeze            # write jtrans/corpora/catalogue/built_in/*.xz
python -m scripts.grammar.freeze --check    # write nothing; exit 1 where a file differs

`jtrans.corpora.catalogue.load` describes the files, and reads them.
"""

from __future__ import annotations

import lzma
import sys
from collections.abc import Mapping
from pathlib import Path

from jtrans.corpora.catalogue.load import GLUE, built_in_file
from jtrans.errors import InternalError
from scripts.grammar.corpus import GRAMMARS, GrammarPair, splits

# Named in full: the meaning of a preset may change with the library.
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0}]


def frozen(corpus: Mapping[str, list[GrammarPair]]) -> str:
    """Return the text of a corpus, one line for each pair of each split."""
    return "".join(
        "\t".join((split, *cells(pair))) + "\n" for split, pairs in corpus.items() for pair in pairs
    )


def cells(pair: GrammarPair) -> tuple[str, ...]:
    """Return the columns of a pair after its split."""
    return (
        marked(pair.source, pair.source_words),
        marked(pair.target, pair.target_words),
        " ".join(f"{source}-{target}" for source, target in pair.alignment),
        " ".join(pair.source_tags),
        " ".join(pair.source_entities),
    )


def marked(text: str, words: tuple[str, ...]) -> str:
    """Return the raw text with a mark between words that no blank separates."""
    line, rest = "", text
    for word in words:
        blank = " " if rest.startswith(" ") else GLUE
        line += blank * bool(line) + word
        rest = rest.removeprefix(" ").removeprefix(word)
    if rest or line.replace(GLUE, "") != text:
        raise InternalError(f"{text!r} is not made of the words {words}")
    return line


def pack(text: str) -> bytes:
    """Pack the text of a corpus."""
    return lzma.compress(text.encode("utf-8"), filters=FILTERS)


def difference(path: Path, text: str) -> str:
    """Return the fault of a corpus's file in words, empty if it has none."""
    if not path.is_file():
        return f"{path} is missing"
    if lzma.decompress(path.read_bytes()) != text.encode("utf-8"):
        return f"{path} is not what the grammar makes"
    return "" if path.read_bytes() == pack(text) else f"{path}: the same text, packed differently"


def main(arguments: list[str]) -> int:
    """Write the files, or compare them."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    problems = 0
    for languages in GRAMMARS:
        path, text = built_in_file(f"grammar-{languages}"), frozen(splits(languages=languages))
        if not arguments:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(pack(text))
        problem = difference(path, text)
        print(problem or f"{path} is what the grammar makes")
        problems += bool(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
