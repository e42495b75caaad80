"""The options of every command that translates, and what they turn into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtrans.errors import DecodingError, did_you_mean

if TYPE_CHECKING:
    from jtrans.decoding.options import DecodingChoices

SEARCH, MACHINE = "Search", "Machine"
PRECISIONS = ("auto", "fp32", "bf16")

WhichCheckpoint = Annotated[
    str,
    typer.Option(
        "--checkpoint",
        metavar="best|last|average|STEP",
        help="Which checkpoint.",
        rich_help_panel=SEARCH,
    ),
]
Beam = Annotated[
    int | None,
    typer.Option(help="Hypotheses kept.", show_default="the run's, 5", rich_help_panel=SEARCH),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(
        help="Exponent a of the length.", show_default="the run's, 1.0", rich_help_panel=SEARCH
    ),
]
LengthPenaltyForm = Annotated[
    str | None,
    typer.Option(
        metavar="power|gnmt",
        help="logP / |Y|^a or logP / ((5 + |Y|) / 6)^a.",
        show_default="the run's, power",
        rich_help_panel=SEARCH,
    ),
]
MaxLength = Annotated[
    str | None,
    typer.Option(
        metavar="N, S+N or N*S+M",
        help="Most target tokens; S source tokens, </s> counted in both.",
        show_default="the run's, S+50",
        rich_help_panel=SEARCH,
    ),
]
BatchTokens = Annotated[
    int | None,
    typer.Option(
        min=1, help="Source tokens in a batch.", show_default="1024", rich_help_panel=MACHINE
    ),
]
Device = Annotated[
    str | None,
    typer.Option(help="auto, cpu, cuda or mps.", show_default="auto", rich_help_panel=MACHINE),
]
Precision = Annotated[str, typer.Option(help="auto, fp32 or bf16.", rich_help_panel=MACHINE)]


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


def decoding_choices(
    *,
    checkpoint: str,
    device: str | None,
    precision: str,
    batch_tokens: int | None,
    **search: Any,
) -> DecodingChoices:
    """Return what the options of a command choose about decoding.

    Raises:
        DecodingError: no such precision.
    """
    from jtrans.decoding.options import DecodingChoices

    check_choice("--precision", precision, PRECISIONS)
    return DecodingChoices(checkpoint, device, precision, batch_tokens, search)
