"""The tokens of a model; the id of a token is its position in one list.

Specials come first, then tokens by descending frequency, then filler up to a multiple of eight,
which suits matrix products. Order and filler follow fairseq, so that the sizes equal those of
published vocabularies.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jtrans.errors import CorpusError

PAD, EOS, UNK, SPARE = 0, 1, 2, 3
MULTIPLE = 8  # filler rounds the size up to a multiple of this
SPECIALS = ("<pad>", "</s>", "<unk>", "<s>")
_FILLER = re.compile("madeupword[0-9]{4,}")


@dataclass(frozen=True)
class Vocabulary:
    """Maps tokens to ids and back.

    A word of a text never becomes a special or filler: the text ``</s>`` is an unknown word, not
    the end of the sentence.

    Raises:
        CorpusError: the specials are missing, or the numbers of tokens and counts differ.
    """

    tokens: list[str]  # all tokens, the four specials first; the id of a token is its position
    counts: list[int]  # how often each occurs in the training data; 0 for specials and filler

    def __post_init__(self) -> None:
        if tuple(self.tokens[: len(SPECIALS)]) != SPECIALS:
            raise CorpusError(
                f"a vocabulary must begin with {' '.join(SPECIALS)}, "
                f"this one begins with {' '.join(self.tokens[: len(SPECIALS)]) or 'nothing'}",
                kind="corpus.vocabulary",
            )
        if len(self.tokens) != len(self.counts):
            raise CorpusError(
                f"a vocabulary of {len(self.tokens)} tokens has {len(self.counts)} counts",
                kind="corpus.vocabulary",
            )

    @classmethod
    def build(cls, counts: Mapping[str, int], *, min_count: int = 1) -> Vocabulary:
        """Build the vocabulary of a training text.

        Args:
            counts: how often each token occurs; specials among them are left out.
            min_count: rarer tokens are left out and become ``<unk>``.

        Returns:
            Tokens by descending count, ties sorted as strings.
        """
        words = [
            token for token, count in counts.items() if count >= min_count and token not in SPECIALS
        ]
        words.sort(key=lambda token: (-counts[token], token))
        taken = set(words)
        names = (f"madeupword{number:04d}" for number in itertools.count())
        unused = (name for name in names if name not in taken)
        filler = list(itertools.islice(unused, -(len(SPECIALS) + len(words)) % MULTIPLE))
        seen = [0] * len(SPECIALS) + [counts[token] for token in words] + [0] * len(filler)
        return cls([*SPECIALS, *words, *filler], seen)

    def __len__(self) -> int:
        return len(self.tokens)

    def ids(self, pieces: Iterable[str]) -> list[int]:
        """Return the ids of a text's pieces; UNK for unknown pieces, specials and filler."""
        get = self._ids.get
        return [get(piece, UNK) for piece in pieces]

    @property
    def known(self) -> Container[str]:
        """The pieces that have an id of their own."""
        return self._ids

    @cached_property
    def filler(self) -> Sequence[int]:
        """The ids that stand for no word of any text."""
        tokens = list(enumerate(self.tokens))[len(SPECIALS) :]
        return [
            i for i, token in tokens if not self.counts[i] and _FILLER.fullmatch(token) is not None
        ]

    def token(self, token_id: int) -> str:
        """Return the token with this id."""
        return self.tokens[token_id]

    def to_json(self) -> dict[str, Any]:
        """Return the vocabulary as plain values for JSON."""
        return {"tokens": self.tokens, "counts": self.counts}

    @classmethod
    def from_json(cls, value: Any) -> Vocabulary:
        """Rebuild a vocabulary from the value of `to_json`.

        Raises:
            CorpusError: the value is not a vocabulary.
        """
        lists = []
        for name, kind in (("tokens", str), ("counts", int)):
            items = value.get(name) if isinstance(value, dict) else None
            if not isinstance(items, list) or not all(type(item) is kind for item in items):
                raise CorpusError(
                    "a vocabulary needs a list of tokens and a list of counts",
                    kind="corpus.vocabulary",
                )
            lists.append(items)
        return cls(*lists)

    @cached_property
    def _ids(self) -> dict[str, int]:
        # Specials and filler are left out, see the class. Where a token is listed twice (as in
        # some published dictionaries), the later entry wins, as in fairseq.
        left_out = {*range(len(SPECIALS)), *self.filler}
        return {token: i for i, token in enumerate(self.tokens) if i not in left_out}
