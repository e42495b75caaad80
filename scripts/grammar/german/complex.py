"""Sentences of more than one clause in German, one function for each kind."""

from __future__ import annotations

from dataclasses import replace

from scripts.grammar.german.clauses import (
    Clause,
    Role,
    Tense,
    after_clause,
    statement,
    subordinate,
    verb_group,
)
from scripts.grammar.german.drafts import (
    PERSONAL,
    choose_mood,
    described,
    draft,
    predicative,
    random_clause,
)
from scripts.grammar.german.lexicon import Adjective, CaseName, Noun, Verb, adjectives_for, nouns_of
from scripts.grammar.german.phrases import (
    DER,
    DU,
    EIN,
    ER,
    ICH,
    IHR,
    WIR,
    Nominal,
    NounPhrase,
    Pronoun,
    RelativePronoun,
    end,
)
from scripts.grammar.german.speaker import Speaker, taken_up
from scripts.grammar.german.verbs import (
    ASKING,
    DAILY_VERBS,
    DATIVE_VERBS,
    PLEASANT_VERBS,
    SAYING,
    WANT,
    verbs_for_object,
    verbs_for_subject,
)
from scripts.grammar.shared.words import Phrase, literal, pair

ACCUSATIVE: CaseName = "accusative"
DATIVE: CaseName = "dative"
FEELINGS = tuple(a for a in PERSONAL if a.english in ("tired", "sick", "sad", "happy", "hungry"))
WEATHER = Noun("Wetter", "n", "", "weather", "", number="mass")
WEATHERS = (Adjective("schlecht", "bad", ""), Adjective("warm", "warm", ""))


def because(speaker: Speaker) -> Phrase:
    """Give a reason before or after: Der Mann schläft, weil er müde ist."""
    word = speaker.pick(("weil/SCONJ/because", "weil/SCONJ/because", "obwohl/SCONJ/although"))
    verb = speaker.pick(DAILY_VERBS)
    subject = speaker.subject(verb.subject, is_definite=True)
    mood = choose_mood(speaker, verb)
    again = taken_up(subject)
    is_past = mood is Tense.PAST
    if again is None or speaker.happens(0.2):
        cause = _weather(speaker, is_past=is_past)
        main = draft(speaker, verb, subject, mood)
        return (
            _main_first(main, word, cause)
            if speaker.happens(0.6)
            else _main_last(word, cause, main)
        )
    if speaker.happens(0.6):
        main = draft(speaker, verb, subject, mood)
        return _main_first(main, word, _feeling(speaker, again, is_past=is_past))
    cause = _feeling(speaker, subject, is_past=is_past)
    return _main_last(word, cause, draft(speaker, verb, again, mood))


def whenever(speaker: Speaker) -> Phrase:
    """Begin with wenn or bevor: Wenn Paul müde ist, trinkt er Kaffee."""
    verb, other = speaker.pick(DAILY_VERBS), speaker.pick(DAILY_VERBS)
    subject, again = _someone(speaker, verb)
    main = draft(speaker, verb, again, Tense.PRESENT, may_deny=False, is_short=True)
    if speaker.happens(0.6):
        return _main_last("wenn/SCONJ/when", _feeling(speaker, subject), main)
    earlier = draft(speaker, other, subject, Tense.PRESENT, may_deny=False, is_short=True)
    return _main_last("bevor/SCONJ/before", earlier, main)


def report(speaker: Speaker) -> Phrase:
    """Report with dass or ob: Der Mann sagt, dass das Kind schläft."""
    is_asking = speaker.happens(0.25)
    saying = ASKING if is_asking else speaker.pick(SAYING)
    subject, _ = _someone(speaker, saying)
    tense = Tense.PAST if saying in (ASKING, SAYING[0]) and speaker.happens(0.4) else Tense.PRESENT
    parts: dict[Role, Phrase] = {}
    main = Clause(
        subject.phrase("nominative"), verb_group(saying, tense, subject.agreement, parts), parts
    )
    said = described(speaker) if speaker.happens(0.2) else random_clause(speaker)
    word = "ob/SCONJ/whether" if is_asking else "dass/SCONJ/that"
    return _main_first(main, word, said)


def subject_relative(speaker: Speaker) -> Phrase:
    """Describe a noun by what it does: Der Mann, der im Park schläft, kennt mich."""
    head = _head(speaker, "person animal")
    verb = speaker.pick(verbs_for_subject(head.noun))
    mood = choose_mood(speaker, verb)
    relative = draft(speaker, verb, RelativePronoun(head), mood, is_short=True)
    return _with_relative(speaker, head, subordinate(relative))


def object_relative(speaker: Speaker) -> Phrase:
    """Describe a noun by what is done to it: Das Buch, das der Mann liest, ist alt."""
    head = _head(speaker, "goods text clothes person animal baked cooked")
    is_thing = not {"person", "animal"} & set(head.noun.kinds.split())
    verb = speaker.pick(verbs_for_object(head.noun))
    role, case = Role.OBJECT, ACCUSATIVE
    if not is_thing and "person" in head.noun.kinds.split() and speaker.happens(0.5):
        verb = speaker.pick([v for v in DATIVE_VERBS if v.subject == "person"])
        role, case = Role.RECEIVER, DATIVE
    # "die Frau, die das Kind sucht" could be read both ways, "die ich suche" cannot.
    subject = speaker.person() if is_thing else speaker.pick((ICH, DU, ER, WIR, IHR))
    given = {role: RelativePronoun(head).phrase(case)}
    mood = choose_mood(speaker, verb)
    relative = draft(speaker, verb, subject, mood, given=given, is_short=True)
    return _with_relative(speaker, head, subordinate(relative, role))


def two_clauses(speaker: Speaker) -> Phrase:
    """Join main clauses: Der Mann kocht und die Frau liest ein Buch."""
    first, second = (_short_clause(speaker) for _ in range(2))
    if speaker.happens(0.6):
        link = pair("und", "CCONJ", "and")
    else:
        link = pair(",", "PUNCT", ",") + pair("aber", "CCONJ", "but")
    return end(statement(first) + link + statement(second), ".")


def _someone(speaker: Speaker, verb: Verb) -> tuple[Nominal, Pronoun]:
    """Choose a definite subject that a pronoun can refer back to, and the pronoun."""
    while True:
        subject = speaker.subject(verb.subject, is_definite=True)
        again = taken_up(subject)
        if again:
            return subject, again


def _comma() -> Phrase:
    """Make a comma that only German writes."""
    return pair(",", "PUNCT", "")


def _main_first(main: Clause, word: str, other: Clause) -> Phrase:
    return end(statement(main) + _comma() + literal(word) + subordinate(other), ".")


def _main_last(word: str, other: Clause, main: Clause) -> Phrase:
    both = pair(",", "PUNCT", ",")
    return end(literal(word) + subordinate(other) + both + after_clause(main), ".")


def _short_clause(speaker: Speaker) -> Clause:
    verb = speaker.pick(DAILY_VERBS)
    subject = speaker.subject(verb.subject, is_definite=True)
    return draft(speaker, verb, subject, Tense.PRESENT, is_short=True)


def _feeling(speaker: Speaker, subject: Nominal, *, is_past: bool = False) -> Clause:
    """Say how someone feels, or what they want to do."""
    if isinstance(subject, NounPhrase):  # not: when the tired boy is tired
        subject = replace(subject, adjective=None)
    if is_past or speaker.happens(0.7):
        return predicative(speaker, subject, speaker.pick(FEELINGS), is_past=is_past)
    verb = speaker.pick(PLEASANT_VERBS)
    return draft(speaker, verb, subject, WANT, is_short=True, may_deny=False)


def _weather(speaker: Speaker, *, is_past: bool) -> Clause:
    weather = NounPhrase(WEATHER)
    return predicative(speaker, weather, speaker.pick(WEATHERS), is_past=is_past)


def _head(speaker: Speaker, kinds: str) -> NounPhrase:
    noun = speaker.pick([n for n in nouns_of(kinds) if n.number != "single"])
    return speaker.noun_phrase(noun, (DER, DER, DER, EIN), describe=0.15, plural=0.25, owners=())


def _with_relative(speaker: Speaker, head: NounPhrase, relative: Phrase) -> Phrase:
    """Put a noun phrase with a relative clause into a main clause, first or last."""
    full = replace(head, after=_comma() + relative + _comma())
    verbs = [v for v in verbs_for_object(head.noun) if not v.particle and "person" in v.subject]
    if verbs and speaker.happens(0.4):
        verb = speaker.pick(verbs)
        subject = speaker.subject(verb.subject, is_definite=True)
        given = {Role.OBJECT: full.phrase("accusative")}
        clause = draft(speaker, verb, subject, Tense.PRESENT, given=given, is_short=True)
        return end(statement(clause), ".")
    doings = verbs_for_subject(head.noun)
    if doings and speaker.happens(0.5):
        verb = speaker.pick(doings)
        main = draft(speaker, verb, full, choose_mood(speaker, verb), is_short=True)
    else:
        full = replace(full, adjective=None)
        adjective = speaker.pick(adjectives_for(head.noun))
        main = predicative(speaker, full, adjective, is_past=speaker.happens(0.2))
    return end(statement(main), ".")
