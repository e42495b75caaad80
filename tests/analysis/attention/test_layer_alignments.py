"""Word alignments: Pharaoh format, error rates, and reading them off the weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from plugins.random_runs import ON_CPU, RunOn
from plugins.small_corpus import make_nouns

from jtrans.analysis.attention.gold import GoldAlignment, error_rates, read_gold
from jtrans.analysis.attention.layer_alignments import (
    alignment_tables,
    best_alignment,
    find_gold,
    layer_alignments,
)
from jtrans.analysis.study.load import load_study
from jtrans.analysis.study.members import Member
from jtrans.analysis.study.study import Study
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import ConfigError, CorpusError
from jtrans.text.alignments import from_pharaoh, to_pharaoh
from jtrans.text.vocabulary import EOS

SOURCE, TARGET = [["a", "b", "c"], ["a"]], [["x", "y"], ["x", "y"]]


def _gold(*links: str) -> list[GoldAlignment | None]:
    pairs = [frozenset(from_pharaoh(line)) for line in links]
    return [GoldAlignment(sure, sure) for sure in pairs]


def test_error_rates_are_those_of_och_and_ney() -> None:
    sure = frozenset({(0, 0), (1, 1)})
    gold = [GoldAlignment(sure, sure | {(2, 2)}), None]
    links = [[(0, 0), (2, 2), (3, 3)], [(0, 0)]]  # the second sentence has no gold
    rate, precision, recall = error_rates(links, gold)
    assert precision == pytest.approx(2 / 3)
    assert recall == pytest.approx(1 / 2)
    assert rate == pytest.approx(1 - (1 + 2) / (3 + 2))


def test_the_gold_itself_has_no_errors_and_nothing_has_no_data() -> None:
    gold = _gold("0-0 1-1", "0-1")
    assert error_rates([[(0, 0), (1, 1)], [(0, 1)]], gold) == (0, 1, 1)
    assert error_rates([[], []], gold) == (1, None, 0)
    assert error_rates([[]], _gold("")) == (None, None, None)


def test_gold_files_mark_possible_links(tmp_path: Path) -> None:
    path = tmp_path / "gold"
    path.write_text("0-0 1?1 2p1\n\n", encoding="utf-8")
    first, second = read_gold(path, SOURCE, TARGET)
    assert first == GoldAlignment(frozenset({(0, 0)}), frozenset({(0, 0), (1, 1), (2, 1)}))
    assert second is None  # an empty line: no gold


SURE, POSSIBLE = {(0, 0), (1, 1)}, {(0, 0), (1, 1), (2, 1)}


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("0-0 1-1 2?1\n0-0\n", None),
        ("1-1 2-2 3p2\n1-1\n", 1),
        ("1-1 S 2-2 S 3-2 P\n1-1\n", 1),
        ("0-0/S 1-1/S 2-1/P NULL-1\n0-0 0-NULL\n", None),
        ("1 1 1 S\n1 2 2 S\n1 3 2 P\n1 0 2 S\n2 1 1\n2 1 0 P\n", None),
        ("0001 1 1 S 1.0\n0001 2 2 S 0.5\n0001 3 2 P 1\n\n0002 1 1 S 1\n", None),
        ("0 0 0\n0 1 1\n0 2 1 P\n1 0 0\n", 0),
        ("SENT: 1\nS 1 1\nS 2 2\nP 3 2\n\nSENT: 2\nS 1 1\n", None),
    ],
)
def test_every_format_gives_the_same_links(tmp_path: Path, text: str, base: int | None) -> None:
    path = tmp_path / "gold"
    path.write_text(text, encoding="utf-8")
    first, second = read_gold(path, SOURCE, TARGET, base)
    assert first == GoldAlignment(frozenset(SURE), frozenset(POSSIBLE))
    assert second == GoldAlignment(frozenset({(0, 0)}), frozenset({(0, 0)}))


def test_sentences_that_are_not_numbered_have_no_gold(tmp_path: Path) -> None:
    path = tmp_path / "gold"
    path.write_text("2 1 2\n", encoding="utf-8")
    assert read_gold(path, SOURCE, TARGET)[0] is None


def test_a_file_that_seems_to_count_from_1_needs_to_be_told_so(tmp_path: Path) -> None:
    path = tmp_path / "gold"
    path.write_text("1-1\n" * 6, encoding="utf-8")
    words = [["a", "b", "c"]] * 6
    with pytest.raises(CorpusError, match="seems to count words from 1") as refused:
        read_gold(path, words, words)
    assert refused.value.where == f"{path}, line 1"
    for base, pair in ((0, (1, 1)), (1, (0, 0))):
        gold = read_gold(path, words, words, base)
        assert gold[0] == GoldAlignment(frozenset({pair}), frozenset({pair}))


@pytest.mark.parametrize(
    ("text", "base", "message", "where"),
    [
        ("1-1\n1-0\n", 1, "1-0 is outside the sentence of 1 source", "line 2"),
        ("1-1\n2-1\n", 1, "2-1 is outside the sentence of 1 source", "line 2"),
        ("1-1\n1-1\n", None, "1-1 is outside the sentence of 1 source", "line 2"),
        ("1 1 1\n1 4 1\n", None, "1 4 1 is outside the sentence of 3 source", "line 2"),
        ("1 1 1\n3 1 1\n", None, "3 1 1 is not in the split of 2 sentences", "line 2"),
        ("SENT: 1\nS 0 1\n", None, "S 0 1 is outside the sentence of 3 source", "line 2"),
        ("SENT: 1\n1 1\n", None, "'1' is not a pair", "line 2"),
        (f"SENT: {'1' * 5000}\n\n", None, "'SENT:' is not a pair", "line 1"),
        (f"1 1 1\n{'1' * 5000} 1 1\n", None, "111' is not a pair", "line 2"),
        ("1 1 1\nS 1 1\n", None, "'S' is not a pair", "line 2"),
    ],
)
def test_numbers_of_another_base_are_refused(
    tmp_path: Path, text: str, base: int | None, message: str, where: str
) -> None:
    path = tmp_path / "gold"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CorpusError) as refused:
        read_gold(path, SOURCE, TARGET, base)
    assert message in refused.value.message
    assert refused.value.where == f"{path}, {where}"


@pytest.mark.parametrize(
    ("text", "message", "where"),
    [
        ("0-0\n1-0\n", "1-0 is outside the sentence of 1 source and 2 target words", "line 2"),
        ("0-2\n\n", "0-2 is outside the sentence of 3 source and 2 target words", "line 1"),
        ("0-0 1:1\n\n", "'1:1' is not a pair", "line 1"),
        ("-1-0\n\n", "'-1-0' is not a pair", "line 1"),
        (f"0-{'1' * 5000}\n\n", "111' is not a pair", "line 1"),
        ("0-0\n", "has 1 line, the split 2 sentences", None),
    ],
)
def test_gold_that_does_not_fit_is_refused(
    tmp_path: Path, text: str, message: str, where: str | None
) -> None:
    path = tmp_path / "gold"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CorpusError) as refused:
        read_gold(path, SOURCE, TARGET)
    assert message in refused.value.message
    assert where is None or where in str(refused.value.where)


def test_pairs_are_written_by_source_word() -> None:
    assert to_pharaoh([(2, 0), (0, 1), (0, 0)]) == "0-0 0-1 2-0"


def _groups(pieces: list[str]) -> list[list[int]]:
    groups: list[list[int]] = [[]]
    for place, piece in enumerate(pieces):
        groups[-1].append(place)
        if not piece.endswith("@@"):
            groups.append([])
    return groups[:-1]


def _by_hand(member: Member, index: int, layer: str, shift: int) -> list[tuple[int, int]]:
    """One sentence alone, word by word."""
    target = torch.tensor([[EOS, *member.reference_ids[index]]])
    maps = member.model.explain(torch.tensor([member.source_ids[index]]), target)
    [attention] = [m for m in maps if m.name == layer]
    weights = attention.weights[0].double()
    if layer == "joint.0.source":  # [T, head, S, S]
        weights = weights.mean(dim=(1, 2))
    else:  # [head or feature, T, S]
        weights = weights.mean(dim=0)
    links = []
    for j, pieces in enumerate(_groups(member.reference_pieces[index])):
        sums = [
            sum(float(weights[t + shift, s]) for t in pieces for s in group)
            for group in _groups(member.source_pieces[index])
        ]
        links.append((int(np.argmax(sums)), j))
    return sorted(links)


@pytest.mark.parametrize(
    ("number", "layer"), [(0, "decoder.0.cross"), (1, "reduction"), (1, "joint.0.source")]
)
def test_links_are_the_words_with_most_weight(study: Study, number: int, layer: str) -> None:
    member = study.subjects[number].run_members[0]
    alignments = layer_alignments(member, layer)
    assert [a.reading for a in alignments] == ["predicting", "reading"]
    for shift, alignment in enumerate(alignments):
        for index, links in enumerate(alignment.sentences):
            assert links == _by_hand(member, index, layer, shift)
            assert len(links) == len(study.reference_words[index])


def test_every_layer_is_measured_and_the_best_reported(study: Study, tmp_path: Path) -> None:
    path = tmp_path / "gold"
    lines = [" ".join(f"{i}-{i}" for i in range(len(w))) for w in study.text.length_side.words]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    gold = find_gold(study, path)
    best, layers = alignment_tables(study, gold)
    assert {row[1] for row in layers.rows} == {"decoder.0.cross", "joint.0.source", "reduction"}
    assert best.title.endswith("chosen on these gold alignments")
    for subject, row in zip(study.subjects, best.rows, strict=True):
        rates = [other[4] for other in layers.rows if other[0] == subject.name]
        assert row[4] == min(rates)  # type: ignore[type-var]
        assert row[-1] == len(rates)
        member = subject.run_members[0]
        assert error_rates(best_alignment(member, gold).sentences, gold or [])[0] == row[4]


def test_sentences_without_gold_are_left_out(study: Study, tmp_path: Path) -> None:
    path = tmp_path / "gold"
    path.write_text("0-0\n" + "\n" * (len(study) - 1), encoding="utf-8")
    best, layers = alignment_tables(study, find_gold(study, path))
    assert f"1 of {len(study)} sentences have gold alignments" in best.note
    words = len(study.reference_words[0])
    assert {row[3] for row in layers.rows} == {words}  # links
    assert {row[5] for row in layers.rows} <= {0.0, 1 / words}  # precision


def test_gold_is_for_runs_that_have_its_words(
    corpus: PreparedCorpus, run_on: RunOn, tmp_path: Path
) -> None:
    other = make_nouns(tmp_path / "other", target_segment="character", bpe="none")
    runs = [run_on(corpus, "words"), run_on(other, "letters")]
    study = load_study(runs, "test", ON_CPU)
    with pytest.raises(CorpusError, match="letters and words segment text into different words"):
        alignment_tables(study, [GoldAlignment(frozenset(), frozenset())] * len(study))


def test_without_gold_the_layers_are_listed(study: Study) -> None:
    assert find_gold(study) is None
    [table] = alignment_tables(study, None)
    assert table.columns == ["system", "layer", "row", "links"]
    best = best_alignment(study.subjects[1].run_members[0], None)
    assert (best.layer, best.reading) == ("reduction", "predicting")


@pytest.mark.parametrize("line", ["", "NULL-0"])
def test_gold_without_any_link_is_refused(study: Study, tmp_path: Path, line: str) -> None:
    path = tmp_path / "gold"
    path.write_text(f"{line}\n" * len(study), encoding="utf-8")
    with pytest.raises(CorpusError, match="has no links to words"):
        find_gold(study, path)


def test_an_unknown_layer_is_refused_with_the_nearest(study: Study) -> None:
    with pytest.raises(ConfigError) as refused:
        alignment_tables(study, None, layer="decoder.1.cross")
    assert refused.value.hint == "did you mean decoder.0.cross?"
