"""`link`: files of any number of ranks in, one Run and a report out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from chakrakit.errors import ConfigError, FormatError, TraceError
from chakrakit.parallel import Workers, spread
from chakrakit.sources.pytorch.communication import (
    Clock,
    Recorded,
    align_clocks,
    assign_groups,
    groups_of,
    infer_across_ranks,
    name_peers,
    number_in_groups,
)
from chakrakit.sources.pytorch.communication import Groups as RecordedGroups
from chakrakit.sources.pytorch.linking.nodes import communication_columns, to_trace
from chakrakit.sources.pytorch.linking.overhead import Overhead, fit
from chakrakit.sources.pytorch.linking.periods import steady_period
from chakrakit.sources.pytorch.linking.rank import Rank, link_rank
from chakrakit.sources.pytorch.linking.report import LinkReport, RankReport, report_rank
from chakrakit.sources.pytorch.linking.spool import Spool
from chakrakit.sources.pytorch.match import Join, align_passes
from chakrakit.sources.pytorch.read import (
    Kineto,
    Observer,
    Pair,
    find_pairs,
    identify,
    read_bytes,
    read_kineto,
    read_observer,
)
from chakrakit.trace.communication import Binding, Body, Groups
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import Card, Run

_PER_BYTE = 2.5
"""Most memory linking takes, as a multiple of the uncompressed files."""
_WORTH_A_PROCESS = 64 << 20
_COMPRESSION = 20
_JOINED = 0.5


@dataclass(frozen=True)
class LinkOptions:
    """How to link.

    times          Kineto files recorded without the observer: they give the times, by rank
    undilate       take out what recording cost the host; True for the default model or the card's
    memory_bytes   how much the ranks linked side by side may take together
    jobs           most processes; 0 for as many as there are cores
    engine         where ranks are linked: `local`, or a cluster (see chakrakit.parallel); by default
                   in this process unless more are worth it
    spool          where workers leave what they linked until it is written: a path that all share
    """

    times: tuple[Path, ...] = ()
    undilate: bool = False
    overhead: Overhead | None = None
    memory_bytes: int = 8 << 30
    jobs: int = 0
    engine: str | None = None
    spool: Path | None = None


@dataclass
class _Linked:
    """What is known of one rank; from a worker, the trace stays on disk until it is asked for."""

    body: Body
    report: RankReport
    recorded: Recorded
    groups: RecordedGroups
    epoch: int
    base_ns: int


def link(
    inputs: Iterable[str | Path], options: LinkOptions | None = None
) -> tuple[Run, LinkReport]:
    """Link all ranks found in files and directories; see `LinkOptions`."""
    chosen = options or LinkOptions()
    found = find_pairs([Path(p) for p in inputs])
    times = _times_by_rank(chosen.times, found.pairs)
    overhead = _overhead(chosen, found.pairs)
    ranks = _link_all(found.pairs, times, overhead, chosen)
    for path in chosen.times:
        found.ignored.pop(str(path), None)
    groups = _merge_groups(ranks)
    inferred = _resolve_groups(ranks, groups)
    clock = align_clocks({r: x.recorded for r, x in ranks.items()})
    run = _run(ranks, clock, groups, overhead)
    report = LinkReport(
        ranks=[_finished(ranks[r], clock, inferred) for r in sorted(ranks)],
        groups={name: list(members) for name, members in groups.items()},
        ignored_files=found.ignored,
        clock={"rule": clock.rule, "matched": clock.matched, "residual_skew_ns": clock.skew_ns},
        overhead=asdict(overhead) if overhead is not None else {},
    )
    return run, report


def _times_by_rank(times: Sequence[Path], pairs: list[Pair]) -> dict[int, Path]:
    """Which times file is whose: by the rank inside, by process, else by order."""
    if not times:
        return {}
    if len(times) != len(pairs):
        raise ConfigError(f"{len(times)} times files for {len(pairs)} ranks; give one a rank")
    if len(pairs) == 1:
        return {pairs[0].rank: times[0]}
    told = {s.rank: s.path for p in times if (s := identify(p)) is not None and s.rank >= 0}
    if set(told) == {p.rank for p in pairs}:
        return told
    return {pair.rank: path for pair, path in zip(pairs, times, strict=True)}


def _overhead(options: LinkOptions, pairs: list[Pair]) -> Overhead | None:
    """The model asked for: given, from a collector's card beside the files, or the default."""
    if not options.undilate:
        return None
    if options.overhead is not None:
        return options.overhead
    for pair in pairs:
        for card in sorted(pair.paths[0].parent.glob("*card*.json")):
            said = _measured(card)
            if said:
                return Overhead(**said, measured=True)
    return Overhead()


def _card(path: Path) -> dict[str, Any]:
    try:
        said = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError):
        return {}
    return said if isinstance(said, dict) else {}


def _measured(card: Path) -> dict[str, int]:
    said = _card(card).get("overhead") or {}
    names = ("operator_ns", "launch_ns", "call_ns", "observer_ns", "step_ns")
    return {k: int(said[k]) for k in names if k in said}


def _link_all(
    pairs: list[Pair], times: Mapping[int, Path], overhead: Overhead | None, options: LinkOptions
) -> dict[int, _Linked]:
    """In this process, or on workers where that is asked for or worth it."""
    sizes = [_size(p, times.get(p.rank)) for p in pairs]
    workers = _workers(sizes, options)
    spool = None if workers is None else Spool(options.spool)
    one = partial(_link_one, overhead=overhead, spool=spool)
    done = spread(one, [(p, times.get(p.rank)) for p in pairs], workers)
    ranks = {p.rank: linked for p, linked in zip(pairs, done, strict=True)}
    if spool is not None:
        for rank, linked in ranks.items():
            linked.body = partial(spool.get, rank)  # and so the folder stays as long as the run
    return ranks


def _workers(sizes: list[int], options: LinkOptions) -> Workers | None:
    """As many as memory and cores allow; a cluster has memory of its own."""
    room = max(1, int(options.memory_bytes / (_PER_BYTE * max(sizes, default=1) + 1)))
    if options.engine not in (None, "local"):
        return Workers(str(options.engine), options.jobs or None)
    jobs = min(options.jobs or os.cpu_count() or 1, room, len(sizes))
    worth_it = jobs > 1 and sum(sizes) >= _WORTH_A_PROCESS
    return Workers("local", jobs) if worth_it or options.engine else None


def _size(pair: Pair, times: Path | None) -> int:
    """Uncompressed bytes, or a guess where the files are compressed."""
    paths = [*pair.paths, *([times] if times else [])]
    return sum(
        p.stat().st_size * (_COMPRESSION if p.suffix == ".gz" else 1) for p in paths if p.exists()
    )


def _link_one(
    task: tuple[Pair, Path | None], overhead: Overhead | None, spool: Spool | None
) -> _Linked:
    pair, times = task
    linked = _read_and_link(pair, times, overhead)
    line = linked.line
    if not len(line):
        raise TraceError(f"{pair.paths[0]} holds no operator; record at least one step")
    epoch = int(line.start.min())
    files = [str(p) for p in (*pair.paths, *([times] if times else []))]
    rows = [c.row for c in linked.collectives]
    kineto = linked.kineto
    trace = to_trace(linked, epoch)
    if spool is not None:
        spool.put(pair.rank, trace)
    return _Linked(
        trace if spool is None else partial(spool.get, pair.rank),
        report_rank(linked, files),
        Recorded(
            linked.collectives, line.start[rows].tolist(), line.end[rows].tolist(), _host(linked)
        ),
        groups_of(linked.observer, kineto, 0),
        epoch,
        kineto.base_ns if kineto is not None else 0,
    )


def _read_and_link(pair: Pair, times: Path | None, overhead: Overhead | None) -> Rank:
    """One rank, with recording's cost scaled to the un-recorded step where one was timed."""
    observer, kineto, joined = _read_pair(pair, times)

    def linked_with(factor: float) -> Rank:
        scaled = overhead and overhead.scaled(factor)
        return link_rank(pair.rank, observer, kineto, joined, scaled)

    linked = linked_with(1.0)
    if times is None:
        _check_joined(linked, pair)
    now = steady_period(linked) if overhead is not None and overhead.step_ns else 0
    if overhead is None or not now:
        return linked
    factor = fit(lambda f: steady_period(linked_with(f)), overhead.step_ns, now)
    return replace(linked_with(factor), overhead_factor=factor)


def _read_pair(
    pair: Pair, times: Path | None
) -> tuple[Observer | None, Kineto | None, Join | None]:
    """The files' contents, and how they belong together where that is not by their own numbers."""
    observer = kineto = None
    if pair.observer is not None:
        observer = read_observer(read_bytes(pair.observer), str(pair.observer))
    if times is not None:
        if observer is None:
            raise ConfigError(f"--times {times} needs an observer file to give it structure")
        kineto = read_kineto(read_bytes(times), str(times))
        return observer, kineto, align_passes(observer, kineto)
    if pair.kineto is not None:
        kineto = read_kineto(read_bytes(pair.kineto), str(pair.kineto))
    return observer, kineto, None


def _check_joined(linked: Rank, pair: Pair) -> None:
    if linked.observer is None or linked.kineto is None:
        return
    given = int(linked.observer.is_operator.sum())
    matched = sum(linked.joined.rules.values())
    cut = linked.observer.truncated or linked.kineto.truncated
    if matched < _JOINED * given and not cut:
        raise FormatError(
            f"only {matched:,} of {given:,} operators are in {pair.kineto}: the files are not of "
            "the same rank and steps; give both files of one recording",
            path=str(pair.observer),
        )


def _host(linked: Rank) -> str:
    return linked.kineto.host_name if linked.kineto is not None else ""


def _merge_groups(ranks: Mapping[int, _Linked]) -> RecordedGroups:
    out: RecordedGroups = {}
    for linked in ranks.values():
        for name, members in linked.groups.items():
            out.setdefault(name, members)
    return out


def _resolve_groups(ranks: dict[int, _Linked], groups: RecordedGroups) -> dict[int, int]:
    """Groups and sequence numbers of all ranks; returns how many of each rank were inferred."""
    for rank, linked in ranks.items():
        _ddp_groups(linked, rank)
        assign_groups(list_of(linked), groups, rank)
    infer_across_ranks({r: x.recorded for r, x in ranks.items()}, groups)
    for linked in ranks.values():
        name_peers(list_of(linked), groups)
        number_in_groups(list_of(linked))
    return {r: sum(c.inferred for c in list_of(x)) for r, x in ranks.items()}


def _ddp_groups(linked: _Linked, rank: int) -> None:
    """DDP's reducer names no group; the collector's card says which one DDP uses."""
    names = _card(_card_of(linked, rank)).get("ddp_groups") or []
    for c in list_of(linked) if len(names) == 1 else ():
        if c.group is None and not c.is_message:
            c.group, c.inferred = str(names[0]), True


def _collector(ranks: Mapping[int, _Linked]) -> dict[str, Any]:
    """What the collector's card of the first rank says of machine and versions; nothing without one."""
    first = min(ranks)
    said = _card(_card_of(ranks[first], first))
    found = {k: said[k] for k in ("torch", "python", "host", "device", "steps") if k in said}
    return {"collector": found} if found else {}


def _card_of(linked: _Linked, rank: int) -> Path:
    return Path(linked.report.files[0]).parent / f"card_{rank}.json"


def list_of(linked: _Linked) -> list[Any]:
    """A rank's collectives, to be changed in place."""
    found = linked.recorded.collectives
    assert isinstance(found, list)
    return found


def _run(
    ranks: Mapping[int, _Linked], clock: Clock, groups: RecordedGroups, overhead: Overhead | None
) -> Run:
    begin = {r: x.base_ns + x.epoch + clock.offset[r] for r, x in ranks.items()}
    epoch = min(begin.values())
    bodies = [_body(ranks[r], r, begin[r] - epoch) for r in sorted(ranks)]
    bindings = {r: Binding(i) for i, r in enumerate(sorted(ranks))}
    undilate = {"undilate": asdict(overhead)} if overhead is not None else {}
    card = Card(
        tool="chakra link",
        source=[f for r in sorted(ranks) for f in ranks[r].report.files],
        settings={**undilate, **_collector(ranks)},
        epoch_ns=epoch,
    )
    return Run(bodies, bindings, Groups(groups), card)


def _body(linked: _Linked, rank: int, shift: int) -> Body:
    if isinstance(linked.body, Trace):
        return _settled(linked.body, list_of(linked), rank, shift)
    return partial(_settled, linked.body, list_of(linked), rank, shift)


def _settled(body: Body, collectives: list[Any], rank: int, shift: int) -> Trace:
    """A rank's trace with what only all ranks together could tell: groups, numbers, one clock."""
    trace = body if isinstance(body, Trace) else body()
    changed = communication_columns(len(trace), rank, collectives) if collectives else {}
    if shift:
        start = trace.start_ns + shift
        changed |= {"start_time_ns": start, "start_time_micros": (start // 1000).astype(np.uint64)}
    return trace.with_columns(changed)


def _finished(linked: _Linked, clock: Clock, inferred: Mapping[int, int]) -> RankReport:
    report = linked.report
    report.clock_offset_ns = clock.offset[report.rank]
    if inferred[report.rank]:
        report.inferred = {"groups": inferred[report.rank]}
    return report
