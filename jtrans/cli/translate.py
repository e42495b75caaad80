"""`jtrans translate`: raw text in, raw text out."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import shlex
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from jtrans.cli import console
from jtrans.cli.options import (
    MACHINE,
    SEARCH,
    DecodingOptions,
    argument,
    check_choice,
    grouped,
    option,
)
from jtrans.cli.translate_options import (
    AlignmentOptions,
    CheckOptions,
    ConstraintOptions,
    DemandOptions,
    ProcessOptions,
    SampledOptions,
)
from jtrans.errors import CorpusError, JtransError

if TYPE_CHECKING:
    from jtrans.cli.line_constraints import ConstraintFiles
    from jtrans.cli.line_input import LineInput
    from jtrans.decoding.lines.constraints import Constraints
    from jtrans.decoding.lines.translation import Translation
    from jtrans.decoding.options import DecodingChoices
    from jtrans.decoding.parallel import TranslatedPiece
    from jtrans.decoding.partial_output import PartialOutput
    from jtrans.exports import Translatable

TEXT = "Text"
PIECE_LINES = 1024  # of a file: sorted by length, and written, together
FORMATS = ("text", "jsonl")
ENGINES = ("torch", "ctranslate2")


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
        "jsonl: objects with a field `source`, perhaps `prefix`, `prefix_tokens`, `phrases`, "
        "`forbidden`; other fields are passed through.",
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
    shard: str | None = option(
        "Only part K of N parts of the input file, for several machines; cat joins the outputs.",
        "K/N",
        panel=TEXT,
    ),
    decoding: DecodingOptions,
    n_best: int = option(
        "Translations per line; as text: LINE ||| TRANSLATION ||| SCORE.", default=1, panel=SEARCH
    ),
    constraints: ConstraintOptions,
    demands: DemandOptions,
    sampled: SampledOptions,
    aligned: AlignmentOptions,
    checked: CheckOptions,
    processes: ProcessOptions,
    engine: str = option(
        "ctranslate2: with an export of the run (jtrans export).",
        "torch|ctranslate2",
        default="torch",
        panel=MACHINE,
    ),
) -> None:
    """Translate raw text line by line, preserving order and empty lines.

    Input from a pipe is streamed; on a terminal, you are prompted for lines.
    From a file to a file, the same command continues an interrupted translation.

    [bold]Examples[/bold]

    jtrans translate @last --input test.de --output test.hyp.en --workers 2

    echo "Ein Mann liest ." | jtrans translate runs/a runs/b --n-best 3

    jtrans translate @last -i test.de --phrases terms.en --beam 10

    jtrans translate @last -i test.de --sample --beam 32 --epsilon 0.02 --mbr chrf
    """
    from jtrans.cli.line_input import FilePart, LineInput, check_outputs
    from jtrans.decoding.engines.ctranslate2_options import check_engine
    from jtrans.exports import find_models

    check_choice("--input-format", input_format, FORMATS)
    check_choice("--format", output_format, FORMATS)
    check_choice("--engine", engine, ENGINES)
    check_outputs(
        {"--input": input_file, **demands.files()},
        {"--output": output_file, "--alignments-file": aligned.alignments_file},
    )
    is_translating = bool(shard) or (input_file, output_file) != ("-", "-")
    checked.refuse_unused(is_translating=is_translating)
    opened = find_models(runs, engine)
    as_json = output_format == "jsonl"
    extras = aligned.extras(sampling=sampled.sampling(), mbr=constraints.mbr, as_json=as_json)
    choices = decoding.choices(extras, nbest=n_best, **constraints.search())
    choices = replace(choices, scores=as_json or n_best > 1)
    choices.check(opened)
    check_engine(opened, choices)
    if checked.check:
        checked.compare(opened, choices)
        return
    gpus = processes.devices(decoding.device)
    source = LineInput(input_file)
    files = demands.read(source.total)
    if shard:
        files.keep(source.take_shard(FilePart.parse(shard)))
    work = _Work(
        opened,
        choices,
        source,
        files,
        is_json_input=input_format == "jsonl",
        as_json=as_json,
        n_best=n_best,
        # several processes take further lines before the first answer
        workers=1 if source.is_prompt else processes.workers,
        gpus=gpus,
    )
    work.check_input()
    links = aligned.alignments_file
    names = [output_file, *([links] if links else [])]
    if output_file != "-" and source.lines is not None and all(map(_is_ordinary, names)):
        from jtrans.decoding.partial_output import PartialOutput
        from jtrans.files import exclusive

        paths = [Path(name) for name in names]
        lock = paths[0].with_name(f"{paths[0].name}.lock.json")
        with (
            exclusive(lock, functools.partial(_busy, paths[0])),
            PartialOutput(paths, work.identity()) as output,
        ):
            work.resume(output)
    else:
        with open_output(output_file) as stream, _optional(links) as link_stream:
            work.run([stream, *([link_stream] if link_stream else [])])
    if output_file != "-":
        console.next_step(f"jtrans score --hyp {shlex.quote(output_file)} --ref REFERENCE")


@dataclass
class _Work:
    """Everything to be translated, and how."""

    runs: Sequence[Translatable]
    choices: DecodingChoices
    source: LineInput
    files: ConstraintFiles
    is_json_input: bool
    as_json: bool
    n_best: int
    workers: int
    gpus: Sequence[str]

    def __post_init__(self) -> None:
        """Divide the input, also for an attempt that continues: other batches round otherwise."""
        self.piece_lines = self._piece_lines()

    def check_input(self) -> None:
        """Refuse bad lines and constraints of a file before a model is loaded."""
        if not (self.is_json_input or self.files):
            return
        lines = self.source.lines or []
        for place in range(0, len(lines), PIECE_LINES):
            first = self.source.first + place
            items = self._items(lines[place : place + PIECE_LINES], first)
            constraints = self.files.at(place, [item.constraints for item in items], first)
            if constraints is not None:
                self._check(constraints, first)

    def _check(self, constraints: Sequence[Constraints], first: int) -> None:
        """Refuse bad constraints of some lines; the number of the first is counted from 0."""
        from jtrans.decoding.lines.constraints import ConstraintEncoder, check_search

        encoder = ConstraintEncoder(self.runs[0].pipeline.target)
        encoded = [encoder.encode(own, first + 1 + i) for i, own in enumerate(constraints)]
        options = self.choices.search_options(self.runs[0])
        check_search(encoded, options, self.choices.extras.sampling)

    def identity(self) -> dict[str, Any]:
        """Return everything that the output of a file depends on."""
        from jtrans.files import file_digest, lines_digest

        weights = [run.checkpoint(self.choices.checkpoint).weights for run in self.runs]
        return {
            "format": 1,
            "input": lines_digest(self.source.lines or []),
            "first": self.source.first,
            "constraints": self.files.digests(),
            "weights": [file_digest(path) for path in weights],
            "search": asdict(self.choices.search_options(self.runs[0])),
            "extras": asdict(self.choices.extras),
            "precision": self.choices.precision,
            "output": [self.as_json, self.is_json_input],
        }

    def resume(self, output: PartialOutput) -> None:
        """Translate what is not yet in the output."""
        done = output.lines
        if done:
            console.talk(f"continuing {output.paths[0]} after {done:,} lines")
            self.source.skip(done)
            self.files.skip(done)
        counted = _Counted(self.source.total, has_bar=True)
        try:
            for lines, texts in self._texts(counted):
                output.append(texts[: len(output.paths)], lines)
        except KeyboardInterrupt:
            if output.lines:
                console.talk(f"{output.lines:,} lines are done: the same command does the rest")
            raise
        console.talk(counted.describe())

    def run(self, streams: Sequence[TextIO]) -> None:
        """Translate everything to streams: the translations, and perhaps word alignments."""
        has_bar = streams[0] is not sys.stdout or not sys.stdout.isatty()
        counted = _Counted(self.source.total, has_bar=has_bar)
        for _, texts in self._texts(counted):
            for stream, text in zip(streams, texts, strict=False):
                stream.write(text)
                stream.flush()
        self.files.check_all_used()
        console.talk(counted.describe())

    def _texts(self, counted: _Counted) -> Iterator[tuple[int, tuple[str, str]]]:
        """Yield the lines of each piece, their translations and their alignments as text."""
        from jtrans.decoding.parallel import Piece, translate_pieces

        waiting: deque[list[_Item]] = deque()

        def pieces() -> Iterator[Piece]:
            number = self.source.first
            for lines in self.source.chunks(self.piece_lines):
                items = self._items(lines, number)
                waiting.append(items)
                constraints = self.files.next([item.constraints for item in items], number)
                yield Piece([item.source for item in items], constraints, number + 1)
                number += len(items)

        with translate_pieces(
            self.runs,
            self.choices,
            pieces(),
            workers=self.workers,
            gpus=self.gpus,
            progress=counted,
        ) as results:
            for piece in results:
                items = waiting.popleft()
                counted.add(piece)
                rows = [*zip(items, piece.translations, strict=True)]
                yield len(items), (self._text(rows), _alignments(piece.translations))

    def _piece_lines(self) -> int:
        """Return the lines of a piece of a file, so that all workers have pieces."""
        workers = max(self.workers, len(self.gpus))
        if workers == 1 or self.source.total is None:
            return PIECE_LINES
        return min(PIECE_LINES, max(32, self.source.total // (4 * workers)))

    def _items(self, lines: Sequence[str], first: int) -> list[_Item]:
        if not self.is_json_input:
            return [_Item(first + i, line, {}, {}) for i, line in enumerate(lines)]
        return [_json_item(line, first + i, self.source.name) for i, line in enumerate(lines)]

    def _text(self, rows: Sequence[tuple[_Item, Sequence[Translation]]]) -> str:
        if self.as_json:
            return "".join(
                json.dumps(_to_json(item, own), ensure_ascii=False) + "\n" for item, own in rows
            )
        if self.n_best == 1:
            return "".join(f"{own[0].text}\n" for _, own in rows)
        return "".join(
            f"{item.number} ||| {each.text} ||| {each.score:.6f}\n"
            for item, own in rows
            for each in own
        )


class _Counted(console.TerminalProgress):
    """Counts lines, tokens and time; the bar shows the whole file."""

    def __init__(self, total: int | None, *, has_bar: bool) -> None:
        super().__init__()
        self.total = total if has_bar else None
        self.lines = self.tokens = 0
        self._begin = time.perf_counter()
        self.seconds = 0.0

    def add(self, piece: TranslatedPiece) -> None:
        """Count a piece that is done."""
        for text in piece.warnings:
            self.warn(text)
        self.advance("", len(piece.translations))
        self.lines += len(piece.translations)
        self.tokens += sum(len(best[0].tokens) for best in piece.translations)
        self.seconds += piece.seconds

    def describe(self) -> str:
        """Return the counts and rates: of the time spent translating, or of several processes."""
        seconds = max(min(self.seconds, time.perf_counter() - self._begin), 1e-9)
        lines = f"{self.lines:,} line{'s' * (self.lines != 1)}"
        return (
            f"{lines}, {self.tokens:,} tokens in {seconds:.1f} s: "
            f"{self.lines / seconds:,.1f} sentences/s, {self.tokens / seconds:,.0f} tokens/s"
        )

    def advance(self, task: str, done: int, total: int | None = None, *, unit: str = "") -> None:
        """Move the bar of the whole file."""
        if self.total:
            super().advance("Translating", self.lines + done, self.total)


@dataclass(frozen=True)
class _Item:
    """One line to translate, with the fields of its object and the constraints among them."""

    number: int
    source: str
    fields: Mapping[str, Any]
    constraints: Mapping[str, Any]


def _json_item(line: str, number: int, name: str) -> _Item:
    from jtrans.cli.line_constraints import constraint_fields

    try:
        fields = json.loads(line, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        fault = "not valid JSON (too many brackets)"
    except ValueError as error:  # of JSON, or of an integer with thousands of digits
        fault = f"not valid JSON ({getattr(error, 'msg', 'NaN, Infinity or too large a number')})"
    else:
        fault = "not an object with a string field `source`"
        if "\\ud" in line.lower() and not _is_unicode(fields):
            fault = "not text: half of a pair of escapes \\ud800 to \\udfff"
        elif isinstance(fields, dict) and isinstance(fields.get("source"), str):
            try:
                if "\0" in fields["source"]:
                    raise ValueError("not text: zero byte in its field `source`")
                return _Item(number, fields["source"], fields, constraint_fields(fields))
            except ValueError as error:
                fault = str(error)
    raise CorpusError(
        f"line {number + 1:,} of {name} is {fault}",
        where=f"{name}:{number + 1}",
        hint='each line must look like {"source": "Ein Mann liest ."}',
        kind="corpus.jsonl",
    )


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(number)
    return value


def _is_unicode(fields: Any) -> bool:
    """Whether an object can be written as UTF-8."""
    try:
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


@contextlib.contextmanager
def open_output(name: str) -> Iterator[TextIO]:
    """Open the output; a file appears complete or not at all."""
    if name == "-":
        yield sys.stdout
        return
    if not _is_ordinary(name):
        from jtrans.files import disk_errors

        with (
            disk_errors(Path(name)),
            Path(name).open("w", encoding="utf-8", newline="\n") as stream,
        ):
            yield stream
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


def _busy(path: Path, owner: str) -> JtransError:
    return JtransError(
        f"{path} is being written by {owner}",
        where="--output",
        hint="wait for it, or give another --output",
        kind="disk.busy",
    )


def _is_ordinary(name: str) -> bool:
    """Whether a path is free or a plain file, not a device, a named pipe or a link.

    `/dev/stdout` is a link, perhaps to a plain file, whose place no other file must take.
    """
    path = Path(name)
    return not path.is_symlink() and (path.is_file() or not path.exists())


def _alignments(translations: Sequence[Sequence[Translation]]) -> str:
    return "".join(f"{each.alignment}\n" for own in translations for each in own)


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
