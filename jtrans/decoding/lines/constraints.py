"""What the translation of a line must begin with, contain, and not contain."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from jtrans.decoding.lines.translation import Translation
from jtrans.decoding.options import Constraints, SamplingOptions, SearchOptions
from jtrans.decoding.search.phrases import SearchConstraints, occurs
from jtrans.errors import DecodingError, how_many
from jtrans.text.bpe import MARK
from jtrans.text.pipeline import TextSide
from jtrans.text.vocabulary import EOS, SPECIALS, UNK

UNKNOWN = SPECIALS[UNK]
# of a forbidden phrase; the search looks for every one of them at every step
MOST_SPELLINGS = 64
BETWEEN_SPACES = ("moses", "moses-escaped", "whitespace")  # segmenters that split at every space


@dataclass(frozen=True)
class EncodedConstraints(SearchConstraints):
    """The constraints of one line, as the search needs them."""

    # the words of the prefix, unknown ones included; none if it is given as tokens
    words: Sequence[str] = ()
    # the forbidden phrases in all forms, each as words, even if the model cannot write them
    forbidden_words: Sequence[Sequence[str]] = ()

    def are_allowed(self, words: Sequence[str]) -> bool:
        """Whether some words contain no forbidden phrase."""
        return not any(_has_words(words, phrase) for phrase in self.forbidden_words)


NO_CONSTRAINTS = EncodedConstraints()


@dataclass(frozen=True)
class ConstraintEncoder:
    """Segments constraints as translations are.

    The words of a phrase depend on its place. At the beginning of a sentence a truecaser changes
    the first one, and at the end Moses splits the full stop off an abbreviation.
    """

    side: TextSide  # the target language of the pipeline

    def _segment(self, text: str, before: str = "", after: str = "") -> list[str]:
        """Return the words of a text between two others, each one letter, or "" for none."""
        if self.side.segmenter not in BETWEEN_SPACES:
            return self.side.segment(text)
        words = self.side.segment(f"{before} {text} {after}")
        return words[len(before) : len(words) - len(after)]  # one letter, one word

    def _forms(self, text: str) -> list[list[str]]:
        """Return the different segmentations of a phrase in all places of a sentence."""
        forms = [self._segment(text, *around) for around in product(("x", ""), ("X", "x", ""))]
        return [[*words] for words in dict.fromkeys(map(tuple, forms))]

    def encode(self, constraints: Constraints, line: int) -> EncodedConstraints:
        """Return constraints as ids.

        Args:
            constraints: the constraints of a line.
            line: its number, counted from 1, for messages.

        Raises:
            DecodingError: they contradict each other, or cannot be fulfilled.
        """
        words = self._segment(constraints.prefix, after="X")
        prefix = self._prefix(words, constraints.prefix_tokens, line)
        required = self._phrases(constraints.required, "required", line)
        # a phrase that the model cannot write forbids nothing; <unk> forbids every unknown word
        words = [] if constraints.prefix_tokens else words
        forbidden = {
            text: [ids] if text.strip() == UNKNOWN else self._all_spellings(text)
            for text, ids in self._phrases(constraints.forbidden, "forbidden", line).items()
        }
        self._check_possible(required, forbidden, prefix, words, line)
        outer = [
            ids
            for ids in required.values()
            if not any(
                ids is not whole and self._contains(whole, ids) for whole in required.values()
            )
        ]
        forbidden_words = [words for text in forbidden for words in self._forms(text)]
        spellings = [ids for of_phrase in forbidden.values() for ids in of_phrase]
        for phrase in forbidden_words:
            spellings += self._after_unknown(words, phrase)
        spellings = [[*ids] for ids in dict.fromkeys(map(tuple, spellings))]
        return EncodedConstraints(prefix, outer, spellings, self.continued, words, forbidden_words)

    def _prefix(self, words: list[str], tokens: Sequence[str], line: int) -> list[int]:
        """Return the ids of a prefix, which is raw words or tokens of the model."""
        prefix = self.side.vocabulary.ids([*tokens] or self.side.split(words))
        for piece, token in zip(tokens, prefix, strict=False):
            if token == UNK and piece != UNKNOWN:
                raise _refusal(
                    line,
                    f"the model has no target token {piece!r} for a prefix",
                    "tokens are those of --format jsonl, without </s>; raw text is a prefix too",
                )
        return prefix

    def _check_possible(
        self,
        required: Mapping[str, list[int]],
        forbidden: Mapping[str, list[list[int]]],
        prefix: list[int],
        prefix_words: Sequence[str],
        line: int,
    ) -> None:
        """Check that the model can write what is required, and that none of it is forbidden.

        The words of the prefix are compared, too: they are output as they are, even those that
        the model cannot write.
        """
        for text, ids in required.items():
            if UNK in ids:
                raise _refusal(
                    line,
                    f"the required phrase {text!r} has parts that the target vocabulary lacks",
                    "leave it out, or write it with other words",
                )
        wholes = {f"required phrase {text!r}": ids for text, ids in required.items()}
        for whole, tokens in {**wholes, "prefix": prefix}.items():
            for text, spellings in forbidden.items():
                is_written = whole == "prefix" and any(
                    _has_words(prefix_words, words) for words in self._forms(text)
                )
                if is_written or any(self._contains(tokens, ids) for ids in spellings):
                    raise _refusal(
                        line,
                        f"the {whole} contains the forbidden phrase {text!r}",
                        "leave one of the two out",
                    )

    @cached_property
    def continued(self) -> frozenset[int]:
        """The tokens that end within a word."""
        tokens = self.side.vocabulary.tokens
        return frozenset(i for i, token in enumerate(tokens) if self.side.is_inner(token))

    def _phrases(self, texts: Iterable[str], kind: str, line: int) -> dict[str, list[int]]:
        """Return the ids of different phrases, by their text."""
        phrases: dict[tuple[tuple[int, ...], str], str] = {}
        for text in texts:
            is_unknown = text.strip() == UNKNOWN  # which most segmenters would divide
            words = self.side.split(self._segment(text, "x", "X"))
            ids = (UNK,) if is_unknown else tuple(self.side.vocabulary.ids(words))
            if not ids:
                raise _refusal(line, f"the {kind} phrase {text!r} has no words", "leave it out")
            # phrases with unknown pieces may differ in spite of the same ids
            phrases.setdefault((ids, text.strip() if UNK in ids else ""), text)
        return {text: list(ids) for (ids, _), text in phrases.items()}

    def _after_unknown(self, prefix: Sequence[str], phrase: Sequence[str]) -> list[list[int]]:
        """Return spellings of a forbidden phrase that begins, with unknown words, in the prefix.

        The prefix is output as it is, but in the search these words are unknown pieces.
        """
        spellings = []
        for n in range(1, len(phrase)):
            begin = self.side.vocabulary.ids(self.side.split(phrase[:n]))
            if UNK in begin and [*prefix[-n:]] == [*phrase[:n]]:
                spellings += [[*begin, *rest] for rest in self._spellings(phrase[n:])]
        return spellings

    def _all_spellings(self, text: str) -> list[list[int]]:
        """Return all spellings in tokens of all forms of a phrase."""
        return [ids for words in self._forms(text) for ids in self._spellings(words)]

    def _spellings(self, words: Sequence[str]) -> list[list[int]]:
        """Return the spellings of a phrase in tokens, the shortest first, at most `MOST_SPELLINGS`.

        A model trained with BPE-dropout may use others than that of the segmentation.
        """
        ids = self.side.vocabulary.ids(self.side.split(words))
        if not self.side.codes:
            return [] if UNK in ids else [ids]
        known = self.side.vocabulary.known
        # from each place in the phrase, the next places and the tokens between; all reach the end
        steps: dict[int, list[tuple[int, str]]] = {}
        end = sum(map(len, words))
        fewest, place = {end: 0}, end  # the fewest tokens from a place to the end
        for word in reversed(words):
            place -= len(word)
            for i in reversed(range(len(word))):
                pieces = (
                    (j, word[i:j] + MARK * (j < len(word))) for j in range(i + 1, len(word) + 1)
                )
                here = [
                    (place + j, name) for j, name in pieces if name in known and place + j in fewest
                ]
                if here:
                    steps[place + i] = here
                    fewest[place + i] = 1 + min(fewest[j] for j, _ in here)
        spellings = [] if UNK in ids else [ids]
        waiting: list[tuple[int, int, tuple[str, ...]]] = []
        if 0 in fewest:
            waiting.append((fewest[0], 0, ()))
        while waiting and len(spellings) < MOST_SPELLINGS:
            _, place, names = heapq.heappop(waiting)
            if place < end:
                for j, name in steps[place]:
                    longer = (*names, name)
                    heapq.heappush(waiting, (len(longer) + fewest[j], j, longer))
            elif (spelling := self.side.vocabulary.ids(names)) != ids:
                spellings.append(spelling)
        return spellings

    def check_joined(
        self, parts: Sequence[Translation], constraints: EncodedConstraints, line: int
    ) -> None:
        """Check that a translation in parts has no forbidden phrase where two of them meet.

        Args:
            parts: the translations of the parts.
            constraints: the constraints of the line.
            line: its number, counted from 1, for messages.

        Raises:
            DecodingError: it has one, which no search for a single part could avoid.
        """
        words = [word for part in parts for word in part.words]  # with unknown words replaced
        tokens = [token for part in parts for token in part.tokens if token != SPECIALS[EOS]]
        ids = self.side.vocabulary.ids(tokens)
        phrases = [phrase for phrase in constraints.forbidden if len(phrase) > 1]
        is_written = any(self._contains(ids, list(phrase)) for phrase in phrases)
        if is_written or not constraints.are_allowed(words):
            raise _refusal(
                line,
                "it is too long, and where two parts of its translation meet they form a "
                "forbidden phrase",
                "divide the line into sentences",
            )

    def _contains(self, whole: Sequence[int], part: Sequence[int]) -> bool:
        """Whether a sequence contains another one that begins a word there.

        Unknown pieces are found anywhere: wherever they are, the word is unknown.
        """
        if [*part] == [UNK]:
            return UNK in whole
        return occurs(part, whole, self.continued)


def _has_words(words: Sequence[str], phrase: Sequence[str]) -> bool:
    return any([*words[i : i + len(phrase)]] == [*phrase] for i in range(len(words)))


def check_room(constraints: EncodedConstraints, limit: int, line: int) -> None:
    """Check that a prefix and required phrases fit into a translation of limited length.

    Args:
        constraints: the constraints of a line.
        limit: most target tokens, ``</s>`` counted.
        line: its number, counted from 1, for messages.

    Raises:
        DecodingError: they do not.
    """
    hint = "a higher --max-length, for example S+200"
    if len(constraints.prefix) >= limit:
        raise _refusal(
            line,
            f"a prefix of {how_many(len(constraints.prefix), 'token')} leaves no room in a "
            f"translation of at most {limit}",
            f"a shorter prefix, or {hint}",
        )
    if constraints.required and constraints.room > limit:
        raise _refusal(
            line,
            f"required phrases, a prefix if there is one, and </s> take {constraints.room} tokens, "
            f"but the translation has at most {limit}",
            f"fewer phrases, or {hint}",
        )


def check_search(
    constraints: Sequence[EncodedConstraints],
    options: SearchOptions,
    sampling: SamplingOptions | None,
) -> None:
    """Check that the search can fulfil some constraints.

    Raises:
        DecodingError: phrases are required of samples, or of groups of a beam.
    """
    if not any(each.required for each in constraints):
        return
    if sampling or options.diverse_groups > 1:
        raise DecodingError(
            "required phrases are found by a search that divides the beam for them, not "
            + ("by sampling" if sampling else "by diverse groups"),
            hint=f"leave out --{'sample' if sampling else 'diverse-groups'}, or the phrases",
            kind="decoding.phrases",
        )


def no_translation(line: int) -> DecodingError:
    """Return the error of a line whose constraints the search could not fulfil."""
    return _refusal(
        line,
        "no translation was found with all required and no forbidden phrases",
        "a wider --beam, a higher --max-length, or fewer phrases",
    )


def _refusal(line: int, message: str, hint: str) -> DecodingError:
    return DecodingError.of_line(line, f": {message}", hint=hint, kind="decoding.phrases")
