"""The README.md of an exported model, for people without jtrans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jtrans import __version__
from jtrans.runs import Run

_CARD = """\
# {run}: {source} to {target}

A translation model of the system `{system}`, trained with jtrans and
exported to {program} by jtrans {version}.

| | |
|---|---|
| checkpoint | {checkpoint} |
| weights | {weights} |
| longest sentence | {longest} tokens, `</s>` counted |
| source text | {source_text} |
| target text | {target_text} |
| `export.json` | these facts, for programs |
| `pipeline.json` | how raw text becomes tokens and back: segmentation, BPE codes, vocabularies |
| `sha256.json` | the digests of all files, checked by jtrans before use |

"""

_CTRANSLATE2 = """\
Raw text in, raw text out, with jtrans, installed from its source (PyPI's `jtrans` is another
project):

    pip install 'SOURCE_FOLDER[ctranslate2]'
    jtrans translate THIS_FOLDER --engine ctranslate2 --input FILE

With CTranslate2 alone, from tokens to tokens (it adds `</s>` to the source by itself):

    import ctranslate2
    translator = ctranslate2.Translator("THIS_FOLDER")
    results = translator.translate_batch([["ein", "hund", "."]], beam_size=5, return_end_token=True)
    print(results[0].hypotheses[0])
"""

_ONNX = """\
`translate_onnx.py` translates with onnxruntime and numpy alone, greedily. Its input is segmented as
in training (`pipeline.json`), with spaces between words and punctuation:

    pip install onnxruntime
    python translate_onnx.py < words.{source} > words.{target}

- `start.onnx` reads `source` [N, S]: ids, each line ending in `</s>` (1), padded with 0. It returns
  `log_probs` of the first token, [N, V], and the state.
- `step.onnx` reads `token` [N], `position` (tokens before it, with the `</s>` in front of all)
  and the state. It returns `log_probs` of the next token and the tensors of the state that changed.

`export.json` lists the tensors of the state in order, which of them change, and their axis of
hypotheses. A beam is a larger N: its hypotheses are selected along these axes.
"""


def onnx_card(run: Run, facts: Mapping[str, Any]) -> str:
    """Return the README.md of an export to ONNX."""
    source, target = run.pipeline.languages
    graphs = _ONNX.format_map({"source": source, "target": target})
    return _describe(run, facts, f"ONNX (opset {facts['opset']})") + graphs


def ctranslate2_card(run: Run, facts: Mapping[str, Any]) -> str:
    """Return the README.md of an export to CTranslate2."""
    return _describe(run, facts, "CTranslate2") + _CTRANSLATE2


def _describe(run: Run, facts: Mapping[str, Any], program: str) -> str:
    sides = {"source": run.pipeline.source, "target": run.pipeline.target}
    texts = {
        f"{name}_text": f"{side.segmenter} words{', lower-cased' if side.lowercase else ''}"
        f"{', truecased' if side.truecaser else ''}"
        f"{', BPE' if side.codes else ''}; {len(side.vocabulary):,} tokens"
        for name, side in sides.items()
    }
    languages = {name: side.language for name, side in sides.items()}
    values = {**facts, **languages, **texts, "program": program, "version": __version__}
    return _CARD.format_map(values)
