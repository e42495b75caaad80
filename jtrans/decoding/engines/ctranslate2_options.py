"""The choices for decoding that CTranslate2 can follow; all others are refused by name.

This module imports neither torch nor CTranslate2, so that they are refused at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields
from typing import Any

from jtrans.decoding.options import DecodingChoices, SearchOptions
from jtrans.errors import DecodingError
from jtrans.exports import Export, Translatable

PROGRAM = "ctranslate2"
QUANTIZATIONS = ("int8", "float16", "bfloat16")  # the types of exported weights, beside float32
COMPUTE_TYPES = {"auto": "default", "fp32": "float32", "bf16": "bfloat16", "int8": "int8"}
_FOLLOWED = {
    "SearchOptions": (
        "beam",
        "length_penalty",
        "max_length",
        "nbest",
        "min_length",
        "no_repeat_ngram",
    ),
    "TranslationExtras": ("sampling", "mbr", "alignments", "unk_replace", "alignment_layer"),
    "SamplingOptions": ("seed", "temperature", "top_k", "top_p"),
}


def check_engine(models: Sequence[Translatable], decoding: DecodingChoices) -> None:
    """Refuse choices that the engine of the models cannot follow, see `check_choices`."""
    for model in models:
        if isinstance(model, Export):
            check_choices(model, decoding)


def check_choices(export: Export, decoding: DecodingChoices) -> SearchOptions:
    """Return the search options for an export.

    Raises:
        DecodingError: CTranslate2 does not support a choice.
        CheckpointError: another checkpoint than the exported one.
    """
    options, extras = decoding.search_options(export), decoding.extras
    export.checkpoint(decoding.checkpoint)
    for chosen in (options, extras, extras.sampling):
        for name, default in _unfollowed(chosen):
            usual = f", or give {_flag(name)} {default}" if isinstance(default, str) else ""
            raise _refusal(_flag(name), f"leave it out{usual}, or use --engine torch")
    if decoding.precision not in COMPUTE_TYPES:
        raise _refusal(
            f"--precision {decoding.precision}", f"--precision {' or '.join(COMPUTE_TYPES)}"
        )
    layer = export.facts.get("alignment_layer")
    if extras.alignment_layer not in (None, layer):
        raise _refusal(
            f"--alignment-layer {extras.alignment_layer}",
            f"leave it out: the export has the attention of {layer} alone; or use --engine torch",
        )
    return options


def _unfollowed(chosen: Any) -> Iterator[tuple[str, Any]]:
    """Yield the options that differ from their default and cannot be followed."""
    if chosen is None:
        return
    followed = _FOLLOWED[type(chosen).__name__]
    for item in fields(chosen):
        default = item.default if item.default is not MISSING else None
        if item.name not in followed and getattr(chosen, item.name) != default:
            yield item.name, default


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _refusal(option: str, hint: str) -> DecodingError:
    return DecodingError(
        f"CTranslate2 does not support {option}",
        where="--engine ctranslate2",
        hint=hint,
        kind="decoding.engine",
    )
