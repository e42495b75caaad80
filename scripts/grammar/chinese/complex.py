"""Sentences of more than one clause in Chinese, one function for each kind."""

from __future__ import annotations

from scripts.grammar.chinese.clauses import (
    Clause,
    Role,
    asks,
    chinese_comma,
    clause_of,
    comma,
    embedded_question,
    question,
    statement,
    stop,
)
from scripts.grammar.chinese.drafts import described, draft, feeling, random_clause
from scripts.grammar.chinese.lexicon import (
    ADJECTIVES,
    FEELINGS,
    HAPPY,
    Adjective,
    adjectives_for,
    nouns_of,
)
from scripts.grammar.chinese.phrases import (
    NI,
    THAT,
    THIS,
    WO,
    Nominal,
    Pronoun,
    silent,
    together,
)
from scripts.grammar.chinese.questions import asked_adverb, asked_object
from scripts.grammar.chinese.speaker import Speaker
from scripts.grammar.chinese.verbs import (
    CAN,
    DAILY_VERBS,
    FREQUENCY,
    FUTURE_TIMES,
    HABIT_TIMES,
    KNOW,
    SAYING,
    TOGETHER,
    WANT,
    WILL,
    Mood,
    Tense,
)
from scripts.grammar.shared.english import english_be, english_progressive
from scripts.grammar.shared.names import NamePhrase
from scripts.grammar.shared.words import NOTHING, Phrase, english_words, literal, pair, weave

OFTEN = tuple(word for word in FREQUENCY if not word.startswith("有时候"))


def because(speaker: Speaker) -> Phrase:
    """Give a reason, or tell what did not help: 因为小明很累，所以他不想跳舞。"""
    subject, again = speaker.someone()
    is_past = speaker.happens(0.4)
    time = speaker.past_time() if is_past else NOTHING
    adjective = speaker.pick((HAPPY, *FEELINGS))
    # who is happy does things, who is tired does not, unless the clauses disagree
    keeps_from = adjective is not HAPPY
    if speaker.happens(0.3):
        main = _consequence(speaker, subject, is_past=is_past, is_denied=keeps_from)
        why = pair("，", "PUNCT", "") + pair("因为", "SCONJ", "because")
        cause = feeling(speaker, again, adjective, denial="", is_past=is_past)
        return stop(statement(main) + why + statement(cause))
    words = speaker.pick((("因为", "because", "所以"), ("虽然", "although", "但是")))
    is_denied = keeps_from == (words[0] == "因为")
    first = pair(words[0], "SCONJ", words[1])
    cause = feeling(speaker, subject, adjective, time=time, denial="", is_past=is_past)
    main = _consequence(speaker, again, is_past=is_past, is_denied=is_denied, has_time=True)
    second = silent(words[2], "CCONJ", first)
    return stop(first + statement(cause) + comma() + second + statement(main))


def if_then(speaker: Speaker) -> Phrase:
    """Make a condition: 如果明天下雨，我们就不会去公园。"""
    subject, again = speaker.someone()
    word = pair("如果", "SCONJ", "if")
    actor: Nominal = again
    is_denied = True
    if speaker.happens(0.35):
        time = literal(speaker.pick(FUTURE_TIMES[:3]))
        rain = literal(speaker.pick(("下雨/VERB/it_rains", "下雪/VERB/it_snows")))
        condition, actor = weave([time, rain], [rain, time]), subject
        verbs = [verb for verb in DAILY_VERBS if "outdoors" in verb.place]
    elif speaker.happens(0.4):
        has = pair("有", "VERB", "has" if _is_third(subject) else "have")
        condition = subject.phrase("subject") + has + literal("时间/NOUN/time")
        is_denied, verbs = False, [*DAILY_VERBS]
    else:
        adjective = speaker.pick((HAPPY, *FEELINGS))
        denial = "" if speaker.happens(0.7) else "not"
        condition = statement(feeling(speaker, subject, adjective, denial=denial))
        is_denied, verbs = (adjective is not HAPPY) == (denial == ""), [*DAILY_VERBS]
    given = {Role.LINK: silent("就", "ADV", word), Role.TIME: NOTHING}
    moods = (WILL, WILL, WANT, CAN) if is_denied else (WILL, WILL, CAN)
    main = draft(
        speaker,
        speaker.pick(verbs),
        actor,
        speaker.pick(moods),
        given=given,
        denial="not" if is_denied else "",
    )
    return stop(word + condition + comma() + statement(main))


def whenever(speaker: Speaker) -> Phrase:
    """Say what regularly accompanies what: 小明吃饭的时候，他总是看电视。"""
    subject, again = speaker.someone()
    is_while = speaker.happens(0.5)
    verb, other = speaker.pick(TOGETHER) if is_while else speaker.two(DAILY_VERBS)
    first = draft(
        speaker,
        verb,
        subject,
        Tense.PRESENT,
        given={Role.TIME: NOTHING},
        is_short=True,
        denial="",
    )
    when = together("的/PART 时候/NOUN", "when")
    if not is_while:
        when = literal(speaker.pick(("以前/ADP/before", "以后/ADP/after")))
    clause = statement(first)
    given = {Role.ADVERB: literal(speaker.pick(OFTEN[:2] if is_while else OFTEN))}
    main = draft(speaker, other, again, Tense.PRESENT, given=given, is_short=True, denial="")
    return stop(weave([clause, when], [when, clause]) + comma() + statement(main))


def at_once(speaker: Speaker) -> Phrase:
    """Say that someone does two things at a time: 妈妈一边做饭一边唱歌。"""
    first, second = speaker.pick(TOGETHER)
    subject = speaker.subject(is_definite=True)
    parts = {Role.ADVERB: literal(speaker.pick(FREQUENCY))} if speaker.happens(0.6) else {}
    clause = clause_of(first, subject, Tense.PRESENT, parts)
    one = pair("一边", "ADV", "while")
    doing = pair(second.chinese, "VERB", english_progressive(second.english))
    adverb = parts.get(Role.ADVERB, NOTHING)
    source = [clause.subject, adverb, one, clause.verb, Phrase(one.source), doing]
    return stop(weave(source, [clause.subject, clause.verb_phrase(), one, doing]))


def contrast(speaker: Speaker) -> Phrase:
    """Say two things about one subject: 她不但聪明，而且很努力; 她又聪明又努力."""
    subject, adjectives = _subject_and_qualities(speaker)
    one, two = (pair(a.chinese, "ADJ", a.english) for a in speaker.two(adjectives))
    be = Phrase(target=english_words(english_be(subject.agreement), one.source[0].units))
    who = subject.phrase("subject")
    if speaker.happens(0.5):
        link = pair("不但", "SCONJ", "not only"), pair("而且", "CCONJ", "but also")
        very = silent("很", "ADV", two)
        source = [who, link[0], one, chinese_comma(), link[1], very, two]
    else:
        link = pair("又", "ADV", "both"), pair("又", "ADV", "and")
        source = [who, link[0], one, link[1], two]
    return stop(weave(source, [who, be, link[0], one, link[1], two]))


def report(speaker: Speaker) -> Phrase:
    """Tell what someone says or thinks: 老师觉得这本小说很有意思。"""
    verb = speaker.pick(SAYING)
    subject = speaker.subject(is_definite=True)
    denial = "not" if verb.english in ("know", "believe", "think") and speaker.happens(0.2) else ""
    clause = clause_of(verb, subject, Tense.PRESENT, {}, denial=denial)
    content = statement(_content(speaker, subject, verb.english, denial))
    that = Phrase(target=english_words("that", clause.verb.source[0].units))
    if content.target[0].text == "that":  # I think that hat is old
        that = NOTHING
    return stop(statement(clause) + that + content)


def wondering(speaker: Speaker) -> Phrase:
    """Put a question into a clause: 我不知道他住在哪里; 你知道他为什么哭吗？"""
    asked, front = speaker.pick((asked_adverb, asked_object))(speaker, is_inverted=False)
    inner = embedded_question(asked, front)
    if speaker.happens(0.3):
        outer = clause_of(KNOW, NI, Tense.PRESENT, {}, is_inverted=True)
        return asks(question(outer) + inner, with_ma=True)
    if speaker.happens(0.4):
        outer = clause_of(KNOW, speaker.subject(is_definite=True), WANT, {})
        return stop(statement(outer) + inner)
    subject: Nominal = WO if speaker.happens(0.5) else speaker.subject(is_definite=True)
    outer = clause_of(KNOW, subject, Tense.PRESENT, {}, denial="not")
    return stop(statement(outer) + inner)


def chain(speaker: Speaker) -> Phrase:
    """Tell one thing after the other: 小明先吃饭，然后看电视; or set two against each other."""
    if speaker.happens(0.5):
        one, two = (random_clause(speaker, is_definite=True) for _ in range(2))
        link = speaker.pick((("但是", "but"), ("所以", "so")))
        return stop(statement(one) + comma() + pair(link[0], "CCONJ", link[1]) + statement(two))
    subject = speaker.subject(is_definite=True)
    first, then = literal("先/ADV/first"), pair("然后", "ADV", "and then")
    time = literal(speaker.pick(HABIT_TIMES))
    one_verb, two_verb = speaker.two(DAILY_VERBS)
    parts = {Role.TIME: NOTHING, Role.ADVERB: first}
    one, two = (
        draft(speaker, verb, subject, Tense.PRESENT, given=given, is_short=True, denial="")
        for verb, given in ((one_verb, parts), (two_verb, {Role.TIME: NOTHING}))
    )
    then_two = weave(
        [chinese_comma(), then, two.chinese()], [then, two.verb_phrase(), *two.after()]
    )
    return stop(time + statement(one) + then_two)


def _content(speaker: Speaker, subject: Nominal, verb: str, denial: str) -> Clause:
    """Make the reported clause; hopes are about the future, and nothing is denied twice."""
    if verb == "hope":
        other = speaker.other_person(subject)
        return draft(speaker, speaker.pick(DAILY_VERBS), other, WILL, denial="")
    if verb == "think" or speaker.happens(0.4):
        noun = speaker.pick(nouns_of("goods text watched song food building"))
        known = speaker.noun_phrase(noun, (THIS, THIS, THAT), describe=0)
        adjective = speaker.pick(_judgements(adjectives_for(noun)))
        return described(speaker, known, adjective, denial="" if denial else None)
    return random_clause(speaker, is_definite=True)


def _judgements(adjectives: tuple[Adjective, ...]) -> list[Adjective]:
    return [adjective for adjective in adjectives if not adjective.is_color]


def _consequence(
    speaker: Speaker, subject: Nominal, *, is_past: bool, is_denied: bool, has_time: bool = False
) -> Clause:
    """Make the clause of a consequence, or of one that failed to follow."""
    verb = speaker.pick(DAILY_VERBS)
    moods: tuple[Mood, ...] = (WANT, WANT, WILL, CAN) if is_denied else (WANT, WANT, WILL)
    mood = Tense.PAST if is_past else speaker.pick(moods)
    given = {Role.TIME: NOTHING} if has_time and is_past else {}
    return draft(
        speaker,
        verb,
        subject,
        mood,
        given=given,
        denial="not" if is_denied else "",
        is_short=speaker.happens(0.6),
    )


def _subject_and_qualities(speaker: Speaker) -> tuple[Nominal, list[Adjective]]:
    """Choose a subject, and the adjectives from which two are said of it."""
    if speaker.happens(0.5):
        person = speaker.subject(is_definite=True)
        if isinstance(person, (NamePhrase, Pronoun)):
            return person, [a for a in ADJECTIVES if "person" in a.kinds.split()]
    noun = speaker.pick(
        [n for n in nouns_of("goods food text watched") if len(_judgements(adjectives_for(n))) > 3]
    )
    qualities = [a for a in _judgements(adjectives_for(noun)) if a.english not in OPPOSITES]
    return speaker.noun_phrase(noun, (THIS, THAT), describe=0), qualities


# Pairs of opposites; both are said of the same things.
OPPOSITES = frozenset({"old", "big", "expensive", "boring"})


def _is_third(nominal: Nominal) -> bool:
    return nominal.agreement.person == 3 and not nominal.agreement.is_plural
