"""Catalogue entries as data: what a corpus is, where it comes from, and how it is read."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, model_validator

from jtrans.config import ConfigSection, Count, explain_fault

Options = dict[str, str | int | float | bool]
# The formats of `jtrans.corpora.formats.readers`.
ReaderName = Literal["plain", "wit3-tags", "wit3-xml", "sgm", "wmt-xml", "tsv", "tmx", "jsonl"]


class Mirror(ConfigSection):
    """One address of a file."""

    url: str  # https address
    sha256: str = ""  # digest of the file there; empty if not known for certain
    size: int = 0  # bytes of the file there; 0 if unknown

    @property
    def file(self) -> str:
        """The name of the file on disk."""
        return urlsplit(self.url).path.rsplit("/", 1)[-1]


class OriginalFile(ConfigSection):
    """One original file or licensed release."""

    file: str  # its name, or the catalogue number of a licensed release
    mirrors: tuple[Mirror, ...] = ()  # where to get it, best first; none for licensed releases
    title: str = ""  # a description, where the name is not clear

    @property
    def names(self) -> tuple[str, ...]:
        """All names the file may have on disk."""
        return tuple(dict.fromkeys([self.file, *(mirror.file for mirror in self.mirrors)]))


class FileChoice(ConfigSection):
    """One way to read a part of a split."""

    reader: ReaderName  # the format
    source: str  # the ends of source paths, with `*` and `[...]` as in a shell
    target: str = ""  # the ends of target paths; empty if the source file holds both sides
    columns: tuple[int, int] | None = None  # source and target columns of a TSV file, from 0


class SplitPart(ConfigSection):
    """A part of a split's text, read from the first of `choices` whose files exist."""

    # ways to read it; a single choice may be given by keys of the part itself
    choices: Annotated[tuple[FileChoice, ...], Field(min_length=1)]
    # the `OriginalFile` it belongs to, where users need to know (licensed releases)
    origin: str = ""

    @model_validator(mode="before")
    @classmethod
    def _single_choice(cls, values: Any) -> Any:
        if not isinstance(values, dict) or "choices" in values:
            return values
        choice = {key: value for key, value in values.items() if key != "origin"}
        return {"origin": values.get("origin", ""), "choices": [choice]}


class Entry(ConfigSection):
    """One corpus of the catalogue."""

    name: str  # the name that users type
    title: str  # a description in one sentence
    languages: tuple[str, str]  # source and target
    sentences: dict[str, Count]  # published pairs of each split, before cleaning unless noted
    # the least and the most pairs of a complete train split, as shares of those in `sentences`
    train_shares: tuple[float, float] = (0.98, 1.02)
    licence: str  # the licence of its text
    citation: str  # what to cite
    origin: str  # where its text comes from
    options: Options  # default `PrepareOptions`
    sources: tuple[OriginalFile, ...] = ()  # original files; none if its text is built in
    # how the splits are read from them
    parts: dict[str, tuple[SplitPart, ...]] = Field(default_factory=dict)
    # whether its name with the languages swapped (en-de for de-en) is a corpus too
    both_ways: bool = False
    valid_every: Count | None = None  # see `Corpus`
    # sizes of splits to hold out, for a corpus without splits
    hold_out: dict[str, Count] = Field(default_factory=dict)
    # overrides of `options` for text given as train, valid and test files
    ready_options: Options = Field(default_factory=dict)
    is_swapped: bool = False  # whether source and target are swapped, relative to the TOML file

    @property
    def folder(self) -> str:
        """The name of the folder its downloads are in: the same for both directions."""
        return swap_name(self.name) if self.is_swapped else self.name

    @property
    def size(self) -> int:
        """Bytes to download; 0 if there is nothing to download or a size is unknown."""
        sizes = [source.mirrors[0].size if source.mirrors else 0 for source in self.sources]
        return sum(sizes) if all(sizes) else 0

    @property
    def is_licensed(self) -> bool:
        """Whether some of it cannot be downloaded."""
        return any(not source.mirrors for source in self.sources)


def swap_name(name: str) -> str:
    """Swap the two languages at the end of a name: tatoeba-de-en, tatoeba-en-de."""
    stem, source, target = name.rsplit("-", 2)
    return f"{stem}-{target}-{source}"


def read_entry(path: Path) -> Entry:
    """Read an entry from its TOML file, which is named after the corpus.

    Raises:
        ConfigError: a key is unknown or missing, or has an invalid value.
    """
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    try:
        return Entry.model_validate({**table, "name": path.stem})
    except ValidationError as error:
        hint = "the other entries of the catalogue are examples"
        raise explain_fault(error, Entry, where=str(path), hint=hint) from error
