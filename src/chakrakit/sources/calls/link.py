"""Linking calls recorded on many ranks into one Run: groups are told apart by their members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from chakrakit.errors import FormatError
from chakrakit.sources.calls.record import RecordedCalls, RecordedGroup
from chakrakit.sources.calls.trace import call_trace, followers, kinds_of, node_times, times
from chakrakit.sources.pytorch import names as words
from chakrakit.sources.pytorch.linking import InOut, LinkReport, RankReport
from chakrakit.sources.pytorch.read import RankSpan, check_clock, check_span, check_together
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.model import CollectiveType, EdgeForm, EdgeKind, Trace
from chakrakit.trace.sets import PS_PER_NS, Card, Run, Times
from chakrakit.trace.timing import schedule


@dataclass(frozen=True)
class CallRecording:
    """One rank's calls and the file they came from."""

    rank: int
    path: str
    calls: RecordedCalls


def link_calls(
    recordings: Iterable[CallRecording], tool: str, ignored: Mapping[str, str] | None = None
) -> tuple[Run, LinkReport]:
    """A Run of communication alone; `tool` names the recorder in the run's card.

    Ranks that make the same calls share one program, so that thousands take little room.
    """
    ranks = _by_rank(recordings)
    names = _GroupNames()
    group_names = {rank: names.of(rank, ranks[rank].calls.groups) for rank in sorted(ranks)}
    epoch = min(span.begin for span in _spans(ranks))
    programs = _Programs()
    bindings = {rank: programs.add(ranks[rank].calls, group_names[rank]) for rank in sorted(ranks)}
    bodies = programs.bodies()
    measured = [Times(*node_times(ranks[rank].calls, epoch)) for rank in bindings]
    groups = names.groups()
    card = Card(
        tool="chakra link",
        source=[ranks[r].path for r in bindings],
        settings={"recorder": tool},
        epoch_ns=epoch,
        tick_ps=PS_PER_NS,
    )
    timing = {rank: i for i, rank in enumerate(bindings)}
    run = Run(bodies, bindings, Groups(groups), card, times=measured, timing=timing)
    report = LinkReport(
        ranks=[
            _report(ranks[r], bodies[b.body], measured[timing[r]], names.repeated.get(r, []))
            for r, b in bindings.items()
        ],
        groups={name: list(members) for name, members in groups.items()},
        ignored_files=dict(ignored or {}),
        clock={"rule": "as recorded", "matched": 0, "residual_skew_ns": {}},
    )
    return run, report


def _by_rank(recordings: Iterable[CallRecording]) -> dict[int, CallRecording]:
    ranks: dict[int, CallRecording] = {}
    for recording in recordings:
        if recording.rank in ranks:
            both = f"{ranks[recording.rank].path} and {recording.path}"
            raise FormatError(f"both say rank {recording.rank}; link them one at a time", path=both)
        _check_times(recording)
        ranks[recording.rank] = replace(recording, calls=recording.calls.in_issue_order())
    if not any(len(r.calls) for r in ranks.values()):
        paths = ", ".join(r.path for r in list(ranks.values())[:3])
        raise FormatError("no call is recorded in any of the files", path=paths or None)
    check_together(_spans(ranks))
    return ranks


def _spans(ranks: Mapping[int, CallRecording]) -> list[RankSpan]:
    """First start and last end of each rank that called anything."""
    timed = [(r.path, *times(r.calls)) for r in ranks.values() if len(r.calls)]
    return [RankSpan(path, int(start.min()), int(end.max())) for path, start, end in timed]


def _check_times(recording: CallRecording) -> None:
    calls, nothing = recording.calls, np.zeros(len(recording.calls), np.int64)
    for moments in (calls.created, calls.started, calls.completed):
        check_clock(moments, nothing, 0, recording.path)
    check_clock(nothing, np.maximum(calls.device_ns, 0), 0, recording.path)
    start, end = times(calls)
    check_span(start, end - start, recording.path)


class _Programs:
    """Programs that ranks share: the same calls on groups that play the same roles."""

    def __init__(self) -> None:
        self._number: dict[bytes, int] = {}
        self._first: list[tuple[RecordedCalls, list[str]]] = []
        self._follows: list[NDArray[np.bool_]] = []

    def add(self, calls: RecordedCalls, groups: list[str]) -> Binding:
        """The binding of a rank that makes these calls."""
        roles = _roles(calls.groups)
        key = calls.digest(roles)
        free = followers(calls)[1]
        if key not in self._number:
            self._number[key] = len(self._first)
            self._first.append((calls, roles))
            self._follows.append(free)
        number = self._number[key]
        # An order that holds on one rank and not on another does not belong to their program.
        self._follows[number] &= free
        return Binding(number, groups=dict(zip(roles, groups, strict=True)))

    def bodies(self) -> list[Trace]:
        """One trace for each program, in the order of their numbers."""
        return [
            call_trace(calls, roles, np.flatnonzero(follows))
            for (calls, roles), follows in zip(self._first, self._follows, strict=True)
        ]


def _roles(groups: list[RecordedGroup]) -> list[str]:
    """A role for each group of a rank: its description, numbered where several groups share one."""
    uses: Counter[str] = Counter()
    out = []
    for group in groups:
        role = group.description or group.name
        uses[role] += 1
        out.append(role if uses[role] == 1 else f"{role} {uses[role]}")
    return out


class _GroupNames:
    """One name per group: ranks may use the same name for groups of different members."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, tuple[int, ...]], str] = {}
        self._members: dict[str, list[int]] = {}
        self._users: dict[str, set[int]] = {}
        self.repeated: dict[int, list[str]] = {}
        """By rank, groups that list a rank twice."""

    def of(self, rank: int, groups: list[RecordedGroup]) -> list[str]:
        """The names to use for a rank's groups."""
        return [self._name(rank, group) for group in groups]

    def _name(self, rank: int, group: RecordedGroup) -> str:
        members = tuple(dict.fromkeys(group.ranks))
        if len(members) < len(group.ranks):
            self.repeated.setdefault(rank, []).append(group.name)
        if not members:
            self._users.setdefault(group.name, set()).add(rank)
            return group.name
        key = group.name, members
        if key not in self._names:
            in_use = group.name in self._members
            name = f"{group.name}@{members[0]}" if in_use else group.name
            while name in self._members:
                name += "'"
            self._names[key], self._members[name] = name, list(members)
        return self._names[key]

    def groups(self) -> dict[str, tuple[int, ...]]:
        """Members by name; a group that no file describes has the ranks that used it."""
        described = {name: tuple(ranks) for name, ranks in self._members.items()}
        undescribed = {
            name: tuple(sorted(r)) for name, r in self._users.items() if name not in described
        }
        return described | undescribed


def _report(
    recording: CallRecording, body: Trace, measured: Times, repeated: list[str]
) -> RankReport:
    calls, edges = recording.calls, body.edges
    timed = schedule(len(body), edges, measured.end - measured.start)
    counts = Counter(kinds_of(calls).tolist())
    by_name = {_type_name(kind): n for kind, n in counts.items()}
    used = np.bincount(edges.kind, minlength=len(EdgeKind))
    total = int((measured.end - measured.start)[1::2].sum())
    base = np.where(
        edges.form == EdgeForm.START_START, measured.start[edges.src], measured.end[edges.src]
    )
    return RankReport(
        rank=recording.rank,
        files=[recording.path],
        host_ops=InOut(0, 0),
        device_activities=InOut(len(calls), len(calls)),
        device_time_ns=InOut(total, total),
        measured_span_ns=_span(measured.start, measured.end),
        scheduled_span_ns=_span(timed.start, timed.end),
        edge_violations=int((measured.start[edges.dst] < base + edges.lag).sum()),
        edges={EdgeKind(i).name.lower(): int(n) for i, n in enumerate(used) if n},
        collectives={k: n for k, n in by_name.items() if k not in ("SEND", "RECV")},
        p2p={k: by_name.get(k, 0) for k in ("SEND", "RECV")},
        left_out_events=calls.left_out,
        repaired=calls.repaired,
        warnings=[f"group {name!r} lists a rank twice; it counts once" for name in repeated[:10]],
    )


def _span(start: NDArray[np.int64], end: NDArray[np.int64]) -> int:
    return int(end.max() - start.min()) if len(start) else 0


def _type_name(kind: int) -> str:
    special = {words.SEND: "SEND", words.RECV: "RECV", words.UNKNOWN: "other"}
    return special.get(kind) or CollectiveType(kind).name
