"""F-measure of words by training frequency: compare-mt's definition, worked out by hand."""

from __future__ import annotations

import gzip
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plugins.random_runs import ON_CPU, RunOn

from jtrans.analysis.figures.bins import Bins
from jtrans.analysis.figures.frequency import (
    f_measure,
    f_measure_figure,
    frequency_figures,
    matches_by_bin,
    token_bins,
)
from jtrans.analysis.figures.results import Figure
from jtrans.analysis.study.load import load_study
from jtrans.analysis.study.training_words import words_by_vocabulary
from jtrans.corpora.parallel import Corpus, ParallelText
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import CorpusError
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare
from jtrans.runs import Run
from jtrans.text.vocabulary import Vocabulary

COUNTS = {"the": 100, "a": 50, "dog": 5, "cat": 4, "sees": 10, "sleeps": 1, "bird": 1}
REFERENCES = [
    "the dog sees a cat",
    "a cat sleeps",
    "the the dog",
    "bird",
    "the zebra sees the dog",
    "",
]
HYPOTHESES = [
    "the dog sees the cat",  # the 1, dog 1, sees 1, cat 1; a second "the" is not in the reference
    "a dog sleeps",  # a 1, sleeps 1; dog in the hypothesis only
    "the dog dog",  # the 1 (reference has two), dog 1 (hypothesis has two)
    "",
    "the zebra sees the bird",  # the 2, zebra 1, sees 1; bird in the hypothesis only
    "a bird",  # nothing in the reference
]
# bins: 0 | 1-4 | 5-9 | 10+       zebra | cat sleeps bird | dog | the a sees
MATCHED = [1, 2, 2, 1 + 1 + 1 + 1 + 2 + 1]
GIVEN = [1, 1 + 1 + 1 + 1, 1 + 1 + 2, 3 + 1 + 1 + 3 + 1]
WANTED = [1, 1 + 2 + 1, 1 + 1 + 1, 3 + 1 + 2 + 3]


def _found(hypotheses: list[str]) -> np.ndarray:
    return matches_by_bin(
        [line.split() for line in hypotheses],
        [line.split() for line in REFERENCES],
        COUNTS,
        Bins.between((1, 5, 10)),
    )


def test_matches_are_those_counted_by_hand() -> None:
    assert _found(HYPOTHESES).sum(axis=0).T.tolist() == [MATCHED, GIVEN, WANTED]


def test_the_f_measure_is_that_of_precision_and_recall() -> None:
    values = f_measure(_found(HYPOTHESES).sum(axis=0))
    for place, value in enumerate(values):
        precision = MATCHED[place] / GIVEN[place]
        recall = MATCHED[place] / WANTED[place]
        assert value == pytest.approx(2 * precision * recall / (precision + recall))


def test_words_on_one_side_only_give_zero_and_none_at_all_no_data() -> None:
    values = f_measure(_found([""] * 6).sum(axis=0))
    assert values.tolist() == [0, 0, 0, 0]
    empty = matches_by_bin([["the"]], [["the"]], COUNTS, Bins.between((1, 1000)))
    assert np.isnan(f_measure(empty.sum(axis=0))).tolist() == [True, False, True]


def test_the_reference_itself_gives_one() -> None:
    assert f_measure(_found(REFERENCES).sum(axis=0)).tolist() == [1, 1, 1, 1]


def test_training_words_are_those_of_the_text_with_pieces_put_together(
    corpus: PreparedCorpus,
) -> None:
    side = corpus.pipeline.target
    store = corpus.pairs("train").target
    expected = Counter(word for i in range(len(store)) for word in side.words(store[i]))
    assert set(expected) == {"Dog", "Cat", "Bird", "Fish", "Mouse"}
    assert words_by_vocabulary(corpus) == expected == corpus.word_counts("target")


# how often each of the words w0 to w9 is in train, the vocabulary has those of at least 3
TRAINING = {f"w{n}": n for n in range(10)} | {"often": 40, "W9": 1}
TEST = ["w0 w1 w1 w2 w3", "w4 w9 often", "w1 never w2"]


@pytest.fixture
def with_threshold(tmp_path: Path) -> PreparedCorpus:
    """A corpus as in IWSLT15: words separated by spaces, no BPE, rare words left out."""
    words = [word for word, number in TRAINING.items() for _ in range(number)]
    lines = [" ".join(words[start : start + 5]) for start in range(0, len(words), 5)]
    texts = {"train": lines, "valid": TEST, "test": TEST}
    splits = {name: ParallelText(text, text) for name, text in texts.items()}
    whitespace = {"source_segment": "whitespace", "target_segment": "whitespace"}
    options = PrepareOptions(
        **whitespace, bpe="none", min_count=3, deduplicate=False, drop_identical=False
    )
    return prepare(Corpus("c", ("vi", "en"), splits), tmp_path / "data", options=options, workers=1)


def _f_measure(run: Run, **options: Any) -> Figure:
    study = load_study([run], "test", ON_CPU, **options)
    [figure] = frequency_figures(study, with_accuracy=False)
    assert isinstance(figure, Figure)
    return figure


def test_words_below_the_threshold_of_the_vocabulary_have_their_true_counts(
    with_threshold: PreparedCorpus, run_on: RunOn
) -> None:
    assert with_threshold.word_counts("source") == +Counter(TRAINING)
    figure = _f_measure(run_on(with_threshold))
    assert figure.bins == ["0", "1", "2", "3", "4", "5–9", "10–99", "100–999", "1,000+"]
    #                      w0 never, w1, w2, w3, w4, w9, often
    assert figure.counts == [2, 3, 2, 1, 1, 1, 1, 0, 0]
    assert "vocabulary" not in figure.note


def test_words_that_differ_by_case_are_counted_together_where_case_does_not_matter(
    with_threshold: PreparedCorpus, run_on: RunOn
) -> None:
    figure = _f_measure(run_on(with_threshold), lowercase=True)
    assert figure.counts == [2, 3, 2, 1, 1, 0, 2, 0, 0]  # w9 10 times


def test_a_bin_without_words_of_the_references_has_no_data(
    with_threshold: PreparedCorpus, run_on: RunOn
) -> None:
    study = load_study([run_on(with_threshold)], "test", ON_CPU)
    sums = np.zeros((len(study), 2, 3))
    sums[:, 0] = 1.0, 1.0, 2.0
    sums[:, 1, 1] = 1.0  # only in translations
    words = dict.fromkeys(["name", "title", "question", "x_label", "note"], "")
    figure = f_measure_figure(study, study.subjects, [[sums]], ["a", "b"], **words)
    assert figure.counts == [2 * len(study), 0]
    assert figure.series[0].values == [pytest.approx(2 / 3), None]
    assert figure.series[0].low[1] is None


def test_a_run_without_its_corpus_knows_the_counts(
    with_threshold: PreparedCorpus, run_on: RunOn, tmp_path: Path
) -> None:
    run = run_on(with_threshold)
    run.update_info(corpus="c")
    run.keep_word_counts(with_threshold.word_counts_path("target"))
    expected = _f_measure(run).counts
    text = ParallelText(["w1"], ["w1"])
    test = ParallelText(TEST, TEST)
    splits = {"train": text, "valid": text, "test": test}
    options = PrepareOptions(pipeline=str(run.folder), drop_leaked=False, drop_identical=False)
    other = prepare(Corpus("o", ("vi", "en"), splits), tmp_path / "o", options=options, workers=1)
    shutil.rmtree(with_threshold.folder)
    figure = _f_measure(run, data=other.folder)
    assert figure.counts == expected
    assert "training data of c." in figure.note


def test_a_corpus_without_counts_says_that_its_vocabulary_counts(
    with_threshold: PreparedCorpus, run_on: RunOn
) -> None:
    with_threshold.word_counts_path("target").unlink()
    figure = _f_measure(run_on(with_threshold))
    assert figure.counts == [7, 0, 0, 1, 1, 1, 1, 0, 0]
    assert "words that the vocabulary lacks have 0" in figure.note


# the time of compression, which would be in the name of the test, differs between workers
DAMAGED = gzip.compress(b"{}", mtime=0)[:10] + b"\xff" * 20


@pytest.mark.parametrize("content", [b"no gzip", DAMAGED], ids=["no gzip", "damaged"])
def test_damaged_counts_are_refused(
    with_threshold: PreparedCorpus, run_on: RunOn, content: bytes
) -> None:
    with_threshold.word_counts_path("target").write_bytes(content)
    with pytest.raises(CorpusError, match="the word counts are damaged"):
        _f_measure(run_on(with_threshold))


def test_bins_of_tokens_are_a_fifth_of_the_vocabulary_wide() -> None:
    """docs/systems.md 11.2; special tokens do not count."""
    vocabulary = Vocabulary.build({f"w{number}": 9 for number in range(28)})
    assert len(vocabulary) == 28 + 4
    assert token_bins(vocabulary).starts == (0, 5, 10, 15, 20)
