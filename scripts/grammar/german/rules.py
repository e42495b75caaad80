"""The kinds of sentence of the German grammar, one function each, and how often each is used.

Sentences of more than one clause are in complex.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from scripts.grammar.german.clauses import (
    Clause,
    Role,
    Tense,
    copula_group,
    nicht,
    question,
    statement,
    verb_group,
)
from scripts.grammar.german.complex import (
    because,
    object_relative,
    report,
    subject_relative,
    two_clauses,
    whenever,
)
from scripts.grammar.german.drafts import choose_mood, described, draft, place, random_clause
from scripts.grammar.german.lexicon import NAMES, Verb, nouns_of
from scripts.grammar.german.phrases import (
    EIN,
    VIELE,
    WAS,
    WELCHER,
    WER,
    WIE_VIELE,
    ZERO,
    Nominal,
    Pronoun,
    end,
)
from scripts.grammar.german.speaker import Speaker
from scripts.grammar.german.verbs import (
    COST,
    DAILY_VERBS,
    DATIVE_VERBS,
    LIKE,
    MOVING_VERBS,
    OBJECT_VERBS,
    PLACED_VERBS,
    PLEASANT_VERBS,
    VERBS,
)
from scripts.grammar.shared.long import joined
from scripts.grammar.shared.names import NamePhrase
from scripts.grammar.shared.words import Phrase, literal, pair, weave

Rule = Callable[[Speaker], Phrase]

# Forms that only an accusative or dative can have: such an object may stand before the verb.
MARKED = frozenset({"den", "dem", "diesen", "diesem"})


def plain(speaker: Speaker) -> Phrase:
    """Make a main clause, often with time, place or a marked object in front."""
    clause = random_clause(speaker)
    return end(statement(clause, _front(speaker, clause)), ".")


def description(speaker: Speaker) -> Phrase:
    """Say what something is like: Der Hund ist sehr müde."""
    return end(statement(described(speaker)), ".")


def yes_no_question(speaker: Speaker) -> Phrase:
    """Ask with the verb first: Kauft der Mann das Buch?"""
    if speaker.happens(0.12):
        return end(question(described(speaker, is_asked=True)), "?")
    verb = speaker.pick(VERBS)
    subject = speaker.subject(verb.subject, is_asked=True)
    mood = choose_mood(speaker, verb)
    return end(question(draft(speaker, verb, subject, mood, is_inverted=True, may_deny=False)), "?")


def who_question(speaker: Speaker) -> Phrase:
    """Ask for the subject: Wer hat das Buch gelesen?"""
    verb = speaker.pick(DAILY_VERBS)
    return end(statement(draft(speaker, verb, WER, choose_mood(speaker, verb))), "?")


def object_question(speaker: Speaker) -> Phrase:
    """Ask for the object with was, wen, welches Buch or wie viele Bücher."""
    verb = speaker.pick(OBJECT_VERBS)
    noun = speaker.pick(nouns_of(verb.object))
    wanted: Nominal = WER if "person" in noun.kinds.split() else WAS
    if wanted is WAS and noun.number == "count" and speaker.happens(0.6):
        wanted = speaker.noun_phrase(noun, (WELCHER, WIE_VIELE), describe=0.15, owners=())
        if wanted.determiner is WIE_VIELE:
            wanted = replace(wanted, is_plural=True)
    return _wh_question(speaker, verb, Role.OBJECT, wanted.phrase("accusative"))


def receiver_question(speaker: Speaker) -> Phrase:
    """Ask for the receiver: Wem hilft der Arzt?"""
    return _wh_question(speaker, speaker.pick(DATIVE_VERBS), Role.RECEIVER, WER.phrase("dative"))


def adverb_question(speaker: Speaker) -> Phrase:
    """Ask with wo, wann, warum or wohin."""
    word, role, verbs = speaker.pick(
        (
            ("wo/ADV/where", Role.PLACE, PLACED_VERBS),
            ("wann/ADV/when", Role.TIME, DAILY_VERBS),
            ("warum/ADV/why", Role.CAUSE, VERBS),
            ("wohin/ADV/where", Role.DIRECTION, MOVING_VERBS),
        )
    )
    return _wh_question(speaker, speaker.pick(verbs), role, literal(word))


def liking_to(speaker: Speaker) -> Phrase:
    """Say what someone likes to do, in German with an adverb: Das Kind isst gern Äpfel."""
    verb = speaker.pick(PLEASANT_VERBS)
    parts = {Role.LIKING: pair("gern", "ADV", "")}
    if verb.object:
        nouns = [n for n in nouns_of(verb.object) if n.number == "mass" or n.plural != n.german]
        noun = speaker.noun_phrase(speaker.pick(nouns), (ZERO,), describe=0.2, owners=())
        parts[Role.OBJECT] = noun.phrase("accusative")
    is_question = speaker.happens(0.3)
    subject = speaker.subject(verb.subject, is_asked=is_question)
    clause = draft(speaker, verb, subject, Tense.PRESENT, given=parts, is_inverted=is_question)
    return end(question(clause), "?") if is_question else end(statement(clause), ".")


def pleasing(speaker: Speaker) -> Phrase:
    """Swap subject and object: Das Buch gefällt dem Mann, the man likes the book."""
    thing = speaker.definite(speaker.pick(nouns_of("goods text sight town song pet")))
    person = speaker.other_person(thing, "dative")
    tense = Tense.PAST if speaker.happens(0.3) else Tense.PRESENT
    is_question = speaker.happens(0.2)
    parts = {Role.DENIAL: nicht()} if not is_question and speaker.happens(0.2) else {}
    english = verb_group(LIKE, tense, person.agreement, parts, is_inverted=is_question)
    german = verb_group(LIKE, tense, thing.agreement, parts)
    group = replace(english, finite=replace(english.finite, text=german.finite.text))
    liked, liker = thing.phrase("nominative"), _experiencer(person)
    finite, closing = group.in_main()
    auxiliary, rest = Phrase(target=group.auxiliary), Phrase(target=group.rest)
    denial = list(parts.values())
    if is_question:
        middle = [liker, liked] if isinstance(person, Pronoun) else [liked, liker]
        return end(weave([finite, *middle, closing], [auxiliary, liker, rest, liked]), "?")
    first, last = (liker, liked) if speaker.happens(0.5) else (liked, liker)
    return end(weave([first, finite, last, *denial, closing], [liker, auxiliary, rest, liked]), ".")


def existence(speaker: Speaker) -> Phrase:
    """Say what there is: Im Park gibt es viele Vögel."""
    kinds, places = speaker.pick((("animal", "outdoors"), ("goods", "room"), ("building", "city")))
    noun = speaker.pick(nouns_of(kinds))
    nominal = speaker.noun_phrase(noun, (EIN, VIELE, speaker.number()), owners=())
    there = pair("es", "PRON", "there")
    gives = pair("gibt", "VERB", "are" if nominal.is_plural else "is")
    thing, where = nominal.phrase("accusative"), place(speaker, places)
    if speaker.happens(0.5):
        return end(there + gives + thing + where, ".")
    return end(weave([where, gives, there, thing], [where, there, gives, thing]), ".")


def price(speaker: Speaker) -> Phrase:
    """Say what something costs: Das Fahrrad kostet 90 Euro."""
    subject = speaker.definite(speaker.pick(nouns_of("goods")))
    digits = str(5 * speaker.pick(range(1, 60)))
    money = pair(digits, "NUM", digits) + pair("Euro", "NOUN", "euros")
    return end(
        statement(draft(speaker, COST, subject, Tense.PRESENT, given={Role.OBJECT: money})), "."
    )


def age(speaker: Speaker) -> Phrase:
    """Say how old someone is: Anna ist 12 Jahre alt."""
    subject: Nominal = NamePhrase(speaker.pick(NAMES))
    if speaker.happens(0.5):
        subject = speaker.definite(speaker.pick(nouns_of("adult")), describe=0.1)
    digits = str(speaker.pick(range(20, 90)))
    years = pair(digits, "NUM", digits) + literal("Jahre/NOUN/years alt/ADJ/old")
    parts = {Role.PREDICATE: years}
    group = copula_group(subject.agreement, parts)
    return end(statement(Clause(subject.phrase("nominative"), group, parts)), ".")


RULES: tuple[tuple[int, Rule], ...] = (
    (34, plain),
    (6, description),
    (8, yes_no_question),
    (3, who_question),
    (5, object_question),
    (2, receiver_question),
    (6, adverb_question),
    (8, because),
    (5, whenever),
    (7, report),
    (5, subject_relative),
    (5, object_relative),
    (3, liking_to),
    (3, pleasing),
    (2, existence),
    (1, price),
    (1, age),
    (4, two_clauses),
)
WEIGHTED = tuple(rule for weight, rule in RULES for _ in range(weight))


def sentence(speaker: Speaker) -> Phrase:
    """Make a sentence of a random kind, final punctuation included."""
    return speaker.pick(WEIGHTED)(speaker)


# The parts of long sentences, and the words that join them, which all leave the verb second.
STATEMENTS = (
    *(plain, plain, plain, description, report, report, existence),
    *(subject_relative, subject_relative, object_relative, object_relative),
)
OPENINGS = (*STATEMENTS, because, because, whenever)
LINKS = (("und", "CCONJ", "and"), ("aber", "CCONJ", "but"))


def long_sentence(speaker: Speaker, longest: int) -> Phrase:
    """Make a sentence longer than `longest` words on both sides."""
    links = LINKS if speaker.happens(0.5) else LINKS[::-1]

    def part(place: int) -> Phrase:
        if place == 0:
            return speaker.pick(OPENINGS)(speaker)
        link = pair(",", "PUNCT", ",") + pair(*links[place % 2])
        return link + speaker.pick(STATEMENTS)(speaker)

    return joined(part, longest)


def _front(speaker: Speaker, clause: Clause) -> Role | None:
    """Choose the part before the finite verb; None for the subject."""
    parts = clause.parts
    # gerade usually stays inside the clause.
    may_lead = Role.TIME in parts and parts[Role.TIME].source[0].text != "gerade"
    if may_lead and speaker.happens(0.45):
        return Role.TIME
    # On the table the book lies, in Rome he does not live: hardly English.
    is_bare = Role.DENIAL in parts or parts.keys() == {Role.PLACE}
    if Role.PLACE in parts and not is_bare and speaker.happens(0.25):
        return Role.PLACE
    for role in (Role.OBJECT, Role.RECEIVER, Role.GOAL):
        if role in parts and parts[role].source[0].text in MARKED and speaker.happens(0.25):
            return role
    return None


def _wh_question(speaker: Speaker, verb: Verb, role: Role, asked: Phrase) -> Phrase:
    subject = speaker.subject(verb.subject, is_asked=True)
    mood = choose_mood(speaker, verb)
    if role is Role.TIME and mood in (Tense.NOW, Tense.FUTURE):
        mood = Tense.PAST
    clause = draft(speaker, verb, subject, mood, given={role: asked}, is_inverted=True)
    return end(question(clause, role), "?")


def _experiencer(person: Nominal) -> Phrase:
    """Make a dative that English turns into a subject: mir, I."""
    dative, nominative = person.phrase("dative"), person.phrase("nominative")
    source = tuple(
        replace(word, units=same.units)
        for word, same in zip(dative.source, nominative.source, strict=True)
    )
    return Phrase(source, nominative.target)
