"""What is there before the first step: storages of the recorded sizes with values that work."""

from __future__ import annotations

from typing import Any

from .calls import data_type, find_operator
from .guard import Guard
from .limits import ReplayError

_STD = 0.02
"""The standard deviation with which GPT-2 and most models after it begin."""
_WIDEST = 16
"""Storages end at a multiple of the widest element."""


def make_externals(
    torch: Any, plan: dict[str, Any], slots: list[Any], device: str, guard: Guard
) -> None:
    """Allocate every external storage and put its views into their slots."""
    torch.manual_seed(plan["rank"])
    written = _written(torch, plan)
    for external in plan["externals"]:
        where = device if external["device"] != "cpu" else "cpu"
        if int(external["bytes"]) < 0:
            raise ReplayError(f"a storage of {external['bytes']} bytes")
        guard.budget.ask(where, int(external["bytes"]) + _WIDEST)
        whole = _allocate(torch, external, where)
        for slot, dtype, shape, strides, offset in external["views"]:
            kind = data_type(torch, dtype)
            slots[slot] = bounded(torch, whole, kind, shape, strides, offset)
            guard.budget.put(slot, slots[slot])
        if not written & {v[0] for v in external["views"]}:
            guard.ranges.put(whole, _range(external["fill"]))


def bounded(
    torch: Any, whole: Any, dtype: Any, shape: list[int], strides: list[int], offset: int
) -> Any:
    """A view of a storage, refused if it would reach beyond its end."""
    if len(shape) != len(strides) or min([*shape, *strides, offset], default=0) < 0:
        raise ReplayError(f"a view of shape {shape} and strides {strides} at {offset}")
    last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    needed = (offset + last + 1) * dtype.itemsize if all(shape) else 0
    storage = whole.untyped_storage()
    if needed > storage.nbytes():
        raise ReplayError(
            f"a view of shape {shape} reaches {needed:,} bytes into a storage of {storage.nbytes():,}"
        )
    if whole.dtype == dtype:
        return whole.as_strided(shape, strides, offset)
    flat = torch.empty(0, dtype=dtype, device=whole.device)
    return flat.set_(storage, offset, shape, strides)


def _range(fill: dict[str, Any]) -> tuple[int, int] | None:
    """Between which numbers the integers of a storage lie that nothing writes to."""
    if fill["kind"] == "index":
        return 0, max(0, int(fill["limit"]) - 1)
    return (0, 0) if fill["kind"] == "zero" else (1, 1) if fill["kind"] == "one" else None


def _written(torch: Any, plan: dict[str, Any]) -> set[int]:
    """Slots that some step of the plan may write to; a view writes for what it is a view of."""
    found: set[int] = set()
    for step in plan["steps"]:
        if step["do"] == "collective":
            found |= {*step["inputs"], *step["outputs"]}
        elif step["do"] == "call":
            operator = find_operator(torch, step)
            found |= _touched(step) if operator is None or _writes(operator) else set()
        elif step["do"] == "view":
            found.add(step["base"])
    return found


def _writes(operator: Any) -> bool:
    return any(a.alias_info is not None for a in operator._schema.arguments)


def _touched(value: Any) -> set[int]:
    """Every slot among arguments."""
    if isinstance(value, dict):
        return {value["slot"]} if "slot" in value else _touched(list(value.values()))
    return {s for item in value for s in _touched(item)} if isinstance(value, list) else set()


def _allocate(torch: Any, external: dict[str, Any], where: str) -> Any:
    """A flat tensor over a whole storage, filled."""
    dtype = data_type(torch, external["dtype"])
    size = torch.empty(0, dtype=dtype).element_size()
    # A multiple of the widest element, so that every view of another type fits.
    elements = -(-max(external["bytes"], size) // 16) * 16 // size
    fill = external["fill"]
    if external.get("pinned") and torch.cuda.is_available():
        return torch.zeros(elements, dtype=dtype, pin_memory=True)
    if fill["kind"] == "index":
        return torch.randint(0, max(1, fill["limit"]), (elements,), dtype=dtype, device=where)
    if fill["kind"] == "unset":  # no index of anything, so that the guard makes one that is
        return torch.full((elements,), torch.iinfo(dtype).min, dtype=dtype, device=where)
    if fill["kind"] == "zero":
        return torch.zeros(elements, dtype=dtype, device=where)
    if fill["kind"] == "one" or external["bytes"] <= size:
        return torch.ones(elements, dtype=dtype, device=where)
    return _random(torch, elements, dtype, where, fill["kind"] == "positive")


def _random(torch: Any, elements: int, dtype: Any, where: str, positive: bool) -> Any:
    """Small numbers around 0: zeros would let a device run cooler and faster than it did."""
    narrow = dtype.itemsize < 2 or dtype.is_complex
    made = torch.empty(elements, dtype=torch.float32 if narrow else dtype, device=where)
    made.normal_(0.0, _STD)
    if positive:
        made.abs_().add_(1e-6)
    return made.to(dtype) if narrow else made
