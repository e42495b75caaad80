"""The kinds of sentence of the Chinese grammar, and how often each is used.

This file has the statements of one clause; questions are in questions.py, sentences of more than
one clause in complex.py.
"""

from __future__ import annotations

from collections.abc import Callable

from scripts.grammar.chinese.clauses import Clause, Role, comma, copula_clause, statement, stop
from scripts.grammar.chinese.complex import (
    at_once,
    because,
    chain,
    contrast,
    if_then,
    report,
    whenever,
    wondering,
)
from scripts.grammar.chinese.drafts import described, draft, feeling, random_clause
from scripts.grammar.chinese.lexicon import (
    ADJECTIVES,
    CITIES,
    HEIGHT,
    NOUNS,
    PEOPLE,
    WEATHERS,
    Adjective,
    Noun,
    adjectives_for,
    nouns_of,
    places_of,
)
from scripts.grammar.chinese.phrases import (
    BARE,
    MANY,
    NI,
    ONE_OF,
    THAT,
    THESE,
    THIS,
    THOSE,
    WO,
    Nominal,
    NounPhrase,
    Spelled,
    place_as_subject,
    place_phrase,
    silent,
    target_of,
)
from scripts.grammar.chinese.questions import (
    adverb_question,
    object_question,
    price_question,
    who_question,
    yes_no_question,
)
from scripts.grammar.chinese.relatives import object_relative, subject_relative
from scripts.grammar.chinese.speaker import Speaker
from scripts.grammar.chinese.verbs import (
    ACTIVE_VERBS,
    OBJECT_VERBS,
    PHONE,
    VERBS,
    WILL,
    Mood,
    Tense,
)
from scripts.grammar.shared.english import english_be
from scripts.grammar.shared.long import joined
from scripts.grammar.shared.names import NamePhrase
from scripts.grammar.shared.words import (
    NOTHING,
    Phrase,
    Word,
    english_words,
    literal,
    pair,
    weave,
)

Rule = Callable[[Speaker], Phrase]
REQUESTED = tuple(v for v in VERBS if v.chinese in set("洗买等") | {"打开", "修理", "照顾", "帮助"})
FORBIDDEN = tuple(v for v in ACTIVE_VERBS if v.chinese in {"睡觉", "唱歌", "吃饭", "聊天", "跑步"})
HANDLED_VERBS = tuple(
    v for v in OBJECT_VERBS if v.use == "activity" and v.object not in ("person", "adult")
)
SIDES = (("上", "on"), ("下面", "under"), ("旁边", "next to"))


def plain(speaker: Speaker) -> Phrase:
    """Make a statement: 小明昨天在书店里买了一本小说。"""
    clause = random_clause(speaker)
    return stop(statement(clause, is_time_first=_leads_with_time(speaker, clause)))


def description(speaker: Speaker) -> Phrase:
    """Say what something is like, or how someone feels: 这条裙子非常漂亮。"""
    if speaker.happens(0.45):
        time = speaker.past_time() if speaker.happens(0.3) else NOTHING
        clause = feeling(speaker, speaker.subject(is_definite=True), time=time)
        return stop(statement(clause, is_time_first=_leads_with_time(speaker, clause)))
    noun = speaker.pick([noun for noun in NOUNS if adjectives_for(noun)])
    subject = speaker.noun_phrase(noun, (THIS, THIS, THAT, THAT, THESE, THOSE), describe=0)
    return stop(statement(described(speaker, subject, speaker.pick(adjectives_for(noun)))))


def comparison(speaker: Speaker) -> Phrase:
    """Compare: 李明比王芳高, 这本书没有那本书便宜, 她跟我一样忙."""
    first, second, adjective = _compared(speaker)
    one, other = first.phrase("subject"), second.phrase("subject")
    way = speaker.pick(("more", "more", "less", "same"))
    degree = f"as {adjective.english}"
    if way == "more":
        degree = adjective.comparative or f"more {adjective.english}"
    quality = pair(adjective.chinese, "ADJ", degree)
    be = Phrase(target=english_words(english_be(first.agreement), quality.source[0].units))
    link, denial, same = pair("比", "ADP", "than"), NOTHING, NOTHING
    if way == "less":
        link = pair("没有", "VERB", "as")
        denial = Phrase(target=english_words("not", link.source[0].units))
    elif way == "same":
        link = pair("跟", "ADP", "as")
        same = silent("一样", "ADV", link)
    return stop(weave([one, link, other, same, quality], [one, be, denial, quality, link, other]))


def identity(speaker: Speaker) -> Phrase:
    """Say what someone is: 王芳是一位有名的医生。"""
    subject = _somebody(speaker)
    noun = speaker.pick(nouns_of("job"))
    adjective = speaker.adjective(noun) if speaker.happens(0.4) else None
    parts = {Role.PREDICATE: NounPhrase(noun, ONE_OF, adjective).phrase("object")}
    denial = "not" if speaker.happens(0.15) else ""
    if not denial and speaker.happens(0.2):
        parts[Role.ADVERB] = pair("也", "ADV", "also")
    return stop(statement(copula_clause(subject, parts, verb="是", denial=denial)))


def location(speaker: Speaker) -> Phrase:
    """Say where someone is: 他妈妈现在在厨房里。"""
    subject = speaker.subject(is_definite=True)
    is_at = pair("在", "VERB", english_be(subject.agreement))
    place = place_phrase(speaker.pick(places_of("room work outdoors eating shop")))
    units = is_at.source[0].units + place.source[0].units
    at = Phrase((Word("在", units, "VERB"), *place.source[1:]))
    now = literal("现在/NOUN/now") if speaker.happens(0.4) else NOTHING
    who = subject.phrase("subject")
    return stop(weave([who, now, at], [who, is_at, place, now]))


def topic(speaker: Speaker) -> Phrase:
    """Put the object first: 这本小说我看过。 English leaves it in its place."""
    verb = speaker.pick(HANDLED_VERBS)
    noun = speaker.pick([n for n in nouns_of(verb.object) if "person" not in n.kinds.split()])
    known = NounPhrase(noun, speaker.pick((THIS, THAT)), None).phrase("object")
    people: tuple[Nominal, ...] = (WO, WO, NamePhrase(speaker.pick(PEOPLE)))
    subject = speaker.pick(people)
    mood = Tense.PERFECT if verb.takes_guo and speaker.happens(0.7) else Tense.PAST
    given = {Role.OBJECT: target_of(known)}
    clause = draft(speaker, verb, subject, mood, given=given, is_short=True)
    return stop(Phrase(known.source) + statement(clause))


def existence(speaker: Speaker) -> Phrase:
    """Say what there is: 公园里有很多孩子。"""
    if speaker.happens(0.5):
        where = place_as_subject(speaker.pick(places_of("outdoors study eating shop awaited")))
        nouns = nouns_of("crowd job")
    else:
        table = NounPhrase(speaker.pick(nouns_of("furniture")), BARE).phrase("object")
        side = speaker.pick(SIDES)
        at = pair(side[0], "ADP", side[1])
        where = Phrase(table.source + at.source, at.target + table.target)
        nouns = nouns_of("small fruit" if side[0] == "上" else "pet toy small")
    noun = speaker.pick(nouns)
    amount = speaker.pick((ONE_OF, speaker.number(), MANY))
    adjective = speaker.adjective(noun) if speaker.happens(0.3) else None
    nominal = NounPhrase(noun, amount, adjective)
    there = pair("有", "VERB", "there are" if nominal.is_plural else "there is")
    what = nominal.phrase("object")
    return stop(weave([where, there, what], [there, what, where]))


def age(speaker: Speaker) -> Phrase:
    """Say how old someone is: 小明今年十二岁。"""
    subject = _somebody(speaker)
    chinese, spelled = speaker.big_number()
    parts = {Role.PREDICATE: pair(f"{chinese}岁", "NUM", f"{spelled} years old")}
    if speaker.happens(0.5):
        parts[Role.TIME] = literal("今年/NOUN/this_year")
    return stop(statement(copula_clause(subject, parts)))


def price(speaker: Speaker) -> Phrase:
    """Say what someone paid: 小明花了三百块买了一件衬衫。"""
    noun = speaker.pick([n for n in nouns_of("goods") if n.container == ""])
    chinese, spelled = speaker.big_number()
    if speaker.happens(0.5):
        hundreds = speaker.number()
        chinese, spelled = hundreds.chinese + "百", hundreds.english + " hundred"
    spent, on = pair("花", "VERB", "spent"), pair("买", "VERB", "on")
    money = pair(f"{chinese}块", "NUM", f"{spelled} yuan")
    subject = speaker.subject(is_definite=True).phrase("subject")
    bought = NounPhrase(noun, ONE_OF, speaker.adjective(noun) if speaker.happens(0.4) else None)
    paid = subject + spent + silent("了", "AUX", spent) + money
    return stop(paid + on + silent("了", "AUX", on) + bought.phrase("object"))


def weather(speaker: Speaker) -> Phrase:
    """Speak about the weather in a city: 昨天北京的天气很冷。"""
    city = NamePhrase(speaker.pick(CITIES)).phrase("object")
    if speaker.happens(0.4):
        time = speaker.past_time()
        rain = pair(*speaker.pick((("下雨", "VERB", "it rained"), ("下雪", "VERB", "it snowed"))))
        fell = rain + silent("了", "AUX", rain)
        at = Phrase(target=english_words("in", city.source[0].units))
        return stop(weave([time, city, fell], [fell, at, city, time]))
    noun, of = pair("天气", "NOUN", "the weather"), pair("的", "PART", "in")
    subject = Spelled(weave([city, of, noun], [noun, of, city]))
    is_past = speaker.happens(0.5)
    time = speaker.past_time() if is_past else literal("今天/NOUN/today")
    clause = described(speaker, subject, speaker.pick(WEATHERS), time=time, is_past=is_past)
    return stop(statement(clause, is_time_first=speaker.happens(0.6)))


def request(speaker: Speaker) -> Phrase:
    """Ask someone to do something, or not to: 请打开窗户, 请不要在图书馆里吃饭."""
    please = pair("请", "VERB", "please")
    if speaker.happens(0.4):
        verb = speaker.pick(FORBIDDEN)
        dont, doing = pair("不要", "AUX", "do not"), pair(verb.chinese, "VERB", verb.english)
        where = place_phrase(speaker.pick(places_of("study work sight shop")))
        return stop(weave([please, dont, where, doing], [please, dont, doing, where]))
    asked = {Role.TIME: NOTHING}
    clause = draft(
        speaker, speaker.pick(REQUESTED), NI, WILL, given=asked, is_short=True, denial=""
    )
    chinese = Phrase(clause.chinese().source[1:])  # without 会
    return stop(weave([please, chinese], [please, Phrase(target=clause.rest), *clause.after()]))


def phone(speaker: Speaker) -> Phrase:
    """Call someone: 小明昨天给妈妈打电话了。"""
    subject = speaker.subject(is_definite=True)
    called = speaker.other_person(subject).phrase("object")
    moods: tuple[Mood, ...] = (Tense.PRESENT, Tense.PAST, Tense.PAST, WILL)
    parts = {
        Role.BENEFIT: Phrase(silent("给", "ADP", called).source + called.source, called.target)
    }
    clause = draft(speaker, PHONE, subject, speaker.pick(moods), given=parts)
    return stop(statement(clause, is_time_first=_leads_with_time(speaker, clause)))


RULES: tuple[tuple[int, Rule], ...] = (
    (30, plain),
    (7, description),
    (4, comparison),
    (3, identity),
    (2, location),
    (4, topic),
    (4, existence),
    (1, age),
    (1, price),
    (2, weather),
    (2, request),
    (2, phone),
    (8, yes_no_question),
    (3, who_question),
    (5, object_question),
    (7, adverb_question),
    (1, price_question),
    (7, because),
    (4, if_then),
    (4, whenever),
    (2, at_once),
    (2, contrast),
    (6, report),
    (4, wondering),
    (5, subject_relative),
    (8, object_relative),
    (3, chain),
)
WEIGHTED = tuple(rule for weight, rule in RULES for _ in range(weight))


def sentence(speaker: Speaker) -> Phrase:
    """Make a sentence of a random kind, final punctuation included."""
    while True:
        spoken = speaker.pick(WEIGHTED)(speaker)
        if not _names_twice(spoken):
            return spoken


# The parts of long sentences, and the words that join them.
STATEMENTS = (
    *(plain, plain, plain, description, comparison, existence, topic, weather, report, report),
    *(subject_relative, subject_relative, object_relative, object_relative, object_relative),
)
OPENINGS = (*STATEMENTS, because, because, whenever, if_then, chain)
LINKS = (("而且", "CCONJ", "and"), ("但是", "CCONJ", "but"))


def long_sentence(speaker: Speaker, longest: int) -> Phrase:
    """Make a sentence longer than `longest` words on both sides."""
    links = LINKS if speaker.happens(0.5) else LINKS[::-1]

    def part(place: int) -> Phrase:
        if place == 0:
            return speaker.pick(OPENINGS)(speaker)
        return comma() + pair(*links[place % 2]) + speaker.pick(STATEMENTS)(speaker)

    while True:
        phrase = joined(part, longest)
        if not _names_twice(phrase):
            return phrase


def _names_twice(phrase: Phrase) -> bool:
    """Return whether someone is named twice where a speaker would say he or she."""
    names = [word.text for word in phrase.source if word.entity == "PER"]
    return len(set(names)) < len(names)


def _leads_with_time(speaker: Speaker, clause: Clause) -> bool:
    return bool(clause.parts.get(Role.TIME, NOTHING).source) and speaker.happens(0.4)


def _somebody(speaker: Speaker) -> Nominal:
    """Choose a single person by name, as mine or yours, or as the speaker himself."""
    if speaker.happens(0.2):
        return WO
    if speaker.happens(0.6):
        return NamePhrase(speaker.pick(PEOPLE))
    return NounPhrase(speaker.pick(nouns_of("kin")), BARE, None, speaker.owner())


def _compared(speaker: Speaker) -> tuple[Nominal, Nominal, Adjective]:
    """Choose two things or people, and the adjective to compare them by."""
    if speaker.happens(0.5):
        first, second = speaker.two((*PEOPLE, *PEOPLE[:4]))
        one: Nominal = NamePhrase(first)
        other: Nominal = NamePhrase(second) if speaker.happens(0.6) else _relative_of(speaker)
        adjectives = [a for a in ADJECTIVES if {"person", "adult"} & set(a.kinds.split())]
        return one, other, speaker.pick((HEIGHT, HEIGHT, *adjectives))
    noun = speaker.pick([n for n in nouns_of("goods food text") if _measurable(n)])
    return NounPhrase(noun, THIS), NounPhrase(noun, THAT), speaker.pick(_measurable(noun))


def _relative_of(speaker: Speaker) -> Nominal:
    return NounPhrase(speaker.pick(nouns_of("kin")), BARE, None, speaker.pick((WO, NI)))


def _measurable(noun: Noun) -> list[Adjective]:
    return [a for a in adjectives_for(noun) if not a.is_color]
