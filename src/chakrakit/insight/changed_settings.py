"""What two generated runs were asked to do otherwise: the settings in which their workloads differ."""

from __future__ import annotations

from chakrakit.trace.sets import Run
from chakrakit.workloads.models import generated_from

_MOST = 3
"""Settings that a line names."""


def changed_settings(a: Run, b: Run) -> str:
    """The settings of A's and B's workloads that differ, in words; empty where they are not known."""
    before, after = generated_from(a.card), generated_from(b.card)
    if before is None or after is None:
        return ""
    if before.model.name != after.model.name:
        return f"model {before.model.name} → {after.model.name}"
    changed = [
        f"{name.replace('_', '-')} {_text(old)} → {_text(new)}"
        for part in ("plan", "step", "model")
        for name, old, new in _unlike(getattr(before, part), getattr(after, part))
    ]
    more = len(changed) - _MOST
    return ", ".join([*changed[:_MOST], *([f"and {more} more"] if more > 0 else [])])


def _unlike(a: object, b: object) -> list[tuple[str, object, object]]:
    """The fields in which two parts of a workload differ; none where they are of two kinds."""
    if type(a) is not type(b):
        return []
    names = getattr(a, "__struct_fields__", ())
    fields = ((name, getattr(a, name), getattr(b, name)) for name in names)
    return [field for field in fields if field[1] != field[2]]


def _text(value: object) -> str:
    return "none" if value is None or value in ("", [], {}) else str(value)
