"""Language codes, scripts and the most common words of some languages.

Enough to notice text largely in the wrong language, not to identify the language of a line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from jtrans.errors import ConfigError, name_hint

# ISO 639-1, all of it
_ALL_CODES = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs "
    "cu cv cy da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha "
    "he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn "
    "ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb "
    "nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd "
    "se sg sh si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt "
    "tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu "
)
CODES = frozenset(_ALL_CODES.split())

_SCRIPTS = {
    "latin": "A-Za-z\u00aa\u00ba\u00c0-\u02af\u1e00-\u1eff\uff21-\uff3a\uff41-\uff5a",
    "han": "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f",
    "japanese": "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff",
    "hangul": "\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3",
    "cyrillic": "\u0400-\u052f",
    "greek": "\u0370-\u03ff\u1f00-\u1fff",
    "arabic": "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufeff",
    "hebrew": "\u0590-\u05ff",
    "devanagari": "\u0900-\u097f",
    "bengali": "\u0980-\u09ff",
    "gujarati": "\u0a80-\u0aff",
    "tamil": "\u0b80-\u0bff",
    "telugu": "\u0c00-\u0c7f",
    "kannada": "\u0c80-\u0cff",
    "malayalam": "\u0d00-\u0d7f",
    "thai": "\u0e00-\u0e7f",
    "lao": "\u0e80-\u0eff",
    "burmese": "\u1000-\u109f",
    "georgian": "\u10a0-\u10ff\u1c90-\u1cbf",
    "ethiopic": "\u1200-\u137f",
    "khmer": "\u1780-\u17ff",
    "armenian": "\u0530-\u058f",
}
_LANGUAGES = {
    "latin": "af ca cs cy da de en eo es et eu fi fr ga gl hr ht hu id is it la lb lt lv ms mt nb "
    "nl nn no pl pt ro sk sl so sq sv sw tl tr vi",
    "han": "zh", "japanese": "ja", "hangul": "ko", "cyrillic": "be bg mk ru uk", "greek": "el",
    "arabic": "ar fa ps ur", "hebrew": "he yi", "devanagari": "hi mr ne sa", "bengali": "as bn",
    "gujarati": "gu", "tamil": "ta", "telugu": "te", "kannada": "kn", "malayalam": "ml",
    "thai": "th", "lao": "lo", "burmese": "my", "georgian": "ka", "ethiopic": "am ti",
    "khmer": "km", "armenian": "hy",
}  # fmt: skip
# A line with at least this many letters should have one in its language's script.
_FEW_LETTERS = 5

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
    """Return "pt" for "pt-BR" and "pt_BR"."""
    return re.split("[-_]", language.lower())[0]


def check_language(language: str) -> None:
    """Check a language code: ISO 639-1, or three letters as in ISO 639-3.

    Raises:
        ConfigError: it is not a language code.
    """
    base = base_language(language)
    if base in CODES or re.fullmatch("[a-z]{3}", base):
        return
    near = sorted(CODES) if len(base) == 2 else ()
    raise ConfigError(
        f"{language} is not a language code",
        hint=name_hint(base, near, "use ISO 639 codes, such as de, en, zh"),
        kind="config.unknown-language",
    )


@cache
def _own_letter(language: str) -> re.Pattern[str] | None:
    for script, languages in _LANGUAGES.items():
        if base_language(language) in languages.split():
            return re.compile(f"[{_SCRIPTS[script]}]")
    return None


def is_wrong_script(line: str, language: str) -> bool:
    """Return whether a line has letters, but none of the script its language is written in."""
    own = _own_letter(language)
    if own is None or own.search(line):
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
        own = _own_letter(language)
        return 0 if own is None else sum(bool(own.search(line)) for line in lines)
    common = frozenset(words.split())
    return sum(not common.isdisjoint(line.split()) for line in lines)
