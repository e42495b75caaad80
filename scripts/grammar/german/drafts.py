"""Drafting clauses: given a verb, choose its objects, the place, the time and a denial.

The result is a `Clause`, which clauses.py can put into any word order.
"""

from __future__ import annotations

from dataclasses import replace

from scripts.grammar.german.clauses import (
    Clause,
    Mood,
    Parts,
    Role,
    Tense,
    copula_group,
    denial,
    nicht,
    verb_group,
)
from scripts.grammar.german.lexicon import (
    ADJECTIVES,
    CITIES,
    NOUNS,
    Adjective,
    Modal,
    Preposition,
    Verb,
    adjectives_for,
    nouns_of,
)
from scripts.grammar.german.phrases import DER, Nominal, NounPhrase, Pronoun, prepositional
from scripts.grammar.german.speaker import PLACE_DETERMINERS, Speaker
from scripts.grammar.german.verbs import (
    FREQUENCY,
    FUTURE_TIMES,
    GENEROUS,
    HABIT_TIMES,
    MIT,
    MODALS,
    NEVER,
    NOW_TIMES,
    PAST_TIMES,
    SIDES,
    SOCIABLE,
    VERBS,
)
from scripts.grammar.shared.names import NamePhrase
from scripts.grammar.shared.words import Phrase, Word, literal, pair, weave

IN = Preposition("in", "dative", "in")
INTO = Preposition("in", "accusative", "into")
TO = Preposition("zu", "dative", "to")
TO_CITY = Preposition("nach", "dative", "to")
FOR = Preposition("für", "accusative", "for")
WITHOUT = Preposition("ohne", "accusative", "without")

PERSONAL = tuple(a for a in ADJECTIVES if {"person", "adult"} & set(a.kinds.split()))

TENSES: dict[str, tuple[Tense, ...]] = {
    "habit": (*(Tense.PRESENT,) * 6, Tense.NOW, Tense.NOW, Tense.FUTURE, *(Tense.PAST,) * 6),
    "event": (Tense.PRESENT, Tense.FUTURE, *(Tense.PAST,) * 3),
    "mishap": (Tense.PRESENT, Tense.PAST, Tense.PAST),
    "state": (Tense.PRESENT, Tense.PRESENT, Tense.PAST),
}


def choose_mood(speaker: Speaker, verb: Verb) -> Mood:
    """Choose a tense or a modal verb that suits a verb."""
    if verb.aspect in ("habit", "event") and speaker.happens(0.25):
        return speaker.pick(MODALS)
    tense = speaker.pick(TENSES[verb.aspect])
    return tense if verb.participle else Tense.PRESENT


def draft(
    speaker: Speaker,
    verb: Verb,
    subject: Nominal,
    mood: Mood,
    *,
    given: Parts | None = None,
    is_inverted: bool = False,
    may_deny: bool = True,
    is_short: bool = False,
) -> Clause:
    """Fill in a clause.

    Args:
        speaker: makes the choices.
        verb: the verb, whose kinds the choices respect.
        subject: the subject of the verb.
        mood: tense or modal verb.
        given: parts already chosen, such as a question word.
        is_inverted: whether English needs an auxiliary before the subject.
        may_deny: whether nicht or kein is possible.
        is_short: whether to leave out all optional parts.
    """
    parts = dict(given or {})
    is_denied = may_deny and not given and _can_deny(subject, mood) and speaker.happens(0.15)
    _add_objects(speaker, verb, subject, parts, is_denied)
    _add_company(speaker, verb, subject, parts)
    _add_where(speaker, verb, parts, is_optional=not (is_denied or is_short))
    if not is_short or mood in (Tense.NOW, Tense.FUTURE):
        _add_when(speaker, verb, mood, parts, is_denied)
    if is_denied and denial(parts) is None:  # no kein among the objects
        parts[Role.DENIAL] = nicht()
    group = verb_group(verb, mood, subject.agreement, parts, is_inverted=is_inverted)
    return Clause(subject.phrase("nominative"), group, parts)


def predicative(
    speaker: Speaker, subject: Nominal, adjective: Adjective, *, is_past: bool = False
) -> Clause:
    """Describe a subject with an adjective."""
    parts: dict[Role, Phrase] = {}
    predicate = pair(adjective.german, "ADJ", adjective.english)
    if subject.is_definite and speaker.happens(0.15):
        parts[Role.DENIAL] = nicht()
    elif adjective.is_gradable and speaker.happens(0.3):
        predicate = pair("sehr", "ADV", "very") + predicate
    parts[Role.PREDICATE] = predicate
    group = copula_group(subject.agreement, parts, is_past=is_past)
    return Clause(subject.phrase("nominative"), group, parts)


def described(speaker: Speaker, *, is_asked: bool = False) -> Clause:
    """Describe somebody or something, in the present or the past."""
    is_past = speaker.happens(0.3)
    if speaker.happens(0.5):
        subject = speaker.subject("person", is_definite=True, is_asked=is_asked)
        if not isinstance(subject, NounPhrase):
            return predicative(speaker, subject, speaker.pick(PERSONAL), is_past=is_past)
        subject = replace(subject, adjective=None)
    else:
        noun = speaker.pick([n for n in NOUNS if adjectives_for(n)])
        subject = speaker.definite(noun, describe=0)
    adjective = speaker.pick(adjectives_for(subject.noun))
    return predicative(speaker, subject, adjective, is_past=is_past)


def random_clause(speaker: Speaker) -> Clause:
    """Make a clause with any verb."""
    verb = speaker.pick(VERBS)
    return draft(speaker, verb, speaker.subject(verb.subject), choose_mood(speaker, verb))


def place(speaker: Speaker, kinds: str) -> Phrase:
    """Say where something happens, at a place of one of the kinds."""
    kind = speaker.pick(kinds.split())
    if kind == "city":
        return prepositional(IN, NamePhrase(speaker.pick(CITIES)))
    side = None
    if kind in SIDES:
        kind, sides = SIDES[kind]
        side = speaker.pick(sides)
    noun = speaker.pick(nouns_of(kind))
    german, english = side or noun.at
    nominal = speaker.noun_phrase(noun, PLACE_DETERMINERS, describe=0.12, plural=0.0)
    return prepositional(Preposition(german, "dative", english), nominal)


def _can_deny(subject: Nominal, mood: Mood) -> bool:
    return subject.is_definite and not (isinstance(mood, Modal) and not mood.can_be_denied)


def _add_objects(
    speaker: Speaker, verb: Verb, subject: Nominal, parts: dict[Role, Phrase], is_denied: bool
) -> None:
    """Choose accusative, dative and prepositional objects unless they are given."""
    if verb.object and Role.OBJECT not in parts:
        choose = speaker.denied_object if is_denied else speaker.object
        nominal = choose(verb.object, subject)
        role = Role.PRONOUN if isinstance(nominal, Pronoun) else Role.OBJECT
        parts[role] = nominal.phrase("accusative")
    if verb.dative and not parts.keys() & {Role.RECEIVER, Role.PRONOUN}:
        _add_receiver(verb, speaker.object(verb.dative, subject, "dative"), parts)
    if verb.preposition and Role.ABOUT not in parts:
        parts[Role.ABOUT] = prepositional(
            verb.preposition, speaker.object(verb.about, subject, verb.preposition.case)
        )


def _add_receiver(verb: Verb, nominal: Nominal, parts: dict[Role, Phrase]) -> None:
    phrase = nominal.phrase("dative")
    if isinstance(nominal, Pronoun):  # gives him the book
        parts[Role.PRONOUN] = phrase
    elif verb.to_receiver:  # gives the book to the child
        to = Word("to", phrase.source[0].units)
        parts[Role.GOAL] = Phrase(phrase.source, (to, *phrase.target))
    else:
        parts[Role.RECEIVER] = phrase


def _add_company(speaker: Speaker, verb: Verb, subject: Nominal, parts: dict[Role, Phrase]) -> None:
    """Add a phrase with mit, ohne or für and a person."""
    if not speaker.happens(0.15):
        return
    if isinstance(subject, NounPhrase) and "person" not in subject.noun.kinds.split():
        return
    if verb.infinitive in GENEROUS:
        preposition = FOR
    elif verb.infinitive not in SOCIABLE and not verb.toward:
        return
    elif speaker.happens(0.8):
        preposition = MIT
    else:
        preposition = WITHOUT
    parts[Role.COMPANY] = prepositional(
        preposition, speaker.other_person(subject, preposition.case)
    )


def _add_where(
    speaker: Speaker, verb: Verb, parts: dict[Role, Phrase], *, is_optional: bool
) -> None:
    """Add a place or a direction."""
    if parts.keys() & {Role.PLACE, Role.DIRECTION}:
        return
    if verb.toward:
        parts[Role.DIRECTION] = _direction(speaker, speaker.pick(verb.toward.split()))
    elif verb.place and (verb.needs_place or (is_optional and speaker.happens(0.3))):
        parts[Role.PLACE] = place(speaker, verb.place)


def _add_when(
    speaker: Speaker, verb: Verb, mood: Mood, parts: dict[Role, Phrase], is_denied: bool
) -> None:
    """Add a time or a frequency if verb and tense allow it."""
    if verb.aspect == "state" or parts.keys() & {Role.TIME, Role.LIKING}:
        return
    if mood is Tense.NOW:
        parts[Role.TIME] = literal(speaker.pick(NOW_TIMES))
    elif mood is Tense.FUTURE or (isinstance(mood, Modal) and speaker.happens(0.3)):
        parts[Role.TIME] = literal(speaker.pick(FUTURE_TIMES))
    elif mood is Tense.PAST and speaker.happens(0.55):
        parts[Role.TIME] = _past_time(speaker)
    elif mood is Tense.PRESENT and not is_denied and verb.aspect != "event":
        if speaker.happens(0.3):
            parts[Role.FREQUENCY] = literal(speaker.pick((*FREQUENCY, NEVER)))
        elif verb.aspect == "habit" and speaker.happens(0.45):
            parts[Role.TIME] = literal(speaker.pick(HABIT_TIMES))


def _past_time(speaker: Speaker) -> Phrase:
    """Choose a past time; "vor zwei Tagen" changes its order to "two days ago"."""
    if not speaker.happens(0.15):
        return literal(speaker.pick(PAST_TIMES))
    ago = pair("vor", "ADP", "ago")
    span = speaker.number().phrase("dative", "m", True, "")
    unit = speaker.pick((("Tagen", "days"), ("Wochen", "weeks"), ("Monaten", "months")))
    span += pair(unit[0], "NOUN", unit[1])
    return weave([ago, span], [span, ago])


def _direction(speaker: Speaker, way: str) -> Phrase:
    """Say where a movement leads: nach Hause, nach Rom, ins Haus, zum Bahnhof."""
    if way == "hause":
        home = pair("Hause", "NOUN", "home")
        to = Word("nach", home.source[0].units, "ADP")
        return Phrase((to, *home.source), home.target)
    if way == "nach":
        return prepositional(TO_CITY, NamePhrase(speaker.pick(CITIES)))
    kinds = "inside" if way == "in" else "building shop station"
    noun = speaker.pick(nouns_of(kinds))
    if way == "in":
        nominal = speaker.noun_phrase(noun, PLACE_DETERMINERS, describe=0.12, plural=0.0)
        return prepositional(INTO, nominal)
    if speaker.happens(0.15):
        noun = speaker.pick(nouns_of("person"))
    nominal = speaker.noun_phrase(noun, (DER,), describe=0.12, plural=0.0)
    return prepositional(TO, nominal)
