"""A GPU that is pretended: tensors say that they are on ``cuda:0``, and the CPU computes them.

As on a GPU an operation refuses tensors of two devices, a capture refuses to wait, and a captured
graph repeats its operations on the same memory.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map

aten = torch.ops.aten
GPU, CPU = torch.device("cuda:0"), torch.device("cpu")
COPIES = (aten._to_copy.default, aten.copy_.default)
# the CPU waits for their results
WAITING = (
    aten._local_scalar_dense.default,
    aten.nonzero.default,
    aten.equal.default,
    aten.masked_select.default,
    aten._unique2.default,
)
INDEXING = (aten.index.Tensor, aten.index_put_.default, aten._index_put_impl_.default)
happened: Counter[str] = Counter()
state = SimpleNamespace(graph=None, may_wait=True)


class OnGpu(Tensor):
    """A tensor that says it is on the GPU.

    Attributes:
        numbers: the tensor on the CPU.
    """

    numbers: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> OnGpu:
        """Wrap a tensor of the CPU."""
        wrapped: OnGpu = Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            layout=inner.layout,
            device=GPU,
            requires_grad=inner.requires_grad,
        )
        wrapped.numbers = inner
        return wrapped

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Do an operation where no mode is active."""
        return compute(func, args, kwargs or {})

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    def tolist(self) -> Any:
        """Return the numbers, for which the CPU waits."""
        wait("tolist")
        return self.numbers.tolist()

    def numpy(self, *_: Any, **__: Any) -> Any:
        """Refuse, as tensors of a GPU do."""
        raise TypeError("can't convert a tensor of cuda:0 to numpy")

    def data_ptr(self) -> int:
        """Return where the numbers are."""
        return self.numbers.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        """Return what holds the numbers, on the CPU."""
        return self.numbers.untyped_storage()

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """Return a copy, a parameter of a parameter; tied ones stay tied."""
        if id(self) not in memo:
            copied: Tensor = OnGpu(self.numbers.detach().clone())
            is_parameter = getattr(self, "_is_param", False)
            memo[id(self)] = torch.nn.Parameter(copied) if is_parameter else copied
        same: Tensor = memo[id(self)]
        return same

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        """Return the numbers as text."""
        return f"OnGpu({self.numbers!r})"


class PretendedGpu(TorchDispatchMode):
    """Sends every operation to `compute`, those that make a tensor as well."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Do an operation."""
        return compute(func, args, kwargs or {})


def wait(reason: object) -> None:
    """Count that the CPU waits for the GPU.

    Raises:
        RuntimeError: it may not, as `torch.cuda.set_sync_debug_mode` says, or in a capture.
    """
    happened["waits"] += 1
    if not state.may_wait or state.graph is not None:
        raise RuntimeError(f"the CPU waits for the GPU: {reason}")


def compute(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Do an operation on the CPU, with the refusals of a GPU."""
    tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, Tensor)]
    on_gpu = [x for x in tensors if isinstance(x, OnGpu)]
    on_cpu = [x for x in tensors if not isinstance(x, OnGpu)]
    if func in COPIES:
        goes_to_gpu, was_on_gpu = _copy_between(func, args, kwargs)
        is_pinned_copy = bool(kwargs.get("non_blocking") or (len(args) > 2 and args[2]))
        if goes_to_gpu != was_on_gpu and not (is_pinned_copy and state.graph is None):
            wait(f"{func} between devices")
    else:
        device = kwargs.get("device")
        goes_to_gpu = bool(on_gpu) if device is None else torch.device(device).type == "cuda"
        if on_gpu and any(x.dim() for x in on_cpu):
            if func not in INDEXING or not isinstance(args[0], OnGpu):
                shapes = [(type(x).__name__, *x.shape) for x in tensors]
                raise RuntimeError(f"{func} has tensors on two devices: {shapes}")
            wait(f"{func} by an index on the CPU")
        if on_gpu and func in WAITING:
            wait(func)
    inner_args, inner_kwargs = tree_map(_inner, args), tree_map(_inner, kwargs)
    if "device" in inner_kwargs and inner_kwargs["device"] is not None:
        inner_kwargs["device"] = CPU
    inner_kwargs.pop("pin_memory", None)
    if func is aten._to_copy.default:
        inner_kwargs["device"] = None
    result = func(*inner_args, **inner_kwargs)
    if state.graph is not None:
        state.graph.operations.append((func, inner_args, inner_kwargs, result))
    if not goes_to_gpu:
        return result
    wrapped = tree_map(lambda x: OnGpu(x) if isinstance(x, Tensor) else x, result)
    return return_and_correct_aliasing(func, args, kwargs, wrapped)


def _copy_between(func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[bool, bool]:
    """Return whether a copy goes to the GPU, and whether it comes from there."""
    if func is aten.copy_.default:
        return isinstance(args[0], OnGpu), isinstance(args[1], OnGpu)
    device, comes_from_gpu = kwargs.get("device"), isinstance(args[0], OnGpu)
    goes = comes_from_gpu if device is None else torch.device(device).type == "cuda"
    return goes, comes_from_gpu


def _inner(x: Any) -> Any:
    if isinstance(x, OnGpu):
        return x.numbers
    return CPU if isinstance(x, torch.device) and x.type == "cuda" else x


class Graph:
    """In place of `torch.cuda.CUDAGraph`: operations, repeated on the same memory."""

    def __init__(self) -> None:
        self.operations: list[tuple[Any, Any, Any, Any]] = []

    def pool(self) -> object:
        """Return the memory, which other graphs may share."""
        return self

    def replay(self) -> None:
        """Repeat all operations; what one returned receives the new numbers."""
        happened["replays"] += 1
        for func, args, kwargs, result in self.operations:
            repeated = func(*args, **kwargs)
            for old, new in zip(tree_flatten(result)[0], tree_flatten(repeated)[0], strict=True):
                if isinstance(old, Tensor) and old.numel() and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


@contextlib.contextmanager
def capture(graph: Graph, **_: object) -> Iterator[None]:
    """Capture operations, as `torch.cuda.graph` does."""
    happened["captures"] += 1
    state.graph = graph
    try:
        yield
    finally:
        state.graph = None


class Idle:
    """A stream or an event, on which nothing happens; measured times are a millisecond."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def elapsed_time(self, other: object) -> float:
        """Return milliseconds."""
        return 1.0

    def _nothing(self, *_: Any) -> None:
        pass

    wait_stream = wait_event = synchronize = record = wait = _nothing


def _set_sync_debug_mode(mode: str) -> None:
    state.may_wait = mode != "error"


def _inference_mode(mode: Any = True) -> Any:
    """Replace a mode whose tensors cannot be wrapped."""
    return torch.no_grad() if mode is True else torch.set_grad_enabled(torch.is_grad_enabled())


def _properties(_: object = None) -> Any:
    return SimpleNamespace(
        name="pretended GPU",
        major=9,
        minor=0,
        total_memory=16 << 30,
        multi_processor_count=132,
    )


REPLACED: dict[str, Any] = {
    "is_available": lambda: True,
    "is_initialized": lambda: True,
    "_lazy_init": lambda: None,
    "device_count": lambda: 1,
    "current_device": lambda: 0,
    "set_device": lambda device: None,
    "device": lambda device: contextlib.nullcontext(),
    "get_device_name": lambda device=None: "pretended GPU",
    "get_device_capability": lambda device=None: (9, 0),
    "get_device_properties": _properties,
    "is_bf16_supported": lambda including_emulation=True: True,
    "synchronize": lambda device=None: None,
    "mem_get_info": lambda device=None: (8 << 30, 16 << 30),
    "memory_reserved": lambda device=None: 1 << 20,
    "memory_allocated": lambda device=None: 1 << 20,
    "max_memory_allocated": lambda device=None: 1 << 20,
    "reset_peak_memory_stats": lambda device=None: None,
    "empty_cache": lambda: None,
    "get_rng_state": lambda device=None: torch.get_rng_state(),
    "set_rng_state": lambda new, device=None: torch.set_rng_state(new),
    "set_sync_debug_mode": _set_sync_debug_mode,
    "Stream": Idle,
    "Event": Idle,
    "current_stream": Idle,
    "stream": lambda stream: contextlib.nullcontext(),
    "is_current_stream_capturing": lambda: state.graph is not None,
    "CUDAGraph": Graph,
    "graph": capture,
}


def pretend() -> None:
    """Replace what needs a GPU, in this process for good."""
    for name, value in REPLACED.items():
        setattr(torch.cuda, name, value)
    torch._C._cuda_clearCublasWorkspaces = lambda: None
    torch.inference_mode = _inference_mode  # type: ignore[assignment, misc]
    Tensor.pin_memory = lambda self, device=None: self  # type: ignore[assignment, method-assign, return-value]
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device=) shows itself to modes
    # a module's parameters stay the same objects when they move, tied ones included
    torch.__future__.set_swap_module_params_on_conversion(True)
    run = threading.Thread.run

    def run_pretending(thread: threading.Thread) -> None:
        with PretendedGpu():  # modes are a matter of threads
            run(thread)

    threading.Thread.run = run_pretending  # type: ignore[assignment, method-assign]
