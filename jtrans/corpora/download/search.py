"""Finding the files of a corpus among a user's folders and unpacked archives."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jtrans.corpora.entry import Entry, FileChoice, SplitPart
from jtrans.errors import CorpusError
from jtrans.files.packed import find_packed, without_packing

# Original files are a few folders deep; a disk named by mistake is not searched.
DEEPEST = 8
MOST_ENTRIES = 100_000  # files and folders
READY_NAMES = {"train": ("train",), "valid": ("valid", "val", "dev"), "test": ("test",)}


@dataclass(frozen=True)
class PartFiles:
    """The source and target files of one part of a split, sorted, and how they are read."""

    choice: FileChoice
    sources: list[Path]
    targets: list[Path]

    @property
    def paths(self) -> list[Path]:
        """The files of both sides."""
        return [*self.sources, *self.targets]


# The files below a folder, the least deep first, each with its path relative to the parent folder.
FileTree = list[tuple[Path, str]]


def find_part(folders: Sequence[FileTree], part: SplitPart) -> PartFiles | None:
    """Return the files of the first choice whose files all exist, preferably in one folder.

    A folder may hold several corpora, with a file of the same name in each.
    """
    for choice in part.choices:
        for files in folders:
            if found := _find_together(files, choice) or _find_choice([files], choice):
                return found
        if found := _find_choice(folders, choice):
            return found
    return None


def _find_together(files: FileTree, choice: FileChoice) -> PartFiles | None:
    """Return the least deep source and target in one folder, for a choice of two single files."""
    source, target = choice.source, choice.target
    if not (target and _is_single(source) and _is_single(target)):
        return None
    targets = _matches(files, target)
    for name, path in _matches(files, source).items():
        other = targets.get(f"{name.removesuffix(source.lower())}{target.lower()}")
        if other is not None:
            return PartFiles(choice, [path], [other])
    return None


def _find_choice(folders: Sequence[FileTree], choice: FileChoice) -> PartFiles | None:
    sources = _find(folders, choice.source)
    targets = _find(folders, choice.target) if choice.target else []
    is_complete = sources and (targets or not choice.target)
    return PartFiles(choice, sources, targets) if is_complete else None


def _find(folders: Sequence[FileTree], pattern: str) -> list[Path]:
    """Return the files whose path ends in `pattern`, packed or not, sorted by path.

    Case is ignored. The first folder with a match gives all files; a pattern without `*`, `?`
    and `[` returns only the one that is least deep. A file that exists both packed and unpacked
    counts once.
    """
    for files in folders:
        if matches := _matches(files, pattern):
            paths = [matches[name] for name in sorted(matches)]
            return list(matches.values())[:1] if _is_single(pattern) else paths
    return []


def _matches(files: FileTree, pattern: str) -> dict[str, Path]:
    """Return the matching files, least deep first, by lower-case path without .gz, .xz, .zst."""
    matches: dict[str, Path] = {}
    for path, name in files:
        if fits(name, pattern):
            matches.setdefault(without_packing(name.lower()), path)
    return matches


def _is_single(pattern: str) -> bool:
    return not set("*?[") & set(pattern)


def fits(name: str, pattern: str) -> bool:
    """Return whether the path `name`, packed or not, ends in `pattern`; case is ignored."""
    return fnmatch.fnmatchcase(without_packing(f"/{name}".lower()), f"*/{pattern.lower()}")


def find_ready(entry: Entry, folder: Path) -> dict[str, tuple[Path, Path]]:
    """Find train.de, train.en, valid.de ... directly in `folder`, packed or not.

    Returns:
        The two files of each split; empty unless there are train and valid.
    """
    ready: dict[str, tuple[Path, Path]] = {}
    for split, names in READY_NAMES.items():
        for name in names:
            source, target = (find_packed(folder / f"{name}.{end}") for end in entry.languages)
            if source and target and split not in ready:
                ready[split] = (source, target)
    return ready if {"train", "valid"} <= set(ready) else {}


def list_files(folder: Path) -> FileTree:
    """List the files of a folder, except in hidden folders and below `DEEPEST` levels.

    Raises:
        CorpusError: the folder is a whole disk, or holds more than `MOST_ENTRIES`.
    """
    full = folder.resolve()
    if full == full.parent:
        raise _too_large(f"{folder} is a whole disk")
    paths: FileTree = []
    top, entries = len(folder.parts), 0
    for parent, folders, files in os.walk(folder):
        inner = Path(parent)
        entries += len(folders) + len(files)
        if entries > MOST_ENTRIES:
            raise _too_large(f"{folder} holds more than {MOST_ENTRIES:,} files and folders")
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if len(inner.parts) - top >= DEEPEST:
            folders.clear()
        for name in sorted(files):
            path = inner / name
            paths.append((path, path.relative_to(folder.parent).as_posix()))
    return sorted(paths, key=lambda item: len(item[0].parts))


def _too_large(message: str) -> CorpusError:
    return CorpusError(
        message,
        hint="name the folder that holds the original files of the corpus",
        kind="corpus.too-many-files",
    )
