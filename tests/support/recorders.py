"""Flight recorder dumps of a job that never ran, clean or with one fault planted."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

Dump = dict[str, Any]
Fault = Callable[[int, Dump], None]

_BEGIN = 1_700_000_000_000_000_000
_PERIOD = 1_000_000
_DISCOVERED = ("time_discovered_started_ns", "time_discovered_completed_ns")
_OPERATIONS = (
    ("nccl:all_reduce", 1024, "BFloat16"),
    ("nccl:_all_gather_base", 4096, "BFloat16"),
    ("nccl:_reduce_scatter_base", 1 << 20, "Float"),
)


def groups_of(rank: int, ranks: int, tensor: int) -> dict[str, tuple[str, list[int]]]:
    """A rank's groups: all ranks, those it shards tensors with, and its peers in the others."""
    first = rank - rank % tensor
    return {
        "0": ("default_pg", list(range(ranks))),
        f"tp{rank // tensor}": ("mesh_tp", list(range(first, first + tensor))),
        f"dp{rank % tensor}": ("mesh_dp", list(range(rank % tensor, ranks, tensor))),
    }


def dump_of(rank: int, ranks: int, calls: int, seed: int, tensor: int = 4) -> Dump:
    """A healthy rank: calls in all its groups in turn, arriving with some jitter, ending together."""
    jitter = random.Random(seed * 100_003 + rank)
    groups = groups_of(rank, ranks, tensor)
    names = list(groups)
    entries = []
    for i in range(calls):
        group = names[i % len(names)]
        name, size, dtype = _OPERATIONS[(i // 2) % 3]
        created = _BEGIN + i * _PERIOD + jitter.randrange(50_000)
        ended = _BEGIN + i * _PERIOD + 900_000
        shape = [[size * (1 + i % 5)]]
        entries.append(
            {
                "record_id": i,
                "pg_id": 0,
                "process_group": [group, groups[group][0]],
                "collective_seq_id": 1 + i // len(names),
                "p2p_seq_id": 0,
                "op_id": i,
                "profiling_name": name,
                "time_created_ns": created,
                "duration_ms": (ended - created) / 1e6,
                "input_sizes": shape,
                "input_dtypes": [dtype],
                "output_sizes": shape,
                "output_dtypes": [dtype],
                "state": "completed",
                "time_discovered_started_ns": created + 2_000,
                "time_discovered_completed_ns": ended,
                "retired": True,
                "timeout_ms": 600_000,
                "is_p2p": False,
                "frames": [{"name": "step", "filename": "train.py", "line": i}],
            }
        )
    config = {n: {"name": n, "desc": d, "ranks": str(r)} for n, (d, r) in groups.items()}
    return {"version": "2.10", "entries": entries, "pg_config": config, "pg_status": {}}


def hang(rank: int, at: int, dead: bool = False, state: str = "started") -> Fault:
    """The rank never makes its call number `at`, or has died before; the others wait there."""

    def plant(me: int, dump: Dump) -> None:
        entries = dump["entries"]
        del entries[at + (0 if me == rank else 2) :]
        if me != rank:
            for entry, now in zip(entries[at:], (state, "scheduled"), strict=True):
                entry |= {"state": now, "duration_ms": None, "time_discovered_completed_ns": None}
        elif dead:
            dump.clear()

    return plant


def differ(rank: int, at: int, **facts: Any) -> Fault:
    """One call of the rank says something else."""

    def plant(me: int, dump: Dump) -> None:
        if me == rank:
            dump["entries"][at] |= facts

    return plant


def swap(rank: int, at: int, other: int) -> Fault:
    """Two calls of the rank in the same group change places."""

    def plant(me: int, dump: Dump) -> None:
        if me == rank:
            first, second = dump["entries"][at], dump["entries"][other]
            for key in (
                "profiling_name",
                "input_sizes",
                "output_sizes",
                "input_dtypes",
                "output_dtypes",
            ):
                first[key], second[key] = second[key], first[key]

    return plant


def reorder(rank: int, at: int) -> Fault:
    """The rank makes a call in one group and the next one, in another group, the other way round."""

    def plant(me: int, dump: Dump) -> None:
        if me == rank:
            entries = dump["entries"]
            for key in ("time_created_ns", "duration_ms", *_DISCOVERED):
                first, second = entries[at], entries[at + 1]
                first[key], second[key] = second[key], first[key]
            entries[at], entries[at + 1] = entries[at + 1], entries[at]

    return plant


def slow(rank: int, since: int, late_ns: int) -> Fault:
    """The rank comes late from one call on; everybody ends later."""

    def plant(me: int, dump: Dump) -> None:
        for entry in dump["entries"][since:]:
            if me == rank:
                entry["time_created_ns"] += late_ns
                entry["time_discovered_started_ns"] += late_ns
            entry["time_discovered_completed_ns"] += late_ns
            took = entry["time_discovered_completed_ns"] - entry["time_created_ns"]
            entry["duration_ms"] = took / 1e6

    return plant


def write_dumps(
    folder: Path,
    ranks: int,
    calls: int,
    seed: int = 0,
    fault: Fault | None = None,
    pickled: bool = False,
) -> Path:
    """One dump per rank, as PyTorch names them; a dump that a fault emptied is not written."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks):
        dump = dump_of(rank, ranks, calls, seed)
        if fault is not None:
            fault(rank, dump)
        if dump and pickled:
            (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump, protocol=2))
        elif dump:
            (folder / f"nccl_trace_rank_{rank}.json").write_text(json.dumps(dump))
    return folder
