"""Questions of the Chinese grammar: with 吗, or with a question word left in its place."""

from __future__ import annotations

from scripts.grammar.chinese.clauses import Clause, Role, asks, copula_clause, question, statement
from scripts.grammar.chinese.drafts import accompanied, choose_mood, draft, feeling
from scripts.grammar.chinese.lexicon import PEOPLE, nouns_of
from scripts.grammar.chinese.phrases import (
    HOW_MANY,
    NI,
    ONE_OF,
    SHEI,
    SHENME,
    TA_SHE,
    THAT,
    THIS,
    WHICH,
    Nominal,
    NounPhrase,
    together,
)
from scripts.grammar.chinese.speaker import Speaker
from scripts.grammar.chinese.verbs import (
    ACTIVE_VERBS,
    DAILY_VERBS,
    HABIT_TIMES,
    MOVING_VERBS,
    OBJECT_VERBS,
    PLACED_VERBS,
    VERBS,
    WANT,
    WILL,
    Mood,
    Tense,
    Verb,
)
from scripts.grammar.shared.english import english_be
from scripts.grammar.shared.names import NamePhrase
from scripts.grammar.shared.words import NOTHING, Phrase, english_words, literal, weave

Asked = tuple[Clause, Phrase]  # the clause, and the English question word that comes first
PLACED_ACTIVE_VERBS = tuple(verb for verb in PLACED_VERBS if not verb.object)
SHOWN: tuple[Mood, ...] = (Tense.PRESENT, Tense.PAST, Tense.PAST)


def yes_no_question(speaker: Speaker) -> Phrase:
    """Ask with 吗 or 是不是: 你昨天去学校了吗？"""
    if speaker.happens(0.12):
        subject = speaker.subject(is_asked=True)
        return asks(question(feeling(speaker, subject, denial="")), with_ma=True)
    if speaker.happens(0.14):
        return _is_it_so(speaker)
    verb = speaker.pick(VERBS)
    subject = speaker.subject(is_asked=True)
    mood = choose_mood(speaker, verb)
    clause = draft(speaker, verb, subject, mood, is_inverted=True, denial="")
    return asks(question(clause), with_ma=True)


def who_question(speaker: Speaker) -> Phrase:
    """Ask for the subject: 谁在厨房里做饭？"""
    verb = speaker.pick(DAILY_VERBS)
    clause = draft(speaker, verb, SHEI, choose_mood(speaker, verb), denial="")
    return asks(statement(clause), with_ma=False)


def object_question(speaker: Speaker) -> Phrase:
    """Ask for the object where it stands: 你昨天买了什么？"""
    return asks(question(*asked_object(speaker, is_inverted=True)), with_ma=False)


def adverb_question(speaker: Speaker) -> Phrase:
    """Ask where, when, why, how or with whom: 你想在哪里学习汉语？"""
    return asks(question(*asked_adverb(speaker, is_inverted=True)), with_ma=False)


def price_question(speaker: Speaker) -> Phrase:
    """Ask what something costs: 这件衬衫多少钱？"""
    noun = speaker.pick([noun for noun in nouns_of("goods food") if not noun.container])
    adjective = speaker.adjective(noun) if speaker.happens(0.5) else None
    thing = NounPhrase(noun, speaker.pick((THIS, THAT)), adjective)
    much = together("多少/NUM 钱/NOUN", "how much")
    be = Phrase(target=english_words(english_be(thing.agreement), much.source[1].units))
    words = thing.phrase("subject")
    return asks(weave([words, much], [much, be, words]), with_ma=False)


def asked_object(speaker: Speaker, *, is_inverted: bool) -> Asked:
    """Make a clause that asks for its object: what, whom, which book, how many books."""
    verb = speaker.pick(OBJECT_VERBS)
    noun = speaker.pick(nouns_of(verb.object))
    wanted: Nominal = SHEI if "person" in noun.kinds.split() else SHENME
    if wanted is SHENME and (verb.english == "take" or speaker.happens(0.6)):
        amount = WHICH if noun.container == "" and speaker.happens(0.5) else HOW_MANY
        wanted = NounPhrase(noun, amount)
    mood = choose_mood(speaker, verb)
    if wanted is not SHENME and mood is Tense.PROGRESSIVE:
        mood = Tense.PAST
    return _asked(speaker, verb, mood, Role.OBJECT, wanted.phrase("object"), is_inverted)


def asked_adverb(speaker: Speaker, *, is_inverted: bool) -> Asked:
    """Make a clause that asks where, when, why, how or with whom."""
    kind = speaker.pick(("where", "where", "lives", "when", "why", "why", "how", "company"))
    if kind == "where":
        where, mood = together("在/ADP 哪里/PRON", "where"), speaker.pick(SHOWN)
        verbs = PLACED_VERBS if mood is Tense.PRESENT else PLACED_ACTIVE_VERBS
        return _asked(speaker, speaker.pick(verbs), mood, Role.PLACE, where, is_inverted)
    if kind == "lives":
        where, lives = together("在/ADP 哪里/PRON", "where"), _living()
        return _asked(speaker, lives, Tense.PRESENT, Role.SEAT, where, is_inverted)
    if kind == "when":
        when = together("什么/DET 时候/NOUN", "when")
        verb = speaker.pick((*DAILY_VERBS, *MOVING_VERBS, *MOVING_VERBS))
        return _asked(speaker, verb, WILL, Role.TIME, when, is_inverted)
    if kind == "why":
        why, verb = literal("为什么/ADV/why"), speaker.pick(VERBS)
        return _asked(speaker, verb, choose_mood(speaker, verb), Role.CAUSE, why, is_inverted)
    if kind == "how":
        how = literal("怎么/ADV/how")
        verb = speaker.pick([verb for verb in MOVING_VERBS if verb.english != "leave"])
        mood = Tense.PRESENT if speaker.happens(0.6) else WANT
        return _asked(speaker, verb, mood, Role.MANNER, how, is_inverted)
    company, verb = accompanied(SHEI.phrase("object")), speaker.pick(ACTIVE_VERBS)
    return _asked(speaker, verb, speaker.pick(SHOWN), Role.COMPANY, company, is_inverted)


def _asked(
    speaker: Speaker, verb: Verb, mood: Mood, role: Role, asked: Phrase, is_inverted: bool
) -> Asked:
    """Draft a clause around an asked part; of its English, only "with" stays in place."""
    stays = tuple(word for word in asked.target if word.text == "with")
    front = Phrase(target=tuple(word for word in asked.target if word.text != "with"))
    given = {role: Phrase(asked.source, stays)}
    if mood is Tense.PRESENT or role is Role.MANNER:  # not: how does he sometimes go
        can_repeat = verb.use != "state" and role is not Role.MANNER
        has_time = can_repeat and speaker.happens(0.4)
        time = literal(speaker.pick(HABIT_TIMES)) if has_time else NOTHING
        given.setdefault(Role.TIME, time)
    # 你昨天在哪里吃饭: what happened is known, the question is where
    drops_le = role in (Role.PLACE, Role.COMPANY) and mood is Tense.PAST
    if drops_le:
        given[Role.TIME] = speaker.past_time()
    clause = draft(
        speaker,
        verb,
        speaker.subject(is_asked=True),
        mood,
        given=given,
        is_inverted=is_inverted,
        drops_le=drops_le,
        denial=None if role is Role.CAUSE else "",
    )
    return clause, front


def _is_it_so(speaker: Speaker) -> Phrase:
    """Ask with 是不是: 她是不是医生？"""
    people: tuple[Nominal, ...] = (NI, TA_SHE, NamePhrase(speaker.pick(PEOPLE)))
    subject = speaker.pick(people)
    job = NounPhrase(speaker.pick(nouns_of("job")), ONE_OF).phrase("object")
    clause = copula_clause(subject, {Role.PREDICATE: job}, verb="是不是")
    return asks(question(clause), with_ma=False)


def _living() -> Verb:
    return next(verb for verb in VERBS if verb.chinese == "住")
