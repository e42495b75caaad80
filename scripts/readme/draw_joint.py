"""Draw the README's picture of the joint representation: data/figures/joint.svg.

python -m scripts.readme.draw_joint
"""

from __future__ import annotations

from pathlib import Path

SOURCE = ["das", "kleine", "Haus", "</s>"]
TARGET = ["</s>", "the", "small", "house"]
OUTPUT = ["the", "small", "house", "</s>"]

CELL, GAP = 46, 10
LEFT, TOP = 150, 118
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#8a8f98"  # colour-blind safe (Okabe and Ito)
LOOKING = (2, 1)  # the cell (target row, source column) whose two attentions are drawn


def place(row: int, column: int) -> tuple[int, int]:
    """Return the upper left corner of a cell."""
    return LEFT + column * (CELL + GAP), TOP + row * (CELL + GAP)


def text(x: float, y: float, words: str, *, kind: str = "", anchor: str = "middle") -> str:
    """Return one line of text."""
    escaped = words.replace("<", "&lt;")
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{kind}">{escaped}</text>'


def cell(row: int, column: int) -> str:
    """Return one cell of the grid: the vector of a (source word, target word) pair."""
    x, y = place(row, column)
    if (row, column) == LOOKING:
        colour, width = "currentColor", 2.5
    elif column == LOOKING[1] and row < LOOKING[0]:
        colour, width = BLUE, 2.0
    elif row == LOOKING[0]:
        colour, width = ORANGE, 2.0
    else:
        colour, width = GREY, 1.0
    bars = "".join(
        f'<rect x="{x + 9 + 8 * k}" y="{y + 33 - height}" width="5" height="{height}" '
        f'fill="{colour}" opacity="0.75"/>'
        for k, height in enumerate(
            10 + (7 * row + 11 * column + 5 * k * (row + 2) + 3 * k * column) % 17 for k in range(4)
        )
    )
    return (
        f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" rx="6" fill="none" '
        f'stroke="{colour}" stroke-width="{width}"/>{bars}'
    )


def arrow(x1: float, y1: float, x2: float, y2: float, colour: str, bend: float = 0) -> str:
    """Return an arrow, bent sideways by `bend`."""
    middle_x, middle_y = (x1 + x2) / 2 + (bend if x1 == x2 else 0), (y1 + y2) / 2
    middle_y += bend if y1 == y2 else 0
    name = "blue" if colour == BLUE else "orange" if colour == ORANGE else "grey"
    return (
        f'<path d="M{x1:g} {y1:g} Q{middle_x:g} {middle_y:g} {x2:g} {y2:g}" fill="none" '
        f'stroke="{colour}" stroke-width="1.8" marker-end="url(#{name})"/>'
    )


def markers() -> str:
    """Return the arrow heads."""
    return "".join(
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" '
        f'markerHeight="6" orient="auto"><path d="M0 0 L8 4 L0 8 Z" fill="{colour}"/></marker>'
        for name, colour in (("blue", BLUE), ("orange", ORANGE), ("grey", GREY))
    )


def attention_arrows() -> list[str]:
    """Return arrows to the cells that the chosen cell attends to: up its column, along its row."""
    row, column = LOOKING
    x, y = place(row, column)
    parts = []
    for earlier in range(row):
        _, top = place(earlier, column)
        bend = 14 + 16 * (row - earlier)
        parts.append(arrow(x + CELL, y + 10, x + CELL, top + CELL - 12, BLUE, bend))
    for other in range(len(SOURCE)):
        if other != column:
            left, _ = place(row, other)
            bend = 12 + 14 * abs(other - column)
            parts.append(arrow(x + CELL / 2, y + CELL, left + CELL / 2, y + CELL, ORANGE, bend))
    return parts


def draw() -> str:
    """Return the whole picture."""
    right, _ = place(0, len(SOURCE))
    parts = [text(40, 36, "one vector per (source word, target word)", kind="h", anchor="start")]
    for column, word in enumerate(SOURCE):
        parts.append(text(place(0, column)[0] + CELL / 2, TOP - 14, word))
    parts.append(text(LEFT - 6, TOP - 44, "source, S", kind="s", anchor="start"))
    parts.append(text(LEFT - 90, TOP - 14, "target, T", kind="s", anchor="middle"))
    for row, word in enumerate(TARGET):
        _, y = place(row, 0)
        parts.append(text(LEFT - 14, y + CELL / 2 + 5, word, anchor="end"))
        parts += [cell(row, column) for column in range(len(SOURCE))]
        parts.append(arrow(right + 4, y + CELL / 2, right + 60, y + CELL / 2, GREY))
        parts.append(text(right + 72, y + CELL / 2 + 5, OUTPUT[row], anchor="start"))
    parts.append(text(right + 32, TOP - 14, "Reduction", kind="s"))
    parts += attention_arrows()
    bottom = place(len(TARGET), 0)[1] + 24
    for line, (colour, words) in enumerate(
        (
            (BLUE, "target attention: along T, earlier words only"),
            (ORANGE, "source attention: along S, all words"),
        )
    ):
        key = text(LEFT - 6, bottom + 22 * line, words, kind="k", anchor="start")
        parts.append(f'<g fill="{colour}">{key}</g>')
    height, width = bottom + 40, right + 160
    style = (
        "text{font:15px system-ui,sans-serif;fill:currentColor}.h{font-weight:600}"
        ".s{font-size:13px;opacity:.7}.k{fill:inherit;font-size:14px}"
        "svg{color:#1b1f24}@media(prefers-color-scheme:dark){svg{color:#e6e8eb}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="The joint representation">'
        f"<style>{style}</style><defs>{markers()}</defs>" + "\n".join(parts) + "</svg>\n"
    )


if __name__ == "__main__":
    target = Path(__file__).resolve().parents[2] / "data" / "figures" / "joint.svg"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(draw(), encoding="utf-8")
