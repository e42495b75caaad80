"""The built-in corpus `grammar-de-en`: German sentences made by a small grammar, with English.

Nothing is downloaded and nothing is left to chance but the seed: the same seed gives the same
pairs everywhere. Because the grammar knows which words mean the same, every pair comes with its
word alignment, and because it knows what it is doing, with the part of speech of each source
word. The sentences are simple, but the word order is German: verb second, verb last, participles
and particles at the end, objects in front of the subject where their case allows.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from jtrans.corpora.grammar_phrases import Phrase, Word
from jtrans.corpora.grammar_rules import sentence
from jtrans.corpora.grammar_speaker import Speaker
from jtrans.errors import InternalError

TRAIN_PAIRS = 20_000
HELD_OUT_PAIRS = 500
LONGEST = 20  # words, punctuation counted
PATIENCE = 100  # attempts in a row that bring nothing new before the grammar counts as exhausted


@dataclass(frozen=True)
class GrammarPair:
    """A sentence with its translation.

    `source` and `target` are raw text. Words are those of the Moses tokenizer, punctuation apart;
    `alignment` holds (source word, target word) positions from 0, sorted; `source_tags` has one
    universal part of speech (UPOS) for each source word.
    """

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]
    source_tags: tuple[str, ...]
    source_words: tuple[str, ...]
    target_words: tuple[str, ...]


def generate(size: int, seed: int) -> list[GrammarPair]:
    """Make pairs no two of which share a source or a target sentence.

    Args:
        size: how many.
        seed: what decides every choice.

    Raises:
        InternalError: the grammar does not have so many sentences.
    """
    speaker = Speaker(random.Random(seed))
    pairs: list[GrammarPair] = []
    sources: set[str] = set()
    targets: set[str] = set()
    failures = 0
    while len(pairs) < size:
        made = as_pair(sentence(speaker))
        source, target = made.source.lower(), made.target.lower()
        is_new = source not in sources and target not in targets
        if is_new and len(made.source_words) <= LONGEST and len(made.target_words) <= LONGEST:
            pairs.append(made)
            sources.add(source)
            targets.add(target)
            failures = 0
            continue
        failures += 1
        if failures > PATIENCE:
            raise InternalError(f"the grammar gave only {len(pairs)} of {size} distinct pairs")
    return pairs


def splits(seed: int = 1) -> dict[str, list[GrammarPair]]:
    """Make the corpus: train, valid and test, which share no sentence on either side."""
    pairs = generate(TRAIN_PAIRS + 2 * HELD_OUT_PAIRS, seed)
    # The first sentences made are the common ones; shuffled, all splits are alike.
    random.Random(seed).shuffle(pairs)
    held_out, train = pairs[: 2 * HELD_OUT_PAIRS], pairs[2 * HELD_OUT_PAIRS :]
    return {
        "train": train,
        "valid": held_out[:HELD_OUT_PAIRS],
        "test": held_out[HELD_OUT_PAIRS:],
    }


def as_pair(phrase: Phrase) -> GrammarPair:
    """Turn a finished phrase into text, positions and tags."""
    source_words = _capitalised(phrase.source)
    target_words = _capitalised(phrase.target)
    return GrammarPair(
        source=_text(source_words),
        target=_text(target_words),
        alignment=_alignment(phrase),
        source_tags=tuple(word.tag for word in phrase.source),
        source_words=source_words,
        target_words=target_words,
    )


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
    """Join words as people write them: no blank before punctuation."""
    text = " ".join(words)
    for mark in ",.?":
        text = text.replace(f" {mark}", mark)
    return text
