"""What a call would give, found out on tensors without memory."""

from __future__ import annotations

from typing import Any, NamedTuple

from .refusal import Given, Refused, written_by


class Result(NamedTuple):
    """A tensor that a call would make: bytes of a storage of its own, 0 for a view of an argument."""

    shape: list[int]
    bytes: int


class DryRun:
    """Calls operators on PyTorch's meta device; what was found for one call holds for all like it."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._known: dict[Any, list[Result | None] | Refused | None] = {}

    def results(self, operator: Any, given: Given) -> list[Result | None] | None:
        """Flat list of results, None for what is no tensor; None where PyTorch cannot say."""
        key = (operator, _signature(self._torch, list(given.items())))
        if key not in self._known:
            self._known[key] = self._ask(operator, given)
        found = self._known[key]
        if isinstance(found, Refused):
            raise found
        return found

    def _ask(self, operator: Any, given: Given) -> list[Result | None] | Refused | None:
        inside: set[int] = set()
        arguments = {name: self._without_memory(v, inside) for name, v in given.items()}
        for argument in operator._schema.arguments:
            if argument.name == "device" and arguments.get("device") is not None:
                arguments["device"] = "meta"
        written = written_by(operator, arguments)
        before = [(t.shape, t.stride()) for t in written]
        positional = [a for a in operator._schema.arguments if not a.kwarg_only]
        named = [a for a in operator._schema.arguments if a.kwarg_only]
        try:
            found = operator(
                *(arguments[a.name] for a in positional if a.name in arguments),
                **{a.name: arguments[a.name] for a in named if a.name in arguments},
            )
        except Exception:  # no such kernel, or one that wants a real device: PyTorch checks later
            return None
        if before != [(t.shape, t.stride()) for t in written]:
            return Refused("resizes what it was given")
        return [self._result(r, inside) for r in _flat(found)]

    def _without_memory(self, value: Any, inside: set[int]) -> Any:
        if isinstance(value, self._torch.Tensor):
            made = self._torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device="meta"
            )
            inside.add(made.untyped_storage()._cdata)
            return made
        if isinstance(value, list):
            return [self._without_memory(v, inside) for v in value]
        return value

    def _result(self, value: Any, inside: set[int]) -> Result | None:
        if not isinstance(value, self._torch.Tensor):
            return None
        storage = value.untyped_storage()
        owned = storage._cdata not in inside
        return Result(list(value.shape), int(storage.nbytes()) if owned else 0)


def _flat(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [x for item in value for x in _flat(item)]
    return [value]


def _signature(torch: Any, value: Any) -> Any:
    """What the result's shape may hang on, as something that can be looked up."""
    if isinstance(value, torch.Tensor):
        return ("tensor", value.dtype, tuple(value.shape), value.stride())
    if isinstance(value, list | tuple):
        return tuple(_signature(torch, v) for v in value)
    return (type(value).__name__, value)
