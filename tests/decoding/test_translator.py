from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from plugins.listener import Listener
from plugins.random_runs import ON_CPU

import jtrans
from jtrans.decoding.batched_search import translate_ids
from jtrans.decoding.batches import by_length
from jtrans.decoding.lines.given import GivenTranslation
from jtrans.decoding.lines.sentences import MANY_UNKNOWN
from jtrans.decoding.mbr import expected_utilities
from jtrans.decoding.options import (
    Constraints,
    SamplingOptions,
    SearchOptions,
    TranslationExtras,
)
from jtrans.decoding.teacher_forcing import teacher_forced_scores
from jtrans.decoding.translator import LONGEST_SOURCE, Translator, load_model
from jtrans.decoding.word_alignments import attention_to_source
from jtrans.errors import CheckpointError, DecodingError
from jtrans.nn.cpu.matmul_backend import PRECISIONS
from jtrans.runs import Run
from jtrans.text.pipeline import TextPipeline
from jtrans.text.vocabulary import EOS, Vocabulary

MakeRun = Callable[..., Path]
LINES = [
    "ein mann liest .",
    "",
    "ein hund rennt schnell .",
    "hund",
    "   ",
    "ein ein mann mann hund hund rennt rennt schnell schnell .",
    "katze .",
]


@pytest.fixture
def translator(make_run: MakeRun) -> Translator:
    # with these random weights no translation has filler, whose text is read as <unk>
    return Translator.load([Run.open(make_run(weights_seed=2))], ON_CPU)


def test_order_and_empty_lines_are_kept(translator: Translator) -> None:
    translations = translator.translate(LINES)
    assert len(translations) == len(LINES)
    assert translations[1] == translations[4] == ""
    assert translations == [translator.translate([line])[0] for line in LINES]
    assert translator.translate([]) == []


@pytest.mark.parametrize("batch_tokens", [1, 12, 1000])
def test_the_batch_size_changes_nothing(make_run: MakeRun, batch_tokens: int) -> None:
    choices = replace(ON_CPU, search={"beam": 4, "nbest": 4, "max_length": "S+4"})
    run = Run.open(make_run())
    whole = Translator.load([run], choices)
    cut = Translator.load([run], replace(choices, batch_tokens=batch_tokens))
    first, second = whole.translate_nbest(LINES), cut.translate_nbest(LINES)
    assert [[t.text for t in best] for best in second] == [[t.text for t in best] for best in first]
    scores = [t.score for best in first for t in best]
    assert [t.score for best in second for t in best] == pytest.approx(scores, abs=1e-5)


@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_scores_do_not_depend_on_the_library_that_was_faster_at_the_start(
    make_run: MakeRun, penalty: float
) -> None:
    def spread(model: Any) -> None:
        for weight in model.parameters():
            torch.nn.init.normal_(weight, std=0.3)

    model = {"system": "transformer", "width": 64, "ffn_width": 64, "heads": 2}
    run = Run.open(make_run(config={"model": model}, edit=spread))
    choices = replace(ON_CPU, extras=TranslationExtras(coverage_penalty=penalty))
    results = []
    before = torch.get_float32_matmul_precision()
    try:
        for precision in PRECISIONS.values():
            translator = Translator.load([run], choices)
            torch.set_float32_matmul_precision(precision)
            results.append(translator.translate_nbest(LINES))
    finally:
        torch.set_float32_matmul_precision(before)
    assert results[0] == results[1]


def test_a_translation_carries_its_tokens_and_their_log_probabilities(
    translator: Translator,
) -> None:
    [best] = translator.translate_nbest(["ein mann liest ."], 3)
    assert len(best) == 3
    for translation in best:
        assert translation.tokens[-1] == "</s>"
        assert translation.words == translation.tokens[:-1] == translation.text.split()
        assert len(translation.token_log_probs) == len(translation.tokens)
        assert translation.log_prob == pytest.approx(sum(translation.token_log_probs))
        assert translation.score == pytest.approx(translation.log_prob / len(translation.tokens))


def test_log_probabilities_are_those_of_teacher_forcing(translator: Translator) -> None:
    lines = [line for line in LINES if line.strip()]
    translations = [best[0] for best in translator.translate_nbest(lines)]
    scored = translator.teacher_forced_scores(
        lines, [translation.text for translation in translations]
    )
    for translation, line in zip(translations, scored, strict=True):
        assert line.tokens == translation.tokens
        assert line.token_log_probs == pytest.approx(translation.token_log_probs, abs=1e-5)


def test_forcing_keeps_order_and_gives_nothing_for_empty_pairs(translator: Translator) -> None:
    sources = ["ein mann liest schnell .", "", "hund"]
    targets = ["a man", "", "a dog runs fast ."]
    scored = translator.teacher_forced_scores(sources, targets)
    assert [line.tokens for line in scored] == [
        ["a", "man", "</s>"],
        [],
        ["a", "dog", "runs", "fast", ".", "</s>"],
    ]
    alone = [
        translator.teacher_forced_scores([s], [t])[0] for s, t in zip(sources, targets, strict=True)
    ]
    for line, single in zip(scored, alone, strict=True):
        assert line.token_log_probs == pytest.approx(single.token_log_probs, abs=1e-5)


def test_a_line_that_is_too_long_is_translated_in_parts(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentence by sentence, and a sentence that is too long in halves."""
    monkeypatch.setattr(type(translator.models[0]), "longest", 6)
    listener = Listener()
    long = "hund rennt . ein mann liest schnell . hund hund hund hund hund hund ein hund"
    parts = [
        "hund rennt .",
        "ein mann liest schnell .",
        "hund hund hund hund",
        "hund hund ein hund",
    ]
    [whole], [short] = translator.translate_nbest([long, "hund"], 1, listener)
    each = [best[0] for best in translator.translate_nbest(parts)]
    assert whole.text == " ".join(part.text for part in each)
    assert whole.tokens == [token for part in each for token in part.tokens]
    assert whole.log_prob == pytest.approx(sum(whole.token_log_probs))
    assert whole.score == pytest.approx(whole.log_prob / len(whole.tokens))
    assert short.text == translator.translate(["hund"])[0]
    [warning] = listener.warnings
    assert "line 1 has 16 tokens, more than 5: translated in 4 parts" in warning
    joint = Constraints(forbidden=[f"{each[0].words[-1]} {each[1].words[0]}"])
    with pytest.raises(DecodingError, match=r"line 1: .*two parts of its translation meet"):
        translator.translate_nbest([long], 1, constraints=[joint])


@pytest.mark.parametrize("sampling", [None, SamplingOptions()])
def test_the_expected_utility_over_the_whole_beam_ranks(
    translator: Translator, sampling: SamplingOptions | None
) -> None:
    """Hypotheses weigh by their probability, samples by how often they were drawn."""
    options = replace(translator.options, beam=8, nbest=8)
    extras = TranslationExtras(sampling=sampling)
    plain = replace(translator, options=options, extras=extras)
    [candidates] = plain.translate_nbest(LINES[:1])
    ranked = replace(plain, extras=replace(extras, mbr="chrf"))
    texts = [each.text for each in candidates]
    log_probs = None if sampling else [each.log_prob for each in candidates]
    scores = expected_utilities(texts, log_probs, "chrf", "en")
    expected = dict(sorted(zip(texts, scores, strict=True), key=lambda each: -each[1]))
    [chosen] = ranked.translate_nbest(LINES[:1])
    assert {each.text: each.score for each in chosen} == pytest.approx(expected)
    assert [each.score for each in chosen] == sorted(expected.values(), reverse=True)
    assert ranked.translate(LINES[:1]) == [next(iter(expected))] != plain.translate(LINES[:1])


def test_the_coverage_penalties_of_the_parts_of_a_line_are_added(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(translator.models[0]), "longest", 6)
    covered = replace(translator, extras=TranslationExtras(coverage_penalty=0.5))
    [[whole]] = covered.translate_nbest(["hund rennt . ein mann liest schnell ."], 1)
    parts = covered.translate_nbest(["hund rennt .", "ein mann liest schnell ."], 1)
    penalties = [part.score - part.log_prob / len(part.tokens) for [part] in parts]
    expected = whole.log_prob / len(whole.tokens) + sum(penalties)
    assert whole.score == pytest.approx(expected) and min(penalties) < 0


def test_the_utility_of_a_line_in_parts_is_their_mean(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(translator.models[0]), "longest", 6)
    chosen = replace(translator, extras=TranslationExtras(mbr="chrf"))
    [whole] = chosen.translate_nbest(["hund rennt . ein mann liest schnell ."], 1)
    parts = chosen.translate_nbest(["hund rennt .", "ein mann liest schnell ."], 1)
    scores = [part.score for [part] in parts]
    assert whole[0].score == pytest.approx(sum(scores) / 2) and min(scores) > 0


def test_parts_of_a_line_do_not_make_an_n_best_list(translator: Translator) -> None:
    line = "hund " * LONGEST_SOURCE
    with pytest.raises(DecodingError, match=r"line 8 has .* in parts with several translations"):
        translator.translate_nbest(["hund", line], 2, first_line=7)


def test_parts_of_a_line_are_as_long_as_sentences(translator: Translator) -> None:
    listener = Listener()
    translator.translate(["hund " * LONGEST_SOURCE], listener)
    [warning] = listener.warnings
    assert "1,024 tokens" in warning and "translated in 16 parts" in warning


def test_a_line_to_be_scored_is_cut_with_a_warning(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(translator.models[0]), "longest", 4)
    listener = Listener()
    [scored] = translator.teacher_forced_scores(["hund hund hund hund hund"], ["a dog"], listener)
    assert [scored] == translator.teacher_forced_scores(["hund hund hund"], ["a dog"])
    [warning] = listener.warnings
    assert "has 5 tokens, more than 3" in warning
    [scored] = translator.teacher_forced_scores(["hund"], ["a dog a dog a"], listener)
    assert [scored] == translator.teacher_forced_scores(["hund"], ["a dog a"])
    assert scored.tokens == ["a", "dog", "a", "</s>"] and len(listener.warnings) == 2


@pytest.mark.parametrize("measure", [teacher_forced_scores, attention_to_source])
def test_a_pair_that_is_too_long_for_a_model_is_refused_with_its_line(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, measure: Callable[..., Iterable[Any]]
) -> None:
    model = translator.models[0]
    monkeypatch.setattr(type(model), "longest", 4)
    for source, target in ((5, 3), (3, 5)):
        pairs = [[4, EOS], [4] * (source - 1) + [EOS]], [[4, EOS], [4] * (target - 1) + [EOS]]
        with pytest.raises(DecodingError, match="line 8: 5 tokens are more than the model's 4"):
            list(measure(model, *pairs, lines=[7, 8]))


def test_tokens_of_a_line_that_was_cut_are_scored_part_by_part(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(translator.models[0]), "longest", 6)
    line = "hund rennt . ein mann liest schnell ."
    [[best]] = translator.translate_nbest([line], 1)
    assert best.parts == 2
    given = GivenTranslation(best.text, best.tokens)
    [scored] = translator.teacher_forced_scores([line], [given])
    assert scored.tokens == best.tokens
    assert scored.token_log_probs == pytest.approx(best.token_log_probs, abs=1e-5)
    one_end = GivenTranslation("a", ["a", "</s>"])
    with pytest.raises(DecodingError, match="line 1: </s> must end the tokens of 2 sentences"):
        translator.teacher_forced_scores([line], [one_end])


def test_progress_counts_sentences(translator: Translator) -> None:
    listener = Listener()
    translator.translate(LINES, listener)
    assert listener.advances[-1][1:] == (5, 5)


@pytest.mark.parametrize(
    ("lines", "is_told"),
    [
        (["ein mann liest", "▁Ein ▁Mann ▁li est ▁.", "▁Hund"], True),
        (["vier neue worte xyz xyz", "ein mann liest", *["ein hund rennt ."] * 3], True),
        (["ein mann liest xyz", "ein hund"], False),
        (["ein mann liest .", "vier neue worte xyz"] + ["ein hund rennt ."] * 5, False),
        (["", "xyz"], False),
    ],
)
def test_a_source_of_mostly_unknown_words_is_warned_of(
    lines: list[str], is_told: bool, translator: Translator
) -> None:
    listener = Listener()
    translator.translate(lines, listener)
    assert (listener.warnings == [MANY_UNKNOWN]) == is_told
    assert is_told or not listener.warnings


def test_members_of_an_ensemble_read_the_source_each_in_its_own_way(
    make_run: MakeRun, tmp_path: Path
) -> None:
    """A model whose source ids are renumbered, with its embedding, is the same model."""
    runs = [Run.open(make_run("a")), Run.open(make_run("b", weights_seed=2))]
    choices = replace(ON_CPU, search={"beam": 3, "nbest": 3, "max_length": "S+4"})
    same = Translator.load(runs, choices)
    assert same.other_sources == []
    side = runs[0].pipeline.source
    words = side.vocabulary.tokens[4:11]
    counts = {word: 10 + place for place, word in enumerate(words)}
    renumbered = TextPipeline(
        replace(side, vocabulary=Vocabulary.build(counts)), runs[0].pipeline.target
    )
    other = Translator.load([runs[0], Run.open(make_run("c", pipeline=renumbered))], choices)
    weights = same.models[1].state_dict()
    name = "source_embedding.tokens.weight"
    moved = weights[name].clone()
    for word in words:
        old, new = side.encode(word)[0], renumbered.source.encode(word)[0]
        moved[new] = weights[name][old]
    other.models[1].load_state_dict({**weights, name: moved})
    expected = [[each.text for each in nbest] for nbest in same.translate_nbest(LINES)]
    assert [[each.text for each in nbest] for nbest in other.translate_nbest(LINES)] == expected
    three = Translator.load([*runs, Run.open(tmp_path / "c")], choices)
    assert three.other_sources == [side, renumbered.source]  # only the last one differs


def test_runs_of_different_vocabularies_form_no_ensemble(make_run: MakeRun) -> None:
    other = TextPipeline.whitespace(
        "de", "en", Vocabulary.build({"x": 1}), Vocabulary.build({"y": 1})
    )
    runs = [Run.open(make_run("first")), Run.open(make_run("second", pipeline=other))]
    with pytest.raises(DecodingError, match="different target vocabularies") as caught:
        Translator.load(runs, ON_CPU)
    assert caught.value.exit_code == 2


def test_an_ensemble_of_two_runs_differs_from_each(make_run: MakeRun) -> None:
    runs = [Run.open(make_run("first", weights_seed=1)), Run.open(make_run("b", weights_seed=2))]
    scores = [
        [best[0].score for best in Translator.load(which, ON_CPU).translate_nbest(LINES)]
        for which in ([runs[0]], [runs[1]], runs)
    ]
    assert scores[2] != scores[0]
    assert scores[2] != scores[1]
    with pytest.raises(DecodingError, match="scored by one model, not an ensemble"):
        Translator.load(runs, ON_CPU).teacher_forced_scores(["hund"], ["dog"])


def test_search_options_come_from_the_recipe_unless_given(make_run: MakeRun) -> None:
    config = {"decoding": {"beam": 3, "length_penalty": 0.6, "max_length": "20"}}
    run = Run.open(make_run(config=config))
    expected = SearchOptions(beam=3, length_penalty=0.6, max_length="20")
    assert Translator.load([run], ON_CPU).options == expected
    given = replace(ON_CPU, search={"beam": 2})
    assert Translator.load([run], given).options == replace(expected, beam=2)


def test_the_loaded_model_is_ready_to_translate(make_run: MakeRun) -> None:
    model = load_model(Run.open(make_run()), "last", torch.device("cpu"))
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_weights_that_are_no_numbers_are_refused(make_run: MakeRun) -> None:
    import safetensors.torch

    run = Run.open(make_run())
    weights = safetensors.torch.load_file(run.checkpoint("last").weights)
    weights[sorted(weights)[0]].fill_(float("nan"))
    with run.new_checkpoint(20) as folder:
        safetensors.torch.save_file(weights, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match="not finite"):
        load_model(run, "20", torch.device("cpu"))


def test_ids_in_arrays_that_cannot_be_written_are_read(make_run: MakeRun) -> None:
    model = load_model(Run.open(make_run()), device=torch.device("cpu"))
    array = np.array([4, 5, 1], dtype=np.int32)
    array.flags.writeable = False
    options = SearchOptions(max_length="S+3")
    assert translate_ids([model], [array], options) == translate_ids([model], [[4, 5, 1]], options)


def test_the_public_interface_translates(make_run: MakeRun) -> None:
    model = jtrans.load(make_run(), device="cpu")
    [text] = model.translate(["ein mann liest ."])
    [[first, second]] = model.translator.translate_nbest(["ein mann liest ."], 2)
    assert first.text == text
    assert first.score >= second.score


@pytest.mark.parametrize("is_joint", [False, True])
def test_batches_hold_every_sentence_once_within_the_budget(is_joint: bool) -> None:
    lengths = [*np.random.default_rng(3).integers(1, 90, 300).tolist(), *[3] * 80]
    batches = by_length(lengths, batch_tokens=200, is_joint=is_joint)
    assert sorted(index for batch in batches for index in batch) == list(range(380))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= 200
    longest = [max(lengths[i] for i in batch) for batch in batches]
    assert longest == sorted(longest, reverse=True)


def test_a_joint_batch_of_long_sentences_is_smaller() -> None:
    lengths = [80] * 40
    plain = by_length(lengths, batch_tokens=800, is_joint=False)
    joint = by_length(lengths, batch_tokens=800, is_joint=True)
    assert max(map(len, joint)) < max(map(len, plain))


def test_a_budget_of_no_tokens_is_refused() -> None:
    with pytest.raises(DecodingError, match="cannot hold a sentence"):
        by_length([3], batch_tokens=0, is_joint=False)
