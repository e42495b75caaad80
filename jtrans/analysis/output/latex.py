"""Tables for papers: LaTeX with the rules of the package booktabs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from jtrans.analysis.output.labels import with_signs

_CHARACTERS = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",  # as it stands, the default encoding prints an upside-down ! instead
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\symbol{34}",  # babel gives it a meaning in some languages
        "±": r"$\pm$",
        "×": r"$\times$",
        "≤": r"$\leq$",
        "−": "$-$",
        "→": r"$\to$",
        "↓": r"$\downarrow$",
        "…": r"\dots{}",
    }
)
_LIGATURES = re.compile("(?<=[-'`,?!])(?=[-'`,])")  # between characters that may print as one


def escape(text: str) -> str:
    """Return a text that LaTeX prints as it is, on one line, with mathematical signs in numbers."""
    text = _LIGATURES.sub("{}", with_signs(text).translate(_CHARACTERS)).replace("–", "--")
    return " ".join(text.split())


def latex_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Iterable[str],
    notes: Iterable[str],
) -> str:
    """Return a `tabular`.

    Args:
        columns: headings.
        rows: cells as text; one that begins with spaces is indented.
        right: the headings of right-aligned columns.
        notes: lines below the table, as comments.
    """
    sides = "".join("r" if column in set(right) else "l" for column in columns)
    return "\n".join(
        [
            r"% in the preamble: \usepackage{booktabs}",
            rf"\begin{{tabular}}{{{sides}}}",
            r"\toprule",
            _row(columns),
            r"\midrule",
            *map(_row, rows),
            r"\bottomrule",
            r"\end{tabular}",
            *(f"% {' '.join(note.split())}" for note in notes),
            "",
        ]
    )


def _row(cells: Sequence[str]) -> str:
    line = " & ".join(r"\quad " * cell.startswith(" ") + escape(cell) for cell in cells)
    # \\ in the line above would take a star or a bracket for its own argument
    return ("{}" if line.startswith(("*", "[")) else "") + line.rstrip() + r" \\"
