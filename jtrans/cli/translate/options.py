"""Options of `jtrans translate` alone: search, sampling, attention, the check, processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from jtrans.cli import console
from jtrans.cli.options import (
    MACHINE,
    SEARCH,
    data_option,
    flag,
    option,
    option_group,
)
from jtrans.cli.tables import print_table
from jtrans.errors import EXIT_CHECK_FAILED, option_error, usage_error
from jtrans.processors import MOST_WORKERS

if TYPE_CHECKING:
    from jtrans.cli.translate.constraints import ConstraintFiles
    from jtrans.decoding.options import DecodingChoices, SamplingOptions, TranslationExtras
    from jtrans.exports import Translatable

CHECK, CHECK_SPLIT = "Check", "valid"
SAMPLING, ATTENTION = "Sampling", "Attention to the source"
CONSTRAINTS = "Constraints, line by line"
ENGINES = ("torch", "ctranslate2")
ENGINE: str = option(
    "Translation engine; ctranslate2 needs an export of the run (jtrans export).",
    "torch|ctranslate2",
    default="torch",
    panel=MACHINE,
)


@option_group
class TokenRuleOptions:
    """Rules about the next token, the end of the search, and the choice among hypotheses."""

    min_length: int | None = option(
        "Minimum number of target tokens before </s>.", None, "1", SEARCH, min=0
    )
    no_repeat_ngram: int | None = option(
        "Forbid repeated N-grams of tokens in a translation.", "N", "0: off", SEARCH, min=0
    )
    stopping: str | None = option(
        "Stop when the number of finished hypotheses reaches the beam size (count), or when no "
        "other one can score higher than those returned (bound).",
        "count|bound",
        "count",
        SEARCH,
    )
    max_repeats: int | None = option(
        "Allow a token or sequence of tokens at most N times in a row, against loops.",
        "N",
        "0: off",
        SEARCH,
        min=0,
    )
    diverse_groups: int | None = option(
        "Divide the beam into N groups that avoid each other's tokens; --n-best returns fewer if "
        "groups find the same hypothesis.",
        "N",
        "1",
        SEARCH,
        min=1,
    )
    diversity: float | None = option(
        "Log-probability a token loses for each earlier group's hypothesis continued with it.",
        None,
        "0.5",
        SEARCH,
    )
    mbr: str | None = option(
        "Minimum Bayes risk: choose the hypothesis or sample most like the others in this metric; "
        "its score is the expected utility.",
        "chrf|bleu",
        "off",
        SEARCH,
    )

    def search(self) -> dict[str, Any]:
        """Return the options of `SearchOptions` by name.

        Raises:
            DecodingError: ``--diversity`` without groups.
        """
        if self.diversity is not None and (self.diverse_groups or 1) == 1:
            raise option_error(
                "--diversity has no effect without --diverse-groups",
                "add --diverse-groups, such as --beam 6 --diverse-groups 3",
                where="--diversity",
            )
        return {name: value for name, value in vars(self).items() if name != "mbr"}


@option_group
class ConstraintOptions:
    """The constraints on each translation: its beginning, and phrases in it or not in it."""

    prefix: str | None = option(
        "Beginning of each translation, in whole words; an empty line for none.",
        "FILE",
        panel=CONSTRAINTS,
    )
    phrases: str | None = option(
        "Phrases that each translation must contain, in whole words, separated by tabs.",
        "FILE",
        panel=CONSTRAINTS,
    )
    forbidden_phrases: str | None = option(
        "Phrases that it must not contain, separated by tabs.", "FILE", panel=CONSTRAINTS
    )

    def files(self) -> dict[str, str | None]:
        """Return the name of each file by its option."""
        return {f"--{name.replace('_', '-')}": value for name, value in vars(self).items()}

    def read(self, total: int | None) -> ConstraintFiles:
        """Read the files; `total` is the number of input lines, None if unknown.

        Raises:
            CorpusError: a file cannot be used.
        """
        from jtrans.cli.translate.constraints import ConstraintFile, ConstraintFiles

        kinds = zip(("prefix", "required", "forbidden"), self.files().items(), strict=True)
        return ConstraintFiles(
            {
                kind: ConstraintFile.read(option, name, total)
                for kind, (option, name) in kinds
                if name is not None
            }
        )


@option_group
class SamplingFlags:
    """Sampling of translations instead of a search."""

    sample: bool = flag(
        "--sample",
        "Draw translations at random, as many as --beam, instead of searching.",
        SAMPLING,
    )
    temperature: float | None = option("Temperature of the softmax.", None, "1.0", SAMPLING)
    top_k: int | None = option("Sample from the K most probable tokens.", "K", "0: all", SAMPLING)
    top_p: float | None = option(
        "Sample from the fewest tokens with probability P in total.", "P", "1.0", SAMPLING
    )
    epsilon: float | None = option(
        "Sample from tokens with at least this probability only.", None, "0.0", SAMPLING
    )
    seed: int | None = option(
        "Random seed of the samples; equal lines get equal samples in any file.",
        None,
        "1",
        SAMPLING,
        min=0,
    )

    def sampling(self) -> SamplingOptions | None:
        """Return the distribution to draw from; None without ``--sample``.

        Raises:
            DecodingError: a value that cannot be used, or any without ``--sample``.
        """
        from jtrans.decoding.options import SamplingOptions

        values = {
            name: value
            for name, value in vars(self).items()
            if name != "sample" and value is not None
        }
        if not self.sample:
            if values:
                name = "--" + next(iter(values)).replace("_", "-")
                raise option_error(
                    f"{name} has no effect without --sample",
                    f"add --sample, or leave {name} out",
                    where=name,
                )
            return None
        return SamplingOptions(**values)


@option_group
class AlignmentOptions:
    """What the attention to the source is used for."""

    alignments: bool = flag("--alignments", "Add word alignments to --format jsonl.", ATTENTION)
    alignments_file: str | None = option(
        "Write word alignments, a line per translation: 0-0 1-2.", "FILE", panel=ATTENTION
    )
    unk_replace: bool = flag(
        "--unk-replace", "Replace <unk> by the aligned source word.", ATTENTION
    )
    coverage_penalty: float | None = option(
        "Beta of the GNMT coverage penalty in the score.", "BETA", "0", ATTENTION
    )
    grid: bool = flag(
        "--grid",
        "Joint systems: add the weight of each source token in each prediction to --format jsonl.",
        ATTENTION,
    )
    alignment_layer: str | None = option(
        "Attention layer to use, such as decoder.3.cross.", "LAYER", "by system", ATTENTION
    )

    def extras(
        self, *, sampling: SamplingOptions | None, mbr: str | None, as_json: bool
    ) -> TranslationExtras:
        """Return the choices beyond those of the search.

        Raises:
            DecodingError: options that cannot be used together.
        """
        from jtrans.decoding.options import TranslationExtras

        if self.alignments and not (as_json or self.alignments_file):
            raise option_error(
                "plain text has no place for word alignments",
                "add --format jsonl, or write them with --alignments-file FILE",
                where="--alignments",
            )
        if self.alignments_file == "-":
            raise option_error(
                "word alignments go to a file, not to standard output",
                "--alignments-file FILE, or --alignments with --format jsonl",
                where="--alignments-file",
            )
        if self.grid and not as_json:
            raise option_error(
                "plain text has no place for the grid", "add --format jsonl", where="--grid"
            )
        return TranslationExtras(
            sampling=sampling,
            mbr=mbr,
            alignments=self.alignments or self.alignments_file is not None,
            unk_replace=self.unk_replace,
            alignment_layer=self.alignment_layer,
            coverage_penalty=self.coverage_penalty or 0.0,
            grid=self.grid,
        )


@option_group
class CheckOptions:
    """The check of the BLEU that a precision costs."""

    check: bool = flag(
        "--check",
        "Translate nothing: compare --precision with fp32 on the run's valid split (BLEU, "
        "translations, speed); exit code 4 if BLEU falls by more than 0.2.",
        CHECK,
    )
    data: Path | None = data_option(CHECK)
    as_json: bool = flag("--json", "Print the comparison as one JSON object.", CHECK)

    def refuse_unused(self, for_text: Sequence[str]) -> None:
        """Refuse options of the check without it, and options for a text to translate with it.

        Args:
            for_text: the given options that need a text to translate.

        Raises:
            ConfigError: an option has no effect.
        """
        unused = "--data" if self.data is not None else "--json" if self.as_json else None
        if unused and not self.check:
            advice = "for translations: --format jsonl" if self.as_json else "leave it out"
            raise usage_error(
                f"{unused} has no effect without --check", f"{advice}, or add --check"
            )
        if self.check and for_text:
            raise usage_error(
                "--check translates the run's valid split and nothing else",
                f"leave out --check, or {' and '.join(for_text)}",
            )

    def compare(self, runs: Sequence[Translatable], choices: DecodingChoices) -> None:
        """Translate the valid split in the chosen precision and in fp32, and show both scores.

        Raises:
            DecodingError: the precision is fp32 or auto, or the engine is not torch.
            Exit: with code 4, if the precision costs more than 0.2 BLEU.
        """
        from jtrans.runs import Run

        trained = [run for run in runs if isinstance(run, Run)]
        if len(trained) < len(runs) or choices.precision in ("auto", "fp32"):
            raise option_error(
                "--check compares another precision with fp32",
                "add --precision int8 or bf16; for CTranslate2: jtrans export --check",
                where="--check",
            )
        from jtrans.analysis.study.load import open_corpus

        corpus = open_corpus(trained[0], self.data)
        text = corpus.raw_lines(CHECK_SPLIT, "source"), corpus.references(CHECK_SPLIT)

        from jtrans.decoding.comparison import COLUMNS, MOST_LOST, compare_ways
        from jtrans.decoding.translator import Translator

        result = compare_ways(
            ("fp32", Translator.load(trained, replace(choices, precision="fp32"))),
            (choices.precision, Translator.load(trained, choices)),
            *text,
            console.TerminalProgress(),
        )
        if self.as_json:
            console.print_json(result.to_json())
        else:
            print_table(COLUMNS, result.rows(), right=COLUMNS[1:])
        if not result.is_held:
            console.warn(
                f"{choices.precision} loses {result.lost:.2f} BLEU on {CHECK_SPLIT}, "
                f"more than {MOST_LOST}"
            )
            raise typer.Exit(EXIT_CHECK_FAILED)


@option_group
class ProcessOptions:
    """The processes that translate."""

    workers: int = option(
        "Number of CPU processes; each loads the models.",
        "N",
        default=1,
        panel=MACHINE,
        min=1,
        max=MOST_WORKERS,
    )
    gpus: str | None = option(
        "Translate on N GPUs, or on all, in one process each.", "N|all", "1", MACHINE
    )

    def devices(self, device: str | None) -> list[str]:
        """Return the names of the GPUs to use; none without ``--gpus``.

        Raises:
            ConfigError: there are not as many GPUs, or other options exclude ``--gpus``.
        """
        if self.gpus is None:
            return []
        if self.workers > 1:
            raise usage_error("--workers is for the CPU, --gpus for GPUs", "leave one of them out")
        from jtrans.cli.ranks import count_gpus

        count = count_gpus(self.gpus, device, instead="--workers N")
        return [f"cuda:{number}" for number in range(count)]
