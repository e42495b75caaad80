"""From parallel text to a prepared corpus: segment, clean, learn BPE and vocabularies, encode.

Errors in the input are detected before anything is written, and the folder appears only when
complete. A rerun with the same text and options changes nothing.

Text is processed in shards, in a work folder beside the output folder
(`jtrans.preparation.work_folder`): memory holds a few shards, the different words and 18 bytes per
pair, however large the corpus, and a killed preparation continues where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jtrans.corpora.parallel import Corpus
from jtrans.corpora.provenance import describe_provenance
from jtrans.data.ids import SIDES
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import CorpusError, how_many
from jtrans.preparation.assemble import assemble, corpus_info
from jtrans.preparation.encode import Labelling, encode_splits
from jtrans.preparation.labels.project import name_labels, number_entities
from jtrans.preparation.labels.sources import open_labels
from jtrans.preparation.languages import lower_case_warning
from jtrans.preparation.learn import count_types, learn_pipeline, word_count_files
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.request import Preparation, Request, make_request, request_key
from jtrans.preparation.round_trip import leftover_warning, round_trip_warning
from jtrans.preparation.segment import segment_corpus
from jtrans.preparation.select import PairSelection, describe_overlap, select_pairs
from jtrans.preparation.shards import ShardPart
from jtrans.preparation.statistics import Statistics, by_side, describe
from jtrans.preparation.up_to_date import is_up_to_date
from jtrans.preparation.work_folder import WorkFolder
from jtrans.progress import Progress, Silent
from jtrans.text.bpe import count_merges
from jtrans.text.pipeline import TextPipeline
from jtrans.workers import default_workers

# A larger share of unknown tokens in a split gets a warning: BPE leaves well below 1 %.
MANY_UNKNOWN = 0.1


def prepare(
    corpus: Corpus,
    folder: Path,
    *,
    options: PrepareOptions | None = None,
    workers: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
    command: str = "",
) -> PreparedCorpus:
    """Prepare parallel text as the corpus `folder`.

    Args:
        corpus: the text; needs the split train, and valid, `valid_every` or `valid_size`; with a
            pipeline to reuse, any split will do.
        folder: the output folder; unchanged if it holds the same text with the same options.
        options: how to prepare the text.
        workers: number of processes; None means one per processor.
        force: whether another prepared corpus in `folder` is replaced.
        progress: receives the reports of all steps.
        command: the command that prepared the corpus, to record.

    Raises:
        CorpusError: text or folder cannot be used; nothing was written.
        WorkError: the disk is full.
    """
    progress = progress or Silent()
    request = make_request(corpus, options or PrepareOptions(), progress)

    def make(work: WorkFolder) -> None:
        if work.is_continued:
            progress.say("Continuing", f"the work begun in {work.folder}")
        if not work.result.exists():
            preparation = Preparation(
                request, work.folder, workers or default_workers(progress.warn), progress
            )
            run_steps(preparation, work.result, describe_provenance(corpus, command))

    def is_there() -> bool:
        return is_up_to_date(
            folder, request.record, progress, force=force, unchosen=request.unchosen
        )

    if WorkFolder(folder, request_key(request.record)).fill(make, is_there):
        progress.say("Written", str(folder))
    else:
        progress.say("Unchanged", f"{folder} holds this text prepared with these options")
    return PreparedCorpus.open(folder)


def run_steps(preparation: Preparation, result: Path, provenance: Mapping[str, Any]) -> None:
    """Make the prepared corpus in the folder `result`.

    Args:
        preparation: the request, and where to work.
        result: becomes the prepared corpus.
        provenance: the provenance to record in corpus.json.
    """
    request, progress = preparation.request, preparation.progress
    labelling = _labelling(request)  # first: a source that cannot be used is refused before work
    started = time.monotonic()
    shards = segment_corpus(preparation)
    seconds = time.monotonic() - started
    preparation.step("segmenting")
    selection = select_pairs(shards, request, progress)
    options = request.options
    case = "lowercase" if options.lowercase else "truecase" if options.truecase else "cased"
    named = ", ".join(dict.fromkeys(f"{side.segmenter} {side.language}" for side in request.sides))
    progress.say("Segmenting", _timed(f"{named}, {case}", seconds))
    if selection.overlap:
        progress.say("Overlap", describe_overlap(selection.overlap, request.corpus.languages))
    preparation.step("cleaning")
    train = selection.splits.get("train", [])
    pipeline, types = _learn(preparation, train)
    _warn_of_text(request, pipeline, progress)
    preparation.step("learning")
    statistics = encode_splits(preparation, selection.splits, pipeline, labelling)
    _say_statistics(preparation, statistics, types, labelling)
    preparation.step("encoding")
    info = _info(request, pipeline, statistics, types, selection, labelling)
    info["provenance"] = provenance
    lost = assemble(
        result,
        pipeline=pipeline,
        splits=selection.splits,
        texts=request.corpus.splits,
        label_kinds=labelling.label_names if labelling else (),
        word_counts=word_count_files(preparation) if train else (),
        info=info,
    )
    preparation.step("writing")
    if lost:
        progress.warn(
            f"gold annotation of {how_many(lost, 'pair')} left out: its words do not match"
        )


def _warn_of_text(request: Request, pipeline: TextPipeline, progress: Progress) -> None:
    """Warn of text that is not raw, or that the pipeline changes."""
    splits, is_given = request.corpus.splits, request.pipeline is not None
    of_case = lower_case_warning(request.corpus.languages) if request.options.lowercase else None
    examined = {"train": splits["train"]} if "train" in splits else splits
    of_source = [
        leftover_warning(text.source, pipeline.source, is_target=False, split=name)
        for name, text in examined.items()
    ]
    of_target = [
        leftover_warning(text.target, pipeline.target, is_target=True, split=name)
        for name, text in examined.items()
    ]
    if not any(of_target):
        of_target = [round_trip_warning(splits, pipeline.target, is_given=is_given)]
    for warning in filter(None, (of_case, *of_source, *of_target)):
        progress.warn(warning)


def _learn(
    preparation: Preparation, train: Sequence[ShardPart]
) -> tuple[TextPipeline, tuple[int, int] | None]:
    """Learn a pipeline from the training words, or reuse the one of the request.

    Returns:
        The pipeline, and the number of different words on each side, if there is training text.
    """
    request, progress, started = preparation.request, preparation.progress, time.monotonic()
    types: tuple[int, int] | None
    if request.pipeline is not None:
        pipeline = request.pipeline
        types = count_types(preparation, train, pipeline) if train else None
        progress.say("Pipeline", f"taken from {request.options.pipeline}, nothing learned")
    else:
        pipeline, types = learn_pipeline(preparation, train)
        merges = [
            (side.language, count_merges(side.codes))
            for side in (pipeline.source, pipeline.target)
            if side.codes is not None
        ]
        if not merges:
            learned = "none, whole words"
        elif request.codes is not None:
            codes = request.options.bpe_codes
            learned = f"{how_many(merges[0][1], 'joint merge')} of {codes}, none learned"
        elif request.options.bpe == "joint" and merges[0][0] != merges[-1][0]:
            learned = f"{how_many(merges[0][1], 'joint merge')} learned"
        else:
            counts = by_side(f"{language} {count:,}" for language, count in merges)
            learned = f"{counts} merges learned"
        progress.say("BPE", _timed(learned, time.monotonic() - started))
    source, target = pipeline.source, pipeline.target
    is_joint = request.options.vocabulary == "joint" and source.language != target.language
    progress.say(
        "Vocabulary",
        f"{len(source.vocabulary):,} joint"
        if is_joint
        else by_side(f"{side.language} {len(side.vocabulary):,}" for side in (source, target)),
    )
    return pipeline, types


def _labelling(request: Request) -> Labelling | None:
    """Return where labels come from: the option, or else the corpus itself."""
    sources = request.options.labels
    if sources:
        digest = str(request.record["labels_digest"])
        types = open_labels(sources, digest).entity_types
        return Labelling(sources, digest, _label_names(request, types))
    golds = [text.gold for text in request.corpus.splits.values() if text.gold]
    if not any(gold.source_tags for gold in golds):
        return None
    gold_types = {
        entity
        for gold in golds
        for line in gold.source_entities
        for number, entity in number_entities(line.split())
        if number
    }
    return Labelling((), "", _label_names(request, gold_types))


def _label_names(request: Request, types: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of labels; for test sets alone, the reused run's if they cover them."""
    names = name_labels(types)
    if "train" in request.corpus.splits:
        return names
    return {
        kind: known if set(own) <= set(known := request.known_labels.get(kind, [])) else own
        for kind, own in names.items()
    }


def _say_statistics(
    preparation: Preparation,
    statistics: dict[str, Statistics],
    types: tuple[int, int] | None,
    labelling: Labelling | None,
) -> None:
    """Show the statistics of the corpus."""
    progress = preparation.progress
    for label, text in describe(statistics, types, preparation.request.corpus.languages).items():
        progress.say(label, text)
    for name, split in statistics.items():
        if split.unknown_share > MANY_UNKNOWN:
            progress.warn(
                f"{100 * split.unknown_share:.0f} % of the tokens of {name} are unknown: "
                f"{_ask_why_unknown(name, preparation.request.options)}"
            )
    if labelling is not None:
        _say_labels(progress, statistics, labelling)


def _ask_why_unknown(split: str, options: PrepareOptions) -> str:
    """Return a question that suggests why many tokens of a split are unknown."""
    if options.pipeline:
        return f"was the pipeline of {options.pipeline} learned from text like it?"
    if split == "train" and options.min_count == 1:
        return "does the text contain <unk>, <s>, </s> or <pad> as words?"
    if split == "train":
        return f"is --min-count {options.min_count} too many for so little text?"
    return "is it like the training text, and is there enough training text?"


def _say_labels(
    progress: Progress, statistics: Mapping[str, Statistics], labelling: Labelling
) -> None:
    """Show how many sentences of each split have labels, and why others have none."""
    name = " ".join(labelling.sources)
    if not any(split.pairs - split.unlabelled for split in statistics.values()):
        total = sum(split.pairs for split in statistics.values())
        raise CorpusError(
            f"none of the {total:,} sentences has labels",
            where=f"--labels {name}" if name else None,
            hint="sentences are looked up by their characters: label the raw source "
            "sentences of this corpus",
            kind="corpus.no-labels",
        )
    counts = []
    for split, stats in statistics.items():
        labelled = stats.pairs - stats.unlabelled
        lost = f" ({stats.misaligned:,} with other characters)" if stats.misaligned else ""
        counts.append(f"{split} {labelled:,} of {stats.pairs:,}{lost}")
        if not labelled:
            progress.warn(f"not one sentence of {split} has labels")
    kinds = " and ".join(labelling.label_names)
    progress.say("Labels", f"{kinds} from {name or 'the corpus itself'}: {' · '.join(counts)}")


def _info(
    request: Request,
    pipeline: TextPipeline,
    statistics: Mapping[str, Statistics],
    types: tuple[int, int] | None,
    selection: PairSelection,
    labelling: Labelling | None,
) -> dict[str, Any]:
    """Return the contents of corpus.json."""
    texts = request.record["splits"]
    if selection.valid is not None:
        texts = {**texts, "valid": selection.valid}
    splits = {name: {**texts[name], **split.to_json()} for name, split in statistics.items()}
    results = {
        "splits": splits,
        "cleaning": selection.cleaning,
        "overlap": selection.overlap,
        "vocabulary": {side: len(getattr(pipeline, side).vocabulary) for side in SIDES},
        **({"types": dict(zip(SIDES, types, strict=True))} if types else {}),
    }
    labels: dict[str, Any] = {}
    if labelling is not None:
        labels["labels"] = labelling.label_names
        labels["unlabelled"] = {name: split.unlabelled for name, split in statistics.items()}
        labels["misaligned"] = {name: split.misaligned for name, split in statistics.items()}
    record = {"name": request.corpus.name, **request.record}
    return corpus_info(record, results, statistics.get("train"), pipeline.fingerprint(), labels)


def _timed(text: str, seconds: float) -> str:
    return f"{text:<48} {seconds:.0f} s"
