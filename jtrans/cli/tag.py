"""`jtrans tag`: parts of speech and entities of raw source text."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jtrans.cli import console
from jtrans.cli.options import (
    BATCH_TOKENS,
    CHECKPOINT,
    DEVICE,
    PRECISION,
    argument,
    check_choice,
    grouped,
    option,
)
from jtrans.errors import how_many, lines_of

if TYPE_CHECKING:
    from jtrans.decoding.tagging import TaggedLine

TEXT = "Text"
FORMATS = ("text", "conllu", "jsonl")


@grouped()
def tag(
    run: str = argument("RUN", "A run trained with labels, of a system with tagging heads."),
    input_file: str = option(
        "Text to tag, in the source language of the run.",
        "FILE|-",
        default="-",
        panel=TEXT,
        names=["--input", "-i"],
    ),
    output_file: str = option(
        "File for the tags.", "FILE|-", default="-", panel=TEXT, names=["--output", "-o"]
    ),
    output_format: str = option(
        "text: word/TAG, or word/TAG/ENTITY; conllu: for jtrans prepare --labels conllu:FILE.",
        "text|conllu|jsonl",
        default="text",
        panel=TEXT,
        names=["--format"],
    ),
    *,
    checkpoint: str = CHECKPOINT,
    batch_tokens: int | None = BATCH_TOKENS,
    device: str | None = DEVICE,
    precision: str = PRECISION,
) -> None:
    """Tag raw source text with parts of speech and entities, preserving order and empty lines.

    Input from a pipe is streamed; on a terminal, you are prompted for lines.
    Words are those of the run's segmenter.
    Systems with tagging heads: jtrans models

    [bold]Examples[/bold]

    echo "Anna liest ein Buch ." | jtrans tag @last

    jtrans tag runs/tagger --input train.en --format conllu --output train.conllu
    """
    from jtrans.cli.translate.input import LineInput, check_outputs
    from jtrans.cli.translate.output import open_output
    from jtrans.runs import find_run

    check_choice("--format", output_format, FORMATS)
    check_outputs([("--input", input_file)], {"--output": output_file})
    opened = find_run(run, with_checkpoint=True)
    opened.checkpoint(checkpoint)
    source = LineInput(input_file)
    from jtrans.decoding.options import DecodingChoices
    from jtrans.decoding.tagging import Tagger

    choices = DecodingChoices(checkpoint, device, precision, batch_tokens=batch_tokens)
    tagger = Tagger.load(opened, choices)
    lines = words = 0
    started = time.perf_counter()
    with open_output(output_file) as stream:
        for chunk in source.chunks():
            with lines_of(source.name):
                results = tagger.tag(chunk, first_line=lines + 1)
            for text, tagged in zip(chunk, results, strict=True):
                stream.write(_shown(lines, text, tagged, output_format))
                lines += 1
                words += len(tagged.words)
            stream.flush()
    seconds = max(time.perf_counter() - started, 1e-9)
    console.talk(
        f"{how_many(lines, 'line')}, {how_many(words, 'word')} in {seconds:.1f} s: "
        f"{words / seconds:,.0f} words/s"
    )


def _shown(number: int, text: str, tagged: TaggedLine, output_format: str) -> str:
    if output_format == "text":
        return " ".join("/".join(row) for row in _rows(tagged)) + "\n"
    if output_format == "jsonl":
        fields = {"id": number, "source": text, "words": tagged.words, **tagged.labels}
        return json.dumps(fields, ensure_ascii=False) + "\n"
    return _conllu(number, text, tagged)


def _conllu(number: int, text: str, tagged: TaggedLine) -> str:
    """Return a sentence of CoNLL-U; an empty line has no words."""
    rows = [f"# sent_id = {number + 1}", f"# text = {text}"]
    tags = tagged.labels.get("pos", ["_"] * len(tagged.words))
    entities = tagged.labels.get("ner")
    for place, (word, label) in enumerate(zip(tagged.words, tags, strict=True)):
        misc = "_" if entities is None else f"NER={entities[place]}"
        rows.append("\t".join([str(place + 1), word, "_", label, *"_____", misc]))
    return "\n".join(rows) + "\n\n"


def _rows(tagged: TaggedLine) -> Iterator[tuple[str, ...]]:
    """Yield each word with its labels, the part of speech first."""
    kinds = [tagged.labels[kind] for kind in ("pos", "ner") if kind in tagged.labels]
    yield from zip(tagged.words, *kinds, strict=True)
