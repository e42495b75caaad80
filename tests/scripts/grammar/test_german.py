"""Forms and structures of the German grammar, each against what a speaker would say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scripts.grammar.corpus import as_pair
from scripts.grammar.german import clauses, phrases
from scripts.grammar.german.clauses import Clause, Role, Tense, copula_group, nicht, verb_group
from scripts.grammar.german.forms import present
from scripts.grammar.german.lexicon import (
    ADJECTIVES,
    NAMES,
    NOUNS,
    CaseName,
    Noun,
    Preposition,
    Verb,
)
from scripts.grammar.german.phrases import (
    DER,
    DIESER,
    EIN,
    ER,
    ICH,
    IHR,
    JEDER,
    KEIN,
    KEIN_MASS,
    MEIN,
    SIE,
    THEY,
    VIELE,
    WAS,
    WELCHER,
    WER,
    WIR,
    ZERO,
    Nominal,
    NounPhrase,
    RelativePronoun,
    end,
    prepositional,
)
from scripts.grammar.german.verbs import MODALS, VERBS
from scripts.grammar.shared.english import english_past, english_present, english_progressive
from scripts.grammar.shared.names import NamePhrase
from scripts.grammar.shared.words import Phrase, literal, pair


def _noun(german: str) -> Noun:
    return next(noun for noun in NOUNS if noun.german == german)


def _verb(infinitive: str) -> Verb:
    return next(verb for verb in VERBS if verb.infinitive == infinitive)


def _german(phrase: Phrase) -> str:
    return " ".join(word.text for word in phrase.source)


@pytest.mark.parametrize(
    ("infinitive", "forms"),
    [
        ("kaufen", "kaufe kaufst kauft kaufen kauft kaufen"),
        ("essen", "esse isst isst essen esst essen"),
        ("lesen", "lese liest liest lesen lest lesen"),
        ("fahren", "fahre fährst fährt fahren fahrt fahren"),
        ("arbeiten", "arbeite arbeitest arbeitet arbeiten arbeitet arbeiten"),
        ("öffnen", "öffne öffnest öffnet öffnen öffnet öffnen"),
        ("füttern", "füttere fütterst füttert füttern füttert füttern"),
        ("reisen", "reise reist reist reisen reist reisen"),
        ("ein|laden", "lade lädst lädt laden ladet laden"),
        ("putzen", "putze putzt putzt putzen putzt putzen"),
        ("haben", "habe hast hat haben habt haben"),
        ("waschen", "wasche wäschst wäscht waschen wascht waschen"),
        ("lernen", "lerne lernst lernt lernen lernt lernen"),
        ("zurück|kommen", "komme kommst kommt kommen kommt kommen"),
    ],
)
def test_german_verbs_are_conjugated(infinitive: str, forms: str) -> None:
    assert " ".join(present(_verb(infinitive), row) for row in range(6)) == forms


@pytest.mark.parametrize(
    ("verb", "third", "past", "progressive"),
    [
        ("cry", "cries", "cried", "crying"),
        ("watch TV", "watches TV", "watched TV", "watching TV"),
        ("shop", "shops", "shopped", "shopping"),
        ("visit", "visits", "visited", "visiting"),
        ("bake", "bakes", "baked", "baking"),
        ("open", "opens", "opened", "opening"),
        ("answer", "answers", "answered", "answering"),
        ("tidy up", "tidies up", "tidied up", "tidying up"),
        ("listen to", "listens to", "listened to", "listening to"),
    ],
)
def test_regular_english_verbs_are_inflected(
    verb: str, third: str, past: str, progressive: str
) -> None:
    assert english_present(verb, True) == third
    assert english_past(verb) == past
    assert english_progressive(verb) == progressive


@pytest.mark.parametrize(
    ("verb", "progressive"),
    [
        ("sit", "sitting"),
        ("get up", "getting up"),
        ("put on", "putting on"),
        ("lie", "lying"),
        ("see", "seeing"),
        ("run", "running"),
        ("play", "playing"),
        ("throw away", "throwing away"),
    ],
)
def test_irregular_english_verbs_have_a_regular_progressive(verb: str, progressive: str) -> None:
    assert english_progressive(verb) == progressive


@pytest.mark.parametrize(
    ("spelled", "nominative", "accusative", "dative"),
    [
        (("Mann", DER, "alt", False), "der alte Mann", "den alten Mann", "dem alten Mann"),
        (("Mann", DER, None, True), "die Männer", "die Männer", "den Männern"),
        (("Frau", EIN, "jung", False), "eine junge Frau", "eine junge Frau", "einer jungen Frau"),
        (("Kind", EIN, "müde", False), "ein müdes Kind", "ein müdes Kind", "einem müden Kind"),
        (("Hut", EIN, "teuer", False), "ein teurer Hut", "einen teuren Hut", "einem teuren Hut"),
        (("Nachbar", DER, None, False), "der Nachbar", "den Nachbarn", "dem Nachbarn"),
        (("Polizist", EIN, None, False), "ein Polizist", "einen Polizisten", "einem Polizisten"),
        (("Affe", DIESER, None, True), "diese Affen", "diese Affen", "diesen Affen"),
        (("Junge", JEDER, None, False), "jeder Junge", "jeden Jungen", "jedem Jungen"),
        (("Ei", MEIN, "alt", True), "meine alten Eier", "meine alten Eier", "meinen alten Eiern"),
        (("Milch", ZERO, "kalt", False), "kalte Milch", "kalte Milch", "kalter Milch"),
        (("Käse", ZERO, "frisch", False), "frischer Käse", "frischen Käse", "frischem Käse"),
        (("Kuh", VIELE, "alt", True), "viele alte Kühe", "viele alte Kühe", "vielen alten Kühen"),
        (("Tür", WELCHER, None, False), "welche Tür", "welche Tür", "welcher Tür"),
        (("Hut", KEIN, "rot", True), "keine roten Hüte", "keine roten Hüte", "keinen roten Hüten"),
        (("Brot", KEIN_MASS, None, False), "kein Brot", "kein Brot", "keinem Brot"),
    ],
)  # fmt: skip
def test_noun_phrases_agree_in_case_gender_and_number(
    spelled: tuple[str, phrases.Determiner, str | None, bool],
    nominative: str,
    accusative: str,
    dative: str,
) -> None:
    german, determiner, quality, is_plural = spelled
    adjective = next((a for a in ADJECTIVES if a.german == quality), None)
    nominal = NounPhrase(_noun(german), determiner, adjective, is_plural)
    assert _german(nominal.phrase("nominative")) == nominative
    assert _german(nominal.phrase("accusative")) == accusative
    assert _german(nominal.phrase("dative")) == dative


# Structures: one hand-written pair for each.

ANNA, PETER = (NamePhrase(next(n for n in NAMES if n.source == g)) for g in ("Anna", "Peter"))
CAN, WILL, WANT, MUST = (
    next(m for m in MODALS if m.english == e) for e in ("can", "will", "want to", "have to")
)
A_BOOK = NounPhrase(_noun("Buch"), EIN)
THE_BOOK = NounPhrase(_noun("Buch"))
THE_MAN = NounPhrase(_noun("Mann"))
THE_APPLE = NounPhrase(_noun("Apfel"))
THE_CHILD = NounPhrase(_noun("Kind"))
THE_CHILDREN = NounPhrase(_noun("Kind"), is_plural=True)
ACC: CaseName = "accusative"
PARK = prepositional(Preposition("in", "dative", "in"), NounPhrase(_noun("Park")))
YESTERDAY, TOMORROW, NOW, OFTEN = (
    literal(word)
    for word in ("gestern/ADV/yesterday", "morgen/ADV/tomorrow", "jetzt/ADV/now", "oft/ADV/often")
)
Parts = dict[Role, Phrase]


def _clause(
    infinitive: str,
    subject: Nominal,
    mood: clauses.Mood,
    parts: Parts,
    is_inverted: bool = False,
) -> Clause:
    group = verb_group(_verb(infinitive), mood, subject.agreement, parts, is_inverted=is_inverted)
    return Clause(subject.phrase("nominative"), group, parts)


def _stated(
    infinitive: str,
    subject: Nominal,
    mood: clauses.Mood,
    parts: Parts,
    front: Role | None = None,
) -> Phrase:
    return end(clauses.statement(_clause(infinitive, subject, mood, parts), front), ".")


def _asked(
    infinitive: str,
    subject: Nominal,
    mood: clauses.Mood,
    parts: Parts,
    front: Role | None = None,
) -> Phrase:
    return end(clauses.question(_clause(infinitive, subject, mood, parts, True), front), "?")


def _that(infinitive: str, subject: Nominal, mood: clauses.Mood, parts: Parts) -> Phrase:
    comma = pair(",", "PUNCT", "")
    main = clauses.statement(_clause("fragen", ICH, Tense.PRESENT, {}))
    said = clauses.subordinate(_clause(infinitive, subject, mood, parts))
    return end(main + comma + literal("ob/SCONJ/whether") + said, ".")


def _related(head: NounPhrase, infinitive: str, subject: Nominal | None, mood: Tense) -> Phrase:
    pronoun = RelativePronoun(head)
    if subject is None:
        relative = clauses.subordinate(_clause(infinitive, pronoun, mood, {}))
    else:
        parts = {Role.OBJECT: pronoun.phrase("accusative")}
        relative = clauses.subordinate(_clause(infinitive, subject, mood, parts), Role.OBJECT)
    comma = pair(",", "PUNCT", "")
    quality = {Role.PREDICATE: pair("alt", "ADJ", "old")}
    full = NounPhrase(head.noun, head.determiner, None, head.is_plural, comma + relative + comma)
    group = copula_group(full.agreement, quality)
    return end(clauses.statement(Clause(full.phrase("nominative"), group, quality)), ".")


def _examples() -> Iterator[tuple[Phrase, str, str]]:
    obj, time = Role.OBJECT, Role.TIME
    apple, book = THE_APPLE.phrase("accusative"), THE_BOOK.phrase("accusative")
    a_book, child = A_BOOK.phrase("accusative"), THE_CHILD.phrase("dative")
    yield (
        _stated("essen", THE_MAN, Tense.PRESENT, {obj: apple}),
        "Der Mann isst den Apfel.",
        "The man eats the apple.",
    )
    yield (
        _stated("kaufen", THE_MAN, Tense.PAST, {obj: a_book, time: YESTERDAY}, time),
        "Gestern hat der Mann ein Buch gekauft.",
        "Yesterday the man bought a book.",
    )
    yield (
        _stated("auf|wachen", SIE, Tense.PAST, {Role.PLACE: PARK}),
        "Sie ist im Park aufgewacht.",
        "She woke up in the park.",
    )
    yield (
        _stated("lesen", WIR, WANT, {obj: book, Role.DENIAL: nicht()}),
        "Wir wollen das Buch nicht lesen.",
        "We do not want to read the book.",
    )
    yield (
        _stated("lesen", ANNA, CAN, {obj: book, Role.DENIAL: nicht()}),
        "Anna kann das Buch nicht lesen.",
        "Anna cannot read the book.",
    )
    yield (
        _stated("an|rufen", ER, Tense.PRESENT, {Role.PRONOUN: ICH.phrase("accusative")}),
        "Er ruft mich an.",
        "He calls me.",
    )
    yield (
        _stated("an|rufen", ER, MUST, {Role.PRONOUN: ICH.phrase("accusative"), time: TOMORROW}),
        "Er muss mich morgen anrufen.",
        "He has to call me tomorrow.",
    )
    yield (
        _stated("ein|schlafen", THE_CHILDREN, Tense.PAST, {}),
        "Die Kinder sind eingeschlafen.",
        "The children fell asleep.",
    )
    yield (
        _stated("geben", ANNA, Tense.PRESENT, {Role.RECEIVER: child, obj: a_book}),
        "Anna gibt dem Kind ein Buch.",
        "Anna gives the child a book.",
    )
    yield (
        _stated("helfen", PETER, Tense.PRESENT, {Role.RECEIVER: child}, Role.RECEIVER),
        "Dem Kind hilft Peter.",
        "Peter helps the child.",
    )
    yield (
        _stated("essen", THE_CHILD, Tense.PRESENT, {obj: apple}, obj),
        "Den Apfel isst das Kind.",
        "The child eats the apple.",
    )
    yield (
        _stated("lesen", PETER, Tense.NOW, {obj: book, time: NOW}, time),
        "Jetzt liest Peter das Buch.",
        "Now Peter is reading the book.",
    )
    yield (
        _stated("lesen", IHR, Tense.FUTURE, {obj: book, time: TOMORROW}),
        "Ihr lest morgen das Buch.",
        "You will read the book tomorrow.",
    )
    yield (
        _stated("lesen", ER, Tense.PRESENT, {obj: NounPhrase(_noun("Buch"), KEIN).phrase(ACC)}),
        "Er liest kein Buch.",
        "He does not read a book.",
    )
    yield (
        _stated("essen", ER, Tense.PRESENT, {obj: NounPhrase(_noun("Brot"), ZERO).phrase(ACC),
                                             Role.LIKING: pair("gern", "ADV", "")}),
        "Er isst gern Brot.",
        "He likes to eat bread.",
    )  # fmt: skip
    yield (
        _stated("singen", THEY, Tense.PRESENT, {Role.FREQUENCY: OFTEN, Role.PLACE: PARK}),
        "Sie singen oft im Park.",
        "They often sing in the park.",
    )
    yield (
        _asked("lesen", THE_MAN, Tense.PAST, {obj: book}),
        "Hat der Mann das Buch gelesen?",
        "Did the man read the book?",
    )
    yield (
        _asked("fern|sehen", ANNA, Tense.PRESENT, {}),
        "Sieht Anna fern?",
        "Does Anna watch TV?",
    )
    yield (
        _asked("essen", THE_CHILD, WILL, {obj: WAS.phrase("accusative")}, obj),
        "Was wird das Kind essen?",
        "What will the child eat?",
    )
    yield (
        _asked("helfen", PETER, Tense.PAST, {Role.RECEIVER: WER.phrase("dative")}, Role.RECEIVER),
        "Wem hat Peter geholfen?",
        "Whom did Peter help?",
    )
    yield (
        _that("an|rufen", THE_MAN, Tense.PRESENT, {Role.PRONOUN: ER.phrase("accusative")}),
        "Ich frage, ob der Mann ihn anruft.",
        "I ask whether the man calls him.",
    )
    yield (
        _that("kaufen", SIE, Tense.PAST, {obj: a_book, time: YESTERDAY}),
        "Ich frage, ob sie gestern ein Buch gekauft hat.",
        "I ask whether she bought a book yesterday.",
    )
    yield (
        _related(THE_MAN, "arbeiten", None, Tense.PRESENT),
        "Der Mann, der arbeitet, ist alt.",
        "The man who works is old.",
    )
    yield (
        _related(NounPhrase(_noun("Hund"), is_plural=True), "kaufen", ICH, Tense.PAST),
        "Die Hunde, die ich gekauft habe, sind alt.",
        "The dogs that I bought are old.",
    )


EXAMPLES = list(_examples())


@pytest.mark.parametrize(
    ("phrase", "source", "target"), EXAMPLES, ids=[source for _, source, _ in EXAMPLES]
)
def test_a_structure_is_built_as_a_speaker_would(phrase: Phrase, source: str, target: str) -> None:
    sentence = as_pair(phrase)
    assert (sentence.source, sentence.target) == (source, target)


def test_links_follow_the_words_through_reordering() -> None:
    parts = {Role.OBJECT: A_BOOK.phrase("accusative"), Role.TIME: YESTERDAY}
    sentence = as_pair(_stated("kaufen", THE_MAN, Tense.PAST, parts))
    # Der Mann hat gestern ein Buch gekauft .  |  The man bought a book yesterday .
    assert sentence.alignment == (
        (0, 0), (1, 1), (2, 2), (3, 5), (4, 3), (5, 4), (6, 2), (7, 6)
    )  # fmt: skip
    assert sentence.source_tags == ("DET", "NOUN", "AUX", "ADV", "DET", "NOUN", "VERB", "PUNCT")


def test_joined_words_keep_both_meanings() -> None:
    parts = {Role.PLACE: PARK, Role.DENIAL: nicht()}
    sentence = as_pair(_stated("schlafen", ANNA, CAN, parts))
    # Anna kann nicht im Park schlafen .  |  Anna cannot sleep in the park .
    assert sentence.alignment == (
        (0, 0), (1, 1), (2, 1), (3, 3), (3, 4), (4, 5), (5, 2), (6, 6)
    )  # fmt: skip
