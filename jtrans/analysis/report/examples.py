"""Sentences to read: where the systems differ most, and some drawn at random."""

from __future__ import annotations

import difflib
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jtrans.analysis.figures.compare import shown_sentence_scores
from jtrans.analysis.output.labels import shorten
from jtrans.analysis.study.study import Study
from jtrans.text.segment import has_spaces

EACH_WAY, RANDOM = 3, 5
MOST_WORDS = 40  # a longer sentence is hard to read on a page
SEED = 1
MOST_UNITS = 2000  # words or letters to compare: the time grows with their square
MOST_DROPPED = 120  # letters shown of words that a translation lacks


@dataclass(frozen=True)
class TranslationPart:
    """A span of a translation, or the reference's text that the translation lacks there."""

    text: str
    is_shared: bool  # with the reference
    is_dropped: bool = False  # text of the reference that the translation lacks


@dataclass(frozen=True)
class ExampleTranslation:
    """The translation of a sentence by one system."""

    name: str
    index: int  # decides the system's colour
    # the translation, split where it departs from the most similar reference and where it returns
    # to it
    parts: list[TranslationPart]
    score: float  # chrF2 of this text


@dataclass(frozen=True)
class ExampleSentence:
    """One sentence: source if known, all references and all translations."""

    line: int  # of the split, counted from 0
    source: str | None
    references: list[str]
    translations: list[ExampleTranslation]


def are_all_long(study: Study) -> bool:
    """Return whether no sentence is short enough to be read on a page with ease."""
    return all(len(words) > MOST_WORDS for words in study.text.length_side.words if words)


def choose_examples(study: Study) -> tuple[list[ExampleSentence], list[ExampleSentence]]:
    """Return the sentences where systems differ most, and random ones, without repetition.

    First the sentences where another system is furthest ahead of the first, then those where the
    first is furthest ahead. With a single system, there are only random sentences. If all are long,
    they are chosen from the shortest.
    """
    scores = [shown_sentence_scores(study, subject, "chrf").tolist() for subject in study.subjects]
    lengths = list(map(len, study.text.length_side.words))
    possible = [line for line, length in enumerate(lengths) if 0 < length <= MOST_WORDS]
    if are_all_long(study):
        by_length = sorted(filter(lengths.__getitem__, range(len(study))), key=lengths.__getitem__)
        possible = sorted(by_length[: 2 * EACH_WAY + RANDOM])
    seen: set[str] = set()
    different: list[int] = []
    for sign in (1, -1) if len(scores) > 1 else ():
        ahead = {
            line: max(sign * (other[line] - scores[0][line]) for other in scores[1:])
            for line in possible
        }
        ranked = sorted((line for line in possible if ahead[line] > 0), key=lambda n: -ahead[n])
        different += _distinct(study, ranked, seen, EACH_WAY)
    shuffled = list(possible)
    random.Random(SEED).shuffle(shuffled)
    drawn = _distinct(study, shuffled, seen, RANDOM)
    return (
        [_example(study, line, scores) for line in different],
        [_example(study, line, scores) for line in drawn],
    )


def _distinct(study: Study, lines: Sequence[int], seen: set[str], count: int) -> list[int]:
    """Return the first `count` lines whose text is not in `seen`, and add their texts to it."""
    texts = study.text.length_side.lines
    result: list[int] = []
    for line in lines:
        if len(result) < count and texts[line] not in seen:
            seen.add(texts[line])
            result.append(line)
    return result


def _example(study: Study, line: int, scores: Sequence[Sequence[float]]) -> ExampleSentence:
    references = [lines[line] for lines in study.text.references]
    translations = [
        ExampleTranslation(
            subject.name,
            subject.index,
            _nearest(study, subject.hypotheses[line], references),
            scores[number][line],
        )
        for number, subject in enumerate(study.subjects)
    ]
    source = None if study.text.source is None else study.source_lines[line]
    return ExampleSentence(line, source, references, translations)


def _nearest(study: Study, text: str, references: Sequence[str]) -> list[TranslationPart]:
    """Compare a translation with the most similar reference."""
    is_spaced = has_spaces(study.target_language)
    compared = [
        compare_texts(text, reference, is_spaced=is_spaced, lowercase=study.lowercase)
        for reference in references
    ]
    return max(compared, key=lambda parts: sum(len(part.text) for part in parts if part.is_shared))


def compare_texts(
    text: str, reference: str, *, is_spaced: bool = True, lowercase: bool = False
) -> list[TranslationPart]:
    """Split a translation into spans that the reference has in the same order, and other spans.

    Words are compared, or letters where the language writes no spaces. The spans make up the
    text, spaces included. If any words are shared, those that only the reference has stand between
    the spans.
    """
    # Latin words and numbers stay whole in a text of Chinese characters
    pattern = r"\S+" if is_spaced else r"[0-9A-Za-z\u00c0-\u024f]+|\S"
    units, expected = ([*re.finditer(pattern, line)] for line in (text, reference))
    fold = [
        [unit[0].lower() if lowercase else unit[0] for unit in side[:MOST_UNITS]]
        for side in (units, expected)
    ]
    matcher = difflib.SequenceMatcher(None, fold[0], fold[1], autojunk=False)
    parts: list[TranslationPart] = []
    at = other = written = 0  # the next unit of both, and where the text not yet written begins
    for start, start_of_other, length in matcher.get_matching_blocks() if units else ():
        if start_of_other > other:
            dropped = reference[expected[other].start() : expected[start_of_other - 1].end()]
            parts.append(TranslationPart(dropped, False, is_dropped=True))
        other = start_of_other + length
        for last, is_shared in ((start, False), (start + length, True)):
            if last > at:
                # spaces between two spans belong to the shared one: they are not marked
                end = len(text) if last == len(units) else units[last - 1].end()
                if is_shared and last < len(units):
                    end = units[last].start()
                parts.append(TranslationPart(text[written:end], is_shared))
                at, written = last, end
    rest = [TranslationPart(text[written:], False)] if at < len(units) else []
    parts = [*parts, *rest]
    if any(part.is_shared for part in parts):
        return parts
    return [part for part in parts if not part.is_dropped]


def between(parts: Sequence[TranslationPart], first: int, last: int) -> list[TranslationPart]:
    """Return the spans from letter `first` to `last`, with the words that are missing there."""
    result, place = [], 0
    for part in parts:
        start, place = place, place + len(part.text) * (not part.is_dropped)
        text = part.text[max(0, first - start) : max(0, last - start)]
        if part.is_dropped:
            text = shorten(part.text, MOST_DROPPED) if first <= start < last else ""
        result += [replace(part, text=text)] if text else []
    return result
