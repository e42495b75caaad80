"""JSON lines: one object per line, with both sides of a pair."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jtrans.corpora.formats.sides import named_sides
from jtrans.corpora.lines import LineFile, notes_of, one_line
from jtrans.corpora.parallel import ParallelText
from jtrans.errors import CorpusError

# Why a line is left out, by the kind of its error.
BAD = {
    "corpus.jsonl": "no JSON pair",
    "corpus.surrogate": "half a character",
    "corpus.binary": "zero byte",
}
# Lone surrogates (the JSON parser joins pairs) and the zero byte.
_NO_CHARACTER = re.compile(r"[\0\ud800-\udfff]")
# Python refuses integers of more than 4,300 digits, but not such floats.
_DECODER = json.JSONDecoder(parse_int=float)


def read_jsonl(path: Path, languages: tuple[str, str], *, skips_bad: bool = False) -> ParallelText:
    """Read a file of JSON lines.

    An object holds both texts by language, `{"de": "...", "en": "..."}`, with any region and in any
    case, or as "source" and "target" or "src" and "tgt"; a "translation" object may wrap them.
    Other fields and blank lines are ignored. If `skips_bad`, bad lines are left out and counted.

    Raises:
        CorpusError: the file cannot be read, is empty, or has a line without a pair.
    """
    source: list[str] = []
    target: list[str] = []
    lines = LineFile(path, skips_bad=skips_bad)
    notes, skipped = notes_of([lines]), Counter(lines.bad.values())
    for number, line in enumerate(lines, start=1):
        if not line.strip() or number - 1 in lines.bad:
            continue
        try:
            pair = _pair(path, number, line, languages)
        except CorpusError as error:
            if not skips_bad:
                raise
            skipped[BAD[str(error.kind)]] += 1
            continue
        if joined := sum("\n" in text for text in pair):
            notes["line feed inside a text"] = notes.get("line feed inside a text", 0) + joined
        source.append(one_line(pair[0]))
        target.append(one_line(pair[1]))
    if not source:
        raise CorpusError(f"{path} holds no pairs", hint=_example(languages), kind="corpus.empty")
    return ParallelText(source, target, (str(path),), notes=notes, skipped=skipped)


def _pair(path: Path, number: int, line: str, languages: tuple[str, str]) -> tuple[str, str]:
    try:
        value: Any = _DECODER.decode(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise _refused(path, number, f"invalid JSON ({error})", languages) from error
    if isinstance(value, Mapping) and isinstance(value.get("translation"), Mapping):
        value = value["translation"]
    if isinstance(value, Mapping):
        texts = list(value.values())
        for sides in named_sides(tuple(value), languages):
            source, target = (texts[side] for side in sides)
            if isinstance(source, str) and isinstance(target, str):
                _check_characters(path, number, source, target)
                return source, target
    raise _refused(path, number, "no object with both sides", languages)


def _check_characters(path: Path, number: int, *texts: str) -> None:
    """Refuse zero bytes and lone surrogates, which JSON can hold."""
    for text in texts:
        if match := _NO_CHARACTER.search(text):
            code = f"\\u{ord(match[0]):04x}"
            is_zero = match[0] == "\0"
            problem = "a zero byte" if is_zero else "half a character"
            way_out = "" if is_zero else "write both halves of the character, or "
            raise CorpusError(
                f"{path} has {problem} ({code}) in line {number:,}",
                where=f"{path}:{number}",
                hint=f"{way_out}delete {code}",
                kind="corpus.binary" if is_zero else "corpus.surrogate",
            )


def _example(languages: tuple[str, str]) -> str:
    return f'each line must look like {{"{languages[0]}": "...", "{languages[1]}": "..."}}'


def _refused(path: Path, number: int, problem: str, languages: tuple[str, str]) -> CorpusError:
    return CorpusError(
        f"{path} has {problem} in line {number:,}",
        where=f"{path}:{number}",
        hint=_example(languages),
        kind="corpus.jsonl",
    )
