"""Drafting Chinese clauses: given a verb, choose aspect, object, company, place and time."""

from __future__ import annotations

from collections.abc import Sequence

from scripts.grammar.chinese.clauses import Clause, Parts, Role, clause_of, copula_clause
from scripts.grammar.chinese.lexicon import (
    CITIES,
    COUNTRIES,
    FEELINGS,
    PLACES,
    Adjective,
    Noun,
    nouns_of,
    places_of,
)
from scripts.grammar.chinese.phrases import (
    GENERIC,
    ONE_OF,
    Determiner,
    Nominal,
    NounPhrase,
    bare_place,
    silent,
)
from scripts.grammar.chinese.speaker import (
    DENIED_DETERMINERS,
    HABIT_DETERMINERS,
    HAVE_DETERMINERS,
    KNOWN_DETERMINERS,
    PAST_DETERMINERS,
    Speaker,
)
from scripts.grammar.chinese.verbs import (
    FREQUENCY,
    FUTURE_TIMES,
    HABIT_TIMES,
    LANGUAGES,
    LIKE,
    MEANS,
    MODALS,
    NEVER,
    NOW_TIMES,
    SKILL,
    VERBS,
    WILL,
    Modal,
    Mood,
    Tense,
    Verb,
)
from scripts.grammar.shared.names import NamePhrase
from scripts.grammar.shared.words import NOTHING, Phrase, literal, pair

MOODS: dict[str, tuple[Mood, ...]] = {
    "activity": (
        *(Tense.PRESENT,) * 4,
        *(Tense.PROGRESSIVE,) * 2,
        *(Tense.PAST,) * 6,
        *(Tense.PERFECT,) * 2,
        *(WILL,) * 3,
        *MODALS,
    ),
    "achievement": (*(Tense.PAST,) * 5, WILL, WILL),
    "state": (Tense.PRESENT,),
    "motion": (Tense.PRESENT, *(Tense.PAST,) * 3, Tense.PERFECT, WILL, WILL, *MODALS[:5]),
    "sight": (*(Tense.PAST,) * 3, Tense.PERFECT, WILL, WILL, *MODALS[:5]),
}
# 很 only fills the place before an adjective; the others mean something.
PLAIN_DEGREE = "很"
DEGREES = ("非常/ADV/very", "非常/ADV/very", "特别/ADV/really", "十分/ADV/extremely")
A_LITTLE = "有点儿/ADV/a_little"
SOCIABLE = frozenset(
    {"study", "swim", "run", "take a walk", "dance", "sing", "cook", "eat", "watch TV", "travel",
     "play basketball", "play soccer", "work"}
)  # fmt: skip
NOT_TIMED = (SKILL, LIKE)
UNLOVED = frozenset({"look for", "wait for", "use", "repair", "get up"})
DESTINATIONS = tuple(p for p in PLACES if not {"room", "kitchen", "near"} & set(p.kinds.split()))
GENEROUS = frozenset({"buy", "make", "draw"})


def choose_mood(speaker: Speaker, verb: Verb) -> Mood:
    """Choose a tense or modal verb that suits a verb."""
    if verb.is_skill and speaker.happens(0.12):
        return SKILL
    if verb.use == "activity" and verb.english not in UNLOVED and speaker.happens(0.06):
        return LIKE
    mood = speaker.pick(MOODS[verb.use])
    return Tense.PAST if mood is Tense.PERFECT and not verb.takes_guo else mood


def draft(
    speaker: Speaker,
    verb: Verb,
    subject: Nominal,
    mood: Mood,
    *,
    given: Parts | None = None,
    is_inverted: bool = False,
    drops_le: bool = False,
    is_short: bool = False,
    denial: str | None = None,
) -> Clause:
    """Fill in a clause.

    Args:
        speaker: makes the choices.
        verb: the verb, whose kinds the choices respect.
        subject: the subject of the verb.
        mood: tense or modal verb.
        given: parts already chosen, such as a question word; an empty phrase is a gap.
        is_inverted: whether English needs an auxiliary before the subject.
        drops_le: whether a time shows the past in place of 了.
        is_short: whether to leave out all optional parts.
        denial: "not", "never" or nothing; left to chance when None.
    """
    parts = dict(given or {})
    if denial is None:
        denial = _choose_denial(speaker, mood)
    _add_objects(speaker, verb, subject, mood, parts, is_denied=bool(denial))
    if not is_short:
        _add_circumstances(speaker, verb, subject, mood, parts)
    if not denial or mood is WILL:  # without a time, 会 would be can
        _add_when(speaker, verb, mood, parts, is_short=is_short, is_asked=is_inverted)
    elif mood is Tense.PAST and speaker.happens(0.5):
        parts.setdefault(Role.TIME, speaker.past_time())
    return clause_of(
        verb, subject, mood, parts, denial=denial, is_inverted=is_inverted, drops_le=drops_le
    )


def random_clause(speaker: Speaker, *, is_definite: bool = False) -> Clause:
    """Make a clause with any verb."""
    verb = speaker.pick(VERBS)
    subject = speaker.subject(is_definite=is_definite)
    return draft(speaker, verb, subject, choose_mood(speaker, verb))


def described(
    speaker: Speaker,
    subject: Nominal,
    adjective: Adjective,
    *,
    time: Phrase = NOTHING,
    link: Phrase = NOTHING,
    denial: str | None = None,
    is_past: bool = False,
) -> Clause:
    """Describe a subject: 这条裙子很漂亮, 这条裙子是红色的."""
    parts = {role: part for role, part in ((Role.TIME, time), (Role.LINK, link)) if part.source}
    predicate = pair(adjective.chinese, "ADJ", adjective.english)
    if denial is None:
        denial = "not" if speaker.happens(0.15) else ""
    if adjective.is_color:
        parts[Role.PREDICATE] = predicate + silent("的", "PART", predicate)
        return copula_clause(subject, parts, verb="是", denial=denial, is_past=is_past)
    parts[Role.PREDICATE] = predicate
    if denial:
        return copula_clause(subject, parts, denial=denial, is_past=is_past)
    degree = pair(PLAIN_DEGREE, "ADV", "")
    if speaker.happens(0.3):
        degrees = (*DEGREES, A_LITTLE, A_LITTLE) if adjective.takes_little else DEGREES
        degree = literal(speaker.pick(degrees))
    return copula_clause(subject, parts, degree=degree, is_past=is_past)


def feeling(
    speaker: Speaker,
    subject: Nominal,
    adjective: Adjective | None = None,
    *,
    time: Phrase = NOTHING,
    denial: str | None = None,
    is_past: bool = False,
) -> Clause:
    """Say how someone feels, or felt at a past time."""
    adjective = adjective or speaker.pick(FEELINGS)
    is_past = is_past or bool(time.source)
    return described(speaker, subject, adjective, time=time, denial=denial, is_past=is_past)


def thing(
    speaker: Speaker, noun: Noun, mood: Mood, verb: Verb, *, is_denied: bool = False
) -> NounPhrase:
    """Choose a noun phrase for an object, definite or not as verb and tense require."""
    determiners: Sequence[Determiner] = HABIT_DETERMINERS
    if mood is SKILL:
        return NounPhrase(noun, GENERIC)
    if mood is Tense.PERFECT:
        determiners = (GENERIC, *KNOWN_DETERMINERS)
    elif verb.chinese in ("有", "需要"):
        determiners = (GENERIC,) if is_denied else HAVE_DETERMINERS
    elif is_denied and verb.use == "achievement":
        determiners = KNOWN_DETERMINERS
    elif is_denied:
        determiners = DENIED_DETERMINERS
    elif mood in (Tense.PAST, WILL):
        determiners = PAST_DETERMINERS
    elif verb.chinese == "喜欢":
        determiners = (GENERIC, GENERIC, *KNOWN_DETERMINERS)
    if "told" in noun.kinds and noun.english == "story":
        determiners = [d for d in determiners if d is not GENERIC]
    return speaker.noun_phrase(noun, determiners or (ONE_OF,))


def destination(speaker: Speaker) -> Phrase:
    """Choose a destination."""
    if speaker.happens(0.4):
        return NamePhrase(speaker.pick(CITIES)).phrase("object")
    return bare_place(speaker.pick(DESTINATIONS))


def means(speaker: Speaker) -> Phrase:
    """Choose a means of transport."""
    return literal(speaker.pick(MEANS))


def accompanied(phrase: Phrase) -> Phrase:
    """Make the phrase of company: 跟朋友一起."""
    company = pair("跟", "ADP", "with")
    return company + phrase + silent("一起", "ADV", company)


def _choose_denial(speaker: Speaker, mood: Mood) -> str:
    if mood is Tense.PROGRESSIVE or not speaker.happens(0.16):
        return ""
    return "never" if mood is Tense.PERFECT and speaker.happens(0.5) else "not"


def _add_objects(
    speaker: Speaker,
    verb: Verb,
    subject: Nominal,
    mood: Mood,
    parts: dict[Role, Phrase],
    *,
    is_denied: bool,
) -> None:
    """Choose object, receiver and seat unless they are given."""
    if verb.receiver and Role.RECEIVER not in parts:
        parts[Role.RECEIVER] = speaker.other_person(subject).phrase("object")
    if verb.seat and Role.SEAT not in parts:
        parts[Role.SEAT] = _seat(speaker, verb)
    if Role.OBJECT in parts:
        return
    if verb.use == "motion":
        parts[Role.OBJECT] = destination(speaker)
    elif verb.object == "language":
        chinese, english = speaker.pick(LANGUAGES)
        parts[Role.OBJECT] = pair(chinese, "NOUN", english)
    elif verb.object == "sight":
        parts[Role.OBJECT] = bare_place(speaker.pick(places_of("sight")))
    elif verb.object:
        noun = speaker.pick(nouns_of(verb.object))
        if {"person", "adult"} & set(verb.object.split()) and "person" in noun.kinds:
            kinds = verb.object if verb.object == "adult" else "person"
            parts[Role.OBJECT] = speaker.other_person(subject, kinds).phrase("object")
        else:
            item = thing(speaker, noun, mood, verb, is_denied=is_denied)
            parts[Role.OBJECT] = item.phrase("object")


def _seat(speaker: Speaker, verb: Verb) -> Phrase:
    names = (*CITIES, *COUNTRIES) if "country" in verb.seat else CITIES
    return pair("在", "ADP", "in") + NamePhrase(speaker.pick(names)).phrase("object")


def _add_circumstances(
    speaker: Speaker, verb: Verb, subject: Nominal, mood: Mood, parts: dict[Role, Phrase]
) -> None:
    """Add company, place, manner or beneficiary if it makes sense, only one of them."""
    asked = parts.keys() & {Role.COMPANY, Role.PLACE, Role.MEANS, Role.MANNER}
    if asked or mood is SKILL:
        return
    if verb.english in SOCIABLE and speaker.happens(0.2):
        parts[Role.COMPANY] = accompanied(speaker.other_person(subject).phrase("object"))
        if speaker.happens(0.6):
            return
    if verb.use == "motion" and verb.english != "leave" and speaker.happens(0.3):
        parts[Role.MEANS] = means(speaker)
    elif verb.english in GENEROUS and speaker.happens(0.25):
        receiver = speaker.other_person(subject).phrase("object")
        parts[Role.BENEFIT] = pair("给", "ADP", "for") + receiver
    elif verb.place and mood is not Tense.PROGRESSIVE and speaker.happens(0.4):
        parts[Role.PLACE] = speaker.place(verb.place)


def _add_when(
    speaker: Speaker,
    verb: Verb,
    mood: Mood,
    parts: dict[Role, Phrase],
    *,
    is_short: bool,
    is_asked: bool,
) -> None:
    """Add a time, a frequency or a duration if verb and tense allow it."""
    if verb.use == "state" or parts.keys() & {Role.TIME, Role.ADVERB} or mood in NOT_TIMED:
        return
    if mood is Tense.PAST:
        if verb.has_duration and not is_short and speaker.happens(0.35):
            is_long = verb.english in ("work", "study", "learn")
            parts[Role.DURATION] = speaker.duration(is_long=is_long)
        elif speaker.happens(0.6):
            parts[Role.TIME] = speaker.past_time()
    elif mood is WILL or (isinstance(mood, Modal) and speaker.happens(0.3)):
        parts[Role.TIME] = literal(speaker.pick(FUTURE_TIMES))
    elif mood is Tense.PROGRESSIVE and speaker.happens(0.4):
        parts[Role.TIME] = literal(speaker.pick(NOW_TIMES[:2]))
    elif mood is Tense.PRESENT and speaker.happens(0.35):
        adverbs = FREQUENCY if is_asked else (*FREQUENCY, NEVER)
        parts[Role.ADVERB] = literal(speaker.pick(adverbs))
    elif mood is Tense.PRESENT and (speaker.happens(0.6) or is_short):
        parts[Role.TIME] = literal(speaker.pick(HABIT_TIMES))
