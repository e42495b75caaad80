"""Lines that are too long for a model: translated sentence by sentence and joined again.

A model is trained on sentences, and time and memory grow with the square of the length. A line
above the limit is cut after every end of a sentence; what is still too long is cut in halves, at
white space if there is any.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

from jtrans.decoding.lines.translation import Translation
from jtrans.decoding.options import SearchOptions
from jtrans.text.alignments import from_pharaoh, owners, to_pharaoh
from jtrans.text.pipeline import TextSide

# after . ! ? and the like, closing quotes and brackets, before white space; East Asian marks
# need none, and several of them end one sentence
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’»)\]]*\s+|(?<=[。！？])(?![。！？…])[”’」』）]*\s*")


def cut(line: str, is_short: Callable[[str], bool]) -> list[str]:
    """Return the parts of a line, each of which is short enough or a single character.

    Args:
        line: raw text.
        is_short: whether a text is short enough; if it is, so must its parts be.
    """
    if is_short(line):
        return [line]
    ends = [0, *(match.end() for match in _SENTENCE_END.finditer(line)), len(line)]
    starts: list[int] = []
    had_word = False
    for i, j in itertools.pairwise(ends):
        has_word = any(map(str.isalnum, line[i:j]))
        if not starts or (had_word and has_word):  # marks alone are no sentence
            starts.append(i)
        had_word |= has_word
    sentences = (line[i:j] for i, j in itertools.pairwise([*starts, len(line)]))
    return [
        part for sentence in sentences if sentence.strip() for part in _halved(sentence, is_short)
    ]


def _halved(text: str, is_short: Callable[[str], bool]) -> list[str]:
    text = text.strip()
    if len(text) < 2 or is_short(text):
        return [text]
    middle = len(text) // 2
    spaces = [match.start() for match in re.finditer(r"\s", text)]
    place = min(spaces, key=lambda place: abs(place - middle), default=0) or middle
    return [*_halved(text[:place], is_short), *_halved(text[place:], is_short)]


def joined(parts: Sequence[Translation], side: TextSide, options: SearchOptions) -> Translation:
    """Return the translations of the parts of a line as one.

    Tokens keep the ``</s>`` of every part. The score is the log-probability normalised by the
    length of the whole, plus whatever else the scores of the parts contain (a coverage penalty).

    Args:
        parts: at least one.
        side: the target language.
        options: search options.
    """
    words = [word for part in parts for word in part.words]
    log_prob = sum(part.log_prob for part in parts)
    tokens = [token for part in parts for token in part.tokens]
    more = sum(  # a part has no tokens if normalisation removes all its characters
        each.score - options.normalise(each.log_prob, len(each.tokens))
        for each in parts
        if each.tokens
    )
    return Translation(
        text=side.join(words),
        score=options.normalise(log_prob, len(tokens)) + more,
        log_prob=log_prob,
        tokens=tokens,
        token_log_probs=[value for part in parts for value in part.token_log_probs],
        words=words,
        parts=len(parts),
    )


def joined_alignment(
    line: str, parts: Sequence[str], translations: Sequence[Translation], source: TextSide
) -> str:
    """Return the word alignments of the parts of a line as one, in Pharaoh format.

    It numbers the words of the whole line, which may be segmented differently at the ends of parts:
    a full stop belongs to an abbreviation within a line, and is a word of its own at its end. Words
    that share characters count as the same. It is empty if the parts have other characters than
    the line (an accent that was cut off its letter).

    Args:
        line: raw text.
        parts: the parts of the line, raw text.
        translations: one per part, with its alignment.
        source: the source language.
    """
    whole, *cut_words = (  # without case, which truecasing may have changed
        [word.lower() for word in source.surfaces(source.segment(text))] for text in [line, *parts]
    )
    owned = owners(whole, [word for words in cut_words for word in words])
    if owned is None:
        return ""
    links: set[tuple[int, int]] = set()
    first_source = first_target = 0
    for words, translation in zip(cut_words, translations, strict=True):
        for i, j in from_pharaoh(translation.alignment or ""):
            links |= {(place, first_target + j) for place in owned[first_source + i]}
        first_source += len(words)
        first_target += len(translation.words)
    return to_pharaoh(links)
