"""jtrans: neural machine translation with joint source-target representations.

The public Python API; heavy modules are imported on first use.

    >>> import jtrans
    >>> corpus = jtrans.prepare("grammar-de-en", max_length=8)
    >>> small = {"model.width": 16, "model.ffn_width": 32, "training.validate_sentences": 4}
    >>> result = jtrans.train("demo/transformer", set={**small, "training.max_updates": 2})
    >>> result.reason, str(result.run)
    ('max_updates', 'runs/demo/transformer')
    >>> model = jtrans.load(result.run, device="cpu")
    >>> len(model.translate(["Der Hund schläft.", "Ich lese."], beam=2, max_length="S+2"))
    2
    >>> scores = model.score(["Ich lese."], ["I am reading."], metrics=["bleu"], max_length="9")
    >>> scores.value("bleu") < 100
    True
    >>> scores.scores["bleu"].signature  # doctest: +ELLIPSIS
    'BLEU|nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:...'
    >>> attention = model.explain("Ich lese.", "I am reading.")
    >>> attention.source[-1], attention.kinds[-1], attention.maps[-1].axes
    ('</s>', 'decoder.cross', ('target', 'source'))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtrans.errors import JtransError

__version__ = "0.1.0"
__all__ = [
    "Constraints",
    "JtransError",
    "LoadedRun",
    "SamplingOptions",
    "__version__",
    "load",
    "prepare",
    "train",
]

if TYPE_CHECKING:
    from jtrans.api import Constraints, LoadedRun, SamplingOptions, load, prepare, train
else:

    def __getattr__(name: str) -> object:
        """Import the API on first use, so that `jtrans.__main__` can handle Ctrl-C before it."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from jtrans import api

        return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
