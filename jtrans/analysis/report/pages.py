"""Render templates to one self-contained page with style, script and data."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from jtrans import __version__
from jtrans.analysis.output.labels import with_signs
from jtrans.analysis.output.scales import COLOURS, DARK_COLOURS, TEXT_COLOURS

TEMPLATES = Path(__file__).parent / "templates"
PART_ENDS = re.compile(r"((?<=[/_])|(?<=\d\.))(?=[^\W\d_])")  # before letters of a next part


def render(template: str, **values: Any) -> str:
    """Return a page; its template also gets `css`, `script` and `version`."""
    environment = _environment()
    palette = list(zip(COLOURS, TEXT_COLOURS, DARK_COLOURS, strict=True))
    colours = environment.get_template("colours.css").render(palette=palette)
    css = Markup(_read("page.css") + colours)
    script = Markup(_read("explorer.js"))
    page = environment.get_template(template)
    return page.render(css=css, script=script, version=__version__, **values) + "\n"


def fragment(template: str, **values: Any) -> Markup:
    """Return a part of a page."""
    return Markup(_environment().get_template(template).render(**values))


def json_for_page(value: Any) -> Markup:
    """Return JSON that is safe inside a script element: no text can end the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def breakable(text: str) -> Markup:
    """Return a text as HTML that may break within names, as after the 2 of decoder.2.cross."""
    return Markup(PART_ENDS.sub("<wbr>", escape(text)))


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES, encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
    )
    environment.filters["json_for_page"] = json_for_page
    environment.filters["breakable"] = breakable
    environment.filters["with_signs"] = with_signs
    return environment


def _read(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
