"""German clauses: verb forms, and the word order of both languages.

A clause holds its parts by role. German puts the finite verb first, second or last, and
participles, infinitives and separable particles at the end; English keeps subject, verb, object
and adds "do" where it must. The two orders of the remaining parts are GERMAN_MIDDLE and
ENGLISH_AFTER.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum, auto

from scripts.grammar.german.forms import HABEN, SEIN, WAR, present
from scripts.grammar.german.lexicon import Modal, Verb
from scripts.grammar.shared.english import (
    Agreement,
    english_be,
    english_past,
    english_present,
    english_progressive,
    english_was,
)
from scripts.grammar.shared.words import (
    NOTHING,
    English,
    Phrase,
    Unit,
    Units,
    Word,
    english_words,
    fuse,
    pair,
    weave,
)


class Tense(Enum):
    """The time of a clause without modal verb; German has fewer forms for it than English."""

    PRESENT = auto()
    NOW = auto()  # liest jetzt: is reading now
    FUTURE = auto()  # liest morgen: will read tomorrow
    PAST = auto()  # hat gelesen: read


Mood = Tense | Modal


class Role(IntEnum):  # integers are hashed much faster than plain members
    """The part a phrase plays in its clause."""

    PRONOUN = auto()  # an object that is a pronoun
    TIME = auto()
    FREQUENCY = auto()
    LIKING = auto()  # gern
    RECEIVER = auto()  # tells the child a story
    GOAL = auto()  # gives the book to the child
    OBJECT = auto()
    DENIAL = auto()  # nicht
    ABOUT = auto()  # waits for the train
    COMPANY = auto()  # with a friend
    PLACE = auto()
    DIRECTION = auto()
    PREDICATE = auto()  # is tired
    CAUSE = auto()  # why; always in front


GERMAN_MIDDLE = (
    Role.PRONOUN,
    Role.TIME,
    Role.FREQUENCY,
    Role.LIKING,
    Role.RECEIVER,
    Role.GOAL,
    Role.OBJECT,
    Role.DENIAL,
    Role.ABOUT,
    Role.COMPANY,
    Role.PLACE,
    Role.DIRECTION,
    Role.PREDICATE,
)
ENGLISH_AFTER = (  # adverbs and "not" are missing: they stand within the verb group
    Role.PREDICATE,
    Role.PRONOUN,
    Role.RECEIVER,
    Role.OBJECT,
    Role.GOAL,
    Role.ABOUT,
    Role.DIRECTION,
    Role.COMPANY,
    Role.PLACE,
    Role.TIME,
)
Parts = Mapping[Role, Phrase]


@dataclass(frozen=True)
class VerbGroup:
    """The verbs of a clause: German finite and closing word, English auxiliary and the rest."""

    finite: Word
    auxiliary: tuple[Word, ...]
    rest: tuple[Word, ...]
    particle: Word | None = None
    closing: Word | None = None  # participle or infinitive

    def in_main(self) -> tuple[Phrase, Phrase]:
        """Return the German finite verb, and the words that close a main clause."""
        last = self.closing or self.particle
        return Phrase((self.finite,)), Phrase((last,) if last else ())

    def at_end(self) -> Phrase:
        """Return the German verbs as they close a subordinate clause."""
        if self.closing:
            return Phrase((self.closing, self.finite))
        return Phrase((fuse(self.particle, self.finite) if self.particle else self.finite,))


@dataclass(frozen=True)
class Clause:
    """A subject, its verbs, and the other parts by role."""

    subject: Phrase
    verb: VerbGroup
    parts: Parts

    def middle(self, without: Role | None = None) -> list[Phrase]:
        """Return the parts between the German verbs, in order."""
        return [self.parts[r] for r in GERMAN_MIDDLE if r in self.parts and r is not without]

    def after(self, without: Role | None = None) -> list[Phrase]:
        """Return the parts after the English verb, in order."""
        return [self.parts[r] for r in ENGLISH_AFTER if r in self.parts and r is not without]


ADVERBIAL = (Role.TIME, Role.PLACE)


def statement(clause: Clause, front: Role | None = None) -> Phrase:
    """Order a main clause; the finite verb stays second whatever is put in front."""
    finite, closing = clause.verb.in_main()
    english = Phrase(target=clause.verb.auxiliary + clause.verb.rest)
    first = clause.parts[front] if front else clause.subject
    source = [first, finite, *([clause.subject] if front else []), *clause.middle(front), closing]
    target = [clause.subject, english, *clause.after()]
    if front in ADVERBIAL:  # English fronts it, too, but leaves a fronted object in place
        target = [first, clause.subject, english, *clause.after(front)]
    return weave(source, target)


def after_clause(clause: Clause) -> Phrase:
    """Order a main clause after a subordinate one, which counts as its first element."""
    finite, closing = clause.verb.in_main()
    english = Phrase(target=clause.verb.auxiliary + clause.verb.rest)
    return weave(
        [finite, clause.subject, *clause.middle(), closing],
        [clause.subject, english, *clause.after()],
    )


def question(clause: Clause, front: Role | None = None) -> Phrase:
    """Order a question: verb first, or after the question word that plays the role `front`."""
    finite, closing = clause.verb.in_main()
    first = clause.parts[front] if front else NOTHING
    auxiliary, rest = Phrase(target=clause.verb.auxiliary), Phrase(target=clause.verb.rest)
    return weave(
        [first, finite, clause.subject, *clause.middle(front), closing],
        [first, auxiliary, clause.subject, rest, *clause.after(front)],
    )


def subordinate(clause: Clause, front: Role | None = None) -> Phrase:
    """Order a clause with the verb last; a relative object comes first in both languages."""
    first = clause.parts[front] if front else NOTHING
    english = Phrase(target=clause.verb.auxiliary + clause.verb.rest)
    return weave(
        [first, clause.subject, *clause.middle(front), clause.verb.at_end()],
        [first, clause.subject, english, *clause.after(front)],
    )


def verb_group(
    verb: Verb, mood: Mood, agreement: Agreement, parts: Parts, *, is_inverted: bool = False
) -> VerbGroup:
    """Inflect a verb; `parts` has the denial and adverbs, which English puts inside the group."""
    meaning, helper = (Unit(),), (Unit(),)
    negation = denial(parts)
    needs_auxiliary = is_inverted or negation is not None
    particle = Word(verb.particle, meaning, "ADP") if verb.particle else None
    row = agreement.row
    if isinstance(mood, Modal):
        finite = Word(mood.present[row], helper, "AUX")
        closing = Word(verb.particle + verb.base, meaning, "VERB")
        english = _modal_english(mood, agreement, needs_auxiliary, helper)
        english = english[0], english[1] + english_words(verb.english, meaning)
    elif mood is Tense.PAST:
        forms = SEIN if verb.participle.startswith("ist ") else HABEN
        finite = Word(forms[row], helper, "AUX")
        closing = Word(verb.participle.removeprefix("ist "), meaning, "VERB")
        english = _past_english(verb, needs_auxiliary, helper, meaning)
    else:
        finite = Word(present(verb, row), meaning, "VERB")
        closing = None
        english = _present_english(verb, mood, agreement, needs_auxiliary, meaning)
        if Role.LIKING in parts:  # isst gern: likes to eat
            like = parts[Role.LIKING].source[0].units
            english = _liking_english(verb, agreement, needs_auxiliary, meaning, like)
    return VerbGroup(
        finite, *_with_adverbs(english, parts, negation), None if closing else particle, closing
    )


def copula_group(agreement: Agreement, parts: Parts, *, is_past: bool = False) -> VerbGroup:
    """Inflect to be, which is its own auxiliary in English."""
    unit = (Unit(),)
    forms, english = (WAR, english_was) if is_past else (SEIN, english_be)
    words = english_words(english(agreement), unit), ()
    finite = Word(forms[agreement.row], unit, "AUX")
    return VerbGroup(finite, *_with_adverbs(words, parts, denial(parts)))


def _is_third(agreement: Agreement) -> bool:
    return agreement.person == 3 and not agreement.is_plural


def _present_english(
    verb: Verb, mood: Tense, agreement: Agreement, needs_auxiliary: bool, units: Units
) -> English:
    if mood is Tense.NOW:
        return (
            english_words(english_be(agreement), units),
            english_words(english_progressive(verb.english), units),
        )
    if mood is Tense.FUTURE:
        return english_words("will", units), english_words(verb.english, units)
    if needs_auxiliary:
        do = english_present("do", _is_third(agreement))
        return english_words(do, units), english_words(verb.english, units)
    return (), english_words(english_present(verb.english, _is_third(agreement)), units)


def _liking_english(
    verb: Verb, agreement: Agreement, needs_auxiliary: bool, meaning: Units, like: Units
) -> English:
    do = english_present("do", _is_third(agreement)) if needs_auxiliary else ""
    is_third = _is_third(agreement) and not needs_auxiliary
    likes = english_words(english_present("like to", is_third), like)
    return english_words(do, meaning), likes + english_words(verb.english, meaning)


def _past_english(verb: Verb, needs_auxiliary: bool, helper: Units, meaning: Units) -> English:
    if needs_auxiliary:
        return english_words("did", helper), english_words(verb.english, meaning)
    return (), english_words(verb.past or english_past(verb.english), helper + meaning)


def _modal_english(
    modal: Modal, agreement: Agreement, needs_auxiliary: bool, units: Units
) -> English:
    if modal.is_auxiliary:
        first, _, rest = modal.english.partition(" ")
        return english_words(first, units), english_words(rest, units)
    if needs_auxiliary:
        do = english_present("do", _is_third(agreement))
        return english_words(do, units), english_words(modal.english, units)
    return (), english_words(english_present(modal.english, _is_third(agreement)), units)


def denial(parts: Parts) -> Unit | None:
    """Return the unit of nicht or kein, if a clause is denied."""
    if Role.DENIAL in parts:
        return parts[Role.DENIAL].source[0].units[0]
    first = parts[Role.OBJECT].source[0] if Role.OBJECT in parts else None
    is_kein = first is not None and first.tag == "DET" and first.text.startswith("kein")
    return first.units[0] if first and is_kein else None


def _with_adverbs(english: English, parts: Parts, negation: Unit | None) -> English:
    """Put "not" after the auxiliary, and "often" or "always" before the rest."""
    auxiliary, rest = english
    if negation:
        negative = Word("not", (negation,))
        is_can = auxiliary[-1].text == "can"
        auxiliary = (
            (*auxiliary[:-1], fuse(auxiliary[-1], negative)) if is_can else (*auxiliary, negative)
        )
    adverb = parts[Role.FREQUENCY].target if Role.FREQUENCY in parts else ()
    return auxiliary, adverb + rest


def nicht() -> Phrase:
    """Make nicht, whose English is part of the verb group."""
    return pair("nicht", "PART", "")
