"""Noun phrases of the German grammar, whose case is open until a verb or preposition gives it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol

from scripts.grammar.german.forms import (
    Declension,
    adjective_form,
    article,
    english_noun,
    like_dieser,
    like_ein,
    noun_form,
    relative_pronoun,
)
from scripts.grammar.german.lexicon import Adjective, CaseName, Gender, Noun, Preposition
from scripts.grammar.shared.english import Agreement, indefinite_article
from scripts.grammar.shared.names import Sayable
from scripts.grammar.shared.words import NOTHING, Phrase, fuse, literal, pair


def end(phrase: Phrase, mark: str) -> Phrase:
    """Add the final mark, which replaces a comma before it."""
    source = phrase.source[:-1] if phrase.source[-1].text == "," else phrase.source
    return Phrase(source, phrase.target) + pair(mark, "PUNCT", mark)


class Nominal(Sayable[CaseName], Protocol):
    """A subject or object, in any case."""

    @property
    def is_definite(self) -> bool:
        """Whether the listener knows who or what is meant; only then is `nicht` natural."""


@dataclass(frozen=True, eq=False)
class Determiner:
    """A determiner; `pattern` names the paradigm it follows."""

    stem: str
    english: str
    pattern: Literal["der", "dieser", "ein", "viele", "literal", "fixed", "none"]
    declension: Declension  # of an adjective after it
    english_plural: str = ""
    is_definite: bool = False
    tag: str = "DET"

    def phrase(self, case: CaseName, gender: Gender, is_plural: bool, following: str) -> Phrase:
        """Decline; `following` is the English word that comes next (a or an)."""
        if self.pattern == "none":
            return NOTHING
        english = self.english_plural if is_plural and self.english_plural else self.english
        if english == "a":
            english = indefinite_article(following)
        if self.pattern == "der":
            return pair(article(case, gender, is_plural), self.tag, english)
        if self.pattern == "dieser":
            return pair(like_dieser(self.stem, case, gender, is_plural), self.tag, english)
        if self.pattern == "ein":
            return pair(like_ein(self.stem, case, gender, is_plural), self.tag, english)
        if self.pattern == "viele":
            return pair(self.stem + ("n" if case == "dative" else ""), self.tag, english)
        if self.pattern == "literal":
            return literal(self.stem)
        return pair(self.stem, self.tag, english)


DER = Determiner("d", "the", "der", "weak", is_definite=True)
DIESER = Determiner("dies", "this", "dieser", "weak", "these", is_definite=True)
JEDER = Determiner("jed", "every", "dieser", "weak")
WELCHER = Determiner("welch", "which", "dieser", "weak")
EIN = Determiner("ein", "a", "ein", "mixed")
KEIN = Determiner("kein", "a", "ein", "mixed", "any")
KEIN_MASS = Determiner("kein", "any", "ein", "mixed")
MEIN = Determiner("mein", "my", "ein", "mixed", is_definite=True)
DEIN = Determiner("dein", "your", "ein", "mixed", is_definite=True)
SEIN = Determiner("sein", "his", "ein", "mixed", is_definite=True)
UNSER = Determiner("unser", "our", "ein", "mixed", is_definite=True)
VIELE = Determiner("viele", "many", "viele", "strong")
WIE_VIELE = Determiner("wie/ADV/how viele/DET/many", "how many", "literal", "strong")
ZERO = Determiner("", "", "none", "strong")


def number(german: str, english: str) -> Determiner:
    """Make a determiner of a number above one."""
    return Determiner(german, english, "fixed", "strong", tag="NUM")


@dataclass(frozen=True)
class NounPhrase:
    """Determiner, adjective, noun, and a phrase after the noun."""

    noun: Noun
    determiner: Determiner = DER
    adjective: Adjective | None = None
    is_plural: bool = False
    after: Phrase = NOTHING

    @property
    def agreement(self) -> Agreement:
        """Third person, singular or plural."""
        return Agreement(3, self.is_plural)

    @property
    def is_definite(self) -> bool:
        """Whether the determiner is definite."""
        return self.determiner.is_definite

    def phrase(self, case: CaseName) -> Phrase:
        """Return the words in a case."""
        gender = self.noun.gender
        english = english_noun(self.noun, self.is_plural)
        described = NOTHING
        if self.adjective:
            form = adjective_form(
                self.adjective, self.determiner.declension, case, gender, self.is_plural
            )
            described = pair(form, "ADJ", self.adjective.english)
        following = self.adjective.english if self.adjective else english
        noun = pair(noun_form(self.noun, case, self.is_plural), "NOUN", english)
        first = self.determiner.phrase(case, gender, self.is_plural, following)
        return first + described + noun + self.after


@dataclass(frozen=True)
class Pronoun:
    """A personal pronoun."""

    nominative: str
    accusative: str
    dative: str
    english: str
    english_object: str
    agreement: Agreement
    is_definite: bool = True

    def phrase(self, case: CaseName) -> Phrase:
        """Return the pronoun in a case."""
        german = {
            "nominative": self.nominative,
            "accusative": self.accusative,
            "dative": self.dative,
        }[case]
        english = self.english if case == "nominative" else self.english_object
        return pair(german, "PRON", english)


ICH = Pronoun("ich", "mich", "mir", "I", "me", Agreement(1))
DU = Pronoun("du", "dich", "dir", "you", "you", Agreement(2))
ER = Pronoun("er", "ihn", "ihm", "he", "him", Agreement(3))
SIE = Pronoun("sie", "sie", "ihr", "she", "her", Agreement(3))
WIR = Pronoun("wir", "uns", "uns", "we", "us", Agreement(1, True))
IHR = Pronoun("ihr", "euch", "euch", "you", "you", Agreement(2, True))
THEY = Pronoun("sie", "sie", "ihnen", "they", "them", Agreement(3, True))
WER = Pronoun("wer", "wen", "wem", "who", "whom", Agreement(3))
WAS = Pronoun("was", "was", "was", "what", "what", Agreement(3))


@dataclass(frozen=True)
class RelativePronoun:
    """The pronoun that begins a relative clause and stands for the noun before it."""

    head: NounPhrase
    is_definite: bool = True

    @property
    def agreement(self) -> Agreement:
        """The agreement of the noun it stands for."""
        return self.head.agreement

    def phrase(self, case: CaseName) -> Phrase:
        """Return der, die, das with who, whom or that."""
        german = relative_pronoun(case, self.head.noun.gender, self.head.is_plural)
        english = "that"
        if "person" in self.head.noun.kinds.split():
            english = "who" if case == "nominative" else "whom"
        return pair(german, "PRON", english)


CONTRACTIONS = {
    ("in", "dem"): "im",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
    ("in", "das"): "ins",
}


def prepositional(preposition: Preposition, nominal: Nominal) -> Phrase:
    """Put a preposition before a nominal, contracting it with a bare article."""
    before = pair(preposition.german, "ADP", preposition.english)
    phrase = nominal.phrase(preposition.case)
    first = phrase.source[0]
    is_article = isinstance(nominal, NounPhrase) and nominal.determiner is DER
    contracted = CONTRACTIONS.get((preposition.german, first.text)) if is_article else None
    if not contracted:
        return before + phrase
    joined = replace(fuse(before.source[0], first, contracted), tag="ADP")
    return Phrase((joined, *phrase.source[1:]), before.target + phrase.target)
