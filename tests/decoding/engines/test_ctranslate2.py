"""Translation with CTranslate2: the same options, tokens and scores as with torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from plugins.random_runs import MakeRun

from jtrans.decoding.engines.ctranslate2_options import check_choices
from jtrans.decoding.engines.ctranslate2_translator import CTranslate2Translator
from jtrans.decoding.lines.translation import Translation
from jtrans.decoding.options import Constraints, DecodingChoices, SamplingOptions, TranslationExtras
from jtrans.decoding.teacher_forcing import teacher_forced_scores
from jtrans.decoding.translator import Translator
from jtrans.errors import DecodingError
from jtrans.exchange.to_ctranslate2 import export_to_ctranslate2
from jtrans.exports import Export
from jtrans.runs import Run
from jtrans.text.vocabulary import EOS, PAD, SPARE

pytest.importorskip("ctranslate2")

LINES = ["ein mann liest .", "", "hund", "ein hund rennt schnell . mann", "rennt unbekannt ."]
ON_CPU = DecodingChoices(device="cpu")
Pair = Callable[..., tuple[Translator, CTranslate2Translator]]


def never_excluded(model: Any) -> None:
    """Make the tokens that must not come improbable, as in a trained model."""
    model.output.bias.data[[PAD, SPARE]] = -30.0
    model.output.bias.data[EOS] = 0.7


@pytest.fixture
def run(make_run: MakeRun) -> Run:
    model = {"system": "transformer", "encoder_layers": 1, "decoder_layers": 2, "width": 8}
    model |= {"ffn_width": 16, "heads": 2, "output_bias": True}
    config = {"model": model, "decoding": {"max_length": "S+3"}}
    return Run.open(make_run(config=config, edit=never_excluded))


@pytest.fixture
def export(run: Run) -> Export:
    return export_to_ctranslate2(run, run.folder / "export")


@pytest.fixture
def pair(run: Run, export: Export) -> Pair:
    """Return a function that loads the run for torch, and its export."""

    def load(extras: TranslationExtras | None = None, **search: Any) -> Any:
        choices = replace(ON_CPU, search=search, extras=extras or TranslationExtras())
        return Translator.load([run], choices), CTranslate2Translator.open(export, choices)

    return load


def assert_same(ours: list[list[Translation]], theirs: list[list[Translation]]) -> None:
    for nbest, their in zip(ours, theirs, strict=True):
        assert [each.text for each in their] == [each.text for each in nbest]
        for expected, given in zip(nbest, their, strict=True):
            assert given.tokens == expected.tokens
            assert given.alignment == expected.alignment
            assert given.score == pytest.approx(expected.score, abs=1e-4)
            assert given.token_log_probs == pytest.approx(expected.token_log_probs, abs=1e-4)


@pytest.mark.parametrize(
    "search",
    [
        {"beam": 1},
        {"beam": 5, "min_length": 0},
        {"beam": 3, "min_length": 0, "length_penalty": 0.0},
        {"beam": 4, "min_length": 0, "length_penalty": 2.5},
        {"beam": 3, "length_penalty": 0.0},
        {"beam": 2, "min_length": 0, "max_length": "4"},
        {"beam": 3, "max_length": "1", "min_length": 0},
    ],
)
def test_the_best_translations_are_the_same(pair: Pair, search: dict[str, Any]) -> None:
    torch, ctranslate2 = pair(**search)
    assert_same(torch.translate_nbest(LINES), ctranslate2.translate_nbest(LINES))


def test_lengths_and_repeated_words_are_bounded(pair: Pair) -> None:
    _, ctranslate2 = pair(beam=4, nbest=4, min_length=3, no_repeat_ngram=1, max_length="S+1")
    for line, nbest in zip(LINES, ctranslate2.translate_nbest(LINES), strict=True):
        for each in nbest if line else []:
            tokens = each.tokens[:-1]
            assert min(3, len(line.split()) + 1) <= len(tokens) <= len(line.split()) + 1
            assert len(set(tokens)) == len(tokens)


def test_every_hypothesis_has_its_own_log_probability(pair: Pair) -> None:
    torch, ctranslate2 = pair(beam=4, nbest=4)
    source, target = torch.pipeline.source, torch.pipeline.target.vocabulary.tokens
    for line, nbest in zip(LINES, ctranslate2.translate_nbest(LINES), strict=True):
        assert [each.score for each in nbest] == sorted(
            (each.score for each in nbest), reverse=True
        )
        for each in nbest if line else []:
            ids = [target.index(token) for token in each.tokens]
            scored = teacher_forced_scores(torch.models[0], [source.encode(line)], [ids])[0]
            assert each.token_log_probs == pytest.approx(scored.log_probs, abs=1e-4)
            assert each.log_prob == pytest.approx(sum(scored.log_probs), abs=1e-4)
            assert each.score == pytest.approx(each.log_prob / len(ids))


def test_prefixes_are_forced_and_scored(pair: Pair) -> None:
    torch, ctranslate2 = pair(beam=3)
    prefixes = ["a dog", "", "the man", "", "reads"]
    constraints = [Constraints(prefix=prefix) for prefix in prefixes]
    theirs = ctranslate2.translate_nbest(LINES, constraints=constraints)
    for prefix, line, nbest in zip(prefixes, LINES, theirs, strict=True):
        assert nbest[0].text.startswith(prefix if line else "")
    assert_same(torch.translate_nbest(LINES, constraints=constraints)[:1], theirs[:1])
    with pytest.raises(DecodingError, match="leaves no room"):
        ctranslate2.translate_nbest(["hund"], constraints=[Constraints("a a a a a a a a a")])
    with pytest.raises(DecodingError, match="does not support required and forbidden phrases"):
        ctranslate2.translate_nbest(["hund"], constraints=[Constraints(forbidden=["a"])])


def test_word_alignments_are_the_same(pair: Pair) -> None:
    torch, ctranslate2 = pair(
        TranslationExtras(alignments=True, unk_replace=True), beam=2, min_length=0
    )
    assert_same(torch.translate_nbest(LINES), ctranslate2.translate_nbest(LINES))


def test_samples_keep_to_the_filter_and_to_the_limit(pair: Pair) -> None:
    extras = TranslationExtras(sampling=SamplingOptions(seed=5, top_k=1))
    torch, ctranslate2 = pair(extras, beam=3, nbest=3, min_length=0)
    greedy = torch.translate_nbest(LINES)
    assert_same(greedy, ctranslate2.translate_nbest(LINES))
    extras = TranslationExtras(sampling=SamplingOptions(temperature=2.0, top_p=0.6))
    search = {"beam": 40, "nbest": 40, "min_length": 0, "max_length": "S+1"}
    means = []
    for translator in pair(extras, **search):
        drawn = [each for samples in translator.translate_nbest(LINES * 2) for each in samples]
        assert max(len(each.tokens) for each in drawn) == 8
        means.append(sum(each.log_prob for each in drawn) / sum(len(each.tokens) for each in drawn))
    assert means[1] == pytest.approx(means[0], rel=0.1)


def test_samples_do_not_depend_on_what_was_drawn_before(pair: Pair) -> None:
    sampling = SamplingOptions(seed=5, temperature=2.0)
    extras = TranslationExtras(sampling=sampling)
    search = {"beam": 6, "nbest": 6, "min_length": 0}
    _, whole = pair(extras, **search)
    whole.translate_nbest(LINES)
    _, continued = pair(extras, **search)
    other = [each.text for each in whole.translate_nbest(LINES[::-1])[0]]
    assert other == [each.text for each in continued.translate_nbest(LINES[::-1])[0]]
    _, reseeded = pair(TranslationExtras(sampling=replace(sampling, seed=6)), **search)
    assert other != [each.text for each in reseeded.translate_nbest(LINES[::-1])[0]]


def test_the_best_is_the_first_of_a_list_also_where_tokens_are_excluded(pair: Pair) -> None:
    for options in ({"no_repeat_ngram": 1}, {"min_length": 4, "max_length": "S+6"}):
        _, single = pair(beam=8, length_penalty=2.0, **options)
        _, several = pair(beam=8, length_penalty=2.0, nbest=8, **options)
        best = [each[0].text for each in single.translate_nbest(LINES)]
        assert best == [each[0].text for each in several.translate_nbest(LINES)]


def test_without_scores_the_texts_are_the_same(export: Export) -> None:
    choices = replace(ON_CPU, search={"beam": 1, "max_length": "S+60"})
    with_scores = CTranslate2Translator.open(export, choices)
    without = CTranslate2Translator.open(export, replace(choices, needs_scores=False))
    assert without.translate(LINES) == with_scores.translate(LINES)
    assert without.translate_nbest(LINES[:1])[0][0].token_log_probs == []


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"search": {"length_penalty_form": "gnmt"}}, "--length-penalty-form"),
        ({"search": {"stopping": "bound"}}, "--stopping"),
        ({"precision": "int4"}, "--precision int4"),
        (
            {"extras": TranslationExtras(alignments=True, alignment_layer="decoder.9.cross")},
            "--alignment-layer",
        ),
        (
            {"extras": TranslationExtras(sampling=SamplingOptions(epsilon=0.1))},
            "--epsilon",
        ),
    ],
)
def test_what_it_cannot_follow_is_named(
    export: Export, changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(DecodingError, match=f"does not support {named}"):
        check_choices(export, replace(ON_CPU, **changes))
