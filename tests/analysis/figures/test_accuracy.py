"""Teacher-forced accuracy by position and frequency, held against a loop over single tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from plugins.random_runs import ON_CPU
from plugins.small_corpus import make_nouns

from jtrans.analysis.figures.bins import Binning
from jtrans.analysis.figures.frequency import frequency_figures
from jtrans.analysis.figures.position import position_figures
from jtrans.analysis.figures.results import Figure
from jtrans.analysis.study.load import load_study
from jtrans.analysis.study.study import Study
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import CorpusError
from jtrans.runs import Run
from jtrans.text.vocabulary import EOS


def _by_hand(study: Study, number: int) -> list[list[tuple[int, bool, float]]]:
    """Token, hit and log-probability, every prefix in a forward pass of its own."""
    member = study.subjects[number].run_members[0]
    sentences = []
    for source, target in zip(member.source_ids, member.reference_ids, strict=True):
        sentence = []
        for place, token in enumerate(target):
            ids = torch.tensor([source])
            memory = member.model.encode(ids, torch.ones_like(ids, dtype=torch.bool))
            prefix = torch.tensor([[EOS, *target[:place]]])
            logits = member.model.project(member.model.decode(prefix, memory))[0, -1]
            log_prob = float(logits.log_softmax(-1)[token])
            sentence.append((token, int(logits.argmax()) == token, log_prob))
        sentences.append(sentence)
    return sentences


def _figures(figures: Sequence[object]) -> dict[str, Figure]:
    return {figure.name: figure for figure in figures if isinstance(figure, Figure)}


def _check(figure: Figure, study: Study, number: int, bins: list[list[list[bool]]]) -> None:
    """Hold a figure against the hits of every sentence in every bin: values and intervals."""
    series = figure.series[number]
    assert figure.counts == [sum(map(len, sentences)) for sentences in bins]
    for place, sentences in enumerate(bins):
        counts = np.array([[sum(hits), len(hits)] for hits in sentences])
        hits, tokens = study.bootstrap.sums(counts).T
        ends = np.percentile(hits[tokens > 0] / tokens[tokens > 0], [2.5, 97.5])
        assert series.values[place] == pytest.approx(counts[:, 0].sum() / counts[:, 1].sum())
        assert [series.low[place], series.high[place]] == pytest.approx(ends.tolist())


@pytest.mark.parametrize("number", [0, 1])
def test_teacher_forcing_is_the_loop_over_prefixes(study: Study, number: int) -> None:  # Q7
    scores = study.subjects[number].teacher_forced
    expected = [token for sentence in _by_hand(study, number) for token in sentence]
    assert scores.ids.tolist() == [token for token, _, _ in expected]
    assert scores.hits.tolist() == [hit for _, hit, _ in expected]
    log_probs = [log_prob for _, _, log_prob in expected]
    assert scores.log_probs.tolist() == pytest.approx(log_probs, abs=1e-4)
    assert (scores.ids == EOS).sum() == len(study) == len(scores)


def test_accuracy_by_position_counts_pieces_and_the_end(study: Study) -> None:  # Q1
    figure = _figures(position_figures(study, Binning(edges=(2, 5))))["position"]
    assert figure.bins == ["1–2", "3–5", ">5"]
    for number in range(2):
        sentences = [[hit for _, hit, _ in sentence] for sentence in _by_hand(study, number)]
        parts = slice(0, 2), slice(2, 5), slice(5, None)
        _check(figure, study, number, [[hits[part] for hits in sentences] for part in parts])
    usual = _figures(position_figures(study))["position"]
    assert usual.bins == ["1–10", "11–20", "21–30", "31–40", "41+"]  # as in the paper


def test_a_word_is_right_when_all_its_pieces_are(study: Study) -> None:
    member = study.subjects[0].run_members[0]
    scores = member.teacher_forced
    hits_of_all = np.random.default_rng(1).random(len(scores.ids)) < 0.8  # random weights hit few
    vars(member)["teacher_forced"] = replace(scores, hits=hits_of_all)
    figures = _figures(position_figures(study, Binning(edges=(1, 3))))
    sentences: list[list[bool]] = []
    by_sentence = np.split(hits_of_all, scores.offsets[1:-1])
    for pieces, sentence in zip(member.reference_pieces, by_sentence, strict=True):
        sentences.append([])
        hit = True
        for piece, is_hit in zip(pieces, sentence.tolist(), strict=False):
            hit = hit and is_hit
            if not piece.endswith("@@"):
                sentences[-1].append(hit)
                hit = True
    assert any(piece.endswith("@@") for pieces in member.reference_pieces for piece in pieces)
    parts = slice(0, 1), slice(1, 3), slice(3, None)
    by_position = [[hits[part] for hits in sentences] for part in parts]
    _check(figures["position-words"], study, 0, by_position)
    fifths = [
        [
            [hit for place, hit in enumerate(hits) if int((place + 0.5) / len(hits) * 5) == fifth]
            for hits in sentences
        ]
        for fifth in range(5)
    ]
    _check(figures["position-relative"], study, 0, fifths)
    counts = figures["position-relative"].counts
    assert sum(counts) == sum(map(len, study.reference_words))
    assert counts == counts[::-1]  # neither end has the surplus of short sentences


def test_bins_sum_to_the_overall_accuracy(study: Study) -> None:  # Q4
    figure = _figures(position_figures(study, Binning(edges=(1, 2, 4))))["position"]
    for subject, series in zip(study.subjects, figure.series, strict=True):
        total = sum(
            count * (value or 0) for count, value in zip(figure.counts, series.values, strict=True)
        )
        assert total == pytest.approx(subject.teacher_forced.hits.sum())


def test_all_hits_give_one_and_empty_bins_no_data(  # Q3
    fresh_study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jtrans.decoding import teacher_forcing
    from jtrans.decoding.teacher_forcing import TeacherForcedScores

    def all_hit(*_: object, **__: object) -> list[TeacherForcedScores]:
        ids = fresh_study.subjects[0].run_members[0].reference_ids
        return [TeacherForcedScores([0.0] * len(s), [True] * len(s)) for s in ids]

    monkeypatch.setattr(teacher_forcing, "teacher_forced_scores", all_hit)
    figures = [*position_figures(fresh_study), frequency_figures(fresh_study)[0]]
    for figure in _figures(figures).values():
        for series in figure.series:
            for count, value in zip(figure.counts, series.values, strict=True):
                assert value == (1.0 if count else None)


def test_accuracy_by_frequency_is_the_definition(study: Study) -> None:
    figure = _figures(frequency_figures(study))["frequency"]
    vocabulary = study.runs[0].pipeline.target.vocabulary
    gap = (len(vocabulary) - 4) // 5
    bins: list[list[bool]] = [[] for _ in range(5)]
    for sentence in _by_hand(study, 1):
        for token, hit, _ in sentence:
            if token > 3:
                bins[min(vocabulary.counts[token] // gap, 4)].append(hit)
    assert figure.counts == [len(hits) for hits in bins]
    expected = [pytest.approx(np.mean(hits)) if hits else None for hits in bins]
    assert figure.series[1].values == expected


def test_quantile_bins_are_never_empty(study: Study) -> None:
    figure = _figures(frequency_figures(study, Binning("quantile")))["frequency"]
    assert len(figure.counts) > 1
    assert min(figure.counts) > 0


def test_the_order_of_sentences_does_not_matter(  # Q2
    study: Study,
) -> None:
    other = load_study([study.runs[0]], "test", ON_CPU)
    order = list(range(len(other)))[::-1]
    text = other.text
    everything: list[Any] = [*text.length_side[1:], text.reference_lines, text.reference_words]
    for lines in everything:
        lines[:] = [lines[i] for i in order]
    for one, two in zip(position_figures(study), position_figures(other), strict=True):
        assert isinstance(one, Figure) and isinstance(two, Figure)
        assert one.counts == two.counts
        assert one.series[0].values == pytest.approx(two.series[0].values)


def test_runs_with_other_tokens_are_refused_and_told_what_remains(
    corpus: PreparedCorpus, run_on: Callable[..., Run]
) -> None:
    words = make_nouns(corpus.folder.parent / "other", bpe="none")
    runs = [run_on(corpus, "pieces"), run_on(words, "words")]
    both = load_study(runs, "test", ON_CPU)
    with pytest.raises(CorpusError, match="words and pieces have different target tokens") as no:
        position_figures(both)
    assert "length and compare" in str(no.value.hint)
    assert both.warnings == []
    [figure] = frequency_figures(both, with_accuracy=False)
    assert figure.name == "frequency-f-measure"
