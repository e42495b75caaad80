"""Lines to words and back: one small class for each segmentation method.

`join` undoes `segment`: exactly, up to repeated spaces, for `Whitespace` and `Character`, while
`Moses` and `Jieba` restore spaces by rules, with the losses listed below. A second round trip
changes nothing more.
"""

from __future__ import annotations

import functools
import logging
import unicodedata
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from jtrans.errors import ConfigError, name_hint
from jtrans.text.detokenise import Repairs
from jtrans.text.language import base_language
from jtrans.text.moses import CachedMoses


class Segmenter(ABC):
    """Splits lines of one language into words.

    `is_for_raw_text` says whether lines should be normalised first; `dictionary` holds extra
    words for jieba; other segmenters ignore it.
    """

    is_for_raw_text: ClassVar[bool] = True

    def __init__(self, language: str, dictionary: str | None = None) -> None:
        self.language = base_language(language)
        self.dictionary = dictionary

    @abstractmethod
    def segment(self, line: str) -> list[str]:
        """Split a line into words; none is empty or contains white space."""

    @abstractmethod
    def join(self, words: Sequence[str]) -> str:
        """Join words into a line."""


class Moses(Segmenter):
    """The tokeniser of most published systems (the same words as sacremoses), without escapes.

    Not restored: a space before ``, . ! ? ) %`` or a missing one after them; the direction of
    unpaired quotes; spaces around ``& # * + = < > — ...`` and inside quotes (``A&M`` comes back as
    ``A & M``, ``black / white`` as ``black/white``): code and markup lose much. Of the lines of
    Multi30k and Tatoeba 99.7 to 100 % come back unchanged (de, en, fr), of news 93 to 98 %
    (`scripts/bench/round_trip.py`).
    """

    _is_exact: ClassVar[bool] = False

    def __init__(self, language: str, dictionary: str | None = None) -> None:
        from sacremoses import MosesDetokenizer

        super().__init__(language, dictionary)
        self._tokenizer = CachedMoses(
            self.language, escape=self._is_exact, splits_last_stop=self._is_exact
        )
        self._detokenizer: Any = MosesDetokenizer(self.language)
        self._repairs = Repairs(self.language)

    def segment(self, line: str) -> list[str]:
        """Split a line into words and punctuation."""
        return self._tokenizer.tokenize(line)

    def join(self, words: Sequence[str]) -> str:
        """Join words as detokenizer.perl does, and repair the spaces it leaves (`Repairs`)."""
        return self._repairs.apply(self._detokenizer.detokenize(words, unescape=self._is_exact))


class MosesEscaped(Moses):
    """Moses exactly, with its default HTML escapes (``&apos;``), as in the published IWSLT14 text.

    Unlike sacremoses, tokenizer.perl separates a full stop at the end of a line from any word
    before it, even from an abbreviation; it matters where lines must match published text.
    Joining is not affected.

    Also not restored: the difference between ``&amp;`` and ``&`` in the raw text.
    """

    _is_exact: ClassVar[bool] = True


class Jieba(Segmenter):
    """Chinese words (jieba); letters and digits of other scripts stay together.

    Not restored: spaces next to a Chinese character or to punctuation (Chinese has none).
    Spaces between two words or numbers of a script that uses spaces are.
    """

    def __init__(self, language: str, dictionary: str | None = None) -> None:
        super().__init__(language, dictionary)
        self._cut = _jieba_tokenizer(dictionary).lcut

    def segment(self, line: str) -> list[str]:
        """Split a line into words."""
        words: list[str] = []
        follows_space = True
        for piece in self._cut(line):
            if piece.isspace():
                follows_space = True
            elif not follows_space and _is_spaced(words[-1][-1]) and _is_spaced(piece[0]):
                words[-1] += piece  # jieba splits "Müller" at the ü
            else:
                words.append(piece)
                follows_space = False
        return words

    def join(self, words: Sequence[str]) -> str:
        """Join words, with spaces only between two words that are not Chinese."""
        line = ""
        for word in words:
            if line and word and _is_spaced(line[-1]) and _is_spaced(word[0]):
                line += " "
            line += word
        return line


class Whitespace(Segmenter):
    """Already segmented text: words are separated by white space and left as they are."""

    is_for_raw_text: ClassVar[bool] = False

    def segment(self, line: str) -> list[str]:
        """Split a line at white space."""
        return line.split()

    def join(self, words: Sequence[str]) -> str:
        """Join words with single spaces."""
        return " ".join(words)


class Character(Segmenter):
    """Single characters; a space is the word ``▁`` and a real ``▁`` is ``▁▁``."""

    _words: ClassVar[dict[str, str]] = {" ": "▁", "▁": "▁▁"}
    _characters: ClassVar[dict[str, str]] = {"▁": " ", "▁▁": "▁"}

    def segment(self, line: str) -> list[str]:
        """Split a normalised line into characters."""
        return [self._words.get(character, character) for character in line]

    def join(self, words: Sequence[str]) -> str:
        """Join characters."""
        return "".join(self._characters.get(word, word) for word in words)


SEGMENTERS: dict[str, type[Segmenter]] = {
    "moses": Moses,
    "moses-escaped": MosesEscaped,
    "jieba": Jieba,
    "whitespace": Whitespace,
    "character": Character,
}


def resolve_segmenter(name: str, language: str) -> str:
    """Check a segmenter's name, and replace "auto" with the default: jieba for zh, else moses.

    Raises:
        ConfigError: there is no such segmenter.
    """
    if name == "auto":
        return "jieba" if base_language(language) == "zh" else "moses"
    if name not in SEGMENTERS:
        valid = ["auto", *SEGMENTERS]
        raise ConfigError(
            f"no such segmenter: {name}",
            hint=name_hint(name, valid, f"valid are {', '.join(valid)}"),
            kind="config.unknown-segmenter",
        )
    return name


def make_segmenter(name: str, language: str, dictionary: str | None = None) -> Segmenter:
    """Build a segmenter by name ("auto" included).

    Args:
        name: a name of `SEGMENTERS`.
        language: ISO code.
        dictionary: extra words for jieba, as the text of a user dictionary.

    Raises:
        ConfigError: there is no such segmenter, or the dictionary has a malformed line.
    """
    return SEGMENTERS[resolve_segmenter(name, language)](language, dictionary)


def _is_spaced(character: str) -> bool:
    """Return whether a character belongs to a script with spaces between words."""
    if character.isascii():
        return character.isalnum()
    wide = unicodedata.east_asian_width(character) in ("W", "F")
    return not wide and (character.isalnum() or unicodedata.category(character)[0] == "M")


@functools.cache
def _jieba_tokenizer(dictionary: str | None) -> Any:
    """Load jieba's dictionary, once in each process (half a second, 100 MB).

    It is loaded here because jieba itself would log to stderr, and write and trust a file of
    marshalled code in the system's temporary folder, where anyone can write.

    Raises:
        ConfigError: a line of the user's dictionary is malformed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jieba's deprecated escapes and imports
        import jieba
    jieba.setLogLevel(logging.WARNING)
    tokenizer = jieba.Tokenizer()
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
    tokenizer.initialized = True
    for number, line in enumerate((dictionary or "").splitlines(), start=1):
        if line.strip():
            tokenizer.add_word(*_dictionary_entry(line, number))
    return tokenizer


def _dictionary_entry(line: str, number: int) -> tuple[str, int | None]:
    """Return word and frequency of a line "WORD [FREQUENCY] [PART-OF-SPEECH]"."""
    word, *rest = line.split()
    if len(rest) > 2 or (len(rest) == 2 and not rest[0].isdecimal()):
        raise ConfigError(
            f"not a line of a jieba dictionary: {line.strip()[:60]!r}",
            where=f"line {number}",
            hint="a line is a word, then optionally its frequency and part of speech: 云计算 5 n",
            kind="config.dictionary",
        )
    return word, int(rest[0]) if rest and rest[0].isdecimal() else None
