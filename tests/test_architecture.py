"""The package's rooms: who may import whom, and how large and how full a folder may be.

The source is read, nothing of it imported. Every import counts as an arrow, wherever it stands:
at the top of a module, under `if TYPE_CHECKING:` or inside a function. An import inside a
function saves time at the start of a command and is no way round the order of the rooms. The
only exception is `from jtrans import __version__`, which needs nothing but the package itself.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from plugins.folders import REPOSITORY

PACKAGE = REPOSITORY / "jtrans"

# Every room in order, and what it may import: "*" is every room above it in this table.
ROOMS = {
    "errors": "",
    "progress": "",
    "files": "errors",
    "config": "errors files",
    "nn": "errors config",
    "models": "errors config nn",
    "text": "errors files config",
    "corpora": "errors files progress config text",
    "data": "errors files progress config text corpora",
    "preparation": "errors files progress config text corpora data",
    "runs": "errors files progress config text",
    "evaluation": "errors files progress config text",
    "decoding": "errors files progress config nn models text runs evaluation",
    "training": "errors files progress config nn models text data runs evaluation decoding",
    "bench": "*",
    "analysis/study": "*",
    "analysis/figures": "*",
    "analysis/attention": "*",
    "analysis/output": "*",
    "analysis/report": "*",
    "exchange": "errors files progress config nn models text runs",
    "recipes": "",
    "api": "*",
    "cli": "*",
    "__main__": "cli",
    "__init__": "*",
}

# Arrows that are still to be turned, "module -> module" below jtrans. None may be added.
KNOWN_ARROWS: set[str] = set()
# Class names that are still defined more than once. None may be added.
KNOWN_CLASSES = {"Part", "_Job"}

MOST_MODULES = 16
MOST_COMMANDS = 24


def module_name(path: Path) -> str:
    """Return the name below jtrans: `nn.cpu.blocks`; a package has the name of its folder."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {
    module_name(path): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if not path.name.startswith("grammar")  # until the generator has moved out of the package
}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


def imported_names(tree: ast.Module) -> Iterator[str]:
    """Yield what a module imports from jtrans, with the names below jtrans."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (item.name for item in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            yield from (f"{node.module}.{item.name}" for item in node.names)


def imports(name: str) -> set[str]:
    """Return the modules of ours that a module imports."""
    modules = set()
    for imported in imported_names(TREES[name]):
        top, _, below = imported.partition(".")
        if top != "jtrans" or below == "__version__":
            continue
        while below and below not in MODULES:  # a class or a function of a module
            below = below.rpartition(".")[0]
        modules.add(below or "__init__")
    return modules - {name}


ARROWS = {name: imports(name) for name in MODULES}


def room(name: str) -> str:
    """Return the room of a module: its first folder or file, below analysis the second."""
    first, *rest = name.split(".")
    return "/".join([first, *rest[:1]]) if first == "analysis" else first


def rooms_open_to(name: str) -> set[str]:
    """Return the rooms that a room may import."""
    allowed, order = ROOMS[name], list(ROOMS)
    above = order[: order.index(name)]
    return {name, *(above if allowed == "*" else allowed.split())}


def test_every_module_has_a_room() -> None:
    rooms = {room(name) for name in MODULES if MODULES[name] != PACKAGE / "analysis/__init__.py"}
    assert rooms <= ROOMS.keys()


@pytest.mark.parametrize("name", ROOMS)
def test_a_room_may_import_only_rooms_above_it(name: str) -> None:
    order = list(ROOMS)
    above = {*order[: order.index(name) + 1]}
    assert rooms_open_to(name) <= above | ({"cli"} if name == "__main__" else set())


def test_no_arrow_points_upward() -> None:
    upward = {
        f"{name} -> {target}"
        for name, targets in ARROWS.items()
        for target in targets
        if room(target) not in rooms_open_to(room(name))
    }
    assert upward - KNOWN_ARROWS == set()


def test_no_modules_import_each_other_in_a_circle() -> None:
    try:
        TopologicalSorter(ARROWS).prepare()
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


def test_no_class_name_is_defined_twice() -> None:
    counts = Counter(
        node.name for tree in TREES.values() for node in tree.body if isinstance(node, ast.ClassDef)
    )
    twice = {name for name, count in counts.items() if count > 1}
    assert twice - KNOWN_CLASSES == set()
