"""Which device and precision compute."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from jtrans.errors import ConfigError
from jtrans.nn import device
from jtrans.nn.cpu import matmul_backend
from jtrans.nn.device import (
    DeviceInfo,
    autocast,
    prepare_device,
    resolve_device,
    resolve_precision,
    use_matmul_backend,
)

CPU = torch.device("cpu")
needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


@pytest.fixture(autouse=True)
def _no_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JTRANS_DEVICE", raising=False)


@pytest.fixture
def fresh_choice() -> Iterator[None]:
    """Choose the matmul backend anew, and put the old choice back afterwards."""
    before = torch.get_float32_matmul_precision()
    device._prepared.cache_clear()
    yield
    torch.set_float32_matmul_precision(before)
    device._prepared.cache_clear()


@pytest.mark.parametrize("name", ["cpu", "cpu:0"])
def test_a_named_device_is_taken(name: str) -> None:
    assert resolve_device(name).type == "cpu"


@pytest.mark.parametrize("name", [None, "auto", ""])
@needs_no_gpu
def test_auto_is_the_cpu_without_a_gpu(name: str | None) -> None:
    assert resolve_device(name) == CPU


@pytest.mark.parametrize("name", [None, "auto"])
def test_auto_follows_the_environment(name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("JTRANS_DEVICE", "cpu")
    assert resolve_device(name) == CPU
    monkeypatch.setenv("JTRANS_DEVICE", "cuda:1")
    assert resolve_device(name) == torch.device("cuda:1")


def test_a_named_device_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JTRANS_DEVICE", "cuda")
    assert resolve_device("cpu") == CPU


def test_an_empty_environment_means_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("JTRANS_DEVICE", "")
    assert resolve_device(None) == CPU


def test_an_unknown_device_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_device("cud")
    assert "cud" in caught.value.message
    assert caught.value.hint == "did you mean cuda?"
    assert caught.value.where == "--device"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", ["xyz", "cuda:x", "cpu:", "cuda:-1", "auto:1", "cuda:0:1", ":"])
def test_what_is_no_device_is_refused(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_device(name)
    assert caught.value.kind == "config.unknown-device"
    assert name in caught.value.message


def test_an_unknown_device_of_the_environment_names_the_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JTRANS_DEVICE", "gpu0")
    with pytest.raises(ConfigError) as caught:
        resolve_device(None)
    assert caught.value.where == "JTRANS_DEVICE"


@pytest.mark.parametrize(("name", "count"), [("cuda", 0), ("cuda:0", 0), ("cuda:2", 2)])
def test_an_absent_gpu_is_refused(name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with pytest.raises(ConfigError, match=f"no device {name}") as caught:
        resolve_device(name)
    assert caught.value.kind == "config.absent-device"
    assert caught.value.hint


@pytest.mark.parametrize(
    "shape", [(1024, 256, 1024), (4096, 256, 8), (7, 64, 33), (512, 1024, 256)]
)
@pytest.mark.usefixtures("fresh_choice")
def test_float32_products_are_real_float32(shape: tuple[int, int, int]) -> None:
    prepare_device(CPU)
    rows, inner, columns = shape
    x, w = torch.randn(rows, inner), torch.randn(columns, inner)
    exact = x.double() @ w.double().t()
    for product in (torch.nn.functional.linear(x, w), torch.bmm(x[None], w.t()[None])[0]):
        assert (product - exact).norm() / exact.norm() < 1e-6


@pytest.mark.usefixtures("fresh_choice")
def test_a_faster_product_that_is_not_float32_is_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = torch.nn.functional.linear

    def rough(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        if torch.get_float32_matmul_precision() == "highest":
            return original(x, w)
        return original(x.bfloat16(), w.bfloat16()).float()

    monkeypatch.setattr(torch.nn.functional, "linear", rough)
    monkeypatch.setattr(
        matmul_backend,
        "product_seconds",
        lambda *_: 2.0 if torch.get_float32_matmul_precision() == "highest" else 1.0,
    )
    info = prepare_device(CPU)
    assert torch.get_float32_matmul_precision() == "highest"
    assert info.matmul_backend == "MKL"


@pytest.mark.parametrize(
    ("seconds", "chosen", "backend"),
    [
        ({"highest": 1.0, "medium": 2.0}, "highest", "MKL"),
        ({"highest": 2.0, "medium": 1.0}, "medium", "oneDNN"),
        ({"highest": 1.5, "medium": 1.0}, "highest", "MKL"),  # not worth preparing every shape
    ],
)
@pytest.mark.usefixtures("fresh_choice")
def test_the_clearly_faster_backend_is_taken(
    seconds: dict[str, float], chosen: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        matmul_backend, "product_seconds", lambda *_: seconds[torch.get_float32_matmul_precision()]
    )
    monkeypatch.setattr(matmul_backend, "FP32_ERROR", float("inf"))
    assert prepare_device(CPU).matmul_backend == backend
    assert torch.get_float32_matmul_precision() == chosen


@pytest.mark.parametrize(("ratio", "backend"), [(1.2, "oneDNN"), (1.0, "MKL")])
@pytest.mark.usefixtures("fresh_choice")
def test_training_takes_a_backend_that_is_a_little_faster(
    ratio: float, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = {"highest": ratio, "medium": 1.0}
    monkeypatch.setattr(
        matmul_backend, "product_seconds", lambda *_: seconds[torch.get_float32_matmul_precision()]
    )
    monkeypatch.setattr(matmul_backend, "FP32_ERROR", float("inf"))
    assert prepare_device(CPU, for_training=True).matmul_backend == backend


@pytest.mark.usefixtures("fresh_choice")
def test_preparing_twice_measures_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = prepare_device(CPU)
    monkeypatch.setattr(
        matmul_backend, "take_faster_backend", lambda *_: pytest.fail("measured again")
    )
    assert prepare_device(CPU) == first


@pytest.mark.usefixtures("fresh_choice")
def test_the_library_is_used_again_after_a_run_has_chosen_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = {"highest": 2.0, "medium": 1.0}
    monkeypatch.setattr(
        matmul_backend, "product_seconds", lambda *_: seconds[torch.get_float32_matmul_precision()]
    )
    monkeypatch.setattr(matmul_backend, "FP32_ERROR", float("inf"))
    info = prepare_device(CPU)
    use_matmul_backend(info, "MKL")
    assert not matmul_backend.is_onednn_used()
    assert prepare_device(CPU).matmul_backend == "oneDNN" and matmul_backend.is_onednn_used()


def test_a_device_is_described_in_one_line() -> None:
    info = DeviceInfo("cpu", 2, "oneDNN")
    assert info.describe("fp32") == "cpu, 2 threads, fp32 by oneDNN"
    assert info.describe("bf16") == "cpu, 2 threads, bf16"
    assert DeviceInfo("NVIDIA H200", 0, "cuBLAS").describe("bf16") == "NVIDIA H200, bf16"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_named_precision_is_taken(precision: str) -> None:
    assert resolve_precision(CPU, precision) == precision


def test_auto_precision_of_a_cpu_is_float32() -> None:
    assert resolve_precision(CPU, "auto") == "fp32"


@pytest.mark.parametrize(
    ("capabilities", "is_warned"),
    [({"avx2": True}, True), ({"amx_bf16": True}, False), ({"bf16": True}, False), ({}, False)],
)
def test_bfloat16_on_a_cpu_without_its_instructions_is_warned_of(
    capabilities: dict[str, bool],
    is_warned: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("jtrans.nn.device.cpu_capabilities", lambda: capabilities)
    assert resolve_precision(CPU, "bf16") == "bf16"
    assert ("--precision fp32 is faster" in caplog.text) == is_warned


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"avx2": True}, "fp32"),
        ({"amx_bf16": True}, "bf16"),
        ({"bf16": True}, "bf16"),
        ({}, "bf16"),
    ],
)
def test_training_in_bfloat16_needs_its_instructions(
    capabilities: dict[str, bool],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("jtrans.nn.device.cpu_capabilities", lambda: capabilities)
    assert resolve_precision(CPU, "bf16", for_training=True) == expected
    assert ("processor has no instructions" in caplog.text) == (expected == "fp32")


def test_a_gpu_without_bfloat16_trains_in_float32(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: False)
    assert resolve_precision(torch.device("cuda"), "bf16", for_training=True) == "fp32"
    assert "this GPU has no instructions for bf16: fp32 is used" in caplog.text


@pytest.mark.parametrize(("has_it", "expected"), [(True, "bf16"), (False, "fp32")])
def test_auto_precision_of_a_gpu_is_bfloat16_where_it_is_real(
    has_it: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: has_it)
    assert resolve_precision(torch.device("cuda"), "auto") == expected


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)]
)
def test_products_run_in_the_chosen_precision(precision: str, dtype: torch.dtype) -> None:
    with autocast(CPU, precision):
        assert torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 3)).dtype == dtype


@pytest.mark.parametrize(("backend", "switch"), [("MKL", "highest"), ("oneDNN", "medium")])
@pytest.mark.usefixtures("fresh_choice")
def test_a_run_continues_with_the_backend_it_began_with(backend: str, switch: str) -> None:
    other = {"MKL": "oneDNN", "oneDNN": "MKL"}[backend]
    info = DeviceInfo("cpu", 1, other)
    chosen = use_matmul_backend(info, backend)
    if chosen.matmul_backend == backend:  # both backends compute in real float32 here
        assert torch.get_float32_matmul_precision() == switch
    again = use_matmul_backend(info, None)  # a new run of the same process chooses as measured
    assert again.matmul_backend == other
    assert torch.get_float32_matmul_precision() != switch


@pytest.mark.usefixtures("fresh_choice")
def test_a_recorded_backend_that_is_not_float32_here_is_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(matmul_backend, "is_real_float32", lambda: False)
    assert use_matmul_backend(DeviceInfo("cpu", 1, "MKL"), "oneDNN").matmul_backend == "MKL"
    assert torch.get_float32_matmul_precision() == "highest"
    assert use_matmul_backend(DeviceInfo("cpu", 1, "MKL"), "cuBLAS").matmul_backend == "MKL"


def test_each_gpu_is_asked_for_its_own_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    current = [0]

    @contextlib.contextmanager
    def on(device: torch.device) -> Iterator[None]:
        current.append(device.index)
        yield
        current.pop()

    monkeypatch.setattr(torch.cuda, "device", on)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: current[-1] == 1)
    assert resolve_precision(torch.device("cuda:1"), "auto") == "bf16"
    assert resolve_precision(torch.device("cuda:0"), "auto") == "fp32"


@pytest.mark.usefixtures("fresh_choice")
def test_a_gpu_computes_in_float32_after_a_cpu_that_took_onednn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "H200")
    for _ in range(2):  # also when it is ready already
        torch.set_float32_matmul_precision("medium")  # oneDNN on a CPU, TF32 on a GPU
        prepare_device(torch.device("cuda:1"))
        assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize("fault", ["Triton is not installed", "Triton is older than 3.4", None])
@pytest.mark.usefixtures("fresh_choice")
def test_a_gpu_without_our_kernels_says_so(
    fault: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "H200")
    monkeypatch.setattr("jtrans.nn.device.missing_triton", lambda: fault)
    described = prepare_device(torch.device("cuda:1")).describe("bf16")
    assert described.startswith("H200, bf16")
    assert fault in described if fault else described == "H200, bf16"


@pytest.mark.parametrize("home", ["there", "file/there"])
def test_kernels_are_kept_where_they_can_be_written(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TRITON_HOME", str(tmp_path / home))
    monkeypatch.setenv("TRITON_CACHE_DIR", "")  # so that it is restored
    monkeypatch.delenv("TRITON_CACHE_DIR")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("torch.cuda.get_device_name", lambda _: "a GPU")
    device._prepare(torch.device("cuda"), 1.0, 1)
    is_home = "file" not in home
    assert ("TRITON_CACHE_DIR" in os.environ) != is_home
    assert is_home or Path(os.environ["TRITON_CACHE_DIR"]).parent == tmp_path
