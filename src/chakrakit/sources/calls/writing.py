"""Calls as recorders write them: a dump of PyTorch's flight recorder, NCCL Inspector's lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from chakrakit.operators import find_type
from chakrakit.sources.calls.record import RecordedGroup

_NAMES = {
    "ALL_REDUCE": ("all_reduce", "AllReduce"),
    "ALL_GATHER": ("_all_gather_base", "AllGather"),
    "REDUCE_SCATTER": ("_reduce_scatter_base", "ReduceScatter"),
    "ALL_TO_ALL": ("all_to_all", "AlltoAll"),
    "BROADCAST": ("broadcast", "Broadcast"),
    "REDUCE": ("reduce", "Reduce"),
    "GATHER": ("gather", "Gather"),
    "SCATTER": ("scatter", "Scatter"),
    "BARRIER": ("barrier", "AllReduce"),
}
"""Collectives as PyTorch and as NCCL name them; NCCL does a barrier by an all-reduce."""
_SCHEDULED, _COMPLETED = "scheduled", "completed"
_VERSION, _INSPECTOR_VERSION = "2.10", "v4.0"


class WrittenCall(NamedTuple):
    """One call of a rank. Times are ns since 1970; `ended` is -1 for a call that never did."""

    group: int
    number: int
    kind: str
    """The name of a collective, SEND or RECV."""
    began: int
    ended: int
    size: int
    out_size: int
    dtype: str = ""
    peer: int = -1
    """The other end of a message, as its place in the group."""
    state: str = _COMPLETED


def flight_recorder_dump(
    rank: int, groups: Sequence[RecordedGroup], calls: Sequence[WrittenCall]
) -> bytes:
    """A rank's dump, as JSON; members of groups are in their order."""
    config = {
        str(i): {"name": g.name, "desc": g.description, "ranks": str(list(g.ranks))}
        for i, g in enumerate(groups)
    }
    entries = [_entry(rank, groups, number, call) for number, call in enumerate(calls)]
    return msgspec.json.encode(
        {"version": _VERSION, "rank": rank, "pg_config": config, "entries": entries}
    )


def _entry(
    rank: int, groups: Sequence[RecordedGroup], number: int, call: WrittenCall
) -> dict[str, Any]:
    group, message = groups[call.group], call.kind in ("SEND", "RECV")
    ended = call.state == _COMPLETED
    sizes, dtype = _shape(call.size, call.dtype)
    out_sizes, _ = _shape(call.out_size, call.dtype)
    return {
        "record_id": number,
        "pg_id": call.group,
        "process_group": [group.name, group.description],
        "collective_seq_id": 0 if message else call.number,
        "p2p_seq_id": call.number if message else 0,
        "op_id": number,
        "profiling_name": f"nccl:{_title(rank, group, call)}",
        "time_created_ns": call.began,
        "duration_ms": (call.ended - call.began) / 1e6 if ended else None,
        "input_sizes": [sizes],
        "input_dtypes": [dtype],
        "output_sizes": [out_sizes],
        "output_dtypes": [dtype],
        "state": call.state,
        "time_discovered_started_ns": None if call.state == _SCHEDULED else call.began,
        "time_discovered_completed_ns": call.ended if ended else None,
        "retired": ended,
        "timeout_ms": 600_000,
        "is_p2p": message,
    }


def _title(rank: int, group: RecordedGroup, call: WrittenCall) -> str:
    if call.kind in _NAMES:
        return _NAMES[call.kind][0]
    place = group.ranks.index(rank)
    return f"send {place}->{call.peer}" if call.kind == "SEND" else f"recv {place}<-{call.peer}"


def _shape(size: int, dtype: str) -> tuple[list[int], str]:
    """Elements and their type as PyTorch names it; bytes where the type does not divide them."""
    kind = find_type(dtype) if dtype else None
    if kind is None or kind.bits % 8 or size % (kind.bits // 8) or not kind.scalar:
        return [size], "Byte"
    return [size // (kind.bits // 8)], kind.scalar


def inspector_lines(
    rank: int, groups: Sequence[RecordedGroup], calls: Sequence[WrittenCall]
) -> bytes:
    """The lines of a process: what has ended, as the Inspector writes no other calls."""
    return b"".join(_lines(rank, groups, calls))


def _lines(
    rank: int, groups: Sequence[RecordedGroup], calls: Sequence[WrittenCall]
) -> Iterator[bytes]:
    for call in (c for c in calls if c.state == _COMPLETED):
        group = groups[call.group]
        header = {"id": group.name, "rank": group.ranks.index(rank), "n_ranks": len(group.ranks)}
        metadata = {
            "inspector_output_format_version": _INSPECTOR_VERSION,
            "dump_timestamp_us": call.ended / 1000,
            "hostname": "",
            "pid": rank,
        }
        yield msgspec.json.encode({"header": header, "metadata": metadata, **_perf(call)}) + b"\n"


def _perf(call: WrittenCall) -> dict[str, Any]:
    took, begun, ended = (call.ended - call.began) / 1000, call.began / 1000, call.ended / 1000
    if call.kind in _NAMES:
        stamps = {"coll_start": begun, "coll_stop": ended}
        figures = {
            "coll_sn": call.number,
            "coll_msg_size_bytes": call.size,
            "coll_exec_time_us": took,
        }
        return {"coll_perf": {"coll": _NAMES[call.kind][1], **figures, "event_trace_ts": stamps}}
    stamps = {"p2p_start": begun, "p2p_stop": ended}
    figures = {"p2p_sn": call.number, "p2p_msg_size_bytes": call.size, "p2p_exec_time_us": took}
    name = "Send" if call.kind == "SEND" else "Recv"
    return {"p2p_perf": {"p2p": name, "p2p_peer": call.peer, **figures, "event_trace_ts": stamps}}
