"""XML read as a stream: no other file is opened, no entity is expanded, no character is lost."""

from __future__ import annotations

import html.entities
import re
from pathlib import Path
from typing import Any
from xml.parsers import expat

from jtrans.corpora.packed import read_chunks
from jtrans.errors import CorpusError

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

    parser = expat.ParserCreate()
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
        for number, chunk in enumerate(read_chunks(path)):
            # the claim to be standalone forbids undeclared entities
            parser.Parse(chunk if number else _STANDALONE.sub(rb"\1", chunk, count=1))
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise CorpusError(
            f"{path} is not well-formed XML: {error}",
            where=f"{path}:{error.lineno}",
            hint="get the file again",
            kind="corpus.xml",
        ) from error


def fits_language(language: str, tag: str) -> bool:
    """Return whether text tagged `tag` is of `language`: "de" includes "de-AT", "zh-CN" "zh"."""
    wanted, tagged = (name.lower().replace("_", "-") for name in (language, tag))
    return wanted == tagged or tagged.startswith(f"{wanted}-") or wanted.startswith(f"{tagged}-")
