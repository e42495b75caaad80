"""The options that the `analyze` commands share, each declared once, and what they turn into."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtrans.cli import console
from jtrans.cli.decoding_options import (
    BatchTokens,
    Beam,
    DecodingOptions,
    Device,
    Precision,
    WhichCheckpoint,
)
from jtrans.cli.options import Json, data_option, option, split_option

if TYPE_CHECKING:
    from jtrans.analysis.figures.bins import Binning
    from jtrans.analysis.study.study import Study

OUTPUT = "Output"
TRANSLATING = ("hyp", "beam", "batch_tokens")  # of no use where nothing is translated


def text_option(
    metavar: str, text: str, default: str | None = None, panel: str | None = None
) -> Any:
    """Declare an option that takes text; `default` says in words what its None stands for."""
    return option(metavar=metavar, help=text, default=default, panel=panel)


def out_option(default: str) -> Any:
    """Declare ``--out``."""
    return text_option("DIR", "Folder for the files.", default, OUTPUT)


Edges = Annotated[str | None, text_option("N,N,...", "Where bins begin.", "those of the paper")]


@dataclass(frozen=True)
class StudyOptions:
    """Which systems are analysed, on which text, and how their models are run."""

    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="Runs; those that differ only by seed are one system.",
            show_default=False,
        ),
    ]
    split: Annotated[str, split_option()] = "test"
    data: Annotated[Path | None, data_option()] = None
    hyp: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Translations of the split by another tool; give it again for more.",
            show_default=False,
        ),
    ] = None
    checkpoint: WhichCheckpoint = "best"
    beam: Beam = None
    batch_tokens: BatchTokens = None
    device: Device = None
    precision: Precision = "auto"

    def load(self) -> Study:
        """Gather what the options name; models are loaded only when they are needed."""
        from jtrans.analysis.study.load import load_study
        from jtrans.runs import find_run

        decoding = DecodingOptions(
            self.checkpoint,
            self.beam,
            batch_tokens=self.batch_tokens,
            device=self.device,
            precision=self.precision,
        )
        return load_study(
            [find_run(name) for name in self.runs],
            self.split,
            decoding.choices(),
            data=self.data,
            hypotheses=self.hyp or [],
            progress=console.TerminalProgress(),
        )


@dataclass(frozen=True)
class BinOptions:
    """Which bins a figure has."""

    bins: Annotated[
        str, text_option("reference|quantile", "As in the paper, or with equal numbers of items.")
    ] = "reference"
    edges: Edges = None

    def binning(self) -> Binning:
        """Return the bins asked for.

        Raises:
            ConfigError: no such kind of bins, or edges that are not rising numbers.
        """
        from jtrans.analysis.figures.bins import Binning, parse_edges

        return Binning(self.bins, parse_edges(self.edges))


@dataclass(frozen=True)
class OutputOptions:
    """Where the results of an analysis go."""

    out: Annotated[Path | None, out_option("reports/ of the first run")] = None
    as_json: Json = False

    def folder(self, study: Study) -> Path:
        """Return the folder for the files."""
        return self.out or study.runs[0].reports_folder
