"""Names of files as text, and hints for wrong ones."""

from __future__ import annotations

from pathlib import Path

from jtrans.errors import did_you_mean


def as_text(name: str) -> str:
    """Return a file's name as valid Unicode text; bytes that are not UTF-8 are escaped."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def path_hint(path: Path) -> str:
    """Return a hint for a file that cannot be opened, such as the nearest name in its folder."""
    folder = path.parent
    if path.exists():
        return "check the path and its read permission"
    if str(path) == "-":
        return "standard input is not read here: name a file, or in bash <(COMMAND)"
    if not folder.is_dir():
        return f"there is no folder {folder}: check the path"
    try:
        names = [entry.name for entry in folder.iterdir() if entry.is_file()]
    except OSError:
        names = []
    near = did_you_mean(path.name, names)
    if near:
        return f"did you mean {folder / near}?"
    return f"check the path: {folder.absolute()} has no file with a similar name"
