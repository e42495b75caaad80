"""`jtrans analyze attention`: the attention of systems for single sentences."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jtrans.cli import console
from jtrans.cli.analyze.options import check_writable, out_option
from jtrans.cli.options import (
    CHECKPOINT,
    DEVICE,
    JSON,
    argument,
    check_folder_name,
    data_option,
    grouped,
    option,
    option_group,
    split_option,
)
from jtrans.cli.tables import print_table
from jtrans.digits import whole_number
from jtrans.errors import ConfigError, CorpusError, usage_error

if TYPE_CHECKING:
    from jtrans.analysis.attention.pairs import ExplainedPair
    from jtrans.analysis.attention.views import ViewSelection
    from jtrans.runs import Run

SENTENCE, SHOWN = "Sentence", "What to show"
STRONGEST = "of the strongest cell"
PAGE = "attention.html"


@option_group
class SentenceOptions:
    """The sentences to explain."""

    sentence: str | None = option("Raw source text.", "TEXT", panel=SENTENCE)
    target: str | None = option(
        "Translation to explain, raw text.", "TEXT", "the run's own", SENTENCE
    )
    sentences: str | None = option(
        "Lines of the split instead, counted from 1.", "N,N,...", panel=SENTENCE
    )
    split: str = split_option(SENTENCE)
    data: Path | None = data_option(SENTENCE)

    def check(self) -> None:
        """Refuse options that exclude each other.

        Raises:
            ConfigError: not exactly one of --sentence and --sentences, or an option of the other.
        """
        if (self.sentence is None) == (self.sentences is None):
            both = "--sentence and --sentences exclude each other"
            raise usage_error(
                "no sentence given" if self.sentence is None else both,
                '--sentence "raw text", or --sentences 3,17 for lines of the test set',
            )
        if self.target is not None and self.sentence is None:
            raise usage_error("--target needs --sentence", '--sentence "..." --target "..."')
        if self.sentence is not None and (self.data is not None or self.split != "test"):
            option = "--split" if self.data is None else "--data"
            raise usage_error(
                f"{option} has no effect with --sentence",
                f"leave out {option}, or name lines of a split: --sentences 3,17",
                where=option,
            )

    def lines(self, run: Run) -> list[tuple[int | None, str]]:
        """Return the sentences: their lines in the split, or None, and their raw text."""
        if self.sentence is not None:
            return [(None, self.sentence)]
        from jtrans.analysis.study.load import open_corpus

        lines = open_corpus(run, self.data).raw_lines(self.split, "source")
        numbers = line_numbers(str(self.sentences), len(lines), self.split)
        for line in numbers:
            if not lines[line].strip():
                raise usage_error(
                    f"line {line + 1} of {self.split} is empty", "leave it out", where="--sentences"
                )
        return [(line, lines[line]) for line in numbers]


@option_group
class ViewOptions:
    """The layers, heads and slices to show."""

    layer: str | None = option("Layer, counted from 1.", "N|all", "the last", SHOWN)
    head: str | None = option("Head, counted from 1.", "N|all", "the mean", SHOWN)
    source_token: str | None = option(
        "Joint systems: show the source attention of this token.", "N|TEXT", STRONGEST, SHOWN
    )
    target_token: str | None = option(
        "Joint systems: show the target attention of this token.", "N|TEXT", STRONGEST, SHOWN
    )

    def selection(self) -> ViewSelection:
        """Return the selection.

        Raises:
            ConfigError: a layer or head is neither a number nor ``all``.
        """
        from jtrans.analysis.attention.views import ViewSelection

        layer = number_or_all("--layer", self.layer)
        head = number_or_all("--head", self.head)
        return ViewSelection(layer, head, self.source_token, self.target_token)

    def check_slices(self, pairs: Sequence[ExplainedPair]) -> None:
        """Refuse --source-token and --target-token if no run is of a joint system.

        Raises:
            ConfigError: one of them is given.
        """
        tokens = {"--source-token": self.source_token, "--target-token": self.target_token}
        given = [name for name, token in tokens.items() if token is not None]
        if given and not any(pair.explanation.has_slices for pair in pairs):
            raise usage_error(
                f"{given[0]} has no effect: no run is of a joint system", f"leave {given[0]} out"
            )


@grouped()
def attention(
    *,
    runs: list[str] = argument("RUN", "One run or several."),
    text: SentenceOptions,
    shown: ViewOptions,
    checkpoint: str = CHECKPOINT,
    device: str | None = DEVICE,
    out: Path | None = out_option("reports/ of each run"),
    as_json: bool = JSON,
) -> None:
    """Show the attention of systems when they translate a sentence: every attention map.

    For joint systems, both attentions of one cell: of a source token given each
    target token, and of a target token given each source token.

    [bold]Examples[/bold]

    jtrans analyze attention @last --sentence "Der Mann liest ein Buch."

    jtrans analyze attention runs/base runs/fast --sentences 3,17 --layer all
    """
    from jtrans.analysis.study.load import system_names
    from jtrans.runs import find_run

    check_folder_name(out)
    text.check()
    selection = shown.selection()
    opened = [find_run(name, with_checkpoint=True) for name in runs]
    names = system_names(opened)
    for run in opened:
        run.checkpoint(checkpoint)
    lines = [text.lines(run) for run in opened]
    _check_same_lines(names, lines, text.split)
    check_writable(out or opened[0].reports_folder)
    from jtrans.analysis.attention.pairs import explain_pair
    from jtrans.decoding.options import DecodingChoices
    from jtrans.decoding.translator import Translator

    progress = console.TerminalProgress()
    pairs = []
    for run, name, numbered in zip(opened, names, lines, strict=True):
        translator = Translator.load([run], DecodingChoices(checkpoint, device, "fp32"))
        pairs.append(
            [
                explain_pair(translator, name, raw, text.target, line, selection, progress)
                for line, raw in numbered
            ]
        )
    _check_maps(opened, pairs)
    explained = list(itertools.chain.from_iterable(pairs))
    shown.check_slices(explained)
    files = _write(opened, pairs, text.split, out)
    if as_json:
        console.print_json(
            {
                "analysis": "attention",
                "split": text.split,
                "sentences": [pair.to_json() for pair in explained],
                "files": [path.as_posix() for path in files],
            }
        )
        return
    for pair in explained:
        _print(pair)
    console.say("Written", f"{len(files)} files; interactive page: {files[-1]}")


def _check_same_lines(
    names: Sequence[str], lines: Sequence[Sequence[tuple[int | None, str]]], split: str
) -> None:
    others = [name for name, own in zip(names, lines, strict=True) if own != lines[0]]
    if others:
        raise CorpusError(
            f"{', '.join(others)} and {names[0]} have different sentences in {split}",
            hint="--data DIR uses the sentences of one corpus for all of them",
            kind="corpus.different-tests",
        )


def _check_maps(runs: Sequence[Run], pairs: Sequence[Sequence[ExplainedPair]]) -> None:
    for run, explained in zip(runs, pairs, strict=True):
        if not any(pair.explanation.maps for pair in explained):
            raise ConfigError(
                f"{run.name} has no attention to show: its system gives no attention maps",
                hint="leave this run out",
                kind="analysis.no-attention",
            )


def number_or_all(option: str, value: str | None) -> int | str | None:
    """Read the number of a layer or head, or ``all``.

    Raises:
        ConfigError: the value is neither.
    """
    if value is None or value == "all":
        return value
    number = whole_number(value)
    if not number:
        raise usage_error(
            f"{value!r} is neither a number from 1 nor all",
            f"{option} 1 or {option} all",
            where=option,
        )
    return number


def line_numbers(text: str, count: int, split: str) -> list[int]:
    """Return the lines in a text such as ``3,17``, which counts from 1, counted from 0.

    Raises:
        ConfigError: a part is not a number, or a line does not exist.
    """
    result = []
    for part in text.split(","):
        number = whole_number(part.strip())
        if number is None or not 1 <= number <= count:
            raise ConfigError(
                f"{split} has no line {part.strip()!r}",
                where="--sentences",
                hint=f"lines are counted from 1 to {count:,}: --sentences 1,{count}",
                kind="analysis.line",
            )
        result.append(number - 1)
    return list(dict.fromkeys(result))


def _write(
    runs: Sequence[Run], pairs: Sequence[Sequence[ExplainedPair]], split: str, out: Path | None
) -> list[Path]:
    """Write the files of every pair, and a page of all pairs; return the paths, the page last."""
    from jtrans.analysis.output.files import write_pair
    from jtrans.analysis.report.explorer import attention_page
    from jtrans.evaluation.names import file_names
    from jtrans.files import write_text

    progress = console.TerminalProgress()
    files = []
    names = file_names([explained[0].system for explained in pairs])
    for run, name, explained in zip(runs, names, pairs, strict=True):
        folder = out or run.reports_folder
        if out is not None and len(runs) > 1:
            folder = out / name
        for pair in explained:
            files += write_pair(pair, folder, split, progress)
    page = (out or runs[0].reports_folder) / PAGE
    write_text(page, attention_page(pairs))
    return [*files, page]


def _print(pair: ExplainedPair) -> None:
    from jtrans.analysis.attention.pairs import strongest

    print(f"{pair.system}: {pair.source}")
    print(f"{' ' * len(pair.system)}  {pair.text}")
    for view in pair.shown:
        caption = view.matrices[-1].caption
        print(f"\n{view.title}" + (f" ({caption})" if caption else ""))
        print_table([view.row_axis, f"attends to {view.column_axis}"], strongest(view))
    print()
