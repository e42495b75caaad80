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
from jtrans.text.pipeline import TextSide

# after . ! ? and the like, closing quotes and brackets, before white space; East Asian marks
# need none
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’»)\]]*\s+|(?<=[。！？])[”’」』）]*\s*")


def cut(line: str, is_short: Callable[[str], bool]) -> list[str]:
    """Return the parts of a line, each of which is short enough or a single character.

    Args:
        line: raw text.
        is_short: whether a part is short enough; if some text is, its parts are.
    """
    if is_short(line):
        return [line]
    ends = [0, *(match.end() for match in _SENTENCE_END.finditer(line)), len(line)]
    sentences = [line[i:j] for i, j in itertools.pairwise(ends)]
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
        options: of the search.
    """
    words = [word for part in parts for word in part.words]
    log_prob = sum(part.log_prob for part in parts)
    tokens = [token for part in parts for token in part.tokens]
    more = sum(each.score - options.normalise(each.log_prob, len(each.tokens)) for each in parts)
    return Translation(
        text=side.join(words),
        score=options.normalise(log_prob, len(tokens)) + more,
        log_prob=log_prob,
        tokens=tokens,
        token_log_probs=[value for part in parts for value in part.token_log_probs],
        words=words,
    )
