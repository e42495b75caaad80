"""The work of `jtrans translate` once its options are checked."""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from jtrans.cli import console
from jtrans.cli.translate.lines import InputLine, read_object, to_object, until_refused
from jtrans.cli.translate.output import is_ordinary, locked, naming_its_output, open_output
from jtrans.errors import CorpusError, how_many
from jtrans.files import behind_links, lines_digest, remembered_digest

if TYPE_CHECKING:
    from jtrans.cli.translate.constraints import ConstraintFiles
    from jtrans.cli.translate.input import LineInput
    from jtrans.decoding.lines.translation import Translation
    from jtrans.decoding.options import Constraints, DecodingChoices
    from jtrans.decoding.parallel import TranslatedPiece
    from jtrans.decoding.partial_output import PartialOutput
    from jtrans.exports import Translatable

CHECKED_LINES = 1024  # of a file, which are checked together


@dataclass
class TranslationWork:
    """The lines to translate, the models, and the form of the output."""

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
        """Store the length of the whole input, so that a continued translation has equal pieces."""
        self.total = self.source.total

    def check_input(self) -> None:
        """Refuse bad lines and constraints in files before a model is loaded."""
        if not (self.is_json_input or self.files):
            return
        lines = self.source.lines or []
        for place in range(0, len(lines), CHECKED_LINES):
            first = self.source.first + place
            items, fault = self._items(lines[place : place + CHECKED_LINES], first)
            if fault:
                raise fault
            constraints = self.files.at(place, [item.constraints for item in items], first)
            if constraints is not None:
                self._check(constraints, first)

    def _check(self, constraints: Sequence[Constraints], first: int) -> None:
        """Refuse bad constraints; `first` is the number of their first line, from 0."""
        from jtrans.decoding.lines.constraints import ConstraintEncoder, check_search

        encoder = ConstraintEncoder(self.runs[0].pipeline.target)
        encoded = [encoder.encode(each, first + 1 + i) for i, each in enumerate(constraints)]
        options = self.choices.search_options(self.runs[0])
        check_search(encoded, options, self.choices.extras.sampling)

    def identity(self) -> dict[str, Any]:
        """Return everything that the output for a file depends on."""
        from jtrans.models.zoo import system_configs

        weights = [run.checkpoint(self.choices.checkpoint).weights for run in self.runs]
        models = [run.config(system_configs()).model for run in self.runs]
        return {
            "format": 2,
            "input": lines_digest(self.source.lines or []),
            "first": self.source.first,
            "constraints": self.files.digests(),
            "weights": [remembered_digest(path) for path in weights],
            "models": [model.model_dump(mode="json") for model in models],
            "pipelines": [run.pipeline.fingerprint() for run in self.runs],
            "search": asdict(self.choices.search_options(self.runs[0])),
            "extras": asdict(self.choices.extras),
            "precision": self.choices.precision,
            "output": [self.as_json, self.is_json_input],
        }

    def write(self, output: str, links: str | None) -> None:
        """Write all translations to a path or ``-``, and word alignments to `links` if given.

        From a file to files, an interrupted translation is continued.
        """
        names = {"--output": output, **({"--alignments-file": links} if links else {})}
        is_file = output != "-" and self.source.lines is not None
        if is_file and all(map(is_ordinary, names.values())):
            from jtrans.decoding.partial_output import PartialOutput

            files = {option: behind_links(Path(name)) for option, name in names.items()}
            with locked(files), PartialOutput([*files.values()], self.identity()) as partial:
                self._resume(partial)
            return
        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(open_output(name)) for name in names.values()]
            self._stream(list(names.values()), streams)

    def _resume(self, output: PartialOutput) -> None:
        """Translate what is not yet in the output."""
        done = output.lines
        if output.is_over:
            console.talk(
                f"starting {output.paths[0]} over, once there are lines to write: its input, "
                "options, .part or .part.json changed"
            )
        if done:
            console.talk(f"continuing {output.paths[0]} after {how_many(done, 'line')}")
            self.source.skip(done)
            self.files.skip(done)
        progress = TranslationProgress(self.source.total, has_bar=True)
        try:
            for lines, texts in self._texts(progress):
                output.append(texts[: len(output.paths)], lines)
        except (KeyboardInterrupt, SystemExit):  # SIGTERM and SIGHUP exit
            where = f"after {how_many(output.lines, 'line')}; the same command continues from there"
            console.talk(
                f"stopped {where if output.lines else 'before the first lines were written'}"
            )
            raise
        console.talk(progress.describe())

    def _stream(self, names: Sequence[str], streams: Sequence[TextIO]) -> None:
        """Write all translations to the first stream, word alignments to the second if given."""
        has_bar = streams[0] is not sys.stdout or not sys.stdout.isatty()
        progress = TranslationProgress(self.source.total, has_bar=has_bar)
        for _, texts in self._texts(progress):
            for name, stream, text in zip(names, streams, texts, strict=False):
                with naming_its_output(name):
                    stream.write(text)
                    stream.flush()
        self.files.check_all_used()
        console.talk(progress.describe())

    def _texts(self, progress: TranslationProgress) -> Iterator[tuple[int, tuple[str, str]]]:
        """Yield for each piece its number of lines, and translations and alignments as text."""
        from jtrans.decoding.parallel import Piece, piece_lines, translate_pieces

        size = piece_lines(self.choices, self.total, workers=self.workers, gpus=self.gpus)
        waiting: deque[list[InputLine]] = deque()

        def pieces() -> Iterator[Piece]:
            number = self.source.first
            for lines in self.source.chunks(size):
                reached, too_few = self.files.begin_of(lines)
                items, fault = self._items(reached, number)
                fault = fault or too_few
                if items:
                    waiting.append(items)
                    constraints = self.files.next([item.constraints for item in items], number)
                    yield Piece([item.source for item in items], constraints, number + 1)
                if fault:
                    raise fault
                number += len(items)

        with translate_pieces(
            self.runs,
            self.choices,
            pieces(),
            workers=self.workers,
            gpus=self.gpus,
            progress=progress,
        ) as results:
            for piece in results:
                items = waiting.popleft()
                progress.add(piece)
                rows = [*zip(items, piece.translations, strict=not piece.fault)]
                if rows:
                    lines = [f"{each.alignment}\n" for best in piece.translations for each in best]
                    yield len(rows), (self._text(rows), "".join(lines))
                if piece.fault:
                    raise piece.fault

    def _items(
        self, lines: Sequence[str], first: int
    ) -> tuple[list[InputLine], CorpusError | None]:
        """Parse lines up to one that is refused; return them and its error."""
        if not self.is_json_input:
            return [InputLine(first + i, line, {}, {}) for i, line in enumerate(lines)], None
        return until_refused(functools.partial(read_object, name=self.source.name), lines, first)

    def _text(self, rows: Sequence[tuple[InputLine, Sequence[Translation]]]) -> str:
        if self.as_json:
            return "".join(
                json.dumps(to_object(item, best), ensure_ascii=False) + "\n" for item, best in rows
            )
        if self.n_best == 1:
            return "".join(f"{best[0].text}\n" for _, best in rows)
        return "".join(
            f"{item.number} ||| {each.text} ||| {each.score:.6f}\n"
            for item, best in rows
            for each in best
        )


class TranslationProgress(console.TerminalProgress):
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
        """Return counts and rates, of the time spent translating, at most the time elapsed."""
        if not self.lines:
            return how_many(0, "line")
        seconds = max(min(self.seconds, time.perf_counter() - self._begin), 1e-9)
        return (
            f"{how_many(self.lines, 'line')}, {how_many(self.tokens, 'token')} in {seconds:.1f} s: "
            f"{self.lines / seconds:,.1f} sentences/s, {self.tokens / seconds:,.0f} tokens/s"
        )

    def advance(self, task: str, done: int, total: int | None = None, *, unit: str = "") -> None:
        """Move the bar of the whole file."""
        if self.total:
            super().advance("Translating", self.lines + done, self.total)
