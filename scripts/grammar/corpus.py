"""The corpora `grammar-de-en` and `grammar-zh-en`: sentences made by small grammars.

Nothing is downloaded, and everything follows from the seed: the same seed gives the same pairs
everywhere. A grammar defines which words mean the same, and what each word is, so every pair comes
with its word alignment and with the part of speech and the entity label of each source word. The
sentences are simple, but the word order is that of the language. German has its verb second or
last, participles and particles at the end, and objects in front of the subject where their case
allows it. Chinese has measure words, relative clauses before the noun, time and place before the
verb, aspect particles, and question words in the place of the answer.

There are four splits. train, valid and test are drawn alike, and no sentence of either side occurs
twice in them. Of the valid and test sentences, six in ten (German) and a quarter (Chinese) hold a
combination of two neighbouring content words that never occurs in training. `long` is a second
test set, apart from `test` so that scores on `test` remain comparable: its sentences join several
others and are longer, on both sides, than any in training.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from jtrans.errors import ConfigError, InternalError
from scripts.grammar.chinese.rules import long_sentence as long_chinese
from scripts.grammar.chinese.rules import sentence as chinese
from scripts.grammar.chinese.speaker import Speaker as ChineseSpeaker
from scripts.grammar.german.rules import long_sentence as long_german
from scripts.grammar.german.rules import sentence as german
from scripts.grammar.german.speaker import Speaker as GermanSpeaker
from scripts.grammar.shared.words import Phrase, Word

TRAIN_PAIRS = 20_000
HELD_OUT_PAIRS = 500
LONG_PAIRS = 200
LONGEST = 20  # words of a sentence in train, valid and test, punctuation counted
LONGEST_OF_ALL = 40
PATIENCE = 100  # attempts in a row without a new pair before the grammar counts as exhausted

Sentences = Callable[[], Phrase]


@dataclass(frozen=True)
class GrammarPair:
    """A sentence with its translation.

    `source` and `target` are raw text. German and English words are those of the Moses
    tokenizer, punctuation apart; Chinese words are the grammar's own, with which a segmenter may
    disagree now and then. `alignment` holds (source word, target word) positions from 0, sorted;
    `source_tags` has one universal part of speech (UPOS) for each source word, and
    `source_entities` PER, LOC or O.
    """

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]
    source_tags: tuple[str, ...]
    source_entities: tuple[str, ...]
    source_words: tuple[str, ...]
    target_words: tuple[str, ...]


def generate(size: int, seed: int, languages: str = "de-en") -> list[GrammarPair]:
    """Make pairs of everyday length, no two of which share a source or a target sentence.

    Args:
        size: number of pairs.
        seed: decides every random choice.
        languages: "de-en" or "zh-en".

    Raises:
        ConfigError: there is no grammar for these languages.
        InternalError: the grammar has fewer sentences than asked for.
    """
    sentences = _grammar(languages).sentences(random.Random(seed))
    return _distinct(size, sentences, range(LONGEST + 1))


def generate_long(size: int, seed: int, languages: str = "de-en") -> list[GrammarPair]:
    """Make pairs longer than any that `generate` makes, otherwise like it."""
    # a seed of its own, so that the other splits do not depend on the long sentences
    sentences = _grammar(languages).long_sentences(random.Random(f"long {seed}"))
    return _distinct(size, sentences, range(LONGEST + 1, LONGEST_OF_ALL + 1))


def splits(seed: int = 1, languages: str = "de-en") -> dict[str, list[GrammarPair]]:
    """Make the corpus: train, valid and test, and the long sentences."""
    pairs = generate(TRAIN_PAIRS + 2 * HELD_OUT_PAIRS, seed, languages)
    # Common sentences are made first, so pairs are shuffled before they are split.
    random.Random(seed).shuffle(pairs)
    held_out, train = pairs[: 2 * HELD_OUT_PAIRS], pairs[2 * HELD_OUT_PAIRS :]
    return {
        "train": train,
        "valid": held_out[:HELD_OUT_PAIRS],
        "test": held_out[HELD_OUT_PAIRS:],
        "long": generate_long(LONG_PAIRS, seed, languages),
    }


def as_pair(phrase: Phrase) -> GrammarPair:
    """Turn a finished phrase into text, positions, tags and entities."""
    source_words = _capitalised(phrase.source)
    target_words = _capitalised(phrase.target)
    return GrammarPair(
        source=_text(source_words),
        target=_text(target_words),
        alignment=_alignment(phrase),
        source_tags=tuple(word.tag for word in phrase.source),
        source_entities=tuple(word.entity for word in phrase.source),
        source_words=source_words,
        target_words=target_words,
    )


@dataclass(frozen=True)
class Grammar:
    """Makes the sentences of a language from a source of random choices."""

    sentences: Callable[[random.Random], Sentences]
    long_sentences: Callable[[random.Random], Sentences]


def _grammar(languages: str) -> Grammar:
    if languages not in GRAMMARS:
        raise ConfigError(
            f"no grammar for {languages!r}",
            hint=f"there are {' and '.join(GRAMMARS)}",
            kind="config.choice",
        )
    return GRAMMARS[languages]


GRAMMARS: Mapping[str, Grammar] = {
    "de-en": Grammar(
        sentences=lambda choices: partial(german, GermanSpeaker(choices)),
        long_sentences=lambda choices: partial(long_german, GermanSpeaker(choices), LONGEST),
    ),
    "zh-en": Grammar(
        sentences=lambda choices: partial(chinese, ChineseSpeaker(choices)),
        long_sentences=lambda choices: partial(long_chinese, ChineseSpeaker(choices), LONGEST),
    ),
}


def _distinct(size: int, sentences: Sentences, lengths: range) -> list[GrammarPair]:
    """Collect pairs with both lengths in the range and no sentence of either side twice."""
    pairs: list[GrammarPair] = []
    sources: set[str] = set()
    targets: set[str] = set()
    failures = 0
    while len(pairs) < size:
        pair = as_pair(sentences())
        source, target = pair.source.lower(), pair.target.lower()
        is_new = source not in sources and target not in targets
        if is_new and len(pair.source_words) in lengths and len(pair.target_words) in lengths:
            pairs.append(pair)
            sources.add(source)
            targets.add(target)
            failures = 0
            continue
        failures += 1
        if failures > PATIENCE:
            raise InternalError(f"the grammar gave only {len(pairs)} of {size} distinct pairs")
    return pairs


def _alignment(phrase: Phrase) -> tuple[tuple[int, int], ...]:
    """Link the words that share a unit of meaning."""
    places: dict[object, list[int]] = {}
    for position, word in enumerate(phrase.target):
        for unit in word.units:
            places.setdefault(unit, []).append(position)
    links = {
        (position, place)
        for position, word in enumerate(phrase.source)
        for unit in word.units
        for place in places.get(unit, ())
    }
    return tuple(sorted(links))


def _capitalised(words: tuple[Word, ...]) -> tuple[str, ...]:
    first = words[0].text
    return (first[0].upper() + first[1:], *(word.text for word in words[1:]))


def _text(words: tuple[str, ...]) -> str:
    """Join words as people write them: no blank before punctuation, none at all in Chinese."""
    if words[-1] in "。？":
        return "".join(words)
    text = " ".join(words)
    for mark in (",", ".", "?", "'s "):
        text = text.replace(f" {mark}", mark)
    return text
