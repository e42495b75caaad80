"""Read another program's `torch.save` file without running any code in it.

Such files are pickles, and a pickle can call anything. torch's restricted reader builds only
tensors and plain containers; `argparse.Namespace`, a plain record, is allowed as well.
"""

from __future__ import annotations

import argparse
import mmap
import pickle
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from jtrans.errors import CheckpointError
from jtrans.files import path_hint

# raised by torch, pickle and zipfile for files that are truncated, changed or of another format
_DAMAGE = (
    pickle.UnpicklingError,
    RuntimeError,
    EOFError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    AssertionError,
    ArithmeticError,
    MemoryError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
# Limits far above any real checkpoint: files in its archive, and bytes of the pickle (about 150 for
# each tensor; a parameter and its optimiser state are three tensors).
MOST_PARTS = 10_000
MOST_STRUCTURE_BYTES = 4 << 20
# patterns of torch's messages with the name of an object that the restricted reader refuses
_REFUSED = (
    re.compile(r"GLOBAL (\S+) (?:was not an allowed|whose module)"),
    re.compile(r"(?:class|function|global):? (\S+)", re.IGNORECASE),
)


def load_torch_file(path: Path) -> dict[str, Any]:
    """Return the dictionary in a `torch.save` file, its tensors on the CPU.

    Raises:
        CheckpointError: the file is missing, damaged, not a checkpoint, or has foreign objects.
    """
    try:
        is_zip = _check_archive(path)
        with torch.serialization.safe_globals([argparse.Namespace]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickle protocols; the result is checked below
            loaded = torch.load(str(path), map_location="cpu", weights_only=True, mmap=is_zip)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CheckpointError(
            f"cannot read the checkpoint: {reason}",
            where=str(path),
            hint=path_hint(path),
            kind="checkpoint.missing",
        ) from error
    except _DAMAGE as error:
        raise _explain(path, error) from error
    if not isinstance(loaded, Mapping) or not all(isinstance(key, str) for key in loaded):
        kind = type(loaded).__name__
        article = "an" if kind[0] in "aeiouAEIOU" else "a"
        raise CheckpointError(
            f"the file holds {article} {kind}, not the dictionary of a checkpoint",
            where=str(path),
            kind="checkpoint.format",
        )
    return dict(loaded)


def _check_archive(path: Path) -> bool:
    """Refuse a file that torch.save does not write; return whether it is a zip archive.

    Files of torch before 1.6 are not, and have no checksums. In an archive, the checksum of every
    part must be right. torch.save compresses nothing and writes few parts, so a file that unpacks
    to a larger one or has millions of objects is not its own. Of the objects that the restricted
    reader allows, only a bytearray takes any amount of memory for a few bytes.
    """
    with path.open("rb") as handle:
        size = path.stat().st_size
        if handle.read(4) != b"PK\x03\x04":
            with mmap.mmap(handle.fileno(), size, access=mmap.ACCESS_READ) as data:
                if data.find(b"bytearray") >= 0:
                    raise _unusual(path, "holds a bytearray")
            return False
        with zipfile.ZipFile(handle) as archive:
            parts = archive.infolist()
            objects = [part for part in parts if part.filename.endswith(".pkl")]
            problems = {
                f"has {len(parts):,} parts": len(parts) > MOST_PARTS,
                "is compressed": any(part.compress_type != zipfile.ZIP_STORED for part in parts),
                "has parts that overlap": sum(part.file_size for part in parts) > size,
                "describes too many objects": any(
                    part.file_size > MOST_STRUCTURE_BYTES for part in objects
                ),
            }
            problem = next((text for text, is_true in problems.items() if is_true), None)
            if problem is None and any(b"bytearray" in archive.read(part) for part in objects):
                problem = "holds a bytearray"
            if problem:
                raise _unusual(path, problem)
            broken = archive.testzip()
    if broken is not None:
        raise zipfile.BadZipFile(f"checksum of {broken} is wrong")
    return True


def _unusual(path: Path, problem: str) -> CheckpointError:
    return CheckpointError(
        f"not a checkpoint written by torch.save: the file {problem}",
        where=str(path),
        kind="checkpoint.format",
    )


def _explain(path: Path, error: BaseException) -> CheckpointError:
    text = str(error)
    if isinstance(error, pickle.UnpicklingError) and "nsupported" in text:
        for pattern in _REFUSED:
            if match := pattern.search(text.partition("trusted source.")[2] or text):
                name = match[1].rstrip(".,")
                return CheckpointError(
                    f"the checkpoint has a foreign object, {name}; only tensors, plain containers "
                    "and argparse.Namespace are loaded, because other objects could run code",
                    where=str(path),
                    hint="only if you trust the file: reduce it to what is needed, in the "
                    'environment that wrote it: python -c "import torch; '
                    f"c = torch.load('{path.name}', weights_only=False); "
                    "keep = 'args', 'cfg', 'model', 'optimizer_history'; "
                    "torch.save({k: c.get(k) for k in keep}, 'clean.pt')\" "
                    "(before torch 1.13 without weights_only)",
                    kind="checkpoint.foreign-object",
                )
    return CheckpointError(
        "not a torch.save checkpoint, or damaged",
        where=str(path),
        hint="copy it again from its origin, and compare the sizes",
        kind="checkpoint.damaged",
    )
