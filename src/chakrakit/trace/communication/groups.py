"""Process groups, as files like `{"1": [0, 1], …}` define them; Binding: how a rank runs a shared body."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chakrakit.arrays import I64, Mask
from chakrakit.configuration import LARGEST_WRITTEN, read_json
from chakrakit.errors import FormatError, TraceError, listed
from chakrakit.results import counted
from chakrakit.trace.files import BundlePath
from chakrakit.trace.model import NodeType, Trace

WORLD = ("", "0")
"""Names that mean all ranks unless a group with that name is defined."""
MAX_RANKS = 1 << 22
"""Arrays have an entry for each rank up to the highest; no system has a quarter as many accelerators."""
_Rank = Annotated[int, msgspec.Meta(ge=0, lt=MAX_RANKS)]
_LIKE = 'a file of groups like {"1": [0, 1], …}'


class Groups(Mapping[str, tuple[int, ...]]):
    """Immutable mapping of group name to its ranks, in the group's own order."""

    def __init__(self, groups: Mapping[str, Sequence[int]] | None = None) -> None:
        self._groups = {str(n): tuple(int(r) for r in ranks) for n, ranks in (groups or {}).items()}

    def __getitem__(self, name: str) -> tuple[int, ...]:
        return self._groups[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Groups) and self._groups == other._groups

    def __hash__(self) -> int:
        return hash(frozenset(self._groups.items()))

    def __repr__(self) -> str:
        if not self:
            return "Groups(none)"
        sizes = [f"{size:,}" for size in sorted({len(ranks) for ranks in self.values()})]
        return f"Groups({counted(len(self), 'group')} of {listed(sizes)} ranks)"

    def ranks_of(self, name: str, world: Sequence[int]) -> Sequence[int] | None:
        """The ranks of a group; `world` for a name that means all; None for an unknown name."""
        if name in self._groups:
            return self._groups[name]
        return world if name in WORLD else None

    def merged(self, other: Groups) -> Groups:
        """The groups of both; where both define a name, these win."""
        return Groups({**other._groups, **self._groups})


def canonical_group(name: str, groups: Groups) -> str:
    """The canonical name of a group: every name that means all ranks becomes ""."""
    return "" if name in WORLD and name not in groups else name


def read_groups(path: Path | BundlePath) -> Groups:
    """A group file, with errors that say which entry is wrong."""
    return _checked(read_json(path, dict[str, list[_Rank]], _LIKE, LARGEST_WRITTEN), str(path))


def parse_groups(content: Any, path: str) -> Groups:
    """Groups from a decoded JSON object."""
    try:
        return _checked(msgspec.convert(content, dict[str, list[_Rank]]), path)
    except msgspec.ValidationError as error:
        raise FormatError(f"not {_LIKE}: {error}", path=path) from None


def _checked(groups: dict[str, list[int]], path: str) -> Groups:
    for name, ranks in groups.items():
        listed = np.array(ranks, np.int64)
        if not (np.diff(listed) > 0).all() and len(np.unique(listed)) < len(listed):
            raise FormatError(f"group {name!r} lists a rank twice", path=path)
    return Groups(groups)


def groups_in(trace: Trace) -> Groups:
    """Groups that a trace's own process-group node defines (as PyTorch records them).

    A group with an empty list of ranks is the whole world; it is left out, since its size is not known.
    """
    rows = np.flatnonzero(trace.types == NodeType.METADATA_NODE)
    groups: dict[str, tuple[int, ...]] = {}
    names = trace.names.take(pa.array(rows)).cast(pa.string())
    for row in rows[pc.match_substring(names, "process_group:init").to_numpy()].tolist():
        groups.update(_parse_init(trace[row].get("inputs_values") or ""))
    return Groups(groups)


def _parse_init(text: str) -> dict[str, tuple[int, ...]]:
    """The list of groups inside the node's values: JSON text within a Python or JSON list."""
    try:
        outer = ast.literal_eval(text)
        inner = outer[0] if isinstance(outer, list) and outer else outer
        groups = json.loads(inner) if isinstance(inner, str) else inner
        listed = {str(g["pg_name"]): g["ranks"] for g in groups if g.get("ranks")}
        return dict(parse_groups(listed, "process_group:init"))
    except (
        ValueError,
        TypeError,
        SyntaxError,
        LookupError,
        AttributeError,
        RecursionError,
        MemoryError,
        FormatError,
    ):
        return {}  # a name with that text that is not PyTorch's; validation reports unknown groups


def positive_names(names: Iterable[str]) -> dict[str, str]:
    """New names of groups: a positive number keeps its own, every other name gets the lowest that is free.

    Simulators of the Chakra world number groups from 1.
    """
    old_names = list(names)
    numbered = {n for n in old_names if n.isdecimal() and str(int(n)) == n and int(n) > 0}
    free = (str(n) for n in count(1) if str(n) not in numbered)
    return {name: name if name in numbered else next(free) for name in old_names}


Body = Trace | Callable[[], Trace]
"""A program, or what reads it when it is first needed."""


@dataclass(frozen=True)
class Binding:
    """How a rank runs a body: what differs between the ranks that share it.

    `groups` maps a `pg_name` in the body to the rank's own group, `peers` a `comm_src`/`comm_dst` in
    the body to a rank; what they do not name stays as it is. `scale` multiplies the durations,
    `num_ops` and `tensor_size` of compute nodes.
    """

    body: int
    groups: Mapping[str, str] = field(default_factory=dict)
    peers: Mapping[int, int] = field(default_factory=dict)
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.scale < math.inf:
            raise TraceError(f"a scale of {self.scale}; it should be 0 or more, and finite")

    @property
    def is_plain(self) -> bool:
        """Whether the rank's trace is the body unchanged."""
        return not self.groups and not self.peers and self.scale == 1.0


def bind(body: Trace, binding: Binding) -> Trace:
    """The body as one rank runs it."""
    if binding.is_plain:
        return body
    changed: dict[str, object] = {}
    if binding.groups and "pg_name" in body.table.column_names:
        changed["pg_name"] = _renamed(body.table.column("pg_name"), binding.groups)
    for end in ("comm_src", "comm_dst"):
        if binding.peers and end in body.table.column_names:
            changed[end] = _moved(body, end, binding.peers)
    if binding.scale != 1.0:
        body = body.with_nesting()  # scaled times say no longer what ran inside what
        changed |= _scaled(body, binding.scale)
    return body.with_columns(changed)


def _renamed(names: pa.ChunkedArray, groups: Mapping[str, str]) -> pa.ChunkedArray:
    coded = names.combine_chunks().dictionary_encode()
    renamed = [groups.get(n, n) for n in coded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(coded.indices, pa.array(renamed, pa.string())).cast(
        pa.string()
    )


def _moved(body: Trace, end: str, peers: Mapping[int, int]) -> pa.Array:
    values = body.column(end, -1)
    distinct_ends = np.unique(values)
    moved = np.array([peers.get(int(v), int(v)) for v in distinct_ends], np.int64)
    return pa.array(moved[np.searchsorted(distinct_ends, values)], mask=~body.has(end))


def _scaled(body: Trace, scale: float) -> dict[str, object]:
    """Durations, operations and bytes of compute nodes times `scale`; other nodes stay exact."""
    compute = body.is_type(NodeType.COMP_NODE)
    duration = _times(body.duration_ns, scale, compute)
    exact = (duration % 1000 != 0) | (body.has("duration_ns") & ~compute)
    changed: dict[str, object] = {
        "duration_micros": np.maximum(duration, 0) // 1000,
        "duration_ns": pa.array(duration, mask=~exact),
    }
    for name in ("num_ops", "tensor_size"):
        if name in body.table.column_names:
            scaled = _times(body.column(name, 0), scale, compute)
            changed[name] = pa.array(scaled, mask=~body.has(name))
    return changed


def _times(values: I64, scale: float, where: Mask) -> I64:
    limit = float(2**63 - 1024)  # the largest float below 2**63
    scaled = np.clip(np.rint(values * scale), -limit, limit).astype(np.int64)
    return np.where(where, scaled, values)
