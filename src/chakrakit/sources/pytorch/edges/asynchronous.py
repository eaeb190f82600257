"""Communication that runs beside its caller on the host: gloo, MPI, UCC."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I64
from chakrakit.sources.pytorch.communication import Collective
from chakrakit.sources.pytorch.edges.candidates import Candidates
from chakrakit.sources.pytorch.edges.host import HostModel
from chakrakit.sources.pytorch.match import RowNames, Timeline
from chakrakit.trace.model import EdgeForm, EdgeKind

_WAIT_NS = 20_000
"""A gap in which communication ended counts as waiting for it if it was open this long before."""
_PICKED_UP_NS = 50_000


def add_asynchronous(
    line: Timeline, names: RowNames, found: list[Collective], host: HostModel, causes: Candidates
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
    causes.add(EdgeKind.LAUNCH, EdgeForm.START_START, issuer, row, _PICKED_UP_NS)
    _release_workers(line, host, issuer, row)
    return sum(_add_wait(line, names, host, int(i), int(r)) for i, r in pairs)


def _runs_beside(line: Timeline, c: Collective) -> bool:
    return bool(line.thread[c.row] != line.thread[c.issuer] or line.astray[c.row])


def _release_workers(line: Timeline, host: HostModel, issuer: I64, row: I64) -> None:
    """A worker thread that was idle when work was issued did not need that idle time itself."""
    follows = host.before[row] >= 0
    row, issuer = row[follows], issuer[follows]
    idle = line.end[host.before[row]] <= line.start[issuer] + _PICKED_UP_NS
    host.lag[row[idle]] = np.minimum(host.lag[row[idle]], 0)


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
