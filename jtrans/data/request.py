"""What is asked of `jtrans prepare`, and whether it is there already.

Reading the text once gives its digests, which decide whether anything has to be done, and shows
what is wrong with it before anything is written.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans import __version__
from jtrans.data.label_sources import check_labels, labels_digest
from jtrans.data.prepared import FORMAT, PreparedCorpus, read_info
from jtrans.errors import ConfigError, CorpusError
from jtrans.files import disk_errors
from jtrans.text.language import is_wrong_script, look_swapped
from jtrans.text.pipeline import TextSide

if TYPE_CHECKING:
    from jtrans.corpora.parallel import Corpus, ParallelText
    from jtrans.data.prepare_options import PrepareOptions
    from jtrans.progress import Progress

# Characters of a line of valid and test, which are not cleaned: nobody translates such a line.
LONGEST_LINE = 50_000
LINES_AT_ONCE = 10_000
SAMPLE = 1000
# Of the lines with letters in a sample, so many may lack letters of their script unremarked.
FEW = 0.5


@dataclass(frozen=True)
class Request:
    """A preparation that was asked for.

    Attributes:
        corpus: the text.
        options: how to prepare it, "auto" replaced.
        sides: source and target, before anything is learned.
        facts: what decides the result, as corpus.json keeps it.
    """

    corpus: Corpus
    options: PrepareOptions
    sides: tuple[TextSide, TextSide]
    facts: dict[str, Any]

    @property
    def key(self) -> str:
        """What the work folder is kept for."""
        text = json.dumps([FORMAT, __version__, self.facts], sort_keys=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()


def make_request(corpus: Corpus, options: PrepareOptions, progress: Progress) -> Request:
    """Read the text once and check it.

    Raises:
        CorpusError: a split is missing or empty, a line of valid or test is far too long, or
            a file that the options name cannot be used.
        ConfigError: an option cannot be used.
    """
    for name in ("train", "valid"):
        if not len(corpus.splits.get(name, ())):
            raise CorpusError(f"the corpus {corpus.name} has no {name} text", kind="corpus.empty")
    dictionary = _read_dictionary(options.jieba_dictionary)
    sides = _make_sides(corpus.languages, options, dictionary)
    options = replace(options, source_segment=sides[0].segmenter, target_segment=sides[1].segmenter)
    facts: dict[str, Any] = {
        "languages": list(corpus.languages),
        "options": asdict(options),
        "splits": {
            name: {"origin": list(text.origin), "lines": len(text), "sha256": _read(name, text)}
            for name, text in corpus.splits.items()
        },
    }
    if options.labels:
        check_labels(options.labels)
        facts["labels_digest"] = labels_digest(options.labels)
    if dictionary is not None:
        facts["dictionary_digest"] = hashlib.sha256(dictionary.encode("utf-8")).hexdigest()
    _notice_languages(corpus, progress)
    return Request(corpus, options, sides, facts)


def _make_sides(
    languages: tuple[str, str], options: PrepareOptions, dictionary: str | None
) -> tuple[TextSide, TextSide]:
    """Return both sides before anything is learned; only jieba has use for a dictionary."""
    source, target = (
        TextSide(language, segmenter, options.lowercase)
        for language, segmenter in zip(
            languages, (options.source_segment, options.target_segment), strict=True
        )
    )
    if dictionary is None:
        return source, target
    if "jieba" not in (source.segmenter, target.segmenter):
        raise ConfigError(
            f"the dictionary {options.jieba_dictionary} is for jieba, but neither side uses it",
            where="--jieba-dictionary",
            hint="leave it out, or choose --source-segment jieba (or --target-segment)",
            kind="command.usage",
        )
    source, target = (
        replace(side, dictionary=dictionary) if side.segmenter == "jieba" else side
        for side in (source, target)
    )
    return source, target


def is_up_to_date(folder: Path, request: Request, *, force: bool) -> bool:
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
    changes = _changes(read_info(folder), request.facts)
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


def _changes(info: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
    changes = [] if info["languages"] == facts["languages"] else ["languages"]
    text = [
        {name: split["sha256"] for name, split in made["splits"].items()} for made in (info, facts)
    ]
    if text[0] != text[1]:
        changes.append("text")
    before, now = info["options"], facts["options"]
    changes += [
        f"{name} ({before.get(name)}, now {value})"
        for name, value in now.items()
        if before.get(name) != value
    ]
    for key in ("labels_digest", "dictionary_digest"):
        if info.get(key) != facts.get(key) and not changes:
            changes.append(f"contents of the {key.removesuffix('_digest')}")
    return changes


def _read(name: str, text: ParallelText) -> dict[str, str]:
    """Read a split through; return the digest of each side's lines."""
    digests = {}
    for side, lines in (("source", text.source), ("target", text.target)):
        sha = hashlib.sha256()
        for start, chunk in _chunks(lines):
            longest = max(map(len, chunk))
            if name != "train" and longest > LONGEST_LINE:
                number = start + max(range(len(chunk)), key=lambda i: len(chunk[i])) + 1
                raise CorpusError(
                    f"line {number:,} of the {side} of {name} has {longest:,} characters, "
                    f"more than {LONGEST_LINE:,}",
                    where=f"{', '.join(text.origin) or name}, line {number}",
                    hint="one sentence in a line is meant: take that line out of both files",
                    kind="corpus.line-length",
                )
            sha.update("".join(f"{line}\n" for line in chunk).encode("utf-8"))
        digests[side] = sha.hexdigest()
    return digests


def _chunks(lines: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    for start in range(0, len(lines), LINES_AT_ONCE):
        yield start, lines[start : start + LINES_AT_ONCE]


def _notice_languages(corpus: Corpus, progress: Progress) -> None:
    """Warn of sides that look exchanged, or written in another script than their language's."""
    one, other = corpus.languages
    for name, text in corpus.splits.items():
        step = max(1, len(text) // SAMPLE)
        places = range(0, len(text), step)
        samples = [[lines[i][:1000] for i in places] for lines in (text.source, text.target)]
        if look_swapped(samples[0], samples[1], corpus.languages):
            progress.warn(
                f"the sides of {name} look exchanged: its source looks like {other}, its target "
                f"like {one} (--languages {other}-{one}?)"
            )
            continue
        for sample, language in zip(samples, corpus.languages, strict=True):
            wrong = sum(is_wrong_script(line, language) for line in sample)
            if wrong > FEW * len(sample):
                progress.warn(
                    f"{100 * wrong / len(sample):.0f} % of the {language} lines of {name} have no "
                    f"letter of the script of {language}"
                )


def _read_dictionary(path: str) -> str | None:
    if not path:
        return None
    try:
        with disk_errors(Path(path)):
            return Path(path).read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, IsADirectoryError, UnicodeDecodeError) as error:
        raise CorpusError(
            f"cannot read the dictionary {path}: {getattr(error, 'strerror', None) or 'not UTF-8'}",
            where="--jieba-dictionary",
            hint="a UTF-8 text with one word in a line",
            kind="corpus.missing-file",
        ) from error
