"""Communication of one rank: one Collective for each, however many records describe it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.operators import (
    KNOWN_KERNELS,
    PARAMETERS,
    CommunicationKernels,
    ElementType,
    RecordedTensor,
    find_type,
    is_communication,
    is_dispatched,
    is_engine_operator,
    is_record,
    json_list,
    json_value,
    mentioned_tensors,
)
from chakrakit.sources.pytorch import names as words
from chakrakit.sources.pytorch.read import Extras, Kineto, Observer, whole
from chakrakit.sources.pytorch.recorder import GROUP_MARK
from chakrakit.sources.pytorch.timeline import Timeline, TimelineNames, nearest
from chakrakit.trace.communication import MAX_RANKS
from chakrakit.trace.model import CollectiveType


def tensor_sizes(kineto: Kineto, event: int) -> tuple[list[int], str]:
    """Bytes of each tensor argument in Kineto's record, and the first one's type; lists are skipped."""
    dims, types = _texts(kineto, "in_dims", event), _texts(kineto, "in_types", event)
    sizes, dtype = [], ""
    for shape, kind in zip(dims, types, strict=False):
        element = find_type(str(kind))
        if element is not None and isinstance(shape, list):
            size = element.bytes_of(math.prod(n for n in shape if type(n) is int))
            sizes.append(-1 if whole(size) is None else size)
            dtype = dtype or str(kind).removeprefix("c10::").lower()
    return sizes, dtype


def plain_values(kineto: Kineto, event: int) -> list[Any]:
    """Numbers and lists of numbers among an event's arguments, in their order."""
    printed = (t for t in _texts(kineto, "in_values", event) if isinstance(t, str))
    values = (json_value(text) for text in printed)
    return [v for v in values if v is not None]  # tensors, names and Python's True are none


def _texts(kineto: Kineto, column: str, event: int) -> list[Any]:
    return json_list(kineto.texts[int(kineto.text_columns[column][event])])


_NESTED = 6
"""How many rows up the mark or functional operator of a collective is searched for."""
_RANKS = 1 << 31
"""Ranks and tags are below this, as in 32-bit numbers; others are taken for damage."""


@dataclass
class RecordedCollective:
    """One collective or message as this rank saw it.

    `row` is the row that stands for it: the device's kernel, else the back end's own record, else
    the operator. `issuer` is the host row that asked for it. Sizes are bytes; -1 means unknown.
    """

    row: int
    issuer: int
    kind: int
    raw: str
    in_bytes: int = -1
    out_bytes: int = -1
    dtype: str = ""
    group: str | None = None
    group_size: int = -1
    members: tuple[int, ...] = ()
    """The ranks of its group, where the recording lists them with the call."""
    inferred: bool = False
    sequence: int = -1
    peer: int = -1
    tag: int = 0
    in_splits: list[int] = field(default_factory=list)
    out_splits: list[int] = field(default_factory=list)

    @property
    def is_message(self) -> bool:
        """A send or a receive."""
        return self.kind in (words.SEND, words.RECV)

    @property
    def type_name(self) -> str:
        """SEND, RECV, the collective's name, or its raw name where that is not known."""
        special = {words.SEND: "SEND", words.RECV: "RECV", words.UNKNOWN: self.raw}
        return special.get(self.kind) or CollectiveType(self.kind).name


def find_collectives(
    line: Timeline,
    names: TimelineNames,
    observer: Observer | None,
    kineto: Kineto | None,
    kernels: CommunicationKernels = KNOWN_KERNELS,
) -> list[RecordedCollective]:
    """All communication of a rank, in the order it was issued; `kernels` says which kernels are."""
    return _Finder(line, names, observer, kineto, kernels).find()


class _Finder:
    """Gathers the nested records of each collective and reads what each of them says."""

    def __init__(
        self,
        line: Timeline,
        names: TimelineNames,
        observer: Observer | None,
        kineto: Kineto | None,
        kernels: CommunicationKernels,
    ) -> None:
        self.line, self.names, self.observer, self.kineto = line, names, observer, kineto
        self.kernels = kernels
        self.marker = names.where(is_record) & line.is_host
        self.parameters = names.where(lambda s: s == PARAMETERS)
        self.dispatched = names.where(is_dispatched)
        self.functional = names.where(is_communication) & ~self.dispatched
        self.kernel = names.where(kernels.is_kernel) & (line.lane >= 0)
        self.engine = names.where(is_engine_operator) & line.is_host
        self.marked = names.where(lambda s: s.startswith(GROUP_MARK))
        self.extras = [_Rows(line, x) for x in _extras(observer, kineto)]
        if kineto is not None:
            named_events = kineto.extras.column("Collective name")
            is_named = np.isin(line.event, np.fromiter(named_events, np.int64, len(named_events)))
            self.kernel |= is_named & (line.lane >= 0)

    def find(self) -> list[RecordedCollective]:
        """One Collective per operator, per bare record and per bare kernel."""
        issuers = self._issuers()
        marks = self._by_issuer(issuers)
        candidates = [self._collective(int(r), marks.get(int(r), {})) for r in issuers]
        claimed = {
            row
            for issuer, kinds in marks.items()
            for rows in kinds.values()
            for row in rows
            if not self.engine[issuer] or row == _longest(self.line, rows)
        }
        bare = [r for r in np.flatnonzero(self.marker | self.kernel).tolist() if r not in claimed]
        kernels = self._launched_in(bare)
        inside = {row for rows in kernels.values() for row in rows}
        for row in bare:
            if row not in inside:
                candidates.append(self._collective(row, {"kernel": kernels.get(row, [])}))
        collectives = [c for c in candidates if c is not None and not self._is_batch(c, candidates)]
        return sorted(collectives, key=lambda c: (self.line.start[c.issuer], c.row))

    def _launched_in(self, bare: list[int]) -> dict[int, list[int]]:
        """The kernels that each back end's record launched, of rows that no operator issued."""
        record, records = nearest(self.line, self.marker), {r for r in bare if self.marker[r]}
        kernels: dict[int, list[int]] = {}
        for row in bare:
            if self.kernel[row] and int(record[row]) in records:
                kernels.setdefault(int(record[row]), []).append(row)
        return kernels

    def _is_batch(self, c: RecordedCollective, candidates: list[RecordedCollective | None]) -> bool:
        """Whether this is one kernel for a batch of messages, which have operators themselves."""
        alone = c.kind == words.UNKNOWN and c.row == c.issuer and bool(self.kernel[c.row])
        messages = (m for m in candidates if m is not None and m.is_message)
        return (
            alone
            and "sendrecv" in c.raw.lower()
            and any(self.line.is_host[m.row] for m in messages)
        )

    def _issuers(self) -> I64:
        """The outermost row of each collective: an operator, or a parameter record outside any operator."""
        is_issuer = self.dispatched | self.parameters
        above = nearest(self.line, self.dispatched)
        is_issuer &= self.dispatched | (above < 0)
        dispatched_inside = np.zeros(len(self.line), np.bool_)
        outer = nearest(self.line, self.functional)
        inner = np.flatnonzero(is_issuer & (outer >= 0))
        dispatched_inside[outer[inner]] = True
        is_issuer |= self.functional & ~dispatched_inside
        return np.flatnonzero(is_issuer | self._engine_issuers(is_issuer))

    def _engine_issuers(self, is_issuer: Mask) -> Mask:
        """Operators of engines that launch kernels of communication themselves, not through others."""
        owner = nearest(self.line, is_issuer | self.engine)
        owners = owner[np.flatnonzero(self.kernel & (owner >= 0))]
        launching = np.zeros(len(self.line), np.bool_)
        launching[owners] = True
        return launching & self.engine

    def _by_issuer(self, issuers: I64) -> dict[int, dict[str, list[int]]]:
        """Issuer → the rows of each sort that belong to it."""
        is_issuer = np.zeros(len(self.line), np.bool_)
        is_issuer[issuers] = True
        owner = nearest(self.line, is_issuer)
        out: dict[int, dict[str, list[int]]] = {}
        for sort, mask in (("parameters", self.parameters), ("kernel", self.kernel)):
            for row in np.flatnonzero(mask & (owner >= 0)).tolist():
                out.setdefault(int(owner[row]), {}).setdefault(sort, []).append(row)
        for row, issuer in self._marker_owners(issuers, owner).items():
            out.setdefault(issuer, {}).setdefault("marker", []).append(row)
        return out

    def _marker_owners(self, issuers: I64, owner: I64) -> dict[int, int]:
        """Issuers of back ends' records, which may run later on another thread: by the record's number."""
        marks = np.flatnonzero(self.marker)
        inside = (owner[marks] >= 0) & ~self.line.astray[marks]
        out = dict(zip(marks[inside].tolist(), owner[marks[inside]].tolist(), strict=True))
        beside, number = marks[~inside], self._numbers()
        if number is None:
            return out | self._markers_in_order(beside, issuers)
        ordered = issuers[np.argsort(number[issuers], kind="stable")]
        place = np.searchsorted(number[ordered], number[beside]) - 1
        has_owner = (place >= 0) & (number[beside] > 0)
        return out | dict(
            zip(beside[has_owner].tolist(), ordered[place[has_owner]].tolist(), strict=True)
        )

    def _markers_in_order(self, marks: I64, issuers: I64) -> dict[int, int]:
        """Issuers where records have no numbers: each gets the earliest free operator that fits."""
        waiting = issuers[self.dispatched[issuers]].tolist()
        out: dict[int, int] = {}
        for mark in marks.tolist():
            fits = (
                i
                for i in waiting
                if self.line.start[i] <= self.line.start[mark] and self._alike(mark, i)
            )
            issuer = next(fits, -1)
            if issuer >= 0:
                out[mark] = issuer
                waiting.remove(issuer)
        return out

    def _alike(self, mark: int, issuer: int) -> bool:
        """Whether record and issuer are the same kind; gloo does a reduce-scatter as an all-reduce."""
        kinds = words.kind_of(self.names[mark]), words.kind_of(self.names[issuer])
        both = (CollectiveType.ALL_REDUCE, CollectiveType.REDUCE_SCATTER)
        return kinds[0] == kinds[1] or kinds == both

    def _numbers(self) -> I64 | None:
        """Record-function ids by row; None if one is missing or not unique."""
        number = np.zeros(len(self.line), np.int64)
        if self.observer is not None:
            recorded = self.line.operator >= 0
            number[recorded] = self.observer.rf_id[self.line.operator[recorded]]
        elif self.kineto is not None:
            recorded = self.line.event >= 0
            number[recorded] = np.maximum(self.kineto.rf_id[self.line.event[recorded]], 0)
        used = number[self.marker | self.dispatched]
        unique = len(np.unique(used)) == len(used) and (used > 0).all()
        return number if unique else None

    def _collective(self, issuer: int, marks: dict[str, list[int]]) -> RecordedCollective | None:
        kernels, records = marks.get("kernel", []), marks.get("marker", [])
        parameters = marks.get("parameters", [])
        if self.parameters[issuer] and not parameters:
            parameters = [issuer]
        facts = [self._facts(row) for row in (*parameters, *kernels, issuer)]
        collective_name = next((f["Collective name"] for f in facts if "Collective name" in f), "")
        if collective_name in ("wait", "init"):
            return None
        longest = [_longest(self.line, kernels)] if kernels else []
        row = (longest or records[-1:] or parameters[-1:] or [issuer])[-1]
        names = [
            collective_name,
            self.names[issuer],
            *(self.names[r] for r in (*records, *kernels)),
        ]
        tabled = self.kernels.kind(self.names[row]) if self.kernel[row] else None
        kinds = (words.kind_named(tabled or ""), *map(words.kind_of, names))
        kind = next((k for k in kinds if k != words.UNKNOWN), words.UNKNOWN)
        if kind == words.UNKNOWN and self.parameters[issuer] and not (kernels or records):
            return None  # older versions of PyTorch record waits like collectives, without a name
        out = RecordedCollective(row, issuer, kind, collective_name or self.names[row])
        self._read_arguments(out)
        if self.observer is None:
            self._read_dimensions(out, records)
        for row_facts in reversed(facts):
            _read_facts(out, row_facts)
        if parameters:
            self._read_parameters(out, parameters[0])
        return out

    def _facts(self, row: int) -> dict[str, str]:
        """The extra attributes of a row, under Kineto's names for them."""
        facts: dict[str, str] = {}
        for extras in self.extras:
            facts = {**extras.at(row), **facts}
        return facts

    def _arguments(self, row: int) -> list[Any]:
        if self.observer is None or self.line.operator[row] < 0:
            return []
        return json_list(self.observer.in_values[int(self.line.operator[row])].as_py())

    def _read_arguments(self, out: RecordedCollective) -> None:
        """Sizes, splits, peer and tag from the operator's own arguments."""
        values = self._arguments(out.issuer)
        tensors = [t for t in (_tensors(v) for v in values) if t]
        if tensors:
            # c10d's base forms name the output first; all others name what goes in.
            source = tensors[1] if len(tensors) > 1 and _output_first(out) else tensors[0]
            target = tensors[0]
            out.in_bytes, out.out_bytes = _bytes(source), _bytes(target)
            out.dtype = self._dtype(out.issuer)
        lists = [v for v in values if _is_split(v)]
        if out.kind == CollectiveType.ALL_TO_ALL and len(lists) >= 2:
            out.out_splits, out.in_splits = lists[0], lists[1]
        self._read_message(out, values)
        out.group = self._group_argument(out.issuer)

    def _read_dimensions(self, out: RecordedCollective, records: list[int]) -> None:
        """Sizes, splits, peer and tag from Kineto alone; sizes of lists only the back end's record has."""
        assert self.kineto is not None
        events = [int(self.line.event[r]) for r in (out.issuer, *records)]
        candidates = [tensor_sizes(self.kineto, e) for e in events if e >= 0]
        sizes, out.dtype = next((f for f in candidates if f[0]), ([], ""))
        if sizes:
            out.in_bytes = sizes[1] if len(sizes) > 1 and _output_first(out) else sizes[0]
            out.out_bytes = sizes[0] if len(sizes) > 1 or not _output_first(out) else -1
        values = plain_values(self.kineto, events[0]) if events[0] >= 0 else []
        self._read_message(out, values)
        lists = [v for v in values if _is_split(v)]
        if out.kind == CollectiveType.ALL_TO_ALL and len(lists) >= 2:
            out.out_splits, out.in_splits = lists[0], lists[1]

    @staticmethod
    def _read_message(out: RecordedCollective, values: list[Any]) -> None:
        """Read a message's peer and tag: the first two numbers among its arguments."""
        numbers = [n for v in values if type(v) is int and (n := whole(v, _RANKS)) is not None]
        if out.is_message and len(numbers) >= 2:
            out.peer, out.tag = numbers[0], numbers[1]

    def _dtype(self, row: int) -> str:
        assert self.observer is not None
        text = self.observer.texts[
            int(self.observer.text_columns["in_types"][self.line.operator[row]])
        ]
        return text.partition("Tensor(")[2].partition(")")[0].removeprefix("c10::").lower()

    def _group_argument(self, issuer: int) -> str | None:
        """The group's name: from the collector's mark, or the last string of a functional collective."""
        row, depth = issuer, 0
        while row >= 0 and depth < _NESTED:
            if self.marked[row]:
                return self.names[row].removeprefix(GROUP_MARK) or None
            if self.functional[row]:
                strings = [v for v in self._arguments(row) if isinstance(v, str) and v[:1] != "<"]
                return strings[-1] if strings else None
            row, depth = int(self.line.parent[row]), depth + 1
        return None

    def _read_parameters(self, out: RecordedCollective, row: int) -> None:
        """Read the sequence number, the group and the peer from a `record_param_comms` row."""
        values = self._arguments(row)
        at = next((i for i, v in enumerate(values) if _is_sequence(v)), -1)
        if at < 0:
            return
        out.sequence = values[at][0]
        after = values[at + 1 : at + 3]
        group = next(
            (v for v in after if isinstance(v, list) and v and isinstance(v[0], str)), None
        )
        if group:
            out.group = out.group or group[0]
        peer = next((v for v in after if type(v) is int and whole(v, _RANKS) is not None), None)
        if out.is_message and peer is not None:
            out.peer = peer


def _longest(line: Timeline, rows: list[int]) -> int:
    """Of several rows the one that took longest; of equals the last."""
    return max(reversed(rows), key=lambda row: int(line.duration[row]))


_FROM_OBSERVER = {
    "collective_name": "Collective name",
    "dtype": "dtype",
    "in_msg_nelems": "In msg nelems",
    "out_msg_nelems": "Out msg nelems",
    "in_split_size": "In split size",
    "out_split_size": "Out split size",
    "pg_name": "Process Group Name",
    "pg_size": "Group size",
}


class _Rows:
    """Extra attributes of one source, looked up by timeline row."""

    def __init__(self, line: Timeline, source: tuple[Extras, bool]) -> None:
        extras, observed = source
        self._source = line.operator if observed else line.event
        strings = extras.texts.strings
        self._facts: dict[int, dict[str, str]] = {}
        for row, key, value in zip(extras.row.tolist(), extras.key, extras.value, strict=True):
            name = strings[key]
            name = _FROM_OBSERVER.get(name, name) if observed else name
            self._facts.setdefault(row, {})[name] = strings[value]

    def at(self, row: int) -> dict[str, str]:
        return self._facts.get(int(self._source[row]), {})


def _extras(observer: Observer | None, kineto: Kineto | None) -> list[tuple[Extras, bool]]:
    out = [] if observer is None else [(observer.extras, True)]
    return out if kineto is None else [*out, (kineto.extras, False)]


def _read_facts(out: RecordedCollective, facts: dict[str, str]) -> None:
    """Read sizes, splits and group from a row's extra attributes."""
    element = find_type(facts.get("dtype", ""))
    out.dtype = facts.get("dtype", out.dtype).lower()
    if element is not None and "In msg nelems" in facts:
        out.in_bytes = _message_bytes(facts["In msg nelems"], element)
    if element is not None and "Out msg nelems" in facts:
        out.out_bytes = _message_bytes(facts["Out msg nelems"], element)
    out.in_splits = _numbers(facts.get("In split size", "")) or out.in_splits
    out.out_splits = _numbers(facts.get("Out split size", "")) or out.out_splits
    out.group = facts.get("Process Group Name", out.group)
    size = whole(facts.get("Group size"), _RANKS)
    out.group_size = out.group_size if size is None else size
    out.members = _members(facts.get("Process Group Ranks", ""), size) or out.members
    for key in ("Src Rank", "Dst Rank"):
        peer = whole(facts.get(key), _RANKS)
        if peer is not None and out.is_message:
            out.peer = peer


_ABBREVIATED = re.compile(r"\[(\d{1,9}), .*\.\.\.,? (\d{1,9})\]")


def _members(text: str, size: int | None) -> tuple[int, ...]:
    """Ranks as PyTorch lists them; of many only the first and the last, which do where none is left out."""
    if size is None or not 0 < size <= MAX_RANKS:
        return ()
    if found := _ABBREVIATED.fullmatch(text):
        first, last = int(found[1]), int(found[2])
        follows = last - first + 1 == size and last < MAX_RANKS
        return tuple(range(first, last + 1)) if follows else ()
    listed = _numbers(text)
    return tuple(listed) if len({*listed}) == size and max(listed) < MAX_RANKS else ()


def _numbers(text: str) -> list[int]:
    sizes = json_list(text)  # long lists are abbreviated with dots, and then give nothing
    return sizes if _is_split(sizes) else []


def _message_bytes(items: object, element: ElementType) -> int:
    """Bytes of this number of elements; -1 if it is not a number or too large."""
    count = whole(items)
    size = None if count is None else whole(element.bytes_of(count))
    return -1 if size is None else size


def _bytes(tensors: list[RecordedTensor]) -> int:
    """Bytes of all tensors together; -1 if that is too large."""
    total = sum(t.bytes for t in tensors)
    return -1 if whole(total) is None else total


def _tensors(value: Any) -> list[RecordedTensor]:
    """The tensors in an argument: itself, or those of a list."""
    return [tensor for tensor, _, _ in mentioned_tensors(value)]


def _is_split(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(type(x) is int and x >= 0 and whole(x) is not None for x in value)


def _is_sequence(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and type(value[0]) is int
        and whole(value[0]) is not None
        and isinstance(value[1], bool)
    )


def _output_first(c: RecordedCollective) -> bool:
    return c.kind in (
        CollectiveType.ALL_GATHER,
        CollectiveType.REDUCE_SCATTER,
        CollectiveType.ALL_TO_ALL,
        CollectiveType.GATHER,
        CollectiveType.SCATTER,
    )


def assign_groups(
    collectives: list[RecordedCollective], groups: dict[str, tuple[int, ...]], rank: int
) -> int:
    """Give a group to collectives that name none, if only one fits; returns how many are left without.

    The sizes of a gather or scatter imply how many ranks took part.
    """
    mine = {name: ranks for name, ranks in groups.items() if rank in ranks}
    for i, c in enumerate(collectives):
        if c.group is None:
            sizes = implied_group_size(c)
            fitting = [n for n, ranks in mine.items() if sizes is None or len(ranks) == sizes]
            if len(fitting) == 1:
                collectives[i] = replace(c, group=fitting[0], inferred=len(mine) > 1)
    return sum(c.group is None for c in collectives)


def implied_group_size(c: RecordedCollective) -> int | None:
    """How many ranks took part, from the sizes of a gather or scatter; None for all others."""
    small, large = sorted((max(c.in_bytes, 0), max(c.out_bytes, 0)))
    gathers = c.kind in (CollectiveType.ALL_GATHER, CollectiveType.REDUCE_SCATTER)
    return large // small if gathers and small > 0 and large % small == 0 else None


def name_peers(collectives: list[RecordedCollective], groups: Mapping[str, Sequence[int]]) -> None:
    """Replace messages' peers, which PyTorch gives as places in the group, by ranks."""
    for c in collectives:
        members = groups.get(c.group or "", ())
        if c.is_message and 0 <= c.peer < len(members):
            c.peer = members[c.peer]


def number_in_groups(collectives: list[RecordedCollective]) -> None:
    """Number a group's collectives as issued, where sequence numbers are missing or not unique."""
    together: dict[tuple[str, bool, int, int], list[RecordedCollective]] = {}
    for c in collectives:
        message = (c.kind, c.peer) if c.is_message else (0, 0)
        together.setdefault((c.group or "", c.is_message, *message), []).append(c)
    for same in together.values():
        numbers = [c.sequence for c in same]
        if min(numbers) < 0 or len(set(numbers)) < len(numbers):
            for n, c in enumerate(same):
                c.sequence = n
