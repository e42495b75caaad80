"""From parallel text to a prepared corpus: segment, clean, learn BPE and vocabularies, encode.

Everything that can be wrong with the input is found before anything is written, and the folder
appears only when it is complete. A rerun with the same text and options changes nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from jtrans import __version__
from jtrans.corpora.clean import Cleaning, clean
from jtrans.corpora.parallel import Corpus, ParallelText
from jtrans.data.encoding import (
    EncodedSide,
    count_words,
    encode_lines,
    learn_codes,
    learn_vocabularies,
)
from jtrans.data.prepare_options import PrepareOptions
from jtrans.data.prepared import FORMAT, SIDES, PreparedCorpus, read_info
from jtrans.data.segmenting import available_cpus, segment_texts
from jtrans.data.writing import PreparedSplit, write_corpus
from jtrans.errors import CorpusError
from jtrans.progress import Progress, Silent
from jtrans.text.bpe import count_merges
from jtrans.text.pipeline import TextPipeline, TextSide

# A larger share of dropped training pairs deserves a warning.
MANY_DROPPED = 0.2

# Segmented, or encoded, source and target of each split.
Words = dict[str, tuple[list[str], list[str]]]
Ids = dict[str, tuple[EncodedSide, EncodedSide]]


def prepare(
    corpus: Corpus,
    folder: Path,
    *,
    options: PrepareOptions | None = None,
    workers: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> PreparedCorpus:
    """Make the prepared corpus `folder` from parallel text.

    Args:
        corpus: the text; needs the splits train and valid.
        folder: where to put it. The same text prepared with the same options stays as it is.
        options: how to prepare it.
        workers: processes that segment; None takes as many as there are processors.
        force: whether another prepared corpus in `folder` is replaced.
        progress: hears of each step.

    Raises:
        CorpusError: text or folder cannot be used; nothing was written.
        WorkError: the disk is full.
    """
    options = options or PrepareOptions()
    progress = progress or Silent()
    sides = (
        TextSide(corpus.languages[0], options.source_segment, options.lowercase),
        TextSide(corpus.languages[1], options.target_segment, options.lowercase),
    )
    request = _request(corpus, options, sides)
    counts = (f"{name} {len(text):,}" for name, text in corpus.splits.items())
    progress.say("Reading", " · ".join(counts))
    if _is_up_to_date(folder, request, force=force):
        progress.say("Unchanged", f"{folder} holds this text prepared with these options")
        return PreparedCorpus.open(folder)
    _make(corpus, folder, request, sides, options, workers or available_cpus(), progress)
    progress.say("Written", str(folder))
    return PreparedCorpus.open(folder)


def _make(
    corpus: Corpus,
    folder: Path,
    request: Mapping[str, Any],
    sides: tuple[TextSide, TextSide],
    options: PrepareOptions,
    workers: int,
    progress: Progress,
) -> None:
    words, cleaning = _segment_and_clean(corpus, sides, options, workers, progress)
    pipeline = _learn(sides, words["train"], options, progress)
    ids: Ids = {
        name: (encode_lines(pipeline.source, pair[0]), encode_lines(pipeline.target, pair[1]))
        for name, pair in words.items()
    }
    _say_encoding(ids, progress)
    splits = {
        name: _split_to_write(name, text, words[name], ids[name], cleaning, progress)
        for name, text in corpus.splits.items()
    }
    info = _info(corpus.name, request, pipeline, ids, cleaning)
    write_corpus(folder, pipeline=pipeline, splits=splits, info=info)


def _request(
    corpus: Corpus, options: PrepareOptions, sides: tuple[TextSide, TextSide]
) -> dict[str, Any]:
    """Return what decides the result, the text and the options, as corpus.json keeps it."""
    for name in ("train", "valid"):
        if not len(corpus.splits.get(name, ())):
            raise CorpusError(f"the corpus {corpus.name} has no {name} text", kind="corpus.empty")
    resolved = replace(
        options, source_segment=sides[0].segmenter, target_segment=sides[1].segmenter
    )
    return {
        "languages": list(corpus.languages),
        "options": asdict(resolved),
        "splits": {
            name: {"origin": list(text.origin), "lines": len(text), "sha256": text.sha256()}
            for name, text in corpus.splits.items()
        },
    }


def _is_up_to_date(folder: Path, request: Mapping[str, Any], *, force: bool) -> bool:
    """Say whether `folder` holds the requested corpus already, whole and readable.

    Raises:
        CorpusError: it holds something else.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        _check_place(folder)
        return False
    if not (folder / "corpus.json").is_file():
        # --force must not replace a folder of other things either
        raise CorpusError(
            f"{folder} exists and is no prepared corpus",
            hint="choose another --out",
            kind="corpus.not-ours",
        )
    if force:
        return False
    changes = _changes(read_info(folder), request)
    if changes:
        raise CorpusError(
            f"{folder} holds another prepared corpus: different {' and '.join(changes)}",
            hint="replace it with --force, or choose another --out",
            kind="corpus.exists",
        )
    corpus = PreparedCorpus.open(folder)
    for name in corpus.splits:
        corpus.pairs(name)
    return True


def _check_place(folder: Path) -> None:
    """Refuse a place that cannot be written before the work, not after it."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK):
        problem = "no permission to write" if place.is_dir() else "not a folder:"
        raise CorpusError(
            f"cannot make {folder}: {problem} {place}",
            hint="choose another --out",
            kind="corpus.place",
        )


def _changes(info: Mapping[str, Any], request: Mapping[str, Any]) -> list[str]:
    changes = [] if info["languages"] == request["languages"] else ["languages"]
    text = [
        {name: split["sha256"] for name, split in made["splits"].items()}
        for made in (info, request)
    ]
    if text[0] != text[1]:
        changes.append("text")
    before, now = info["options"], request["options"]
    return changes + [
        f"{name} ({before.get(name)}, now {value})"
        for name, value in now.items()
        if before.get(name) != value
    ]


def _segment_and_clean(
    corpus: Corpus,
    sides: tuple[TextSide, TextSide],
    options: PrepareOptions,
    workers: int,
    progress: Progress,
) -> tuple[Words, Cleaning]:
    """Segment all splits and clean train."""
    started = time.monotonic()
    texts = corpus.splits.values()
    jobs = [(sides[0], text.source) for text in texts] + [(sides[1], text.target) for text in texts]
    lines = segment_texts(jobs, workers=workers, progress=progress)
    seconds = time.monotonic() - started
    half = len(corpus.splits)
    words = {name: (lines[i], lines[half + i]) for i, name in enumerate(corpus.splits)}
    held_out = [
        pair for name, text in words.items() if name != "train" for pair in zip(*text, strict=True)
    ]
    cleaning = clean(*words["train"], rules=options.rules, held_out=held_out)
    _check_cleaning(words, cleaning, options, progress)
    source, target = words["train"]
    words["train"] = ([source[i] for i in cleaning.kept], [target[i] for i in cleaning.kept])
    case = "lowercase" if options.lowercase else "cased"
    named = ", ".join(f"{side.segmenter} {side.language}" for side in sides)
    progress.say("Segmenting", _timed(f"{named}, {case}", seconds))
    return words, cleaning


def _check_cleaning(
    words: Words, cleaning: Cleaning, options: PrepareOptions, progress: Progress
) -> None:
    """Say what was dropped and why; refuse a corpus with nothing left."""
    reasons = " · ".join(f"{reason} {count:,}" for reason, count in cleaning.dropped.items())
    if not cleaning.kept:
        raise CorpusError(
            f"no training pair is left after cleaning: {reasons}",
            hint="check that the training files hold sentences and are not the valid or test files",
            kind="corpus.empty",
        )
    progress.say("Cleaning", f"kept {len(cleaning.kept):,} · {reasons}")
    total = len(words["train"][0])
    if total - len(cleaning.kept) > MANY_DROPPED * total:
        progress.warn(
            f"{100 * (1 - len(cleaning.kept) / total):.0f} % of the training pairs were dropped; "
            f"--max-ratio (now {options.max_ratio:g}) and --max-length (now {options.max_length}) "
            "decide about length"
        )
    for name, pair in words.items():
        empty = sum(not source or not target for source, target in zip(*pair, strict=True))
        if empty and name != "train":
            progress.warn(f"{name} has {empty:,} pairs with an empty side (kept)")


def _learn(
    sides: tuple[TextSide, TextSide],
    train: tuple[Sequence[str], Sequence[str]],
    options: PrepareOptions,
    progress: Progress,
) -> TextPipeline:
    """Learn codes and vocabularies from cleaned training words."""
    started = time.monotonic()
    progress.advance("Learning BPE", 0)
    counts = (count_words(train[0]), count_words(train[1]))
    codes = learn_codes(
        counts,
        mode=options.bpe,
        merges=options.bpe_merges,
        min_frequency=options.bpe_min_frequency,
    )
    merges = [count_merges(text) for text in codes if text is not None]
    if not merges:
        learned = "none, whole words"
    elif options.bpe == "joint":
        learned = f"{merges[0]:,} joint merges learned"
    else:
        learned = f"{merges[0]:,} and {merges[1]:,} merges learned"
    progress.say("BPE", _timed(learned, time.monotonic() - started))
    source, target = (replace(side, codes=text) for side, text in zip(sides, codes, strict=True))
    pipeline = learn_vocabularies(
        (source, target), counts, mode=options.vocabulary, min_count=options.min_count
    )
    source_size, target_size = len(pipeline.source.vocabulary), len(pipeline.target.vocabulary)
    progress.say(
        "Vocabulary",
        f"{source_size:,} joint"
        if options.vocabulary == "joint"
        else f"{sides[0].language} {source_size:,} · {sides[1].language} {target_size:,}",
    )
    return pipeline


def _say_encoding(ids: Ids, progress: Progress) -> None:
    source, target = ids["train"]
    valid = ids["valid"]
    unknown = sum(side.unknown for side in valid) / sum(side.ids.size for side in valid)
    progress.say(
        "Encoding",
        f"source {source.ids.size:,} tokens · target {target.ids.size:,} · "
        f"unknown in valid {100 * unknown:.2f} %",
    )
    size = _joint_size(source, target)
    per_token = size["sum"] / target.ids.size
    progress.say(
        "Joint size",
        f"mean S {size['mean_source']:.1f} · T {size['mean_target']:.1f} · "
        f"sum of S x T {_short(size['sum'])} ({per_token:.1f} per target token)",
    )


def _joint_size(source: EncodedSide, target: EncodedSide) -> dict[str, Any]:
    """Return what a joint model has to work through: sum of S x T, EOS counted."""
    return {
        "sum": int((source.lengths * target.lengths).sum()),
        "mean_source": round(float(source.lengths.mean()), 3),
        "mean_target": round(float(target.lengths.mean()), 3),
    }


def _split_to_write(
    name: str,
    text: ParallelText,
    words: tuple[list[str], list[str]],
    ids: tuple[EncodedSide, EncodedSide],
    cleaning: Cleaning,
    progress: Progress,
) -> PreparedSplit:
    gold = _gold_files(text, words, cleaning.kept if name == "train" else range(len(text)))
    if text.gold is not None and not gold:
        # they count the corpus's own words: useless beside another segmentation
        progress.warn("gold alignments and tags left out: they do not fit this segmentation")
    if name == "train":
        return PreparedSplit(ids, gold=gold)
    return PreparedSplit(ids, raw=(text.source, text.target), words=words, gold=gold)


def _gold_files(
    text: ParallelText, words: tuple[list[str], list[str]], kept: Sequence[int]
) -> dict[str, list[str]]:
    """Return the gold lines of the kept pairs by file ending; none when other words stand here."""
    gold = text.gold
    if gold is None:
        return {}
    for counted, lines in zip((gold.source_words, gold.target_words), words, strict=True):
        if any(counted[i].lower() != line.lower() for i, line in zip(kept, lines, strict=True)):
            return {}
    return {
        "alignments.txt": [gold.alignments[i] for i in kept],
        "source.tags.txt": [gold.source_tags[i] for i in kept],
    }


def _info(
    name: str, request: Mapping[str, Any], pipeline: TextPipeline, ids: Ids, cleaning: Cleaning
) -> dict[str, Any]:
    """Return the contents of corpus.json: no times, so that equal work gives equal bytes."""
    splits = {
        split: {
            **request["splits"][split],
            "pairs": len(pair[0].lengths),
            "tokens": {side: int(one.ids.size) for side, one in zip(SIDES, pair, strict=True)},
            "unknown": {side: one.unknown for side, one in zip(SIDES, pair, strict=True)},
        }
        for split, pair in ids.items()
    }
    return {
        "format": FORMAT,
        "name": name,
        "languages": request["languages"],
        "splits": splits,
        "options": request["options"],
        "cleaning": {"kept": len(cleaning.kept), "dropped": cleaning.dropped},
        "vocabulary": {side: len(getattr(pipeline, side).vocabulary) for side in SIDES},
        "joint_size": _joint_size(*ids["train"]),
        "pipeline_sha256": pipeline.fingerprint(),
        "jtrans": __version__,
    }


def _timed(text: str, seconds: float) -> str:
    return f"{text:<48} {seconds:.0f} s"


def _short(number: int) -> str:
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.1f} {letter}"
    return str(number)
