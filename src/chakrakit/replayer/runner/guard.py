"""The guard: every call is examined once, with the tensors it gets, before it is made the first time.

It is tried on PyTorch's meta device, where tensors have no memory: what PyTorch refuses there, what resizes
its arguments, gives another shape than was recorded or takes more memory than there is, is not called.
Shapes do not change from one iteration to the next: values that could change them come from tensors that
the guard made itself. So what holds in the first iteration holds in all. What an operator does with
arguments that PyTorch itself lets pass is not foreseen here: for that the process has walls (confine.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .limits import check_memory, host_memory
from .values import Given, Ranges, ValueRules, Want

_SHARE = 0.95
"""How much of a machine's free memory a replay may take."""
_REMEMBERED = 8
"""Constants of one layout that are tried before another is made."""
_BY_VALUE = frozenset(["nonzero", "_unique2", "bincount", "_local_scalar_dense", "item"])
"""Operators whose results are as long as values say, or are a value; no dry run can know."""
_UNTRIED_TEXT = """
    _cudnn_attention_forward _cudnn_attention_backward cudnn_convolution cudnn_convolution_transpose
    miopen_convolution _conv_depthwise2d
"""
_UNTRIED = frozenset(_UNTRIED_TEXT.split())
"""Operators of a device's own library, which PyTorch has not for the meta device."""


class Refused(Exception):  # noqa: N818 - not an error: a stand-in takes the operator's place
    """PyTorch would not do this, or there is no room for it."""


def written_by(operator: Any, given: Given) -> list[Any]:
    """Tensors that a call writes to."""
    found: list[Any] = []
    for argument in operator._schema.arguments:
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = given.get(argument.name)
            found += value if isinstance(value, list) else [value]
    return [t for t in found if hasattr(t, "stride")]


class Guard:
    """Examines calls. `constants` are tensors it made, by what they replace."""

    def __init__(self, torch: Any, budget: MemoryBudget) -> None:
        self._torch, self.budget = torch, budget
        self.ranges = Ranges(torch)
        self._values = ValueRules(torch)
        self._dry = DryRun(torch)
        self._constants: dict[Any, list[Any]] = {}

    def examine(
        self, operator: Any, given: Given, made: list[list[int] | None]
    ) -> dict[tuple[str, int], Any]:
        """Refuse the call, or say which of its arguments must be replaced by which tensors.

        `made` are the recorded shapes of the results, None for those that nobody keeps.
        """
        name = operator._schema.name.partition("::")[2]
        _check_numbered(given)
        self._check_extents(given)
        wanted = self._values.wanted(name, given, made)
        replaced = {
            key: tensor
            for key, want in wanted.items()
            if (tensor := self._instead(_at(given, key), want)) is not None
        }
        for (argument, place), tensor in replaced.items():
            if place < 0:
                given[argument] = tensor
            else:
                given[argument] = [*given[argument]]
                given[argument][place] = tensor
        self._ask_budget(name, operator, given, made)
        return replaced

    def _check_extents(self, given: Given) -> None:
        """Views have no more elements than memory could hold: there may be any number of a storage of one."""
        for tensor in _tensors(self._torch, given):
            if tensor.nbytes > self.budget.limits.get(tensor.device.type, 0):
                raise Refused(f"a view of {tensor.numel():,} elements")

    def done(self, operator: Any, given: Given, results: list[Any]) -> None:
        """A call was made: what is known of values after it."""
        name = operator._schema.name.partition("::")[2]
        self.ranges.after(name, given, written_by(operator, given), results)

    def _instead(self, tensor: Any, want: Want) -> Any:
        """A tensor to take the place of one whose values are not known to do; None if they are."""
        known = self.ranges.of(tensor)
        if want.bound and known is not None and self._is_fine(tensor, known, want.bound):
            return None
        fits = want.holds(tensor)
        key = (tuple(tensor.shape), tensor.stride(), tensor.dtype, str(tensor.device), want.bound)
        for constant in self._constants.get(key, [])[-_REMEMBERED:]:
            if self._torch.equal(constant, tensor) if fits else want.holds(constant):
                return constant
        self.budget.ask(str(tensor.device), tensor.numel() * tensor.element_size())
        made = self._like(tensor, tensor if fits else want.make(tensor))
        if not want.holds(made):
            raise Refused("no values can be made that this would take")
        self._constants.setdefault(key, []).append(made)
        return made

    @staticmethod
    def _is_fine(tensor: Any, known: tuple[int, int], bound: int) -> bool:
        """In range whatever happens; one number for all is what nobody has thought about."""
        spread = known[1] > known[0] or bound == 1 or tensor.numel() == 1
        return spread and known[0] >= 0 and known[1] < bound

    def _like(self, tensor: Any, values: Any) -> Any:
        """These values in the layout of a tensor, in memory that nothing else writes to."""
        span = 1 + sum(
            (int(n) - 1) * int(s) for n, s in zip(tensor.shape, tensor.stride(), strict=True)
        )
        size = span if tensor.numel() else 0
        flat = self._torch.zeros(size, dtype=tensor.dtype, device=tensor.device)
        made = flat.as_strided(tuple(tensor.shape), tensor.stride(), 0)
        if tensor.numel() > 1 and 0 in tensor.stride():
            # An expanded tensor: one value stands for many, so the first of each is taken.
            first = tuple(slice(0, 1) if s == 0 else slice(None) for s in tensor.stride())
            made[first].copy_(values[first])
        else:
            made.copy_(values)
        return made

    def _ask_budget(
        self, name: str, operator: Any, given: Given, made: list[list[int] | None]
    ) -> None:
        """Hold what the call would make against what there is, and against what was recorded."""
        where = _device(self._torch, given)
        if name in _BY_VALUE or _has_mask(self._torch, given):
            source = given.get("self")
            if not isinstance(source, self._torch.Tensor) or not source.numel():
                raise Refused("no tensor to look through")
            return self.budget.ask(where, source.numel() * 8 * max(source.dim(), 1))
        if name in _UNTRIED:
            return self.budget.ask(where, sum(t.nbytes for t in _tensors(self._torch, given)))
        found = [r for r in self._dry.results(operator, given) if r is not None]
        self.budget.ask(where, sum(r.bytes for r in found))
        shapes = [r.shape for r in found]
        for shape in made:
            if shape is not None and shape not in shapes:
                raise Refused(f"gives shape {shapes[0] if shapes else []} and not {shape}")
        return None


_NUMBERED = {"dtype": 16, "layout": 1, "memory_format": 4, "reduction": 3}
"""How many PyTorch has of what may be given by its number; over another number it crashes."""


def _check_numbered(given: Given) -> None:
    for name, value in given.items():
        count = next((n for kind, n in _NUMBERED.items() if name.endswith(kind)), 0)
        if count and isinstance(value, int | float) and value not in range(count):
            raise Refused(f"{name} {value}")


def _at(given: Given, key: tuple[str, int]) -> Any:
    name, place = key
    return given[name] if place < 0 else given[name][place]


def _device(torch: Any, given: Given) -> str:
    """Where results will lie: as said, else where the first tensor does."""
    said = given.get("device")
    if said is not None:
        return str(said)
    return next((str(t.device) for t in _tensors(torch, given) if t.dim()), "cpu")


def _has_mask(torch: Any, given: Given) -> bool:
    """Whether values choose what is indexed."""
    masks = (torch.bool, torch.uint8)
    indices = given.get("indices")
    return isinstance(indices, list) and any(getattr(i, "dtype", None) in masks for i in indices)


def _tensors(torch: Any, given: Given) -> list[Any]:
    """Tensors among the arguments, those in lists too."""
    flat = (x for v in given.values() for x in (v if isinstance(v, list) else [v]))
    return [x for x in flat if isinstance(x, torch.Tensor)]


# --- the dry run -----------------------------------------------------------------------------------


class TensorResult(NamedTuple):
    """A tensor that a call would make: bytes of a storage of its own, 0 for a view of an argument."""

    shape: list[int]
    bytes: int


class DryRun:
    """Calls operators on PyTorch's meta device; what was found for one call holds for all like it."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._known: dict[Any, list[TensorResult | None] | Refused] = {}

    def results(self, operator: Any, given: Given) -> list[TensorResult | None]:
        """Flat list of results, None for what is no tensor; Refused where PyTorch refuses."""
        key = (operator, _signature(self._torch, list(given.items())))
        if key not in self._known:
            self._known[key] = self._ask(operator, given)
        found = self._known[key]
        if isinstance(found, Refused):
            raise found
        return found

    def _ask(self, operator: Any, given: Given) -> list[TensorResult | None] | Refused:
        inside: set[int] = set()
        arguments = {name: self._without_memory(v, inside) for name, v in given.items()}
        for argument in operator._schema.arguments:
            if argument.name == "device":  # also where none is given: it would be a real one
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
        except Exception as error:  # whatever a kernel written in Python may raise
            return Refused(str(error).partition("\n")[0] or type(error).__name__)
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

    def _result(self, value: Any, inside: set[int]) -> TensorResult | None:
        if not isinstance(value, self._torch.Tensor):
            return None
        storage = value.untyped_storage()
        owned = storage._cdata not in inside
        return TensorResult(list(value.shape), int(storage.nbytes()) if owned else 0)


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


# --- memory ----------------------------------------------------------------------------------------


class MemoryBudget:
    """Bytes that live storages hold, by device, and how many there may be.

    Storages are known by their address: one that is freed gives its bytes back when its last slot
    is emptied.
    """

    def __init__(self, limits: dict[str, int]) -> None:
        self.limits = limits
        self._held: dict[str, int] = dict.fromkeys(limits, 0)
        self._slots: dict[int, tuple[str, int]] = {}
        self._storages: dict[tuple[str, int], tuple[int, set[int]]] = {}

    def ask(self, where: str, size: int) -> None:
        """Refuse more than there is, before it is taken."""
        kind = where.partition(":")[0]
        named = "the GPU" if kind == "cuda" else "this machine"
        check_memory(self._held.get(kind, 0) + size, self.limits.get(kind, 0), named)

    def put(self, slot: int, tensor: Any) -> None:
        """A slot holds this tensor now."""
        self.drop(slot)
        storage = tensor.untyped_storage()
        key = (tensor.device.type, storage.data_ptr())
        size, slots = self._storages.get(key, (0, set()))
        self._held[key[0]] = self._held.get(key[0], 0) + storage.nbytes() - size
        self._storages[key] = (storage.nbytes(), slots | {slot})
        self._slots[slot] = key

    def drop(self, slot: int) -> None:
        """A slot was emptied."""
        key = self._slots.pop(slot, None)
        if key is None:
            return
        size, slots = self._storages[key]
        slots.discard(slot)
        if not slots:
            self._held[key[0]] -= size
            del self._storages[key]


def memory_budget(torch: Any, device: str, sharing: int) -> MemoryBudget:
    """What one of `sharing` ranks on this machine may take of host and device."""
    limits = {"cpu": int(host_memory() * _SHARE) // max(sharing, 1)}
    if device.startswith("cuda"):
        on_each = -(-sharing // torch.cuda.device_count())
        limits["cuda"] = int(torch.cuda.mem_get_info()[0] * _SHARE) // on_each
    return MemoryBudget(limits)
