"""PyTorch's flight recorder: one rank's dump, JSON or pickle, as columns of calls.

Pickles are read as data, that is dictionaries, lists, texts and numbers; nothing in them runs code.
"""

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
from chakrakit.sources.calls.record import STATES, RecordedCalls, RecordedGroup
from chakrakit.sources.pytorch.read import TextPool, whole
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


_KNOWN_VERSIONS = ("2",)
_LONGEST_MS = 1e12
"""Milliseconds, 31 years: as nanoseconds it still fits into 64 bits; longer ones are damage."""
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
    """Whether a file's first bytes hold keys that every dump has."""
    if head[:1] == MAGIC:
        return b"entries" in head or b"pg_config" in head or b"nccl_version" in head
    key = re.search(rb'"(entries|pg_config|pg_status|comm_lib_version|nccl_version)"\s*:', head)
    return key is not None and (
        key[1] != b"entries" or b'"collective_seq_id"' in head or b'"profiling_name"' in head
    )


@dataclass(frozen=True)
class _Entries:
    """The fields of all entries, by name; texts are numbers into `texts`."""

    numbers: dict[str, I64]
    took_ms: F64
    codes: dict[str, I64]
    texts: TextPool
    rest: dict[str, Any]

    def coded(self, name: str) -> tuple[I64, list[str]]:
        """A text column with its own, small list of texts."""
        used, codes = np.unique(self.codes[name], return_inverse=True)
        return codes.reshape(-1).astype(np.int64), [self.texts[n] for n in used.tolist()]


def read_dump(data: bytes, path: str = "") -> RecordedCalls:
    """The calls in a dump's bytes, which must be uncompressed."""
    text = plain_json(data, _UNUSED, path) if data[:1] == MAGIC else data
    entries = _entries(text, path)
    version = str(entries.rest.get("version") or "")
    if version.partition(".")[0] not in _KNOWN_VERSIONS:
        raise FormatError(
            f"flight recorder version {version or '(none)'!r} is not supported; "
            "dumps of versions 2.x are read",
            path=path or None,
        )
    return _columns(entries, path)


def _entries(text: bytes, path: str) -> _Entries:
    try:
        numbers, reals, codes, table, rest = core.read_records(
            text, "entries", list(_NUMBERS), ["duration_ms"], list(_TEXTS)
        )
        header_keys = ("version", "pg_config", "rank", "host_name")
        header = {k: msgspec.json.decode(v) for k, v in rest.items() if k in header_keys}
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
        TextPool(*table),
        header,
    )


def _columns(entries: _Entries, path: str) -> RecordedCalls:
    groups = _Groups(entries.rest.get("pg_config"), path)
    numbers = entries.numbers
    message = numbers["is_p2p"] == 1
    name, names = entries.coded("profiling_name")
    state, states = entries.coded("state")
    state_numbers = np.array(
        [STATES.index(s) if s in STATES else -1 for s in states] or [-1], np.int64
    )
    shapes, texts = _shapes(entries)
    return RecordedCalls(
        rank=_rank(entries.rest.get("rank")),
        host=str(entries.rest.get("host_name") or ""),
        group=groups.numbers(*entries.coded("process_group")),
        groups=groups.listed,
        sequence=np.where(message, numbers["p2p_seq_id"], numbers["collective_seq_id"]),
        message=message,
        name=name,
        names=names,
        created=numbers["time_created_ns"],
        started=numbers["time_discovered_started_ns"],
        completed=numbers["time_discovered_completed_ns"],
        device_ns=_nanoseconds(entries.took_ms),
        timeout_ns=np.minimum(numbers["timeout_ms"], 2**40) * 1_000_000,
        state=state_numbers[state],
        in_sizes=shapes["input_sizes"],
        out_sizes=shapes["output_sizes"],
        in_types=shapes["input_dtypes"],
        out_types=shapes["output_dtypes"],
        texts=texts,
    )


def _shapes(entries: _Entries) -> tuple[dict[str, I64], list[Any]]:
    """Shapes and types as numbers into one list of their decoded values."""
    names = ("input_sizes", "output_sizes", "input_dtypes", "output_dtypes")
    used, codes = np.unique(np.stack([entries.codes[n] for n in names]), return_inverse=True)
    codes = codes.reshape(len(names), -1).astype(np.int64)
    return dict(zip(names, codes, strict=True)), [_plain(entries.texts[n]) for n in used.tolist()]


def _nanoseconds(milliseconds: F64) -> I64:
    """Milliseconds as nanoseconds; -1 where none was recorded."""
    recorded = np.abs(milliseconds) < _LONGEST_MS
    return np.where(recorded, np.round(np.where(recorded, milliseconds, 0) * 1e6), -1).astype(
        np.int64
    )


def _plain(text: str) -> Any:
    try:
        return msgspec.json.decode(text) if text else []
    except (msgspec.MsgspecError, RecursionError):
        return []


def _rank(recorded: Any) -> int:
    rank = whole(recorded, MAX_RANKS - 1)
    return -1 if rank is None else max(rank, -1)


class _Groups:
    """Groups by name: those of the configuration, then others that entries name."""

    def __init__(self, config: Any, path: str) -> None:
        self.listed: list[RecordedGroup] = []
        self._number: dict[str, int] = {}
        for key, settings in config.items() if isinstance(config, Mapping) else ():
            if isinstance(settings, Mapping):
                name = str(settings.get("name", key))
                members = _members(settings.get("ranks"), name, path)
                self._add(RecordedGroup(name, str(settings.get("desc", "")), members))

    def _add(self, group: RecordedGroup) -> int:
        self.listed.append(group)
        return self._number.setdefault(group.name, len(self.listed) - 1)

    def numbers(self, codes: I64, texts: list[str]) -> I64:
        """The numbers of the groups that entries name, each as `[name, description]`."""
        numbers: I64 = np.array([self._number_of(_plain(t)) for t in texts] or [0], np.int64)[codes]
        return numbers

    def _number_of(self, label: Any) -> int:
        pair = label if isinstance(label, list | tuple) else [label]
        name = str(pair[0]) if pair and pair[0] is not None else ""
        number = self._number.get(name)
        if number is not None:
            return number
        return self._add(RecordedGroup(name, str(pair[1]) if len(pair) > 1 else "", ()))


def _members(ranks: Any, group: str, path: str) -> tuple[int, ...]:
    """Ranks as the recorder writes them: the text `[0, 1]`, or a list."""
    try:
        if isinstance(ranks, str):
            return _listed(ranks)
        return _ranks(ranks) if isinstance(ranks, list | tuple) else ()
    except ValueError as error:
        raise FormatError(f"process group {group!r} lists {error}", path=path or None) from None


@lru_cache(4096)
def _listed(text: str) -> tuple[int, ...]:
    """The ranks in a text; cached, since thousands of ranks write the same long list."""
    return _ranks(re.findall(r"-?\d+", text))


def _ranks(listed: Iterable[object]) -> tuple[int, ...]:
    return tuple(map(_member, listed))


def _member(member: object) -> int:
    rank = whole(member, MAX_RANKS - 1)
    if rank is None or rank < 0:
        raise ValueError(f"{str(member)[:40]!r}, which is not a rank; the dump is damaged")
    return rank
