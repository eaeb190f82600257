"""The guard: every call is examined once, with the tensors it gets, before it is made the first time.

Shapes do not change from one iteration to the next: values that could change them come from tensors that
the guard made itself, and operators that resize what they are given are not called. So what holds in the
first iteration holds in all.
"""

from __future__ import annotations

from typing import Any

from .dry_run import DryRun
from .memory_budget import MemoryBudget
from .ranges import Ranges
from .refusal import Given, Refused, check_kinds, need, written_by
from .sizes import check_sizes
from .values import Values, Want

_REMEMBERED = 8
"""Constants of one layout that are tried before another is made."""
_BY_VALUE = frozenset(["nonzero", "masked_select", "_unique2", "bincount", "repeat_interleave"])
"""Operators whose results are as long as values say; no dry run can know."""


class Guard:
    """Examines calls. `constants` are tensors it made, by what they replace."""

    def __init__(self, torch: Any, budget: MemoryBudget) -> None:
        self._torch, self.budget = torch, budget
        self.ranges = Ranges(torch)
        self._values = Values(torch)
        self._dry = DryRun(torch)
        self._constants: dict[Any, list[Any]] = {}

    def examine(
        self, operator: Any, given: Given, made: list[list[int] | None]
    ) -> dict[tuple[str, int], Any]:
        """Refuse the call, or say which of its arguments must be replaced by which tensors.

        `made` are the recorded shapes of the results, None for those that nobody keeps.
        """
        name = operator._schema.name.partition("::")[2]
        check_kinds(given)
        self._check_extents(given)
        check_sizes(name, given)
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
        for value in given.values():
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, self._torch.Tensor):
                    most = self.budget.limits.get(item.device.type, 0)
                    extent = item.numel() * item.element_size()
                    need(extent <= most, f"a view of {item.numel():,} elements")

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
        if name in _BY_VALUE:
            source = next((v for v in given.values() if isinstance(v, self._torch.Tensor)), None)
            if source is None:
                raise Refused("no tensor among its arguments")
            return self.budget.ask(where, source.numel() * 8 * max(source.dim(), 1))
        found = self._dry.results(operator, given)
        if found is None:
            return None
        self.budget.ask(where, sum(r.bytes for r in found if r is not None))
        shapes = [r.shape for r in found if r is not None]
        for shape in made:
            if shape is not None and shape not in shapes:
                raise Refused(f"gives shape {shapes[0] if shapes else []} and not {shape}")
        return None


def _at(given: Given, key: tuple[str, int]) -> Any:
    name, place = key
    return given[name] if place < 0 else given[name][place]


def _device(torch: Any, given: Given) -> str:
    """Where results will lie: as said, else where the first tensor does."""
    said = given.get("device")
    if said is not None:
        return str(said)
    for value in given.values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, torch.Tensor) and item.dim():
                return str(item.device)
    return "cpu"
