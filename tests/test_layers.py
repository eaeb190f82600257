"""The house: who may import whom."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import chakrakit
from support.paths import ROOT

SOURCE = Path(chakrakit.__file__).parent
LAYERS = [
    {"errors", "arrays", "late_names", "start_up", "patterns"},
    {"operators"},
    {"results"},
    {"configuration"},
    {"parallel"},
    {"trace"},
    {"machines"},
    {"sources", "workloads", "passes"},
    {"simulator", "replayer"},
    {"serving"},
    {"insight"},
    {"exploration"},
    {"campaigns"},
    {"published"},
    {"views"},
    {"commands"},
    {"__main__"},
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
COMPILED = "chakrakit.core"
RUNNER = SOURCE / "replayer" / "runner"
"""Copied to machines without chakrakit, so it names its own files relatively and nothing else."""


def module_of(file: Path) -> str:
    """The dotted name of a source file."""
    parts = ("chakrakit", *file.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


MODULES = {module_of(f): f for f in files()}


def is_package(module: str) -> bool:
    return module in MODULES and MODULES[module].name == "__init__.py"


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


@cache
def nodes_of(file: Path) -> tuple[ast.AST, ...]:
    """Everything in a source file."""
    return tuple(ast.walk(tree_of(file)))


@cache
def imports(file: Path) -> tuple[tuple[str, str], ...]:
    """What a file imports, wherever in it: (module, name in it or "")."""
    return tuple(_imports(file))


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements and all that stand inside them: a twentieth of what a tree holds, and all that imports."""
    for statement in body:
        yield statement
        for field in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, field, ()))
        for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield from _statements(part.body)


def _imports(file: Path) -> Iterator[tuple[str, str]]:
    for node in _statements(tree_of(file).body):
        if isinstance(node, ast.Import):
            yield from ((a.name, "") for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((_absolute(file, node), a.name) for a in node.names)


def _absolute(file: Path, node: ast.ImportFrom) -> str:
    """The module an import names, with one dot for the file's own folder and one more for each above."""
    if not node.level:
        return node.module or ""
    home = module_of(file.parents[node.level - 1] / "__init__.py")
    return f"{home}.{node.module}" if node.module else home


def target(module: str, name: str) -> str:
    """The module an import reaches: `from room import module` reaches the module."""
    return f"{module}.{name}" if f"{module}.{name}" in MODULES else module


def room_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "chakrakit" and len(parts) > 1 else None


def package_of(module: str) -> str:
    return module if is_package(module) else module.rpartition(".")[0]


def inner_imports() -> Iterator[tuple[str, str, str]]:
    """Every import of the package's own modules: (importing, module, name)."""
    for module, file in MODULES.items():
        for imported, name in imports(file):
            if imported.split(".")[0] == "chakrakit" and not imported.startswith(COMPILED):
                yield module, imported, name


def test_every_room_has_a_layer() -> None:
    rooms = {room_of(m) for m in MODULES} - {None}
    assert rooms - LEVEL.keys() == set()


def test_rooms_import_only_from_below() -> None:
    wrong = []
    for module, imported, name in inner_imports():
        room, other = room_of(module), room_of(target(imported, name))
        if room is None or other in (None, room):
            continue
        if LEVEL[other or ""] >= LEVEL[room]:
            wrong.append(f"{module} imports {imported}")
    assert wrong == []


def is_near(module: str, imported: str) -> bool:
    """Whether a module lies beside another, or beside one of the folders it is in, within their room."""
    home = package_of(imported)
    return home != "chakrakit" and f"{package_of(module)}.".startswith(f"{home}.")


def test_other_rooms_are_reached_through_their_face() -> None:
    """A module of another folder is imported through that folder's `__init__.py` and no deeper.

    The runner's folders are one room: they are copied and checked as a whole.
    """
    wrong, runner = [], module_of(RUNNER / "__init__.py")
    for module, imported, name in inner_imports():
        if module == "chakrakit" or is_near(module, imported):
            continue
        if module.startswith(f"{runner}.") and imported.startswith(f"{runner}."):
            continue
        if not is_package(imported) and "." in imported.removeprefix("chakrakit."):
            wrong.append(f"{module} imports {imported} ({name})")
    assert wrong == []


def test_a_face_lists_what_others_import_from_it() -> None:
    pytest.importorskip("torch", reason="some rooms need it")
    wrong = []
    for module, imported, name in inner_imports():
        if not is_package(imported) or package_of(module) == imported or imported == "chakrakit":
            continue
        if is_near(module, imported) and f"{imported}.{name}" in MODULES:
            continue
        face = __import__(imported, fromlist=["__all__"])
        if name not in getattr(face, "__all__", ()) and not is_package(f"{imported}.{name}"):
            wrong.append(f"{module}: {imported} does not list {name}")
    assert wrong == []


def test_no_private_name_is_imported() -> None:
    wrong = [
        f"{module}: {imported}.{name}"
        for module, imported, name in inner_imports()
        if any(p.startswith("_") and p != "__version__" for p in (*imported.split("."), name))
    ]
    assert wrong == []


def graph() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {m: set() for m in MODULES}
    for module, imported, name in inner_imports():
        reached = target(imported, name)
        if reached in MODULES and reached not in (module, "chakrakit"):
            found[module].add(reached)
    return found


def test_there_is_no_import_cycle_even_among_lazy_imports() -> None:
    """Faces and the modules behind them, imports inside functions and for types included."""
    edges, done, path = graph(), set(), []

    def visit(module: str) -> None:
        assert module not in path, " → ".join([*path[path.index(module) :], module])
        if module not in done:
            path.append(module)
            for other in sorted(edges[module]):
                visit(other)
            path.pop()
            done.add(module)

    for module in edges:
        visit(module)


def test_no_room_has_the_name_of_a_public_function() -> None:
    rooms = {room_of(m) for m in MODULES}
    assert rooms & set(chakrakit.__all__) == set()


def test_the_rule_sees_an_import_that_breaks_it(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text(
        "def f():\n    from chakrakit.commands import main\n    import chakrakit.views.web"
    )
    assert [room_of(m) for m, _ in imports(file)] == ["commands", "views"]


def foreign_imports(runner: Path) -> list[str]:
    """What files anywhere below the runner import besides each other, PyTorch and the standard library."""
    own = module_of(runner / "__init__.py")
    allowed = sys.stdlib_module_names | {"torch"}
    return [
        f"{file.relative_to(runner)} imports {module}"
        for file in sorted(runner.rglob("*.py"))
        for module, _ in imports(file)
        if module.split(".")[0] not in allowed and not f"{module}.".startswith(f"{own}.")
    ]


def test_the_runner_imports_pytorch_and_the_standard_library_alone() -> None:
    assert foreign_imports(RUNNER) == []


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("import numpy", "numpy"),
        ("from chakrakit.trace.model import Trace", "chakrakit.trace.model"),
        ("from ....trace import model", "chakrakit.trace"),
        ("from ...runner_tools import spin", "chakrakit.replayer.runner_tools"),
    ],
)
def test_the_runner_s_rule_sees_into_its_folders(
    line: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One dot too many leaves the runner, which is copied without what lies beside it."""
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    guard = tmp_path / "replayer" / "runner" / "guard"
    guard.mkdir(parents=True)
    (guard / "own.py").write_text("from ..limits import x\nfrom . import refusal\nimport torch\n")
    (guard / "planted.py").write_text(f"def check():\n    {line}\n")

    assert foreign_imports(guard.parent) == [f"guard/planted.py imports {module}"]


PYTORCH = {"_schema", "_world"}
"""Private names of PyTorch that classes here have as well."""


def private_attributes(file: Path) -> tuple[set[str], list[tuple[int, str]]]:
    """Private names that a file's classes define, and those it asks other objects for, by line."""
    own: set[str] = set()
    asked = []
    for node in nodes_of(file):
        if isinstance(node, ast.ClassDef):
            own |= {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_"):
            continue
        if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            own |= {node.attr} if isinstance(node.ctx, ast.Store) else set()
        elif not node.attr.endswith("__"):
            asked.append((node.lineno, node.attr))
    return {name for name in own if name.startswith("_") and not name.endswith("__")}, asked


def test_no_module_reaches_into_the_private_state_of_another() -> None:
    known = {file: private_attributes(file) for file in files() if RUNNER not in file.parents}
    ours = set().union(*(own for own, _ in known.values())) - PYTORCH
    found = [
        f"{module_of(file)}:{line} {name}"
        for file, (own, asked) in known.items()
        for line, name in asked
        if name in ours - own
    ]
    assert found == []


def test_files_that_the_makefile_names_are_there() -> None:
    named = re.findall(r"tests/[\w/]+\.py", (ROOT / "Makefile").read_text())
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


SHARED_NAMES = {
    "Call": "operators and steps of a replay, whose class is the step's name in plans that are written",
    "Place": "a directive, and a place of a pool: both are names that users type",
    "Pool": "of nodes in a campaign, and of a program's places: both are names that users type",
    "Score": "of a simulator on a bundle, and of traces that programs play: both are public",
    "Stream": "a directive, and what a captured program takes for PyTorch's own",
}
"""Public classes of one name in two rooms, and why."""


def test_a_class_name_is_defined_once() -> None:
    homes: dict[str, list[str]] = {}
    for file in files():
        for node in tree_of(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module_of(file))
    assert {
        name: where for name, where in homes.items() if len(where) > 1
    }.keys() == SHARED_NAMES.keys()
