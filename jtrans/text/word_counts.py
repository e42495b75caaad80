"""The file with the counts of all words of a training text.

All words before BPE are counted, while a vocabulary counts pieces and leaves out those rarer than
its threshold. A prepared corpus holds the counts of both sides, a run those of the
target side.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from jtrans.errors import CorpusError
from jtrans.files import write_bytes

FORMAT = 1
LEVEL = 6  # of compression: higher ones take longer and save little


def write_word_counts(path: Path, counts: Mapping[str, int]) -> None:
    """Write word counts; equal counts give equal bytes."""
    words = sorted(counts)
    words.sort(key=counts.__getitem__, reverse=True)  # stable: ties stay in order of text
    content = {"format": FORMAT, "words": words, "counts": [counts[word] for word in words]}
    data = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    write_bytes(path, gzip.compress(data, LEVEL, mtime=0), is_durable=False)


def read_word_counts(path: Path) -> Counter[str] | None:
    """Read counts; None if the file is missing.

    Raises:
        CorpusError: it is damaged or has another format.
    """
    if not path.is_file():
        return None
    try:
        content = json.loads(gzip.decompress(path.read_bytes()))
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']}, this jtrans reads {FORMAT}")
        return Counter(dict(zip(content["words"], map(int, content["counts"]), strict=True)))
    except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error) as error:
        raise CorpusError(
            f"the word counts are damaged: {error}",
            where=str(path),
            hint="delete this file, or prepare the corpus again with --force",
            kind="corpus.damaged",
        ) from error
