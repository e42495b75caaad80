"""jtrans: neural machine translation with joint source-target representations.

The public Python API; everything heavy is imported when it is used.

    import jtrans
    translator = jtrans.load("runs/quickstart/reformer-fast")
    translator.translate(["Das ist ein kleines Haus ."])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from jtrans.decoding.translator import Translator

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def load(run: str | Path, checkpoint: str = "best", device: str | None = None) -> Translator:
    """Load a trained model, ready to translate raw text.

    Args:
        run: a run's folder, its name under runs/, or ``@last``.
        checkpoint: ``best``, ``last``, an update's number or the name of an average.
        device: ``cpu``, ``cuda`` or ``mps``; None for the machine's best.

    Returns:
        A translator: ``translate(lines)`` gives the best translation of each line,
        ``translate_nbest(lines, n)`` the n best ones with scores and tokens.

    Raises:
        JtransError: the run, checkpoint or device does not exist or cannot be used.
    """
    from jtrans.decoding.translator import Translator
    from jtrans.nn.device import resolve_device
    from jtrans.runs import find_run

    return Translator.from_runs([find_run(str(run))], checkpoint, resolve_device(device))
