"""The options of every command that translates, and what they turn into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from jtrans.cli.options import option
from jtrans.errors import DecodingError, did_you_mean

if TYPE_CHECKING:
    from jtrans.decoding.options import DecodingChoices

SEARCH, MACHINE = "Search", "Machine"
PRECISIONS = ("auto", "fp32", "bf16")

WhichCheckpoint = Annotated[
    str, option(metavar="best|last|average|STEP", help="Which checkpoint.", panel=SEARCH)
]
Beam = Annotated[int | None, option(help="Hypotheses kept.", default="the run's, 5", panel=SEARCH)]
BatchTokens = Annotated[
    int | None, option(min=1, help="Source tokens in a batch.", default="1024", panel=MACHINE)
]
Device = Annotated[
    str | None, option(help="auto, cpu, cuda or mps.", default="auto", panel=MACHINE)
]
Precision = Annotated[str, option(help="auto, fp32 or bf16.", panel=MACHINE)]


@dataclass(frozen=True)
class DecodingOptions:
    """Which checkpoint translates, how it searches, and on what machine."""

    checkpoint: WhichCheckpoint = "best"
    beam: Beam = None
    length_penalty: Annotated[
        float | None,
        option(help="Exponent a of the length.", default="the run's, 1.0", panel=SEARCH),
    ] = None
    length_penalty_form: Annotated[
        str | None,
        option(
            metavar="power|gnmt",
            help="logP / |Y|^a or logP / ((5 + |Y|) / 6)^a.",
            default="the run's, power",
            panel=SEARCH,
        ),
    ] = None
    max_length: Annotated[
        str | None,
        option(
            metavar="N, S+N or N*S+M",
            help="Most target tokens; S source tokens, </s> counted in both.",
            default="the run's, S+50",
            panel=SEARCH,
        ),
    ] = None
    batch_tokens: BatchTokens = None
    device: Device = None
    precision: Precision = "auto"

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
        near = did_you_mean(value, valid)
        raise DecodingError(
            f"unknown value {value!r}",
            where=option,
            hint=f"did you mean {near}?" if near else f"one of: {', '.join(valid)}",
            kind="decoding.option",
        )
