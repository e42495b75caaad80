"""The recorder of attention weights."""

import threading

import pytest
import torch

from jtrans.errors import InternalError
from jtrans.nn.attention import MultiHeadAttention
from jtrans.nn.dropout import SharedDropout
from jtrans.nn.recorder import is_recording, record, record_attention
from jtrans.nn.residual import Residual

B, L, E, H = 2, 5, 8, 2


def attention() -> MultiHeadAttention:
    return MultiHeadAttention(E, H, SharedDropout(0.0))


def test_each_block_s_weights_are_found_by_the_block_in_the_order_of_its_calls() -> None:
    first, second = attention(), attention()
    x = torch.randn(B, L, E)
    with torch.no_grad(), record_attention() as recorder:
        second(first(x))
        second(x, causal=True)
    assert [len(recorder.calls[block]) for block in (first, second)] == [1, 2]
    assert not recorder[second].triu(1).any()  # of its last call
    assert recorder[first].shape == (B, H, L, L)


def test_weights_may_be_recorded_under_a_name() -> None:
    with record_attention() as recorder:
        record("step 3", torch.ones(1))
    assert recorder["step 3"].tolist() == [1.0]


def test_nothing_is_recorded_before_after_or_by_another_recorder() -> None:
    record("before", torch.ones(1))
    with record_attention() as outer:
        with record_attention() as inner:
            record("inside", torch.ones(1))
        record("outside", torch.ones(1))
    assert not is_recording()
    assert (list(outer.calls), list(inner.calls)) == (["outside"], ["inside"])


def test_another_thread_is_not_recorded() -> None:
    answers: list[bool] = []
    with record_attention():
        thread = threading.Thread(target=lambda: answers.append(is_recording()))
        thread.start()
        thread.join()
    assert answers == [False]


def test_weights_that_were_not_recorded_are_a_bug() -> None:
    with record_attention() as recorder, pytest.raises(InternalError, match="cross"):
        recorder["cross"]


def test_a_pre_norm_block_in_training_is_recorded_too() -> None:
    block, wrapper = attention(), Residual(E, SharedDropout(0.1), pre_norm=True)
    x = torch.randn(B, L, E, requires_grad=True)
    with record_attention() as recorder:
        wrapper(x, block)
    torch.testing.assert_close(recorder[block].sum(-1), torch.ones(B, H, L))


def test_compiled_code_runs_without_a_break_and_is_not_recorded() -> None:
    block, x = attention(), torch.randn(B, L, E)
    torch._dynamo.reset()
    compiled = torch.compile(block, backend="eager", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), block(x))
