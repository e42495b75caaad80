"""Clauses of the Chinese grammar: aspect, modal verbs, denial, and both word orders.

Chinese says when, with whom, where and how before the verb, and puts question words where the
answer would stand; English says all that after the object, and puts the question word first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum, auto

from scripts.grammar.chinese.english import Meaning, english_copula, english_verb
from scripts.grammar.chinese.phrases import Nominal, source_of, target_of
from scripts.grammar.chinese.verbs import Modal, Mood, Tense, Verb
from scripts.grammar.shared.words import NOTHING, Phrase, Unit, Word, pair, weave


class Role(IntEnum):
    """The part a phrase plays in its clause."""

    TIME = auto()
    CAUSE = auto()  # why
    ADVERB = auto()  # often, also: English puts it before the verb
    LINK = auto()  # 就, said with the conjunction
    MANNER = auto()  # how
    COMPANY = auto()  # 跟朋友一起
    PLACE = auto()  # 在公园里
    MEANS = auto()  # 坐火车
    BENEFIT = auto()  # 给妈妈
    RECEIVER = auto()
    DURATION = auto()
    OBJECT = auto()  # what, or where to
    SEAT = auto()  # lives in Beijing
    PREDICATE = auto()  # is tired


BEFORE_HELPERS = (Role.TIME, Role.LINK, Role.CAUSE, Role.ADVERB)
BEFORE_VERB = (Role.MANNER, Role.COMPANY, Role.PLACE, Role.MEANS, Role.BENEFIT)
AFTER_VERB = (Role.RECEIVER, Role.DURATION, Role.OBJECT, Role.SEAT, Role.PREDICATE)
ENGLISH_AFTER = (
    *(Role.PREDICATE, Role.RECEIVER, Role.OBJECT, Role.SEAT, Role.MEANS, Role.BENEFIT),
    *(Role.COMPANY, Role.PLACE, Role.DURATION, Role.TIME),
)
Parts = Mapping[Role, Phrase]

# Verbs of one syllable that remain a word of their own before 过, as segmenters have it: 吃 过,
# but 看过.
APART_FROM_GUO = frozenset("吃喝洗等喂说住")


@dataclass(frozen=True)
class Clause:
    """A subject, its verbs in both languages, and the other parts by role."""

    subject: Phrase
    helpers: Phrase  # 不, 没有, 会, 正在
    verb: Phrase  # with 了 or 过
    auxiliary: tuple[Word, ...]
    rest: tuple[Word, ...]
    parts: Parts

    def chinese(self, without: Role | None = None) -> Phrase:
        """Return the Chinese words after the subject."""
        before, middle, after = (
            [self.parts[role] for role in roles if role in self.parts and role is not without]
            for roles in (BEFORE_HELPERS, BEFORE_VERB, AFTER_VERB)
        )
        return _sources([*before, self.helpers, *middle, self.verb, *after])

    def verb_phrase(self) -> Phrase:
        """Return the English verb, adverb included, without what comes after it."""
        adverb = self.parts.get(Role.ADVERB, NOTHING).target
        # English: is often, but always sleeps
        return Phrase(target=self.auxiliary + adverb + self.rest)

    def after(self, without: Role | None = None) -> list[Phrase]:
        """Return the parts after the English verb, in order."""
        return [self.parts[r] for r in ENGLISH_AFTER if r in self.parts and r is not without]


def statement(clause: Clause, *, is_time_first: bool = False) -> Phrase:
    """Order a main or subordinate clause; the time may come before the subject on both sides."""
    if not is_time_first:
        return weave(
            [clause.subject, clause.chinese()],
            [clause.subject, clause.verb_phrase(), *clause.after()],
        )
    time = clause.parts[Role.TIME]
    return weave(
        [time, clause.subject, clause.chinese(Role.TIME)],
        [time, clause.subject, clause.verb_phrase(), *clause.after(Role.TIME)],
    )


def question(clause: Clause, front: Phrase = NOTHING) -> Phrase:
    """Order a question; `front` holds the English question word of an asked part."""
    adverb = target_of(clause.parts.get(Role.ADVERB, NOTHING))
    auxiliary, rest = Phrase(target=clause.auxiliary), Phrase(target=clause.rest)
    return weave(
        [clause.subject, clause.chinese()],
        [front, auxiliary, clause.subject, adverb, rest, *clause.after()],
    )


def embedded_question(clause: Clause, front: Phrase) -> Phrase:
    """Order a question inside another clause: where he lives."""
    return weave(
        [clause.subject, clause.chinese()],
        [front, clause.subject, clause.verb_phrase(), *clause.after()],
    )


def relative(clause: Clause, pronoun: str, *, of_subject: bool = False) -> Phrase:
    """Make a relative clause, before its noun in Chinese; its object or subject is left out."""
    subject = NOTHING if of_subject else clause.subject
    link = pair("的", "PART", pronoun)
    return weave(
        [subject, clause.chinese(), link],
        [link, subject, clause.verb_phrase(), *clause.after()],
    )


def clause_of(
    verb: Verb,
    subject: Nominal,
    mood: Mood,
    parts: Parts,
    *,
    denial: str = "",
    is_inverted: bool = False,
    drops_le: bool = False,
) -> Clause:
    """Put verb, aspect and denial together.

    Args:
        verb: the verb.
        subject: the subject of the verb.
        mood: tense or modal verb.
        parts: the other parts of the clause.
        denial: "not", "never", or nothing.
        is_inverted: whether English needs an auxiliary before the subject.
        drops_le: whether the past goes without 了, as it does before 的.
    """
    denying = (Unit(),) if denial else ()
    meaning = Meaning((Unit(),), (Unit(),), denying, denial)
    if drops_le and mood is Tense.PAST:
        meaning = Meaning(meaning.verb, meaning.verb, denying, denial)
    helpers, main = _chinese_verb(verb, mood, meaning, keeps_le=not drops_le)
    words = english_verb(verb, mood, subject.agreement, meaning, is_inverted=is_inverted)
    return Clause(subject.phrase("subject"), Phrase(helpers), Phrase(main), *words, parts)


def copula_clause(
    subject: Nominal,
    parts: Parts,
    *,
    verb: str = "",
    degree: Phrase = NOTHING,
    denial: str = "",
    is_past: bool = False,
) -> Clause:
    """Say what someone is or is like; without `verb` (是) the adjective is the predicate.

    Args:
        subject: the person or thing described.
        parts: the predicate and the other parts.
        verb: 是, 在, or nothing before an adjective.
        degree: 很 and its like, before the adjective.
        denial: "not" or nothing.
        is_past: whether English uses the past; Chinese only names the time.
    """
    unit, denying = Unit(), (Unit(),) if denial else ()
    chinese: tuple[Word, ...] = ()
    if verb and denial:  # 不是 is one word
        chinese = (Word("不" + verb, (unit, *denying), "AUX"),)
    elif verb:
        chinese = (Word(verb, (unit,), "AUX"),)
    elif denial:
        chinese = (Word("不", denying, "ADV"),)
    units = (unit,)
    if not verb:  # nothing says "is" but the predicate itself, or 很
        says_is = degree if degree.source and not degree.target else parts[Role.PREDICATE]
        units = (says_is.source[-1 if says_is is degree else 0].units[0],)
    words = english_copula(subject.agreement, Meaning(units, (), denying, denial), is_past=is_past)
    predicate = degree + parts[Role.PREDICATE]
    return Clause(
        subject.phrase("subject"),
        NOTHING,
        Phrase(chinese),
        *words,
        {**parts, Role.PREDICATE: predicate},
    )


def asks(phrase: Phrase, *, with_ma: bool) -> Phrase:
    """End a question, with 吗 if it has no question word."""
    mark = pair("？", "PUNCT", "?")
    particle = Phrase((Word("吗", mark.source[0].units, "PART"),)) if with_ma else NOTHING
    return phrase + particle + mark


def stop(phrase: Phrase) -> Phrase:
    """End a statement."""
    return phrase + pair("。", "PUNCT", ".")


def comma() -> Phrase:
    """Make a comma that both languages write."""
    return pair("，", "PUNCT", ",")


def chinese_comma() -> Phrase:
    """Make a comma that only Chinese writes."""
    return pair("，", "PUNCT", "")


def _chinese_verb(
    verb: Verb, mood: Mood, meaning: Meaning, *, keeps_le: bool
) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    """Return the words before the verb that show its tense, and the verb with its particles."""
    main = (Word(verb.chinese, meaning.verb, "VERB"),)
    if isinstance(mood, Modal):
        return _chinese_modal(mood, meaning), main
    if verb.chinese == "有" and meaning.denial:
        return (), (Word("没有", meaning.denial + meaning.verb, "VERB"),)
    if mood is Tense.PROGRESSIVE:
        return (Word("正在", meaning.helper, "ADV"),), main
    if mood is Tense.PRESENT:
        return _words("不", meaning.denial), main
    if mood is Tense.PERFECT:
        return _never_or_not(meaning), _with_guo(verb, meaning)
    if meaning.denial:
        return _never_or_not(meaning), main
    return (), (*main, *((Word("了", meaning.helper, "AUX"),) if keeps_le else ()))


def _chinese_modal(modal: Modal, meaning: Meaning) -> tuple[Word, ...]:
    if meaning.denial and modal.joins_not:
        return (Word("不" + modal.chinese, meaning.denial + meaning.helper, modal.tag),)
    return (*_words("不", meaning.denial), Word(modal.chinese, meaning.helper, modal.tag))


def _with_guo(verb: Verb, meaning: Meaning) -> tuple[Word, ...]:
    if len(verb.chinese) == 1 and verb.chinese not in APART_FROM_GUO:
        return (Word(verb.chinese + "过", meaning.verb + meaning.helper, "VERB"),)
    return Word(verb.chinese, meaning.verb, "VERB"), Word("过", meaning.helper, "AUX")


def _never_or_not(meaning: Meaning) -> tuple[Word, ...]:
    never = _words("从来", meaning.denial) if meaning.denied_by == "never" else ()
    return never + _words("没有", meaning.denial)


def _words(text: str, units: tuple[Unit, ...]) -> tuple[Word, ...]:
    return (Word(text, units, "ADV"),) if units else ()


def _sources(phrases: Iterable[Phrase]) -> Phrase:
    return weave([source_of(phrase) for phrase in phrases], [])
