"""Dictionary files of fairseq, and the order of ids they imply.

Each line is `symbol count`. It may end in ` #fairseq:overwrite` if the symbol occurred before: the
later line counts, in fairseq 0.6 also without this mark. Four symbols before the first line are
implicit:

    fairseq 0.6    0 unused   1 <pad>   2 </s>    3 <unk>     4 first line ...
    jtrans         0 <pad>    1 </s>    2 <unk>   3 unused    4 first line ...
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from jtrans.digits import whole_number
from jtrans.errors import CheckpointError
from jtrans.files import path_hint
from jtrans.text.vocabulary import SPECIALS, Vocabulary

# fairseq's ids of our special tokens 0 to 3: <pad> </s> <unk> <s>
SPECIAL_ROWS = (1, 2, 3, 0)


def read_dictionary(path: Path) -> Vocabulary:
    """Return the vocabulary in a dictionary file, with jtrans's special tokens.

    Raises:
        CheckpointError: the file is missing, empty, not UTF-8, or has a malformed line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")  # universal newlines, as fairseq reads it
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise _fault(f"cannot read the dictionary: {reason}", path, path_hint(path)) from error
    except UnicodeDecodeError as error:
        raise _fault(f"the dictionary is not UTF-8 text: byte {error.start}", path) from error
    # not splitlines(): a symbol may be a character that only Python treats as a line end
    lines = text.removesuffix("\n").split("\n") if text else []
    if not lines:
        raise _fault("the dictionary is empty", path)
    entries = [_entry(line, f"{path}:{number}") for number, line in enumerate(lines, start=1)]
    return Vocabulary(
        [*SPECIALS, *(symbol for symbol, _ in entries)],
        [0] * len(SPECIALS) + [count for _, count in entries],
    )


def reorder_rows(rows: Tensor) -> Tensor:
    """Return the rows of an embedding, [V, E], in the order of our ids instead of fairseq's."""
    return torch.cat([rows[list(SPECIAL_ROWS)], rows[len(SPECIALS) :]])


def _entry(line: str, where: str) -> tuple[str, int]:
    symbol, _, digits = line.rstrip().removesuffix(" #fairseq:overwrite").rpartition(" ")
    count = whole_number(digits)
    if not symbol or count is None:
        raise _fault(
            f"not a line of a fairseq dictionary (`symbol count`): {line[:60]!r}",
            where,
            "use the dict.*.txt files written by fairseq's preprocess.py",
        )
    return symbol, count


def _fault(message: str, where: Path | str, hint: str | None = None) -> CheckpointError:
    return CheckpointError(message, where=str(where), hint=hint, kind="checkpoint.dictionary")
