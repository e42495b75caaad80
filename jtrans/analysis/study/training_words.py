"""How often the words of a study occur in a training text."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from jtrans.analysis.study.study import Study
from jtrans.analysis.study.words import TrainingWords
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import CorpusError, usage_error
from jtrans.runs import Run
from jtrans.text.vocabulary import SPECIALS, UNK

BY_VOCABULARY = (
    " It was prepared before words were counted: these are the counts of its vocabulary, and words "
    "that the vocabulary lacks have 0. Prepare it again for the true counts."
)


UNKNOWN_TEXT = "corpus.no-training-text"  # the kind of the error where no words can be counted


def training_words_of(study: Study) -> TrainingWords:
    """Return the word counts of a text that a run was trained on, whatever the order of the runs.

    Texts segmented into the words of the study are preferred, then the largest text. Without runs,
    the counts are those of the file of training text.

    Raises:
        JtransError: no training text is known.
    """
    if study.training is not None:
        return study.training
    if not study.runs:
        raise usage_error(
            "no training text to count words in",
            "--train FILE names the target side of the text that the systems were trained on",
        )

    def rank(run: Run) -> tuple[bool, bool, int, str, str]:
        train, side = _train(run), run.pipeline.target
        is_known = run.word_counts_path.is_file() or _training_corpus(run) is not None
        is_like = study.words.like(side) == study.words
        pairs, text = train.get("pairs", 0), json.dumps(train.get("sha256"), sort_keys=True)
        return is_known, is_like, pairs, text, run.pipeline.fingerprint()

    run = max(study.runs, key=rank)
    texts = [_train(other).get("sha256") for other in study.runs]
    note = "" if all(text == texts[0] for text in texts) else " The systems' training data differ."
    name, side = str(run.info.get("corpus", run.name)), run.pipeline.target
    counts = run.word_counts()
    if counts is None:
        corpus = _training_corpus(run)
        if corpus is None:
            corpus = study.with_model[0].run_members[0].corpus
            if "train" not in corpus.splits:
                raise CorpusError(
                    f"no training text to count words in: that of {run.name} was not found, and "
                    f"{corpus.folder} has none",
                    hint="prepare its training text, too: jtrans prepare --train PREFIX --test "
                    f"PREFIX --pipeline {shlex.quote(str(run.folder))} ...",
                    kind=UNKNOWN_TEXT,
                )
            note += f" The training data of {run.name} were not found."
        name, side, counts = corpus.name, corpus.pipeline.target, corpus.word_counts("target")
        if counts is None:
            counts = words_by_vocabulary(corpus)
            note += BY_VOCABULARY if (corpus.pairs("train").target.flat[0] == UNK).any() else ""
    words = study.words.like(side)
    if words.lowercase:
        folded = Counter[str]()
        for word, number in counts.items():
            folded[word.lower()] += number
        counts = folded
    return TrainingWords(name, words, counts, note)


def words_by_vocabulary(corpus: PreparedCorpus) -> Counter[str]:
    """Count the target words of the training ids, with subwords merged, but no unknown words."""
    ids, side = np.array(corpus.pairs("train").target.flat[0]), corpus.pipeline.target
    tokens = side.vocabulary.tokens
    is_split = np.array([side.is_inner(token) for token in tokens])[ids]
    is_whole = ~is_split
    is_whole[1:] &= ~is_split[:-1]  # the last subword of a longer word is not a word
    numbers = np.bincount(ids[is_whole & (ids >= len(SPECIALS))], minlength=len(tokens))
    counts = Counter({tokens[i]: int(numbers[i]) for i in np.flatnonzero(numbers)})
    pieces = [tokens[i] for i in ids[~is_whole].tolist()]
    counts.update(word for word in side.merge(pieces) if word not in SPECIALS)
    return counts


def _train(run: Run) -> dict[str, Any]:
    """Return the digests and sizes of the text a run was trained on; empty if unknown."""
    return dict(run.info.get("train") or {})


def _training_corpus(run: Run) -> PreparedCorpus | None:
    """Return the prepared corpus a run was trained on; None if it was deleted or replaced."""
    folder = run.info.get("data")
    if folder is None or not PreparedCorpus.exists(Path(folder)):
        return None
    corpus = PreparedCorpus.open(Path(folder))
    train = corpus.info["splits"].get("train")
    if train is None:
        return None
    return corpus if _train(run).get("sha256") in (None, train.get("sha256")) else None
