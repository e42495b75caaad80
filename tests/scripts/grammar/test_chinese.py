"""The Chinese grammar: measure words, word order, segmentation, each against a speaker."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from jtrans.corpora.catalogue.load import find_entry, load_built_in
from scripts.grammar.chinese import clauses as clauses
from scripts.grammar.chinese.clauses import Role, asks, clause_of, copula_clause, stop
from scripts.grammar.chinese.drafts import accompanied
from scripts.grammar.chinese.lexicon import (
    ADJECTIVES,
    NOUNS,
    PEOPLE,
    PLACES,
    Adjective,
    Noun,
    spell_number,
)
from scripts.grammar.chinese.phrases import (
    BARE,
    GENERIC,
    HOW_MANY,
    MANY,
    NI,
    ONE_OF,
    SHEI,
    SHENME,
    TA_HE,
    THAT,
    THESE,
    THIS,
    WO,
    Determiner,
    Nominal,
    NounPhrase,
    number,
    place_phrase,
    silent,
    source_of,
    target_of,
    together,
)
from scripts.grammar.chinese.verbs import CAN, KNOW, VERBS, WANT, WILL, Mood, Tense, Verb
from scripts.grammar.corpus import GrammarPair, as_pair, generate
from scripts.grammar.shared.names import NamePhrase
from scripts.grammar.shared.words import NOTHING, Phrase, literal, pair


@pytest.fixture(scope="module")
def pairs() -> list[GrammarPair]:
    return generate(3000, 11, "zh-en")


def _noun(chinese: str) -> Noun:
    return next(noun for noun in NOUNS if noun.chinese == chinese)


def _verb(chinese: str) -> Verb:
    return next(verb for verb in VERBS if verb.chinese == chinese)


def _adjective(chinese: str | None) -> Adjective | None:
    return next((a for a in ADJECTIVES if a.chinese == chinese), None)


def _words(phrase: Phrase) -> tuple[str, str]:
    chinese = "".join(word.text for word in phrase.source)
    return chinese, " ".join(word.text for word in phrase.target)


# The corpus.


def test_chinese_is_written_without_spaces_and_with_its_own_marks(pairs: list[GrammarPair]) -> None:
    for sentence in pairs:
        assert sentence.source == "".join(sentence.source_words)
        characters = sentence.source.translate(dict.fromkeys(map(ord, "。？，")))
        assert all("\u4e00" <= character <= "\u9fff" for character in characters)
        assert sentence.source[-1] + sentence.target[-1] in ("。.", "？?")


def test_measure_words_are_those_of_their_nouns(pairs: list[GrammarPair]) -> None:
    measures = {noun.measure for noun in NOUNS}
    of_noun = {noun.chinese: noun.measure for noun in NOUNS} | {"小时": "个", "周末": "个"}
    checked = 0
    for sentence in pairs:
        words = list(zip(sentence.source_words, sentence.source_tags, strict=True))
        for place, (word, tag) in enumerate(words):
            is_joined = tag in ("DET", "NUM") and len(word) == 2 and word[-1] in measures
            is_apart = tag == "NOUN" and word in measures
            if is_joined or is_apart:
                noun = next(text for text, other in words[place + 1 :] if other == "NOUN")
                assert of_noun[noun] == word[-1], sentence
                checked += 1
    assert checked > 1000


def test_question_words_stay_where_the_answer_would_be(pairs: list[GrammarPair]) -> None:
    asked = [sentence for sentence in pairs if sentence.target.startswith("What ")]
    assert len(asked) > 30
    assert all("什么" in sentence.source_words[2:] for sentence in asked)


def test_places_and_company_come_before_the_verb_and_not_in_english(
    pairs: list[GrammarPair],
) -> None:
    checked = 0
    for sentence in pairs:
        if sentence.source_words.count("一起") == 1 and sentence.source_words.count("的") == 0:
            place = sentence.source_words.index("一起")
            with_places = [t for s, t in sentence.alignment if s == place]
            verb = next(
                i for i, tag in enumerate(sentence.source_tags) if i > place and tag == "VERB"
            )
            english_verb = [t for s, t in sentence.alignment if s == verb]
            assert max(english_verb) < min(with_places), sentence
            checked += 1
    assert checked > 20


def test_a_segmenter_mostly_finds_the_words_of_the_grammar(pairs: list[GrammarPair]) -> None:
    from jtrans.text.segment import Jieba

    def ends(words: tuple[str, ...] | list[str]) -> set[tuple[int, int]]:
        places = [sum(map(len, words[:i])) for i in range(len(words) + 1)]
        return set(pairwise(places))

    segmenter = Jieba("zh")
    ours = [ends(sentence.source_words) for sentence in pairs[:1000]]
    theirs = [ends(segmenter.segment(sentence.source)) for sentence in pairs[:1000]]
    both = sum(len(a & b) for a, b in zip(ours, theirs, strict=True))
    assert 2 * both / sum(len(a) + len(b) for a, b in zip(ours, theirs, strict=True)) > 0.97
    assert sum(a == b for a, b in zip(ours, theirs, strict=True)) > 870


def test_nobody_is_named_twice_in_a_sentence(pairs: list[GrammarPair]) -> None:
    for sentence in pairs:
        labelled = zip(sentence.source_words, sentence.source_entities, strict=True)
        names = [word for word, entity in labelled if entity == "PER"]
        assert len(names) == len(set(names)), sentence


def test_the_catalogue_knows_the_corpus_and_its_sizes() -> None:
    entry = find_entry("grammar-zh-en")
    corpus = load_built_in(entry.name)
    assert (corpus.name, corpus.languages) == (entry.name, ("zh", "en"))
    assert {name: len(text) for name, text in corpus.splits.items()} == dict(entry.sentences)


# Words and noun phrases.


@pytest.mark.parametrize(
    ("value", "chinese", "english"),
    [
        (11, "十一", "eleven"),
        (20, "二十", "twenty"),
        (35, "三十五", "thirty-five"),
        (79, "七十九", "seventy-nine"),
    ],
)
def test_numbers_are_spelled_in_both_languages(value: int, chinese: str, english: str) -> None:
    assert spell_number(value) == (chinese, english)


@pytest.mark.parametrize(
    ("chinese", "determiner", "quality", "expected"),
    [
        ("书", THIS, None, ("这本书", "this book")),
        ("书", ONE_OF, "有意思", ("一本有意思的书", "an interesting book")),
        ("裙子", THAT, "红色", ("那条红色的裙子", "that red skirt")),
        ("汽车", number("三", "three"), "新", ("三辆新汽车", "three new cars")),
        ("咖啡", number("两", "two"), None, ("两杯咖啡", "two cups of coffee")),
        ("牛奶", number("四", "four"), None, ("四杯牛奶", "four glasses of milk")),
        ("绿茶", ONE_OF, None, ("一杯绿茶", "a cup of green tea")),
        ("咖啡", MANY, None, ("很多咖啡", "a lot of coffee")),
        ("孩子", MANY, None, ("很多孩子", "many children")),
        ("手表", GENERIC, None, ("手表", "watches")),
        ("小狗", THESE, "可爱", ("这些可爱的小狗", "these cute puppies")),
        ("窗户", HOW_MANY, None, ("几扇窗户", "how many windows")),
        ("经理", BARE, None, ("经理", "the manager")),
        ("鸡蛋", ONE_OF, None, ("一个鸡蛋", "an egg")),
    ],
)
def test_noun_phrases_have_measure_word_and_article(
    chinese: str, determiner: Determiner, quality: str | None, expected: tuple[str, str]
) -> None:
    nominal = NounPhrase(_noun(chinese), determiner, _adjective(quality))
    assert _words(nominal.phrase("object")) == expected


def test_owners_drop_their_particle_before_kin_and_before_another() -> None:
    mother, friend, book = _noun("妈妈"), _noun("朋友"), _noun("书")
    ming = NamePhrase(PEOPLE[0])
    examples = {
        NounPhrase(mother, BARE, None, WO): ("我妈妈", "my mother"),
        NounPhrase(book, BARE, None, TA_HE): ("他的书", "his book"),
        NounPhrase(friend, BARE, _adjective("聪明"), TA_HE): ("他聪明的朋友", "his smart friend"),
        NounPhrase(book, BARE, _adjective("新"), TA_HE): ("他的新书", "his new book"),
        NounPhrase(mother, BARE, None, ming): ("小明的妈妈", "Xiaoming 's mother"),
    }
    for nominal, expected in examples.items():
        assert _words(nominal.phrase("subject")) == expected


# Structures: one hand-written pair for each.

MING = NamePhrase(PEOPLE[0])
BOOK = _noun("书")
Parts = dict[Role, Phrase]


def _clause(
    chinese: str, subject: Nominal, mood: Mood, parts: Parts, **options: object
) -> clauses.Clause:
    return clause_of(_verb(chinese), subject, mood, parts, **options)  # type: ignore[arg-type]


def _said(chinese: str, subject: Nominal, mood: Mood, parts: Parts, denial: str = "") -> Phrase:
    return stop(clauses.statement(_clause(chinese, subject, mood, parts, denial=denial)))


def _park() -> Phrase:
    return place_phrase(next(place for place in PLACES if place.chinese == "公园"))


def _examples() -> Iterator[tuple[Phrase, str, str]]:
    obj, time = Role.OBJECT, Role.TIME
    yesterday, tomorrow = literal("昨天/NOUN/yesterday"), literal("明天/NOUN/tomorrow")
    books = NounPhrase(BOOK, GENERIC).phrase("object")
    apples = NounPhrase(_noun("苹果"), GENERIC).phrase("object")
    a_book = NounPhrase(BOOK, ONE_OF).phrase("object")
    bought: Parts = {obj: a_book, time: yesterday}
    yield (
        _said("买", MING, Tense.PAST, bought),
        "小明昨天买了一本书。",
        "Xiaoming bought a book yesterday.",
    )
    yield (
        stop(clauses.statement(_clause("买", MING, Tense.PAST, bought), is_time_first=True)),
        "昨天小明买了一本书。",
        "Yesterday Xiaoming bought a book.",
    )
    yield (
        _said("买", MING, Tense.PAST, {obj: books}, "not"),
        "小明没有买书。",
        "Xiaoming did not buy books.",
    )
    yield (
        _said("看", MING, Tense.PERFECT, {obj: books}),
        "小明看过书。",
        "Xiaoming has read books.",
    )
    yield (
        _said("吃", MING, Tense.PERFECT, {obj: apples}, "never"),
        "小明从来没有吃过苹果。",
        "Xiaoming has never eaten apples.",
    )
    yield (
        _said("看", TA_HE, Tense.PROGRESSIVE, {obj: books}),
        "他正在看书。",
        "He is reading books.",
    )
    yield (
        _said("看", TA_HE, Tense.PRESENT, {obj: books}, "not"),
        "他不看书。",
        "He does not read books.",
    )
    yield (
        _said("有", TA_HE, Tense.PRESENT, {obj: books}, "not"),
        "他没有书。",
        "He does not have books.",
    )
    yield (
        _said("看", WO, WILL, {obj: books, time: tomorrow}, "not"),
        "我明天不会看书。",
        "I will not read books tomorrow.",
    )
    yield (
        _said("看", TA_HE, WANT, {obj: books}, "not"),
        "他不想看书。",
        "He does not want to read books.",
    )
    yield _said("看", TA_HE, CAN, {obj: books}, "not"), "他不能看书。", "He cannot read books."
    yield (
        _said("跑步", MING, Tense.PRESENT, {
            Role.PLACE: _park(), Role.COMPANY: accompanied(WO.phrase("object")),
            Role.ADVERB: literal("经常/ADV/often"),
        }),
        "小明经常跟我一起在公园里跑步。",
        "Xiaoming often runs with me in the park.",
    )  # fmt: skip
    asked = _clause("买", NI, Tense.PAST, bought, is_inverted=True)
    yield (
        asks(clauses.question(asked), with_ma=True),
        "你昨天买了一本书吗？",
        "Did you buy a book yesterday?",
    )
    what = SHENME.phrase("object")
    asked = _clause("买", NI, Tense.PAST, {obj: source_of(what), time: yesterday}, is_inverted=True)
    yield (
        asks(clauses.question(asked, target_of(what)), with_ma=False),
        "你昨天买了什么？",
        "What did you buy yesterday?",
    )
    who = _clause("买", SHEI, Tense.PAST, bought)
    yield (
        asks(clauses.statement(who), with_ma=False),
        "谁昨天买了一本书？",
        "Who bought a book yesterday?",
    )
    why = {Role.CAUSE: literal("为什么/ADV/why")}
    asked = _clause("跑步", NI, Tense.PRESENT, {Role.CAUSE: source_of(why[Role.CAUSE])},
                    is_inverted=True, denial="not")  # fmt: skip
    yield (
        asks(clauses.question(asked, target_of(why[Role.CAUSE])), with_ma=False),
        "你为什么不跑步？",
        "Why do you not run?",
    )
    where = together("在/ADP 哪里/PRON", "where")
    lives = _clause("住", TA_HE, Tense.PRESENT, {Role.SEAT: source_of(where)})
    knows = clauses.statement(clause_of(KNOW, WO, Tense.PRESENT, {}, denial="not"))
    yield (
        stop(knows + clauses.embedded_question(lives, target_of(where))),
        "我不知道他住在哪里。",
        "I do not know where he lives.",
    )
    gap = _clause("买", WO, Tense.PAST, {obj: NOTHING, time: yesterday}, drops_le=True)
    full = NounPhrase(BOOK, BARE, relative=clauses.relative(gap, "that"))
    new: Parts = {Role.PREDICATE: pair("新", "ADJ", "new")}
    yield (
        stop(clauses.statement(copula_clause(full, new, degree=pair("很", "ADV", "")))),
        "我昨天买的书很新。",
        "The book that I bought yesterday is new.",
    )
    gap = _clause(
        "买", NounPhrase(_noun("女孩")), Tense.PAST, {obj: a_book, time: yesterday}, drops_le=True
    )
    girl = NounPhrase(_noun("女孩"), THAT, relative=clauses.relative(gap, "who", of_subject=True))
    yield (
        _said("跑步", girl, Tense.PAST, {}),
        "昨天买一本书的那个女孩跑步了。",
        "The girl who bought a book yesterday ran.",
    )
    yield stop(clauses.statement(copula_clause(WO, new, denial="not"))), "我不新。", "I am not new."
    red = pair("红色", "ADJ", "red")
    is_red: Parts = {Role.PREDICATE: red + silent("的", "PART", red)}
    yield (
        stop(clauses.statement(copula_clause(NounPhrase(BOOK, THIS), is_red, verb="是"))),
        "这本书是红色的。",
        "This book is red.",
    )


EXAMPLES = list(_examples())


@pytest.mark.parametrize(
    ("phrase", "source", "target"), EXAMPLES, ids=[source for _, source, _ in EXAMPLES]
)
def test_a_structure_is_built_as_a_speaker_would(phrase: Phrase, source: str, target: str) -> None:
    sentence = as_pair(phrase)
    assert (sentence.source, sentence.target) == (source, target)


def test_links_follow_the_words_through_reordering() -> None:
    sentence = as_pair(EXAMPLES[0][0])
    # 小明 昨天 买 了 一本 书 。  |  Xiaoming bought a book yesterday .
    assert sentence.alignment == ((0, 0), (1, 4), (2, 1), (3, 1), (4, 2), (5, 3), (6, 5))
    assert sentence.source_tags == ("PROPN", "NOUN", "VERB", "AUX", "NUM", "NOUN", "PUNCT")
    assert sentence.source_entities == ("PER", "O", "O", "O", "O", "O", "O")
