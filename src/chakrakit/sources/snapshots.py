"""PyTorch's memory snapshots: how much the caching allocator had given out, over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import FormatError
from chakrakit.sources.calls import MAGIC, plain_json

_CHANGE = {"alloc": 1, "free_completed": -1}
"""Memory counts as given out until its last use on the device is over, as the allocator counts it."""


def is_snapshot(head: bytes) -> bool:
    """Whether a file's first bytes are those of `torch.cuda.memory._dump_snapshot`."""
    return head[:1] == MAGIC and b"segments" in head and b"total_size" in head


_Bytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]
"""A petabyte: sums over a history of any length that fits into memory fit into 64 bits."""
_Micros = Annotated[int, msgspec.Meta(ge=-1, le=1 << 51)]
"""Since 1970, 71 years; as nanoseconds it fits into 64 bits."""


class _Event(msgspec.Struct):
    action: str = ""
    size: _Bytes = 0
    time_us: _Micros = -1


class _Segment(msgspec.Struct):
    device: int = 0
    allocated_size: _Bytes = 0


class _Snapshot(msgspec.Struct):
    segments: list[_Segment]
    device_traces: list[list[_Event]] = []


@dataclass(frozen=True)
class History:
    """Bytes given out on one device after each change; times are ns since 1970."""

    device: int
    time: I64
    bytes: I64
    left_out: dict[str, int]


def read_snapshot(data: bytes, path: str = "") -> list[History]:
    """The history of each device that has one, from a snapshot's bytes (uncompressed)."""
    text = plain_json(data, ("frames", "blocks"), path)
    try:
        snapshot = msgspec.json.decode(text, type=_Snapshot, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"not a memory snapshot: {error}", path=path or None) from None
    histories = [
        _history(snapshot, device, events) for device, events in enumerate(snapshot.device_traces)
    ]
    recorded = [h for h in histories if len(h.time)]
    if not recorded:
        raise FormatError(
            "the snapshot has no history; call torch.cuda.memory._record_memory_history() before the "
            "steps and dump it after them",
            path=path or None,
        )
    return recorded


def _history(snapshot: _Snapshot, device: int, events: list[_Event]) -> History:
    """A device's history, counted back from its end, since the ring buffer may have lost its beginning."""
    changes = [e for e in events if e.action in _CHANGE and e.time_us >= 0]
    left_out: dict[str, int] = {}
    for e in events:
        if e.action not in _CHANGE:
            left_out[e.action] = left_out.get(e.action, 0) + 1
    change = np.array([_CHANGE[e.action] * e.size for e in changes], np.int64)
    final = sum(s.allocated_size for s in snapshot.segments if s.device == device)
    after = final - (change.sum() - np.cumsum(change))
    time = np.array([e.time_us * 1000 for e in changes], np.int64)
    return History(device, time, after.astype(np.int64), left_out)


def memory_table(histories: dict[int, History], epoch_ns: int, pace: float) -> dict[str, Any]:
    """Columns of a run's memory counter: rank, ns since the run's epoch, bytes.

    `pace` is how long a step of the run takes, as a share of what it took while the history was recorded:
    a run without recording's cost is shorter, and its memory has to fit it.
    """
    ranks = sorted(histories)
    return {
        "rank": np.concatenate(
            [np.full(len(histories[r].time), r, np.int64) for r in ranks] or [np.zeros(0, np.int64)]
        ),
        "time_ns": np.concatenate(
            [((histories[r].time - epoch_ns) * pace).astype(np.int64) for r in ranks]
            or [np.zeros(0, np.int64)]
        ),
        "bytes": np.concatenate([histories[r].bytes for r in ranks] or [np.zeros(0, np.int64)]),
    }
