"""Plans of one rank, from a sheet of operators as the observer writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from chakrakit.replayer.plan import Plan
from chakrakit.replayer.plan.options import ReplayOptions
from chakrakit.replayer.run.session import prepare
from support.recorded import Sheet, plain, several, tensor

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
