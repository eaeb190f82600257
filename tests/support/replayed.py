"""Plans of one rank, from a sheet of operators as the observer writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from chakrakit.replayer.plan import Plan
from chakrakit.replayer.plan.options import ReplayOptions
from chakrakit.replayer.run.session import prepare
from support.recorded import ADD, EMBEDDING, MM, Sheet, plain, several, tensor

ONE = plain(1, "Int")


def plan_of(sheet: Sheet, folder: Path, **options: Any) -> Plan:
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


def checked(plan: dict[str, Any]) -> Any:
    """The program of a plan, every call of it tried."""
    import torch

    from chakrakit.replayer.runner.guard import room_for
    from chakrakit.replayer.runner.program import Program
    from chakrakit.replayer.runner.storages import make_externals

    with torch.inference_mode():
        program = Program(torch, plan, "cpu", [], room_for(torch, "cpu", 1))
        make_externals(torch, plan, program.slots, "cpu", program.guard)
        program.check()
    return program


def examined(
    operator: Any, arguments: Any, made: Any = (), **named: Any
) -> tuple[dict[str, Any], dict[tuple[str, int], Any]]:
    """The arguments of a call after the guard has looked at them, and what it replaced."""
    import torch

    from chakrakit.replayer.runner.guard import Guard, Room

    names = [a.name for a in operator._schema.arguments if not a.kwarg_only]
    given = dict(zip(names, arguments, strict=False)) | named
    guard = Guard(torch, Room({"cpu": 1 << 30}))
    return given, guard.examine(operator, given, list(made))
