"""Gradients of padded micro-batches, as graphs on a GPU compute them, are those of the pairs."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from jtrans.config import TrainingConfig
from jtrans.data.batch import Batch, collate
from jtrans.data.ids import IdStore, ParallelIds
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import SYSTEMS, build_model, system_configs
from jtrans.nn.embedding import PADDING
from jtrans.nn.gpu.capture import Capture, Replay
from jtrans.text.vocabulary import EOS, PAD
from jtrans.training import micro_batches
from jtrans.training.captured.gradients import CapturedGradients, can_capture
from jtrans.training.captured.padded import PaddedBatch, Size
from jtrans.training.divergence.random_state import RandomState
from jtrans.training.divergence.trace import Attempt, Tracer
from jtrans.training.micro_batches import GradientAccumulator, UpdateLoss
from jtrans.training.objective import Objective, batch_loss

LENGTHS = [(5, 3), (4, 4), (9, 7), (2, 6), (5, 5)]
PARTS = [np.arange(3), np.arange(3, 5)]


@pytest.fixture(scope="module")
def pairs() -> ParallelIds:
    random = np.random.default_rng(1)

    def store(lengths: list[int]) -> IdStore:
        sentences = [[*random.integers(4, 40, length - 1), EOS] for length in lengths]
        return IdStore(np.concatenate(sentences).astype(np.int32), np.cumsum([0, *lengths]))

    return ParallelIds(store([S for S, _ in LENGTHS]), store([T for _, T in LENGTHS]))


def make_model(system: str, **settings: Any) -> TranslationModel:
    config_class = system_configs()[system]
    fields = config_class.model_fields
    sizes: dict[str, Any] = {"width": 16, "ffn_width": 32, "heads": 2}
    numbers = [name for name in fields if isinstance(fields[name].default, int)]
    sizes |= dict.fromkeys((name for name in numbers if name.endswith("layers")), 2)
    sizes |= dict.fromkeys((name for name in numbers if name.endswith("_tags")), 0)
    sizes |= dict.fromkeys((name for name in fields if name.endswith("dropout")), 0.0)
    sizes |= {"grid_dropout": "shared"} | settings
    sizes = {name: size for name, size in sizes.items() if name in fields}
    torch.manual_seed(1)
    model = build_model(config_class(system=system, **sizes), 40, 40).double().train()
    model.output_weights = lambda: None  # type: ignore[method-assign]  # that a CPU has its own loss for
    return model


def accumulator(
    model: TranslationModel, capture: Capture | None = None, **options: Any
) -> GradientAccumulator:
    """Return an accumulator, which computes padded micro-batches if it has a `capture`."""
    made = GradientAccumulator(model, Objective(0.1), precision="fp32", **options)
    if capture is not None:
        made.captured = CapturedGradients(model, made._losses_of, capture)
    return made


def gradients(made: GradientAccumulator, pairs: ParallelIds) -> tuple[list[Tensor | None], Tensor]:
    made.model.zero_grad(set_to_none=True)
    losses = made.accumulate(UpdateLoss(pairs, 25), PARTS)
    copies = [None if p.grad is None else p.grad.clone() for p in made.model.parameters()]
    return copies, losses


def assert_close(ours: list[Tensor | None], expected: list[Tensor | None]) -> None:
    for a, b in zip(ours, expected, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b)


def repeat(work: Replay) -> Replay:
    """Capture nothing."""
    return work


@pytest.mark.parametrize("system", SYSTEMS)
def test_padding_and_idle_sentences_change_no_gradient(system: str, pairs: ParallelIds) -> None:
    model = make_model(system)
    if model.has_batch_statistics:
        pytest.skip("is not captured")
    expected, expected_losses = gradients(accumulator(model), pairs)
    made = accumulator(model, repeat)
    for _ in range(3):  # without a graph, with one, and again
        ours, losses = gradients(made, pairs)
        assert_close(ours, expected)
        torch.testing.assert_close(losses, expected_losses)


def test_r_drop_compares_real_tokens_only(
    pairs: ParallelIds, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(batch: Batch, _: float) -> Batch:
        """Let the second pass not read the second token."""
        source = batch.source.clone()
        source[len(source) // 2 :, 1] = PADDING
        return dataclasses.replace(batch, source=source)

    monkeypatch.setattr(micro_batches, "cut_second", cut)
    model = make_model("transformer")
    expected, losses = gradients(accumulator(model, r_drop=5.0), pairs)
    assert losses[0] > gradients(accumulator(model, r_drop=1.0), pairs)[1][0]
    made = accumulator(model, repeat, r_drop=5.0)
    for _ in range(2):
        ours, padded_losses = gradients(made, pairs)
        assert_close(ours, expected)
        torch.testing.assert_close(padded_losses, losses)


def test_what_is_replayed_is_each_size_that_is_needed_again(pairs: ParallelIds) -> None:
    captured: list[Replay] = []

    def capture(work: Replay) -> Replay:
        captured.append(work)
        return work

    made = accumulator(make_model("transformer"), capture)
    for _ in range(4):
        gradients(made, pairs)
    assert len(captured) == len(PARTS)


def test_sizes_beyond_the_limit_do_without_graphs(pairs: ParallelIds) -> None:
    model = make_model("transformer")
    expected, _ = gradients(accumulator(model), pairs)
    made = accumulator(model)
    made.captured = CapturedGradients(model, made._losses_of, repeat, most=1)
    for _ in range(3):
        assert_close(gradients(made, pairs)[0], expected)
    assert len(made.captured.kept) == 1


@given(st.integers(1, 3000), st.integers(1, 300), st.integers(1, 300), st.booleans())
def test_a_size_holds_a_micro_batch_and_little_more(
    sentences: int, source: int, target: int, is_joint: bool
) -> None:
    size = Size.holding(sentences, source, target, is_joint=is_joint)
    more, share = (2, 1 / 16) if is_joint else (4, 1 / 8)
    assert 0 <= size.source - source < more and 0 <= size.target - target < more
    assert sentences <= size.sentences <= max(sentences, sentences * (1 + share))
    again = Size.holding(size.sentences, size.source, size.target, is_joint=is_joint)
    assert again == size


def test_no_length_exceeds_what_a_model_can_read(pairs: ParallelIds) -> None:
    assert Size.holding(3, 9, 7, longest=10) == Size(3, 10, 8)
    model = make_model("convs2s", positions=9)  # as many as the longest sentence has
    expected, _ = gradients(accumulator(model), pairs)
    made = accumulator(model, repeat)
    for _ in range(2):
        assert_close(gradients(made, pairs)[0], expected)


def test_a_padded_batch_has_the_sentences_first_and_then_idle_ones(pairs: ParallelIds) -> None:
    batch = collate(pairs, PARTS[0])
    padded = PaddedBatch(Size(5, 12, 8), torch.device("cpu"))
    for _ in range(2):  # nothing of the last batch is left
        padded.load(batch)
    whole = padded.batch()
    assert torch.equal(whole.source[:3, :9], batch.source)
    assert torch.equal(whole.target_in[:3, :7], batch.target_in)
    assert torch.equal(whole.target_out[:3, :7], batch.target_out)
    assert whole.source_mask.sum(1).tolist() == [5, 4, 9, 1, 1]
    assert whole.target_mask.sum(1).tolist() == [3, 4, 7, 0, 0]
    assert whole.source[3:, 1:].eq(PAD).all()


def test_dropout_is_the_same_with_and_without_a_graph(pairs: ParallelIds) -> None:
    model = make_model("transformer", dropout=0.3)

    def capture(work: Replay) -> Replay:
        work()  # a warm-up draws random numbers
        return work

    made = accumulator(model, capture)
    torch.manual_seed(5)
    without = gradients(made, pairs)
    torch.manual_seed(5)
    with_graphs = gradients(made, pairs)
    assert_close(with_graphs[0], without[0])
    assert torch.equal(with_graphs[1], without[1])


def test_frozen_weights_get_no_gradient(pairs: ParallelIds) -> None:
    model = make_model("transformer")
    model.get_parameter("source_embedding.tokens.weight").requires_grad_(False)
    expected, _ = gradients(accumulator(model), pairs)
    assert expected[0] is None
    made = accumulator(model, repeat)
    for _ in range(2):
        assert_close(gradients(made, pairs)[0], expected)


@pytest.mark.parametrize("error", [RuntimeError("no"), torch.OutOfMemoryError("out of memory")])
def test_training_goes_on_if_nothing_can_be_captured(
    error: Exception, pairs: ParallelIds, caplog: pytest.LogCaptureFixture
) -> None:
    def capture(_: Replay) -> Replay:
        raise error

    model = make_model("transformer")
    expected, _ = gradients(accumulator(model), pairs)
    made = accumulator(model, capture)
    for _ in range(3):
        assert_close(gradients(made, pairs)[0], expected)
    assert len(caplog.messages) == 1 and "cannot be captured" in caplog.messages[0]


@pytest.mark.parametrize("last", [PARTS[1], PARTS[1][:1]])
def test_graphs_make_room_for_what_does_not_fit_beside_them(
    last: np.ndarray[Any, Any], pairs: ParallelIds, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = accumulator(make_model("transformer"), lambda work: work)
    expected = accumulator(made.model).run(UpdateLoss(pairs, 25), last)
    captured = made.captured
    assert captured is not None

    def full(model: Any, batch: Batch, *others: Any) -> tuple[Tensor, Tensor]:
        if captured.kept and len(batch.source) < len(PARTS[0]):
            raise torch.OutOfMemoryError("out of memory")
        return batch_loss(model, batch, *others)

    monkeypatch.setattr(micro_batches, "batch_loss", full)
    for _ in range(2):
        made.run(UpdateLoss(pairs, 25), PARTS[0])
    assert captured.kept
    losses = made.run(UpdateLoss(pairs, 25), last)
    assert losses is not None and expected is not None
    torch.testing.assert_close(losses, expected)
    assert not captured.kept


def test_what_was_forgotten_is_captured_anew(pairs: ParallelIds) -> None:
    answers = iter([RuntimeError("no"), None, None])

    def capture(work: Replay) -> Replay:
        if (error := next(answers)) is not None:
            raise error
        return work

    made = accumulator(make_model("transformer"), capture)
    assert made.captured is not None
    for _ in range(2):
        gradients(made, pairs)
    assert made.captured.has_failed and not made.captured.kept
    made.captured.forget()
    gradients(made, pairs)
    assert not made.captured.kept
    gradients(made, pairs)
    assert len(made.captured.kept) == len(PARTS) == 2


def test_graphs_of_other_weights_are_forgotten(pairs: ParallelIds) -> None:
    model, count = make_model("transformer"), 0

    def capture(work: Replay) -> Replay:
        nonlocal count
        count += 1
        return work

    made = accumulator(model, capture)
    for _ in range(2):
        gradients(made, pairs)
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    for _ in range(2):
        gradients(made, pairs)
    assert count == 2 * len(PARTS)


def test_the_cause_of_a_fault_is_looked_for_without_graphs(pairs: ParallelIds) -> None:
    model = make_model("transformer")
    replays = 0

    def capture(work: Replay) -> Replay:
        def replay() -> Tensor:
            nonlocal replays
            replays += 1
            return work()

        return replay

    made = accumulator(model, capture)
    for _ in range(2):
        gradients(made, pairs)
    before = replays
    with torch.no_grad():
        model.get_parameter("norm.weight").fill_(float("nan"))
    attempt = Attempt(1, UpdateLoss(pairs, 25), PARTS, RandomState.of(model.device))
    model.zero_grad(set_to_none=True)
    cause = Tracer(made, lambda update, indices: None).trace(attempt)
    assert cause.layer == "norm" and replays == before
    assert made.captured is not None and made.captured.is_replaying


@pytest.mark.parametrize(
    "settings",
    [{"graphs": False}, {"deterministic": True}, {"recompute": "layer"}],
)
def test_what_is_not_captured(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model("transformer")
    assert not can_capture(model, TrainingConfig())  # on a CPU
    monkeypatch.setattr(type(model), "device", torch.device("cuda"))
    assert can_capture(model, TrainingConfig())
    assert not can_capture(model, TrainingConfig(**settings))
    monkeypatch.setattr(type(model), "has_batch_statistics", True)
    assert not can_capture(model, TrainingConfig())
