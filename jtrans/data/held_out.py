"""The valid split of a corpus that has none: every so manieth pair that cleaning keeps."""

from __future__ import annotations

from dataclasses import replace

from jtrans.corpora.clean import clean, hold_out
from jtrans.corpora.parallel import Corpus, ParallelText
from jtrans.data.prepare_options import PrepareOptions
from jtrans.data.segmenting import available_cpus, segment_texts
from jtrans.progress import Progress
from jtrans.text.pipeline import TextSide


def take_valid(
    corpus: Corpus, options: PrepareOptions, *, workers: int | None, progress: Progress
) -> Corpus:
    """Move every `corpus.valid_every`-th clean training pair into a valid split.

    What cleaning drops stays in train: it is dropped, and counted, when train is cleaned.

    Raises:
        WorkError: a worker process died.
    """
    if corpus.valid_every is None:
        return corpus
    train = corpus.splits["train"]
    sides = (
        TextSide(corpus.languages[0], options.source_segment, options.lowercase),
        TextSide(corpus.languages[1], options.target_segment, options.lowercase),
    )
    source, target = segment_texts(
        [(sides[0], train.source), (sides[1], train.target)],
        workers=workers or available_cpus(),
        progress=progress,
    )
    _, valid = hold_out(
        clean(source, target, rules=options.rules, languages=corpus.languages).kept,
        corpus.valid_every,
    )
    chosen = set(valid)
    rest = [i for i in range(len(train)) if i not in chosen]
    origin = (f"1 of {corpus.valid_every} clean pairs of train",)
    splits = {
        "train": _part(train, rest, train.origin),
        "valid": _part(train, valid, origin),
        **{name: text for name, text in corpus.splits.items() if name != "train"},
    }
    return replace(corpus, splits=splits, valid_every=None)


def _part(text: ParallelText, positions: list[int], origin: tuple[str, ...]) -> ParallelText:
    return ParallelText(
        [text.source[i] for i in positions], [text.target[i] for i in positions], origin
    )
