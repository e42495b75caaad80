"""Relative clauses of the Chinese grammar: before the noun, closed by 的."""

from __future__ import annotations

from dataclasses import replace

from scripts.grammar.chinese.clauses import Role, relative, statement, stop
from scripts.grammar.chinese.drafts import choose_mood, described, draft, feeling
from scripts.grammar.chinese.lexicon import ADJECTIVES, NOUNS, adjectives_for, nouns_of, places_of
from scripts.grammar.chinese.phrases import (
    BARE,
    THAT,
    THIS,
    WO,
    Nominal,
    NounPhrase,
    Spelled,
    bare_place,
)
from scripts.grammar.chinese.speaker import Speaker
from scripts.grammar.chinese.verbs import (
    DAILY_VERBS,
    HABIT_TIMES,
    PLACED_VERBS,
    SKILL,
    WANT,
    Mood,
    Tense,
    verbs_for_object,
)
from scripts.grammar.shared.words import NOTHING, Phrase, literal, weave

# Persons who may have a relative clause: 那个女孩, but not 我妈妈.
HEADS = tuple(n for n in nouns_of("person") if not {"kin", "own"} & set(n.kinds.split()))
WANTED = tuple(
    noun
    for noun in NOUNS
    if verbs_for_object(noun)
    and adjectives_for(noun)
    and not noun.is_mass
    and not {"person", "kin", "own"} & set(noun.kinds.split())
)
# Verbs that do not suit an object that already has a relative clause.
NOT_TWICE = frozenset({"忘记", "卖", "有", "拍", "写", "做"})
VIEWED = tuple(a for a in ADJECTIVES if a.chinese in ("大", "小", "漂亮", "安静", "干净"))


def subject_relative(speaker: Speaker) -> Phrase:
    """Describe someone by what they do: 昨天来北京的客人是一位作家。"""
    head = NounPhrase(speaker.pick(HEADS), speaker.pick((BARE, BARE, THAT)))
    verb = speaker.pick(DAILY_VERBS)
    moods: tuple[Mood, ...] = (Tense.PRESENT, Tense.PRESENT, Tense.PAST, Tense.PAST, WANT)
    mood = SKILL if verb.is_skill and speaker.happens(0.4) else speaker.pick(moods)
    clause = draft(
        speaker,
        verb,
        head,
        mood,
        given=_timed(speaker, mood),
        drops_le=True,
        is_short=speaker.happens(0.6),
        denial="",
    )
    full = replace(head, relative=relative(clause, "who", of_subject=True))
    return _main(speaker, full)


def object_relative(speaker: Speaker) -> Phrase:
    """Describe something by what is done to it: 我昨天买的小说很有意思。"""
    if speaker.happens(0.15):
        return _place_relative(speaker)
    noun = speaker.pick(WANTED)
    head = NounPhrase(noun, speaker.pick((BARE, BARE, BARE, THAT, speaker.number())))
    verb = speaker.pick(
        [v for v in verbs_for_object(noun) if v.chinese not in ("需要", "忘记", "有")]
    )
    subject = _doer(speaker)
    mood: Mood = Tense.PRESENT
    if verb.use != "state":
        mood = Tense.PAST if verb.use == "achievement" else speaker.pick(MOODS)
    given = {**_timed(speaker, mood), Role.OBJECT: NOTHING}
    clause = draft(
        speaker,
        verb,
        subject,
        mood,
        given=given,
        drops_le=True,
        is_short=True,
        denial="",
    )
    return _main(speaker, replace(head, relative=relative(clause, "that")))


MOODS: tuple[Mood, ...] = (*(Tense.PAST,) * 4, WANT, WANT, Tense.PROGRESSIVE)


def _place_relative(speaker: Speaker) -> Phrase:
    """Describe a place by what happens there: 他工作的公司很大。"""
    verb = speaker.pick([v for v in PLACED_VERBS if not v.object and places_of(v.place)])
    place = speaker.pick(
        [p for p in places_of(verb.place) if p.english.startswith("the ")] or places_of("work")
    )
    subject = _doer(speaker)
    given = {Role.PLACE: NOTHING, **_timed(speaker, Tense.PRESENT)}
    clause = draft(
        speaker,
        verb,
        subject,
        Tense.PRESENT,
        given=given,
        drops_le=True,
        is_short=True,
        denial="",
    )
    where, noun = relative(clause, "where"), bare_place(place)
    full = Spelled(weave([where, noun], [noun, where]))
    return stop(statement(described(speaker, full, speaker.pick(VIEWED))))


def _doer(speaker: Speaker) -> Nominal:
    """Choose the subject of a relative clause; that umbrella that that actor ...: not with that."""
    if speaker.happens(0.25):
        return WO
    subject = speaker.subject(is_definite=True)
    if isinstance(subject, NounPhrase) and subject.determiner is THAT:
        return replace(subject, determiner=THIS)
    return subject


def _timed(speaker: Speaker, mood: Mood) -> dict[Role, Phrase]:
    """Choose the time that shows the tense where 了 cannot."""
    if mood is Tense.PAST:
        return {Role.TIME: speaker.past_time()}
    if mood is Tense.PRESENT and speaker.happens(0.5):
        return {Role.TIME: literal(speaker.pick(HABIT_TIMES))}
    return {Role.TIME: NOTHING}


def _main(speaker: Speaker, full: NounPhrase) -> Phrase:
    """Put a noun phrase with a relative clause into a main clause, as subject or object."""
    verbs = [v for v in verbs_for_object(full.noun) if v.chinese not in NOT_TWICE]
    if verbs and speaker.happens(0.4):
        verb = speaker.pick(verbs)
        subject = speaker.subject(is_definite=True)
        given = {Role.OBJECT: full.phrase("object"), Role.TIME: NOTHING}
        mood = choose_mood(speaker, verb)
        if mood not in (Tense.PAST, WANT, Tense.PERFECT):
            mood = Tense.PRESENT if verb.use == "state" else WANT
        return stop(statement(draft(speaker, verb, subject, mood, given=given, is_short=True)))
    if full.noun in HEADS:
        if speaker.happens(0.4):
            return stop(statement(feeling(speaker, full)))
        verb = speaker.pick(DAILY_VERBS)
        return stop(
            statement(draft(speaker, verb, full, choose_mood(speaker, verb), is_short=True))
        )
    return stop(statement(described(speaker, full, speaker.pick(adjectives_for(full.noun)))))
