"""Captured steps read and write buffers of their own only, and a search with them finds the same.

Without a GPU a tape stands in for CUDA's graphs: it notes each operation with the very tensors it
was given, and repeats them on those. What a step takes from elsewhere is as stale in the tape as in
a graph: Python's numbers, tensors that are made anew, memory that was freed.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from models.conftest import SOURCE_VOCABULARY, VARIANTS, tiny_model
from plugins.listener import Listener
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from jtrans.decoding.batched_search import translate_ids
from jtrans.decoding.options import SearchOptions
from jtrans.decoding.prepared.base import Searchable
from jtrans.decoding.prepared.captured import graphs, joint
from jtrans.decoding.prepared.captured.graphs import Bucket, StaticStep, StepGraphs
from jtrans.decoding.prepared.captured.joint import GraphReformer
from jtrans.decoding.prepared.captured.transformer import GraphTransformer
from jtrans.decoding.prepared.choose import prepared
from jtrans.decoding.prepared.transformer import PreparedTransformer
from jtrans.decoding.search.beam import beam_search
from jtrans.decoding.search.captured import MOST_CHOICES, CapturedChoice
from jtrans.models.base import TranslationModel
from jtrans.models.reformer import Reformer
from jtrans.nn.gpu.capture import WARM_UPS, Capture, Replay


class Tape(TorchDispatchMode):
    """Notes operations and repeats them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.notes: list[tuple[Any, Sequence[Any], Mapping[str, Any], Any]] = []

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Do and note an operation."""
        result = func(*args, **(kwargs or {}))
        self.notes.append((func, args, kwargs or {}, result))
        return result

    def repeat(self) -> None:
        """Repeat all of them; results go to where they went before."""
        for func, args, kwargs, result in self.notes:
            again = func(*args, **kwargs)
            several = isinstance(result, (tuple, list))
            for old, new in zip(result, again, strict=True) if several else [(result, again)]:
                if isinstance(old, Tensor) and new.data_ptr() != old.data_ptr():
                    old.copy_(new)


def taped(work: Replay) -> Replay:
    """Note a step and return what repeats it."""
    for _ in range(3):
        work()
    tape = Tape()
    with tape:
        result = work()

    def replay() -> Tensor:
        tape.repeat()
        return result

    return replay


def refuse(work: Replay) -> Replay:
    """Stand in for a GPU that cannot capture."""
    raise RuntimeError("operation not permitted when stream is capturing")


def graph_form(model: TranslationModel, capture: Capture) -> GraphTransformer | GraphReformer:
    """Return the form with graphs of a model."""
    if isinstance(model, Reformer):
        return GraphReformer(model, "fp32", capture)
    form = prepared(model)
    assert isinstance(form, PreparedTransformer)
    return GraphTransformer(form, capture)


CASES = (
    *("transformer", "dlcl", "transformer post-norm", "transformer offset-2"),
    *("reformer-base", "reformer-fast post-norm", "reformer-base concat"),
    *("reformer-base max-reduction", "reformer-base side-vectors", "reformer-fast offset-2"),
)


SOME = ("transformer", "reformer-base")


@pytest.fixture(params=CASES)
def model(request: pytest.FixtureRequest) -> TranslationModel:
    """Models whose decoders differ, in float64."""
    system, _, variant = request.param.partition(" ")
    return tiny_model(system, **VARIANTS[system].get(variant, {}))


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the first search capture, and small sizes be buckets of their own."""
    monkeypatch.setattr(graphs, "WANTED", 1)
    monkeypatch.setattr(graphs, "LEAST_SLOTS", 8)


def sentences(count: int, longest: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return random sources of different lengths and their mask, [B, S]."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (count,), generator=generator)
    lengths[0] = longest
    mask = torch.arange(longest) < lengths[:, None]
    ids = torch.randint(4, SOURCE_VOCABULARY, (count, longest), generator=generator)
    return ids.masked_fill(~mask, 0), mask


def searched(form: Searchable, source: Tensor, mask: Tensor, **options: Any) -> list[Any]:
    """Return tokens and scores of all hypotheses."""
    with torch.inference_mode():
        best = beam_search([form], source, mask, SearchOptions(**options))
    return [[(each.tokens, each.score) for each in nbest] for nbest in best]


def assert_same(ours: list[Any], theirs: list[Any]) -> None:
    """Check that two searches found the same."""
    assert [[h[0] for h in nbest] for nbest in ours] == [[h[0] for h in nbest] for nbest in theirs]
    for nbest, other in zip(ours, theirs, strict=True):
        assert [h[1] for h in nbest] == pytest.approx([h[1] for h in other], abs=1e-6)


@pytest.mark.sample(3)
@settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    sizes=st.lists(
        st.tuples(st.integers(1, 5), st.integers(1, 20), st.integers(1, 4), st.integers(2, 14)),
        min_size=2,
        max_size=4,
    )
)
def test_searches_one_after_the_other_find_the_same(
    model: TranslationModel, sizes: list[tuple[int, int, int, int]]
) -> None:
    plain, graphed = prepared(model), graph_form(model, taped)
    for seed, (count, longest, beam, length) in enumerate([*sizes, *sizes]):
        source, mask = sentences(count, longest, seed)
        options = {"beam": beam, "nbest": beam, "max_length": str(length)}
        ours, theirs = (searched(each, source, mask, **options) for each in (graphed, plain))
        assert_same(ours, theirs)


def noting_replays(steps: list[Bucket], choices: list[Bucket]) -> Capture:
    """Return a capture that notes the bucket of every replay: of steps, or with choices."""

    def noted(work: Replay) -> Replay:
        replay, owner = taped(work), work.__self__  # type: ignore[attr-defined]
        is_choice = isinstance(owner, CapturedChoice)

        def note() -> Tensor:
            (choices if is_choice else steps).append(
                owner.step.bucket if is_choice else owner.bucket
            )
            return replay()

        return note

    return noted


@pytest.mark.parametrize("system", SOME)
def test_a_form_that_nobody_uses_any_more_gives_its_memory_back_at_once(system: str) -> None:
    freed: list[str] = []

    def capture(work: Replay) -> Replay:
        owner = work.__self__  # type: ignore[attr-defined]
        weakref.finalize(owner, freed.append, type(owner).__name__)
        result = work()
        return lambda: result  # as a graph, it does not hold its owner

    form = graph_form(tiny_model(system), capture)
    gc.disable()
    try:
        for _ in range(2):
            searched(form, *sentences(2, 5, 1), beam=2, max_length="6")
        captured = len(freed)
        del form
    finally:
        gc.enable()
    assert captured == 0 and "CapturedChoice" in freed and len(freed) > 1


@pytest.mark.sample(3)
def test_steps_are_replayed_as_sentences_leave_and_caches_grow(model: TranslationModel) -> None:
    steps: list[Bucket] = []
    choices: list[Bucket] = []
    graphed = graph_form(model, noting_replays(steps, choices))
    source, mask = sentences(5, 18, 1)
    options = {"beam": 3, "nbest": 3, "max_length": "S+6"}
    ours, theirs = (searched(each, source, mask, **options) for each in (graphed, prepared(model)))
    assert_same(ours, theirs)
    longest = max(len(tokens) for nbest in ours for tokens, _ in nbest)
    replays = steps + choices
    # all but the first step; whether all are done is asked after four
    assert longest - 1 <= len(replays) < longest + 3
    assert len(choices) > len(steps)  # those at a limit
    assert {bucket.slots for bucket in replays} >= {16, 32}
    assert max(bucket.lanes for bucket in replays) == 8
    assert min(bucket.lanes for bucket in replays) < 8


@pytest.mark.sample(5)
@pytest.mark.parametrize("model", SOME, indirect=True)
@pytest.mark.parametrize("stopping", ["count", "bound"])
@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1},
        {"beam": 4, "nbest": 4, "length_penalty": 0.0},
        {"beam": 4, "nbest": 2, "length_penalty": 2.0, "min_length": 4},
        {"beam": 3, "length_penalty": 0.6, "length_penalty_form": "gnmt", "max_length": "30"},
    ],
)
def test_choices_are_captured_under_all_options_that_rank(
    model: TranslationModel, options: dict[str, Any], stopping: str
) -> None:
    steps: list[Bucket] = []
    choices: list[Bucket] = []
    graphed = graph_form(model, noting_replays(steps, choices))
    for seed in (1, 2):
        source, mask = sentences(4, 15, seed)
        chosen = {"max_length": "S+9", "stopping": stopping, **options}
        ours, theirs = (
            searched(each, source, mask, **chosen) for each in (graphed, prepared(model))
        )
        assert_same(ours, theirs)
    # on a CPU nothing is selected, and so captured, while single hypotheses go on in their places
    assert choices or options["beam"] == 1


@pytest.mark.parametrize("model", SOME, indirect=True)
def test_searches_in_either_mode_share_buffers(model: TranslationModel) -> None:
    graphed, (source, mask) = graph_form(model, lambda work: work), sentences(3, 12, 5)
    options = SearchOptions(beam=3, max_length="S+9")
    with torch.inference_mode():
        first = beam_search([graphed], source, mask, options)
    assert beam_search([graphed], source, mask, options) == first


@pytest.mark.sample(2)
@pytest.mark.parametrize("model", SOME, indirect=True)
@pytest.mark.parametrize(
    "options", [{"no_repeat_ngram": 2}, {"max_repeats": 1}, {"diverse_groups": 2}]
)
def test_rules_that_read_the_prefix_are_not_captured(
    model: TranslationModel, options: dict[str, Any]
) -> None:
    steps: list[Bucket] = []
    choices: list[Bucket] = []
    graphed = graph_form(model, noting_replays(steps, choices))
    source, mask = sentences(3, 12, 4)
    ours, theirs = (
        searched(each, source, mask, beam=4, nbest=4, **options)
        for each in (graphed, prepared(model))
    )
    assert_same(ours, theirs)
    assert steps and not choices


@pytest.mark.sample(3)
def test_slots_that_no_hypothesis_needs_are_used_again(model: TranslationModel) -> None:
    forms: tuple[Searchable, Searchable] = (graph_form(model, taped), prepared(model))
    source, mask = sentences(2, 6, 3)
    tokens = torch.randint(4, 10, (40, 2, 6), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        states: list[Any] = [each.begin(each.encode(source, mask), 1) for each in forms]
        token, beam = torch.tensor([1, 1]), 1
        for number, new in enumerate(tokens):
            ours, theirs = (
                form.step(token, state) for form, state in zip(forms, states, strict=True)
            )
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)
            # all hypotheses go on from one, or from two
            rows = torch.tensor([0] * 3 + [min(beam - 1, number % 3)] * 3)
            states = [state.select(torch.stack([rows, rows + beam])) for state in states]
            token, beam = new.flatten(), 6
    assert states[0].taken.bucket.slots <= 128  # of 240 that were written


def test_steps_of_many_rows_are_not_captured(
    model: TranslationModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not isinstance(model, Reformer):
        pytest.skip("only the rows of joint systems take long")
    monkeypatch.setattr(joint, "MOST_ROWS", 2 * 3 * 16)
    forms: tuple[Searchable, Searchable] = (graph_form(model, taped), prepared(model))
    source, mask = sentences(5, 14, 1)
    with torch.inference_mode():
        states: list[Any] = [each.begin(each.encode(source, mask), 1) for each in forms]
        token, rows = torch.full((5,), 1), torch.arange(5)[:, None].expand(5, 3)
        for number in range(9):
            ours, theirs = (
                form.step(token, state) for form, state in zip(forms, states, strict=True)
            )
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)
            assert (states[0].taken is not None) == (number > 4)
            if number:
                rows = torch.arange(15).view(5, 3)[:, [1, 0, 1]] if number < 4 else rows[:2]
            states = [state.select(rows) for state in states]
            token = torch.arange(rows.numel()) % 7 + 4


def test_a_system_that_cannot_be_captured_is_searched_without(
    model: TranslationModel, caplog: pytest.LogCaptureFixture
) -> None:
    graphed = graph_form(model, refuse)
    source, mask = sentences(3, 9, 2)
    options = {"beam": 3, "nbest": 3, "max_length": "12"}
    for _ in range(2):
        ours, theirs = (
            searched(each, source, mask, **options) for each in (graphed, prepared(model))
        )
        assert_same(ours, theirs)
    assert [record.levelname for record in caplog.records] == ["WARNING"]  # once
    assert "cannot be captured" in caplog.text and "not permitted" in caplog.text
    assert len(graphed.graphs.kept) == 0


def test_two_searches_at_once_do_not_share_buffers(model: TranslationModel) -> None:
    graphed, plain = graph_form(model, taped), prepared(model)
    pairs: list[list[tuple[Any, Any]]] = []
    with torch.inference_mode():
        for seed in (1, 2):
            source, mask = sentences(2, 9, seed)
            pairs.append(
                [(each, each.begin(each.encode(source, mask), 1)) for each in (graphed, plain)]
            )
        rows = torch.tensor([[0, 0], [1, 1]])
        token = torch.tensor([1, 1])
        for _ in range(9):
            for number, pair in enumerate(pairs):
                ours, theirs = (form.step(token, state) for form, state in pair)
                torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)
                pairs[number] = [(form, state.select(rows)) for form, state in pair]
            rows, token = torch.tensor([[1, 0], [3, 2]]), torch.tensor([4, 5, 6, 7])


class Counting(StaticStep):
    """A step that counts."""

    def __init__(self, bucket: Bucket) -> None:
        self.value = torch.zeros(1)
        self.size = bucket.lanes

    def work(self) -> Tensor:
        """Add 1."""
        return self.value.add_(1)


class User:
    """The state of a search."""


def test_the_least_recently_used_step_is_dropped() -> None:
    steps = StepGraphs(Counting, lambda work: work, most=2)
    user = User()
    buckets = [Bucket(lanes, 5, 16, 64) for lanes in (1, 2, 4)]
    first = [steps.offer(bucket, user) for bucket in buckets[:2]]
    del user
    user = User()
    assert steps.offer(buckets[0], user) is first[0]
    steps.offer(buckets[2], user)
    assert len(steps.kept) == 2
    other = User()
    assert steps.offer(buckets[1], other) is not first[1]  # dropped, so made anew


def test_buffers_take_no_more_memory_than_they_may() -> None:
    steps = StepGraphs(Counting, lambda work: work, most_bytes=6)
    for lanes, kept in ((1, [1]), (4, [1, 4]), (2, [4, 2]), (8, [8]), (1, [1])):
        steps.offer(Bucket(lanes, 5, 16, 64), User())
        assert [bucket.lanes for bucket in steps.kept] == kept


def test_a_size_is_captured_when_a_second_search_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "WANTED", 2)
    steps, bucket, user = StepGraphs(Counting, lambda work: work), Bucket(1, 5, 16, 64), User()
    assert steps.offer(bucket, user) is None
    assert steps.offer(bucket, user) is not None
    assert steps.take(Bucket(2, 5, 16, 64), user) is not None


def test_a_size_is_wanted_anew_after_its_graph_has_made_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(graphs, "WANTED", 2)
    steps, bucket, user = StepGraphs(Counting, lambda work: work), Bucket(1, 5, 16, 64), User()
    assert steps.offer(bucket, user) is None
    assert not steps.make_room()  # nothing has been captured
    steps.take(bucket, user)
    assert steps.make_room() and not steps.kept
    assert steps.offer(bucket, user) is None  # a retry does not capture again
    assert steps.offer(bucket, user) is not None


def out_of_memory(work: Replay) -> Replay:
    """Stand in for a GPU that has no memory for another graph."""
    raise torch.OutOfMemoryError("CUDA out of memory")


@pytest.mark.parametrize("model", SOME, indirect=True)
def test_a_batch_that_does_not_fit_beside_graphs_is_searched_without(
    model: TranslationModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "WANTED", 2)
    graphed, listener = graph_form(model, out_of_memory), Listener()
    source, mask = sentences(3, 9, 2)
    ids = [row[row_mask].tolist() for row, row_mask in zip(source, mask, strict=True)]
    options = SearchOptions(beam=3, max_length="12")
    expected = translate_ids([prepared(model)], ids, options)
    for _ in range(3):  # the second search captures, and fails
        assert translate_ids([graphed], ids, options, progress=listener) == expected
    assert not listener.warnings and not graphed.graphs.has_failed


@pytest.mark.parametrize("model", SOME, indirect=True)
def test_a_choice_without_memory_for_its_graph_is_not_kept(model: TranslationModel) -> None:
    answers = iter([taped, out_of_memory])  # of a step, of its choice

    graphed = graph_form(model, lambda work: next(answers, taped)(work))
    source, mask = sentences(3, 12, 4)
    options = {"beam": 3, "max_length": "S+9"}
    with pytest.raises(torch.OutOfMemoryError):
        searched(graphed, source, mask, **options)
    ours, theirs = (searched(each, source, mask, **options) for each in (graphed, prepared(model)))
    assert_same(ours, theirs)


@pytest.mark.parametrize("model", SOME, indirect=True)
def test_choices_under_many_options_replace_each_other(model: TranslationModel) -> None:
    graphed = graph_form(model, taped)
    source, mask = sentences(3, 12, 4)
    for penalty in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 0.0):
        options = {"beam": 3, "max_length": "S+9", "length_penalty": penalty}
        ours, theirs = (
            searched(each, source, mask, **options) for each in (graphed, prepared(model))
        )
        assert_same(ours, theirs)
    counts = [len(step.choices) for step in graphed.graphs.kept.values()]
    assert max(counts) == MOST_CHOICES


@given(st.integers(1, 300), st.integers(1, 20), st.integers(1, 200), st.integers(1, 2000))
def test_a_bucket_holds_what_it_is_for(sentences: int, beam: int, source: int, slots: int) -> None:
    bucket = Bucket.holding(sentences, beam, source, slots)
    assert sentences <= bucket.lanes < 2 * sentences
    assert source <= bucket.source and slots <= bucket.slots and bucket.beam == beam
    assert (WARM_UPS + 1) * beam <= bucket.slots  # warming up writes slots, too
