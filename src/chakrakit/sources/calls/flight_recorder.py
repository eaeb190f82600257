"""Pickles read as data: dictionaries, lists, texts and numbers, and never anything that runs code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

import chakrakit.core as core
from chakrakit.arrays import F64, I64
from chakrakit.errors import FormatError
from chakrakit.sources.calls.record import STATES, Calls, Group
from chakrakit.sources.pytorch.read import Texts, whole
from chakrakit.trace.communication import MAX_RANKS

MAGIC = b"\x80"
"""First byte of every pickle since protocol 2."""


def plain_json(data: bytes, skip: Sequence[str] = (), path: str = "") -> bytes:
    """A pickle's value as JSON; keys in `skip` are left out.

    Python's own unpickler is not involved: opcodes that name a class, call a function or refer to
    an object outside the file end in a FormatError before anything is made of them.
    """
    try:
        return core.pickle_to_json(data, list(skip))
    except core.FormatError as error:
        message, offset = error.args
        raise FormatError(
            f"not a pickle of plain data: {message}; only dictionaries, lists, texts and numbers "
            "are read, as PyTorch's recorders write them",
            path=path or None,
            offset=offset,
        ) from None


# One rank's flight recorder dump, JSON or pickle, as columns.


_KNOWN_VERSIONS = ("2",)
_LONGEST_MS = 1e12
_NUMBERS = (
    "collective_seq_id",
    "p2p_seq_id",
    "time_created_ns",
    "time_discovered_started_ns",
    "time_discovered_completed_ns",
    "timeout_ms",
    "is_p2p",
)
_UNUSED = ("frames", "pg_status", "record_id", "pg_id", "op_id", "retired")
"""Large or frequent members of a dump that nothing here reads."""
_TEXTS = (
    "process_group",
    "profiling_name",
    "state",
    "input_sizes",
    "output_sizes",
    "input_dtypes",
    "output_dtypes",
)


def is_dump(head: bytes) -> bool:
    """Whether a file's first bytes are those of a dump: its keys stand in every one."""
    if head[:1] == MAGIC:
        return b"entries" in head or b"pg_config" in head or b"nccl_version" in head
    found = re.search(rb'"(entries|pg_config|pg_status|comm_lib_version|nccl_version)"\s*:', head)
    return found is not None and (
        found[1] != b"entries" or b'"collective_seq_id"' in head or b'"profiling_name"' in head
    )


@dataclass(frozen=True)
class _Entries:
    """The fields of all entries, by name; texts are numbers into `texts`."""

    numbers: dict[str, I64]
    took_ms: F64
    codes: dict[str, I64]
    texts: Texts
    rest: dict[str, Any]

    def coded(self, name: str) -> tuple[I64, list[str]]:
        """A text column with its own, small list of texts."""
        used, codes = np.unique(self.codes[name], return_inverse=True)
        return codes.reshape(-1).astype(np.int64), [self.texts[n] for n in used.tolist()]


def read_dump(data: bytes, path: str = "") -> Calls:
    """Columns of a dump's bytes (uncompressed)."""
    text = plain_json(data, _UNUSED, path) if data[:1] == MAGIC else data
    entries = _entries(text, path)
    version = str(entries.rest.get("version") or "")
    if version.partition(".")[0] not in _KNOWN_VERSIONS:
        raise FormatError(
            f"flight recorder version {version or '(none)'!r} is not known here; "
            "dumps of versions 2.x are read",
            path=path or None,
        )
    return _columns(entries, path)


def _entries(text: bytes, path: str) -> _Entries:
    try:
        numbers, reals, codes, table, rest = core.read_records(
            text, "entries", list(_NUMBERS), ["duration_ms"], list(_TEXTS)
        )
        known = ("version", "pg_config", "rank", "host_name")
        said = {k: msgspec.json.decode(v) for k, v in rest.items() if k in known}
    except core.FormatError as error:
        message, offset = error.args
        raise FormatError(
            f"not a flight recorder dump: {message}", path=path or None, offset=offset
        ) from None
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise FormatError(f"not a flight recorder dump: {error}", path=path or None) from None
    return _Entries(
        dict(zip(_NUMBERS, numbers, strict=True)),
        reals[0],
        {name: c.astype(np.int64) for name, c in zip(_TEXTS, codes, strict=True)},
        Texts(*table),
        said,
    )


def _columns(said: _Entries, path: str) -> Calls:
    groups = _Groups(said.rest.get("pg_config"), path)
    numbers = said.numbers
    message = numbers["is_p2p"] == 1
    name, names = said.coded("profiling_name")
    state, states = said.coded("state")
    known = np.array([STATES.index(s) if s in STATES else -1 for s in states] or [-1], np.int64)
    shapes, texts = _shapes(said)
    return Calls(
        rank=_rank(said.rest.get("rank")),
        host=str(said.rest.get("host_name") or ""),
        group=groups.numbers(*said.coded("process_group")),
        groups=groups.found,
        sequence=np.where(message, numbers["p2p_seq_id"], numbers["collective_seq_id"]),
        message=message,
        name=name,
        names=names,
        created=numbers["time_created_ns"],
        started=numbers["time_discovered_started_ns"],
        completed=numbers["time_discovered_completed_ns"],
        device_ns=_nanoseconds(said.took_ms),
        timeout_ns=np.minimum(numbers["timeout_ms"], 2**40) * 1_000_000,
        state=known[state],
        in_sizes=shapes["input_sizes"],
        out_sizes=shapes["output_sizes"],
        in_types=shapes["input_dtypes"],
        out_types=shapes["output_dtypes"],
        texts=texts,
    )


def _shapes(said: _Entries) -> tuple[dict[str, I64], list[Any]]:
    """Shapes and types as numbers into one list of what they say."""
    names = ("input_sizes", "output_sizes", "input_dtypes", "output_dtypes")
    used, codes = np.unique(np.stack([said.codes[n] for n in names]), return_inverse=True)
    codes = codes.reshape(len(names), -1).astype(np.int64)
    return dict(zip(names, codes, strict=True)), [_plain(said.texts[n]) for n in used.tolist()]


def _nanoseconds(milliseconds: F64) -> I64:
    """From milliseconds; -1 for what is not there."""
    known = np.abs(milliseconds) < _LONGEST_MS
    return np.where(known, np.round(np.where(known, milliseconds, 0) * 1e6), -1).astype(np.int64)


def _plain(text: str) -> Any:
    try:
        return msgspec.json.decode(text) if text else []
    except (msgspec.MsgspecError, RecursionError):
        return []


def _rank(said: Any) -> int:
    rank = whole(said, MAX_RANKS - 1)
    return -1 if rank is None else max(rank, -1)


class _Groups:
    """Groups by name, from the configuration and from the entries that name others."""

    def __init__(self, config: Any, path: str) -> None:
        self.found: list[Group] = []
        self._number: dict[str, int] = {}
        for key, said in config.items() if isinstance(config, Mapping) else ():
            if isinstance(said, Mapping):
                name = str(said.get("name", key))
                members = _members(said.get("ranks"), name, path)
                self._add(Group(name, str(said.get("desc", "")), members))

    def _add(self, group: Group) -> int:
        self.found.append(group)
        return self._number.setdefault(group.name, len(self.found) - 1)

    def numbers(self, codes: I64, texts: list[str]) -> I64:
        """The numbers of the groups that entries name, each as `[name, description]`."""
        known: I64 = np.array([self._number_of(_plain(t)) for t in texts] or [0], np.int64)[codes]
        return known

    def _number_of(self, said: Any) -> int:
        pair = said if isinstance(said, list | tuple) else [said]
        name = str(pair[0]) if pair and pair[0] is not None else ""
        known = self._number.get(name)
        if known is not None:
            return known
        return self._add(Group(name, str(pair[1]) if len(pair) > 1 else "", ()))


def _members(said: Any, group: str, path: str) -> tuple[int, ...]:
    """Ranks as the recorder writes them: the text `[0, 1]`, or a list."""
    try:
        if isinstance(said, str):
            return _listed(said)
        return _ranks(said) if isinstance(said, list | tuple) else ()
    except ValueError as error:
        raise FormatError(f"process group {group!r} lists {error}", path=path or None) from None


@lru_cache(4096)
def _listed(text: str) -> tuple[int, ...]:
    """Thousands of ranks write the same long list."""
    return _ranks(re.findall(r"-?\d+", text))


def _ranks(listed: Iterable[object]) -> tuple[int, ...]:
    return tuple(map(_member, listed))


def _member(said: object) -> int:
    rank = whole(said, MAX_RANKS - 1)
    if rank is None or rank < 0:
        raise ValueError(f"{str(said)[:40]!r}, which is no rank; the dump is damaged")
    return rank
