"""Names in a plan → what PyTorch has under them: data types, operators and their overloads."""

from __future__ import annotations

from typing import Any

ANY_OVERLOAD = "*"


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
        return choose_overload(packet, step)
    return getattr(packet, step["overload"] or "default", None)


def choose_overload(packet: Any, step: dict[str, Any]) -> Any:
    """The first overload that takes the arguments; the step's are put where it wants them.

    None if there is none. Overloads that write into a tensor given to them come last.
    """
    found = [getattr(packet, name) for name in packet.overloads()]
    for overload in sorted(found, key=lambda o: "out" in str(o._overloadname)):
        arguments = overload._schema.arguments
        given = step["args"]
        positional = sum(not a.kwarg_only for a in arguments)
        if len(given) not in (positional, len(arguments)) or not all(
            _fits(a, v) for a, v in zip(arguments, given, strict=False)
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


def _fits(argument: Any, value: Any) -> bool:
    """Whether an argument takes a plan's value; recordings leave texts out, which then are the default."""
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
