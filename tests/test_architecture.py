"""The package's rooms: who may import whom, and how full a folder may be.

The rooms, their order and what each may import are the table of docs/architecture.md. The source
is read, nothing of it imported. Every import counts as an arrow, wherever it stands: at the top
of a module, under `if TYPE_CHECKING:` or inside a function. An import inside a function saves
time at the start of a command and is no way round the order of the rooms. The only exception is
`from jtrans import __version__`, which needs nothing but the package itself.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from plugins.folders import REPOSITORY

PACKAGE = REPOSITORY / "jtrans"

MOST_MODULES = 16
MOST_COMMANDS = 25
MOST_LINES = 64_953


def read_rooms(document: Path) -> dict[str, list[str]]:
    """Return every room in order with the rooms that it may import."""
    text = document.read_text(encoding="utf-8")
    table = text.partition("| room | contents | may import |\n")[2].partition("\n\n")[0]
    rooms: dict[str, list[str]] = {}
    for line in table.splitlines()[1:]:
        name, _, allowed = (cell.strip() for cell in line.strip("|").split("|"))
        rooms[name.strip("`")] = list(rooms) if allowed == "all above" else allowed.split()
    return rooms


ROOMS = read_rooms(REPOSITORY / "docs" / "architecture.md")


def module_name(path: Path) -> str:
    """Return the name below jtrans: `nn.cpu.blocks`; a package has the name of its folder."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imported_names(tree: ast.Module) -> Iterator[str]:
    """Yield what a module imports from jtrans, with the names below jtrans."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (item.name for item in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            yield from (f"{node.module}.{item.name}" for item in node.names)


def imports(name: str, tree: ast.Module) -> set[str]:
    """Return the modules of ours that a module imports."""
    modules = set()
    for imported in imported_names(tree):
        top, _, below = imported.partition(".")
        if top != "jtrans" or below == "__version__":
            continue
        while below and below not in MODULES:  # a class or a function of a module
            below = below.rpartition(".")[0]
        modules.add(below or "__init__")
    return modules - {name}


@cache
def read_package() -> tuple[dict[str, set[str]], Counter[str]]:
    """Return the imports of every module, and how often each name of a class is defined."""
    arrows, classes = {}, Counter[str]()
    for name, path in MODULES.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        arrows[name] = imports(name, tree)
        classes.update(node.name for node in tree.body if isinstance(node, ast.ClassDef))
    return arrows, classes  # without the trees, which are large


def room(name: str) -> str:
    """Return the room of a module: its first folder or file, below analysis the second."""
    first, *rest = name.split(".")
    return "/".join([first, *rest[:1]]) if first == "analysis" else first


def test_every_module_has_a_room() -> None:
    rooms = {room(name) for name in MODULES if MODULES[name] != PACKAGE / "analysis/__init__.py"}
    assert rooms <= ROOMS.keys()


@pytest.mark.parametrize("name", ROOMS)
def test_a_room_may_import_only_rooms_above_it(name: str) -> None:
    order = list(ROOMS)
    assert set(ROOMS[name]) <= set(order[: order.index(name)])


def test_no_arrow_points_upward() -> None:
    arrows, _ = read_package()
    upward = {
        f"{name} -> {target}"
        for name, targets in arrows.items()
        for target in targets
        if room(target) not in (room(name), *ROOMS[room(name)])
    }
    assert upward == set()


def test_the_map_names_no_arrow_that_is_not_there() -> None:
    arrows, _ = read_package()
    drawn = {(room(name), room(target)) for name, targets in arrows.items() for target in targets}
    order = list(ROOMS)
    chosen = [name for name in order if ROOMS[name] != order[: order.index(name)]]  # not all above
    listed = {(name, target) for name in chosen for target in ROOMS[name]}
    assert listed - drawn == set()


def test_no_modules_import_each_other_in_a_circle() -> None:
    try:
        TopologicalSorter(read_package()[0]).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_no_folder_is_crowded() -> None:
    modules = [path for path in MODULES.values() if path.name != "__init__.py"]
    counts = Counter(path.parent.relative_to(PACKAGE) for path in modules)
    crowded = {
        str(folder): count
        for folder, count in counts.items()
        if count > (MOST_COMMANDS if folder == Path("cli") else MOST_MODULES)
    }
    assert crowded == {}


def test_the_package_stays_small() -> None:
    lines = sum(path.read_text(encoding="utf-8").count("\n") for path in MODULES.values())
    assert lines <= MOST_LINES


def test_no_class_name_is_defined_twice() -> None:
    _, counts = read_package()
    twice = {name for name, count in counts.items() if count > 1}
    assert twice == set()
