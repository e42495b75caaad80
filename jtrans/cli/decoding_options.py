"""The options of every command that translates, and what they turn into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jtrans.cli.options import DEVICE, MACHINE, SEARCH, option, option_group
from jtrans.errors import DecodingError, name_hint

if TYPE_CHECKING:
    from jtrans.decoding.options import DecodingChoices

PRECISIONS = ("auto", "fp32", "bf16")

CHECKPOINT = option("Which checkpoint.", "best|last|average|STEP", panel=SEARCH, default="best")
BEAM = option("Hypotheses kept.", None, "the run's, 5", SEARCH)
BATCH_TOKENS = option("Source tokens in a batch.", None, "1024", MACHINE, min=1)
PRECISION = option("auto, fp32 or bf16.", panel=MACHINE, default="auto")


@option_group
class DecodingOptions:
    """Which checkpoint translates, how it searches, and on what machine."""

    checkpoint: str = CHECKPOINT
    beam: int | None = BEAM
    length_penalty: float | None = option(
        "Exponent a of the length.", shown="the run's, 1.0", panel=SEARCH
    )
    length_penalty_form: str | None = option(
        "logP / |Y|^a or logP / ((5 + |Y|) / 6)^a.", "power|gnmt", "the run's, power", SEARCH
    )
    max_length: str | None = option(
        "Most target tokens; S source tokens, </s> counted in both.",
        "N, S+N or N*S+M",
        "the run's, S+50",
        SEARCH,
    )
    batch_tokens: int | None = BATCH_TOKENS
    device: str | None = DEVICE
    precision: str = PRECISION

    def choices(self, **search: Any) -> DecodingChoices:
        """Return what the options choose, with further search options.

        Raises:
            DecodingError: no such precision.
        """
        from jtrans.decoding.options import DecodingChoices

        check_choice("--precision", self.precision, PRECISIONS)
        search |= {
            "beam": self.beam,
            "length_penalty": self.length_penalty,
            "length_penalty_form": self.length_penalty_form,
            "max_length": self.max_length,
        }
        return DecodingChoices(
            self.checkpoint, self.device, self.precision, self.batch_tokens, search
        )


def check_choice(option: str, value: str, valid: Sequence[str]) -> None:
    """Refuse a value that is not one of the valid ones.

    Raises:
        DecodingError: naming the nearest one.
    """
    if value not in valid:
        raise DecodingError(
            f"unknown value {value!r}",
            where=option,
            hint=name_hint(value, valid),
            kind="decoding.option",
        )
