"""Triton kernels without a GPU: interpreted, and compiled for one that is not here."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Protocol

import pytest
import torch
from torch import Tensor

# Triton decides at its import whether it interprets, and other tests may have imported it: the
# interpreter has a process of its own, which answers one pickled call after the other.
SERVER = """
import importlib, pickle, sys
while True:
    try:
        name, arguments, options = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    module, _, function = name.rpartition(".")
    module = importlib.import_module("jtrans.nn.gpu." + module)
    if isinstance(options.get("tile"), tuple):
        options["tile"] = module.Tile(*options["tile"])
    result = getattr(module, function)(*arguments, **options)
    pickle.dump((result, arguments), sys.stdout.buffer)
    sys.stdout.buffer.flush()
"""


class Interpret(Protocol):
    """Calls ``MODULE.FUNCTION`` of the kernels; tensors that it writes are written here."""

    def __call__(self, name: str, *arguments: Any, **options: Any) -> Tensor: ...


@pytest.fixture(scope="session")
def interpreter() -> Iterator[Interpret]:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
    )
    assert process.stdin is not None and process.stdout is not None
    pipes = process.stdin, process.stdout

    def call(name: str, *arguments: Any, **options: Any) -> Tensor:
        pickle.dump((name, arguments, options), pipes[0])
        pipes[0].flush()
        answer, written = pickle.load(pipes[1])
        for mine, its in zip(arguments, written, strict=True):
            if isinstance(mine, Tensor) and not torch.equal(mine, its):
                mine.copy_(its)
        assert isinstance(answer, Tensor)
        return answer

    yield call
    pipes[0].close()
    process.wait(timeout=60)


def compile_for_hopper(
    kernel: Any, types: dict[str, str], constants: dict[str, Any], warps: int, stages: int = 1
) -> Any:
    """Compile a kernel for an H100, which need not be there.

    Args:
        kernel: the kernel.
        types: of its arguments, if they are not 32-bit integers.
        constants: the values of its constants.
        warps: of a program.
        stages: of its loops' pipelines.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    types = types | dict.fromkeys(constants, "constexpr")
    source = ASTSource(
        fn=kernel,
        signature={argument: types.get(argument, "i32") for argument in kernel.arg_names},
        constexprs={(kernel.arg_names.index(key),): value for key, value in constants.items()},
    )
    options = {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
