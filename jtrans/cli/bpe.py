"""`jtrans bpe`: learn and apply byte pair encoding on plain files, as subword-nmt does."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from pathlib import Path

from jtrans.cli import console
from jtrans.cli.options import CheckedCommand, command_group, option
from jtrans.errors import CorpusError, how_many

bpe = command_group(
    "bpe",
    "Learn and apply byte pair encoding on plain files, as subword-nmt does.",
    "jtrans bpe learn --merges 10000 --input a.de --input a.en --output codes",
    "jtrans bpe apply --codes codes < a.de > a.bpe.de",
)


@bpe.command(cls=CheckedCommand)
def learn(
    merges: int = option("Number of merges to learn.", default=..., min=1),
    inputs: list[Path] = option(
        "UTF-8 text with spaces between words, also .gz, .xz or .zst; repeatable, for joint BPE.",
        "FILE",
        default=...,
        names=["--input"],
    ),
    output: str = option("File to write; -: standard output.", "CODES", default=...),
    min_frequency: int = option("Stop at pairs rarer than this.", default=2, min=1),
) -> None:
    """Learn the merges of one text, or of several together (joint BPE).

    [bold]Examples[/bold]

    jtrans bpe learn --merges 10000 --input a.de --input a.en --output codes

    jtrans bpe learn --merges 4000 --min-frequency 5 --input a.de --output codes
    """
    from jtrans.cli.translate.input import check_outputs
    from jtrans.cli.translate.output import open_output
    from jtrans.files.packed import fed_to, without_packing
    from jtrans.text.bpe import count_file, count_merges
    from jtrans.text.bpe import learn as learn_merges

    check_outputs([("--input", str(path)) for path in inputs], {"--output": output})
    counts: list[Counter[str]] = [count_file(path) for path in inputs]
    try:
        codes = learn_merges(counts, merges, min_frequency=min_frequency)
    except CorpusError as error:  # its hint names the options of `jtrans prepare`
        hint = "give more text with words: --input can be repeated"
        if error.kind == "corpus.too-small" and min_frequency > 1:
            hint = "give more text (--input can be repeated), or lower --min-frequency"
        raise CorpusError(error.message, hint=hint, kind=error.kind) from error
    with open_output(output) as stream:
        stream.write(codes)
    learned = count_merges(codes)
    words = sum(count.total() for count in counts)
    console.say("BPE", f"{how_many(learned, 'merge')} learned from {how_many(words, 'word')}")
    if learned < merges:
        console.warn(
            f"only {learned:,} of {merges:,} merges learned: all further pairs "
            f"occur fewer than {how_many(min_frequency, 'time')} (--min-frequency)"
        )
    if output == "-":
        return
    console.say("Written", output)
    split = shlex.quote(f"{without_packing(str(inputs[0]))}.bpe")
    apply_codes = f"jtrans bpe apply --codes {shlex.quote(output)}"
    console.next_step(f"{fed_to(apply_codes, inputs[0])} > {split}")


@bpe.command(cls=CheckedCommand)
def apply(codes: Path = option("File of learned merges.", "CODES", default=...)) -> None:
    """Split the words of standard input into subwords, on standard output.

    A subword that is not the last of its word ends in @@.

    [bold]Examples[/bold]

    jtrans bpe apply --codes codes < a.de > a.bpe.de

    echo "ein Haus am Meer" | jtrans bpe apply --codes codes
    """
    from jtrans.text.bpe import Bpe, read_codes, text_lines

    bpe_codes = Bpe(read_codes(codes))
    for line in text_lines(sys.stdin.buffer, "standard input"):
        sys.stdout.write(bpe_codes.apply(line))
    sys.stdout.flush()
