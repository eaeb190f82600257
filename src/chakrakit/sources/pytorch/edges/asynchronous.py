"""Communication that runs beside its caller on the host: gloo, MPI, UCC."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I64
from chakrakit.sources.pytorch.communication import Collective
from chakrakit.sources.pytorch.edges.candidates import Candidates
from chakrakit.sources.pytorch.edges.host import HostModel
from chakrakit.sources.pytorch.match import RowNames, Timeline
from chakrakit.sources.pytorch.read import Kineto
from chakrakit.trace.model import EdgeForm, EdgeKind

_WAIT_NS = 20_000
"""A gap in which communication ended counts as waiting for it if it was open this long before."""
_PICKED_UP_NS = 50_000


def add_asynchronous(
    line: Timeline,
    names: RowNames,
    kineto: Kineto | None,
    found: list[Collective],
    host: HostModel,
    causes: Candidates,
) -> int:
    """Launch edges from issuer to communication, and edges to those who waited for it.

    Returns how many waits were seen. A wait is not always recorded: an operator that says so, or a
    gap in the issuing thread in which the communication ended.
    """
    pairs = [
        (c.issuer, c.row)
        for c in found
        if line.is_host[c.row] and c.row != c.issuer and _runs_beside(line, c)
    ]
    if not pairs:
        return 0
    issuer, row = np.array(pairs, np.int64).T
    first, last = _parts(line, host, kineto, row)
    _launch(line, host, causes, issuer, first)
    waits = zip(issuer.tolist(), last.tolist(), strict=True)
    return sum(_add_wait(line, names, host, i, r) for i, r in waits)


def _parts(line: Timeline, host: HostModel, kineto: Kineto | None, rows: I64) -> tuple[I64, I64]:
    """The first and last row that a worker runs for each communication: copies from and to a device."""
    first, last = rows.copy(), rows.copy()
    for i, row in enumerate(rows.tolist()):
        if kineto is None or line.event[row] < 0 or line.astray[row]:
            continue
        begin, end = (int(t[line.event[row]]) for t in (kineto.start, kineto.end))
        mine = host.thread_rows(int(line.thread[row]))
        inside = mine[(line.start[mine] >= begin) & (line.end[mine] <= end)]
        if len(inside):
            first[i], last[i] = inside[0], inside[-1]
    return first, last


def _launch(line: Timeline, host: HostModel, causes: Candidates, issuer: I64, first: I64) -> None:
    """What began when it was issued did so because of that; what a busy worker began later did not."""
    before = host.before[first]
    follows = before >= 0
    idle = ~follows | (line.end[before] <= line.start[issuer] + _PICKED_UP_NS)
    causes.add(EdgeKind.LAUNCH, EdgeForm.START_START, issuer[idle], first[idle], _PICKED_UP_NS)
    released = first[idle & follows]
    # A worker that was idle when work was issued did not need that idle time itself.
    host.lag[released] = np.minimum(host.lag[released], 0)
    slack = line.start[first[~idle]] - line.start[issuer[~idle]]
    lag = np.minimum(slack, _PICKED_UP_NS)
    host.extra.add(EdgeKind.LAUNCH, issuer[~idle], first[~idle], lag, EdgeForm.START_START)


def _runs_beside(line: Timeline, c: Collective) -> bool:
    return bool(line.thread[c.row] != line.thread[c.issuer] or line.astray[c.row])


def _add_wait(line: Timeline, names: RowNames, host: HostModel, issuer: int, row: int) -> bool:
    rows = host.thread_rows(int(line.thread[issuer]))
    place = int(np.searchsorted(line.start[rows], line.end[row]))
    before = int(rows[place - 1]) if place else -1
    after = int(rows[place]) if place < len(rows) else -1
    inside = before >= 0 and line.end[before] >= line.end[row] and not line.astray[before]
    if inside and "wait" in names[before] and line.start[before] > line.start[issuer]:
        host.wait_inside(np.array([row]), np.array([before]))
        return True
    if after < 0 or line.start[after] <= line.start[issuer]:
        return False
    base = int(line.start[before] if host.is_call[after] else line.end[before])
    if host.before[after] != before or base + _WAIT_NS > line.end[row]:
        return False
    host.wait_after(np.array([row]), np.array([after]))
    return True
