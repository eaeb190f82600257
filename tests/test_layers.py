"""A room imports only from the layers below it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import chakrakit

SOURCE = Path(chakrakit.__file__).parent
LAYERS = [
    {"errors"}, {"parallel"}, {"trace"}, {"machines"}, {"sources", "workloads", "passes"},
    {"simulator", "replay"}, {"insight"}, {"studies"}, {"views"}, {"cli"},
]  # fmt: skip
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
FREE = {"core"}
RUNNER = SOURCE / "replay" / "runner"
"""Copied to machines without chakrakit, so it names its own files relatively and nothing else."""


def imports(file: Path) -> Iterator[str]:
    """The chakrakit modules a file imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 or file.parent == RUNNER, f"{file}: relative import"
            home = "" if node.level == 0 else "runner."
            yield from (f"{home}{node.module}.{a.name}" for a in node.names)


def room_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "chakrakit" and len(parts) > 1 else None


def files() -> list[Path]:
    return [f for f in sorted(SOURCE.rglob("*.py")) if f != SOURCE / "__init__.py"]


def test_every_room_has_a_layer() -> None:
    rooms = {f.relative_to(SOURCE).parts[0].removesuffix(".py") for f in files()}
    assert rooms - LEVEL.keys() == set()


def test_rooms_import_only_from_below() -> None:
    wrong = []
    for file in files():
        room = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        for module in imports(file):
            other = room_of(module)
            if other in (None, room, "__version__") or other in FREE:
                continue
            if LEVEL.get(other, 99) >= LEVEL[room]:
                wrong.append(f"{file.relative_to(SOURCE)} imports {module}")
    assert wrong == []


def test_the_rule_sees_an_import_that_breaks_it(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text(
        "def f():\n    from chakrakit.cli import output\n    import chakrakit.views.web"
    )
    assert [room_of(m) for m in imports(file)] == ["cli", "views"]


def test_the_runner_imports_pytorch_and_the_standard_library_alone() -> None:
    given = sys.stdlib_module_names | {"torch", "runner"}
    wrong = [m for f in RUNNER.glob("*.py") for m in imports(f) if m.split(".")[0] not in given]
    assert wrong == []
