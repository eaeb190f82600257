"""Calls of operators: names looked up, arguments laid out beforehand, the short way found.

PyTorch's own Python functions cost half of what `torch.ops` does, and choose the overload by the types of
what they are given. So each is tried once with the real arguments, and taken only if PyTorch's dispatcher
saw exactly the operator that the plan names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .limits import ANY_OVERLOAD, is_listed

Do = Callable[[], None]
Slots = list[Any]

_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")


def data_type(torch: Any, name: str) -> Any:
    """A data type by its name; nothing else of PyTorch can be had so."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"no data type {name!r}")
    return found


def find_operator(torch: Any, step: dict[str, Any]) -> Any:
    """The overload a step names; None if this PyTorch has none such."""
    namespace, _, name = step["op"].partition("::")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    if step["overload"] == ANY_OVERLOAD and packet is not None:
        listed = [n for n in packet.overloads() if is_listed(step["op"], n)]
        as_tensors = torch._C._should_allow_numbers_as_tensors(name)
        return choose_overload([getattr(packet, n) for n in listed], step, as_tensors)
    return getattr(packet, step["overload"] or "default", None)


def choose_overload(overloads: list[Any], step: dict[str, Any], numbers_as_tensors: bool) -> Any:
    """The first overload that takes a step's arguments, put where it wants them; None if there is none.

    `numbers_as_tensors` says whether PyTorch takes a number where this operator wants a tensor.
    """
    for overload in overloads:
        arguments = overload._schema.arguments
        given = step["args"]
        positional = sum(not a.kwarg_only for a in arguments)
        if len(given) not in (positional, len(arguments)) or not all(
            _fits(a, v, numbers_as_tensors) for a, v in zip(arguments, given, strict=False)
        ):
            continue
        if any(not a.has_default_value() for a in arguments[len(given) :]):
            continue
        pairs = [(a, _put(a, v)) for a, v in zip(arguments, given, strict=False)]
        step["args"] = [v for a, v in pairs if not a.kwarg_only]
        step["kwargs"] = {a.name: v for a, v in pairs if a.kwarg_only and v is not None}
        if any(a.name == "device" for a in arguments) and "slot" not in str(given):
            step["kwargs"]["device"] = {"device": "cuda"}  # the plan's own, wherever that is
        step["overload"] = str(overload._overloadname)
        return overload
    return None


def _fits(argument: Any, value: Any, numbers_as_tensors: bool) -> bool:
    """Whether an argument takes a plan's value; recordings leave texts out, which then are the default."""
    if isinstance(value, int | float) and str(argument.type) == "Tensor":
        return numbers_as_tensors
    left_out = value is None and argument.has_default_value()
    return left_out or _takes(str(argument.type), value)


def _takes(kind: str, value: Any) -> bool:
    """Whether an argument of a type takes a plan's value."""
    optional = kind.startswith("Optional[")
    inner = kind[len("Optional[") : -1] if optional else kind
    if value is None:
        return optional or inner == "Tensor"  # one that is not there
    if isinstance(value, dict):
        return inner == "Tensor" if "slot" in value else inner != "Tensor"
    if isinstance(value, list):
        if not inner.startswith("List["):
            return False
        return all(_takes(inner[len("List[") : -1], v) for v in value)
    if isinstance(value, bool):
        return inner in ("bool", "number")
    if isinstance(value, int):
        return inner in ("int", "float", "number", "Tensor", "Device")
    if isinstance(value, float):
        return inner in ("float", "number", "Tensor")
    return inner == "str" or (inner == "Device" and value.partition(":")[0] in ("cuda", "cpu"))


def _put(argument: Any, value: Any) -> Any:
    """A value as a plan writes it for an argument."""
    kind = str(argument.type)
    if value is None and argument.has_default_value() and not _takes(kind, None):
        return argument.default_value
    if "Device" in kind and isinstance(value, str):
        return {"device": value.partition(":")[0]}
    return value


# --- laid out beforehand ---------------------------------------------------------------------------


class ArgumentLayout:
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
    operator: Callable[..., Any],
    step: dict[str, Any],
    slots: Slots,
    layout: ArgumentLayout,
    named: ArgumentLayout,
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


def _short(operator: Callable[..., Any], layout: ArgumentLayout, slots: Slots, out: int) -> Do:
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


# --- the short way ---------------------------------------------------------------------------------


class Bindings:
    """Finds and tries short ways; what was found for one call holds for all like it."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._known: dict[tuple[Any, ...], bool] = {}
        self._watch = _watcher(torch)

    def candidate(self, step: dict[str, Any]) -> Callable[..., Any] | None:
        """A function of the same name, if PyTorch has one."""
        namespace, _, name = step["op"].partition("::")
        if namespace != "aten":
            return None
        if name in _UNDER_OTHER_NAMES:
            return _UNDER_OTHER_NAMES[name]
        for home in (self._torch._C.TensorBase, self._torch._C._VariableFunctions):
            found: Callable[..., Any] | None = getattr(home, name, None)
            if found is not None:
                return found
        return None

    def same(self, operator: Any, step: dict[str, Any], call: Callable[[], None]) -> bool:
        """Run the call once; whether it reached the operator, and nothing before it."""
        key = (step["op"], step["overload"], _kinds(step["args"]), _kinds(step.get("kwargs", {})))
        if key not in self._known:
            self._known[key] = self._tried(operator, call)
        else:
            call()
        return self._known[key]

    def knows_not(self, step: dict[str, Any]) -> bool:
        """Whether a call like this was tried in vain."""
        key = (step["op"], step["overload"], _kinds(step["args"]), _kinds(step.get("kwargs", {})))
        return self._known.get(key) is False

    def _tried(self, operator: Any, call: Callable[[], None]) -> bool:
        try:
            with self._watch as seen:
                seen.first = None
                call()
            return seen.first is operator
        except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError):
            return False


def _copied(tensor: Any, **named: Any) -> Any:
    return tensor.to(copy=True, **named)


def _read(tensor: Any) -> Any:
    return tensor.item()


_UNDER_OTHER_NAMES: dict[str, Callable[..., Any]] = {
    "_to_copy": _copied,
    "_local_scalar_dense": _read,
}


def _kinds(value: Any) -> Any:
    """What the choice of an overload may hang on: sorts of arguments, not their values."""
    if isinstance(value, dict):
        return tuple((k, _kinds(v) if k != "slot" else 0) for k, v in value.items())
    if isinstance(value, list):
        return ("list", *sorted({str(_kinds(v)) for v in value}))
    return type(value).__name__


def _watcher(torch: Any) -> Any:
    """A mode that remembers the first operator dispatched under it."""
    from torch.utils._python_dispatch import TorchDispatchMode

    def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.first = self.first or func
        return func(*args, **(kwargs or {}))

    made: Any = type("Watch", (TorchDispatchMode,), {"__torch_dispatch__": dispatch, "first": None})
    return made()
