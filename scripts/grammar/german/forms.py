"""German declension and conjugation.

Everything here maps a lexicon entry and its features to one string; word order and translation
are elsewhere.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from scripts.grammar.german.lexicon import Adjective, CaseName, Gender, Noun, Verb

Declension = Literal["weak", "mixed", "strong"]

# Endings by case, in the columns masculine, feminine, neuter, plural.
COLUMNS = "mfnp"
ARTICLE: dict[CaseName, tuple[str, ...]] = {
    "nominative": ("der", "die", "das", "die"),
    "accusative": ("den", "die", "das", "die"),
    "dative": ("dem", "der", "dem", "den"),
}
DER_ENDINGS: dict[CaseName, tuple[str, ...]] = {
    "nominative": ("er", "e", "es", "e"),
    "accusative": ("en", "e", "es", "e"),
    "dative": ("em", "er", "em", "en"),
}
EIN_ENDINGS: dict[CaseName, tuple[str, ...]] = {
    "nominative": ("", "e", "", "e"),
    "accusative": ("en", "e", "", "e"),
    "dative": ("em", "er", "em", "en"),
}
ADJECTIVE_ENDINGS: dict[Declension, dict[CaseName, tuple[str, ...]]] = {
    "weak": {  # after der, dieser, jeder
        "nominative": ("e", "e", "e", "en"),
        "accusative": ("en", "e", "e", "en"),
        "dative": ("en", "en", "en", "en"),
    },
    "mixed": {  # after ein, kein, mein
        "nominative": ("er", "e", "es", "en"),
        "accusative": ("en", "e", "es", "en"),
        "dative": ("en", "en", "en", "en"),
    },
    "strong": {  # after nothing, numbers, viele
        "nominative": ("er", "e", "es", "e"),
        "accusative": ("en", "e", "es", "e"),
        "dative": ("em", "er", "em", "en"),
    },
}
RELATIVE: dict[CaseName, tuple[str, ...]] = {**ARTICLE, "dative": ("dem", "der", "dem", "denen")}

SEIN = ("bin", "bist", "ist", "sind", "seid", "sind")
WAR = ("war", "warst", "war", "waren", "wart", "waren")
IRREGULAR_PRESENT = {"wissen": ("weiß", "weißt", "weiß", "wissen", "wisst", "wissen")}
HABEN = ("habe", "hast", "hat", "haben", "habt", "haben")


def article(case: CaseName, gender: Gender, is_plural: bool) -> str:
    """Return the definite article."""
    return ARTICLE[case][_column(gender, is_plural)]


def relative_pronoun(case: CaseName, gender: Gender, is_plural: bool) -> str:
    """Return the relative pronoun."""
    return RELATIVE[case][_column(gender, is_plural)]


def like_dieser(stem: str, case: CaseName, gender: Gender, is_plural: bool) -> str:
    """Decline dies-, jed- or welch-."""
    return stem + DER_ENDINGS[case][_column(gender, is_plural)]


def like_ein(stem: str, case: CaseName, gender: Gender, is_plural: bool) -> str:
    """Decline ein, kein or a possessive."""
    return stem + EIN_ENDINGS[case][_column(gender, is_plural)]


def adjective_form(
    adjective: Adjective, declension: Declension, case: CaseName, gender: Gender, is_plural: bool
) -> str:
    """Decline an adjective standing before its noun."""
    stem = adjective.stem or adjective.german
    return stem + ADJECTIVE_ENDINGS[declension][case][_column(gender, is_plural)]


def noun_form(noun: Noun, case: CaseName, is_plural: bool) -> str:
    """Decline a noun: weak masculines, and the n of the dative plural."""
    if is_plural:
        takes_n = case == "dative" and noun.plural[-1] not in "ns"
        return noun.plural + ("n" if takes_n else "")
    return noun.german + ("" if case == "nominative" else noun.oblique)


def english_noun(noun: Noun, is_plural: bool) -> str:
    """Return the English noun."""
    if not is_plural:
        return noun.english
    return noun.english_plural or noun.english + "s"


@cache
def present(verb: Verb, row: int) -> str:
    """Conjugate a German verb in the present, without its particle."""
    if verb.base in IRREGULAR_PRESENT:
        return IRREGULAR_PRESENT[verb.base][row]
    stem = verb.base[:-2] if verb.base.endswith("en") else verb.base[:-1]
    # arbeit-e-t, öffn-e-t: without the e they would be unpronounceable.
    linking = "e" if stem[-1] in "td" or stem.endswith(("ffn", "chn")) else ""
    er = verb.er or stem + linking + "t"
    changed = er.removesuffix("t")
    du = er if changed[-1] in "sßz" else changed + "st"
    return (stem + "e", du, er, verb.base, stem + linking + "t", verb.base)[row]


def _column(gender: Gender, is_plural: bool) -> int:
    return 3 if is_plural else COLUMNS.index(gender)
