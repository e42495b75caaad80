"""From parallel text to a prepared corpus: segment, clean, learn BPE and vocabularies, encode.

Everything that can be wrong with the input is found before anything is written, and the folder
appears only when it is complete. A rerun with the same text and options changes nothing.

Text is worked on in shards, in a work folder beside the one to make
(`jtrans.preparation.work_folder`): memory holds a few shards, the different words and 17 bytes for
each pair, however large the corpus, and a preparation that was killed continues where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jtrans import __version__
from jtrans.corpora.parallel import Corpus
from jtrans.data.prepared import FORMAT, SIDES, PreparedCorpus
from jtrans.errors import CorpusError
from jtrans.preparation.assemble import assemble
from jtrans.preparation.encode import Labelling, encode_parts
from jtrans.preparation.labels.project import LabelVocabulary, number_entities
from jtrans.preparation.labels.sources import open_labels
from jtrans.preparation.learn import (
    count_words,
    learn_pipeline,
    learn_truecasers,
    write_truecasers,
)
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.request import Request, is_up_to_date, make_request
from jtrans.preparation.segment import segment_corpus
from jtrans.preparation.select import PairSelection, select_pairs
from jtrans.preparation.shards import Shard, ShardPart
from jtrans.preparation.statistics import Statistics, describe, joint_size
from jtrans.preparation.work_folder import WorkFolder
from jtrans.preparation.workers import available_cpus
from jtrans.progress import Progress, Silent
from jtrans.text.bpe import count_merges
from jtrans.text.pipeline import TextPipeline

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
    on_step: Callable[[str], None] | None = None,
) -> PreparedCorpus:
    """Make the prepared corpus `folder` from parallel text.

    Args:
        corpus: the text; needs the split train, and valid or `valid_every`.
        folder: where to put it. The same text prepared with the same options stays as it is.
        options: how to prepare it.
        workers: number of processes; None takes one for each processor.
        force: whether another prepared corpus in `folder` is replaced.
        progress: receives what each step has to report.
        on_step: called with the name of each step when it ends, for benchmarks.

    Raises:
        CorpusError: text or folder cannot be used; nothing was written.
        WorkError: the disk is full.
    """
    progress = progress or Silent()
    step = on_step or _nothing
    request = make_request(corpus, options or PrepareOptions(), progress)
    counts = (f"{name} {len(text):,}" for name, text in corpus.splits.items())
    progress.say("Reading", " · ".join(counts))
    step("reading")
    if is_up_to_date(folder, request.record, force=force):
        progress.say("Unchanged", f"{folder} holds this text prepared with these options")
        return PreparedCorpus.open(folder)
    with WorkFolder(folder, request.key).opened() as work:
        if work.is_continued:
            progress.say("Continuing", f"what was begun in {work.folder}")
        if not work.result.exists():
            workers = workers or available_cpus()
            _Preparation(request, work.folder, workers, progress, step).run(work.result)
        work.publish()
    step("writing")
    progress.say("Written", str(folder))
    return PreparedCorpus.open(folder)


@dataclass(frozen=True)
class _Preparation:
    """One preparation: its steps, in order."""

    request: Request
    folder: Path
    workers: int
    progress: Progress
    step: Callable[[str], None]

    def run(self, result: Path) -> None:
        """Make the prepared corpus in the folder `result`."""
        shards, report = self.segment()
        selection = select_pairs(shards, self.request, self.progress)
        splits = selection.splits
        self.progress.say("Segmenting", report)
        self.step("cleaning")
        pipeline, types = self.learn(splits["train"])
        self.step("learning")
        labelling = self.labelling()
        path = self.folder / "pipeline.json"
        pipeline.save(path)
        fingerprint = pipeline.fingerprint()
        statistics = {
            name: encode_parts(
                parts,
                self.request.corpus,
                path,
                fingerprint,
                labelling,
                workers=self.workers,
                progress=self.progress,
            )
            for name, parts in splits.items()
        }
        self.say_statistics(statistics, types, labelling)
        self.step("encoding")
        info = _info(self.request, pipeline, statistics, types, selection, labelling)
        lost = assemble(
            result,
            pipeline=pipeline,
            splits=splits,
            texts=self.request.corpus.splits,
            label_kinds=labelling.vocabulary.kinds if labelling else (),
            info=info,
        )
        if lost:
            self.progress.warn(
                f"gold alignments of {lost:,} pairs left out: their words are other text"
            )

    def segment(self) -> tuple[dict[str, list[Shard]], str]:
        """Segment all text; also return the line to show."""
        started = time.monotonic()
        options, sides = self.request.options, self.request.sides
        shards = segment_corpus(
            self.request.corpus,
            self.folder / "shards",
            sides,
            rules=options.rules,
            workers=self.workers,
            progress=self.progress,
        )
        self.step("segmenting")
        case = "lowercase" if options.lowercase else "truecase" if options.truecase else "cased"
        named = ", ".join(f"{side.segmenter} {side.language}" for side in sides)
        return shards, _timed(f"{named}, {case}", time.monotonic() - started)

    def learn(self, train: Sequence[ShardPart]) -> tuple[TextPipeline, tuple[int, int]]:
        """Learn a pipeline from the training words, or reuse the one of the request."""
        reused = self.request.pipeline
        pipeline, types = self.reuse(reused, train) if reused else self.learn_anew(train)
        source, target = pipeline.source, pipeline.target
        sizes = [len(side.vocabulary) for side in (source, target)]
        self.progress.say(
            "Vocabulary",
            f"{sizes[0]:,} joint"
            if self.request.options.vocabulary == "joint"
            else f"{source.language} {sizes[0]:,} · {target.language} {sizes[1]:,}",
        )
        return pipeline, types

    def reuse(
        self, pipeline: TextPipeline, train: Sequence[ShardPart]
    ) -> tuple[TextPipeline, tuple[int, int]]:
        """Learn nothing; only count the different words."""
        casing = write_truecasers(pipeline, self.folder)
        counts = count_words(train, casing, workers=self.workers, progress=self.progress)
        self.progress.say("Pipeline", f"that of {self.request.options.pipeline}, nothing learned")
        return pipeline, (len(counts[0]), len(counts[1]))

    def learn_anew(self, train: Sequence[ShardPart]) -> tuple[TextPipeline, tuple[int, int]]:
        """Learn casing, BPE codes and vocabularies."""
        started = time.monotonic()
        options, sides = self.request.options, self.request.sides
        workers, progress, casing = self.workers, self.progress, None
        if options.truecase:
            casing = learn_truecasers(train, self.folder, workers=workers, progress=progress)
        pipeline, types = learn_pipeline(
            train, self.folder, sides, options, casing, workers=workers, progress=progress
        )
        codes = [side.codes for side in (pipeline.source, pipeline.target)]
        merges = [count_merges(text) for text in codes if text is not None]
        if not merges:
            learned = "none, whole words"
        elif options.bpe == "joint":
            learned = f"{merges[0]:,} joint merges learned"
        else:
            learned = f"{merges[0]:,} and {merges[1]:,} merges learned"
        self.progress.say("BPE", _timed(learned, time.monotonic() - started))
        return pipeline, types

    def labelling(self) -> Labelling | None:
        """Return where labels come from: the option, or else the corpus itself."""
        name = self.request.options.labels
        if name:
            return Labelling(name, LabelVocabulary.of(open_labels(name).entity_types))
        golds = [text.gold for text in self.request.corpus.splits.values() if text.gold]
        if not any(gold.source_tags for gold in golds):
            return None
        types = {
            entity
            for gold in golds
            for line in gold.source_entities
            for number, entity in number_entities(line.split())
            if number
        }
        return Labelling("", LabelVocabulary.of(types))

    def say_statistics(
        self,
        statistics: dict[str, Statistics],
        types: tuple[int, int],
        labelling: Labelling | None,
    ) -> None:
        """Show the numbers of the corpus."""
        corpus = self.request.corpus
        for label, text in describe(statistics, types, corpus.languages).items():
            self.progress.say(label, text)
        for name, split in statistics.items():
            if split.unknown_share > MANY_UNKNOWN:
                self.progress.warn(
                    f"{100 * split.unknown_share:.0f} % of the tokens of {name} are unknown: "
                    "is it like the training text, and is there enough training text?"
                )
        if labelling is not None:
            missing = sum(split.unlabelled for split in statistics.values())
            total = sum(split.pairs for split in statistics.values())
            if missing == total:
                raise CorpusError(
                    f"there are labels for none of the {total:,} sentences",
                    where=f"--labels {labelling.name}",
                    hint="sentences are looked up by their characters: label the raw source "
                    "sentences of this corpus",
                    kind="corpus.no-labels",
                )
            self.progress.say(
                "Labels",
                f"{' and '.join(labelling.vocabulary.kinds)} of {total - missing:,} of {total:,} "
                f"sentences, from {labelling.name or 'the corpus itself'}",
            )


def _info(
    request: Request,
    pipeline: TextPipeline,
    statistics: Mapping[str, Statistics],
    types: tuple[int, int],
    selection: PairSelection,
    labelling: Labelling | None,
) -> dict[str, Any]:
    """Return the contents of corpus.json; no times, so that equal work gives equal bytes."""
    texts = request.record["splits"]
    if selection.valid is not None:
        texts = {**texts, "valid": selection.valid}
    splits = {name: {**texts[name], **split.to_json()} for name, split in statistics.items()}
    info = {
        "format": FORMAT,
        "name": request.corpus.name,
        **request.record,
        "splits": splits,
        "cleaning": selection.cleaning,
        "vocabulary": {side: len(getattr(pipeline, side).vocabulary) for side in SIDES},
        "types": dict(zip(SIDES, types, strict=True)),
        "joint_size": joint_size(statistics["train"]),
        "pipeline_sha256": pipeline.fingerprint(),
        "jtrans": __version__,
    }
    if labelling is not None:
        info["labels"] = labelling.vocabulary.to_json()
        info["unlabelled"] = {name: split.unlabelled for name, split in statistics.items()}
    return info


def _timed(text: str, seconds: float) -> str:
    return f"{text:<48} {seconds:.0f} s"


def _nothing(_name: str) -> None:
    pass
