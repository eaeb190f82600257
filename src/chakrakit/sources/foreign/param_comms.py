"""Communication traces of PARAM's replay: JSON, a list of calls of one rank; several files make one set.

An entry has `comms` (all_reduce, all_to_allv, send, …; `init` and `wait` move nothing), `in_msg_size` and
`out_msg_size` in elements, `dtype`, `in_split`, `out_split`, `pg_id` with `global_ranks` where the group
is made, `src_rank` or `root`, `dst_rank`, `startTime_ns` and `req`. Entries with `compute` are work
between calls. The rank is the number in the file's name.
"""

from __future__ import annotations

import re
from typing import Any

from chakrakit.configuration import decode_json
from chakrakit.errors import FormatError
from chakrakit.operators import collective_of, find_type
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.model import CollectiveType, TraceBuilder
from chakrakit.trace.sets import Card, TraceSet

_SILENT = ("init", "wait", "batch_isend_irecv")
_MOST = 1 << 20
"""Ranks and groups of a file: a million."""


def is_param_comms(head: bytes) -> bool:
    """Whether this is a JSON list of objects that name calls."""
    return re.match(rb"\s*\[\s*\{[^{}]*\"(comms|compute|markers)\"\s*:", head) is not None and (
        re.search(rb"\"(comms|in_msg_size|pg_id)\"\s*:", head) is not None
    )


def read_param_comms(files: dict[str, bytes]) -> TraceSet:
    """The traces of all ranks whose files are given."""
    ranks: dict[int, _Rank] = {}
    for place, (path, data) in enumerate(files.items()):
        numbers = re.findall(r"\d{1,7}", path.rsplit("/", 1)[-1])
        rank = int(numbers[-1]) if numbers and len(files) > 1 else place
        if rank in ranks:
            raise FormatError(f"rank {rank} twice; name the files by their ranks", path=path)
        ranks[rank] = _Rank(rank, path, data)
    order = sorted(ranks)
    members: dict[str, tuple[int, ...]] = {}
    for rank in order:
        members |= ranks[rank].groups
    bindings = {rank: Binding(i) for i, rank in enumerate(order)}
    bodies = [ranks[rank].builder.build() for rank in order]
    card = Card(tool="PARAM", source=list(files))
    return TraceSet(
        bodies, bindings, Groups({k: v for k, v in members.items() if len(v) > 1}), card
    )


class _Rank:
    def __init__(self, rank: int, path: str, data: bytes) -> None:
        self.rank, self.path = rank, path
        self.builder = TraceBuilder()
        self.groups: dict[str, tuple[int, ...]] = {}
        self.last: list[int] = []
        entries = decode_json(data, list[dict[str, Any]], path, "a list of calls")
        for number, entry in enumerate(entries):
            self._entry(entry, f"entry {number}")

    def _entry(self, entry: dict[str, Any], where: str) -> None:
        ranks = entry.get("global_ranks")
        if (
            isinstance(ranks, list)
            and ranks
            and all(type(r) is int and 0 <= r < _MOST for r in ranks)
        ):
            self.groups[self._group(entry)] = tuple(dict.fromkeys(ranks))
        call = str(entry.get("comms") or "").lower()
        if not call or call in _SILENT:
            if "compute" in entry:
                self._add(self.builder.comp(str(entry["compute"])[:200], deps=self.last))
            return
        kind = collective_of(call)
        size = self._bytes(entry, "in_msg_size", where)
        if kind in ("SEND", "RECV"):
            self._message(entry, kind, size, where)
        elif kind:
            group = {"pg_name": self._group(entry)} if self._group(entry) in self.groups else {}
            fields: dict[str, Any] = {"deps": self.last, **group}
            self._add(self.builder.collective(call, CollectiveType[kind], size, **fields))
        else:
            raise FormatError(f"{where}: no communication {call[:40]!r}", path=self.path)

    def _add(self, node: int) -> None:
        self.last = [node]

    def _group(self, entry: dict[str, Any]) -> str:
        """Groups by number from 1 on: simulators refuse a group 0."""
        number = entry.get("pg_id")
        return str(number + 1) if type(number) is int and 0 <= number < _MOST else "1"

    def _message(self, entry: dict[str, Any], kind: str, size: int, where: str) -> None:
        ends = [entry.get("src_rank", entry.get("src")), entry.get("dst_rank", entry.get("dst"))]
        if not all(type(end) is int and 0 <= end < _MOST for end in ends):
            raise FormatError(
                f"{where}: a message between {ends[0]!r} and {ends[1]!r}", path=self.path
            )
        add = self.builder.send if kind == "SEND" else self.builder.recv
        self._add(add(kind.lower(), int(str(ends[0])), int(str(ends[1])), size, deps=self.last))

    def _bytes(self, entry: dict[str, Any], name: str, where: str) -> int:
        count, element = entry.get(name, 0), find_type(str(entry.get("dtype") or "float"))
        if type(count) is not int or not 0 <= count < 2**50 or element is None:
            raise FormatError(
                f"{where}: {name} {count!r} of {entry.get('dtype')!r}", path=self.path
            )
        return element.bytes_of(count)
