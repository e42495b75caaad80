"""Overlap of training text with valid and test, by sentences without case and punctuation.

Sentences that differ only in case, punctuation, spaces, compatibility forms (full-width letters)
or Moses escapes are the same sentence here: a system that was trained on "Thank you!" has seen
"thank you .". They are compared by digests of 8 bytes, a part of the training text at a time.
"""

from __future__ import annotations

import hashlib
import html
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
# Categories of characters that are ignored: punctuation, spaces, controls, spacing accents.
_IGNORED = ("P", "Z", "Cc", "Cf", "Sk")
_MIXER = np.uint64(0x9E3779B97F4A7C15)


class _Characters(dict[int, int | None]):
    """A table for `str.translate` that deletes the characters that are ignored."""

    def __missing__(self, code: int) -> int | None:
        is_ignored = unicodedata.category(chr(code)).startswith(_IGNORED)
        self[code] = None if is_ignored else code
        return self[code]


_characters = _Characters()


def bare_sentence(line: str) -> str:
    """Return a sentence without case, punctuation and spaces.

    A line of nothing but punctuation loses only its spaces and controls.
    """
    if "&" in line:
        line = html.unescape(line)
    if not line.isascii():
        line = unicodedata.normalize("NFKC", line)
    folded = line.casefold()
    if not folded.isascii():
        folded = unicodedata.normalize("NFKC", folded)
    bare = folded.translate(_characters)
    return bare or "".join(mark for mark in folded if unicodedata.category(mark)[0] not in "ZC")


def sentence_keys(lines: Iterable[str]) -> Keys:
    """Return a key of each bare sentence, [lines]; 0 for lines without text."""
    return np.fromiter(map(_key, lines), np.uint64)


def keys_by_unit(source: Keys, target: Keys) -> dict[str, Keys]:
    """Return keys by unit, each in the shape of `source` and `target`; 0 where text is missing."""
    pair = np.where((source == 0) | (target == 0), np.uint64(0), source * _MIXER + target)
    return {"source": source, "target": target, "pair": pair}


@dataclass
class HeldOut:
    """The sentences of valid or a test split, and which of them occur in the training text."""

    # keys of the source, of all references, and of both, by unit, [references, pairs] each
    keys: dict[str, Keys]
    met: dict[str, NDArray[np.bool_]]  # whether each key has occurred, of the same shapes

    @classmethod
    def of(cls, source: Keys, targets: Sequence[Keys]) -> HeldOut:
        """Return the sentences of a split, given the keys of its source and references, [pairs]."""
        references = np.stack(targets)
        keys = keys_by_unit(np.broadcast_to(source, references.shape), references)
        return cls(keys, {unit: np.zeros(references.shape, np.bool_) for unit in keys})

    def meet(self, train: Mapping[str, Keys]) -> None:
        """Note which sentences occur in some training pairs, given as keys by unit, [pairs]."""
        for unit, keys in self.keys.items():
            self.met[unit] |= np.isin(keys, train[unit]) & (keys != 0)

    def counts(self) -> dict[str, int]:
        """Count the pairs whose source, whose target (any reference), or both have occurred."""
        return {unit: int(met.any(axis=0).sum()) for unit, met in self.met.items()}


def _key(line: str) -> int:
    bare = bare_sentence(line)
    if not bare:
        return 0
    digest = hashlib.blake2b(bare.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
