"""Learning BPE merges as subword-nmt does, merge for merge, but ten times as fast.

At every merge subword-nmt searches all pairs for the most frequent one, and it stores the words of
each pair in nested dictionaries. Here a heap finds the pair, and the words of a pair are a compact
list that may contain a word more than once. The counts that decide which pair comes next are
those of subword-nmt, shortcuts included, so that the codes are the same byte for byte.
"""

from __future__ import annotations

import heapq
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

END = "</w>"
_HIGHEST = 0x10FFFF

Pair = tuple[str, str]
Word = tuple[str, ...]


def learn_merges(counts: Mapping[str, int], merges: int, *, min_frequency: int) -> list[Pair]:
    """Return the merges of a text, best first.

    Args:
        counts: how often each word occurs.
        merges: how many to learn; fewer are returned when nothing is left to merge.
        min_frequency: stop when the most frequent pair is rarer than this.
    """
    return list(_Learner(counts).learn(merges, min_frequency))


class _Learner:
    """The words as split so far, and how often each pair of neighbouring symbols occurs."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        # of words with white space in them, such as no-break spaces: how often each pair occurs, as
        # subword-nmt counts it
        self._spaced: dict[int, Counter[Pair]] = {}
        unique: dict[str, str] = {}  # one string for each symbol, however many words have it
        self._words: list[Word] = []
        self._frequencies = array("q")
        self._stats: defaultdict[Pair, int] = defaultdict(int)
        # words in which a pair occurs, or once did; a word may be listed more than once
        self._places: defaultdict[Pair, array[int]] = defaultdict(lambda: array("I"))
        for word, frequency in counts.items():
            if not word:
                continue
            symbols = [*word[:-1], word[-1] + END]
            split = tuple(unique.setdefault(symbol, symbol) for symbol in symbols)
            index = len(self._words)
            self._words.append(split)
            self._frequencies.append(frequency)
            if any(map(str.isspace, word)):
                self._spaced[index] = Counter(pairwise(split))
            for pair in pairwise(split):
                self._stats[pair] += frequency
                self._places[pair].append(index)
        self._all_stats = self._stats.copy()
        self._heap: list[tuple[int, str, Pair]] = []
        self._keys: dict[str, str] = {}
        self._fill_heap()

    def learn(self, merges: int, min_frequency: int) -> Iterator[Pair]:
        """Merge pair after pair, and yield them (see `learn_merges`)."""
        if not self._stats:
            return
        # pairs rarer than this are set aside until no frequent one is left
        threshold = max(self._stats.values()) / 10
        for i in range(merges):
            best = self._most_frequent()
            if best is None or (i and self._stats[best] < threshold):
                self._set_aside(threshold)
                self._stats = self._all_stats.copy()
                self._fill_heap()
                best = self._most_frequent()
                if best is None:
                    return
                threshold = self._stats[best] * i / (i + 10000.0)
                self._set_aside(threshold)
            if self._stats[best] < min_frequency:
                return
            self._merge(best)
            yield best
            self._stats[best] = 0
            if not i % 100:
                self._set_aside(threshold)

    def _merge(self, pair: Pair) -> None:
        """Merge a pair into one symbol wherever it occurs."""
        first, second = pair
        joined = first + second
        changes: defaultdict[Pair, int] = defaultdict(int)
        words, frequencies, places = self._words, self._frequencies, self._places
        last = None
        for index in places.pop(pair, ()):
            if index == last:  # listed once for each occurrence in the word
                continue
            last = index
            old = words[index]
            spaced = self._spaced.get(index)
            if spaced is None:
                new = merge_pair(old, first, second, joined)
                if len(new) == len(old):
                    continue  # listed twice, or another merge has removed the pair
            elif spaced.pop(pair, 0) < 1:
                continue
            else:
                new = _merged_at_spaces(old, first, second, joined)
            words[index] = new
            frequency = frequencies[index]
            for removed in _removed_pairs(old, first, second):
                changes[removed] -= frequency
                if spaced is not None:
                    spaced[removed] -= 1
            for added in _added_pairs(new, joined):
                changes[added] += frequency
                places[added].append(index)
                if spaced is not None:
                    spaced[added] += 1
        for neighbours, change in changes.items():
            count = self._stats[neighbours] = self._stats[neighbours] + change
            if change > 0 and count > 0:
                heapq.heappush(self._heap, (-count, self._key(neighbours), neighbours))

    def _most_frequent(self) -> Pair | None:
        """Return the pair with the highest count; among equals, the last by its text."""
        heap = self._heap
        while heap:
            count, key, pair = heap[0]
            now = self._stats.get(pair, 0)
            if now == -count:
                return pair
            # its count has fallen since it was pushed
            if now > 0:
                heapq.heapreplace(heap, (-now, key, pair))
            else:
                heapq.heappop(heap)
        return None

    def _set_aside(self, threshold: float) -> None:
        """Set aside pairs rarer than `threshold`, as `prune_stats` of subword-nmt does."""
        for pair, count in list(self._stats.items()):
            if count < threshold:
                del self._stats[pair]
                if count < 0:
                    self._all_stats[pair] += count
                else:
                    self._all_stats[pair] = count

    def _fill_heap(self) -> None:
        self._heap = [(-count, self._key(pair), pair) for pair, count in self._stats.items()]
        self._heap = [entry for entry in self._heap if entry[0] < 0]
        heapq.heapify(self._heap)

    def _key(self, pair: Pair) -> str:
        """Return a string that sorts in the reverse order of the pair."""
        keys = self._keys
        for symbol in pair:
            if symbol not in keys:
                inverted = [chr(_HIGHEST - ord(character)) for character in symbol]
                keys[symbol] = "".join(inverted) + chr(_HIGHEST)
        return keys[pair[0]] + keys[pair[1]]


def merge_pair(word: Word, first: str, second: str, joined: str) -> Word:
    """Return the word with each occurrence of the pair merged, from the left."""
    new: list[str] = []
    begin = 0
    last = len(word) - 1
    while True:
        try:
            i = word.index(first, begin, last)
        except ValueError:
            break
        if word[i + 1] == second:
            new += word[begin:i]
            new.append(joined)
            begin = i + 2
        else:
            new += word[begin : i + 1]
            begin = i + 1
    if not new:
        return word
    new += word[begin:]
    return tuple(new)


def _merged_at_spaces(word: Word, first: str, second: str, joined: str) -> Word:
    """Return a word with white space in it with each occurrence of the pair merged.

    subword-nmt searches for them in a string, where they begin after any white space, not only
    after the space between two symbols, and end before any.
    """
    pair = rf"(?<!\S){re.escape(f'{first} {second}')}(?!\S)"
    return tuple(re.sub(pair, lambda _: joined, " ".join(word)).split(" "))


def _removed_pairs(old: Word, first: str, second: str) -> Iterator[Pair]:
    """Yield the pairs that the merge removes, as subword-nmt counts them."""
    i, last = 0, len(old) - 1
    while True:
        try:
            i = old.index(first, i, last)
        except ValueError:
            return
        if old[i + 1] != second:
            i += 1
            continue
        if i:
            yield old[i - 1], first
        # in A B C B C the second B C yields the neighbours C B: do not yield them twice
        if i + 1 < last and (old[i + 2] != first or i >= last - 2 or old[i + 3] != second):
            yield second, old[i + 2]
        i += 2


def _added_pairs(new: Word, joined: str) -> Iterator[Pair]:
    """Yield the pairs with the new symbol, as subword-nmt counts them."""
    i, last = 0, len(new) - 1
    while True:
        try:
            i = new.index(joined, i)
        except ValueError:
            return
        if i:
            yield new[i - 1], joined
        if i < last and new[i + 1] != joined:
            yield joined, new[i + 1]
        i += 1
