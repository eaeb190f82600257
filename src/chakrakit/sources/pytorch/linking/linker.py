"""`link`: files of any number of ranks in, one Run and a report out."""

from __future__ import annotations

import contextlib
import os
import pickle
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError, FormatError, TraceError
from chakrakit.operators import KNOWN_KERNELS, CommunicationKernels
from chakrakit.parallel import Workers, spread
from chakrakit.sources.pytorch.calls import assign_groups, name_peers, number_in_groups
from chakrakit.sources.pytorch.clocks import (
    ClockOffsets,
    RankCollectives,
    align_clocks,
    align_windows,
)
from chakrakit.sources.pytorch.graphs import Capture
from chakrakit.sources.pytorch.groups import Groups as RecordedGroups
from chakrakit.sources.pytorch.groups import groups_of, infer_across_ranks
from chakrakit.sources.pytorch.joining import Join
from chakrakit.sources.pytorch.linking.meeting import meet
from chakrakit.sources.pytorch.linking.nodes import communication_columns, time_columns, to_trace
from chakrakit.sources.pytorch.linking.overhead import Overhead, fit, least_and_most
from chakrakit.sources.pytorch.linking.rank import (
    Rank,
    RankParts,
    captures_of,
    link_rank,
    rank_parts,
)
from chakrakit.sources.pytorch.linking.report import (
    LinkReport,
    RankReport,
    device_time,
    report_rank,
    steady_period,
)
from chakrakit.sources.pytorch.linking.step_facts import (
    LinkedRank,
    RankCard,
    RankRecording,
    cards_of,
    list_of,
    overhead_of,
    recording,
)
from chakrakit.sources.pytorch.read import (
    Kineto,
    Observer,
    RankFiles,
    RankSpan,
    RecordingPair,
    check_together,
    find_pairs,
    identify,
    read_kineto,
    read_observer,
)
from chakrakit.sources.pytorch.two_passes import align_passes
from chakrakit.trace.communication import Binding, Body, Groups, positive_names
from chakrakit.trace.files import claimed
from chakrakit.trace.model import Trace
from chakrakit.trace.placement import on_device
from chakrakit.trace.sets import (
    CPU,
    LIKE_COMMUNICATION,
    RECORDED_DEVICE,
    Card,
    Run,
    recorded_step_of,
)


class TraceSpool:
    """Traces that workers linked, kept on disk until they are written: one is in memory at a time.

    The folder is removed when nothing refers to the spool any more; workers' copies do not remove it.
    """

    def __init__(self, parent: Path | None = None) -> None:
        if parent is not None:
            parent.mkdir(parents=True, exist_ok=True)
        owned = contextlib.ExitStack()
        beside = Path(parent or tempfile.gettempdir(), "linking")
        self.place = owned.enter_context(claimed(beside, folder=True, mode=0o700))
        weakref.finalize(self, owned.close)

    def __getstate__(self) -> dict[str, Path]:
        return {"place": self.place}

    def put(self, rank: int, trace: Trace) -> None:
        """Keep a rank's trace."""
        with (self.place / str(rank)).open("wb") as stream:
            pickle.dump(trace, stream, protocol=5)

    def get(self, rank: int) -> Trace:
        """The trace again: our own worker wrote it, in a folder that only we can enter."""
        with (self.place / str(rank)).open("rb") as stream:
            trace: Trace = pickle.load(stream)
        return trace


def merged_groups(ranks: Mapping[int, LinkedRank]) -> RecordedGroups:
    """The groups that any rank knows; if no rank knows any, see `_add_unnamed`."""
    out: RecordedGroups = {}
    for linked in ranks.values():
        for name, members in linked.groups.items():
            out.setdefault(name, members)
    _add_unnamed(ranks, out)
    return out


def _add_unnamed(ranks: Mapping[int, LinkedRank], groups: RecordedGroups) -> None:
    """Add groups if no file describes any: as calls list them, else by who uses each name, or one of all."""
    if groups:
        return  # a name that is not among them is a mistake that validation reports
    used: dict[str, set[int]] = {}
    listed: dict[str, tuple[int, ...]] = {}
    for rank, linked in ranks.items():
        for c in list_of(linked):
            if c.group is not None and c.group not in groups:
                used.setdefault(c.group, set()).add(rank)
                listed.setdefault(c.group, c.members)
    for name, callers in used.items():  # ranks by the names of files may be counted otherwise
        known = callers <= {*listed[name]}
        groups[name] = listed[name] if known else tuple(sorted(callers))
    if not groups and len(ranks) > 1:
        groups["0"] = tuple(sorted(ranks))


def _note_unlisted(ranks: Mapping[int, LinkedRank], groups: RecordedGroups) -> None:
    """Warn once of every group of which calls count more members than any file lists."""
    told: set[str] = set()
    for linked in ranks.values():
        sizes = {c.group: c.group_size for c in list_of(linked) if c.group in groups}
        for name, size in sizes.items():
            known = len(groups[name])
            if size > known and name not in told:
                told.add(name)
                linked.report.warnings.append(
                    f"group {name!r} has {size:,} ranks, and the recording lists {known:,} of them: its "
                    "communication is that of so many; link the files of all ranks together"
                )


def numbered_groups(ranks: Mapping[int, LinkedRank], groups: RecordedGroups) -> RecordedGroups:
    """The groups under names that every reader takes: simulators refuse a group 0, PyTorch's default."""
    names = positive_names(groups)
    for linked in ranks.values():
        for call in list_of(linked):
            call.group = names.get(call.group, call.group) if call.group is not None else None
    return {names[name]: members for name, members in groups.items()}


def resolve_groups(ranks: dict[int, LinkedRank], groups: RecordedGroups) -> dict[int, int]:
    """Groups and sequence numbers of all ranks; returns how many of each rank were inferred."""
    for rank, linked in ranks.items():
        _ddp_groups(linked)
        assign_groups(list_of(linked), groups, rank)
    infer_across_ranks({r: x.recorded for r, x in ranks.items()}, groups)
    for linked in ranks.values():
        name_peers(list_of(linked), groups)
        number_in_groups(list_of(linked))
    align_windows(
        {r: x.recorded for r, x in ranks.items()}, {r: x.base_ns for r, x in ranks.items()}
    )
    return {r: sum(c.inferred for c in list_of(x)) for r, x in ranks.items()}


def _ddp_groups(linked: LinkedRank) -> None:
    """DDP's reducer names no group; the collector's card says which one DDP uses."""
    names = linked.card.of_collector.get("ddp_groups") or []
    for c in list_of(linked) if len(names) == 1 else ():
        if c.group is None and not c.is_message:
            c.group, c.inferred = str(names[0]), True


_PER_BYTE = 2.5
"""Most memory linking takes, as a multiple of the uncompressed files."""
_WORTH_A_PROCESS = 64 << 20
"""Uncompressed bytes from which starting processes takes less time than they save."""
_COMPRESSION = 20
"""How many times smaller gzip makes recordings; an estimate, used only to plan memory."""
_JOINED = 0.5
"""Share of the observer's operators that Kineto's file must hold; else they are of different runs."""
_SAME = 0.9
"""Share of the observer's operators that a second recording must hold to be of the same program."""


@dataclass(frozen=True)
class LinkOptions:
    """How to link.

    times          Kineto files recorded without the observer: they give the times, by rank
    undilate       take out what recording cost the host even where nothing was measured and nothing
                   runs on a device; otherwise that is done by itself
    as_recorded    leave all times as they were recorded
    memory_bytes   how much the ranks linked side by side may take together
    jobs           most processes; 0 for as many as there are cores
    engine         where ranks are linked: `local`, or a cluster (see chakrakit.parallel); by default
                   in this process unless more are worth it
    spool          where workers leave what they linked until it is written: a path that all share
    kernels        which kernels are communication
    """

    times: tuple[Path, ...] = ()
    undilate: bool = False
    overhead: Overhead | None = None
    memory_bytes: int = 8 << 30
    jobs: int = 0
    engine: str | None = None
    spool: Path | None = None
    as_recorded: bool = False
    kernels: CommunicationKernels = KNOWN_KERNELS

    def __post_init__(self) -> None:
        if self.as_recorded and self.undilate:
            raise ConfigError("--as-recorded and --undilate exclude each other; give one of them")


class _Parts(NamedTuple):
    """The files, card and captures that one rank is linked from."""

    pair: RecordingPair
    card: RankCard
    captures: list[Capture]


def link(
    inputs: Iterable[str | Path], options: LinkOptions | None = None
) -> tuple[Run, LinkReport]:
    """Link all ranks found in files and directories; see `LinkOptions`."""
    return link_files(find_pairs([Path(p) for p in inputs]), options)


def link_files(files: RankFiles, options: LinkOptions | None = None) -> tuple[Run, LinkReport]:
    """Link ranks whose files are known."""
    link_options = options or LinkOptions()
    _take_times(files, link_options)
    ranks = _link_all(files.pairs, link_options)
    _note_unused(files, ranks)
    groups = merged_groups(ranks)
    _note_unlisted(ranks, groups)
    inferred = resolve_groups(ranks, groups)
    groups = numbered_groups(ranks, groups)
    clock = align_clocks({r: x.recorded for r, x in ranks.items()})
    run = _run(ranks, clock, groups)
    report = LinkReport(
        ranks=[_finished(ranks[r], clock, inferred) for r in sorted(ranks)],
        groups={name: list(members) for name, members in groups.items()},
        ignored_files=files.ignored,
        clock={"rule": clock.rule, "matched": clock.matched, "residual_skew_ns": clock.skew_ns},
        overhead=run.card.settings.get("undilate", {}),
        recording=recorded_step_of(run.card),
    )
    return run, report


def _take_times(files: RankFiles, options: LinkOptions) -> None:
    """Settle where each rank's times come from: the files given, else what lies beside its pair."""
    by_rank = _times_by_rank(options.times, files.pairs)
    for path in options.times:
        files.ignored.pop(str(path), None)
    for i, pair in enumerate(files.pairs):
        times = by_rank.get(pair.rank, None if options.as_recorded else pair.times)
        if pair.times is not None and pair.times != times and pair.times not in options.times:
            why = "--as-recorded keeps the times of the pair" if options.as_recorded else "--times"
            files.ignored[str(pair.times)] = f"a second recording, not needed: {why}"
        files.pairs[i] = replace(pair, times=times)


def _note_unused(files: RankFiles, ranks: Mapping[int, LinkedRank]) -> None:
    """Update the ignored files: not cards that were read, but second recordings that did not fit."""
    for pair in files.pairs:
        card = ranks[pair.rank].card
        if card.fields:
            files.ignored.pop(str(card.path), None)
        if pair.times is not None and str(pair.times) not in ranks[pair.rank].report.files:
            files.ignored[str(pair.times)] = "its operators are not those of the observer's file"


def _times_by_rank(times: Sequence[Path], pairs: list[RecordingPair]) -> dict[int, Path]:
    """Which times file is whose: by the rank inside, by process, else by order."""
    if not times:
        return {}
    if len(times) != len(pairs):
        raise ConfigError(f"{len(times)} times files for {len(pairs)} ranks; give one per rank")
    if len(pairs) == 1:
        return {pairs[0].rank: times[0]}
    by_rank = {s.rank: s.path for p in times if (s := identify(p)) is not None and s.rank >= 0}
    if set(by_rank) == {p.rank for p in pairs}:
        return by_rank
    return {pair.rank: path for pair, path in zip(pairs, times, strict=True)}


def _cost(options: LinkOptions, of_card: Overhead | None) -> Overhead | None:
    """What recording cost this rank: as given, as its card says, or by the default model."""
    if options.as_recorded:
        return None
    if options.overhead is not None:
        return options.overhead
    return of_card or Overhead()


def _link_all(pairs: list[RecordingPair], options: LinkOptions) -> dict[int, LinkedRank]:
    """Link all ranks, in this process or on workers if that is asked for or worth it."""
    sizes = [_size(p) for p in pairs]
    workers = workers_for(sizes, options)
    spool = None if workers is None else TraceSpool(options.spool)
    captures = _captures(pairs)
    parts = [
        _Parts(pair, card, [c for path in pair.captures for c in captures[path]])
        for pair, card in zip(pairs, cards_of(pairs), strict=True)
    ]
    linked_ranks = spread(partial(_link_one, options=options, spool=spool), parts, workers)
    ranks = {p.rank: linked for p, linked in zip(pairs, linked_ranks, strict=True)}
    if spool is not None:
        for rank, linked in ranks.items():
            linked.body = partial(spool.get, rank)  # and so the folder stays as long as the run
    return ranks


def _captures(pairs: list[RecordingPair]) -> dict[Path, list[Capture]]:
    """Graphs as they were captured, by file; ranks may share one."""
    holder = {path: pair for pair in pairs for path in pair.captures}
    return {
        path: captures_of(link_rank(0, None, read_kineto(pair.content(path), str(path))))
        for path, pair in holder.items()
    }


def workers_for(sizes: list[int], options: LinkOptions) -> Workers | None:
    """Workers for files of these sizes: as many as memory and cores allow; None to link in this process."""
    room = max(1, int(options.memory_bytes / (_PER_BYTE * max(sizes, default=1) + 1)))
    if options.engine not in (None, "local"):
        return Workers(str(options.engine), options.jobs or None)
    jobs = min(options.jobs or os.cpu_count() or 1, room, len(sizes))
    worth_it = jobs > 1 and sum(sizes) >= _WORTH_A_PROCESS
    return Workers("local", jobs) if worth_it or options.engine else None


def _size(pair: RecordingPair) -> int:
    """Uncompressed bytes, or a guess where the files are compressed."""
    paths = [*pair.paths, *([pair.times] if pair.times else [])]
    return sum(
        p.stat().st_size * (_COMPRESSION if p.suffix == ".gz" else 1) for p in paths if p.exists()
    )


def _link_one(parts: _Parts, options: LinkOptions, spool: TraceSpool | None) -> LinkedRank:
    """One rank; errors name its file."""
    try:
        return _linked(parts, options, spool)
    except FormatError as error:
        raise FormatError(
            error.problem, path=error.path or str(parts.pair.paths[0]), offset=error.offset
        ) from None


def _linked(parts: _Parts, options: LinkOptions, spool: TraceSpool | None) -> LinkedRank:
    linked, facts, files = _read_and_link(parts, options)
    pair = parts.pair
    line = linked.line
    if not len(line):
        raise TraceError(f"{pair.paths[0]} holds no operator; record at least one step")
    epoch = int(line.start.min())
    rows = [c.row for c in linked.collectives]
    kineto = linked.kineto
    generated = parts.card.of_collector.get("generated")
    trace = to_trace(linked, epoch, generated if isinstance(generated, dict) else None)
    if spool is not None:
        spool.put(pair.rank, trace)
    return LinkedRank(
        body=trace if spool is None else partial(spool.get, pair.rank),
        report=report_rank(linked, files),
        recorded=RankCollectives(
            linked.collectives, line.start[rows].tolist(), line.end[rows].tolist(), _host(linked)
        ),
        groups=groups_of(linked.observer, kineto, 0),
        epoch=epoch,
        base_ns=kineto.base_ns if kineto is not None else 0,
        facts=facts,
        card=parts.card,
        device=_device(linked, trace),
    )


def _read_and_link(sources: _Parts, options: LinkOptions) -> tuple[Rank, RankRecording, list[str]]:
    """One rank, with recording's cost scaled to the un-recorded step where one was timed."""
    pair, of_card = sources.pair, overhead_of(sources.card)
    observer, kineto, joined = _read_pair(pair, required=bool(options.times))
    cost = _cost(options, of_card)
    if cost is not None and not _applies(cost, options, pair, kineto):
        cost = None

    parts = rank_parts(pair.rank, observer, kineto, joined, sources.captures, options.kernels)
    cost = cost and parts.cost(cost)

    def linked_with(factor: float) -> Rank:
        return parts.linked(cost and cost.scaled(factor))

    linked = linked_with(1.0)
    if joined is None:
        _check_joined(linked, pair)
    if cost is not None and cost.step_ns and (now := steady_period(linked)):
        factor = fit(lambda f: steady_period(linked_with(f)), cost.step_ns, now)
        linked = replace(linked_with(factor), overhead_factor=factor)
    linked = parts.with_graphs(linked)
    second = [] if joined is None or pair.times is None else [str(pair.times)]
    facts = RankRecording(cost, of_card.step_ns if of_card else 0, bool(second))
    if cost is not None and options.overhead is None and len(linked.device.rows):
        least, most = _host_percent(parts, cost)
        facts = facts._replace(least_host_percent=least, most_host_percent=most)
    if (
        cost is not None
        and not cost.step_ns
        and options.overhead is None
        and len(linked.device.rows)
    ):
        slow, fast = (steady_period(parts.linked(c)) for c in least_and_most(cost, parts.observed))
        facts = facts._replace(least_ns=fast, most_ns=slow, device_ns=device_time(linked))
    return linked, facts, [*map(str, pair.paths), *second]


def _host_percent(parts: RankParts, cost: Overhead) -> tuple[int, int]:
    """Between which shares of its corrected time the host's lies, by how far recording's cost is known.

    A step that the device bounds does not tell, however well it was timed without recording.
    """
    slow, fast = (parts.host_ns(c) for c in least_and_most(cost, parts.observed))
    corrected = parts.host_ns(cost)
    return (round(100 * fast / corrected), round(100 * slow / corrected)) if corrected else (0, 0)


def _applies(
    cost: Overhead, options: LinkOptions, pair: RecordingPair, kineto: Kineto | None
) -> bool:
    """Whether a cost can be taken out: the default model holds only for Kineto with a device."""
    if kineto is None:
        return False
    if cost.measured or cost.step_ns or options.undilate or options.overhead is not None:
        return True
    return pair.events is None and bool(kineto.is_device.any())


def _read_pair(
    pair: RecordingPair, required: bool
) -> tuple[Observer | None, Kineto | None, Join | None]:
    """The files' contents, and how they belong together where that is not by their own numbers.

    A second recording that is `required` is used as it is; one that was only found beside the
    pair must hold the observer's operators.
    """
    observer = kineto = None
    if pair.observer is not None:
        observer = read_observer(pair.content(pair.observer), str(pair.observer))
    if pair.times is not None:
        if observer is None:
            raise ConfigError(f"--times {pair.times} needs an observer file to give it structure")
        kineto = read_kineto(pair.content(pair.times), str(pair.times))
        joined = align_passes(observer, kineto)
        if required or _same_program(observer, joined):
            return observer, kineto, joined
    kineto = pair.events
    if kineto is None and pair.kineto is not None:
        kineto = read_kineto(pair.content(pair.kineto), str(pair.kineto))
    if kineto is not None and not len(kineto):
        raise FormatError(
            "holds no event with a start and a duration; record at least one step, or link the others "
            "without it",
            path=str(pair.kineto),
        )
    return observer, kineto, None


def _same_program(observer: Observer, joined: Join) -> bool:
    matched = int((joined.event_of >= 0).sum())
    return matched >= _SAME * int(observer.is_operator.sum())


def _check_joined(linked: Rank, pair: RecordingPair) -> None:
    if linked.observer is None or linked.kineto is None:
        return
    operators = int(linked.observer.is_operator.sum())
    matched = sum(linked.joined.rules.values())
    cut = linked.observer.truncated or linked.kineto.truncated
    if matched < _JOINED * operators and not cut:
        raise FormatError(
            f"only {matched:,} of {operators:,} operators are in {pair.kineto}: the files are not of "
            "the same rank and steps; give both files of one recording",
            path=str(pair.observer),
        )


def _host(linked: Rank) -> str:
    return linked.kineto.host_name if linked.kineto is not None else ""


def _device(linked: Rank, trace: Trace) -> str:
    """What computed: the accelerator that the profiler names, or `cpu` where no row ran on one."""
    if not on_device(trace).any():
        return CPU
    devices = linked.kineto.devices if linked.kineto is not None else []
    return next((str(d["name"]) for d in devices if d.get("name")), "")


def _recorded_on(ranks: Mapping[int, LinkedRank]) -> dict[str, Any]:
    """The device of the first rank that says, for the card; {} where none does."""
    named = [x.device for _, x in sorted(ranks.items()) if x.device]
    return {RECORDED_DEVICE: named[0]} if named else {}


def _collector(ranks: Mapping[int, LinkedRank]) -> dict[str, Any]:
    """Machine and versions from the collector's card of the first rank; {} without one."""
    fields = ranks[min(ranks)].card.of_collector
    names = ("torch", "python", "host", "device", "steps", "settings")
    facts = {k: fields[k] for k in names if k in fields}
    return {"collector": facts} if facts else {}


def _undecided(ranks: Mapping[int, LinkedRank]) -> dict[str, Any]:
    """Kernels that look like communication and are counted as computation, by name; {} without any."""
    counts = Counter[str]()
    for linked in ranks.values():
        counts.update(linked.report.like_communication)
    return {LIKE_COMMUNICATION: dict(counts)} if counts else {}


def _run(ranks: Mapping[int, LinkedRank], clock: ClockOffsets, groups: RecordedGroups) -> Run:
    begin = {r: x.base_ns + x.epoch + clock.offset[r] for r, x in ranks.items()}
    epoch = min(begin.values())
    shift = {r: at - epoch for r, at in begin.items()}
    check_together([_span(x.report, shift[r]) for r, x in ranks.items()])
    times = _meeting_times(ranks, shift)
    bodies = [_body(ranks[r], r, shift[r], times.get(r)) for r in sorted(ranks)]
    bindings = {r: Binding(i) for i, r in enumerate(sorted(ranks))}
    cost = next((x.facts.cost for x in ranks.values() if x.facts.cost is not None), None)
    undilate = {"undilate": asdict(cost)} if cost is not None else {}
    card = Card(
        tool="chakra link",
        source=[f for r in sorted(ranks) for f in ranks[r].report.files],
        settings={**undilate, **_recorded_on(ranks), **_collector(ranks), **_undecided(ranks)},
        epoch_ns=epoch,
    )
    linked = Run(bodies, bindings, Groups(groups), card)
    facts = recording({r: (x.facts, x.report) for r, x in ranks.items()}, linked if times else None)
    return linked.with_card(facts.put(linked.card))


def _span(report: RankReport, begin: int) -> RankSpan:
    return RankSpan(report.files[0], begin, begin + report.measured_span_ns)


def _meeting_times(
    ranks: Mapping[int, LinkedRank], shift: Mapping[int, int]
) -> dict[int, tuple[I64, I64]]:
    """Corrected times of all ranks together; {} if no times were corrected."""
    if len(ranks) < 2 or all(x.facts.cost is None for x in ranks.values()):
        return {}
    bodies = {r: x.body for r, x in ranks.items()}
    recorded = {r: x.recorded for r, x in ranks.items()}
    return meet(bodies, recorded, shift, {r: x.epoch for r, x in ranks.items()})


def _body(linked: LinkedRank, rank: int, shift: int, times: tuple[I64, I64] | None) -> Body:
    if isinstance(linked.body, Trace):
        return _joined_trace(linked.body, list_of(linked), rank, shift, times)
    return partial(_joined_trace, linked.body, list_of(linked), rank, shift, times)


def _joined_trace(
    body: Body, collectives: list[Any], rank: int, shift: int, times: tuple[I64, I64] | None
) -> Trace:
    """A rank's trace with what only all ranks together could tell: groups, numbers, one clock."""
    trace = body if isinstance(body, Trace) else body()
    changed = communication_columns(len(trace), rank, collectives) if collectives else {}
    if times is not None:
        changed |= time_columns(trace, *times)
    elif shift:
        start = trace.start_ns + shift
        changed |= {"start_time_ns": start, "start_time_micros": (start // 1000).astype(np.uint64)}
    return trace.with_columns(changed)


def _finished(linked: LinkedRank, clock: ClockOffsets, inferred: Mapping[int, int]) -> RankReport:
    report = linked.report
    report.clock_offset_ns = clock.offset[report.rank]
    if inferred[report.rank]:
        report.inferred = {"groups": inferred[report.rank]}
    return report
