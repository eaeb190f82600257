"""From recorded communication: ranks that never arrive, ranks whose calls differ, and ranks that are slow.

`hang_culprits` puts all of it together.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa

from chakrakit.arrays import F64, I64, Mask
from chakrakit.insight.diagnosis.board import DONE, Board, CallSignature
from chakrakit.insight.diagnosis.culprit import Culprit, CulpritKind

# --- ranks that never arrive: collectives that some ranks wait in, and the ranks they wait for ------

_FAR_BEHIND = 5
"""One rank that lags behind all others by this many calls is missing; recordings that end at
different moments explain fewer."""
_MOST_RECORDED = 0.5
"""A rank without a recording counts as dead only if more than this share of its group has one."""


@dataclass(frozen=True)
class Absence:
    """A rank that a collective waits for, and that does not itself wait in another one.

    `dead` says that there is no recording of the rank; `row` is a call of the collective on a rank
    that arrived, -1 where nothing waits.
    """

    rank: int
    dead: bool
    row: int


@dataclass(frozen=True)
class _Stuck:
    """The first collective of a group that does not end."""

    group: int
    row: int
    absent: I64


def find_absences(board: Board) -> list[Absence]:
    """The ranks that collectives wait for, without those that themselves wait elsewhere: they are victims.

    Empty where the recorder does not say how far calls got: such recorders may drop calls, and a missing
    call then proves nothing.
    """
    if not (board.state >= 0).any():
        return []
    stuck = _stuck(board)
    waiting = {int(r) for r in _first_open(board)}
    roots: dict[int, Absence] = {}
    recorded = set(board.recorded.tolist())
    for s in sorted(stuck, key=lambda s: int(board.start[s.row])):
        for rank in s.absent.tolist():
            if rank not in recorded or rank not in waiting:
                roots.setdefault(rank, Absence(rank, rank not in recorded, s.row))
    if not roots and stuck and find_inside(board) < 0:
        roots = {a.rank: a for a in _circle(board, stuck)}
    for late in (*_never_recorded(board), *_far_behind(board)):
        roots.setdefault(late.rank, late)
    return sorted(roots.values(), key=lambda a: (not a.dead, a.rank))


def find_inside(board: Board) -> int:
    """A call of the first collective that all members have reached and none has left; -1 where there is none.

    Something stopped it on its way: a link, or a device while it sent.
    """
    if not len(board):
        return -1
    first = board.order[board.bounds[:-1]]
    size = np.array([len(m) for m in board.members] or [0], np.int64)[board.group[first]]
    held = board.per_meeting(np.minimum, _open(board).astype(np.int64)).astype(np.bool_)
    meetings = np.flatnonzero(held & (np.diff(board.bounds) == size) & (size > 1))
    if not len(meetings):
        return -1
    return int(first[meetings[np.argmin(board.start[first[meetings]])]])


def _open(board: Board) -> Mask:
    return (board.state >= 0) & (board.state < DONE)


def _stuck(board: Board) -> list[_Stuck]:
    """For each group, its first collective that some members wait in and others have not reached."""
    is_open = _open(board)
    waiting = np.flatnonzero(board.per_meeting(np.maximum, is_open.astype(np.int64)))
    out: dict[int, _Stuck] = {}
    for meeting in waiting.tolist():
        rows = board.rows(meeting)
        group = int(board.group[rows[0]])
        if group in out:
            continue
        absent = np.setdiff1d(board.members[group], board.rank[rows])
        absent = absent[~_passed(board, group, int(board.seq[rows[0]]), absent)]
        if len(absent):
            out[group] = _Stuck(group, int(rows[np.argmax(is_open[rows])]), absent)
    return list(out.values())


def _passed(board: Board, group: int, seq: int, ranks: I64) -> Mask:
    """Which ranks recorded later calls of the group: their ring buffer dropped this one."""
    return np.array([board.last.get((group, r), -1) > seq for r in ranks.tolist()], np.bool_)


def _first_open(board: Board) -> I64:
    """Ranks that wait in a collective."""
    return np.unique(board.rank[_open(board)])


def _circle(board: Board, stuck: list[_Stuck]) -> list[Absence]:
    """Culprits where all missing ranks wait elsewhere, in a circle.

    The smallest set of ranks whose arrival would break it is blamed; empty if that is most of a group.
    """
    fewest = min(stuck, key=lambda s: (len(s.absent), int(board.start[s.row])))
    if len(fewest.absent) * 2 > len(board.members[fewest.group]):
        return []
    return [Absence(int(r), False, fewest.row) for r in fewest.absent]


def _never_recorded(board: Board) -> list[Absence]:
    """Ranks without a recording, in groups most of whose members have one."""
    out: dict[int, Absence] = {}
    for ranks in board.members:
        missing = np.setdiff1d(ranks, board.recorded)
        if len(missing) and len(missing) < (1 - _MOST_RECORDED) * len(ranks):
            for rank in missing.tolist():
                out[rank] = Absence(rank, True, -1)
    return list(out.values())


def _far_behind(board: Board) -> list[Absence]:
    """Ranks whose recording of a group ends long before those of all others, which end together."""
    out: list[Absence] = []
    recorded = set(board.recorded.tolist())
    for group, ranks in enumerate(board.members):
        ends = {r: board.last.get((group, r), -1) for r in ranks.tolist() if r in recorded}
        if len(ends) < 3:
            continue
        values = np.sort(np.fromiter(ends.values(), np.int64))
        top, bulk = int(values[-1]), int(values[1])
        lone = min(ends, key=lambda r: ends[r])
        if top - bulk <= 2 and bulk - ends[lone] >= _FAR_BEHIND and ends[lone] >= 0:
            row = np.flatnonzero((board.group == group) & (board.seq == ends[lone] + 1))
            out.append(Absence(lone, False, int(row[0]) if len(row) else -1))
    return out


# --- calls that should be the same on all ranks of a group and are not ------------------------------

_MOST_MEETINGS = 20_000
"""Meetings looked at: once a group is out of step every later meeting differs, and adds nothing new."""
_LOOK_AHEAD = 6
"""Calls in which a swapped or skipped one shows; in more, repeated calls look like another order."""


@dataclass(frozen=True)
class CallDifference:
    """The first call in which a rank differs from its group; `aspect` is `order`, `type` or `size`."""

    aspect: str
    rank: int
    row: int


def find_differences(board: Board) -> list[CallDifference]:
    """For each rank and group, the first call in which the rank differs from most of the group."""
    earliest: dict[tuple[int, int], CallDifference] = {}
    for meeting in _mixed(board):
        for row in _minority(board, meeting):
            key = int(board.rank[row]), int(board.group[row])
            if key not in earliest:
                aspect = _aspect(board, meeting, int(row))
                earliest[key] = CallDifference(aspect, key[0], int(row))
    return sorted(earliest.values(), key=lambda d: int(board.start[d.row]))


def _mixed(board: Board) -> list[int]:
    """Meetings whose calls are not all the same, in order of time."""
    if not len(board):
        return []
    sign = board.sign
    differ = board.per_meeting(np.minimum, sign) != board.per_meeting(np.maximum, sign)
    mixed = np.flatnonzero(differ)
    begun = board.per_meeting(np.minimum, board.start)[mixed]
    return [int(m) for m in mixed[np.argsort(begun, kind="stable")][:_MOST_MEETINGS]]


def _minority(board: Board, meeting: int) -> list[int]:
    """The calls of a meeting that differ from its most common one.

    A tie is settled by what other groups of the same size do at the same number; if that does not decide,
    the higher ranks count as different.
    """
    rows = board.rows(meeting).tolist()
    count = Counter(board.signature(r) for r in rows)
    best = max(count.values())
    leading = [facts for facts, n in count.items() if n == best]
    usual = leading[0] if len(leading) == 1 else _elsewhere(board, rows, leading)
    return [r for r in rows if board.signature(r) != usual]


def _elsewhere(board: Board, rows: list[int], leading: list[CallSignature]) -> CallSignature:
    seq = int(board.seq[rows[0]])
    length = len(board.members[int(board.group[rows[0]])])
    alike = [g for g, ranks in enumerate(board.members) if len(ranks) == length]
    same_number = np.flatnonzero((board.seq == seq) & np.isin(board.group, alike))
    count = Counter(board.signature(int(r)) for r in same_number)
    return max(leading, key=lambda facts: (count[facts], -rows.index(_first(board, rows, facts))))


def _first(board: Board, rows: list[int], facts: CallSignature) -> int:
    return next(r for r in rows if board.signature(r) == facts)


def _aspect(board: Board, meeting: int, row: int) -> str:
    """What differs: order, if the rank's next calls are its group's in another order; else type or size."""
    mine, usual = board.signature(row), _usual(board, meeting)
    if _out_of_step(board, row):
        return "order"
    if mine.kind != usual.kind or mine.dtype != usual.dtype:
        return "type"
    return "size"


def _usual(board: Board, meeting: int) -> CallSignature:
    return Counter(board.signature(r) for r in board.rows(meeting).tolist()).most_common(1)[0][0]


def _out_of_step(board: Board, row: int) -> bool:
    """Whether the rank's next few calls are those of a peer in another order, or shifted by one."""
    rank, group, seq = (int(a[row]) for a in (board.rank, board.group, board.seq))
    meeting = board.meeting_of(row)
    peers = [int(board.rank[r]) for r in board.rows(meeting) if board.rank[r] != rank]
    usual = _usual(board, meeting)
    peer = next(
        (
            int(board.rank[r])
            for r in board.rows(meeting)
            if board.signature(int(r)) == usual and board.rank[r] != rank
        ),
        peers[0] if peers else -1,
    )
    mine, theirs = (_coming(board, r, group, seq) for r in (rank, peer))
    for n in range(2, min(len(mine), len(theirs)) + 1):
        if mine[:n] != theirs[:n] and Counter(mine[:n]) == Counter(theirs[:n]):
            return True
    shifted = min(len(mine), len(theirs)) - 1
    if shifted < 2 or mine[1:] == theirs[1:]:
        return False  # one call differs and the rest agrees
    return mine[:shifted] == theirs[1 : shifted + 1] or mine[1 : shifted + 1] == theirs[:shifted]


def _coming(board: Board, rank: int, group: int, seq: int) -> list[CallSignature]:
    rows = np.flatnonzero(
        (board.rank == rank)
        & (board.group == group)
        & (board.seq >= seq)
        & (board.seq < seq + _LOOK_AHEAD)
    )
    rows = rows[np.lexsort((board.nth[rows], board.seq[rows]))]
    return [board.signature(int(r)) for r in rows]


# --- ranks that are always late: few of them, and far from the others -------------------------------
#
# A late rank must meet all of the following conditions.

_FEWEST_RANKS = 4
"""Ranks of a group that can be compared: among fewer, one late rank moves the median itself."""
_FEWEST_CALLS = 8
"""Calls from which a median is taken: fewer are dominated by single hiccups."""
_DEVIATIONS = 8.0
"""It is off by this many robust deviations (1.4826 × MAD over ranks); jitter stays below 6."""
_SHARE = 0.05
"""It is off by this share of the time between calls."""
_STEADY = 0.7
"""It is late in this share of its calls."""
_FEW = 0.05
"""No more than this share of the ranks is late: if many are, it is a matter of placement."""
_NORMAL = 1.4826
"""Standard deviations per median absolute deviation of normally distributed values: 1 / Φ⁻¹(3/4)."""
_WINDOWS = (1.0, 0.5, 0.25)
"""Shares of the recording, counted from its end, that are judged: a rank may have become slow late."""


@dataclass(frozen=True)
class Late:
    """A slow rank: how many times as long as usual it takes, and the call since which it does."""

    rank: int
    factor: float
    row: int


@dataclass(frozen=True, eq=False)
class _Sheet:
    """The complete meetings of one group: one line per meeting, one column per rank.

    `came` is how long after the median rank each rank came. `stayed` is how much shorter than the median rank
    it stayed; this needs no common clock, because the rank that comes last does not wait.
    """

    ranks: I64
    rows: I64
    came: F64
    stayed: F64


def find_late(board: Board) -> list[Late]:
    """Slow ranks, worst first.

    A rank counts only if it is late in all its groups, because ranks that wait for it are late elsewhere.
    """
    sheets = _sheets(board)
    period = _period(board)
    measures = ([s.stayed for s in sheets], [s.came for s in sheets], [-s.stayed for s in sheets])
    for measure in measures:
        slow: dict[int, Late] = {}
        for share in _WINDOWS:
            for late in _outliers(board, sheets, measure, share, period):
                slow.setdefault(late.rank, late)
        if slow:
            return sorted(slow.values(), key=lambda x: -x.factor)
    return []


def _sheets(board: Board) -> list[_Sheet]:
    """One sheet for each group in which ranks can be compared."""
    if not len(board):
        return []
    first = board.order[board.bounds[:-1]]
    group, present = board.group[first], np.diff(board.bounds)
    size = np.array([len(m) for m in board.members] or [0], np.int64)[group]
    finished = board.per_meeting(np.minimum, (board.state == DONE) | (board.state < 0))
    timed = board.per_meeting(np.minimum, board.end > board.start)
    whole = (present == size) & (size >= _FEWEST_RANKS) & finished.astype(np.bool_)
    comparable = np.flatnonzero(whole & timed.astype(np.bool_))
    if not len(comparable):
        return []
    cuts = np.flatnonzero(np.r_[True, group[comparable[1:]] != group[comparable[:-1]]]).tolist()
    spans = zip(cuts, [*cuts[1:], len(comparable)], strict=True)
    return [
        _sheet(board, comparable[a:b], int(size[comparable[a]]))
        for a, b in spans
        if b - a >= _FEWEST_CALLS
    ]


def _sheet(board: Board, meetings: I64, ranks: int) -> _Sheet:
    rows = board.order[board.bounds[meetings][:, None] + np.arange(ranks)]
    start = board.start[rows].astype(np.float64)
    stay = (board.end[rows] - board.start[rows]).astype(np.float64)
    return _Sheet(
        board.rank[rows[0]],
        rows,
        start - np.median(start, axis=1, keepdims=True),
        np.median(stay, axis=1, keepdims=True) - stay,
    )


def _period(board: Board) -> float:
    """The usual time between two calls of a rank."""
    same = board.rank[1:] == board.rank[:-1]
    gaps = np.diff(board.start)[same]
    return float(np.median(gaps)) if len(gaps) else 0.0


def _outliers(
    board: Board, sheets: list[_Sheet], measure: list[F64], share: float, period: float
) -> list[Late]:
    judged: Counter[int] = Counter()
    off: dict[int, list[float]] = {}
    for sheet, values in zip(sheets, measure, strict=True):
        recent = values[-max(_FEWEST_CALLS, int(share * len(values))) :]
        typical = np.median(recent, axis=0)
        judged.update(sheet.ranks.tolist())
        for column in np.flatnonzero(_far(typical, period)).tolist():
            off.setdefault(int(sheet.ranks[column]), []).append(float(typical[column]))
    late = [rank for rank, by in off.items() if len(by) == judged[rank]]
    if not 0 < len(late) <= max(1, _FEW * len(judged)):
        return []
    outliers = (_late(board, sheets, measure, r, max(off[r]), share, period) for r in late)
    return [x for x in outliers if x is not None]


def _far(typical: F64, period: float) -> Mask:
    """Which ranks are far from the others of their group."""
    off = typical - np.median(typical)
    spread = _NORMAL * float(np.median(np.abs(off)))
    far: Mask = off > max(_DEVIATIONS * spread, _SHARE * period)
    return far


def _late(
    board: Board,
    sheets: list[_Sheet],
    measure: list[F64],
    rank: int,
    by: float,
    share: float,
    period: float,
) -> Late | None:
    rows, late = _calls_of(sheets, measure, rank, by / 2)
    recent = late[-max(_FEWEST_CALLS, int(share * len(late))) :]
    if recent.mean() < _STEADY:
        return None
    # The lateness began with the call from which on late calls outweigh punctual ones most.
    worth = np.where(late, 1.0, -2.0)[::-1].cumsum()[::-1]
    return Late(rank, 1 + by / period if period else 1.0, int(rows[int(np.argmax(worth))]))


def _calls_of(sheets: list[_Sheet], measure: list[F64], rank: int, by: float) -> tuple[I64, Mask]:
    """A rank's calls in the order it issued them, and which of them were late."""
    rows, late = [np.zeros(0, np.int64)], [np.zeros(0, np.bool_)]
    for sheet, values in zip(sheets, measure, strict=True):
        for column in np.flatnonzero(sheet.ranks == rank).tolist():
            rows.append(sheet.rows[:, column])
            late.append(values[:, column] > by)
    joined, flags = np.concatenate(rows), np.concatenate(late)
    order = np.argsort(joined, kind="stable")  # a rank's rows are in the order of issue
    return joined[order], flags[order]


# --- ranks that make the calls of two groups in another order than the other members of both --------


def find_misordered(board: Board) -> list[int]:
    """For each rank whose order differs from most, its first call that is out of order.

    Two ranks of the same two groups that call them in opposite orders wait for each other, although the
    calls of each group are numbered alike. Only calls that all common ranks recorded are compared: others may
    have been dropped or not been made yet. A tie is settled by the order in other pairs of groups.
    """
    begins = np.searchsorted(board.rank, board.recorded)
    ends = np.searchsorted(board.rank, board.recorded, side="right")
    rows_of = {
        r: np.arange(a, b) for r, a, b in zip(board.recorded.tolist(), begins, ends, strict=True)
    }
    calls = [
        [_of_groups(board, rows_of[r], groups) for r in ranks]
        for groups, ranks in _pairs(board).items()
    ]
    mixed = [orders for each in calls if (orders := _orders(board, each))]
    usual = Counter(_shape(board, rows) for each in calls if mixed for rows in each)
    first_calls: dict[int, int] = {}
    for orders in mixed:
        for row in _unusual(board, orders, usual):
            rank = int(board.rank[row])
            first_calls[rank] = min(row, first_calls.get(rank, row))
    return sorted(first_calls.values(), key=lambda row: int(board.start[row]))


def _pairs(board: Board) -> dict[tuple[int, int], list[int]]:
    """For every two groups that share at least two recorded ranks, those ranks."""
    recorded = set(board.recorded.tolist())
    groups_of: dict[int, list[int]] = {}
    for group, members in enumerate(board.members):
        for rank in members.tolist():
            if rank in recorded:
                groups_of.setdefault(rank, []).append(group)
    pairs: dict[tuple[int, int], list[int]] = {}
    for rank in sorted(groups_of):
        for pair in combinations(groups_of[rank], 2):
            pairs.setdefault(pair, []).append(rank)
    return {pair: ranks for pair, ranks in pairs.items() if len(ranks) > 1}


def _of_groups(board: Board, rows: I64, groups: tuple[int, int]) -> I64:
    group = board.group[rows]
    calls: I64 = rows[(group == groups[0]) | (group == groups[1])]
    return calls


def _orders(board: Board, calls: list[I64]) -> list[I64]:
    """The calls that all ranks made, by rank in the order of issue; empty where all orders agree."""
    keys = [board.key[rows] for rows in calls]
    if all(np.array_equal(keys[0], key) for key in keys[1:]):
        return []
    shared, times = np.unique(np.concatenate(keys), return_counts=True)
    shared = shared[times == len(calls)]
    common = [rows[np.isin(k, shared)] for rows, k in zip(calls, keys, strict=True)]
    first = board.key[common[0]]
    return [] if all(np.array_equal(first, board.key[rows]) for rows in common[1:]) else common


def _shape(board: Board, rows: I64) -> bytes:
    """An order of calls without the names of its two groups, to compare it with other pairs of groups."""
    is_second = (board.group[rows] == board.group[rows].max()).astype(np.int64)
    return np.stack([is_second, board.seq[rows], board.nth[rows]]).tobytes()


def _unusual(board: Board, orders: list[I64], usual: Counter[bytes]) -> list[int]:
    """For each rank whose order differs from the most common one, its first call out of order."""
    count = Counter(board.key[rows].tobytes() for rows in orders)
    most = max(
        orders, key=lambda rows: (count[board.key[rows].tobytes()], usual[_shape(board, rows)])
    )
    out = []
    for rows in orders:
        differ = np.flatnonzero(board.key[rows] != board.key[most])
        if len(differ):
            out.append(int(rows[differ[0]]))
    return out


_KINDS: dict[str, CulpritKind] = {
    "order": "order-mismatch",
    "size": "size-mismatch",
    "type": "type-mismatch",
}


def hang_culprits(board: Board, progress: pa.Table | None = None) -> list[Culprit]:
    """The root causes of an incomplete or slow recording, surest first.

    `progress` says how many bytes ranks had moved of what is on its way, where that is known.

    A rank whose call differs from its group's explains why others wait, so ranks that never arrived
    are then only named if there is no recording of them. Slow ranks are looked for where nothing is
    wrong, because everybody waits in a recording that hangs.
    """
    different = find_differences(board) or _misordered(board)
    absent = [a for a in find_absences(board) if a.dead or not different]
    culprits = [_difference_culprit(board, d) for d in different] + [
        _absence_culprit(board, a) for a in absent
    ]
    stopped = progress is not None or bool(_stuck(board))  # a recording may end while calls run
    if not culprits and stopped and (inside := find_inside(board)) >= 0:
        return [_inside_culprit(board, inside, progress)]
    return culprits or [_late_culprit(board, x) for x in find_late(board)]


def _inside_culprit(board: Board, row: int, progress: pa.Table | None) -> Culprit:
    """A collective that stopped on its way, and the member at most of the transfers that stopped it."""
    label, rank = board.label(row), None
    if progress is not None and len(progress):
        rows = progress.to_pylist()
        rank = min(rows, key=lambda r: (-r["held"], _moved(r), r["rank"]))["rank"]
    who = "" if rank is None else f": most transfers that stopped begin or end at rank {rank}"
    return Culprit(
        kind="hang",
        rank=rank,
        collective=label,
        since_step=int(board.seq[row]),
        detail=f"all ranks arrived at {label}, and it never ended{who}",
    )


def _moved(row: dict[str, float]) -> float:
    """The part of its bytes that a rank has sent and received."""
    due = row["to_send"] + row["to_receive"]
    return (row["sent"] + row["received"]) / due if due else 1.0


def _misordered(board: Board) -> list[CallDifference]:
    return [CallDifference("order", int(board.rank[row]), row) for row in find_misordered(board)]


def _difference_culprit(board: Board, d: CallDifference) -> Culprit:
    return Culprit(
        kind=_KINDS[d.aspect],
        rank=d.rank,
        collective=board.label(d.row),
        since_step=int(board.seq[d.row]),
        detail=f"rank {d.rank} calls {board.label(d.row)} with another {d.aspect} than its group",
    )


def _absence_culprit(board: Board, a: Absence) -> Culprit:
    where = board.label(a.row) if a.row >= 0 else None
    why = "there is no recording of it" if a.dead else "it waits in no collective itself"
    return Culprit(
        kind="dead-rank" if a.dead else "missing-rank",
        rank=a.rank,
        collective=where,
        since_step=int(board.seq[a.row]) if a.row >= 0 else None,
        detail=f"rank {a.rank} never arrived at {where or 'any collective'}: {why}",
    )


def _late_culprit(board: Board, x: Late) -> Culprit:
    return Culprit(
        kind="slow-rank",
        rank=x.rank,
        collective=board.label(x.row),
        since_step=int(board.seq[x.row]),
        factor=round(x.factor, 3),
        detail=f"rank {x.rank} makes the others wait in all its groups since {board.label(x.row)}",
    )
