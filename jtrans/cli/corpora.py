"""`jtrans corpora`: the catalogue of corpora for `jtrans prepare NAME`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.cli import completion, console
from jtrans.cli.options import JSON, argument
from jtrans.cli.prepare import as_options
from jtrans.cli.tables import print_table
from jtrans.data import PREPARED

if TYPE_CHECKING:
    from jtrans.corpora.download.store import Download
    from jtrans.corpora.entry import Entry, OriginalFile, SplitPart


def corpora(
    name: str | None = argument("NAME", "Show details of this corpus.", None, completion.corpora),
    as_json: bool = JSON,
) -> None:
    """List the corpora for `jtrans prepare NAME`, or show the details of one.

    [bold]Examples[/bold]

    jtrans corpora

    jtrans corpora iwslt14-de-en
    """
    from jtrans.corpora.catalogue.load import CATALOGUE, find_entry
    from jtrans.corpora.entry import swap_name

    if name is not None:
        entry = find_entry(name)
        if as_json:
            console.print_json(_as_json(entry))
            return
        print_table(["corpus", entry.name], _details(entry))
        place = " --from FOLDER" if entry.is_licensed else ""
        console.next_step(f"jtrans prepare {entry.name}{place}")
        return
    entries = list(CATALOGUE.values())
    if as_json:
        console.print_json({"corpora": [_as_json(entry) for entry in entries]})
        return
    columns = ["corpus", "sentences", "download", "here", "licence", "description"]
    print_table(columns, [_row(entry) for entry in entries], right=columns[1:3])
    one_way = [entry.name for entry in entries if not entry.both_ways]
    example = next(entry.name for entry in entries if entry.both_ways)
    console.talk(
        f"Each is available in the other direction, too ({example}: {swap_name(example)}), "
        f"except {', '.join(one_way)}."
    )
    console.next_step(f"jtrans prepare {entries[0].name}")


def _row(entry: Entry) -> list[str]:
    return [
        entry.name,
        f"{sum(entry.sentences.values()):,}",
        _download_size(entry),
        _here(entry),
        re.split(r" \(|[,;]", entry.licence)[0],  # in full: jtrans corpora NAME
        entry.title,
    ]


def _download_size(entry: Entry) -> str:
    if not entry.sources:
        return "built in"
    if entry.is_licensed:
        return "licensed"
    return f"{entry.size / 1e6:,.0f} MB" if entry.size else "unknown"


def _here(entry: Entry) -> str:
    if _prepared(entry):
        return "prepared"
    paths = [_downloaded(entry, source) for source in entry.sources]
    return f"{sum(map(bool, paths))} of {len(paths)} files" if any(paths) else ""


def _prepared(entry: Entry) -> Path | None:
    folder = PREPARED / entry.name
    return folder if (folder / "corpus.json").is_file() else None


def _downloaded(entry: Entry, source: OriginalFile) -> Download | None:
    from jtrans.corpora.download.store import Store

    return Store.of(entry.folder).find(source)


def _details(entry: Entry) -> list[list[str]]:
    from jtrans.corpora.entry import swap_name

    sentences = " · ".join(f"{split} {count:,}" for split, count in entry.sentences.items())
    rows = [
        ["description", entry.title],
        ["languages", "-".join(entry.languages)],
        ["sentences", sentences],
        ["origin", entry.origin],
        ["licence", entry.licence],
        ["citation", entry.citation],
        ["prepared with", as_options(entry.options)],
        ["download", _download_size(entry)],
        ["here", str(_prepared(entry) or _here(entry) or "nothing yet")],
    ]
    if entry.both_ways:
        rows.insert(2, ["other direction", swap_name(entry.name)])
    for source in entry.sources:
        rows += _source_rows(entry, source)
    for split, parts in entry.parts.items():
        rows += [[f"{split} from", _read_from(part)] for part in parts]
    return rows


def _read_from(part: SplitPart) -> str:
    """Return the files that a part of a split is read from, by the ends of their paths."""
    files = [
        f"{choice.source} and {choice.target}" if choice.target else choice.source
        for choice in part.choices
    ]
    readers = dict.fromkeys(choice.reader for choice in part.choices)
    return f"{' or '.join(files)} ({' or '.join(readers)})"


def _source_rows(entry: Entry, source: OriginalFile) -> list[list[str]]:
    """Return rows with a file's mirrors, checksums, and local path if it is downloaded."""
    rows = [["file", f"{source.file}{f': {source.title}' if source.title else ''}"]]
    for mirror in source.mirrors:
        size = f" ({mirror.size:,} bytes)" if mirror.size else ""
        rows.append(["  from", f"{mirror.url}{size}"])
        checksum = mirror.sha256 or "unknown: the first download records it"
        rows.append(["  sha256", checksum])
    if download := _downloaded(entry, source):
        rows.append(["  here", f"{download.path} (sha256 {download.record.sha256})"])
    return rows


def _as_json(entry: Entry) -> dict[str, Any]:
    from jtrans.corpora.entry import swap_name

    prepared = _prepared(entry)
    names = {"name", "title", "languages", "sentences", "origin", "licence", "citation", "options"}
    return {
        **entry.model_dump(mode="json", include=names),
        "turned_round": swap_name(entry.name) if entry.both_ways else None,
        "download_bytes": entry.size or None,
        "sources": [_source_as_json(entry, source) for source in entry.sources],
        "parts": {
            split: [[choice.model_dump(mode="json") for choice in part.choices] for part in parts]
            for split, parts in entry.parts.items()
        },
        "prepared": str(prepared) if prepared else None,
    }


def _source_as_json(entry: Entry, source: OriginalFile) -> dict[str, Any]:
    download = _downloaded(entry, source)
    return {
        "file": source.file,
        "title": source.title,
        "mirrors": [
            {"url": mirror.url, "sha256": mirror.sha256 or None, "bytes": mirror.size or None}
            for mirror in source.mirrors
        ],
        "here": str(download.path) if download else None,
        "sha256_here": download.record.sha256 if download else None,
    }
