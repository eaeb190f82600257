"""A module as one list of steps: calls inlined, loops unrolled, results followed through tuples."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from chakrakit.errors import FormatError
from chakrakit.operators import Work, opcode_work
from chakrakit.sources.xla.hlo import Computation, Instruction, Module

MOST_STEPS = 5_000_000
_TRIPS = re.compile(r"known_trip_count\W+n\W+(\d+)")
_COLLECTIVE = re.compile(
    r"^(all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all|collective-permute|"
    r"collective-broadcast)(-start|-done)?$"
)
Source = frozenset[int]
_NOBODY: Source = frozenset()


@dataclass(eq=False)
class Step:
    """One instruction as it runs once. `after` are steps; `inside` is where its operands are found."""

    instruction: Instruction
    inside: Computation
    after: Source
    kind: str = "compute"
    """compute, collective, start or done."""
    collective: Instruction | None = None
    """What is communicated, for a start inside the computation it wraps."""


@dataclass(eq=False)
class _Value:
    """Who made a value, and for a tuple who made its parts."""

    made_by: Source = _NOBODY
    parts: list[_Value] = field(default_factory=list)

    @property
    def all(self) -> Source:
        return self.made_by.union(*(p.all for p in self.parts)) if self.parts else self.made_by

    def part(self, index: int) -> _Value:
        return self.parts[index] if 0 <= index < len(self.parts) else _Value(self.all)


class Unrolled:
    """The steps of a module's entry computation in the order they run in.

    A loop with a known number of rounds is repeated; one without runs once, with a warning. Of a conditional
    the first branch runs.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.steps: list[Step] = []
        self._runs = 0
        self.warnings: dict[str, None] = {}
        self._run(module.main, [_Value() for _ in module.main.instructions], 0)

    def _run(self, computation: Computation, arguments: Sequence[_Value], depth: int) -> _Value:
        if depth > 64:
            raise FormatError(f"{computation.name}: calls are nested too deep, or call themselves")
        self._runs += 1
        self._check(self._runs)  # what calls others twice each and does nothing else takes time too
        values: dict[str, _Value] = {}
        for instruction in computation.instructions:
            values[instruction.name] = self._step(
                instruction, computation, values, arguments, depth
            )
        return values.get(computation.root, _Value())

    def _step(
        self,
        i: Instruction,
        inside: Computation,
        values: dict[str, _Value],
        arguments: Sequence[_Value],
        depth: int,
    ) -> _Value:
        operands = [values[o] for o in i.operands if o in values]
        if i.opcode == "parameter":
            return arguments[i.parameter] if 0 <= i.parameter < len(arguments) else _Value()
        if i.opcode == "tuple":
            return _Value(_NOBODY, operands)
        if i.opcode == "get-tuple-element" and operands:
            return operands[0].part(i.index)
        if opcode_work(i.opcode) is Work.VIEW:
            return _Value(_NOBODY.union(*(o.all for o in operands)))
        if i.opcode in ("call", "while", "conditional") and i.called:
            return self._called(i, operands, depth)
        return self._add(i, inside, operands, values)

    def _called(self, i: Instruction, operands: list[_Value], depth: int) -> _Value:
        if i.opcode == "call":
            return self._run(self._computation(i.called[0]), operands, depth + 1)
        if i.opcode == "conditional":
            self.warnings.setdefault(f"{i.name}: of a conditional the first branch is taken")
            return self._run(self._computation(i.called[0]), operands[1:2] or operands, depth + 1)
        found = _TRIPS.search(i.backend)
        if found is None:
            self.warnings.setdefault(
                f"{i.name}: how often the loop runs is not known; once is taken"
            )
        state = operands[0] if operands else _Value()
        body = self._computation(self._body(i))
        trips = int(found[1]) if found else 1
        self._check(
            trips * max(1, sum(opcode_work(x.opcode) is not Work.VIEW for x in body.instructions))
        )
        for _ in range(trips):
            state = self._run(body, [state], depth + 1)
        return state

    def _check(self, more: int) -> None:
        """Before a loop is repeated rather than after."""
        if len(self.steps) + more > MOST_STEPS:
            raise FormatError(f"more than {MOST_STEPS:,} instructions once loops are unrolled")

    def _body(self, i: Instruction) -> str:
        """The one of the two computations of a loop that does not give a truth value."""
        for name in i.called:
            computation = self._computation(name)
            root = computation.by_name().get(computation.root)
            if root is not None and root.shape.dtype != "pred":
                return name
        return i.called[-1]

    def _computation(self, name: str) -> Computation:
        try:
            return self.module.computations[name]
        except KeyError:
            raise FormatError(f"computation {name!r} is called and not in the module") from None

    def _add(
        self, i: Instruction, inside: Computation, operands: list[_Value], values: dict[str, _Value]
    ) -> _Value:
        self._check(1)
        before = [*(o.all for o in operands), *(values[a].all for a in i.after if a in values)]
        kind, collective = self._kind(i)
        self.steps.append(Step(i, inside, _NOBODY.union(*before), kind, collective))
        return _Value(frozenset((len(self.steps) - 1,)))

    def _kind(self, i: Instruction) -> tuple[str, Instruction | None]:
        match = _COLLECTIVE.match(i.opcode)
        if match:
            kind = {"-start": "start", "-done": "done"}.get(match[2] or "", "collective")
            return kind, i if kind != "done" else None
        if i.opcode == "async-start":
            inner = self._wrapped(i)
            return ("start", inner) if inner is not None else ("compute", None)
        return ("done" if i.opcode.endswith(("-done", "-update")) else "compute"), None

    def _wrapped(self, i: Instruction) -> Instruction | None:
        """The collective inside the computation that runs asynchronously."""
        for name in i.called:
            for inner in self._computation(name).instructions:
                if _COLLECTIVE.match(inner.opcode):
                    return inner
        return None
