"""Raw lines around the search: parts of long ones, constraints, what is read off attention."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plugins.random_runs import JOINT, ON_CPU, TRANSFORMER, MakeRun

from jtrans.decoding.lines.attended import LEAST_COVERAGE, coverage
from jtrans.decoding.lines.constraints import (
    MOST_SPELLINGS,
    ConstraintEncoder,
    check_room,
)
from jtrans.decoding.lines.long_lines import cut, joined_alignment
from jtrans.decoding.lines.translation import Translation
from jtrans.decoding.options import Constraints, SamplingOptions, TranslationExtras
from jtrans.decoding.translator import Translator
from jtrans.decoding.word_alignments import attention_to_source, choose_layer
from jtrans.errors import DecodingError
from jtrans.runs import Run
from jtrans.text.alignments import to_pharaoh
from jtrans.text.pipeline import TextPipeline, TextSide
from jtrans.text.truecase import Truecaser
from jtrans.text.vocabulary import UNK, Vocabulary

CODES = "#version: 0.2\nr i\nri c\nric h</w>\nd o\ndo g</w>\n"
LINES = ["ein mann liest .", "", "ein hund rennt schnell ."]


@pytest.fixture(scope="module")
def encoder() -> ConstraintEncoder:
    words = ["the", "house", "dog", "a"]
    side = TextSide("en", "whitespace", False, None, Vocabulary.build(dict.fromkeys(words, 1)))
    return ConstraintEncoder(side)


@given(
    line=st.text(alphabet=[*"abc .!?。"], max_size=60),
    longest=st.integers(1, 9),
)
def test_parts_are_short_and_lose_no_text(line: str, longest: int) -> None:
    parts = cut(line, lambda text: len(text) <= longest)
    assert all(len(part) <= longest for part in parts)
    assert "".join("".join(parts).split()) == "".join(line.split())
    assert all(part.strip() for part in parts) or parts == [line]


def test_marks_belong_to_the_sentence_before_them() -> None:
    line = "你好！！！真的吗？！”是的。。。 nichts ! ! Ja . . . . Nein."
    assert cut(line, lambda text: len(text) <= 12) == [
        "你好！！！",
        "真的吗？！”",
        "是的。。。",
        "nichts ! !",
        "Ja . . . .",
        "Nein.",
    ]
    assert cut(". . Ja. Nein.", lambda text: len(text) <= 8) == [". . Ja.", "Nein."]


def test_a_line_is_cut_after_sentences_and_then_at_white_space() -> None:
    line = 'He said: "No." Then he left. 走了。再见。' + "word " * 5
    assert cut(line, lambda text: len(text) <= 14) == [
        'He said: "No."',
        "Then he left.",
        "走了。",
        "再见。",
        "word word word",
        "word word",
    ]


def test_the_alignment_of_parts_counts_the_words_of_the_line() -> None:
    """Moses keeps the full stop of an abbreviation within a line, and not at the end of one."""
    source = TextSide("en", "moses-escaped")
    line, parts = "Ask Dr. Who now.", ["Ask Dr.", "Who now."]
    assert source.segment(parts[0]) + source.segment(parts[1]) != source.segment(line)
    translations = [
        Translation("", 0.0, 0.0, [], [], words, alignment)
        for words, alignment in ((["Fragen", "Dr", "."], "0-0 1-1 2-2"), (["Wen"], "0-0 2-0"))
    ]
    assert joined_alignment(line, parts, translations, source) == "0-0 1-1 1-2 2-3 4-3"


def test_an_alignment_whose_characters_changed_is_empty() -> None:
    parts = [Translation("", 0.0, 0.0, [], [], ["a"], "0-0")] * 2
    side = TextSide("fr", "character")
    assert joined_alignment("e\u0301", ["e", "\u0301"], parts, side) == ""


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_long_line_has_joined_alignments_and_no_grid(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    extras = TranslationExtras(alignments=True, grid=True)
    choices = replace(ON_CPU, extras=extras, search={"beam": 2, "nbest": 2, "max_length": "6"})
    loaded = Translator.load([Run.open(make_run(config={"model": JOINT}))], choices)
    monkeypatch.setattr(type(loaded.models[0]), "longest", 6)
    translator = replace(loaded, refuses_long=is_refused)
    line = "ein hund . ein mann liest ."
    if is_refused:
        with pytest.raises(DecodingError, match="in parts with several translations"):
            translator.translate_nbest([line])
        return
    [[whole], short] = translator.translate_nbest([line, "ein hund ."])
    assert len(short) == 2 and short[0].grid is not None and short[0].parts is None
    assert whole.grid is None and whole.parts == 2
    first, second = (
        best[0] for best in translator.translate_nbest(["ein hund .", "ein mann liest ."])
    )
    links = [tuple(map(int, link.split("-"))) for link in (second.alignment or "").split()]
    later = [f"{i + 3}-{j + len(first.words)}" for i, j in links]
    assert whole.alignment == " ".join([*(first.alignment or "").split(), *later])


def test_phrases_are_segmented_like_targets_and_those_within_others_left_out(
    encoder: ConstraintEncoder,
) -> None:
    constraints = Constraints(required=["the house", "house", "the house"], forbidden=["a dog"])
    encoded = encoder.encode(constraints, 1)
    ids = encoder.side.vocabulary.ids
    assert encoded.required == [ids(["the", "house"])]
    assert encoded.forbidden == [ids(["a", "dog"])]


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (Constraints(required=["the house"], forbidden=["house"]), "'the house' contains"),
        (Constraints(prefix="a dog", forbidden=["dog"]), "the prefix contains"),
        (Constraints(prefix="a cat", forbidden=["cat"]), "the prefix contains"),
        (Constraints(prefix_tokens=["a", "<unk>"], forbidden=["<unk>"]), "the prefix contains"),
        (Constraints(required=[" "]), "' ' has no words"),
        (Constraints(forbidden=[""]), "'' has no words"),
        (Constraints(required=["the cat"]), "parts that the target vocabulary lacks"),
        (Constraints(prefix_tokens=["the", "</s>"]), "no target token '</s>'"),
    ],
)
def test_constraints_that_contradict_each_other_are_refused_with_their_line(
    encoder: ConstraintEncoder, constraints: Constraints, message: str
) -> None:
    with pytest.raises(DecodingError, match="line 1,234: ") as caught:
        encoder.encode(constraints, 1234)
    assert message in caught.value.message
    assert caught.value.hint


def test_a_forbidden_phrase_is_noticed_where_two_parts_meet(encoder: ConstraintEncoder) -> None:
    forbidden = encoder.encode(Constraints(forbidden=["the house", "dog"]), 1)
    house, the, a_the = (
        Translation("", 0.0, 0.0, [*words, "</s>"], [], words)
        for words in (["house"], ["the"], ["a", "the"])
    )
    encoder.check_joined([house, the], forbidden, 7)
    with pytest.raises(DecodingError, match=r"line 7: .* form a forbidden phrase"):
        encoder.check_joined([a_the, house], forbidden, 7)
    replaced = Translation("", 0.0, 0.0, ["<unk>", "</s>"], [], ["the"])
    with pytest.raises(DecodingError, match=r"line 7: .* form a forbidden phrase"):
        encoder.check_joined([replaced, house], forbidden, 7)


def test_an_unknown_word_of_a_prefix_begins_a_forbidden_phrase(make_run: MakeRun) -> None:
    translator = Translator.load([Run.open(make_run())], ON_CPU)
    lines = LINES[:1]
    [*begin, word] = translations_with(translator, lines, Constraints("Ψ Ω"))[0][:3]
    forbidden = [f"Ω {word}"]
    [forbidding] = translations_with(translator, lines, Constraints("Ψ Ω", forbidden=forbidden))
    assert begin == forbidding[:2] == ["Ψ", "Ω"]
    assert forbidding[2:3] != [word]
    constraints = Constraints(f"Ψ {word} Ω", forbidden=forbidden)  # after another unknown word
    assert translations_with(translator, lines, constraints)[0][:3] == ["Ψ", word, "Ω"]


@pytest.mark.parametrize("unseen", ["\ufeff", "\u0007"])
def test_a_part_of_a_long_line_may_have_no_words(make_run: MakeRun, unseen: str) -> None:
    side = TextSide("de", "moses", vocabulary=Vocabulary.build({"ein": 1, "hund": 1, ".": 1}))
    run = Run.open(make_run(pipeline=TextPipeline(side, side)))
    translator = Translator.load([run], replace(ON_CPU, search={"beam": 1, "max_length": "S+3"}))
    line = "ein hund . " * 400
    [[plain]] = translator.translate_nbest([line], 1)
    [[best]] = translator.translate_nbest([line + unseen], 1)
    assert (best.text, best.parts) == (plain.text, plain.parts)
    assert best.score == pytest.approx(plain.score)
    half = "ein " * 1_100  # the other half has no words
    [[best]] = translator.translate_nbest([half + f"{unseen} " * 6_000], 1)
    assert best.words and best.parts and best.parts > 2


@pytest.mark.parametrize(
    "prefix", [Constraints("dog dog"), Constraints(prefix_tokens=["dog", "dog"])]
)
def test_a_prefix_begins_only_the_first_part_of_a_long_line(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, prefix: Constraints
) -> None:
    choices = replace(ON_CPU, search={"beam": 1, "max_length": "6"})
    translator = Translator.load([Run.open(make_run())], choices)
    monkeypatch.setattr(type(translator.models[0]), "longest", 6)
    lines = ["ein hund . ein mann liest .", "ein mann liest ."]
    [[whole], [second]] = translator.translate_nbest(lines, 1, constraints=[prefix, Constraints()])
    assert whole.parts == 2 and second.tokens[:2] != ["dog", "dog"]
    assert whole.tokens[:2] == ["dog", "dog"]
    assert whole.tokens[-len(second.tokens) :] == second.tokens


def test_phrases_need_room_below_the_limit(encoder: ConstraintEncoder) -> None:
    constraints = encoder.encode(Constraints(prefix="a", required=["the house", "dog"]), 1)
    check_room(constraints, 5, 1)
    with pytest.raises(DecodingError, match=r"line 1: .* take 5 tokens"):
        check_room(constraints, 4, 1)
    with pytest.raises(DecodingError, match="leaves no room"):
        check_room(constraints, 1, 1)
    inside = encoder.encode(Constraints(required=["the house", "house"]), 1)
    check_room(inside, 3, 1)  # the first contains the second


@pytest.mark.parametrize("more", [{}, {"config": {"model": JOINT}}])
def test_the_coverage_penalty_is_that_of_equation_14(
    make_run: MakeRun, more: dict[str, Any]
) -> None:
    """Its hypotheses are those of the plain search, ranked by another score."""
    run = Run.open(make_run(**more))
    choices = replace(ON_CPU, search={"beam": 4, "nbest": 4, "max_length": "S+3"})
    plain = Translator.load([run], choices)
    beta = 0.7
    extras = TranslationExtras(coverage_penalty=beta)
    covered = Translator.load([run], replace(choices, extras=extras))
    before, after = plain.translate_nbest(LINES), covered.translate_nbest(LINES)
    assert after[1] == before[1]
    for line, old, new in zip(LINES, before, after, strict=True):
        scores = {each.text: each.score for each in old}
        assert sorted(each.text for each in new) == sorted(scores)
        assert [each.score for each in new] == sorted((each.score for each in new), reverse=True)
        for each in new if line else []:
            source = run.pipeline.source.encode(line)
            target = run.pipeline.target.encode(each.text)
            maps = dict(attention_to_source(plain.models[0], [source], [target]))[0]
            weights = maps[choose_layer(plain.models[0])][:, :-1]  # without </s> of the source
            penalty = sum(math.log(min(sum(row), 1.0)) for row in weights.T.tolist())
            assert each.score == pytest.approx(scores[each.text] + beta * penalty, abs=1e-5)


@pytest.mark.parametrize(
    ("model", "layer"),
    [
        (TRANSFORMER, "decoder.0.cross"),
        (TRANSFORMER | {"decoder_layers": 3}, "decoder.1.cross"),
        (JOINT, "reduction"),
    ],
)
def test_the_reduction_or_the_last_layer_but_one_aligns_words(
    make_run: MakeRun, model: dict[str, Any], layer: str
) -> None:
    translator = Translator.load([Run.open(make_run(config={"model": model}))], ON_CPU)
    assert choose_layer(translator.models[0]) == layer


@pytest.mark.parametrize("layer", [None, "decoder.0.cross", "decoder.2.cross"])
def test_words_are_aligned_by_the_rows_that_predict_them_in_the_chosen_layer(
    make_run: MakeRun, layer: str | None
) -> None:
    model = TRANSFORMER | {"decoder_layers": 3}
    extras = TranslationExtras(alignments=True, alignment_layer=layer)
    choices = replace(ON_CPU, extras=extras)
    translator = Translator.load([Run.open(make_run(config={"model": model}))], choices)
    side = translator.pipeline
    for line, [best] in zip(LINES, translator.translate_nbest(LINES), strict=True):
        target = side.target.encode_pieces(best.tokens[:-1])
        pair = [side.source.encode(line)], [target]
        maps = dict(attention_to_source(translator.models[0], *pair))[0]
        weights = maps[layer or "decoder.1.cross"][: len(best.words), :-1]
        links = [(int(row.argmax()), word) for word, row in enumerate(weights)] if line else []
        assert best.alignment == to_pharaoh(links)


def test_the_coverage_penalty_chooses_among_the_whole_beam(make_run: MakeRun) -> None:
    run = Run.open(make_run())
    extras = TranslationExtras(coverage_penalty=10.0)
    search = {"beam": 8, "nbest": 8, "max_length": "S+3"}
    covered = Translator.load([run], replace(ON_CPU, extras=extras, search=search))
    plain = Translator.load([run], replace(ON_CPU, search=search))
    every, one = covered.translate_nbest(LINES), covered.translate(LINES)
    assert one == [nbest[0].text for nbest in every]
    assert one != plain.translate(LINES)


def test_a_source_token_without_attention_does_not_rank_a_translation_last() -> None:
    weights = np.array([[0.0, 1.0, 0.5], [0.0, 1.0, 0.25]], dtype=np.float32)
    assert coverage(weights) == pytest.approx(math.log(LEAST_COVERAGE) + math.log(0.75))


@pytest.mark.parametrize(
    "values",
    [
        {"coverage_penalty": -1.0},
        {"coverage_penalty": math.nan},
        {"coverage_penalty": 0.2, "mbr": "chrf"},
        {"coverage_penalty": 0.2, "sampling": SamplingOptions()},
    ],
)
def test_a_coverage_penalty_that_cannot_be_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(DecodingError) as caught:
        TranslationExtras(**values)
    assert caught.value.hint


def test_the_grid_has_a_weight_for_each_pair_of_tokens(make_run: MakeRun) -> None:
    choices = replace(ON_CPU, extras=TranslationExtras(grid=True), search={"beam": 2, "nbest": 2})
    translator = Translator.load([Run.open(make_run(config={"model": JOINT}))], choices)
    first, empty, last = translator.translate_nbest(LINES)
    assert (empty[0].grid, empty[0].source_tokens) == ([], [])
    for line, translations in ((LINES[0], first), (LINES[2], last)):
        for each in translations:
            assert each.grid is not None
            assert each.source_tokens == [*line.split(), "</s>"]
            shape = [len(row) for row in each.grid]
            assert shape == [len(each.source_tokens)] * len(each.tokens)
            assert [sum(row) for row in each.grid] == pytest.approx([1.0] * len(shape), abs=1e-3)


def test_systems_without_a_grid_have_none_to_give(make_run: MakeRun) -> None:
    choices = replace(ON_CPU, extras=TranslationExtras(grid=True))
    with pytest.raises(DecodingError, match="transformer has no grid"):
        Translator.load([Run.open(make_run())], choices)


def translations_with(
    translator: Translator, lines: Sequence[str], *constraints: Constraints
) -> list[list[str]]:
    """The words of the best translations of lines."""
    return [best[0].words for best in translator.translate_nbest(lines, 1, constraints=constraints)]


def test_translations_fulfil_their_constraints(make_run: MakeRun) -> None:
    choices = replace(ON_CPU, search={"beam": 4, "max_length": "S+6"})
    translator = Translator.load([Run.open(make_run())], choices)
    free = translations_with(translator, LINES, *[Constraints()] * 3)
    first, empty, last = translations_with(
        translator,
        LINES,
        Constraints(required=["fast dog", "man"], prefix="a dog"),
        Constraints(required=["dog"]),
        Constraints(forbidden=[free[2][0]]),
    )
    assert first[:2] == ["a", "dog"]
    assert "fast dog" in " ".join(first) and "man" in first
    assert empty == []
    assert free[2][0] not in last
    tokens = ["dog", "<unk>"]
    [[word, unknown, *_]] = translations_with(
        translator, LINES[:1], Constraints(prefix_tokens=tokens)
    )
    assert [word, unknown] == tokens


def test_a_forbidden_phrase_that_the_model_cannot_write_forbids_nothing(
    encoder: ConstraintEncoder,
) -> None:
    constraints = Constraints(prefix="zebra", forbidden=["cat", "the cat", "dog"])
    assert encoder.encode(constraints, 1).forbidden == [encoder.side.vocabulary.ids(["dog"])]


@pytest.mark.parametrize("forbidden", [["zebra", "<unk>"], ["<unk>", "zebra", "<unk> "]])
def test_unknown_words_are_forbidden_beside_a_phrase_of_unknown_words(
    encoder: ConstraintEncoder, forbidden: list[str]
) -> None:
    assert encoder.encode(Constraints(forbidden=forbidden), 1).forbidden == [[UNK]]


def test_words_of_unknown_pieces_are_forbidden_one_by_one() -> None:
    vocabulary = Vocabulary.build(dict.fromkeys(["a@@", "b", "c@@", "d"], 1))
    codes = "#version: 0.2\na b</w>\nc d</w>\n"  # their results are not in the vocabulary
    encoder = ConstraintEncoder(TextSide("en", "whitespace", False, codes, vocabulary))
    expected = [vocabulary.ids(word) for word in (["a@@", "b"], ["c@@", "d"])]
    assert encoder.encode(Constraints(forbidden=["ab", "cd"]), 1).forbidden == expected


def test_a_phrase_is_forbidden_in_all_tokens_that_spell_it() -> None:
    pieces = ["a@@", "b@@", "a", "b", "ab", "ab@@"]
    vocabulary = Vocabulary.build(dict.fromkeys(pieces, 1))
    side = TextSide("en", "whitespace", False, "#version: 0.2\na b</w>\n", vocabulary)
    encoder = ConstraintEncoder(side)
    token = side.vocabulary.token
    forbidden = encoder.encode(Constraints(forbidden=["ab aba"]), 1).forbidden
    spelled = {" ".join(map(token, ids)) for ids in forbidden}
    words = ["ab", "a@@ b"], ["ab@@ a", "a@@ b@@ a"]
    assert spelled == {f"{first} {second}" for first in words[0] for second in words[1]}
    with pytest.raises(DecodingError, match="forbidden phrase 'ab'"):
        encoder.encode(Constraints(prefix_tokens=["a@@", "b"], forbidden=["ab"]), 1)
    many = encoder.encode(Constraints(forbidden=["ab" * 20]), 1).forbidden
    assert len(many) == len({*map(tuple, many)}) == MOST_SPELLINGS


def test_a_forbidden_phrase_is_no_word_that_ends_before_its_end(make_run: MakeRun) -> None:
    """`a@@ </s>` is written as `a`."""
    vocabulary = Vocabulary.build(dict.fromkeys(["a@@", "b@@", "a", "b"], 1))
    side = TextSide("en", "whitespace", False, "#version: 0.2\na b</w>\n", vocabulary)
    run = Run.open(make_run(pipeline=TextPipeline(side, side)))
    choices = replace(ON_CPU, search={"beam": 16, "nbest": 16, "max_length": "4"})
    forbidden = [Constraints(forbidden=["a", "ab", "<unk>"])]
    for sampling in (None, SamplingOptions()):
        extras = TranslationExtras(sampling=sampling)
        translator = Translator.load([run], replace(choices, extras=extras))
        free = {each.text for each in translator.translate_nbest(["b a b"])[0]}
        assert free & {"a", "ab"} or any("<unk>" in text for text in free)
        nbest = translator.translate_nbest(["b a b"], constraints=forbidden)[0]
        words = {word for each in nbest for word in each.words}
        assert words and not words & {"a", "ab"}
        assert not any("<unk>" in each.tokens for each in nbest)


@pytest.mark.parametrize("segmenter", ["moses", "moses-escaped", "whitespace"])
def test_the_words_of_a_phrase_depend_on_its_place_in_the_sentence(segmenter: str) -> None:
    words = ["Mr", "Mr.", ".", "may", "May", "in", "we", "&amp;", "&"]
    vocabulary = Vocabulary.build(dict.fromkeys(words, 1))
    encoder = ConstraintEncoder(
        TextSide("en", segmenter, vocabulary=vocabulary, truecaser=Truecaser(["may", "we"]))
    )

    def written(ids: Iterable[Any]) -> str:
        return " ".join(map(vocabulary.token, ids))

    encoded = encoder.encode(Constraints("We in Mr.", required=["May", "&"]), 1)
    assert written(encoded.prefix) == "we in Mr."
    escaped = "&amp;" if segmenter == "moses-escaped" else "&"
    assert sorted(map(written, encoded.required)) == sorted(["May", escaped])
    encoded = encoder.encode(Constraints(forbidden=["Mr.", "May", "in"]), 1)
    forbidden = {written(ids) for ids in encoded.forbidden}
    assert forbidden == {"Mr.", "May", "may", "in"} | ({"Mr ."} if "moses-" in segmenter else set())
    for prefix in ("we in May", "May we"):
        with pytest.raises(DecodingError, match="prefix contains the forbidden phrase 'May'"):
            encoder.encode(Constraints(prefix, forbidden=["May"]), 1)


@pytest.mark.parametrize(
    ("segmenter", "line", "copied"), [("moses-escaped", "&", "&"), ("character", "▁", "▁")]
)
def test_unknown_words_are_replaced_by_what_the_source_has(
    make_run: MakeRun, segmenter: str, line: str, copied: str
) -> None:
    source = TextSide("de", segmenter, vocabulary=Vocabulary.build({"x": 1}))
    target = TextSide("en", "whitespace", vocabulary=Vocabulary.build({"dog": 1}))
    run = Run.open(make_run(pipeline=TextPipeline(source, target)))
    choices = replace(ON_CPU, extras=TranslationExtras(unk_replace=True))
    unknown = Constraints(prefix_tokens=["<unk>"])
    [words] = translations_with(Translator.load([run], choices), [line], unknown)
    assert words[0] == copied


def test_an_unknown_word_is_not_replaced_by_a_forbidden_one(make_run: MakeRun) -> None:
    extras = TranslationExtras(unk_replace=True)
    translator = Translator.load([Run.open(make_run())], replace(ON_CPU, extras=extras))
    lines = ["zebra"]
    constraints = [
        Constraints(prefix_tokens=["a", "<unk>"]),
        Constraints(prefix_tokens=["a", "<unk>"], forbidden=["a zebra"]),
    ]
    free, forbidding = translations_with(translator, lines * 2, *constraints)
    assert free[:2] == ["a", "zebra"]
    assert forbidding[:2] == ["a", "<unk>"]


@pytest.mark.parametrize("segmenter", ["whitespace", "moses", "character"])
def test_every_segmenter_can_forbid_unknown_words(segmenter: str) -> None:
    side = TextSide("en", segmenter, vocabulary=Vocabulary.build({"dog": 1}))
    unknown = Constraints(forbidden=["<unk>"])
    assert ConstraintEncoder(side).encode(unknown, 1).forbidden == [[UNK]]


def test_a_translation_as_long_as_the_model_can_read_is_aligned(make_run: MakeRun) -> None:
    model = {"system": "convs2s", "width": 8, "output_width": 8, "positions": 6}
    stacks = {"encoder_layers": "1 x (8, 3)", "decoder_layers": "1 x (8, 3)"}
    search = {"max_length": "12", "min_length": 9}
    choices = replace(ON_CPU, search=search, extras=TranslationExtras(alignments=True))
    translator = Translator.load([Run.open(make_run(config={"model": model | stacks}))], choices)
    [[best, *_]] = translator.translate_nbest(["ein mann liest ."])
    assert len(best.tokens) == 6
    aligned = [int(link.split("-")[1]) for link in str(best.alignment).split()]
    assert sorted(aligned) == [*range(5)]


def test_a_marker_of_bpe_at_the_end_is_no_word(make_run: MakeRun) -> None:
    side = TextSide("en", "whitespace", False, CODES, Vocabulary.build({"dog": 1, "@@": 1}))
    extras = TranslationExtras(alignments=True, unk_replace=True)
    translator = Translator.load(
        [Run.open(make_run(pipeline=TextPipeline(side, side)))],
        replace(ON_CPU, extras=extras, search={"max_length": "3"}),
    )
    prefixed = Constraints(prefix_tokens=["<unk>", "@@"])
    [[best]] = translator.translate_nbest(["zebra dog"], 1, constraints=[prefixed])
    assert best.tokens == ["<unk>", "@@", "</s>"] and len(best.words) == 1
    assert best.alignment is not None
    assert [link.split("-")[1] for link in best.alignment.split()] == ["0"]


def test_unknown_pieces_of_a_prefix_stay_in_their_words(make_run: MakeRun) -> None:
    """Z@@ and ü@@ are unknown, and then do not show that their word goes on."""
    side = TextSide("en", "whitespace", False, CODES, Vocabulary.build({"rich": 1, "dog": 1}))
    assert side.split(["Zürich"]) == ["Z@@", "ü@@", "rich"]
    pipeline = TextPipeline(side, side)
    extras = TranslationExtras(alignments=True, unk_replace=True)
    translator = Translator.load(
        [Run.open(make_run(pipeline=pipeline))], replace(ON_CPU, extras=extras)
    )
    prefixed = Constraints(prefix="Zürich dog")
    [[best]] = translator.translate_nbest(["dog dog"], 1, constraints=[prefixed])
    assert best.words[:2] == ["Zürich", "dog"]
    assert best.tokens[:4] == ["<unk>", "<unk>", "rich", "dog"]
    assert len(best.words) == len(best.tokens) - 1 - 2
    assert best.alignment is not None
    aligned = {int(link.split("-")[1]) for link in best.alignment.split()}
    assert max(aligned) < len(best.words)


def test_samples_avoid_phrases_and_contain_none_on_demand(make_run: MakeRun) -> None:
    choices = replace(ON_CPU, search={"beam": 8, "nbest": 8, "max_length": "S+6"})
    extras = TranslationExtras(sampling=SamplingOptions())
    translator = Translator.load([Run.open(make_run())], replace(choices, extras=extras))
    free = translator.translate_nbest(LINES[:1])[0]
    assert any("dog" in each.words for each in free)
    banned = [Constraints(forbidden=["dog"])]
    samples = translator.translate_nbest(LINES[:1], constraints=banned)[0]
    assert not any("dog" in each.words for each in samples)
    with pytest.raises(DecodingError, match="not by sampling"):
        translator.translate_nbest(LINES[:1], constraints=[Constraints(required=["dog"])])


@pytest.mark.parametrize("sampling", [None, SamplingOptions()])
def test_rules_that_leave_nothing_name_the_line(
    make_run: MakeRun, sampling: SamplingOptions | None
) -> None:
    search = {"no_repeat_ngram": 1, "min_length": 60, "max_length": "90"}
    choices = replace(ON_CPU, search=search, extras=TranslationExtras(sampling=sampling))
    translator = Translator.load([Run.open(make_run())], choices)
    with pytest.raises(DecodingError, match="line 12: no token may come next"):
        translator.translate_nbest(["", LINES[0]], first_line=11)


def test_an_impossible_demand_names_the_line(make_run: MakeRun) -> None:
    choices = replace(ON_CPU, search={"max_length": "3"})
    translator = Translator.load([Run.open(make_run())], choices)
    impossible = Constraints(required=["dog", "man"], forbidden=["dog man", "man dog"])
    with pytest.raises(DecodingError, match="line 12: no translation was found"):
        translator.translate_nbest(LINES[:1], constraints=[impossible], first_line=12)
