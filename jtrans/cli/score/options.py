"""The options of `jtrans score`, and which of them apply to each of its three uses."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from jtrans.cli import completion
from jtrans.cli.options import (
    SEARCH,
    DecodingOptions,
    argument,
    data_option,
    flag,
    option,
    option_group,
    refuse_given,
    split_option,
)
from jtrans.errors import usage_error

if TYPE_CHECKING:
    from jtrans.evaluation.sentence_scores import SentenceScores

FORCE, FILES = "Given translations", "Files"
METRICS = "bleu,chrf,ter,multi-bleu"
# groups of options, for `UNUSED`
_TEXT = ("languages", "as_is")
_SEARCH = ("beam", "length_penalty", "length_penalty_form", "max_length", "batch_tokens")
_SCORES = ("metric", "lowercase", "tokenize", "sentence_scores", "latex", "sweep")
_WRITTEN = ("output", "sentences")
_MODEL = ("checkpoint", "device", "precision")
# fields of the JSON output, which no other metric may replace
FIELDS = (
    *("system", "id", "line", "name", "interval", "interval_ends", "signature", "signatures"),
    *("length_ratio", "brevity_penalty", "parameters", "frozen_parameters", "tokens_per_second"),
    *("checkpoint", "split", "sentences", "tagging", "pos_accuracy", "entity_f1"),
)
# use of the command -> options without effect
UNUSED = {
    "on the scores of runs": _TEXT,
    "with --force": (*_TEXT, *_SEARCH, *_SCORES, *_WRITTEN, "split", "data"),
    "with --hyp and --ref": (*_SEARCH, *_MODEL, "split", "data", "sweep", "output"),
}


@option_group
class ScoreOptions:
    """The input: runs on a test set, given translations for a run, or files."""

    runs: list[str] | None = argument(
        "RUN", "Runs; the first is the baseline.", None, completion.runs_or_files
    )
    split: str = split_option()
    metric: str | None = option(
        "Metrics; also chrf++.", "NAME,...", f"{METRICS}; files: no multi-bleu"
    )
    data: Path | None = data_option()
    sweep: list[str] | None = option(
        "Score every run with each of these searches: beam=1,5,10 or length-penalty=0.6,1,1.4; "
        "repeatable.",
        "NAME=VALUE,...",
        panel=SEARCH,
    )
    lowercase: bool | None = flag(
        "--lowercase/--cased", "Compare without case.", shown="the run's case; files: cased"
    )
    tokenize: str | None = option(
        "sacreBLEU's tokenizer for BLEU, such as 13a, intl, char, flores200 or none.",
        "NAME",
        "that of the target language",
    )
    sentence_scores: list[str] | None = option(
        "Sentence scores in another metric: the output of comet-score --to_json, or a file of "
        "numbers for each system; repeatable. Higher is better, except for TER, HTER, CharacTER, "
        "WER, CER and MetricX.",
        "NAME=FILE,...",
    )
    output: Path | None = option("Also write each run's translations to this folder.", "DIR")
    sentences: str | None = option(
        "Also write sentence scores as JSON lines, except for multi-bleu.", "FILE"
    )
    latex: bool = flag("--latex", "Print the table for a paper, in LaTeX.")
    force: str | None = option(
        "Print the run's log-probability of these translations, token by token; from JSON lines of "
        "jtrans translate, of every translation listed, with its tokens.",
        "FILE",
        panel=FORCE,
    )
    src: str | None = option(
        "Source lines, or JSON lines with `source`; with --hyp, only their number is checked.",
        "FILE",
        panel=FORCE,
    )
    hyp: list[str] | None = option(
        "Translations, one file per system; or JSON lines of jtrans translate.",
        "FILE...",
        panel=FILES,
    )
    ref: list[str] | None = option("References, one file per set.", "FILE...", panel=FILES)
    languages: str | None = option(
        "Languages; the target selects the tokenizer.", "SOURCE-TARGET", "by the file names", FILES
    )
    as_is: bool = flag("--as-is", "Score BPE pieces and escaped characters as they are.", FILES)

    def check(self) -> None:
        """Refuse a mixture of the three uses.

        Raises:
            ConfigError: options that cannot be combined, or nothing to score.
        """
        if self.runs and (self.ref or self.src) and not (self.hyp or self.force):
            from jtrans.data.prepared import test_set_commands
            from jtrans.runs import find_run

            languages = find_run(self.runs[0], with_checkpoint=True).pipeline.languages
            given = " and ".join(name for name in ("--src", "--ref") if getattr(self, name[2:]))
            raise usage_error(
                f"a run is scored on a split of a prepared corpus, not on {given}",
                f"{test_set_commands(self.runs[0], languages)}; or write translations with "
                "jtrans translate and score them with --hyp and --ref",
            )
        if self.hyp or self.ref:
            if not (self.hyp and self.ref):
                raise usage_error("--hyp and --ref must be given together", "--hyp FILE --ref FILE")
            if self.runs or self.force:
                raise usage_error(
                    "runs and files of translations cannot be scored together",
                    "jtrans translate RUN --output FILE writes a run's translations to a file",
                )
        elif self.force and not self.runs:
            raise usage_error(
                "--force needs a RUN",
                f"jtrans score RUN --force {shlex.quote(self.force)} --src SOURCE",
            )
        elif not self.runs:
            raise usage_error("nothing to score", "jtrans score RUN, or --hyp FILE --ref FILE")
        elif self.force and self.src is None:
            raise usage_error(
                "--force and --src must be given together", "--force HYPOTHESES --src SOURCE"
            )
        elif self.force and len(self.runs) > 1:
            raise usage_error("--force needs a single run", "score each run separately")

    def refuse_unused(self, decoding: DecodingOptions) -> None:
        """Refuse options that only another use of the command has.

        Raises:
            ConfigError: naming the first of them.
        """
        runs, force, files = UNUSED
        use = files if self.hyp else force if self.force else runs
        for name in UNUSED[use]:
            refuse_given(self if name in vars(self) else decoding, [name], use)

    def inputs(self) -> list[tuple[str, str]]:
        """Return the files that the command reads, each with its option."""
        given = [text.partition("=")[2] for text in self.sentence_scores or []]
        files = {
            "--src": [self.src or ""],
            "--hyp": self.hyp or [],
            "--ref": self.ref or [],
            "--sentence-scores": ",".join(given).split(","),
        }
        return [(option, name) for option, names in files.items() for name in names if name]

    def given_scores(self) -> list[SentenceScores]:
        """Return the scores of sentences in other metrics.

        Raises:
            JtransError: a name is missing or already taken, or a file cannot be read.
        """
        from jtrans.corpora.lines import read_line_file
        from jtrans.evaluation.sentence_scores import SentenceScores
        from jtrans.evaluation.systems import TITLES

        given = []
        taken = {_plain(name) for name in (*TITLES, *TITLES.values(), *FIELDS)}
        for text in self.sentence_scores or []:
            name, _, files = text.partition("=")
            name = name.strip()
            if not name or not files.strip(","):
                raise usage_error(
                    f"--sentence-scores {shlex.quote(text)} is not NAME=FILE", "COMET=comet.json"
                )
            if _plain(name) in taken:
                raise usage_error(
                    f"sentence scores cannot be named {name}, like another metric or field",
                    f"choose another name: {name}-given={files}",
                )
            taken.add(_plain(name))
            paths = [file for file in files.split(",") if file]
            lines = [(file, read_line_file(Path(file))) for file in paths]
            given.append(SentenceScores.parse(name, lines))
        return given

    def metrics(self, default: str) -> list[str]:
        """Return the names of the metrics.

        Raises:
            JtransError: an unknown metric, none that `--sentences` could write, or a tokenizer that
                cannot be used.
        """
        from jtrans.evaluation.systems import MULTI_BLEU, TITLES, check_metrics

        given = (default if self.metric is None else self.metric).replace("_", "-").split(",")
        names = [name.strip().lower() for name in given]
        by_title = {title.lower(): name for name, title in TITLES.items()}
        metrics = check_metrics([by_title.get(name, name) for name in names])
        if self.sentences and metrics == [MULTI_BLEU] and not self.sentence_scores:
            raise usage_error(
                "multi-bleu has no sentence scores for --sentences", "--metric bleu,multi-bleu"
            )
        if self.tokenize is not None:
            from jtrans.evaluation.scores import check_tokenizer

            if "bleu" not in metrics:
                raise usage_error(
                    "--tokenize has no effect without the metric bleu", "leave it out"
                )
            check_tokenizer(self.tokenize)
        return metrics


def _plain(name: str) -> str:
    """Return a name of a metric or field for comparison, without regard to case and - or _."""
    return name.lower().replace("-", "_")
