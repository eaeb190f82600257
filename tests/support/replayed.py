"""Plans of one rank from a sheet of operators, and calls as the runner's guard sees them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from chakrakit.replayer import ReplayOptions
from chakrakit.replayer.plan import ReplayPlan
from chakrakit.replayer.session import prepare
from support.recorded import ADD, EMBEDDING, MM, Sheet, plain, several, tensor

ONE = plain(1, "Int")
SETTINGS = {"iterations": 1, "warmup": 0, "timeout_s": 60.0}
"""How the runner is told to run a plan once."""
GIB = 1 << 30


def plan_of(sheet: Sheet, folder: Path, **options: Any) -> ReplayPlan:
    """The plan of the only rank."""
    return prepare(sheet.traces(folder), ReplayOptions(**options)).plans[0]


def plan_text(sheet: Sheet, folder: Path, **options: Any) -> dict[str, Any]:
    """The same as the runner reads it."""
    return json.loads(msgspec.json.encode(plan_of(sheet, folder, **options)))


def reduce_of(storage: int, size: int = 4) -> list[dict[str, Any]]:
    """The arguments of an all-reduce that nobody waits for."""
    given = [
        several(tensor(storage, size)),
        plain("<Object>", "Object"),
        plain("<Object>", "Object"),
    ]
    return [*given, plain("<None>", "None"), plain(True, "Bool"), plain(-1, "Int")]


def small_model() -> Sheet:
    """An embedding, a product and a sum."""
    sheet = Sheet()
    indices = [tensor(1, 50, 8), tensor(2, 6, dtype="long int"), plain(-1, "Int")]
    sheet.op(
        "aten::embedding", EMBEDDING, [*indices, *[plain(False, "Bool")] * 2], [tensor(3, 6, 8)]
    )
    sheet.op("aten::mm", MM, [tensor(3, 6, 8), tensor(4, 8, 5)], [tensor(5, 6, 5)])
    sheet.op("aten::add", ADD, [tensor(5, 6, 5), tensor(6, 5), ONE], [tensor(7, 6, 5)])
    return sheet


def examined(
    operator: Any, arguments: Any, made: Any = (), **named: Any
) -> tuple[dict[str, Any], Any]:
    """A call held against the guard, with 1 GiB of room: its arguments, and what was replaced."""
    import torch

    from chakrakit.replayer.runner.guard import Guard, MemoryBudget

    names = [a.name for a in operator._schema.arguments if not a.kwarg_only]
    given = dict(zip(names, arguments, strict=False)) | named
    return given, Guard(torch, MemoryBudget({"cpu": GIB})).examine(operator, given, list(made))
