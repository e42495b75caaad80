"""The papers' tokenised BLEU: hand-computed cases and the lines the script printed.

Properties E1 to E4 of docs/systems.md 10.5.
"""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEUScore

from jtrans.errors import CorpusError
from jtrans.evaluation.bleu import multi_bleu

WORDS = st.sampled_from(["a", "b", "c", "Der", "die", "Über", "über", "."])
LINE = st.lists(WORDS, max_size=9)
HYPOTHESES = ["The Cat sat on the mat .", "ÜBER die Brücke gehe ich heute", "", "a b c d e f"]
FIRST_SET = [
    "the cat sat on a mat .",
    "über die Brücke gehe ich heute Abend",
    "x y",
    "a b c d e f g h",
]
SECOND_SET = ["the cat sat upon the mat", "über die Brücke gehe ich", "x", "a b c d"]


def words(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines]


@st.composite
def corpora(draw: st.DrawFn) -> tuple[list[list[str]], list[list[list[str]]]]:
    """Return hypotheses and one to three reference sets of as many lines."""
    size = draw(st.integers(1, 6))
    lines = st.lists(LINE, min_size=size, max_size=size)
    return draw(lines), draw(st.lists(lines, min_size=1, max_size=3))


def test_a_small_example_gives_the_counts_made_by_hand() -> None:
    # clipped matches: 5 of 6 words, 3 of 5 pairs, 2 of 4 triples, 1 of 3 quadruples
    result = multi_bleu(words(["the cat sat on the the"]), [words(["the cat sat on the mat now"])])
    assert result.precisions == pytest.approx((500 / 6, 400 / 5, 300 / 4, 200 / 3))
    assert (result.sys_len, result.ref_len) == (6, 7)
    assert result.bp == pytest.approx(math.exp(1 - 7 / 6))
    expected = 100 * math.exp(1 - 7 / 6) * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25
    assert result.score == pytest.approx(expected)


def test_repeated_words_count_at_most_as_often_as_in_one_reference() -> None:
    # Papineni's example: "the" twice in one reference, once in the other: 2 of 7, not 3 of 7
    hypothesis = words(["the the the the the the the"])
    references = [words(["the cat is on the mat"]), words(["there is a cat on the mat"])]
    result = multi_bleu(hypothesis, references)
    assert result.precisions == pytest.approx((200 / 7, 0, 0, 0))


def test_matches_may_come_from_different_references() -> None:
    result = multi_bleu(words(["a b c d"]), [words(["a b x y"]), words(["x y c d"])])
    assert result.precisions == pytest.approx((100, 200 / 3, 0, 0))


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [((3, 6), 6), ((4, 7), 4), ((6, 4), 4), ((9, 5, 1), 5), ((8,), 8)],
)
def test_the_closest_reference_counts_and_the_shorter_of_two_as_close(
    lengths: tuple[int, ...], expected: int
) -> None:
    result = multi_bleu([["a"] * 5], [[["a"] * length] for length in lengths])
    assert result.ref_len == expected


def printed(result: BLEUScore) -> str:
    """Format a result as the script does."""
    precisions = "/".join(f"{precision:.1f}" for precision in result.precisions)
    ratio = result.sys_len / result.ref_len
    return (
        f"BLEU = {result.score:.2f}, {precisions} (BP={result.bp:.3f}, "
        f"ratio={ratio:.3f}, hyp_len={result.sys_len}, "
        f"ref_len={result.ref_len})"
    )


@pytest.mark.parametrize(
    ("sets", "lowercase", "line"),
    [
        (
            [FIRST_SET, SECOND_SET],
            False,
            "BLEU = 64.22, 84.2/75.0/53.8/50.0 (BP=1.000, ratio=1.118, hyp_len=19, ref_len=17)",
        ),
        (
            [FIRST_SET],
            False,
            "BLEU = 48.30, 84.2/68.8/53.8/50.0 (BP=0.769, ratio=0.792, hyp_len=19, ref_len=24)",
        ),
        (
            [FIRST_SET, SECOND_SET],
            True,
            "BLEU = 76.60, 94.7/87.5/69.2/60.0 (BP=1.000, ratio=1.118, hyp_len=19, ref_len=17)",
        ),
        (
            [FIRST_SET],
            True,
            "BLEU = 56.98, 89.5/81.2/69.2/60.0 (BP=0.769, ratio=0.792, hyp_len=19, ref_len=24)",
        ),
    ],
)
def test_it_prints_what_the_script_printed(
    sets: list[list[str]], lowercase: bool, line: str
) -> None:
    # printed by: perl multi-bleu.perl [-lc] ref < hyp (Moses, 31473d8), sets in ref0, ref1
    result = multi_bleu(words(HYPOTHESES), [words(lines) for lines in sets], lowercase=lowercase)
    assert printed(result) == line


def test_lowercasing_leaves_letters_beyond_ascii_as_the_script_does() -> None:
    hypothesis, references = (
        [["Über", "DIE", "Brücke", "GEHN"]],
        [[["über", "die", "brücke", "gehn"]]],
    )
    assert multi_bleu(hypothesis, references).precisions[0] == 0
    assert multi_bleu(hypothesis, references, lowercase=True).precisions[0] == 75


def test_a_missing_order_makes_the_score_zero_but_keeps_the_precisions() -> None:
    result = multi_bleu(words(["a b c x e"]), [words(["a b c d e"])])
    assert result.score == 0
    assert result.precisions == pytest.approx((80, 50, 100 / 3, 0))


def test_lines_too_short_for_four_words_score_zero_even_when_equal() -> None:
    assert multi_bleu([["a", "b", "c"]], [[["a", "b", "c"]]]).score == 0


@pytest.mark.parametrize(("hypothesis", "reference"), [([], ["a"]), (["a"], []), ([], [])])
def test_text_without_words_scores_zero(hypothesis: list[str], reference: list[str]) -> None:
    result = multi_bleu([hypothesis], [[reference]])
    assert result.score == 0
    assert (result.sys_len, result.ref_len) == (len(hypothesis), len(reference))


def test_an_empty_hypothesis_line_costs_its_reference_length() -> None:
    line = ["a", "b", "c", "d"]
    result = multi_bleu([line, []], [[line, line]])
    assert result.score == pytest.approx(100 * math.exp(1 - 8 / 4))


@given(st.lists(st.lists(WORDS, min_size=4, max_size=9), min_size=1, max_size=6))
def test_a_perfect_hypothesis_scores_one_hundred(lines: list[list[str]]) -> None:
    result = multi_bleu(lines, [lines])
    assert result.score == pytest.approx(100)
    assert result.score <= 100
    assert result.sys_len == result.ref_len


@given(corpora(), st.randoms(use_true_random=False))
def test_the_order_of_sentences_does_not_matter(
    corpus: tuple[list[list[str]], list[list[list[str]]]], random: Random
) -> None:
    hypotheses, references = corpus
    order = list(range(len(hypotheses)))
    random.shuffle(order)
    shuffled = [[lines[i] for i in order] for lines in references]
    result = multi_bleu([hypotheses[i] for i in order], shuffled)
    assert vars(result) == vars(multi_bleu(hypotheses, references))


def ngrams(line: list[str], order: int) -> Counter[tuple[str, ...]]:
    """Count the n-grams of one order in a line."""
    return Counter(tuple(line[i : i + order]) for i in range(len(line) - order + 1))


def as_the_script(
    hypotheses: list[list[str]], references: list[list[list[str]]]
) -> tuple[float, list[float], float, int, int]:
    """Compute score, precisions, brevity penalty and lengths step by step as the script does."""
    correct, total = [0] * 4, [0] * 4
    hypothesis_length = reference_length = 0
    for hypothesis, *alternatives in zip(hypotheses, *references, strict=True):
        hypothesis_length += len(hypothesis)
        distances = [(abs(len(line) - len(hypothesis)), len(line)) for line in alternatives]
        reference_length += min(distances)[1]
        for n in range(1, 5):
            for ngram, count in ngrams(hypothesis, n).items():
                total[n - 1] += count
                most = max(ngrams(line, n)[ngram] for line in alternatives)
                correct[n - 1] += min(count, most)
    if not hypothesis_length or not reference_length:
        return 0.0, [0.0] * 4, 0.0, hypothesis_length, reference_length
    precisions = [c / t if t else 0.0 for c, t in zip(correct, total, strict=True)]
    penalty = 1.0
    if hypothesis_length < reference_length:
        penalty = math.exp(1 - reference_length / hypothesis_length)
    score = penalty * math.prod(precisions) ** 0.25
    percent = [100 * precision for precision in precisions]
    return 100 * score, percent, penalty, hypothesis_length, reference_length


@settings(max_examples=200)
@given(corpora(), st.booleans())
def test_it_computes_what_the_script_computes(
    corpus: tuple[list[list[str]], list[list[list[str]]]], lowercase: bool
) -> None:
    hypotheses, references = corpus
    result = multi_bleu(hypotheses, references, lowercase=lowercase)
    if lowercase:  # of all words, Der and Über alone have capitals, and Ü is not ASCII
        hypotheses, *references = (
            [["der" if word == "Der" else word for word in line] for line in lines]
            for lines in (hypotheses, *references)
        )
    score, precisions, penalty, *lengths = as_the_script(hypotheses, references)
    assert result.score == pytest.approx(score, rel=1e-12)
    assert result.precisions == pytest.approx(precisions, rel=1e-12)
    assert [result.sys_len, result.ref_len] == lengths
    if all(lengths):  # else the script has none
        assert result.bp == pytest.approx(penalty, rel=1e-12)


@given(corpora(), st.data())
def test_one_more_reference_never_lowers_a_precision(
    corpus: tuple[list[list[str]], list[list[list[str]]]], data: st.DataObject
) -> None:
    hypotheses, references = corpus
    # no empty lines: they could make the length of all references zero, and with it everything
    line = st.lists(WORDS, min_size=1, max_size=9)
    extra = data.draw(st.lists(line, min_size=len(hypotheses), max_size=len(hypotheses)))
    before = multi_bleu(hypotheses, references)
    after = multi_bleu(hypotheses, [*references, extra])
    assert all(a >= b for a, b in zip(after.precisions, before.precisions, strict=True))


def test_numbers_of_lines_that_differ_are_both_named() -> None:
    with pytest.raises(CorpusError, match="3 translations but 2 references in reference set 2"):
        multi_bleu([["a"]] * 3, [[["a"]] * 3, [["a"]] * 2])
