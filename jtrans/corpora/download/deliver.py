"""From a name to text: download, unpack and read the original files of a corpus."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jtrans.corpora.catalogue.load import load_built_in
from jtrans.corpora.download.fetch import alone, fetch
from jtrans.corpora.download.search import (
    FileTree,
    PartFiles,
    find_part,
    find_ready,
    fits,
    list_files,
)
from jtrans.corpora.download.store import OriginalRecord, Store
from jtrans.corpora.download.unpack import is_archive, unpack
from jtrans.corpora.entry import Entry, Options, SplitPart
from jtrans.corpora.formats.plain import read_files
from jtrans.corpora.formats.readers import read_choice
from jtrans.corpora.holdout import split_off
from jtrans.corpora.parallel import Corpus, ParallelText, describe_notes, join_texts
from jtrans.errors import CorpusError, how_many
from jtrans.files import cache_folder, file_digest, is_offline, text_digest
from jtrans.progress import Progress, Silent

# The most missing files that an error names.
MOST_SHOWN = 6
# The `Entry.train_shares` of the other splits, which are never filtered.
HELD_OUT_SHARES = (0.98, 1.02)
# The files of some folders, and the original files they come from.
Places = tuple[list[FileTree], list[OriginalRecord]]


@dataclass(frozen=True)
class Delivery:
    """The text of a corpus."""

    corpus: Corpus  # all splits
    options: Options  # its default preparation, which depends on the form of its files
    # the original files: downloads, and those taken from the user's folder
    originals: tuple[OriginalRecord, ...] = ()


def deliver(
    entry: Entry, folder: Path | None = None, *, progress: Progress | None = None
) -> Delivery:
    """Read a corpus of the catalogue.

    Args:
        entry: its entry in the catalogue.
        folder: where its original files are (archives, or what they contain), or the files
            train.de, train.en, valid.de ...; None downloads what is missing.
        progress: receives reports of downloads and warnings about the text.

    Raises:
        CorpusError: files are missing, or cannot be read.
        WorkError: a download failed.
    """
    progress = progress or Silent()
    if not entry.sources and folder is None:
        return Delivery(load_built_in(entry.name), entry.options)
    if folder is not None:
        _check_folder(entry, folder)
    trees, originals = (
        _local_folders(entry, folder, progress) if folder else _download(entry, progress)
    )
    files, missing = _find(entry, trees)
    options = entry.options
    if not missing:
        splits = _read(entry, files)
        paths = [path for parts in files.values() for part in parts for path in part.paths]
    elif folder and (ready := find_ready(entry, folder)):
        splits = {name: read_files([source], [target]) for name, (source, target) in ready.items()}
        options = {**options, **entry.ready_options}
        originals, paths = [], [path for pair in ready.values() for path in pair]
        progress.say("Ready files", f"{', '.join(splits)} taken from {folder} as they are")
    else:
        raise _missing(entry, folder, missing)
    if folder:
        _check_sizes(entry, splits, folder, progress)
        originals += [_local_record(path) for path in paths if path.is_relative_to(folder)]
    for line in describe_notes(splits):
        progress.say("Noticed", line)
    valid_every = None if "valid" in splits else entry.valid_every
    corpus = Corpus(entry.name, entry.languages, splits, valid_every=valid_every)
    return Delivery(corpus, options, tuple(dict.fromkeys(originals)))


def _local_record(path: Path) -> OriginalRecord:
    return OriginalRecord(path.name, "", path.stat().st_size, file_digest(path))


def _check_folder(entry: Entry, folder: Path) -> None:
    if not entry.sources:
        raise CorpusError(
            f"{entry.name} is built in: there is nothing to take from {folder}",
            hint=f"jtrans prepare {entry.name}",
            kind="corpus.built-in",
        )
    if not folder.exists():
        instead = "" if entry.is_licensed else ", or leave out --from to download them"
        raise CorpusError(
            f"no such folder: {folder}",
            hint=f"name the folder of the original files{instead}",
            kind="corpus.missing-folder",
        )
    if not folder.is_dir() and not is_archive(folder.name):
        raise CorpusError(
            f"{folder} is neither a folder nor an archive",
            hint=f"name the folder of the original files: --from {folder.parent}",
            kind="corpus.not-a-folder",
        )


def _download(entry: Entry, progress: Progress) -> Places:
    """Download missing files and unpack archives."""
    if entry.is_licensed:
        needed = ", ".join(source.file for source in entry.sources if not source.mirrors)
        raise CorpusError(
            f"{entry.name} is licensed and cannot be downloaded: it needs {needed}",
            hint=f"jtrans prepare {entry.name} --from FOLDER, with one folder or archive for each",
            kind="corpus.licensed",
        )
    store = Store.of(entry.folder)
    missing = [source for source in entry.sources if store.find(source) is None]
    if missing and not is_offline():
        progress.say("Licence", entry.licence)
        sizes = [source.mirrors[0].size for source in missing]
        size = f"{sum(sizes) / 1e6:,.1f} MB" if all(sizes) else "size not known"
        progress.say("Download", f"{how_many(len(missing), 'file')}, {size}, to {store.folder}")
    downloads = [fetch(source, store, progress=progress) for source in entry.sources]
    folders = [
        _unpack_once(entry, download.path, download.record.sha256, progress)
        if is_archive(download.path.name)
        else download.path.parent
        for download in downloads
    ]
    trees = [list_files(folder) for folder in dict.fromkeys(folders)]
    return trees, [download.record for download in downloads]


def _local_folders(entry: Entry, folder: Path, progress: Progress) -> Places:
    """Unpack the archives in the user's folder; `folder` may be an archive itself."""
    tree = list_files(folder) if folder.is_dir() else None
    names = _archive_names([name for source in entry.sources for name in source.names])
    archives = (
        [folder]
        if tree is None
        else sorted(
            path for path, _ in tree if path.name.lower() in names and is_archive(path.name)
        )
    )
    mirrors = [mirror for source in entry.sources for mirror in source.mirrors]
    trees = [] if tree is None else [tree]
    originals = []
    for path in archives:
        record = _local_record(path)
        known = {mirror.sha256 for mirror in mirrors if mirror.file == path.name} - {""}
        if known and record.sha256 not in known:
            progress.warn(f"{path} is not the file in the catalogue (different sha256)")
        trees.append(list_files(_unpack_once(entry, path, record.sha256, progress)))
        originals.append(record)
    return trees, originals


def _archive_names(names: Sequence[str]) -> set[str]:
    """Return the names that archives of sources may have: file names, or catalogue numbers."""
    endings = ("", ".tgz", ".tar.gz", ".tar", ".zip")
    return {f"{name}{ending}".lower() for name in names for ending in endings}


def _unpack_once(entry: Entry, archive: Path, sha256: str, progress: Progress) -> Path:
    """Unpack the files the entry reads, unless already done, and return the folder."""
    patterns = sorted({pattern for part in _parts(entry) for pattern in _patterns(part)})
    digest = text_digest("\n".join([sha256, *patterns]))[:12]
    # the inner folder has the archive's name, with which patterns may begin (a catalogue number)
    stem = re.sub(r"\.(tgz|txz|zip|tar(\.\w+)?)$", "", archive.name, flags=re.IGNORECASE)
    folder = cache_folder() / "unpacked" / digest / stem

    def is_needed(name: str) -> bool:
        return any(fits(f"{stem}/{name}", pattern) for pattern in patterns)

    if not folder.exists():
        with alone(folder, progress):
            if not folder.exists():  # another process may just have unpacked it
                unpack(archive, folder, is_needed=is_needed)
    return folder


def _parts(entry: Entry) -> list[SplitPart]:
    return [part for parts in entry.parts.values() for part in parts]


def _patterns(part: SplitPart) -> list[str]:
    texts = (text for choice in part.choices for text in (choice.source, choice.target))
    return [text for text in texts if text]


def _find(
    entry: Entry, trees: Sequence[FileTree]
) -> tuple[dict[str, list[PartFiles]], list[SplitPart]]:
    """Find the files of all parts; also return the parts that lack some."""
    files: dict[str, list[PartFiles]] = {}
    missing: list[SplitPart] = []
    for split, parts in entry.parts.items():
        for part in parts:
            part_files = find_part(trees, part)
            if part_files is None:
                missing.append(part)
            else:
                files.setdefault(split, []).append(part_files)
    return files, missing


def _read(entry: Entry, files: Mapping[str, list[PartFiles]]) -> dict[str, ParallelText]:
    languages = (entry.languages[1], entry.languages[0]) if entry.is_swapped else entry.languages
    splits = {
        split: join_texts(
            [read_choice(part.choice, part.sources, part.targets, languages) for part in parts]
        )
        for split, parts in files.items()
    }
    splits = {split: _without_blank_end(text) for split, text in splits.items()}
    if entry.hold_out:
        splits = split_off(splits["train"], entry.hold_out)
    if entry.is_swapped:
        splits = {
            split: replace(text, source=text.target, target=text.source, references=())
            for split, text in splits.items()
        }
    return splits


def _check_sizes(
    entry: Entry, splits: Mapping[str, ParallelText], folder: Path, progress: Progress
) -> None:
    """Warn of splits whose number of pairs is far from that in the catalogue."""
    for name, text in splits.items():
        expected = entry.sentences.get(name, len(text))
        least, most = entry.train_shares if name == "train" else HELD_OUT_SHARES
        if not least * expected <= len(text) <= most * expected:
            doubt = "complete" if len(text) < expected else "this corpus"
            progress.warn(
                f"{name} has {how_many(len(text), 'pair')}, {entry.name} has {expected:,}: "
                f"is {folder} {doubt}?"
            )


def _without_blank_end(text: ParallelText) -> ParallelText:
    """Drop pairs without text at the end of a split (Multi30k and others have one)."""
    size = len(text)
    while size > 1 and not text.source[size - 1].strip() and not text.target[size - 1].strip():
        size -= 1
    if size == len(text):
        return text
    return replace(
        text,
        source=text.source[:size],
        target=text.target[:size],
        references=tuple(lines[:size] for lines in text.references),
        notes={**text.notes, "blank pair at the end": len(text) - size},
    )


def _missing(entry: Entry, folder: Path | None, missing: list[SplitPart]) -> CorpusError:
    """Return the error that lists missing parts: releases by number, files by name."""
    titles = {source.file: source.title for source in entry.sources}
    names = [
        f"{part.origin} ({titles[part.origin]})"
        if titles.get(part.origin)
        else " and ".join(text for text in (part.choices[0].source, part.choices[0].target) if text)
        for part in missing
    ]
    place = folder or cache_folder()
    files = list(dict.fromkeys(pattern for part in missing for pattern in _patterns(part)))
    patterns = ", ".join(files[:MOST_SHOWN])
    if len(files) > MOST_SHOWN:
        patterns += f" and {len(files) - MOST_SHOWN} more (jtrans corpora {entry.name} lists them)"
    archives = [source.file for source in entry.sources if is_archive(source.file)]
    packed = f"plain, compressed or in {', '.join(archives)}" if archives else "plain or compressed"
    ready = ", ".join(
        f"{split}.{language}" for split in ("train", "valid") for language in entry.languages
    )
    return CorpusError(
        f"{place} lacks {len(names)} of {len(_parts(entry))} parts of {entry.name}: "
        + "; ".join(dict.fromkeys(names)),
        hint=f"looked for {patterns}, {packed}; then for {ready} directly in {place}",
        kind="corpus.incomplete",
    )
