"""One rank's flight recorder dump, JSON or pickle, as columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import FormatError
from chakrakit.sources.calls import STATES, Calls, Group
from chakrakit.sources.flight_recorder.pickles import MAGIC, plain_json

_T = TypeVar("_T")

_KNOWN_VERSIONS = ("2",)
_LONGEST_MS = 1e12


class _Entry(msgspec.Struct, gc=False):
    """The fields that are used; others, stack frames above all, are skipped while decoding."""

    record_id: int = -1
    process_group: msgspec.Raw = msgspec.Raw(b"null")
    collective_seq_id: int | None = None
    p2p_seq_id: int | None = None
    profiling_name: str = ""
    time_created_ns: int | None = None
    time_discovered_started_ns: int | None = None
    time_discovered_completed_ns: int | None = None
    duration_ms: float | None = None
    input_sizes: msgspec.Raw = msgspec.Raw(b"[]")
    output_sizes: msgspec.Raw = msgspec.Raw(b"[]")
    input_dtypes: msgspec.Raw = msgspec.Raw(b"[]")
    output_dtypes: msgspec.Raw = msgspec.Raw(b"[]")
    state: str = ""
    is_p2p: bool | None = None
    timeout_ms: int | None = None


class _File(msgspec.Struct, gc=False):
    version: Any = None
    entries: list[_Entry] | None = None
    pg_config: Any = None
    rank: Any = None
    host_name: Any = None


def is_dump(head: bytes) -> bool:
    """Whether a file's first bytes are those of a dump: its keys stand in every one."""
    if head[:1] == MAGIC:
        return b"entries" in head or b"pg_config" in head or b"nccl_version" in head
    found = re.search(rb'"(entries|pg_config|pg_status|comm_lib_version|nccl_version)"\s*:', head)
    return found is not None and (
        found[1] != b"entries" or b'"collective_seq_id"' in head or b'"profiling_name"' in head
    )


@dataclass(frozen=True)
class _Said:
    """What a dump says, whichever way it was written; `values` gives one field of every entry."""

    version: Any
    groups: Any
    rank: Any
    host: Any
    length: int
    values: Callable[[str], list[Any]]


def read_dump(data: bytes, path: str = "") -> Calls:
    """Columns of a dump's bytes (uncompressed)."""
    text = plain_json(data, ("frames", "pg_status"), path) if data[:1] == MAGIC else data
    said = _decoded(text, path)
    version = str(said.version or "")
    if version.partition(".")[0] not in _KNOWN_VERSIONS:
        raise FormatError(
            f"flight recorder version {version or '(none)'!r} is not known here; "
            "dumps of versions 2.x are read",
            path=path or None,
        )
    try:
        return _columns(said)
    except (OverflowError, ValueError, TypeError) as error:
        raise FormatError(f"an entry is not a record: {error}", path=path or None) from None


def _decoded(data: bytes, path: str) -> _Said:
    try:
        file = _JSON.decode(data)
    except msgspec.MsgspecError as error:
        raise FormatError(f"not a flight recorder dump: {error}", path=path or None) from None
    except RecursionError:
        raise FormatError("nested too deeply for a dump", path=path or None) from None
    entries = file.entries or []
    return _Said(
        file.version,
        file.pg_config,
        file.rank,
        file.host_name,
        len(entries),
        lambda name: list(map(attrgetter(name), entries)),
    )


_JSON = msgspec.json.Decoder(_File, strict=False)


def _columns(said: _Said) -> Calls:
    groups = _Groups(said.groups)
    texts: dict[bytes, int] = {}
    names: dict[str, int] = {}

    def numbers(name: str) -> I64:
        return _whole(said.values(name))

    def shapes(name: str) -> I64:
        return _coded([bytes(v) for v in said.values(name)], texts)

    message = np.array([bool(v) for v in said.values("is_p2p")], np.bool_)
    return Calls(
        rank=_rank(said.rank),
        host=str(said.host or ""),
        group=groups.numbers(said.values("process_group")),
        groups=groups.found,
        sequence=np.where(message, numbers("p2p_seq_id"), numbers("collective_seq_id")),
        message=message,
        name=_coded([str(v) for v in said.values("profiling_name")], names),
        names=list(names),
        created=numbers("time_created_ns"),
        started=numbers("time_discovered_started_ns"),
        completed=numbers("time_discovered_completed_ns"),
        device_ns=_nanoseconds(said.values("duration_ms")),
        timeout_ns=numbers("timeout_ms") * 1_000_000,
        state=_coded_as(STATES, said.values("state")),
        in_sizes=shapes("input_sizes"),
        out_sizes=shapes("output_sizes"),
        in_types=shapes("input_dtypes"),
        out_types=shapes("output_dtypes"),
        texts=[_plain(t) for t in texts],
    )


def _whole(values: list[Any]) -> I64:
    """Whole numbers; -1 for what is not there."""
    try:
        return np.array(values, np.int64)
    except TypeError:
        return np.array([-1 if v is None else int(v) for v in values], np.int64)


def _nanoseconds(milliseconds: list[Any]) -> I64:
    """From milliseconds; -1 for what is not there."""
    given = np.array([np.nan if v is None else float(v) for v in milliseconds], np.float64)
    known = np.isfinite(given) & (np.abs(given) < _LONGEST_MS)
    return np.where(known, np.round(np.where(known, given, 0) * 1e6), -1).astype(np.int64)


def _coded(values: list[_T], table: dict[_T, int]) -> I64:
    for value in sorted(set(values) - table.keys()):  # type: ignore[type-var]
        table[value] = len(table)
    return np.fromiter(map(table.__getitem__, values), np.int64, len(values))


def _coded_as(known: Sequence[str], values: list[Any]) -> I64:
    table = {name: i for i, name in enumerate(known)}
    return np.array([table.get(str(v), -1) for v in values], np.int64)


def _plain(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return []


def _rank(said: Any) -> int:
    try:
        return int(said) if said is not None else -1
    except (TypeError, ValueError):
        return -1


class _Groups:
    """Groups by name, from the configuration and from the entries that name others."""

    def __init__(self, config: Any) -> None:
        self.found: list[Group] = []
        self._number: dict[str, int] = {}
        for key, said in config.items() if isinstance(config, dict) else ():
            if isinstance(said, dict):
                name = str(said.get("name", key))
                self._add(Group(name, str(said.get("desc", "")), _members(said.get("ranks"))))

    def _add(self, group: Group) -> int:
        self.found.append(group)
        return self._number.setdefault(group.name, len(self.found) - 1)

    def numbers(self, said: list[msgspec.Raw]) -> I64:
        """The numbers of the groups that entries name, each as `[name, description]`."""
        texts: dict[bytes, int] = {}
        codes = _coded([bytes(v) for v in said], texts)
        return np.array([self._number_of(_plain(t)) for t in texts] or [0], np.int64)[codes]

    def _number_of(self, said: Any) -> int:
        pair = said if isinstance(said, list | tuple) else [said]
        name = str(pair[0]) if pair and pair[0] is not None else ""
        known = self._number.get(name)
        if known is not None:
            return known
        return self._add(Group(name, str(pair[1]) if len(pair) > 1 else "", ()))


def _members(said: Any) -> tuple[int, ...]:
    """Ranks as the recorder writes them: the text `[0, 1]`, or a list."""
    if isinstance(said, str):
        return tuple(int(n) for n in re.findall(r"\d+", said))
    if isinstance(said, list | tuple):
        return tuple(r for r in said if isinstance(r, int))
    return ()
