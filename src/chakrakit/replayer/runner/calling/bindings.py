"""The short way to an operator: PyTorch's own Python functions cost half of what `torch.ops` does.

They choose the overload by the types of what they are given. So each is tried once with the real
arguments, and taken only if PyTorch's dispatcher saw exactly the operator that the plan names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


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
