"""Raw text to token ids and back, as one saved object.

    line -> normalise -> segment -> lower-case or truecase -> BPE -> ids           encode
    ids  -> tokens -> undo BPE -> words -> restore capitals -> detokenise -> line       decode

It is saved in every prepared corpus and in every run, so that training, translation and
analysis can never disagree about segmentation.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from random import Random
from typing import Any

from jtrans.errors import CorpusError, JtransError, wrong_format
from jtrans.files import read_json, text_digest, write_json
from jtrans.text.bpe import MARK, Bpe, check_codes
from jtrans.text.normalise import normalise
from jtrans.text.segment import SEGMENTERS, Segmenter, resolve_segmenter, units_per_word
from jtrans.text.truecase import Truecaser
from jtrans.text.vocabulary import EOS, PAD, Vocabulary
from jtrans.text.widths import narrowed

FORMAT = 1
_KINDS: dict[str, type | tuple[type, ...]] = {
    "language": str,
    "segmenter": str,
    "lowercase": bool,
    "codes": (str, type(None)),
}
_FLAGS = ("strip_invisible", "protect", "spell", "narrow")
# Entries that are saved only if they are used: pipelines without them keep their fingerprint.
_OPTIONAL_KINDS: dict[str, type | tuple[type, ...]] = {
    "truecase": (list, type(None)),
    "dictionary": (str, type(None)),
    **dict.fromkeys(_FLAGS, (bool, type(None))),
    "spaces": (list, type(None)),
}


@dataclass(frozen=True)
class TextSide:
    """One language of a pipeline.

    It is cheap to create and to send to another process: segmenter and BPE are built on first use.
    During preparation `segment` works before there are codes and a vocabulary;
    `dataclasses.replace` adds them.
    """

    language: str  # ISO code, such as "de"
    # a name of `segment.SEGMENTERS`; "auto" is replaced with the language's default
    segmenter: str = "auto"
    lowercase: bool = False  # whether words are lower-cased after segmentation
    codes: str | None = None  # the text of a BPE codes file; None for whole words
    # the tokens and their ids
    vocabulary: Vocabulary = field(default_factory=lambda: Vocabulary.build({}))
    # how the first words of sentences are written; None leaves case alone
    truecaser: Truecaser | None = None
    # extra words for the segmenter, as the text of a jieba user dictionary
    dictionary: str | None = None
    # whether characters that cannot be seen are removed (`normalise`)
    strip_invisible: bool = False
    protect: bool = False  # whether addresses, times and the like stay in one piece
    # whether BPE pieces that are not in the vocabulary are split into smaller ones
    spell: bool = False
    # whether full-width letters, digits and signs become ASCII (`widths`)
    narrow: bool = False
    # where jieba writes spaces (`spacing`)
    spaces: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        name = resolve_segmenter(self.segmenter, self.language)
        object.__setattr__(self, "segmenter", name)

    def __getstate__(self) -> dict[str, Any]:
        # what is built on first use (compiled expressions, caches) need not, or cannot, be pickled
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @property
    def units_per_word(self) -> int:
        """The rough number of units that stand for one English word."""
        return units_per_word(self.segmenter, self.language)

    def bare(self) -> TextSide:
        """Return the side as it was before anything was learned."""
        return replace(self, codes=None, vocabulary=Vocabulary.build({}), truecaser=None, spaces=())

    def segment(self, line: str) -> list[str]:
        """Split a raw line into words, before BPE."""
        segmenter = self._segmenter
        if segmenter.is_for_raw_text:
            line = self.normalise(line)
        return self.recase(segmenter.segment(line))

    def normalise(self, line: str) -> str:
        """Return a raw line in its normal form, without differences that have no meaning."""
        line = narrowed(line, self.language) if self.narrow else line
        return normalise(line, strip_invisible=self.strip_invisible)

    def recase(self, words: list[str]) -> list[str]:
        """Lower-case or truecase segmented words, as configured."""
        if self.lowercase:
            return [word.lower() for word in words]
        return self.truecaser.apply(words) if self.truecaser else words

    def surfaces(self, words: Sequence[str]) -> list[str]:
        """Return the characters of the raw line that each word stands for, without white space."""
        if self.segmenter == "moses-escaped":
            return [html.unescape(word) for word in words]
        if self.segmenter in ("character", "unspaced"):
            return [{"▁": "", "▁▁": "▁"}.get(word, word) for word in words]
        return list(words)

    def split(self, words: Iterable[str]) -> list[str]:
        """Split words, as `segment` returned them, into BPE pieces."""
        return self._bpe.pieces(words) if self._bpe else list(words)

    def draw(self, word: str, rate: float, random: Random) -> tuple[str, ...]:
        """Split a word into known pieces with randomly dropped merges (BPE-dropout)."""
        if self._bpe is None:
            return (word,)
        return self._bpe.draw(word, rate, random, self.vocabulary.known)

    def pieces(self, line: str) -> list[str]:
        """Split a raw line into BPE pieces ("@@" marks all but the last of a word)."""
        return self.split(self.segment(line))

    def encode(self, line: str) -> list[int]:
        """Turn a raw line into ids, ending in EOS."""
        return self.encode_pieces(self.pieces(line))

    def encode_pieces(self, pieces: Iterable[str]) -> list[int]:
        """Turn pieces into ids, ending in EOS."""
        return [*self.vocabulary.ids(pieces), EOS]

    def words(self, ids: Iterable[int]) -> list[str]:
        """Turn ids into words, with BPE undone, up to the first EOS; PAD is skipped."""
        text = takewhile(lambda token_id: token_id != EOS, ids)
        return self.merge([self.vocabulary.token(int(i)) for i in text if i != PAD])

    def merge(self, pieces: Sequence[str]) -> list[str]:
        """Undo `split`: merge pieces into words."""
        return self._bpe.undo(pieces) if self._bpe else list(pieces)

    def is_inner(self, piece: str) -> bool:
        """Return whether more pieces of its word follow a piece."""
        return self.codes is not None and piece.endswith(MARK)

    def join(self, words: Sequence[str]) -> str:
        """Join words into a raw line: restore capitals, detokenise."""
        return self._segmenter.join(self.truecaser.restore(words) if self.truecaser else words)

    def decode(self, ids: Iterable[int]) -> str:
        """Turn ids into a raw line."""
        return self.join(self.words(ids))

    def to_json(self) -> dict[str, Any]:
        """Return the side as plain values for JSON."""
        value = {name: getattr(self, name) for name in _KINDS}
        value["vocabulary"] = self.vocabulary.to_json()
        if self.truecaser is not None:
            value["truecase"] = self.truecaser.small
        if self.dictionary is not None:
            value["dictionary"] = self.dictionary
        if self.spaces:
            value["spaces"] = list(self.spaces)
        return value | {name: True for name in _FLAGS if getattr(self, name)}

    @classmethod
    def from_json(cls, value: Any) -> TextSide:
        """Rebuild a side from the value of `to_json`.

        Raises:
            CorpusError: an entry is missing or of the wrong type.
        """
        entries = value if isinstance(value, dict) else {}
        for name, kind in (_KINDS | _OPTIONAL_KINDS).items():
            if not isinstance(entries.get(name, 0 if name in _KINDS else None), kind):
                fault = f"a text side has no usable {name!r} entry"
                raise CorpusError(fault, kind="corpus.pipeline")
        if value["codes"] is not None:
            check_codes(value["codes"])
        small = value.get("truecase")
        flags: dict[str, Any] = {name: bool(value.get(name)) for name in _FLAGS}
        return cls(
            **{name: value[name] for name in _KINDS},
            vocabulary=Vocabulary.from_json(value.get("vocabulary")),
            truecaser=None if small is None else Truecaser([str(word) for word in small]),
            dictionary=value.get("dictionary"),
            spaces=tuple(map(str, value.get("spaces") or ())),
            **flags,
        )

    @cached_property
    def _segmenter(self) -> Segmenter:
        return SEGMENTERS[self.segmenter](
            self.language, self.dictionary, self.spaces, protect=self.protect
        )

    @cached_property
    def _bpe(self) -> Bpe | None:
        if self.codes is None:
            return None
        return Bpe(self.codes, self.vocabulary.known if self.spell else None)


@dataclass(frozen=True)
class TextPipeline:
    """Both languages of a corpus or run."""

    source: TextSide
    target: TextSide

    @classmethod
    def whitespace(
        cls,
        source_language: str,
        target_language: str,
        source_vocabulary: Vocabulary,
        target_vocabulary: Vocabulary,
        codes: str | None = None,
    ) -> TextPipeline:
        """Make the pipeline of an imported run, whose words are separated by spaces.

        `codes` is the text of the BPE codes file shared by both sides; None when lines are
        already split into pieces, or for whole words.
        """
        return cls(
            TextSide(source_language, "whitespace", False, codes, source_vocabulary),
            TextSide(target_language, "whitespace", False, codes, target_vocabulary),
        )

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        return self.source.language, self.target.language

    @property
    def vocabulary_sizes(self) -> tuple[int, int]:
        """Source and target tokens: the sizes that a model is built for."""
        return len(self.source.vocabulary), len(self.target.vocabulary)

    def to_json(self) -> dict[str, Any]:
        """Return the pipeline as plain values for JSON, always in the same order."""
        sides = {"source": self.source.to_json(), "target": self.target.to_json()}
        return {"format": FORMAT, **sides}

    def fingerprint(self) -> str:
        """Return the sha256 of the pipeline's JSON: equal only for equal pipelines."""
        return text_digest(json.dumps(self.to_json(), sort_keys=True, ensure_ascii=True))

    def save(self, path: Path) -> None:
        """Write the pipeline as JSON."""
        write_json(path, self.to_json())

    @classmethod
    def load(cls, path: Path) -> TextPipeline:
        """Read a saved pipeline.

        Raises:
            CorpusError: the file is missing, damaged or of an unknown format version.
        """
        hint = "recreate it: jtrans prepare for a corpus, jtrans train or jtrans import for a run"
        try:
            return cls._from_json(read_json(path))
        except JtransError as error:
            where = None if str(path) in error.message else str(path)
            raise CorpusError(
                error.message, where=where, hint=error.hint or hint, kind=error.kind
            ) from error

    @classmethod
    def _from_json(cls, value: Any) -> TextPipeline:
        version = value.get("format") if isinstance(value, dict) else None
        if version != FORMAT or isinstance(version, bool):
            message = wrong_format("this pipeline", version, FORMAT)
            raise CorpusError(message, kind="corpus.format")
        return cls(TextSide.from_json(value.get("source")), TextSide.from_json(value.get("target")))
