"""`jtrans corpora`: the catalogue of corpora that `jtrans prepare NAME` knows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtrans.cli import console
from jtrans.cli.options import Json

if TYPE_CHECKING:
    from jtrans.corpora.catalogue import Entry


def corpora(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show all about this corpus.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the corpora that `jtrans prepare NAME` knows, or show one.

    [bold]Examples[/bold]

      jtrans corpora

      jtrans corpora grammar-de-en
    """
    from jtrans.corpora.catalogue import CATALOGUE, find_entry

    if name is not None:
        entry = find_entry(name)
        if as_json:
            console.print_json(_as_json(entry))
            return
        console.print_table(["corpus", entry.name], _details(entry))
        console.next_step(f"jtrans prepare {entry.name}")
        return
    entries = list(CATALOGUE.values())
    if as_json:
        console.print_json({"corpora": [_as_json(entry) for entry in entries]})
        return
    columns = ["corpus", "languages", "sentences", "licence", "here", "what it is"]
    console.print_table(columns, [_row(entry) for entry in entries], right=["sentences"])
    console.next_step(f"jtrans prepare {entries[0].name}")


def _row(entry: Entry) -> list[str]:
    return [
        entry.name,
        "-".join(entry.languages),
        f"{sum(entry.sentences.values()):,}",
        entry.licence,
        "prepared" if _is_here(entry) else "",
        entry.title,
    ]


def _default_folder(entry: Entry) -> Path:
    return Path("data/prepared") / entry.name


def _is_here(entry: Entry) -> bool:
    return (_default_folder(entry) / "corpus.json").is_file()


def _details(entry: Entry) -> list[list[str]]:
    sentences = " · ".join(f"{split} {count:,}" for split, count in entry.sentences.items())
    options = ", ".join(f"{key} = {value}" for key, value in entry.options.items())
    return [
        ["what it is", entry.title],
        ["languages", "-".join(entry.languages)],
        ["sentences", sentences],
        ["origin", entry.origin],
        ["licence", entry.licence],
        ["citation", entry.citation],
        ["prepared with", options],
        ["here", str(_default_folder(entry)) if _is_here(entry) else "not prepared yet"],
    ]


def _as_json(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "title": entry.title,
        "languages": list(entry.languages),
        "sentences": dict(entry.sentences),
        "origin": entry.origin,
        "licence": entry.licence,
        "citation": entry.citation,
        "options": dict(entry.options),
        "prepared": str(_default_folder(entry)) if _is_here(entry) else None,
    }
