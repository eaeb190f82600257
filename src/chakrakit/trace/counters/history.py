"""The history of an allocator: a `memory` counter that was recorded, and not summed up from tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

_SETTING, _RECORDED = "memory", "allocator"


def as_recorded(settings: Mapping[str, Any], recorded: bool = True) -> dict[str, Any]:
    """The settings of a run's card, saying that its `memory` counter is an allocator's history, or not."""
    others = {name: value for name, value in settings.items() if name != _SETTING}
    return {**others, _SETTING: _RECORDED} if recorded else others


def history_of(settings: Mapping[str, Any], counters: Mapping[str, pa.Table]) -> pa.Table | None:
    """The history that a run has: what was given out by rank, from each `time_ns` on; None without one."""
    return counters.get("memory") if settings.get(_SETTING) == _RECORDED else None
