"""Calls laid out beforehand: tensors are taken from slots, results put there, nothing is looked up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .lookup import data_type

Do = Callable[[], None]
Slots = list[Any]

_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")


class Layout:
    """The arguments of a call: constants, and where tensors and lists of tensors go among them."""

    def __init__(self, values: list[Any], constant: Callable[[Any], Any]) -> None:
        self.values: list[Any] = []
        self.holes: list[tuple[int, int]] = []
        self.lists: list[tuple[int, list[int | None]]] = []
        for i, value in enumerate(values):
            if isinstance(value, dict) and "slot" in value:
                self.holes.append((i, value["slot"]))
                self.values.append(None)
            elif isinstance(value, list) and any(isinstance(v, dict) for v in value):
                self.lists.append((i, [None if v is None else v["slot"] for v in value]))
                self.values.append(None)
            else:
                self.values.append(constant(value))

    @property
    def leading(self) -> list[int]:
        """Slots of the tensors, if they are the first arguments; else nothing."""
        places = [i for i, _ in self.holes]
        return [s for _, s in self.holes] if places == list(range(len(places))) else []

    def fill(self, slots: Slots) -> list[Any]:
        """The arguments with the tensors of this moment."""
        given = self.values[:]
        for place, slot in self.holes:
            given[place] = slots[slot]
        for place, items in self.lists:
            given[place] = [None if s is None else slots[s] for s in items]
        return given


def constant(torch: Any, value: Any, device: str, groups: list[Any]) -> Any:
    """A plan's argument that is no tensor, as PyTorch takes it."""
    if not isinstance(value, dict):
        return value
    (kind, what), *rest = value.items()
    if rest:
        raise ValueError(f"an argument with {len(value)} meanings")
    if kind == "dtype":
        return data_type(torch, what)
    if kind == "device":
        return torch.device(device if what != "cpu" else "cpu")
    if kind == "format" and what in _FORMATS:
        return getattr(torch, what)
    if kind == "number":
        return float(what)
    if kind == "group":
        return groups[what].group_name
    raise ValueError(f"an argument of kind {kind!r}")


def bind(
    operator: Callable[..., Any], step: dict[str, Any], slots: Slots, layout: Layout, named: Layout
) -> Do:
    """A call as a function without arguments; the few shapes most calls have get their own."""
    names = list(step.get("kwargs", {}))
    free = step.get("free", [])
    outs = step.get("outs", [])
    simple = not (layout.lists or named.holes or named.lists)
    one = outs[0] if len(outs) == 1 and isinstance(outs[0], int) else None
    if simple and not names and one is not None and 0 < len(layout.leading) < 4:
        call = _short(operator, layout, slots, one)
        return _freeing(call, slots, free) if free else call
    store = _store(slots, outs)

    def general() -> None:
        store(operator(*layout.fill(slots), **dict(zip(names, named.fill(slots), strict=True))))
        for slot in free:
            slots[slot] = None

    if not simple:
        return general
    fixed = dict(zip(names, named.values, strict=True))

    def plain() -> None:
        store(operator(*layout.fill(slots), **fixed))
        for slot in free:
            slots[slot] = None

    return plain


def _short(operator: Callable[..., Any], layout: Layout, slots: Slots, out: int) -> Do:
    """One to three tensors, then constants; one tensor out."""
    rest = layout.values[len(layout.leading) :]
    first, second, third = (*layout.leading, 0, 0)[:3]

    def one() -> None:
        slots[out] = operator(slots[first], *rest)

    def two() -> None:
        slots[out] = operator(slots[first], slots[second], *rest)

    def three() -> None:
        slots[out] = operator(slots[first], slots[second], slots[third], *rest)

    return (one, two, three)[len(layout.leading) - 1]


def _freeing(call: Do, slots: Slots, free: list[int]) -> Do:
    if len(free) == 1:
        slot = free[0]

        def once() -> None:
            call()
            slots[slot] = None

        return once

    def often() -> None:
        call()
        for slot in free:
            slots[slot] = None

    return often


def _store(slots: Slots, outs: list[Any]) -> Callable[[Any], None]:
    """Where results go."""
    flat = [o for out in outs for o in (out if isinstance(out, list) else [out])]
    if all(o is None for o in flat):
        return lambda result: None

    def many(result: Any) -> None:
        for out, value in zip(outs, (result,) if len(outs) == 1 else result, strict=False):
            if isinstance(out, list):
                for slot, item in zip(out, value, strict=False):
                    if slot is not None:
                        slots[slot] = item
            elif out is not None:
                slots[out] = value

    return many
