"""The options that the `analyze` commands share."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.cli import console
from jtrans.cli.options import (
    BATCH_TOKENS,
    BEAM,
    CHECKPOINT,
    DEVICE,
    JSON,
    PRECISION,
    PRECISIONS,
    DecodingOptions,
    argument,
    check_choice,
    check_folder_name,
    data_option,
    flag,
    option,
    option_group,
    refuse_given,
    split_option,
)
from jtrans.errors import ConfigError, usage_error

if TYPE_CHECKING:
    from jtrans.analysis.figures.bins import Binning
    from jtrans.analysis.study.study import Study

OUTPUT, FILES = "Output", "Files, without a run"
TEXT_FILES = ("ref", "src", "train", "languages")  # options for files without a run
# options that do not apply to commands that do not translate
TRANSLATING = ("hyp", "as_is", "beam", "batch_tokens", "lowercase", *TEXT_FILES)


def out_option(shown: str) -> Any:
    """Declare ``--out``."""
    return option("Folder for the files.", "DIR", shown, OUTPUT)


EDGES = option(
    "Upper edge of each bin: 5,10 gives 1–5, 6–10 and >10.", "N,N,...", "those of the paper"
)

GOLD_FORMATS = "word alignments: Pharaoh (0-0 1?2), NAACL (1 1 2 P) or Och (SENT: 1)."
GOLD_BASE = option("Index of the first gold word.", "0|1", "0 for Pharaoh, else 1", min=0, max=1)


@option_group
class StudyOptions:
    """The systems to analyse, the text, and how their models are run."""

    runs: list[str] | None = argument(
        "RUN", "Runs; runs that differ only by seed count as one system.", default=None
    )
    split: str = split_option()
    data: Path | None = data_option()
    hyp: list[Path] | None = option(
        "Translations by other tools, or JSON lines of jtrans translate; repeatable.",
        "FILE",
    )
    as_is: bool = flag("--as-is", "Take BPE pieces and escaped characters of files as they are.")
    ref: list[Path] | None = option(
        "References for --hyp; repeatable: several of each sentence.", "FILE", panel=FILES
    )
    src: Path | None = option(
        "The source text, or JSON lines with `source`; without it, lengths are of the reference.",
        "FILE",
        panel=FILES,
    )
    train: Path | None = option(
        "Target side of the training text, for word frequencies.", "FILE", panel=FILES
    )
    languages: str | None = option(
        "Languages of the files.", "SOURCE-TARGET", "by their names", FILES
    )
    lowercase: bool | None = flag(
        "--lowercase/--cased",
        "Compare words and scores without case.",
        shown="without, if a run writes lower case",
    )
    checkpoint: str = CHECKPOINT
    beam: int | None = BEAM
    batch_tokens: int | None = BATCH_TOKENS
    device: str | None = DEVICE
    precision: str = PRECISION

    def load(self, output: OutputOptions) -> Study:
        """Load the study; models are loaded only when they are needed.

        Raises:
            ConfigError: options cannot be combined, or the results cannot be written.
        """
        check_choice("--precision", self.precision, PRECISIONS)
        study = self._of_files() if self.ref else self._of_runs()
        check_writable(output.folder(study))
        return study

    def given(self) -> list[str]:
        """Return the options that differ from their defaults, as arguments of a command."""
        words = []
        for field in fields(self):
            name, value = field.name.replace("_", "-"), getattr(self, field.name)
            if field.name == "runs" or value == field.default:
                continue
            if isinstance(value, bool):
                words.append("--cased" if name == "lowercase" and not value else f"--{name}")
                continue
            for each in value if isinstance(value, list) else [value]:
                words += [f"--{name}", each.as_posix() if isinstance(each, Path) else str(each)]
        return words

    def _of_files(self) -> Study:
        from jtrans.analysis.study.load_files import load_file_study
        from jtrans.analysis.study.members import TextFiles

        if file := next((name for name in self.runs or [] if Path(name).is_file()), None):
            raise usage_error(
                f"{file} is a file, not a run",
                f"an option before each file: --hyp {file} or --ref {file}",
            )
        if self.runs:
            raise usage_error(
                "--ref has no effect on runs: they translate a split of a prepared corpus",
                "leave it out; or translate the source (jtrans translate RUN --output FILE) and "
                "give the translations with --hyp instead of the run",
            )
        if not self.hyp:
            raise usage_error("--ref without --hyp", "--hyp A --hyp B --ref REFERENCE")
        of_runs = ("split", "data", "checkpoint", "beam", "batch_tokens", "device", "precision")
        refuse_given(self, of_runs, "on files")
        return load_file_study(
            TextFiles(self.src, self.ref or [], self.hyp, self.train, self.languages),
            lowercase=bool(self.lowercase),
            as_is=self.as_is,
            progress=console.TerminalProgress(),
        )

    def _of_runs(self) -> Study:
        from jtrans.analysis.study.load import load_study
        from jtrans.runs import find_run

        decoding = DecodingOptions(
            self.checkpoint,
            self.beam,
            batch_tokens=self.batch_tokens,
            device=self.device,
            precision=self.precision,
        )
        hint = "--hyp A --hyp B --ref REFERENCE analyses files without a run"
        refuse_given(self, TEXT_FILES, "without --ref", hint)
        if not self.runs:
            raise usage_error(
                "nothing to analyse",
                "give a run; length, frequency, compare and report also accept files: "
                "--hyp A --hyp B --ref REFERENCE",
            )
        return load_study(
            [find_run(name, with_checkpoint=True) for name in self.runs],
            self.split,
            decoding.choices(),
            data=self.data,
            hypotheses=self.hyp or [],
            lowercase=self.lowercase,
            as_is=self.as_is,
            progress=console.TerminalProgress(),
        )


def check_writable(folder: Path) -> None:
    """Check that files can be written to a folder, which need not exist.

    Raises:
        ConfigError: they cannot.
    """
    existing = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if existing.is_dir() and os.access(existing, os.W_OK):
        return
    fault = "no permission to write" if existing.is_dir() else f"{existing} is a file: cannot write"
    raise ConfigError(
        f"{fault} {folder}", hint="--out DIR names another folder", kind="disk.read-only"
    )


@option_group
class BinOptions:
    """The bins of a figure."""

    bins: str | None = option(
        "reference: the bins of the paper; quantile: equal numbers of items.",
        "reference|quantile",
        "reference",
    )
    edges: str | None = EDGES

    def binning(self) -> Binning:
        """Return the requested bins.

        Raises:
            ConfigError: no such kind of bins, edges that are not increasing numbers, or both.
        """
        from jtrans.analysis.figures.bins import Binning, parse_edges

        if self.bins is not None and self.edges is not None:
            raise usage_error("--bins and --edges exclude each other", "use one of them")
        return Binning(self.bins or "reference", parse_edges(self.edges))


@option_group
class OutputOptions:
    """Where the results of an analysis go."""

    out: Path | None = out_option("reports/ of the first run, or reports/ here")
    as_json: bool = JSON

    def folder(self, study: Study) -> Path:
        """Return the folder for the files.

        Raises:
            ConfigError: it is named like a file.
        """
        if self.out is not None:
            check_folder_name(self.out)
            return self.out
        return study.runs[0].reports_folder if study.runs else Path("reports")
