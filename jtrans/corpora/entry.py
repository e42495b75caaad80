"""One entry of the catalogue as data: what a corpus is, where it comes from, how it is read."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from jtrans.corpora.parallel import Corpus
from jtrans.errors import InternalError

Options = Mapping[str, str | int | float | bool]


@dataclass(frozen=True)
class Mirror:
    """One address of a file.

    Attributes:
        url: https address.
        sha256: of the file there; empty where not known for certain.
        size: bytes of the file there; 0 where not known.
    """

    url: str
    sha256: str = ""
    size: int = 0

    @property
    def file(self) -> str:
        """The name of the file on disk."""
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Source:
    """One original file or licensed release.

    Attributes:
        file: its name, or the catalogue number of a licensed release.
        mirrors: where to get it, best first; none for licensed releases.
        title: what it is, where the name does not say.
    """

    file: str
    mirrors: tuple[Mirror, ...] = ()
    title: str = ""

    @property
    def size(self) -> int:
        """Bytes to download; 0 where not known."""
        return self.mirrors[0].size if self.mirrors else 0

    @property
    def names(self) -> tuple[str, ...]:
        """All names the file may have on disk."""
        return tuple(dict.fromkeys([self.file, *(mirror.file for mirror in self.mirrors)]))


@dataclass(frozen=True)
class Choice:
    """One way to read a part of a split.

    Attributes:
        reader: a name of `jtrans.corpora.formats.readers.READERS`.
        source: ends of paths of the source files, `*` and `[...]` as in a shell.
        target: the same for target files; empty where the source file holds both sides.
        columns: of a TSV file, source and target.
    """

    reader: str
    source: str
    target: str = ""
    columns: tuple[int, int] | None = None


@dataclass(frozen=True)
class Part:
    """Some of the text of a split: the first of `choices` whose files are there.

    Attributes:
        choices: ways to read it.
        origin: the `Source` it belongs to, where users must know (licensed releases).
    """

    choices: tuple[Choice, ...]
    origin: str = ""


@dataclass(frozen=True)
class Entry:
    """One corpus of the catalogue.

    Attributes:
        name: what users type.
        title: what it is, in one sentence.
        languages: source and target.
        sentences: pairs of each split, before cleaning.
        licence: under which its text may be used.
        citation: what to cite.
        origin: where its text comes from.
        options: how it is prepared by default, as `PrepareOptions` names them.
        load: delivers the raw text, from the network where it is not here yet.
        sources: original files.
        parts: how the splits are read from them.
        both_ways: whether its name turned round (en-de for de-en) is a corpus too.
        valid_every: see `Corpus`.
        hold_out: sizes of splits to set aside, for a corpus that comes as one piece.
        ready_options: what differs in `options` for text given as train, valid and test files.
        turned: whether source and target are exchanged against the entry that was written down.
    """

    name: str
    title: str
    languages: tuple[str, str]
    sentences: Mapping[str, int]
    licence: str
    citation: str
    origin: str
    options: Options
    load: Callable[[], Corpus]
    sources: tuple[Source, ...] = ()
    parts: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)
    both_ways: bool = False
    valid_every: int | None = None
    hold_out: Mapping[str, int] = field(default_factory=dict)
    ready_options: Options = field(default_factory=dict)
    turned: bool = False

    @property
    def folder(self) -> str:
        """The name of the folder its downloads are in: the same for both directions."""
        return turn_name(self.name) if self.turned else self.name

    @property
    def size(self) -> int:
        """Bytes to download; 0 where nothing is, or not all sizes are known."""
        sizes = [source.size for source in self.sources]
        return sum(sizes) if all(sizes) else 0

    @property
    def is_licensed(self) -> bool:
        """Whether some of it cannot be downloaded."""
        return any(not source.mirrors for source in self.sources)


def turn_name(name: str) -> str:
    """Exchange the two languages at the end of a name: tatoeba-de-en, tatoeba-en-de."""
    stem, source, target = name.rsplit("-", 2)
    return f"{stem}-{target}-{source}"


def turn_options(options: Options) -> dict[str, str | int | float | bool]:
    """Exchange what belongs to one side."""
    exchanged = {"source_segment": "target_segment", "target_segment": "source_segment"}
    return {exchanged.get(name, name): value for name, value in options.items()}


def read_entry(path: Path, load: Callable[[], Corpus]) -> Entry:
    """Read an entry from its TOML file, which is named after the corpus."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    known = {item.name for item in fields(Entry)} - {"name", "load", "turned"}
    if unknown := set(table) - known:
        raise InternalError(f"{path.name}: unknown keys {', '.join(sorted(unknown))}")
    table["languages"] = tuple(table["languages"])
    table["sources"] = tuple(_source(**item) for item in table.get("sources", []))
    table["parts"] = {
        split: tuple(_part(dict(part)) for part in parts)
        for split, parts in table.get("parts", {}).items()
    }
    return Entry(name=path.stem, load=load, **table)


def _source(*, mirrors: list[dict[str, Any]] | None = None, **rest: Any) -> Source:
    return Source(mirrors=tuple(Mirror(**mirror) for mirror in mirrors or []), **rest)


def _part(table: dict[str, Any]) -> Part:
    origin = table.pop("origin", "")
    choices = table.pop("choices", None) or [table]
    return Part(tuple(_choice(dict(choice)) for choice in choices), origin)


def _choice(table: dict[str, Any]) -> Choice:
    columns = table.pop("columns", None)
    return Choice(columns=tuple(columns) if columns else None, **table)
