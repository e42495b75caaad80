"""The speaker of Chinese: makes every random choice of the grammar, guided by what makes sense.

It picks nouns a verb accepts, determiners a situation allows, and people who differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from scripts.grammar.chinese.lexicon import (
    CITIES,
    COUNTRIES,
    NUMBERS,
    PEOPLE,
    Adjective,
    Noun,
    adjectives_for,
    nouns_of,
    places_of,
    spell_number,
)
from scripts.grammar.chinese.phrases import (
    BARE,
    EVERY,
    GENERIC,
    MANY,
    NI,
    NIMEN,
    ONE_OF,
    SOME,
    TA_HE,
    TA_SHE,
    TAMEN,
    THAT,
    THESE,
    THIS,
    THOSE,
    WO,
    WOMEN,
    Determiner,
    Nominal,
    NounPhrase,
    Part,
    Pronoun,
    number,
    place_phrase,
)
from scripts.grammar.chinese.verbs import PAST_TIMES
from scripts.grammar.shared.choices import Choices
from scripts.grammar.shared.names import Couple, NamePhrase
from scripts.grammar.shared.words import Phrase, literal, pair

PRONOUNS = (WO, NI, TA_HE, TA_SHE, WOMEN, NIMEN, TAMEN)
ASKED = (NI, NI, TA_HE, TA_SHE, NIMEN, TAMEN)
OWNERS = (WO, WO, NI, TA_HE, TA_SHE)
GENDERS = {
    **dict.fromkeys(("爸爸", "爷爷", "哥哥", "弟弟", "男孩", "老人"), TA_HE),
    **dict.fromkeys(("妈妈", "奶奶", "姐姐", "妹妹", "女孩"), TA_SHE),
}
SUBJECT_DETERMINERS = (*(BARE,) * 6, THIS, THIS, THAT, THAT, EVERY, MANY, THESE, THOSE)
HABIT_DETERMINERS = (*(GENERIC,) * 5, ONE_OF, ONE_OF, THIS, THAT, THESE, THOSE, MANY)
PAST_DETERMINERS = (*(ONE_OF,) * 5, THIS, THAT, THAT, MANY, SOME, SOME, THESE, THOSE)
KNOWN_DETERMINERS = (THIS, THIS, THAT, THAT, THESE, THOSE)
HAVE_DETERMINERS = (*(ONE_OF,) * 4, MANY, MANY, SOME)
DENIED_DETERMINERS = (*(GENERIC,) * 3, THIS, THAT, THESE)


class Speaker(Choices):
    """Chooses words."""

    # Noun phrases.

    def number(self) -> Determiner:
        """Choose a small number."""
        return number(*self.pick(NUMBERS))

    def noun_phrase(
        self, noun: Noun, determiners: Sequence[Determiner], *, describe: float = 0.3
    ) -> NounPhrase:
        """Choose a determiner or owner, and perhaps an adjective, for a noun."""
        kinds = noun.kinds.split()
        adjective = self.adjective(noun) if self.happens(describe) else None
        if "kin" in kinds:
            return NounPhrase(noun, BARE, None, self.owner())
        if ("own" in kinds and self.happens(0.5)) or ("goods" in kinds and self.happens(0.12)):
            owner = self.owner()
            return NounPhrase(
                noun, BARE, None if isinstance(owner, NamePhrase) else adjective, owner
            )
        determiner = self.pick(determiners)
        if determiner in (ONE_OF, MANY, SOME) and self.happens(0.3):
            determiner = self.number()
        if noun.is_mass and determiner in (THESE, THOSE, EVERY):
            determiner = THIS
        if adjective and (determiner is EVERY or adjective.english == "quiet"):
            adjective = None
        return NounPhrase(noun, determiner, adjective)

    def adjective(self, noun: Noun) -> Adjective | None:
        """Choose an adjective that can describe a noun, if there is any."""
        adjectives = adjectives_for(noun)
        return self.pick(adjectives) if adjectives else None

    def owner(self) -> Pronoun | NamePhrase:
        """Choose the owner of something."""
        return NamePhrase(self.pick(PEOPLE)) if self.happens(0.25) else self.pick(OWNERS)

    # People.

    def subject(self, *, is_asked: bool = False, is_definite: bool = False) -> Nominal:
        """Choose a subject: a name, a pronoun, a noun, or two people."""
        if self.happens(0.33):
            return NamePhrase(self.pick(PEOPLE))
        if self.happens(0.4):
            return self.pick(ASKED if is_asked else PRONOUNS)
        if self.happens(0.1):
            return self.couple()
        noun = self.pick(nouns_of("person"))
        if "crowd" in noun.kinds and self.happens(0.35) and noun.english in CROWDS:
            return NounPhrase(noun, BARE, is_crowd=True)
        if is_definite or is_asked:
            return self.noun_phrase(noun, (BARE, BARE, THIS, THAT), describe=0.2)
        return self.noun_phrase(noun, SUBJECT_DETERMINERS, describe=0.2)

    def couple(self) -> Couple[Part]:
        """Choose two people."""
        first, second = self.two(PEOPLE)
        return Couple(NamePhrase(first), NamePhrase(second), "和")

    def someone(self) -> tuple[Nominal, Pronoun]:
        """Choose a subject that a pronoun can refer back to, and the pronoun."""
        while True:
            subject = self.subject(is_definite=True)
            again = taken_up(subject)
            if again:
                return subject, again

    def other_person(self, subject: Nominal, kinds: str = "person") -> Nominal:
        """Choose someone who is not the subject."""
        mine = subject.agreement.person
        if kinds == "person" and self.happens(0.25):
            return self.pick([p for p in PRONOUNS if p is not subject and _may_meet(p, mine)])
        while True:
            if self.happens(0.4):
                person: Nominal = NamePhrase(self.pick(PEOPLE))
            else:
                noun = self.pick(nouns_of(kinds))
                person = self.noun_phrase(noun, (BARE, THIS, THAT, THAT), describe=0.15)
            if not _heads(person) & _heads(subject) and not _is_own(person, subject):
                return person

    # Places, times, amounts.

    def place(self, kinds: str) -> Phrase:
        """Say where something happens: at a place of one of the kinds, all equally likely."""
        places = [*places_of(kinds)]
        if "city" in kinds or "country" in kinds:
            names = [
                *(CITIES if "city" in kinds else ()),
                *(COUNTRIES if "country" in kinds else ()),
            ]
            if not places or self.happens(0.4):
                return pair("在", "ADP", "in") + NamePhrase(self.pick(names)).phrase("object")
        return place_phrase(self.pick(places))

    def past_time(self) -> Phrase:
        """Choose a past time."""
        if not self.happens(0.15):
            return literal(self.pick(PAST_TIMES))
        chinese, english = self.pick(NUMBERS)
        unit = self.pick((("天", "days"), ("年", "years")))
        return pair(chinese + unit[0], "NUM", f"{english} {unit[1]}") + pair("前", "ADP", "ago")

    def duration(self, *, is_long: bool) -> Phrase:
        """Choose how long something took."""
        chinese, english = self.pick(NUMBERS)
        if is_long:
            return pair(chinese + "年", "NUM", f"for {english} years")
        hours = pair("小时", "NOUN", "hours")
        count = pair(chinese + "个", "NUM", f"for {english}")
        return count + hours

    def big_number(self) -> tuple[str, str]:
        """Choose a number from 11 to 79."""
        return spell_number(self.pick(range(11, 80)))


CROWDS = frozenset({"child", "student"})


def taken_up(nominal: Nominal) -> Pronoun | None:
    """Return the pronoun that refers back to a person, if it is clear which."""
    if isinstance(nominal, Pronoun):
        return nominal
    if nominal.agreement.is_plural:
        return TAMEN
    if isinstance(nominal, NamePhrase):
        return TA_HE if nominal.name.gender == "m" else TA_SHE
    return GENDERS.get(nominal.noun.chinese) if isinstance(nominal, NounPhrase) else None


def _may_meet(pronoun: Pronoun, person: int) -> bool:
    """Return whether an object pronoun means someone other than a subject of this person."""
    return person == 3 or pronoun.agreement.person != person


def _is_own(person: Nominal, subject: Nominal) -> bool:
    """Return whether Chinese would say 自己的: Xiaoming visits Xiaoming's mother."""
    owner = person.owner if isinstance(person, NounPhrase) else None
    return isinstance(owner, NamePhrase) and bool(_heads(owner) & _heads(subject))


def _heads(nominal: object) -> set[str]:
    """Return the names and nouns a nominal is about."""
    if isinstance(nominal, Couple):
        return _heads(nominal.first) | _heads(nominal.second)
    if isinstance(nominal, NamePhrase):
        return {nominal.name.source}
    if isinstance(nominal, NounPhrase):
        owner = _heads(nominal.owner) if isinstance(nominal.owner, NamePhrase) else set()
        return {nominal.noun.chinese} | owner
    return set()
