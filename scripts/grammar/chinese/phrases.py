"""Noun phrases of the Chinese grammar: measure words, 的, and English articles.

A phrase is the `Phrase` of shared/words.py. Words that only English writes (the, a, is) share the
unit of the Chinese word they belong to, so that every English word is linked to something.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scripts.grammar.chinese.lexicon import Adjective, Noun, Place
from scripts.grammar.shared.english import Agreement, indefinite_article
from scripts.grammar.shared.names import NamePhrase, Sayable
from scripts.grammar.shared.words import NOTHING, Phrase, Unit, Word, english_words, pair

Part = Literal["subject", "object"]
ONE, MORE = Agreement(3), Agreement(3, True)
Nominal = Sayable[Part]


def silent(source: str, tag: str, owner: Phrase) -> Phrase:
    """Make a Chinese word that means what the English words of another phrase mean."""
    units = tuple(unit for word in owner.target for unit in word.units)
    return Phrase((Word(source, tuple(dict.fromkeys(units)), tag),))


def together(words: str, target: str) -> Phrase:
    """Make Chinese words, WORD/TAG with blanks between, that mean something only together."""
    units = (Unit(),)
    chinese = (word.split("/") for word in words.split())
    source = tuple(Word(text, units, tag) for text, tag in chinese)
    return Phrase(source, english_words(target, units))


def source_of(phrase: Phrase) -> Phrase:
    """Return the Chinese side."""
    return Phrase(phrase.source)


def target_of(phrase: Phrase) -> Phrase:
    """Return the English side."""
    return Phrase(target=phrase.target)


@dataclass(frozen=True, eq=False)
class Determiner:
    """A determiner of a noun; with `counts`, the noun's measure word follows it."""

    chinese: str
    english: str
    tag: str
    counts: bool = True
    is_plural: bool = False
    english_mass: str = ""  # the form for mass nouns: much


BARE = Determiner("", "the", "")
GENERIC = Determiner("", "", "", is_plural=True)  # apples, coffee
ONE_OF = Determiner("一", "a", "NUM")
THIS = Determiner("这", "this", "DET")
THAT = Determiner("那", "that", "DET")
EVERY = Determiner("每", "every", "DET")
WHICH = Determiner("哪", "which", "DET")
THESE = Determiner("这些", "these", "DET", counts=False, is_plural=True)
THOSE = Determiner("那些", "those", "DET", counts=False, is_plural=True)
SOME = Determiner("一些", "some", "NUM", counts=False, is_plural=True)
MANY = Determiner("很多", "many", "NUM", counts=False, is_plural=True, english_mass="a lot of")
HOW_MANY = Determiner("几", "how many", "NUM", is_plural=True)

# Measure words that remain words of their own after a demonstrative; all others make one word
# with what stands before them (这本, 三个), as the dictionaries of word segmenters have it.
APART = {"这": "只把", "那": "只把件块份", "每": "只把", "哪": "只把"}


def number(chinese: str, spelled: str) -> Determiner:
    """Make a determiner of a number above one."""
    return Determiner(chinese, spelled, "NUM", is_plural=True)


@dataclass(frozen=True, eq=False)
class NounPhrase:
    """Relative clause, owner, determiner, adjective, noun; English puts the clause at the end."""

    noun: Noun
    determiner: Determiner = BARE
    adjective: Adjective | None = None
    owner: Pronoun | NamePhrase | None = None
    relative: Phrase = NOTHING  # with its 的
    is_crowd: bool = False  # 孩子们

    @property
    def is_plural(self) -> bool:
        """Whether English uses the plural of the noun."""
        return (self.determiner.is_plural or self.is_crowd) and not self.noun.is_mass

    @property
    def agreement(self) -> Agreement:
        """Third person; the number is that of the bowls in bowls of rice."""
        is_counted = self.determiner.counts and self.determiner.chinese and self.noun.container
        return MORE if self.is_plural or (is_counted and self.determiner.is_plural) else ONE

    def phrase(self, part: Part) -> Phrase:
        """Return the words; they are the same as subject and object."""
        noun = self._noun()
        described = _adjective(self.adjective) if self.adjective else NOTHING
        before = self._determiner(described + target_of(noun), noun.source[0].units)
        if self.owner:
            before += self._owner()
        source = source_of(self.relative) + source_of(before + described + noun)
        return source + target_of(before + described + noun) + target_of(self.relative)

    def _noun(self) -> Phrase:
        singular, plural = self.noun.english, self.noun.plural or self.noun.english + "s"
        noun = pair(self.noun.chinese, "NOUN", plural if self.is_plural else singular)
        return noun + silent("们", "PART", noun) if self.is_crowd else noun

    def _determiner(self, following: Phrase, of_noun: tuple[Unit, ...]) -> Phrase:
        """Return the determiner, whose English depends on the English word that follows."""
        determiner = self.determiner
        if not determiner.chinese:
            article = "" if self.owner else determiner.english
            return Phrase(target=english_words(article, of_noun))
        spelled, measure = determiner.english, self.noun.measure
        if self.noun.is_mass and determiner.english_mass:
            spelled = determiner.english_mass
        if determiner.counts and self.noun.container:
            container = self.noun.container
            if determiner.is_plural:
                container += "es" if container.endswith("s") else "s"
            spelled += f" {container} of"
        elif spelled == "a":
            spelled = indefinite_article(following.target[0].text)
        if self.relative.source:  # hardly English: that book that I bought, three books that ...
            is_number = determiner.tag == "NUM" and determiner.is_plural
            spelled = "the " * is_number + spelled.replace("that", "the")
        if not determiner.counts:
            return pair(determiner.chinese, determiner.tag, spelled)
        if measure in APART.get(determiner.chinese, ""):
            first = pair(determiner.chinese, determiner.tag, spelled)
            return first + silent(measure, "NOUN", first)
        return pair(determiner.chinese + measure, determiner.tag, spelled)

    def _owner(self) -> Phrase:
        if isinstance(self.owner, Pronoun):
            owner = pair(self.owner.chinese, "PRON", self.owner.possessive)
            # 我妈妈 and 我年轻的朋友, but 我的书
            has_other = self.adjective is not None and not self.adjective.joins
            is_close = has_other or "kin" in self.noun.kinds.split()
            return owner if is_close else owner + silent("的", "PART", owner)
        if self.owner is None:
            return NOTHING
        return self.owner.phrase("subject") + pair("的", "PART", "'s")


def _adjective(adjective: Adjective) -> Phrase:
    described = pair(adjective.chinese, "ADJ", adjective.english)
    return described if adjective.joins else described + silent("的", "PART", described)


@dataclass(frozen=True, eq=False)
class Pronoun:
    """A personal or interrogative pronoun."""

    chinese: str
    subject: str
    object: str
    possessive: str
    agreement: Agreement

    def phrase(self, part: Part) -> Phrase:
        """Return the pronoun."""
        return pair(self.chinese, "PRON", self.subject if part == "subject" else self.object)


WO = Pronoun("我", "I", "me", "my", Agreement(1))
NI = Pronoun("你", "you", "you", "your", Agreement(2))
TA_HE = Pronoun("他", "he", "him", "his", ONE)
TA_SHE = Pronoun("她", "she", "her", "her", ONE)
WOMEN = Pronoun("我们", "we", "us", "our", Agreement(1, True))
NIMEN = Pronoun("你们", "you", "you", "your", Agreement(2, True))
TAMEN = Pronoun("他们", "they", "them", "their", MORE)
SHEI = Pronoun("谁", "who", "who", "whose", ONE)
SHENME = Pronoun("什么", "what", "what", "", ONE)


@dataclass(frozen=True, eq=False)
class Spelled:
    """A nominal whose words are already fixed."""

    words: Phrase
    agreement: Agreement = ONE

    def phrase(self, part: Part) -> Phrase:
        """Return the words."""
        return self.words


def place_phrase(place: Place) -> Phrase:
    """Say where: 在公园里, in the park."""
    where = pair("在", "ADP", place.at)
    localizer = silent(place.localizer, "ADP", where) if place.localizer else NOTHING
    return where + bare_place(place) + localizer


def place_as_subject(place: Place) -> Phrase:
    """Say where without 在, before 有: 公园里."""
    noun = bare_place(place)
    if not place.localizer:
        return Phrase(noun.source, english_words(place.at, noun.source[0].units) + noun.target)
    localizer = pair(place.localizer, "ADP", place.at)
    return Phrase(noun.source + localizer.source, localizer.target + noun.target)


def bare_place(place: Place) -> Phrase:
    """Name a place without saying that something is there."""
    return pair(place.chinese, "NOUN", place.english)
