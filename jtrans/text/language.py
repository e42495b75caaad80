"""Language tags, as given and in file names, and the scripts and common words of languages.

This suffices to notice text mostly in the wrong language, not to identify the language of a line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import langcodes
import regex
from langcodes.data_dicts import LIKELY_SUBTAGS
from langcodes.tag_parser import LanguageTagError

from jtrans.errors import ConfigError, name_hint, usage_error

# The scripts that `main_script` distinguishes: code in ISO 15924 -> name, as in Unicode.
_SCRIPTS = {
    "Arab": "Arabic", "Armn": "Armenian", "Bali": "Balinese", "Beng": "Bengali",
    "Cans": "Canadian_Aboriginal", "Cher": "Cherokee", "Copt": "Coptic", "Cyrl": "Cyrillic",
    "Deva": "Devanagari", "Ethi": "Ethiopic", "Geor": "Georgian", "Grek": "Greek",
    "Gujr": "Gujarati", "Guru": "Gurmukhi", "Hang": "Hangul", "Hans": "Han", "Hant": "Han",
    "Hani": "Han", "Hebr": "Hebrew", "Java": "Javanese", "Jpan": "Japanese", "Khmr": "Khmer",
    "Knda": "Kannada", "Kore": "Hangul", "Lana": "Tai_Tham", "Laoo": "Lao", "Latn": "Latin",
    "Mlym": "Malayalam", "Mong": "Mongolian", "Mtei": "Meetei_Mayek", "Mymr": "Myanmar",
    "Nkoo": "Nko", "Olck": "Ol_Chiki", "Orya": "Oriya", "Sinh": "Sinhala", "Syrc": "Syriac",
    "Taml": "Tamil", "Talu": "New_Tai_Lue", "Tavt": "Tai_Viet", "Telu": "Telugu",
    "Tfng": "Tifinagh", "Thaa": "Thaana", "Thai": "Thai", "Tibt": "Tibetan", "Yiii": "Yi",
}  # fmt: skip
_LETTERS = {name: rf"\p{{{name}}}" for name in _SCRIPTS.values() if name != "Japanese"}
_LETTERS["Japanese"] = r"\p{Hiragana}\p{Katakana}\p{Han}"
# Languages that are commonly written in several scripts.
_SEVERAL_SCRIPTS = frozenset(
    ["az", "bs", "iu", "kk", "ks", "ku", "mn", "nan",
     "pa", "sd", "sr", "tg", "tk", "tt", "ug", "uz"]
)  # fmt: skip
# Chinese text may quote some Japanese words; a third to two thirds of Japanese text is kana.
_LEAST_KANA = 0.1
# A line with at least this many letters should have one in its language's script.
_FEW_LETTERS = 5
# `main_script` reads at most this many characters of a line, and this many lines.
_LONGEST, _SAMPLE = 1000, 1000

# The members of the macrolanguage zh in ISO 639-3.
_CHINESE = frozenset(
    ["cdo", "cjy", "cmn", "cnp", "cpx", "csp", "czh", "czo", "gan",
     "hak", "hsn", "lzh", "mnp", "nan", "wuu", "yue", "zh"]
)  # fmt: skip

# Words that may follow the language in the name of a file: formats, states and sides of text.
_FILE_WORD = re.compile(
    r"(?:gz|xz|zst|bz2|zip|txt|text|utf-?8|sgm|sgml|xml|tsv|csv|json|jsonl|tmx|md|out|log|"
    r"tok|detok|tokeni[sz]ed|detokeni[sz]ed|raw|norm|clean|bpe|spm|sp|lc|tc|true|cased|lower|"
    r"ref|refs|reference|references|hyp|hyps|hypothesis|hypotheses|sys|system|output|best|"
    r"src|source|tgt|trg|target|dev|devtest|valid|test|train)?[0-9]*",
    re.IGNORECASE,
)
# Codes that are also English words, or common in file names: they count as languages only after a
# dot, or never.
_ENGLISH_WORDS = frozenset(
    ["am", "an", "as", "be", "he", "hi", "id",
     "in", "is", "it", "la", "lo", "my", "no", "or", "so", "to", "we"]
)  # fmt: skip
_NO_LANGUAGES = frozenset(["big", "for", "lab", "new"])
# Lower-case locales whose region is also the code of a language: they are not pairs of languages.
_COMMON_REGIONS = frozenset(["pt-br", "zh-tw"])
_DOUBTFUL = 2

_COMMON_WORDS = {
    "de": "der die das und ich nicht ist sie er es wir ein eine den dem zu mit auf für von",
    "en": "the and of to is was that it you he she we they have not with for this are my",
    "fr": "le la les des et est que je ne pas vous une il elle nous dans pour avec qui au",
    "es": "el los las que y es no en un una por con para se lo su del está como pero",
    "it": "il che non è di per una sono gli della con ma mi ho nel questo come anche lei si",
    "nl": "het een van ik je niet dat de is en op te zijn met voor hij ze maar aan er",
    "pt": "o os que não é uma para com em do da se por um eu ele mais como mas isso",
    "vi": "của và là không có được một những các cho người tôi này đã trong với đó khi để anh",
}


def base_language(language: str) -> str:
    """Return the language of a tag without script and region, as ISO 639-1 where it has a code.

    "pt" for "pt-BR" and "pt_BR", "ja" for "jpn", "de" for "ger", "ar" for "arb"; and "zh" for
    every Chinese language ("cmn", "yue"), which are written and segmented alike.
    """
    tag = _parse(language)
    if tag is None or tag.language is None:
        return re.split("[-_]", language.lower())[0]
    if tag.language in _CHINESE:
        return "zh"
    return langcodes.standardize_tag(tag.language, macro=True).split("-")[0]


def language_script(language: str) -> str | None:
    """Return the script a language is usually written in, or that its tag names ("sr-Latn").

    Returns:
        Its name, as `main_script` returns it; None if it is unknown or several are in use.
    """
    tag = _parse(language)
    if tag is None:
        return None
    tag = tag.prefer_macrolanguage()
    code, base = tag.script, tag.language
    if code is None and base not in _SEVERAL_SCRIPTS:
        if base in LIKELY_SUBTAGS:
            code = tag.maximize().script
        elif base in _CHINESE:
            code = "Hani"
    return _SCRIPTS.get(code or "")


def check_language(language: str) -> None:
    """Check a language tag: BCP 47 ("zh-Hans", "pt-BR"), ISO 639 or a locale ("zh_TW").

    Raises:
        ConfigError: it is not a language tag.
    """
    if _parse(language) is not None:
        return
    base, *rest = re.split("[-_]", language.lower())
    near = sorted(code for code in LIKELY_SUBTAGS if len(code) == len(base) == 2)
    is_base_good = bool(rest) and _parse(base) is not None
    hint = "use ISO 639 codes, with script or region if need be: de, en, zh, pt-BR, zh-Hant"
    raise ConfigError(
        f"{language} is not a language code",
        hint=hint if is_base_good else name_hint(base, near, hint),
        kind="config.unknown-language",
    )


def join_languages(languages: tuple[str, str]) -> str:
    """Return a pair as in `--languages`: ``de-en``, or ``en`` if both are the same text."""
    return "-".join(dict.fromkeys(languages))


def split_languages(pair: str) -> tuple[str, str]:
    """Split "de-en", "zh-Hans-en", "en-pt-BR" or "zh_TW-en" into source and target as written.

    Raises:
        ConfigError: they are not two languages, or there are several ways to split them.
    """
    parts = pair.split("-")
    splits = [("-".join(parts[:i]), "-".join(parts[i:])) for i in range(1, len(parts))]
    costs = {both: max(map(_strangeness, both)) for both in splits if all(map(_parse, both))}
    least = min(costs.values(), default=_DOUBTFUL)
    best = [both for both, cost in costs.items() if cost == least]
    if _parse(pair) is not None and _strangeness(pair) < least:
        problem = "is one language, not two"
    elif best and (len(best) > 1 or least == _DOUBTFUL):
        problem = f"may be {' or '.join(' and '.join(both) for both in best)}"
    elif best and best[0][0] != best[0][1]:
        return best[0]
    elif best:
        raise usage_error(
            f"--languages {pair} names one language twice, and its files would have one name",
            f"give one side and its files a region: --languages {best[0][0]}-{best[0][0]}_XX",
        )
    else:
        if not best and len(splits) == 1 and all(splits[0]):
            check_language(splits[0][0])
            check_language(splits[0][1])
        problem = "is not two languages joined by a hyphen"
    raise usage_error(
        f"--languages {pair} {problem}",
        "use the file extensions, source first, such as de-en or zh-Hans-en; "
        "write a region in capitals after an underscore: pt_BR-en",
    )


def language_of_file(path: str | Path) -> str | None:
    """Return the language that a file's name ends in, as written there; None if there is none.

    Endings for packing, format and kind of text, and numbers, are skipped: "zh" for
    ``test.zh.xz``, ``zh.txt``, ``ref.zh.0``, ``ref-zh.txt`` and ``news.en-zh.zh``, "zh-CN" for
    ``test.zh-CN``. A word in the middle of a name is not a language (``what.is.new.txt``), nor is
    either part of a pair (``news.en-zh.txt``).
    """
    parts = [part for part in Path(path).name.split(".") if part]
    while parts and _FILE_WORD.fullmatch(parts[-1]):
        parts.pop()
    if not parts or _is_file_language(parts[-1]):
        return parts[-1] if parts else None
    words = re.split("([-_])", parts[-1])
    while len(words) > 2 and _FILE_WORD.fullmatch(words[-1]):
        del words[-2:]
    for i in range(2, len(words), 2):
        ending = "".join(words[i:])
        if _is_file_language(ending) and ending.lower() not in _ENGLISH_WORDS:
            return None if _is_file_language(words[i - 2]) else ending
    return None


def main_script(lines: Iterable[str]) -> str | None:
    """Return the script of most letters in a sample of lines: "Latin", "Han", "Japanese", "Thai".

    Han with kana is "Japanese". None if there are no letters of a known script.
    """
    characters: Counter[str] = Counter()
    for line in islice(lines, _SAMPLE):
        characters.update(line[:_LONGEST])
    counts: Counter[str | None] = Counter()
    for character, count in characters.items():
        counts[_script_of(character)] += count
    del counts[None]
    if counts["Kana"] > _LEAST_KANA * counts["Han"]:
        counts["Japanese"] = counts["Kana"] + counts.pop("Han")
    del counts["Kana"]
    return max(counts, key=lambda script: counts[script], default=None)


@cache
def _parse(language: str) -> langcodes.Language | None:
    """Read a tag; None if it is not well-formed, or has an unknown part."""
    plain = re.sub(r"\.utf-?8$", "", language, flags=re.IGNORECASE)
    try:
        tag = langcodes.Language.get(plain)
    except LanguageTagError:
        return None
    if not re.match("[A-Za-z]{2,3}([-_]|$)", plain) or tag.language in (None, "mul", "zxx"):
        return None
    # codes of three letters are not checked: ISO 639-3 grows by some languages each year
    known = tag if len(tag.language) == 2 else langcodes.Language.get(f"en{tag.to_tag()[3:]}")
    return tag if known.is_valid() else None


def _strangeness(language: str) -> int:
    """Judge how unusual a valid tag is as written: "pt-BR" 0, "pt-br" and "PT" 1, "en-fr" 2."""
    base, *rest = re.split("[-_]", language.split(".")[0])
    strange = int(base != base.lower())
    for part in rest:
        if len(part) == 2 and part != part.upper():
            is_language = part in LIKELY_SUBTAGS and part != base.lower()
            is_common = f"{base}-{part}".lower() in _COMMON_REGIONS
            strange = max(strange, _DOUBTFUL if is_language and not is_common else 1)
    return strange


def _is_file_language(part: str) -> bool:
    """Return whether a part of a file's name is a language, and unlikely to be anything else."""
    tag = _parse(part)
    if tag is None or tag.language is None or _strangeness(part) >= _DOUBTFUL:
        return False
    is_known = base_language(part) in LIKELY_SUBTAGS
    return is_known and part.lower() not in _NO_LANGUAGES


@cache
def _script_of(character: str) -> str | None:
    """Return the script of a letter, "Kana" for hiragana and katakana; None if it is unknown."""
    if regex.match(r"[\p{Hiragana}\p{Katakana}]", character):
        return "Kana"
    names = (name for name, letters in _LETTERS.items() if regex.match(f"[{letters}]", character))
    return next(names, None)


@cache
def _own_letter(language: str) -> Any:
    script = language_script(language)
    return None if script is None else regex.compile(f"[{_LETTERS[script]}]")


def is_wrong_script(line: str, language: str) -> bool:
    """Return whether a line has letters, but none of the script its language is written in."""
    letter = _own_letter(language)
    if letter is None or letter.search(line):
        return False
    return sum(character.isalpha() for character in line) >= _FEW_LETTERS


def look_swapped(source: Sequence[str], target: Sequence[str], languages: tuple[str, str]) -> bool:
    """Return whether each of two samples of lines looks like the other's language."""
    samples = [line.lower() for line in source], [line.lower() for line in target]
    return all(
        _likeness(sample, wrong) > 2 * _likeness(sample, right) + len(sample) / 10
        for sample, right, wrong in zip(samples, languages, languages[::-1], strict=True)
    )


def _likeness(lines: Sequence[str], language: str) -> int:
    """Count the lines that may be in a language, by its common words or else by its script."""
    words = _COMMON_WORDS.get(base_language(language))
    if words is None:
        letter = _own_letter(language)
        return 0 if letter is None else sum(bool(letter.search(line)) for line in lines)
    common = frozenset(words.split())
    return sum(not common.isdisjoint(line.split()) for line in lines)
