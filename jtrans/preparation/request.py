"""The request to prepare a corpus.

Reading the text once gives its digests, which determine whether there is anything to do, and
detects errors before anything is written.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from jtrans import __version__
from jtrans.corpora.parallel import Corpus, Gold, ParallelText
from jtrans.data.prepared import FORMAT, text_files
from jtrans.errors import ConfigError, CorpusError, how_many, usage_error
from jtrans.files import disk_errors, lines_digest, read_json, text_digest
from jtrans.preparation.labels.sources import check_labels, labels_digest
from jtrans.preparation.languages import check_languages, is_narrow_by_default
from jtrans.preparation.options import PIPELINE_OPTIONS, PrepareOptions
from jtrans.progress import Progress
from jtrans.text.bpe import check_version, read_codes
from jtrans.text.pipeline import TextPipeline, TextSide
from jtrans.text.segment import useless_entries

# Characters allowed in a line of valid and test, which are not cleaned.
LONGEST_LINE = 50_000


@dataclass(frozen=True)
class Request:
    """A request to prepare a corpus."""

    corpus: Corpus  # the text
    options: PrepareOptions  # how to prepare it, "auto" replaced
    sides: tuple[TextSide, TextSide]  # source and target, before anything is learned
    record: dict[str, Any]  # what determines the result, as in corpus.json
    pipeline: TextPipeline | None = None  # the pipeline to reuse; None: one is learned
    unchosen: frozenset[str] = frozenset()  # options whose value follows from the text alone
    codes: str | None = None  # BPE codes to use for both sides; None: they are learned
    # the names of labels by kind in the run or corpus whose pipeline is reused
    known_labels: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def valid_every(self) -> int:
        """One in this many clean training pairs goes to valid; 0: none are taken this way."""
        return int(self.record.get("valid_every", 0))

    @property
    def valid_size(self) -> int:
        """The number of clean training pairs, chosen by their text, that go to valid; 0: none."""
        return int(self.record.get("valid_size", 0))


@dataclass(frozen=True)
class Preparation:
    """The state shared by the steps of a preparation."""

    request: Request  # the text and the options
    folder: Path  # the work folder
    workers: int  # number of processes
    progress: Progress  # receives the reports of all steps
    # called with the name of each step when it ends
    step: Callable[[str], None] = lambda _name: None


# Raised whenever options change their meaning: work begun before is not continued.
RULES = 3


def request_key(record: Mapping[str, Any]) -> str:
    """Return a digest of all that determines a result, as the key of a work folder."""
    return text_digest(json.dumps([FORMAT, RULES, __version__, record], sort_keys=True))


def make_request(corpus: Corpus, options: PrepareOptions, progress: Progress) -> Request:
    """Read the text once and check it.

    Raises:
        CorpusError: a split is missing or empty, a line of valid or test is longer than
            `LONGEST_LINE`, or a file that the options name cannot be used.
        ConfigError: an option cannot be used.
    """
    has_valid = "valid" in corpus.splits
    sizes = {"valid_every": corpus.valid_every, "valid_size": corpus.valid_size}
    taken = {name: size for name, size in sizes.items() if size and not has_valid}
    needed = ["train"] if taken else ["train", "valid"]
    if options.pipeline and not taken:  # nothing is learned: any splits will do
        needed = [name for name in needed if name in corpus.splits]
    _check_text(corpus, needed)
    _check_split_names(corpus)
    _check_skipped(corpus, progress)
    is_unchosen = options.narrow is None and not options.pipeline
    unchosen = frozenset({"narrow"} if is_unchosen else ())
    if unchosen:
        options = options.model_copy(update={"narrow": is_narrow_by_default(corpus)})
    pipeline = _load_pipeline(options.pipeline, corpus.languages)
    dictionary = None if pipeline else _read_dictionary(options.jieba_dictionary)
    codes = _read_codes(options.bpe_codes)
    sides = (
        (pipeline.source.bare(), pipeline.target.bare())
        if pipeline
        else _make_sides(corpus.languages, options, dictionary, progress)
    )
    _check_segmenters(corpus, sides)
    options = _settle(options, sides, pipeline)
    record = _splits_record(corpus, options, pipeline) | taken
    if pipeline is not None:
        record["pipeline_from"] = options.pipeline
        record["pipeline_digest"] = pipeline.fingerprint()
    if options.labels:
        check_labels(options.labels)
        record["labels_digest"] = labels_digest(options.labels)
    if dictionary is not None:
        record["dictionary_digest"] = text_digest(dictionary)
    if codes is not None:
        record["codes_from"], record["codes_digest"] = options.bpe_codes, text_digest(codes)
    check_languages(corpus, progress)
    counts = (f"{name} {len(text):,}" for name, text in corpus.splits.items())
    progress.say("Reading", " · ".join(counts))
    known = _known_labels(Path(options.pipeline)) if pipeline else {}
    return Request(corpus, options, sides, record, pipeline, unchosen, codes, known)


def _splits_record(
    corpus: Corpus, options: PrepareOptions, pipeline: TextPipeline | None
) -> dict[str, Any]:
    """Return the record of the text and the options, without those that a pipeline decides."""
    decided = {"pipeline", *(PIPELINE_OPTIONS if pipeline else ())}
    if options.bpe_codes:  # nothing is learned, and a digest tells what the file holds
        decided |= {"bpe_codes", "bpe_merges", "bpe_min_frequency"}
    return {
        "languages": list(corpus.languages),
        "options": options.model_dump(mode="json", exclude=decided),
        "splits": {
            name: {
                "origin": list(text.origin),
                "lines": len(text),
                **({"skipped": dict(text.skipped)} if text.skipped else {}),
                **({"references": len(text.references)} if text.references else {}),
                "sha256": _digests(name, text),
                **({"gold_digest": _gold_digest(text.gold)} if text.gold else {}),
            }
            for name, text in corpus.splits.items()
        },
    }


def _check_text(corpus: Corpus, needed: Sequence[str]) -> None:
    """Check that all splits hold text, and that none of those `needed` is missing."""
    if not corpus.splits:
        raise CorpusError(f"the corpus {corpus.name} has no text", kind="corpus.empty")
    for name in needed:
        if not len(corpus.splits.get(name, ())):
            raise CorpusError(f"the corpus {corpus.name} has no {name} text", kind="corpus.empty")
    for name, text in corpus.splits.items():
        if name != "train" and not _has_text(text):
            raise no_text(name, text)


def _check_segmenters(corpus: Corpus, sides: tuple[TextSide, TextSide]) -> None:
    """Check that both sides are segmented alike if they are the same text."""
    source, target = (side.segmenter for side in sides)
    if corpus.languages[0] == corpus.languages[1] and source != target:
        raise usage_error(
            f"source and target are the same text, but {source} would segment the source, "
            f"{target} the target",
            "choose one segmenter for both with --segment",
        )


def _check_split_names(corpus: Corpus) -> None:
    """Check that no two splits would write the same file, even where case does not count."""
    owners: dict[str, str] = {}
    for name, text in corpus.splits.items():
        for path in text_files(name, corpus.languages, len(text.references)):
            stem = unicodedata.normalize("NFC", path).casefold()
            if owners.setdefault(stem, name) != name:
                raise CorpusError(
                    f"the splits {owners[stem]} and {name} would both be written to {path}",
                    hint="give one of them another name",
                    kind="corpus.split-names",
                )


def _check_skipped(corpus: Corpus, progress: Progress) -> None:
    """Warn of pairs of valid and test that were left out while reading."""
    for name, text in corpus.splits.items():
        if name != "train" and text.skipped:
            progress.warn(
                f"{text.skipped_text} left out of {name}: its scores are not those of the whole set"
            )


def _load_pipeline(folder: str, languages: tuple[str, str]) -> TextPipeline | None:
    if not folder:
        return None
    path = Path(folder) / "pipeline.json"
    if not path.is_file():
        raise ConfigError(
            f"no text pipeline in {folder}: there is no {path}",
            where="--pipeline",
            hint="name the folder of a prepared corpus or of a run",
            kind="corpus.missing-pipeline",
        )
    pipeline = TextPipeline.load(path)
    if pipeline.languages != languages:
        raise ConfigError(
            f"the text pipeline of {folder} is for {'-'.join(pipeline.languages)}, "
            f"this text is {'-'.join(languages)}",
            where="--pipeline",
            hint="leave out --pipeline to learn one",
            kind="corpus.other-pipeline",
        )
    return pipeline


def _read_codes(path: str) -> str | None:
    if not path:
        return None
    codes = read_codes(Path(path))
    check_version(codes, path)
    return codes


def _known_labels(folder: Path) -> dict[str, list[str]]:
    """Return the names of labels in a run or a prepared corpus, which record them alike."""
    for path in (folder / "run.json", folder / "corpus.json"):
        if path.is_file():
            return dict(read_json(path).get("labels") or {})
    return {}


def _settle(
    options: PrepareOptions, sides: tuple[TextSide, TextSide], pipeline: TextPipeline | None
) -> PrepareOptions:
    """Replace "auto", and the options that a pipeline determines."""
    settled: dict[str, Any] = {
        "source_segment": sides[0].segmenter,
        "target_segment": sides[1].segmenter,
    }
    if pipeline is not None:
        source, target = pipeline.source, pipeline.target
        is_joint = source.vocabulary.tokens == target.vocabulary.tokens
        settled |= {
            "lowercase": source.lowercase,
            "truecase": (source.truecaser or target.truecaser) is not None,
            "vocabulary": "joint" if is_joint else "separate",
        }
    return options.model_copy(update=settled)


def _make_sides(
    languages: tuple[str, str], options: PrepareOptions, dictionary: str | None, progress: Progress
) -> tuple[TextSide, TextSide]:
    """Return both sides before anything is learned; only jieba uses a dictionary."""
    source, target = (
        TextSide(
            language,
            segmenter,
            options.lowercase,
            strip_invisible=options.strip_invisible,
            protect=options.protect,
            spell=options.spell and options.bpe != "none",
            narrow=bool(options.narrow),
        )
        for language, segmenter in zip(
            languages, (options.source_segment, options.target_segment), strict=True
        )
    )
    if dictionary is None:
        return source, target
    if "jieba" not in (source.segmenter, target.segmenter):
        raise usage_error(
            f"the dictionary {options.jieba_dictionary} is for jieba, but neither side uses it",
            "leave it out, or choose --source-segment jieba (or --target-segment)",
            where="--jieba-dictionary",
        )
    useless = useless_entries(dictionary)
    if useless:
        more = f" and {len(useless) - 5:,} more" if len(useless) > 5 else ""
        progress.warn(
            f"jieba never matches some entries of {options.jieba_dictionary}, because it cuts text "
            f"at spaces and at signs other than +#&._%-: {', '.join(useless[:5])}{more}"
        )
    source, target = (
        replace(side, dictionary=dictionary if side.segmenter == "jieba" else None)
        for side in (source, target)
    )
    return source, target


def no_text(name: str, text: ParallelText) -> CorpusError:
    """Return the error for a split without a single pair to translate or score."""
    return CorpusError(
        f"{name} has only empty lines: of its {how_many(len(text), 'pair')}, none has text on both "
        "sides",
        where=", ".join(text.origin) or None,
        hint="choose files with one sentence per line, the translation in the same line",
        kind="corpus.empty",
    )


def _has_text(text: ParallelText) -> bool:
    pairs = zip(text.source, text.target, strict=True)
    return any(source.strip() and target.strip() for source, target in pairs)


def _digests(name: str, text: ParallelText) -> dict[str, str]:
    """Read a split; return the digest of each side's lines, and of further references."""
    digests = {}
    sides = (("source", text.source), ("target", text.target), *further_references(text))
    for side, lines in sides:
        checked = _checked(lines, f"{side} of {name}", ", ".join(text.origin) or name)
        digests[side] = lines_digest(lines if name == "train" else checked)
    return digests


def further_references(text: ParallelText) -> list[tuple[str, Sequence[str]]]:
    """Return the references after the first, with their names in the record of a split."""
    return [(f"reference {n}", lines) for n, lines in enumerate(text.references[1:], start=2)]


def _gold_digest(gold: Gold) -> str:
    """Return a digest of all annotation: tags may be corrected where the sentences stay."""
    kinds = (item.name for item in fields(gold))
    return lines_digest(line for kind in kinds for line in (f"{kind}:", *getattr(gold, kind)))


def _checked(lines: Sequence[str], side: str, where: str) -> Iterator[str]:
    """Yield lines of valid or test, none of them longer than `LONGEST_LINE`."""
    for number, line in enumerate(lines, start=1):
        if len(line) > LONGEST_LINE:
            raise CorpusError(
                f"line {number:,} of the {side} has {len(line):,} characters, "
                f"more than {LONGEST_LINE:,}",
                where=f"{where}, line {number}",
                hint="a line should be one sentence: remove that line from both files",
                kind="corpus.line-length",
            )
        yield line


def _read_dictionary(path: str) -> str | None:
    if not path:
        return None
    try:
        with disk_errors(Path(path)):
            dictionary = Path(path).read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, IsADirectoryError, UnicodeDecodeError) as error:
        raise CorpusError(
            f"cannot read the dictionary {path}: {getattr(error, 'strerror', None) or 'not UTF-8'}",
            where="--jieba-dictionary",
            hint="it must be UTF-8 text with one word per line",
            kind="corpus.missing-file",
        ) from error
    if not dictionary.strip():
        raise CorpusError(
            f"the dictionary {path} has no words",
            where="--jieba-dictionary",
            hint="write one word per line, or leave the option out",
            kind="corpus.empty",
        )
    return dictionary
