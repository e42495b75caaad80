"""Scores of raw text: sacreBLEU's numbers, tokenizers, signatures, intervals, bad input."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU

from jtrans.errors import ConfigError, CorpusError, WorkError
from jtrans.evaluation import scores
from jtrans.evaluation.scores import (
    METRICS,
    Score,
    check_tokenizer,
    corpus_score,
    interval_text,
    make_metric,
    sacrebleu_scores,
    tokenizer_name,
)

REFERENCES = [
    "Two dogs are running through the snow.",
    "A man is sitting on a red bench, reading.",
    "Children play in the water near the beach.",
    "The woman in the blue coat looks at her phone.",
    "A small boat crosses the quiet lake.",
]
HYPOTHESES = [
    "Two dogs run through the snow.",
    "A man is sitting on a bench, reading.",
    "Kids play in water near the beach.",
    "A woman in a blue coat looks at the phone.",
    "A small boat crosses the lake.",
]
SENTENCE = st.lists(
    st.sampled_from(["a", "dog", "runs", "home,", "quickly", ".", "The"]), max_size=8
)
SENTENCES = st.lists(SENTENCE.map(" ".join), min_size=1, max_size=6)


def one_system(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], **options: Any
) -> list[Score]:
    """Return the scores of a single system."""
    [of_system] = sacrebleu_scores([hypotheses], references, **options)
    return of_system


def values(hypotheses: list[str], references: list[list[str]]) -> list[float]:
    metrics = [
        make_metric(name, references, target_language="en", lowercase=False) for name in METRICS
    ]
    return [metric.corpus_score(hypotheses, references=None).score for metric in metrics]


def test_scores_are_those_of_the_sacrebleu_command() -> None:
    # sacrebleu ref.txt -i hyp.txt -m bleu chrf ter -w 6 (2.6.0)
    results = one_system(HYPOTHESES, [REFERENCES], target_language="en")
    assert [(score.name, round(score.value, 6)) for score in results] == [
        ("BLEU", 52.663121),
        ("chrF2", 68.953844),
        ("TER", 21.951220),
    ]


def test_words_count_in_chrf_plus_plus() -> None:
    # sacrebleu ref.txt -i hyp.txt -m chrf --chrf-word-order 2 -w 6 (2.6.0)
    (score,) = one_system(HYPOTHESES, [REFERENCES], metrics=["chrf++"], target_language="en")
    assert (score.name, round(score.value, 6)) == ("chrF2++", 70.475117)
    assert "|nc:6|nw:2|" in score.signature and score.interval


def test_a_single_sentence_has_no_interval() -> None:
    scores = one_system(HYPOTHESES[:1], [REFERENCES[:1]], target_language="en")
    assert [score.interval for score in scores] == [None] * len(scores)


def test_the_signature_tells_how_it_was_made() -> None:
    (score,) = one_system(
        HYPOTHESES, [REFERENCES] * 2, metrics=["bleu"], target_language="en", lowercase=True
    )
    assert score.signature.startswith(
        "BLEU|nrefs:2|bs:1000|seed:12345|case:lc|eff:no|tok:13a|smooth:exp|version:"
    )


def test_metrics_come_in_the_order_asked_for() -> None:
    results = one_system(HYPOTHESES, [REFERENCES], metrics=["ter", "bleu"], target_language="en")
    assert [score.name for score in results] == ["TER", "BLEU"]


def test_lowercasing_ignores_case() -> None:
    loud = [line.upper() for line in REFERENCES]
    results = one_system(loud, [REFERENCES], target_language="en", lowercase=True)
    assert [score.value for score in results] == pytest.approx([100, 100, 0])
    assert corpus_score("bleu", loud, [REFERENCES], target_language="en") < 50


def test_a_second_reference_can_only_help() -> None:
    single = values(HYPOTHESES, [REFERENCES])
    both = values(HYPOTHESES, [REFERENCES, HYPOTHESES])
    assert single[0] < both[0] == pytest.approx(100)
    assert single[2] > both[2] == 0


@given(SENTENCES)
def test_a_perfect_hypothesis_scores_one_hundred(lines: list[str]) -> None:
    lines = ["one line long enough", *lines]
    assert values(lines, [lines]) == pytest.approx([100, 100, 0])


@given(st.permutations(range(len(REFERENCES))))
@settings(max_examples=20)
def test_the_order_of_sentences_does_not_matter(order: list[int]) -> None:
    shuffled = values([HYPOTHESES[i] for i in order], [[REFERENCES[i] for i in order]])
    assert shuffled == pytest.approx(values(HYPOTHESES, [REFERENCES]))


@given(SENTENCES, st.booleans())
@settings(max_examples=30)
def test_validation_bleu_is_the_bleu_of_the_final_score(lines: list[str], lowercase: bool) -> None:
    lines = [f"the {line}" for line in lines]
    references = [lines[::-1]]
    (score,) = one_system(
        lines,
        references,
        metrics=["bleu"],
        target_language="en",
        lowercase=lowercase,
    )
    bleu = corpus_score("bleu", lines, references, target_language="en", lowercase=lowercase)
    assert bleu == score.value


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [("en", "13a"), ("de", "13a"), ("vi", "13a"), ("zh", "zh"), ("zh-CN", "zh"), ("ZH_tw", "zh")],
)
def test_the_language_chooses_the_tokenizer(language: str, tokenizer: str) -> None:
    assert tokenizer_name(language) == tokenizer
    (score,) = one_system(["我很好。"], [["我很好。"]], metrics=["bleu"], target_language=language)
    assert f"|tok:{tokenizer}|" in score.signature


@pytest.mark.parametrize("language", ["ja", "ko"])
@pytest.mark.parametrize("is_installed", [True, False])
def test_japanese_and_korean_use_characters_where_mecab_is_missing(
    language: str, is_installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scores, "find_spec", lambda module: object() if is_installed else None)
    assert tokenizer_name(language) == (f"{language}-mecab" if is_installed else "char")
    if not is_installed:
        (score,) = one_system(
            ["私は元気"], [["私は元気"]], metrics=["bleu"], target_language=language
        )
        assert "|tok:char|" in score.signature


@pytest.mark.parametrize(
    ("name", "fault", "error", "message"),
    [
        ("flores200", ImportError("no sentencepiece"), ConfigError, "needs a package"),
        ("ja-mecab", RuntimeError("no MeCab"), ConfigError, "needs a package"),
        ("flores200", OSError("no network"), WorkError, "cannot load .*: no network"),
        ("flores200", RuntimeError("damaged"), WorkError, "cannot load .*: damaged"),
        ("intl13", None, ConfigError, "unknown tokenizer 'intl13'"),
    ],
)
def test_tokenizers_that_cannot_be_used_are_refused(
    name: str,
    fault: Exception | None,
    error: type[Exception],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: str) -> None:
        assert fault is not None
        raise fault

    monkeypatch.setattr("sacrebleu.metrics.bleu._get_tokenizer", fail)
    monkeypatch.delenv("JTRANS_OFFLINE", raising=False)
    with pytest.raises(error, match=message) as refused:
        check_tokenizer(name)
    assert getattr(refused.value, "hint", None)


def test_without_downloads_the_model_of_a_tokenizer_must_be_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "sacrebleu.metrics.bleu._get_tokenizer", lambda _: pytest.fail("it would be downloaded")
    )
    monkeypatch.setattr("sacrebleu.utils.SACREBLEU_DIR", str(tmp_path))
    monkeypatch.setenv("JTRANS_OFFLINE", "1")
    with pytest.raises(ConfigError, match="flores200 is missing, and JTRANS_OFFLINE") as refused:
        check_tokenizer("flores200")
    assert str(tmp_path) in str(refused.value.hint)
    monkeypatch.undo()
    monkeypatch.setenv("JTRANS_OFFLINE", "1")
    check_tokenizer("intl")  # it has no model


@pytest.mark.parametrize(
    ("language", "line", "reference"),
    [
        ("zh", "你叫什么名字？我很好。", "你叫什么姓名？我很好。"),
        ("ja", "私は元気です。", "私は病気です。"),
    ],
)
def test_characters_without_spaces_count_in_every_metric(
    language: str, line: str, reference: str
) -> None:
    results = one_system([line], [[reference]], target_language=language)
    bleu, _, ter = (score.value for score in results)
    assert 0 < bleu < 100
    assert 0 < ter < 50  # one whole line as one word would be 100


def test_the_interval_is_sacrebleus_own() -> None:
    (score,) = one_system(HYPOTHESES, [REFERENCES], metrics=["bleu"], target_language="en")
    expected = BLEU().corpus_score(HYPOTHESES, [REFERENCES], n_bootstrap=1000)
    assert score.interval == pytest.approx(expected._ci, abs=1e-5)


@pytest.mark.parametrize("former", [None, "77"])
def test_the_seed_in_the_environment_changes_nothing_and_is_put_back(
    former: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    options: dict[str, Any] = {"metrics": ["bleu"], "target_language": "en"}
    expected = one_system(HYPOTHESES, [REFERENCES], **options)
    if former:
        monkeypatch.setenv("SACREBLEU_SEED", former)
    scores = one_system(HYPOTHESES, [REFERENCES], **options)
    assert scores == expected
    assert "|seed:12345|" in scores[0].signature
    assert os.environ.get("SACREBLEU_SEED") == former


def test_many_lines_that_look_tokenised_write_nothing_to_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        corpus_score("bleu", ["a b c ."] * 200, [["a b c ."] * 200], target_language="en")
    assert not caplog.records


def test_empty_lines_are_scored_like_any_other() -> None:
    assert corpus_score("bleu", ["", *HYPOTHESES], [["", *REFERENCES]], target_language="en") == (
        corpus_score("bleu", HYPOTHESES, [REFERENCES], target_language="en")
    )
    assert values([""], [[""]]) == [0, 0, 0]


@pytest.mark.parametrize("metric", ["bleu", "chrf", "chrf++", "ter"])
def test_a_blank_line_of_one_reference_set_is_a_missing_reference(metric: str) -> None:
    """It would be a reference of no words, beside which an empty translation costs nothing."""
    gaps = ["", "  ", *REFERENCES[2:]]
    lost = ["", *HYPOTHESES[1:]]
    options: dict[str, Any] = {"metrics": [metric], "target_language": "en"}
    alone = one_system(lost, [REFERENCES], **options)
    for references in ([REFERENCES, gaps], [gaps, REFERENCES]):
        [score] = one_system(lost, references, **options)
        assert score.value == alone[0].value
        assert "nrefs:var" in score.signature


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        (["a"] * 1001, [["a"] * 1000], "1,001 translations but 1,000 references"),
        (["a"], [["a"], ["a", "b"]], "1 translation but 2 references in reference set 2"),
        ([], [["a"]], "0 translations but 1 reference"),
        ([], [[]], "test set is empty"),
        (["a"], [], "no references"),
    ],
)
def test_sets_that_do_not_fit_are_refused_with_their_counts(
    hypotheses: list[str], references: list[list[str]], message: str
) -> None:
    with pytest.raises(CorpusError, match=message):
        one_system(hypotheses, references, target_language="en")
    with pytest.raises(CorpusError, match=message):
        corpus_score("bleu", hypotheses, references, target_language="en")


@pytest.mark.parametrize(
    ("value", "half", "ends", "metric", "text"),
    [
        (41.5, 3.26, (38.0, 44.5), "bleu", "± 3.3"),
        (2.0, 13.0, (0.0, 26.0), "bleu", "[0.0, 26.0]"),
        (99.0, 2.0, (96.0, 100.0), "chrf", "[96.0, 100.0]"),
        (100.00000000000004, 0.0, (100.0, 100.0), "bleu", "± 0.0"),
        (99.0, 1.02, (97.96, 100.0), "bleu", "± 1.0"),
        (99.0, 2.0, (97.1, 101.1), "ter", "± 2.0"),
        (1.0, 2.0, (0.0, 4.0), "ter", "[0.0, 4.0]"),
        (99.0, 2.0, (97.0, 101.0), "COMET", "± 2.0"),
        (1.0, None, None, "multi-bleu", ""),
    ],
)
def test_an_interval_that_passes_a_limit_of_its_metric_is_shown_by_its_ends(
    value: float, half: float | None, ends: tuple[float, float] | None, metric: str, text: str
) -> None:
    assert interval_text(value, half, ends, metric) == text


def test_references_are_prepared_once_for_all_systems_some_lines_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The n-grams of all references at once would fill the memory."""
    references = [REFERENCES, ["", *REFERENCES[1:]]]
    systems = [HYPOTHESES, REFERENCES, HYPOTHESES[::-1]]
    options: dict[str, Any] = {"metrics": ["bleu", "chrf", "ter"], "target_language": "en"}
    whole = sacrebleu_scores(systems, references, **options)
    prepared: list[int] = []
    prepare = Metric._cache_references

    def counted(self: Metric, sets: Any) -> Any:
        prepared.append(len(sets[0]))
        return prepare(self, sets)

    monkeypatch.setattr(Metric, "_cache_references", counted)
    monkeypatch.setattr("jtrans.evaluation.scores.LINES_AT_ONCE", 2)
    in_parts = sacrebleu_scores(systems, references, **options)
    for ours, others in zip(whole, in_parts, strict=True):
        assert [(s.value, s.signature) for s in ours] == [(s.value, s.signature) for s in others]
        for score, other in zip(ours, others, strict=True):
            assert np.array_equal(score.drawn, other.drawn, equal_nan=True)
    assert max(prepared) == 2 and sum(prepared) == 3 * (len(REFERENCES) + 1)
