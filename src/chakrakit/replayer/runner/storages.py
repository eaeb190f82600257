"""What is there before the first step: storages of the recorded sizes with values that work."""

from __future__ import annotations

from typing import Any

_STD = 0.02


def make_externals(torch: Any, plan: dict[str, Any], slots: list[Any], device: str) -> None:
    """Allocate every external storage and put its views into their slots."""
    torch.manual_seed(plan["rank"])
    for external in plan["externals"]:
        where = device if external["device"] != "cpu" else "cpu"
        whole = _allocate(torch, external, where)
        for slot, dtype, shape, strides, offset in external["views"]:
            flat = whole.view(data_type(torch, dtype)) if dtype != external["dtype"] else whole
            slots[slot] = flat.as_strided(shape, strides, offset)


def _allocate(torch: Any, external: dict[str, Any], where: str) -> Any:
    """A flat tensor over a whole storage, filled."""
    dtype = data_type(torch, external["dtype"])
    size = torch.empty(0, dtype=dtype).element_size()
    # A multiple of the widest element, so that every view of another type fits.
    elements = -(-max(external["bytes"], size) // 16) * 16 // size
    fill = external["fill"]
    if fill["kind"] == "index":
        return torch.randint(0, max(1, fill["limit"]), (elements,), dtype=dtype, device=where)
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


def data_type(torch: Any, name: str) -> Any:
    """A data type by its name; nothing else of PyTorch can be had so."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"no data type {name!r}")
    return found
