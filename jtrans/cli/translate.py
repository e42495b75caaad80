"""`jtrans translate`: raw text in, raw text out."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from jtrans.cli import console
from jtrans.cli.options import SEARCH, DecodingOptions, argument, check_choice, grouped, option
from jtrans.cli.translate_options import AlignmentOptions, ConstraintOptions, SampledOptions
from jtrans.errors import CorpusError

if TYPE_CHECKING:
    from jtrans.decoding.translator import Translation, Translator

TEXT = "Text"
FORMATS = ("text", "jsonl")


@grouped()
def translate(
    runs: list[str] = argument("RUN", "A run, or several as an ensemble."),
    input_file: str = option(
        "Text to translate.", "FILE|-", default="-", panel=TEXT, names=["--input", "-i"]
    ),
    output_file: str = option(
        "File for the translations.", "FILE|-", default="-", panel=TEXT, names=["--output", "-o"]
    ),
    input_format: str = option(
        "jsonl: objects with a field `source`; other fields are passed through.",
        "text|jsonl",
        default="text",
        panel=TEXT,
    ),
    output_format: str = option(
        "jsonl: with scores and tokens.",
        "text|jsonl",
        default="text",
        panel=TEXT,
        names=["--format"],
    ),
    *,
    prefix_file: str | None = option(
        "What each translation begins with, in whole words, line by line; empty for nothing.",
        "FILE",
        panel=TEXT,
        names=["--prefix"],
    ),
    decoding: DecodingOptions,
    n_best: int = option(
        "Translations per line; as text: LINE ||| TRANSLATION ||| SCORE.", default=1, panel=SEARCH
    ),
    constraints: ConstraintOptions,
    sampled: SampledOptions,
    aligned: AlignmentOptions,
) -> None:
    """Translate raw text line by line, preserving order and empty lines.

    Input from a pipe is streamed; on a terminal, you are prompted for lines.

    [bold]Examples[/bold]

        jtrans translate @last --input test.de --output test.hyp.en

        echo "Ein Mann liest ." | jtrans translate runs/a runs/b --n-best 3

        jtrans translate @last -i test.de --sample --beam 32 --epsilon 0.02 --mbr chrf
    """
    from jtrans.cli.line_input import LineInput, Prefixes
    from jtrans.runs import find_run

    check_choice("--input-format", input_format, FORMATS)
    check_choice("--format", output_format, FORMATS)
    opened = [find_run(name) for name in runs]
    as_json = output_format == "jsonl"
    extras = aligned.extras(sampling=sampled.sampling(), mbr=constraints.mbr, as_json=as_json)
    choices = decoding.choices(extras, nbest=n_best, **constraints.search())
    choices.check(opened)
    source = LineInput(input_file)
    prefixes = Prefixes.read(prefix_file, source.total)
    is_json = input_format == "jsonl"
    if source.lines is not None and is_json:
        _read_items(source.lines, 0, source.name, is_json=True)  # refuse bad lines at once
    from jtrans.decoding.translator import Translator

    translator = Translator.load(opened, choices)
    has_bar = output_file != "-" or not sys.stdout.isatty()
    counted = _Counted(source.total if has_bar else None)
    with open_output(output_file) as stream, _optional(aligned.alignments_file) as links:
        for lines in source.chunks():
            items = _read_items(lines, counted.lines, source.name, is_json=is_json)
            begin = prefixes.next(len(items)) if prefixes else None
            results = counted.translate(translator, [item.source for item in items], begin)
            _write(stream, items, results, as_json=as_json, n_best=n_best)
            if links:
                _write_alignments(links, results)
    if prefixes:
        prefixes.check_all_used()
    console.talk(counted.describe())
    if output_file != "-":
        console.next_step(f"jtrans score --hyp {shlex.quote(output_file)} --ref REFERENCE")


class _Counted(console.TerminalProgress):
    """Translates chunks and counts lines, tokens and time; the bar shows the whole file."""

    def __init__(self, total: int | None) -> None:
        super().__init__()
        self.total = total
        self.lines = self.tokens = 0
        self.seconds = 0.0

    def translate(
        self, translator: Translator, lines: Sequence[str], prefixes: Sequence[str] | None
    ) -> list[list[Translation]]:
        started = time.perf_counter()
        results = translator.translate_nbest(lines, progress=self, prefixes=prefixes)
        self.seconds += time.perf_counter() - started
        self.advance("", len(lines))
        self.lines += len(lines)
        self.tokens += sum(len(best[0].tokens) for best in results)
        return results

    def describe(self) -> str:
        seconds = max(self.seconds, 1e-9)
        return (
            f"{self.lines:,} lines, {self.tokens:,} tokens in {self.seconds:.1f} s: "
            f"{self.lines / seconds:,.1f} sentences/s, {self.tokens / seconds:,.0f} tokens/s"
        )

    def advance(self, task: str, done: int, total: int | None = None, *, unit: str = "") -> None:
        if self.total:
            super().advance("Translating", self.lines + done, self.total)


@dataclass(frozen=True)
class _Item:
    """One line to translate, with the other fields of its object."""

    number: int
    source: str
    fields: Mapping[str, Any]


def _read_items(lines: Sequence[str], before: int, name: str, *, is_json: bool) -> list[_Item]:
    if not is_json:
        return [_Item(before + i, line, {}) for i, line in enumerate(lines)]
    return [_json_item(line, before + i, name) for i, line in enumerate(lines)]


def _json_item(line: str, number: int, name: str) -> _Item:
    try:
        fields = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        fault = f"not valid JSON ({getattr(error, 'msg', 'too many brackets')})"
    else:
        if isinstance(fields, dict) and isinstance(fields.get("source"), str):
            return _Item(number, fields["source"], fields)
        fault = "not an object with a string field `source`"
    raise CorpusError(
        f"line {number + 1:,} of {name} is {fault}",
        where=f"{name}:{number + 1}",
        hint='each line must look like {"source": "Ein Mann liest ."}',
        kind="corpus.jsonl",
    )


@contextlib.contextmanager
def open_output(name: str) -> Iterator[TextIO]:
    """Open the output; a file appears complete or not at all."""
    if name == "-":
        yield sys.stdout
        return
    from jtrans.files import whole_file

    with (
        whole_file(Path(name)) as temporary,
        temporary.open("w", encoding="utf-8", newline="\n") as stream,
    ):
        yield stream


@contextlib.contextmanager
def _optional(name: str | None) -> Iterator[TextIO | None]:
    """Open an output that need not be there."""
    if name is None:
        yield None
        return
    with open_output(name) as stream:
        yield stream


def _write_alignments(stream: TextIO, results: Sequence[Sequence[Translation]]) -> None:
    for translations in results:
        for translation in translations:
            stream.write(f"{translation.alignment}\n")


def _write(
    stream: TextIO,
    items: Sequence[_Item],
    results: Sequence[Sequence[Translation]],
    *,
    as_json: bool,
    n_best: int,
) -> None:
    for item, translations in zip(items, results, strict=True):
        if as_json:
            stream.write(json.dumps(_to_json(item, translations), ensure_ascii=False) + "\n")
        elif n_best == 1:
            stream.write(translations[0].text + "\n")
        else:
            for translation in translations:
                stream.write(f"{item.number} ||| {translation.text} ||| {translation.score:.6f}\n")
    stream.flush()


def _to_json(item: _Item, translations: Sequence[Translation]) -> dict[str, Any]:
    entries = [
        {
            name: value
            for name, value in vars(translation).items()
            if name != "words" and value is not None
        }
        for translation in translations
    ]
    return {"id": item.number, "source": item.source, **item.fields, "translations": entries}
