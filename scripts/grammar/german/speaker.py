"""The speaker: makes every random choice of the German grammar, guided by what makes sense.

It picks nouns a verb accepts, determiners a noun allows, times a tense allows, and fills in a
whole clause. The kinds of sentences are in rules.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from scripts.grammar.german.lexicon import NAMES, NUMBERS, CaseName, Noun, adjectives_for, nouns_of
from scripts.grammar.german.phrases import (
    DEIN,
    DER,
    DIESER,
    DU,
    EIN,
    ER,
    ICH,
    IHR,
    JEDER,
    KEIN,
    KEIN_MASS,
    MEIN,
    SEIN,
    SIE,
    THEY,
    UNSER,
    VIELE,
    WELCHER,
    WIR,
    ZERO,
    Determiner,
    Nominal,
    NounPhrase,
    Pronoun,
    number,
)
from scripts.grammar.shared.choices import Choices
from scripts.grammar.shared.names import Couple, NamePhrase

PRONOUNS = (ICH, DU, ER, SIE, WIR, IHR, THEY)
ASKED = (DU, DU, ER, SIE, IHR, THEY)  # without ich and wir: nobody asks what they do themselves
OWNERS = (MEIN, DEIN, UNSER)
SUBJECT_DETERMINERS = (*(DER,) * 11, DIESER, DIESER, EIN, EIN, JEDER, VIELE, ZERO)
OBJECT_DETERMINERS = (*(DER,) * 6, *(EIN,) * 5, DIESER, ZERO, ZERO, VIELE)
MASS_DETERMINERS = (DER, ZERO, KEIN_MASS, WELCHER)
PLACE_DETERMINERS = (*(DER,) * 9, EIN, DIESER)


class Speaker(Choices):
    """Chooses words."""

    # Noun phrases.

    def number(self) -> Determiner:
        """Choose a number, mostly as a word, sometimes in digits."""
        if self.happens(0.6):
            return number(*self.pick(NUMBERS))
        digits = str(3 + self.below(10))
        return number(digits, digits)

    def noun_phrase(
        self,
        noun: Noun,
        determiners: Sequence[Determiner] = OBJECT_DETERMINERS,
        *,
        describe: float = 0.3,
        plural: float = 0.3,
        owners: Sequence[Determiner] = OWNERS,
    ) -> NounPhrase:
        """Choose determiner, number and adjective for a noun.

        Args:
            noun: the noun.
            determiners: the determiners to choose from.
            describe: probability of an adjective.
            plural: probability of the plural after a determiner that has one.
            owners: possessives that may replace the determiner of a noun that can have an owner.
        """
        determiner = self._determiner(noun, determiners, owners)
        is_plural = noun.number == "count" and (
            determiner in (VIELE, ZERO)
            or determiner.tag == "NUM"
            or (determiner not in (EIN, JEDER) and self.happens(plural))
        )
        adjectives = adjectives_for(noun)
        adjective = self.pick(adjectives) if adjectives and self.happens(describe) else None
        return NounPhrase(noun, determiner, adjective, is_plural)

    def definite(self, noun: Noun, *, describe: float = 0.3) -> NounPhrase:
        """Make a definite noun phrase."""
        return self.noun_phrase(noun, (DER, DER, DER, DIESER), describe=describe)

    def counted(self, noun: Noun) -> NounPhrase:
        """Make a noun phrase with a number."""
        return self.noun_phrase(noun, (self.number(),), owners=())

    def person(self) -> Nominal:
        """Choose someone by name or by a definite noun."""
        if self.happens(0.4):
            return NamePhrase(self.pick(NAMES))
        return self.definite(self.pick(nouns_of("person")))

    def subject(self, kinds: str, *, is_definite: bool = False, is_asked: bool = False) -> Nominal:
        """Choose a subject; for people also a name, a pronoun or two people."""
        if "person" in kinds.split() and self.happens(0.5):
            if self.happens(0.45):
                return NamePhrase(self.pick(NAMES))
            if self.happens(0.85):
                return self.pick(ASKED if is_asked else PRONOUNS)
            return self._both()
        noun = self.pick(nouns_of(kinds))
        if is_definite or is_asked:
            return self.definite(noun)
        if noun.number == "count" and self.happens(0.06):
            return self.counted(noun)
        return self.noun_phrase(noun, SUBJECT_DETERMINERS, owners=(*OWNERS, SEIN))

    def _both(self) -> Couple[CaseName]:
        if self.happens(0.5):
            first, second = self.two(NAMES)
            return Couple(NamePhrase(first), NamePhrase(second), "und")
        one, other = self.two(nouns_of("person"))
        return Couple(NounPhrase(one), NounPhrase(other), "und")

    def _determiner(
        self, noun: Noun, determiners: Sequence[Determiner], owners: Sequence[Determiner]
    ) -> Determiner:
        can_be_owned = bool({"own", "goods"} & set(noun.kinds.split()))
        if owners and can_be_owned and self.happens(0.7 if noun.number == "single" else 0.15):
            return self.pick(owners)
        if noun.number == "single":
            return DER
        if noun.number == "mass":
            determiners = [d for d in determiners if d in MASS_DETERMINERS] or [DER]
        determiner = self.pick(determiners)
        is_unclear = noun.number == "count" and noun.plural == noun.german
        if determiner is ZERO and is_unclear:  # Kuchen: cake or cakes?
            return DER
        return determiner

    def object(self, kinds: str, subject: Nominal, case: CaseName = "accusative") -> Nominal:
        """Choose an object for the subject's action."""
        noun = self.pick(nouns_of(kinds))
        if "person" in noun.kinds.split():
            return self.other_person(subject, case)
        if noun.number == "count" and self.happens(0.08):
            return self.counted(noun)
        # "Das Mädchen sucht seinen Hut" would be her hat: sein only after a man.
        owners = (*OWNERS, SEIN, SEIN) if taken_up(subject) is ER else OWNERS
        return self.noun_phrase(noun, owners=owners)

    def denied_object(self, kinds: str, subject: Nominal) -> Nominal:
        """Choose an object of a denied verb: a definite one, or one with kein."""
        noun = self.pick(nouns_of(kinds))
        if "person" in noun.kinds.split():
            return self.other_person(subject, "accusative")
        if noun.number == "single" or self.happens(0.5):
            return self.definite(noun)
        return self.noun_phrase(noun, (KEIN_MASS if noun.number == "mass" else KEIN,), owners=())

    def other_person(self, subject: Nominal, case: CaseName) -> Nominal:
        """Choose a definite person who is not the subject."""
        person_of_subject = subject.agreement.person
        if self.happens(0.25):
            # In the accusative, sie only means her: them would look the same.
            pronouns = PRONOUNS if case == "dative" else PRONOUNS[:-1]
            return self.pick(
                [
                    p
                    for p in pronouns
                    if person_of_subject == 3 or p.agreement.person != person_of_subject
                ]
            )
        while True:
            person = self.person()
            if not _heads(person) & _heads(subject):
                return person


def taken_up(nominal: Nominal) -> Pronoun | None:
    """Return the pronoun that refers back to a person, if German and English agree on one."""
    if isinstance(nominal, Pronoun):
        return nominal
    if nominal.agreement.is_plural:
        return THEY
    if isinstance(nominal, NamePhrase):
        return ER if nominal.name.gender == "m" else SIE
    if isinstance(nominal, NounPhrase) and "person" in nominal.noun.kinds.split():
        return {"m": ER, "f": SIE}.get(nominal.noun.gender)
    return None


def _heads(nominal: object) -> set[str]:
    """Return the names and nouns a nominal is about."""
    if isinstance(nominal, Couple):
        return _heads(nominal.first) | _heads(nominal.second)
    if isinstance(nominal, NamePhrase):
        return {nominal.name.source}
    return {nominal.noun.german} if isinstance(nominal, NounPhrase) else set()
