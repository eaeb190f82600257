"""Plans made from recordings written by hand, and calls as the runner's guard sees them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from chakrakit.replayer.plan.options import ReplayOptions
from chakrakit.replayer.run.session import prepare
from support.recorded import Sheet

SETTINGS = {"iterations": 1, "warmup": 0, "timeout_s": 60.0}
"""How the runner is told to run a plan once."""
GIB = 1 << 30


def plan_of(sheet: Sheet, folder: Path, **options: Any) -> dict[str, Any]:
    """The plan of the only rank, as the runner reads it."""
    plans = prepare(sheet.traces(folder), ReplayOptions(**options)).plans
    found: dict[str, Any] = json.loads(msgspec.json.encode(plans[0]))
    return found


def examined(
    operator: Any, arguments: Any, made: Any = (), **named: Any
) -> tuple[dict[str, Any], Any]:
    """A call held against the guard, with 1 GiB of room: its arguments, and what was replaced."""
    import torch

    from chakrakit.replayer.runner.guard import Guard, Room

    names = [a.name for a in operator._schema.arguments if not a.kwarg_only]
    given = dict(zip(names, arguments, strict=False)) | named
    return given, Guard(torch, Room({"cpu": GIB})).examine(operator, given, list(made))
