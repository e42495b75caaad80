"""The log-probabilities that a run gives to translations, by forced decoding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtrans.analysis.study.aligned import aligned_lines
from jtrans.cli import console
from jtrans.decoding.lines.given import given_translations
from jtrans.decoding.lines.json_lines import source_texts
from jtrans.errors import lines_of

if TYPE_CHECKING:
    from jtrans.cli.score.options import ScoreOptions
    from jtrans.decoding.options import DecodingChoices
    from jtrans.runs import Run


def score_given(
    run: Run, decoding: DecodingChoices, options: ScoreOptions, *, as_json: bool
) -> None:
    """Print the log-probability of every given translation and of each of its tokens.

    Raises:
        JtransError: files that cannot be read or do not belong together, or a line that is too
            long.
    """
    names = [str(options.src), str(options.force)]
    source_lines, lines = aligned_lines(names)
    sources = source_texts(source_lines, names[0])
    given = given_translations(lines, names[1])
    decoding.check([run])
    from jtrans.decoding.translator import Translator  # which loads torch

    translator = Translator.load([run], decoding)
    of_each = [sources[each.line] for each in given]
    with lines_of(*names):
        scored = translator.teacher_forced_scores(of_each, given, console.TerminalProgress())
    has_ranks = len(given) > len(lines)  # rows have a line number and rank only if needed
    places = [[each.line, each.rank] if has_ranks else [each.line] for each in given]
    if as_json:
        sentences = [
            {
                **dict(zip(("id", "rank"), place, strict=False)),
                "log_prob": sum(sentence.token_log_probs, 0.0),
                "tokens": sentence.tokens,
                "token_log_probs": sentence.token_log_probs,
            }
            for place, sentence in zip(places, scored, strict=True)
        ]
        console.print_json({"sentences": sentences})
        return
    for place, sentence in zip(places, scored, strict=True):
        pairs = zip(sentence.tokens, sentence.token_log_probs, strict=True)
        tokens = " ".join(f"{token}:{value:.4f}" for token, value in pairs)
        begin = "".join(f"{number}\t" for number in place) if has_ranks else ""
        print(f"{begin}{sum(sentence.token_log_probs):.4f}\t{tokens}")
