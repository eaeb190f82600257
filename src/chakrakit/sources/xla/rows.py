"""A module as rows, its nodes before they belong to a rank: work, order, memory, communication.

Calls are inlined, loops unrolled, and results followed through tuples (`Unrolled`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache

from chakrakit.errors import FormatError
from chakrakit.operators import HLO_COLLECTIVES, Work, convolution_flops, opcode_work, product_flops
from chakrakit.sources.xla.hlo import Computation, Instruction, Module
from chakrakit.trace.model import CollectiveType, NodeType

# Work of HLO instructions: floating-point operations and bytes, counted as XLA's cost analysis does.
_LIBRARY = re.compile(r"gemm|matmul", re.I)
"""Libraries' matrix products, as `__cublas$gemm`."""
_CONTRACTED = re.compile(r"lhs_contracting_dimensions\W+\[([^\]]*)\]")


def flops(module: Module, instruction: Instruction, inside: Computation) -> tuple[int, int]:
    """FLOPs of one instruction with all that it calls: (of dots and convolutions, of everything else)."""
    if instruction.opcode == "fusion":
        return _of_called(module, instruction)
    shapes = {i.name: i.shape for i in inside.instructions}
    operands = [shapes[o] for o in instruction.operands if o in shapes]
    if instruction.opcode == "dot" and operands:
        summed = math.prod(
            operands[0].dims[d] for d in instruction.contracting if 0 <= d < len(operands[0].dims)
        )
        return product_flops(instruction.shape.elements, 1, summed), 0
    if instruction.opcode == "custom-call" and _LIBRARY.search(instruction.target) and operands:
        contracted = _CONTRACTED.search(instruction.backend)
        dims = [int(d) for d in re.findall(r"\d+", contracted[1])] if contracted else [-1]
        rank = len(operands[0].dims)
        summed = math.prod(operands[0].dims[d] for d in dims if -rank <= d < rank)
        return product_flops(instruction.shape.first.elements, 1, summed), 0
    if instruction.opcode == "convolution" and len(operands) > 1:
        kernel, features = operands[1].dims, instruction.kernel_features
        outputs = kernel[features] if 0 <= features < len(kernel) else 1
        return convolution_flops(instruction.shape.elements, kernel) // max(outputs, 1), 0
    if instruction.opcode == "reduce" and operands:
        return 0, max(operands[0].elements - instruction.shape.first.elements, 0)
    computes = opcode_work(instruction.opcode) is Work.VECTOR
    return 0, instruction.shape.elements if computes else 0


def _of_called(module: Module, instruction: Instruction) -> tuple[int, int]:
    work = [_of_computation(module, name) for name in instruction.called]
    return sum(f[0] for f in work), sum(f[1] for f in work)


@lru_cache(1 << 12)
def _of_computation(module: Module, name: str) -> tuple[int, int]:
    """Work of everything in a computation; many fusions call the same one."""
    computation = module.computations.get(name) or Computation(name)
    try:
        work = [flops(module, inner, computation) for inner in computation.instructions]
    except RecursionError:
        raise FormatError(f"{name}: fusions call themselves, or are nested too deep") from None
    return sum(f[0] for f in work), sum(f[1] for f in work)


def moved(instruction: Instruction, sizes: dict[str, int]) -> int:
    """Bytes read and written: operands and result, each once.

    A slice reads as much as its result, and an update in place writes as much as the update.
    """
    if instruction.opcode in ("dynamic-slice", "slice", "gather"):
        return 2 * instruction.shape.bytes
    if instruction.opcode == "dynamic-update-slice" and len(instruction.operands) > 1:
        return 2 * sizes.get(instruction.operands[1], 0)
    return instruction.shape.bytes + sum(sizes.get(o, 0) for o in instruction.operands)


MOST_STEPS = 5_000_000
"""Instructions of one program once loops are unrolled; more would take gigabytes of rows."""
_TRIPS = re.compile(r"known_trip_count\W+n\W+(\d+)")
_COLLECTIVE = re.compile(
    r"^(all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all|collective-permute|"
    r"collective-broadcast)(-start|-done)?$"
)
RunNumbers = frozenset[int]
_NOBODY: RunNumbers = frozenset()


@dataclass(eq=False)
class InstructionRun:
    """One run of an instruction. `after` numbers the runs before it; `inside` defines its operands."""

    instruction: Instruction
    inside: Computation
    after: RunNumbers
    kind: str = "compute"
    """compute, collective, start or done."""
    collective: Instruction | None = None
    """What is communicated, for a start inside the computation it wraps."""


@dataclass(eq=False)
class _Value:
    """The runs that made a value, and for a tuple those that made its parts."""

    made_by: RunNumbers = _NOBODY
    parts: list[_Value] = field(default_factory=list)

    @property
    def all(self) -> RunNumbers:
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
        self.steps: list[InstructionRun] = []
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
        trip_count = _TRIPS.search(i.backend)
        if trip_count is None:
            self.warnings.setdefault(
                f"{i.name}: how often the loop runs is not known; once is taken"
            )
        state = operands[0] if operands else _Value()
        body = self._computation(self._body(i))
        trips = int(trip_count[1]) if trip_count else 1
        self._check(
            trips * max(1, sum(opcode_work(x.opcode) is not Work.VIEW for x in body.instructions))
        )
        for _ in range(trips):
            state = self._run(body, [state], depth + 1)
        return state

    def _check(self, more: int) -> None:
        """Refuse programs that are too long, before a loop is repeated rather than after."""
        if len(self.steps) + more > MOST_STEPS:
            raise FormatError(f"more than {MOST_STEPS:,} instructions once loops are unrolled")

    def _body(self, i: Instruction) -> str:
        """The loop's body: of its two computations the one that does not return a truth value."""
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
        self.steps.append(InstructionRun(i, inside, _NOBODY.union(*before), kind, collective))
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


def memory_of(module: Module, steps: Sequence[InstructionRun]) -> tuple[list[int], list[int], int]:
    """Bytes each step allocates and frees, and the peak.

    Results live until they are last read, arguments throughout.
    """
    argument_bytes = sum(i.shape.bytes for i in module.main.instructions if i.opcode == "parameter")
    last = {a: n for n, step in enumerate(steps) for a in step.after}
    alloc, free = [0] * len(steps), [0] * len(steps)
    for number, step in enumerate(steps):
        size = 0 if step.kind == "done" else step.instruction.shape.bytes
        alloc[number] = size
        if number in last:
            free[last[number]] += size
    peak = live = argument_bytes
    for allocated, freed in zip(alloc, free, strict=True):
        live += allocated
        peak = max(peak, live)
        live -= freed
    if alloc:
        alloc[0] += argument_bytes
    return alloc, free, module.allocated or peak


KINDS = {opcode: CollectiveType[kind] for opcode, kind in HLO_COLLECTIVES.items() if kind != "SEND"}
_PERMUTE = next(opcode for opcode, kind in HLO_COLLECTIVES.items() if kind == "SEND")
"""Messages between pairs of devices."""
COMPUTE, COMMUNICATION, RECEIVE = 0, 1, 2


@dataclass(eq=False)
class ProgramRow:
    """A node before it has a rank: what it is, and what it waits for."""

    name: str
    type: NodeType
    step: InstructionRun
    after: list[int]
    _: KW_ONLY
    stream: int = COMPUTE
    kind: int = -1
    size: int = 0
    out_size: int = 0
    groups: tuple[tuple[int, ...], ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()
    tag: int = 0
    alloc: int = 0
    free: int = 0


@dataclass(eq=False)
class HloProgram:
    """Rows of a module, the same for all devices but for messages that a device has no part in."""

    module: Module
    rows: list[ProgramRow] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    peak: int = 0


def program_of(module: Module) -> HloProgram:
    """The rows of a module."""
    unrolled = Unrolled(module)
    out = HloProgram(module, warnings=list(unrolled.warnings))
    alloc, free, out.peak = memory_of(module, unrolled.steps)
    last_of: dict[int, int] = {}
    tags: dict[str, int] = {}
    for number, step in enumerate(unrolled.steps):
        after = sorted({last_of[a] for a in step.after if a in last_of})
        for row in _rows(step, after, tags):
            row.alloc, row.free = (
                (alloc[number], free[number]) if row.name == step.instruction.name else (0, 0)
            )
            out.rows.append(row)
        last_of[number] = len(out.rows) - 1
    return out


def _rows(step: InstructionRun, after: list[int], tags: dict[str, int]) -> list[ProgramRow]:
    """One node, or a send and a receive for a permutation."""
    i, collective = step.instruction, step.collective
    if collective is None:
        return [ProgramRow(name=i.name, type=NodeType.COMP_NODE, step=step, after=after)]
    base = re.sub("-(start|done)$", "", collective.opcode)
    stream = COMMUNICATION if step.kind == "start" else COMPUTE
    size = _operand_bytes(collective, step)
    if base != _PERMUTE:
        return [
            ProgramRow(
                name=i.name,
                type=NodeType.COMM_COLL_NODE,
                step=step,
                after=after,
                stream=stream,
                kind=int(KINDS[base]),
                size=size,
                out_size=_result_bytes(collective, step),
                groups=collective.groups,
            )
        ]
    tag = tags[collective.name] = tags.get(collective.name, len(tags))
    out = ProgramRow(
        name=f"{i.name}.send",
        type=NodeType.COMM_SEND_NODE,
        step=step,
        after=after,
        stream=COMMUNICATION,
        kind=-1,
        size=size,
        pairs=collective.pairs,
        tag=tag,
    )
    back = ProgramRow(
        name=i.name,
        type=NodeType.COMM_RECV_NODE,
        step=step,
        after=after,
        stream=RECEIVE,
        kind=-1,
        size=size,
        pairs=collective.pairs,
        tag=tag,
    )
    return [out, back]


def _operand_bytes(collective: Instruction, step: InstructionRun) -> int:
    sizes = {x.name: x.shape.bytes for x in step.inside.instructions}
    size = sum(sizes.get(o, 0) for o in collective.operands)
    if not size:  # operands are parameters of the computation it was wrapped in
        size = sum(sizes.get(o, 0) for o in step.instruction.operands)
    return size


def _result_bytes(collective: Instruction, step: InstructionRun) -> int:
    """Bytes a collective gives; the result of a start holds its operands too, which do not count."""
    doubled = (
        collective.opcode.startswith(("all-gather", "collective-permute")) and step.kind == "start"
    )
    if doubled and collective.shape.is_tuple and len(collective.shape.parts) > 1:
        return collective.shape.parts[1].bytes
    return collective.shape.bytes
