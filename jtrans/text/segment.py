"""Lines to words and back: one small class for each segmentation method.

`join` undoes `segment`: exactly, up to repeated spaces, for `Whitespace`, `Character` and
`Unspaced`, while `Moses` and `Jieba` restore spaces by rules, with the losses listed below. A
second round trip changes nothing more, except that `Moses` may move a space beside a quotation
mark.
"""

from __future__ import annotations

import functools
import logging
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import Any, ClassVar

import regex

from jtrans.digits import whole_number
from jtrans.errors import ConfigError, name_hint
from jtrans.text.detokenise import Repairs
from jtrans.text.language import base_language, language_script
from jtrans.text.moses import CachedMoses
from jtrans.text.protect import PROTECTED, SPACED, UNSPACED, hide, show
from jtrans.text.spacing import border, is_spaced

_MOST_TOGETHER = 2_000  # Chinese characters that jieba segments together
_LONG_RUN = re.compile(rf"([\u4e00-\u9fd5]{{{_MOST_TOGETHER}}})")


class Segmenter(ABC):
    """Splits lines of one language into words.

    `is_for_raw_text` says whether lines should be normalised first; `dictionary` holds extra
    words for jieba, `spaces` the borders at which it writes a space (`jtrans.text.spacing`); other
    segmenters ignore both. With `protect`, addresses, times and the like stay in one piece
    (`jtrans.text.protect`).
    """

    is_for_raw_text: ClassVar[bool] = True

    def __init__(
        self,
        language: str,
        dictionary: str | None = None,
        spaces: Collection[str] = (),
        *,
        protect: bool = False,
    ) -> None:
        self.language = base_language(language)
        self.dictionary = dictionary
        self.spaces = frozenset(spaces)
        self.protect = protect

    @abstractmethod
    def segment(self, line: str) -> list[str]:
        """Split a line into words; none is empty or contains white space."""

    @abstractmethod
    def join(self, words: Sequence[str]) -> str:
        """Join words into a line."""


class Moses(Segmenter):
    """The tokeniser of most published systems (the same words as sacremoses), without escapes.

    Not restored, except in protected strings: a space before ``, . ! ? ) %`` or a missing one after
    them; the direction of unpaired quotes; spaces around ``& # * + = < > — ...`` and inside quotes
    (``A&M`` comes back as ``A & M``, ``black / white`` as ``black/white``): code and markup lose
    much. Of the lines of Multi30k and Tatoeba 99.7 to 100 % come back unchanged (de, en, fr), of
    news 93 to 98 % (`scripts/bench/round_trip.py`).
    """

    _is_exact: ClassVar[bool] = False

    def __init__(self, language: str, *more: Any, protect: bool = False) -> None:
        from sacremoses import MosesDetokenizer

        super().__init__(language, *more, protect=protect and not self._is_exact)
        if not protect:  # pipelines without protected strings treat "deu" as another code than "de"
            self.language = re.split("[-_]", language.lower())[0]
        self._tokenizer = CachedMoses(
            self.language, escapes=self._is_exact, splits_last_stop=self._is_exact
        )
        self._detokenizer: Any = MosesDetokenizer(self.language)
        self._repairs = Repairs(self.language)

    def segment(self, line: str) -> list[str]:
        """Split a line into words and punctuation."""
        if not self.protect:
            return self._tokenizer.tokenize(line)
        line, strings = hide(line)
        words = self._tokenizer.tokenize(line)
        return [show(word, strings) for word in words] if strings else words

    def join(self, words: Sequence[str]) -> str:
        """Join words as detokenizer.perl does, and repair the spaces it leaves (`Repairs`)."""
        strings: list[str] = []
        if self.protect:
            line, strings = hide(" ".join(words))
            words = line.split(" ")
        line = self._detokenizer.detokenize(words, unescape=self._is_exact)
        repaired: str = self._repairs.apply(line)
        return show(repaired, strings)


class MosesEscaped(Moses):
    """Moses exactly, with its default HTML escapes (``&apos;``), as in the published IWSLT14 text.

    Exactly but for Finnish, Swedish, Catalan and Irish, and for scripts with a virama, where
    sacremoses lacks rules of tokenizer.perl. Unlike sacremoses, tokenizer.perl separates a full
    stop at the end of a line from any word before it, even from an abbreviation; it matters where
    lines must match published text. Joining is not affected.

    Also not restored: the difference between ``&amp;`` and ``&`` in the raw text.
    """

    _is_exact: ClassVar[bool] = True


class Jieba(Segmenter):
    """Chinese words (jieba); letters and digits of other scripts stay together.

    Spaces between two words or numbers of a script that uses spaces are restored, and those
    between a protected string (``C++``) and such a word. Beside a Chinese character or punctuation
    a space is written where the training text usually has one (`spaces`). Traditional characters
    and Cantonese are segmented, too, some of their words into single characters: most words of
    jieba's dictionary are in simplified characters.
    """

    def __init__(self, *arguments: Any, **flags: Any) -> None:
        super().__init__(*arguments, **flags)
        self._cut = _jieba_tokenizer(self.dictionary).lcut

    def segment(self, line: str) -> list[str]:
        """Split a line into words."""
        words: list[str] = []
        follows_space = True
        for piece in self._pieces(line):
            if piece.isspace():
                follows_space = True
            elif not follows_space and self._has_space(words[-1], piece):
                words[-1] += piece  # jieba splits "Müller" at the ü
            else:
                words.append(piece)
                follows_space = False
        return words

    def join(self, words: Sequence[str]) -> str:
        """Join words, with spaces between non-Chinese ones and where training text has them."""
        line = previous = ""
        for word in words:
            if previous and word:
                spaced = self._has_space(previous, word) or border(previous, word) in self.spaces
                line += " " if spaced else ""
            line += word
            previous = word or previous
        return line

    def _pieces(self, line: str) -> Iterator[str]:
        end = 0
        for match in PROTECTED.finditer(line) if self.protect else ():
            yield from self._cut_parts(line[end : match.start()])
            yield match.group()
            end = match.end()
        yield from self._cut_parts(line[end:])

    def _cut_parts(self, text: str) -> Iterator[str]:
        """Cut a text with jieba, whose time grows with the square of a run of characters."""
        for part in _LONG_RUN.split(text) if len(text) > _MOST_TOGETHER else (text,):
            yield from self._cut(part)

    def _has_space(self, left: str, right: str) -> bool:
        """Return whether there is a space between two words."""
        if self.protect:
            return self._is_word(left, -1) and self._is_word(right, 0)
        return is_spaced(left[-1]) and is_spaced(right[0])

    def _is_word(self, word: str, position: int) -> bool:
        if is_spaced(word[position]):
            return True
        return word[0] in "#@_" or (is_spaced(word[0]) and bool(PROTECTED.fullmatch(word)))


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


class Unspaced(Character):
    """Characters of scripts without spaces (Japanese, Thai, Khmer ...), and words of all others.

    Combining marks stay with their character, and a Tibetan syllable stays whole. A space is the
    word ``▁``, except between two words of scripts with spaces.
    """

    _TOKEN: ClassVar[Any] = regex.compile(
        rf" |[\p{{Tibetan}}&&[\p{{L}}\p{{M}}]]+[\u0f0b\u0f0c]?"
        rf"|{SPACED}+(?:['’.,-]{SPACED}+)*|\X(?<!\s)|[\S\s]",  # a cluster can end in a space
        regex.V1,
    )
    _PROTECTED_TOKEN: ClassVar[Any] = regex.compile(
        f"(?:{PROTECTED.pattern})|{_TOKEN.pattern}", regex.V1
    )
    _IS_SPACED: ClassVar[Any] = regex.compile(SPACED, regex.V1)

    def segment(self, line: str) -> list[str]:
        """Split a normalised line into words and characters."""
        words: list[str] = []
        has_space = False
        previous = ""
        for match in (self._PROTECTED_TOKEN if self.protect else self._TOKEN).finditer(line):
            token = match.group()
            if token == " ":
                has_space = True
                continue
            is_implied = self._has_space(previous, token)
            if is_implied and not has_space:
                words[-1] += token
            else:
                words += [self._words[" "]] if has_space and not is_implied else []
                words.append(self._words.get(token, token))
            previous, has_space = token, False
        return words

    def join(self, words: Sequence[str]) -> str:
        """Join words and characters."""
        line = ""
        for word in words:
            text = self._characters.get(word, word)
            line += f" {text}" if self._has_space(line, text) else text
        return line

    def _has_space(self, left: str, right: str) -> bool:
        """Return whether a space between two words is implied, not a word of its own."""
        ends = left[-1:], right[:1]
        return all(ends) and all(map(self._IS_SPACED.match, ends))


SEGMENTERS: dict[str, type[Segmenter]] = {
    "moses": Moses,
    "moses-escaped": MosesEscaped,
    "jieba": Jieba,
    "whitespace": Whitespace,
    "character": Character,
    "unspaced": Unspaced,
}
# The segmenters that ignore an option of text. As words, characters have no case to learn: a
# sentence would seem to begin after each full stop, as in "www.".
IGNORED_BY = {
    "truecase": ("character",),
    "strip_invisible": ("whitespace",),
    "narrow": ("whitespace",),
    "protect": ("character", "whitespace"),
}
_BY_SCRIPT: dict[str, str] = {"Han": "jieba"} | dict.fromkeys(
    ["Japanese", *re.findall(r"\\p\{(\w+)\}", UNSPACED)], "unspaced"
)


def has_spaces(language: str) -> bool:
    """Return whether a language is written with spaces between words."""
    return (language_script(language) or "") not in _BY_SCRIPT


def resolve_segmenter(name: str, language: str) -> str:
    """Check a segmenter's name, and replace "auto" with the default of the language's script.

    That is jieba for Chinese, unspaced for other scripts without spaces, and moses for all else.

    Raises:
        ConfigError: there is no such segmenter.
    """
    if name == "auto":
        return _BY_SCRIPT.get(language_script(language) or "", "moses")
    if name not in SEGMENTERS:
        valid = ["auto", *SEGMENTERS]
        raise ConfigError(
            f"no such segmenter: {name}",
            hint=name_hint(name, valid, f"valid are {', '.join(valid)}"),
            kind="config.unknown-segmenter",
        )
    return name


def units_per_word(segmenter: str, language: str) -> int:
    """Return the rough number of a segmenter's units that stand for one English word."""
    default = resolve_segmenter("auto", language)
    if segmenter not in ("character", "unspaced") or default == "jieba":
        return 1  # 1.2 to 1.6 Chinese characters
    if default == "unspaced":
        return 3  # in Japanese 2 to 3, in Thai and Burmese 3 to 4
    return 4 if segmenter == "character" else 1  # characters, spaces counted


def _import_jieba() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jieba's deprecated escapes and imports
        import jieba
    jieba.setLogLevel(logging.WARNING)
    return jieba


@functools.cache
def _jieba_tokenizer(dictionary: str | None) -> Any:
    """Load jieba's dictionary, once in each process (half a second, 100 MB).

    It is loaded here because jieba itself would log to stderr, and write and trust a file of
    marshalled code in the system's temporary folder, where anyone can write.

    Raises:
        ConfigError: a line of the user's dictionary is malformed.
    """
    tokenizer = _import_jieba().Tokenizer()
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
    tokenizer.initialized = True
    for number, line in enumerate((dictionary or "").splitlines(), start=1):
        if line.strip():
            tokenizer.add_word(*_dictionary_entry(line, number))
    return tokenizer


def useless_entries(dictionary: str) -> list[str]:
    """Return the entries of a user dictionary that jieba can never match, each with its line.

    jieba first cuts text at whatever is not Chinese, an ASCII letter or digit, or ``+#&._%-``.
    """
    blocks = _import_jieba().re_han_default
    useless = []
    for number, line in enumerate(dictionary.splitlines(), start=1):
        word, *rest = line.split() or [""]
        is_one_word = all(re.fullmatch("[0-9]+|[a-z]+", part) for part in rest)
        if word and not (is_one_word and blocks.fullmatch(word)):
            useless.append(f"line {number} ({line.strip()[:30]})")
    return useless


def _dictionary_entry(line: str, number: int) -> tuple[str, int | None]:
    """Return word and frequency of a line "WORD [FREQUENCY] [PART-OF-SPEECH]"."""
    word, *rest = line.split()
    frequency = whole_number(rest[0]) if rest else None
    is_huge = bool(rest) and rest[0].isdecimal() and frequency is None
    if is_huge or len(rest) > 2 or (len(rest) == 2 and frequency is None):
        raise ConfigError(
            f"not a line of a jieba dictionary: {line.strip()[:60]!r}",
            where=f"line {number}",
            hint="a line is a word, then optionally its frequency and part of speech: 云计算 5 n",
            kind="config.dictionary",
        )
    return word, frequency
