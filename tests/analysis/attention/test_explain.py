"""What an explanation holds, and how it is cut into matrices."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest
import torch
from plugins.random_runs import ON_CPU

from jtrans.analysis.attention.explain import Explanation, LayerMap, explain, unknown_pieces
from jtrans.analysis.attention.pairs import explain_pair, strongest
from jtrans.analysis.attention.views import Matrix, View, ViewSelection, kind_title, views
from jtrans.analysis.output.tables import weights_csv
from jtrans.data.prepared import PreparedCorpus
from jtrans.decoding.translator import Translator, load_model
from jtrans.errors import DecodingError
from jtrans.models.base import AttentionMap
from jtrans.progress import Silent
from jtrans.runs import Run
from jtrans.text.vocabulary import EOS

FAST = {
    "system": "reformer-fast",
    "layers": 2,
    "prenet_layers": 1,
    "width": 8,
    "ffn_width": 16,
    "heads": 2,
}
DEEP = {
    "system": "transformer",
    "encoder_layers": 3,
    "decoder_layers": 2,
    "width": 8,
    "ffn_width": 16,
    "heads": 2,
}
SOURCE, TARGET = "Hund Katze Vogel", "Dog Cat"


def test_the_strongest_cell_is_one_between_words() -> None:
    weights = np.array([[[0.1, 0.2, 0.7], [0.4, 0.3, 0.3], [0.0, 0.1, 0.9]]], dtype=np.float32)
    shown = LayerMap("cross", "cross", None, True, ("target", "source"), weights)
    explanation = Explanation(["a", "b", "</s>"], ["x", "y", "</s>"], [shown])
    assert explanation.strongest_cell() == (1, 0)


def test_a_token_that_is_a_number_is_told_from_its_weight() -> None:
    weights = np.array([[0.04, 0.81, 0.0, 0.15]], dtype=np.float32)
    matrix = Matrix("cross", 1, None, ["Call"], ["1", "al@@", "</s>", "Ich"], weights)
    rows = strongest(View("cross", "Cross", "token predicted", "source token", [matrix]))
    assert rows == [("Call", "“al@@” 81 % · “Ich” 15 % · “1” 4 %")]


@pytest.fixture
def joint(corpus: PreparedCorpus, run_on: Callable[..., Run]) -> Run:
    return run_on(corpus, "joint", config={"model": FAST})


@pytest.fixture
def deep(corpus: PreparedCorpus, run_on: Callable[..., Run]) -> Run:
    return run_on(corpus, "deep", config={"model": DEEP})


def _explain(run: Run, source: str = SOURCE, target: str = TARGET) -> Explanation:
    model = load_model(run, device=torch.device("cpu"))
    return explain(model, run.pipeline, source, run.pipeline.target.pieces(target))


def _view(chosen: list[View], kind: str) -> View:
    return next(view for view in chosen if view.kind == kind)


def test_every_map_a_system_has_is_there(joint: Run, deep: Run) -> None:
    assert [item.name for item in _explain(joint).maps] == [
        "prenet.0.self",
        "joint.0.target",
        "joint.0.source",
        "joint.1.target",
        "joint.1.source",
        "reduction",
    ]
    explanation = _explain(deep)
    assert explanation.kinds == ["encoder.self", "decoder.self", "decoder.cross"]
    assert [len(explanation.layers(kind)) for kind in explanation.kinds] == [3, 2, 2]


@pytest.mark.parametrize("which", ["joint", "deep"])
@pytest.mark.parametrize("head", [None, 2, "all"])
def test_rows_sum_to_one_and_nobody_looks_ahead(
    which: str, head: int | str | None, request: pytest.FixtureRequest
) -> None:
    explanation = _explain(request.getfixturevalue(which))
    for view in views(explanation, ViewSelection("all", head)):
        for matrix in view.matrices:
            assert matrix.values.shape == (len(matrix.rows), len(matrix.columns))
            np.testing.assert_allclose(matrix.values.sum(axis=1), 1.0, atol=1e-5)
            if view.kind == "decoder.self":
                assert not np.triu(matrix.values, 1).any()


def test_the_slices_of_a_joint_system_are_those_of_figure_5(joint: Run) -> None:
    explanation = _explain(joint)
    model = load_model(joint, device=torch.device("cpu"))
    source = torch.tensor([joint.pipeline.source.encode(SOURCE)])
    target = torch.tensor([[EOS, *joint.pipeline.target.encode(TARGET)[:-1]]])
    maps = {item.name: item.weights[0].numpy() for item in model.explain(source, target)}
    shown = views(explanation, ViewSelection(layer=1, target_token="2", source_token="3"))
    T, S = len(explanation.predicted), len(explanation.source)
    along_source = _view(shown, "joint.source").matrices[0]
    along_target = _view(shown, "joint.target").matrices[0]
    assert (along_source.rows, along_source.columns) == (explanation.predicted, explanation.source)
    assert along_target.rows == explanation.source
    assert along_target.columns == explanation.read[:2] == ["<s>", explanation.predicted[0]]
    for j in range(T):
        expected = maps["joint.0.source"][j, :, 2].mean(axis=0)
        np.testing.assert_allclose(along_source.values[j], expected, rtol=1e-5)
    for i in range(S):
        expected = maps["joint.0.target"][i, :, 1, :2].mean(axis=0)
        np.testing.assert_allclose(along_target.values[i], expected, rtol=1e-5)
    reduction = _view(shown, "reduction").matrices[0]
    np.testing.assert_allclose(reduction.values, maps["reduction"].mean(axis=0), rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "title"),
    [("decoder.cross", "Decoder cross-attention"), ("reduction", "Reduction weights")],
)
def test_kinds_are_named_in_words(kind: str, title: str) -> None:
    assert kind_title(kind) == title


class OtherSystem:
    """Maps as a system of another distribution may give them: no heads, many parts, odd axes."""

    device = torch.device("cpu")
    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "looking": ("target", "source"),
        "stack.0.deep": ("group", "source", "head", "source"),
        "whole": ("source",),
    }

    def explain(self, source: torch.Tensor, target: torch.Tensor) -> list[AttentionMap]:
        sizes = {"source": source.shape[1], "target": target.shape[1], "group": 2, "head": 3}
        return [
            AttentionMap(name, axes, torch.rand(1, *(sizes[axis] for axis in axes)))
            for name, axes in self.axes.items()
        ]


def test_maps_of_any_system_are_told_by_their_axes(joint: Run) -> None:
    model = OtherSystem()
    explanation = explain(model, joint.pipeline, SOURCE, ["Dog"])  # type: ignore[arg-type]
    S, T = len(explanation.source), len(explanation.predicted)
    shapes = {item.name: item.weights.shape for item in explanation.maps}
    assert shapes == {"looking": (1, T, S), "stack.0.deep": (6, S, S)}
    assert [view.matrices[0].values.shape for view in views(explanation)] == [(T, S), (S, S)]


def test_one_head_is_that_head(deep: Run) -> None:
    explanation = _explain(deep)
    [matrix] = _view(views(explanation, ViewSelection(layer=2, head=2)), "decoder.cross").matrices
    cross = explanation.layers("decoder.cross")[1]
    assert (matrix.map, matrix.layer, matrix.head) == ("decoder.1.cross", 2, 2)
    np.testing.assert_array_equal(matrix.values, cross.weights[1])


def test_the_last_layer_is_the_default_and_a_shallow_stack_shows_its_last(deep: Run) -> None:
    explanation = _explain(deep)
    default = {view.kind: view.matrices[0].layer for view in views(explanation)}
    assert default == {"encoder.self": 3, "decoder.self": 2, "decoder.cross": 2}
    third = {
        view.kind: view.matrices[0].layer for view in views(explanation, ViewSelection(layer=3))
    }
    assert third == default


@pytest.mark.parametrize(
    ("selection", "where"),
    [
        (ViewSelection(layer=4), "--layer"),
        (ViewSelection(head=3), "--head"),
        (ViewSelection(target_token="99"), "--target-token"),
        (ViewSelection(source_token="0"), "--source-token"),
    ],
)
def test_what_is_not_there_is_refused(deep: Run, selection: ViewSelection, where: str) -> None:
    with pytest.raises(DecodingError) as caught:
        views(_explain(deep), selection)
    assert caught.value.where == where


@pytest.mark.parametrize("which", ["joint", "deep"])
@pytest.mark.parametrize("target", ["Dog", ""])
def test_one_token_and_an_empty_target_give_numbers(
    which: str, target: str, request: pytest.FixtureRequest
) -> None:
    explanation = _explain(request.getfixturevalue(which), "Hund", target)
    assert explanation.predicted[-1] == "</s>"
    for view in views(explanation):
        assert np.isfinite(view.matrices[0].values).all()


def test_an_empty_sentence_is_refused(deep: Run) -> None:
    with pytest.raises(DecodingError, match="empty"):
        _explain(deep, "   ")


def test_a_pair_with_too_many_weights_is_refused(joint: Run) -> None:
    with pytest.raises(DecodingError, match="too many attention weights"):
        _explain(joint, "Hund " * 400, "Dog " * 400)


def test_tokens_are_chosen_by_number_or_text(joint: Run) -> None:
    explanation = Explanation(["Hu@@", "nd", "</s>"], ["Dog", "</s>"], [])
    selection = ViewSelection(source_token="Hu", target_token="2")
    assert selection.cell(explanation) == (1, 0)
    assert ViewSelection(source_token="hu", target_token="DOG").cell(explanation) == (0, 0)
    with pytest.raises(DecodingError, match="'Katze'") as caught:
        ViewSelection(source_token="Katze").cell(explanation)
    assert "1:Hu@@ 2:nd" in str(caught.value.hint)


def test_pieces_the_vocabulary_does_not_know_are_named(joint: Run) -> None:
    assert unknown_pieces(joint.pipeline, SOURCE) == []
    assert "q" in "".join(unknown_pieces(joint.pipeline, "Hund qqq"))


def test_without_a_target_the_own_translation_is_looked_at(deep: Run) -> None:
    translator = Translator.load([deep], ON_CPU)
    pair = explain_pair(translator, "deep", SOURCE, None, None, ViewSelection(), Silent())
    [expected] = translator.translate_nbest([SOURCE], 1)[0]
    assert pair.text == expected.text
    assert pair.explanation.predicted == expected.tokens


def test_csv_has_every_weight_on_a_line(joint: Run) -> None:
    view = _view(views(_explain(joint), ViewSelection("all", "all")), "joint.source")
    rows = list(csv.DictReader(io.StringIO(weights_csv(view))))
    assert len(rows) == sum(matrix.values.size for matrix in view.matrices)
    matrix = view.matrices[-1]
    last = rows[-1]
    assert (last["map"], last["head"], last["row_token"]) == ("joint.1.source", "2", "</s>")
    assert float(last["weight"]) == pytest.approx(float(matrix.values[-1, -1]), abs=1e-6)
