"""Communication operators of a recording: which group, which tensors, and what is left in a smaller group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chakrakit.errors import TraceError
from chakrakit.replayer.plan import Collective, ProcessGroup
from chakrakit.replayer.ranks import WORLD_NAME, ReplayWorld
from chakrakit.replayer.recording import RecordedRows
from chakrakit.replayer.runner import FUNCTIONAL, ISSUED, MESSAGES, REDUCTIONS
from chakrakit.replayer.tensors import StorageView, Unsupported, check_integer, recorded_tensors
from chakrakit.replayer.units import ReplayUnit
from chakrakit.sources.pytorch.recorder import REDUCE_MARK

_OUTPUTS = ("output_tensor", "output_tensors", "output", "outputs")
_INPUTS = ("input_tensor", "input_tensors", "input", "inputs")
_BOTH = ("tensors", "tensor")
_PEERS = ("dst", "src", "root_rank")
_SCRATCH = -(1 << 40)
"""Storage numbers of buffers that no recorded storage is large enough for; one per storage of a tensor."""


@dataclass(frozen=True)
class ReplayedExchange:
    """One communication of one rank, on the group as it is in the replay.

    `fresh` are results that the operator itself makes. `missing` says why it cannot be done here.
    `functional` ones are called as they were recorded.
    """

    op: str
    functional: bool
    group: int = -1
    inputs: list[StorageView] = field(default_factory=list)
    outputs: list[StorageView] = field(default_factory=list)
    fresh: list[StorageView] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    wait: bool = False
    root: int = 0
    tag: int = 0
    in_splits: list[int] = field(default_factory=list)
    out_splits: list[int] = field(default_factory=list)
    reduce: str = "sum"
    missing: str = ""

    def step(self, work: int, inputs: list[int], outputs: list[int], ns: int) -> Collective:
        """The plan's step, with the tensors in these slots."""
        return Collective(
            op=self.op,
            group=self.group,
            work=work,
            inputs=inputs,
            outputs=outputs,
            wait=self.wait,
            root=self.root,
            tag=self.tag,
            in_splits=self.in_splits,
            out_splits=self.out_splits,
            reduce=self.reduce,
            ns=ns,
        )


@dataclass(frozen=True)
class Arguments:
    """What a communication operator was called with: tensors and plain values by argument."""

    tensors: dict[str, list[StorageView]]
    plain: dict[str, Any]
    results: list[StorageView]

    def first(self, names: tuple[str, ...]) -> list[StorageView]:
        """The tensors of the first of these arguments that there is."""
        return next((self.tensors[n] for n in names if n in self.tensors), [])


def read_exchange(
    seen: RecordedRows,
    unit: ReplayUnit,
    world: ReplayWorld,
    rank: int,
    groups: list[ProcessGroup],
    shrink: str,
) -> ReplayedExchange:
    """The communication of a unit, checked."""
    assert unit.schema is not None
    place = seen.place(unit.row)
    name = unit.schema.full_name
    functional = name in FUNCTIONAL
    op = FUNCTIONAL[name] if functional else ISSUED[name]
    given = _arguments(seen, unit, place)
    rows = seen.comm_rows.get(unit.row, [])
    found = _plain_exchange(op, functional, given, rows, _marked_reduction(seen, unit.row))
    if op == "wait":
        return found
    if found.reduce not in REDUCTIONS:
        raise TraceError(
            f"{place}: no reduction {found.reduce!r}; there are {', '.join(REDUCTIONS)}"
        )
    wanted = _group_name(seen, given, rows, place)
    members = world.recorded_members(wanted, seen.rank, place)
    here = world.here(members, rank)
    found = replace(found, group=_number(groups, wanted, here, place))
    kept = [world.recorded_rank(r) for r in here]
    if op in MESSAGES or any(n in given.plain for n in _PEERS):
        found = _with_peer(found, given, members, kept, place)
    if len(here) == len(members):
        return found
    return _smaller(replace(found, functional=False), members, kept, shrink)


def _arguments(seen: RecordedRows, unit: ReplayUnit, place: str) -> Arguments:
    assert unit.schema is not None
    given = seen.arguments(unit.row, "inputs")
    tensors: dict[str, list[StorageView]] = {}
    plain: dict[str, Any] = {}
    for i, argument in enumerate(unit.schema.arguments[: len(given)]):
        if "Tensor" in argument.type:
            tensors[argument.name] = _flat(given.item(i), place)
        else:
            plain[argument.name] = given.item(i)[0]
    results = seen.arguments(unit.row, "outputs")
    flat = [t for i in range(len(results)) for t in _flat(results.item(i), place)]
    return Arguments(tensors, plain, flat)


def _flat(item: tuple[Any, Any, str, Any], place: str) -> list[StorageView]:
    try:
        parts = recorded_tensors(item, place)
    except Unsupported as why:
        raise TraceError(f"{place}: communication of {why}") from None
    nested = [t for p in parts for t in (p if isinstance(p, list) else [p])]
    return [t for t in nested if t is not None]


def _marked_reduction(seen: RecordedRows, row: int) -> str:
    """What the collector wrote around a collective; the operator shows it only as an object."""
    while row >= 0:
        if seen.names[row].startswith(REDUCE_MARK):
            return seen.names[row].removeprefix(REDUCE_MARK)
        row = seen.parents[row]
    return "sum"


def _plain_exchange(
    op: str, functional: bool, given: Arguments, rows: list[int], marked: str
) -> ReplayedExchange:
    both = given.first(_BOTH)
    fresh = given.results if functional and op != "wait" else []
    reduction = given.plain.get("reduce_op")
    return ReplayedExchange(
        op,
        functional,
        inputs=both if op != "recv" and both else given.first(_INPUTS),
        outputs=fresh or (both if op != "send" and both else given.first(_OUTPUTS)),
        fresh=fresh,
        rows=rows,
        wait=given.plain.get("async_op") is False,
        tag=_whole(given.plain.get("tag")),
        in_splits=_splits(given.plain, "input_split_sizes"),
        out_splits=_splits(given.plain, "output_split_sizes"),
        reduce=reduction if isinstance(reduction, str) and reduction[:1] != "<" else marked,
    )


def _whole(value: Any) -> int:
    return value if type(value) is int else 0


def _splits(plain: dict[str, Any], name: str) -> list[int]:
    found = plain.get(name)
    if not isinstance(found, list):
        return []
    return [check_integer(v, name, "an all-to-all") for v in found]


def _group_name(seen: RecordedRows, given: Arguments, rows: list[int], place: str) -> str:
    """As the operator says, else as the linker found."""
    said = given.plain.get("group_name")
    if isinstance(said, str) and said[:1] != "<":
        return said
    found = [n for r in rows if (n := seen.group_names[r]) is not None]
    if found:
        return found[0]
    raise TraceError(
        f"{place} does not say its group, and nothing tells it; link all ranks together (chakra link)"
    )


def _number(groups: list[ProcessGroup], name: str, here: list[int], place: str) -> int:
    wanted = name or WORLD_NAME
    for i, group in enumerate(groups):
        if group.name == wanted and group.ranks == here:
            return i
    raise TraceError(f"{place}: group {name!r} has no member in this replay")


def _with_peer(
    found: ReplayedExchange, given: Arguments, members: Sequence[int], kept: list[int], place: str
) -> ReplayedExchange:
    """The other end of a message, or the root, by its place among the members that are here."""
    name = next((n for n in _PEERS if n in given.plain), "")
    if not name:
        return replace(found, missing=f"{found.op} from anybody")
    peer = check_integer(given.plain[name], name, place)
    if peer >= len(members):
        raise TraceError(f"{place}: {name} {peer} in a group of {len(members)}")
    if members[peer] in kept:
        return replace(found, root=kept.index(members[peer]))
    if found.op in MESSAGES:
        return replace(found, missing=f"{found.op} (the other end is not here)")
    return found


def _smaller(
    found: ReplayedExchange, members: Sequence[int], kept: list[int], shrink: str
) -> ReplayedExchange:
    """The same in a group that lost members."""
    places = [i for i, m in enumerate(members) if m in kept]
    change = _SMALLER.get(found.op)
    return change(found, len(members), places, shrink) if change else found


def _flat_part(tensor: StorageView, elements: int) -> StorageView:
    """The first elements of a tensor; more than it has come from a buffer of their own."""
    if elements <= tensor.elements:
        return tensor._replace(shape=(elements,), strides=(1,))
    storage = _SCRATCH - tensor.storage
    return tensor._replace(storage=storage, shape=(elements,), strides=(1,), offset=0)


def _gather_flat(
    found: ReplayedExchange, old: int, places: list[int], shrink: str
) -> ReplayedExchange:
    part, whole = found.inputs[0], found.outputs[0]
    size = part.elements if shrink == "keep" else whole.elements // len(places)
    return replace(
        found, inputs=[_flat_part(part, size)], outputs=[_flat_part(whole, size * len(places))]
    )


def _scatter_flat(
    found: ReplayedExchange, old: int, places: list[int], shrink: str
) -> ReplayedExchange:
    whole, part = found.inputs[0], found.outputs[0]
    size = part.elements if shrink == "keep" else whole.elements // len(places)
    return replace(
        found, inputs=[_flat_part(whole, size * len(places))], outputs=[_flat_part(part, size)]
    )


def _exchange_flat(
    found: ReplayedExchange, old: int, places: list[int], shrink: str
) -> ReplayedExchange:
    source, target = found.inputs[0], found.outputs[0]
    if not found.in_splits:
        size = source.elements // (len(places) if shrink == "scale" else old)
        parts = [_flat_part(t, size * len(places)) for t in (source, target)]
        return replace(found, inputs=parts[:1], outputs=parts[1:])
    # Shares differ from peer to peer and only the senders know them: they stay as they are.
    row = source.elements // max(sum(found.in_splits), 1) or target.elements // max(
        sum(found.out_splits), 1
    )
    gone = [found.in_splits[i] * row for i in places if i < len(found.in_splits)]
    come = [found.out_splits[i] * row for i in places if i < len(found.out_splits)]
    return replace(
        found,
        inputs=[_flat_part(source, sum(gone))],
        outputs=[_flat_part(target, sum(come))],
        in_splits=gone,
        out_splits=come,
    )


def _some(tensors: list[StorageView], places: list[int], old: int) -> list[StorageView]:
    return [tensors[i] for i in places] if len(tensors) == old else tensors


def _lists(found: ReplayedExchange, old: int, places: list[int], shrink: str) -> ReplayedExchange:
    return replace(
        found, inputs=_some(found.inputs, places, old), outputs=_some(found.outputs, places, old)
    )


_SMALLER = {
    "all_gather_flat": _gather_flat,
    "reduce_scatter_flat": _scatter_flat,
    "all_to_all_flat": _exchange_flat,
    "all_gather": _lists,
    "reduce_scatter": _lists,
    "all_to_all": _lists,
    "gather": _lists,
    "scatter": _lists,
}
