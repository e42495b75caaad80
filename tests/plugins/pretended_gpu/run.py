"""Run a module on a pretended GPU (`device.py`).

    python tests/plugins/pretended_gpu/run.py REPORT jtrans translate RUN --device cuda
    python tests/plugins/pretended_gpu/run.py REPORT scripts.gpu.check --tiny --only captured

So what jtrans does on a GPU only can be tested without one, but for torch.compile and the Triton
kernels: the devices of tensors, what makes the CPU wait, captured steps. REPORT receives what
happened, counted, as JSON; the variable PRETENDED_GPU names the library that `build` makes.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__)
PATHS = [str(HERE.parents[3]), str(HERE.parents[2])]  # the repository and its tests


def torch_folder() -> Path:
    """Return the folder of the package, which is not imported."""
    found = importlib.util.find_spec("torch")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent


def build(folder: Path) -> Path:
    """Compile the library that torch needs and return its path; needs g++."""
    library, torch_files = folder / "pretended_gpu.so", torch_folder()
    command = ["g++", "-std=c++20", "-O0", "-shared", "-fPIC", f"-I{torch_files / 'include'}"]
    command += [str(HERE.with_name("library.cpp")), "-o", str(library)]
    subprocess.run(
        [*command, f"-L{torch_files / 'lib'}", "-lc10", "-ltorch_cpu"],
        check=True,
        capture_output=True,
    )
    return library


def load(library: Path) -> ctypes.CDLL:
    """Load the library before torch asks whether there is a GPU."""
    for name in ("libc10.so", "libtorch_cpu.so"):
        ctypes.CDLL(str(torch_folder() / "lib" / name), ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(library))


def main() -> None:
    """Run a module, with its arguments, and write what happened."""
    report, module, *arguments = sys.argv[1:]
    sys.path[:1] = PATHS  # in place of this file's folder
    sys.argv = [module, *arguments]
    os.environ["TRITON_INTERPRET"] = "1"
    library = load(Path(os.environ["PRETENDED_GPU"]))
    from plugins.pretended_gpu import device

    library.register_guard()
    device.pretend()
    try:
        with device.PretendedGpu():
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        Path(report).write_text(json.dumps(device.happened), encoding="utf-8")


if __name__ == "__main__":
    main()
