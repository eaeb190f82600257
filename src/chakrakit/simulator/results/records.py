"""What recorders would have written of a simulated run, whether it ended or hung."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from chakrakit.errors import ChakraError
from chakrakit.sources.calls import (
    RecordedGroup,
    WrittenCall,
    flight_recorder_dump,
    inspector_lines,
)
from chakrakit.trace.model import CollectiveType, NodeType, Trace
from chakrakit.trace.sets import Run
from chakrakit.trace.storage import fresh_directory

EPOCH_NS = 1_700_000_000 * 10**9
"""When simulated runs begin for recorders, which count from 1970: a moment in November 2023."""
_WORLD = "world"


def write_records(run: Run, folder: Path) -> None:
    """Writes `flight_recorder/nccl_trace_rank_N.json` and `nccl_inspector/rank_N.log` for every rank.

    The folder appears whole. Records of another run that it held are replaced; it may hold nothing else.
    """
    foreign = [n for n in _names_in(folder) if not _OURS.fullmatch(n)]
    if foreign:
        raise ChakraError(f"{folder}: holds other things ({foreign[0]}); give a new name")
    with fresh_directory(folder) as new:
        _fill(run, new)


_OURS = re.compile(r"flight_recorder/nccl_trace_rank_\d+\.json|nccl_inspector/rank_\d+\.log")


def _names_in(folder: Path) -> list[str]:
    if folder.exists() and not folder.is_dir():
        raise ChakraError(f"{folder}: exists and is not a directory")
    return sorted(str(f.relative_to(folder)) for f in folder.rglob("*") if not f.is_dir())


def _fill(run: Run, folder: Path) -> None:
    dumps, lines = folder / "flight_recorder", folder / "nccl_inspector"
    for place in (dumps, lines):
        place.mkdir()
    width = len(str(max(run.ranks)))
    for place_of, rank in enumerate(run.ranks):
        groups, calls = recorded(run, place_of, rank)
        name = f"{rank:0{width}d}"
        (dumps / f"nccl_trace_rank_{name}.json").write_bytes(
            flight_recorder_dump(rank, groups, calls)
        )
        (lines / f"rank_{name}.log").write_bytes(inspector_lines(rank, groups, calls))


def recorded(run: Run, place: int, rank: int) -> tuple[list[RecordedGroup], list[WrittenCall]]:
    """A rank's groups, and its calls in the order in which it came to them."""
    world = RecordedGroup(_WORLD, _WORLD, tuple(run.ranks))
    communication, calls = run.communication, run.communication.calls(place)
    groups, number_of_role = [world], {}
    for role, group in zip(calls.roles, communication.group_of[place], strict=True):
        name = communication.groups[int(group)].name
        members = run.groups.ranks_of(name, range(run.world_size)) or tuple(run.ranks)
        number_of_role[int(role)] = len(groups)
        groups.append(RecordedGroup(name, calls.names[int(role)], tuple(members)))
    written = sorted(_calls(run, place, rank, number_of_role), key=lambda call: call.began)
    return groups, written


def _calls(
    run: Run, place: int, rank: int, number_of_role: dict[int, int]
) -> Iterator[WrittenCall]:
    body, calls, times = run.body(rank), run.communication.calls(place), run.times_of(rank)
    per_ns = 1000 / run.card.tick_ps
    states, dtypes = (_texts(body, name) for name in ("comm_state", "comm_dtype"))
    outs = body.column("out_size", 0)
    src, dst = run.communication.ends(place)
    counts: dict[int, int] = {}
    places = {r: i for i, r in enumerate(run.ranks)}
    for i, row in enumerate(calls.row.tolist()):
        collective = int(calls.type[i]) == NodeType.COMM_COLL_NODE
        group = number_of_role.get(int(calls.role[i]), 0) if collective else 0
        number = counts.get(group, 0)
        counts[group] = number + 1
        if collective and calls.seq[i] >= 0:
            number = int(calls.seq[i])
        sends = int(calls.type[i]) == NodeType.COMM_SEND_NODE
        kind = (
            CollectiveType(int(calls.kind[i])).name if collective else "SEND" if sends else "RECV"
        )
        began, ended = (EPOCH_NS + round(float(t[row]) / per_ns) for t in (times.start, times.end))
        size = max(int(calls.size[i]), 0)
        peer = places.get(int(dst[i] if sends else src[i]), -1)
        yield WrittenCall(
            group=group,
            number=number,
            kind=kind,
            began=began,
            ended=ended,
            size=size,
            out_size=int(outs[row]) or size,
            dtype=dtypes[row],
            peer=-1 if collective else peer,
            state=states[row] or "completed",
        )


def _texts(trace: Trace, name: str) -> list[str]:
    """A text column, "" where there is none."""
    if name not in trace.column_names:
        return [""] * len(trace)
    return [text or "" for text in trace.nodes.column(name).to_pylist()]
