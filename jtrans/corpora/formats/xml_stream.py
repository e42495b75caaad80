"""XML read as a stream: no other file is opened, no entity is expanded, no character is lost."""

from __future__ import annotations

import codecs
import html.entities
import itertools
import re
from pathlib import Path
from typing import Any
from xml.parsers import expat

from jtrans.errors import CorpusError
from jtrans.files.packed import fed_to, read_chunks

_ENCODING = re.compile(
    rb"""(?:\xef\xbb\xbf)?<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._-]+)["']"""
)
_STANDALONE = re.compile(rb"""(<\?xml[^>]*?)\s+standalone\s*=\s*(?:"yes"|'yes')""")


def read_xml_stream(path: Path, handler: Any) -> None:
    """Parse a file, plain or packed, for a handler with the methods `start`, `data` and `end`.

    HTML entities (`&nbsp;`), which XML does not define, become their characters; unknown entities
    stay as they are written.

    Raises:
        CorpusError: the file cannot be read, is not XML, or declares entities.
    """

    def refuse_entity(name: str, *_rest: object) -> None:
        raise CorpusError(
            f"{path} declares the entity {name}: entities can read other files or "
            "exhaust memory, so it is refused",
            hint="remove the declarations between [ and ] at the beginning of the file",
            kind="corpus.entities",
        )

    def undeclared_entity(name: str, is_parameter: bool) -> None:
        if not is_parameter:
            handler.data(html.entities.html5.get(f"{name};", f"&{name};"))

    chunks = read_chunks(path)
    first = next(chunks, b"")
    # standalone="yes" would make undeclared entities an error
    first = _STANDALONE.sub(rb"\1", first, count=1)
    parser = expat.ParserCreate("utf-8" if _is_utf8(first) else None)
    parser.buffer_text = True
    # as if the file had a document type: without one, an undeclared entity ends the parsing
    parser.UseForeignDTD(True)
    parser.StartElementHandler = handler.start
    parser.EndElementHandler = handler.end
    parser.CharacterDataHandler = handler.data
    parser.SkippedEntityHandler = undeclared_entity
    # entities let an XML file read other files and exhaust memory; no corpus needs them
    parser.EntityDeclHandler = refuse_entity
    try:
        for chunk in itertools.chain([first], chunks):
            parser.Parse(chunk)
        parser.Parse(b"", True)
    except (ValueError, LookupError) as error:
        iconv = fed_to("iconv -f ENCODING -t UTF-8", path)
        raise CorpusError(
            f"{path} declares an encoding that cannot be read: {error}",
            hint=f"convert it, {iconv} > NEW, and declare encoding='UTF-8' in its first line",
            kind="corpus.xml",
        ) from error
    except expat.ExpatError as error:
        raise CorpusError(
            f"{path} is not well-formed XML: {error}",
            where=f"{path}:{error.lineno}",
            hint="get the file again",
            kind="corpus.xml",
        ) from error


def _is_utf8(beginning: bytes) -> bool:
    """Return whether a file declares UTF-8 by any of its names; expat accepts only one of them."""
    declared = _ENCODING.match(beginning)
    try:
        return declared is not None and codecs.lookup(declared[1].decode("ascii")).name == "utf-8"
    except LookupError:
        return False
