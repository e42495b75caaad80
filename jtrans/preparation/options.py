"""`PrepareOptions`: how a corpus is prepared."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from jtrans.config import ConfigSection, Count, explain_fault
from jtrans.preparation.clean import Rules

# The options that a reused pipeline has already determined.
PIPELINE_OPTIONS = (
    "source_segment",
    "target_segment",
    "lowercase",
    "truecase",
    "jieba_dictionary",
    "bpe",
    "bpe_codes",
    "bpe_merges",
    "bpe_min_frequency",
    "vocabulary",
    "min_count",
    "strip_invisible",
    "protect",
    "spell",
    "narrow",
)


# The kinds of errors of single options; "config.value" for all others.
_KINDS = {
    "literal_error": "config.choice",
    "value_error": "config.choice",
    "greater_than": "config.range",
    "greater_than_equal": "config.range",
    "finite_number": "config.range",
}


def _as_names(value: Any) -> Any:
    """Return a single name, such as "spacy:MODEL", as a list; an empty list for an empty name."""
    return ([value] if value else []) if isinstance(value, str) else value


class PrepareOptions(ConfigSection):
    """How a corpus is prepared; the defaults are those of the command line.

    Attributes:
        source_segment: the segmenter of the source; "auto" for the default of its language.
        target_segment: the segmenter of the target, or "auto".
        lowercase: whether both sides are lower-cased after segmentation.
        truecase: whether the first words of sentences get their case within sentences, learned
            from the training text; capitals are restored in output. Single characters stay.
        jieba_dictionary: path of a file with extra words for jieba; empty for none.
        bpe: "joint" (merges learned on both sides together), "separate" or "none".
        bpe_codes: path of a file of BPE codes to use for both sides; empty to learn them.
        bpe_merges: merges to learn (of each side, when separate).
        bpe_min_frequency: rarer pairs of symbols are not merged.
        vocabulary: "separate" for the two sides, or one "joint" vocabulary (which
            `tie = "all"` of a model needs).
        min_count: rarer tokens are left out of the vocabulary.
        strip_invisible: whether characters that cannot be seen are removed.
        protect: whether addresses, times, ``C++`` and emoji sequences stay in one piece.
        spell: whether BPE pieces outside the vocabulary are split into smaller ones that are in it.
        narrow: whether full-width Latin letters, digits and signs become ASCII (`text.widths`);
            None: they do if a language is Chinese and most of them in its text are not full-width.
        max_length, max_ratio, deduplicate, drop_leaked, drop_identical, drop_wrong_script: the
            `jtrans.preparation.clean.Rules` of training pairs; `drop_leaked` is "pair", "source",
            "target", or False to keep pairs that are in valid or test.
        labels: where parts of speech and entities of the source words come from, each
            "spacy:MODEL" or "conllu:FILE"; a sentence gets those of the first with any for it.
            Empty for the labels of the corpus, if it has any.
        pipeline: a folder (prepared corpus or run) whose text pipeline is reused; it determines
            all `PIPELINE_OPTIONS`. Empty to learn a pipeline.

    Raises:
        ConfigError: an option is unknown, or has an invalid value.
    """

    source_segment: str = "auto"
    target_segment: str = "auto"
    lowercase: bool = False
    truecase: bool = False
    jieba_dictionary: str = ""
    bpe: Literal["joint", "separate", "none"] = "joint"
    bpe_codes: str = ""
    bpe_merges: Count = 10_000
    bpe_min_frequency: Count = 2
    vocabulary: Literal["joint", "separate"] = "separate"
    min_count: Count = 1
    strip_invisible: bool = True
    protect: bool = True
    spell: bool = True
    narrow: bool | None = None
    max_length: Count = 175
    max_ratio: Annotated[float, Field(ge=1.0)] = 3.0
    deduplicate: bool = True
    drop_leaked: Literal["pair", "source", "target", False] = "pair"
    drop_identical: bool = True
    drop_wrong_script: bool = True
    labels: Annotated[tuple[str, ...], BeforeValidator(_as_names)] = ()
    pipeline: str = ""

    def __init__(self, **values: Any) -> None:
        try:
            paths = {name: str(value) for name, value in values.items() if isinstance(value, Path)}
            super().__init__(**{**values, **paths})
        except ValidationError as error:
            first = error.errors()[0]
            hint = "jtrans prepare --help shows the valid values"
            if first["loc"] == ("drop_leaked",):  # False is a value in Python only
                hint = "--keep-leaked keeps such pairs"
            fault = explain_fault(error, PrepareOptions, where="", hint=hint)
            fault.kind = _KINDS.get(first["type"], fault.kind)
            raise fault from error

    @model_validator(mode="after")
    def _one_way_to_treat_case(self) -> PrepareOptions:
        if self.lowercase and self.truecase:
            raise ValueError("--lowercase and --truecase exclude each other: choose one of the two")
        return self

    @property
    def rules(self) -> Rules:
        """The rules of cleaning among the options."""
        return Rules(**{item.name: getattr(self, item.name) for item in fields(Rules)})
