"""The operator of short-axis attention, by its implementation for a CPU."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import shutil
import subprocess
import sys
import sysconfig
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from jtrans.bench.operator_flops import FORMULAS
from jtrans.errors import ConfigError
from jtrans.nn import layer
from jtrans.nn.attention import attention_weights, join_heads, mix, split_heads
from jtrans.nn.gpu import operator
from jtrans.nn.gpu.dropout_mask import philox, weights_mask
from jtrans.nn.gpu.operator import (
    attention_operator,
    is_supported,
    short_axis_attention,
)

HEADS, WIDTH = 2, 12
SEED = torch.tensor(2**40 + 7)


def grid(*, dtype: torch.dtype = torch.float64, target: int = 5, source: int = 4) -> Tensor:
    return torch.randn(2, target, source, 3 * WIDTH, dtype=dtype, requires_grad=True)


def key_bias(length: int) -> Tensor:
    bias = torch.zeros(2, length)
    bias[1, length - 2 :] = float("-inf")
    return bias


def plain(
    x: Tensor,
    axis: int,
    *,
    bias: Tensor | None = None,
    causal: bool = False,
    mask: Tensor | None = None,
) -> Tensor:
    """Attend as jtrans.nn.attention does, the way autograd knows."""
    q, k, v = (split_heads(part, HEADS, axis) for part in x.chunk(3, dim=-1))
    if bias is not None:
        bias = bias[:, None, None, None, :] if x.dim() == 4 else bias[:, None, None, :]
    weights = attention_weights(q, k, bias=bias, causal=causal)
    return join_heads(mix(weights if mask is None else weights * mask, v), axis)


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize(("causal", "is_padded"), [(True, False), (False, True), (True, True)])
def test_result_and_gradient_are_those_of_plain_attention(
    axis: int, causal: bool, is_padded: bool
) -> None:
    x = grid()
    bias = key_bias(x.shape[axis]) if is_padded else None
    out = short_axis_attention(x, HEADS, axis=axis, causal=causal, key_bias=bias)
    expected = plain(x, axis, causal=causal, bias=bias)
    torch.testing.assert_close(out, expected, atol=1e-12, rtol=0)
    weight = torch.randn_like(out)
    (ours,) = torch.autograd.grad((out * weight).sum(), x)
    (theirs,) = torch.autograd.grad((expected * weight).sum(), x)
    torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)


def test_a_batch_of_plain_sequences_is_attended_like_a_grid_of_one_line() -> None:
    x = torch.randn(2, 6, 3 * WIDTH)
    out = short_axis_attention(x, HEADS, key_bias=key_bias(6))
    torch.testing.assert_close(out, plain(x, -2, bias=key_bias(6)))


@pytest.mark.parametrize("axis", [1, 2])
def test_gradient_with_dropout_is_that_of_the_same_mask_written_out(axis: int) -> None:
    x = grid()
    L = x.shape[axis]
    mask = weights_mask(SEED, 2 * HEADS, L, 0.4).view(2, 1, HEADS, L, L)
    out = short_axis_attention(x, HEADS, axis=axis, dropout=0.4, seed=SEED)
    expected = plain(x, axis, mask=mask)
    torch.testing.assert_close(out, expected, atol=1e-12, rtol=0)
    (ours,) = torch.autograd.grad(out.square().sum(), x)
    (theirs,) = torch.autograd.grad(expected.square().sum(), x)
    torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)


def test_lines_of_a_sentence_share_a_mask_and_sentences_do_not() -> None:
    line = torch.randn(1, 1, 6, 3 * WIDTH)
    out = short_axis_attention(
        line.expand(2, 3, 6, 3 * WIDTH), HEADS, axis=2, dropout=0.5, seed=SEED
    )
    assert torch.equal(out[:, 0], out[:, 1]) and torch.equal(out[:, 0], out[:, 2])
    assert not torch.equal(out[0], out[1])


def test_a_mask_not_to_be_shared_differs_between_lines() -> None:
    line = torch.randn(1, 1, 6, 3 * WIDTH)
    out = short_axis_attention(
        line.expand(1, 3, 6, 3 * WIDTH), HEADS, axis=2, dropout=0.5, seed=SEED, shares_mask=False
    )
    assert not torch.equal(out[:, 0], out[:, 1])


def test_a_seed_repeats_the_mask_and_without_one_it_is_drawn_anew() -> None:
    x = grid(dtype=torch.float32)
    attention = functools.partial(short_axis_attention, x, HEADS, axis=1, dropout=0.5)
    assert torch.equal(attention(seed=SEED), attention(seed=SEED))
    assert not torch.equal(attention(), attention())


def test_a_mask_has_mean_one_and_drops_at_the_rate() -> None:
    mask = weights_mask(SEED, 16, 64, 0.1)
    assert abs(float((mask == 0).double().mean()) - 0.1) < 0.005  # four standard deviations
    assert abs(float(mask.double().mean()) - 1.0) < 0.005


def test_philox_gives_the_published_words() -> None:
    # Random123's known answers of philox4x32 with 7 rounds: key and counter 0, and all ones
    zero = torch.zeros((), dtype=torch.int64)
    assert int(philox(zero, zero, zero)) == 0x5F6FB709


def test_the_joined_result_is_a_view_for_both_axes() -> None:
    for axis in (1, 2):
        assert short_axis_attention(grid(), HEADS, axis=axis).is_contiguous()


@pytest.mark.sample(1)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiler_sees_one_node_each_way(backend: str) -> None:
    graphs = []

    def spy(graph: torch.fx.GraphModule, _: object) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    def attention(x: Tensor) -> Tensor:
        return short_axis_attention(x, HEADS, axis=1, causal=True, dropout=0.3, seed=SEED)

    torch._dynamo.reset()
    x = grid()
    spied = torch.compile(attention, backend=spy, fullgraph=True)(x)
    calls = [node for node in graphs[0].graph.nodes if "short_axis" in str(node.target)]
    assert len(graphs) == 1 and len(calls) == 1
    torch._dynamo.reset()
    out = torch.compile(attention, backend=backend, fullgraph=True)(x)
    assert torch.equal(out, attention(x)) and torch.equal(spied, out)
    (ours,) = torch.autograd.grad(out.square().sum(), x)
    (theirs,) = torch.autograd.grad(attention(x).square().sum(), x)
    assert torch.equal(ours, theirs)


def test_other_lengths_do_not_compile_again() -> None:
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()
    attention = torch.compile(
        lambda x: short_axis_attention(x, HEADS, axis=1, causal=True),
        backend=counter,
        fullgraph=True,
        dynamic=True,
    )
    for T, S in itertools.product((5, 7, 33), (4, 9)):
        attention(grid(target=T, source=S))
    assert counter.frame_count == 1


@pytest.mark.thorough
@pytest.mark.parametrize("axis", [1, 2])
def test_the_operator_passes_the_checks_of_torch(axis: int) -> None:
    x = grid(dtype=torch.float32).detach()
    qkv = x.view(2, 5, 4, 3, HEADS, -1).movedim(-3, 0).movedim(axis + 1, -2)
    bias = key_bias(qkv.shape[-2])
    for arguments in (
        (qkv.detach().requires_grad_(), None, None, True, 0.0, True, True),
        (qkv.detach().requires_grad_(), bias, SEED, False, 0.3, False, False),
    ):
        torch.library.opcheck(attention_operator, arguments)


def test_under_autocast_scores_stay_exact() -> None:
    x = grid(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = short_axis_attention(x, HEADS, axis=1)
    assert torch.equal(out, short_axis_attention(x, HEADS, axis=1))


def test_a_cpu_is_left_to_the_other_ways() -> None:
    assert not is_supported(torch.randn(3), length=25, head_width=64)


@pytest.mark.thorough
def test_importing_the_models_does_not_import_triton() -> None:
    modules = "jtrans.models.reformer, jtrans.nn.gpu.operator"
    code = f"import sys, {modules}; print('triton' in sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("files", "compiler", "fault"),
    [
        (("__init__.py", "knobs.py", "Python.h"), "gcc", None),
        (("__init__.py", "knobs.py", "Python.h"), "CC", None),
        (("__init__.py", "knobs.py"), "clang", "Python.h (install python3-dev)"),
        (("__init__.py", "knobs.py", "Python.h"), "tcc", "a C compiler (install gcc"),
        (("__init__.py",), "gcc", "Triton is older than 3.4"),
        ((), "gcc", "Triton is not installed"),
    ],
)
def test_what_is_wrong_with_triton_is_said(
    files: tuple[str, ...],
    compiler: str,
    fault: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CC", "cc" if compiler == "CC" else "")
    monkeypatch.setattr(shutil, "which", lambda name: name if name == compiler else None)
    folder = {"include": str(tmp_path / "triton")}
    monkeypatch.setattr(sysconfig, "get_paths", lambda scheme: folder)
    (tmp_path / "triton").mkdir()
    for name in files:
        (tmp_path / "triton" / name).touch()
    spec = ModuleSpec("triton", None, origin=str(tmp_path / "triton/__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: spec if files else None)
    missing = operator.missing_triton()
    assert missing is None if fault is None else fault in str(missing)


def test_a_tile_too_large_for_the_gpu_is_computed_by_matrix_products() -> None:
    errors = pytest.importorskip("triton.runtime.errors")

    def kernel(*_: Any) -> Tensor:
        raise errors.OutOfResources(262_144, 232_448, "shared memory")

    assert operator._launched(kernel, torch.add, 1, torch.ones(())) == 2
    assert operator._launched(torch.sub, kernel, 1, torch.ones(())) == 0


@pytest.mark.parametrize("axis", [1, 2])
def test_its_products_are_counted_in_both_directions(axis: int) -> None:
    x = grid(dtype=torch.float32)
    B, T, S, width = x.shape
    L = (T, S)[axis - 1]
    with FlopCounterMode(display=False, custom_mapping=FORMULAS) as counter:
        short_axis_attention(x, HEADS, axis=axis).sum().backward()
    assert counter.get_total_flops() == (2 + 5) * 2 * B * T * S * L * width // 3


def test_layers_of_joint_models_are_compiled_for_a_gpu_with_triton(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu, cpu = torch.device("cuda:1"), torch.device("cpu")
    monkeypatch.setattr(layer, "HAS_TRITON", True)
    chosen = {
        (device.type, is_joint): [
            layer.is_compiled(choice, device, is_joint=is_joint, is_long=True)
            for choice in ("auto", "on", "off")
        ]
        for device in (gpu, cpu)
        for is_joint in (True, False)
    }
    assert chosen == {
        ("cuda", True): [True, True, False],
        ("cuda", False): [False, True, False],  # its kernels are short: the GPU waits for the CPU
        ("cpu", True): [False, True, False],
        ("cpu", False): [False, True, False],
    }
    assert not layer.is_compiled("auto", gpu, is_joint=True, is_long=False)
    assert layer.is_compiled("on", gpu, is_joint=True, is_long=False)
    monkeypatch.setattr(layer, "HAS_TRITON", False)
    assert not layer.is_compiled("auto", gpu, is_joint=True, is_long=True)
    assert layer.is_compiled("on", cpu, is_joint=True, is_long=True)
    with pytest.raises(ConfigError, match="layers cannot be compiled for a GPU"):
        layer.is_compiled("on", gpu, is_joint=True, is_long=True)
