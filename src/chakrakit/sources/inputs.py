"""`link`: recordings of any kind in, one Run and a report out.

What a file is follows from its first bytes, never from its name.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import pyarrow as pa

from chakrakit.errors import ConfigError, FormatError
from chakrakit.parallel import spread
from chakrakit.sources.calls import (
    CallRecording,
    Inspected,
    RecordedCalls,
    RecordedGroup,
    is_dump,
    is_inspector,
    link_calls,
    read_dump,
    read_inspector,
)
from chakrakit.sources.forward_passes import UNWRITTEN, is_forward_passes
from chakrakit.sources.forward_passes import read_processes as read_forward_passes
from chakrakit.sources.holes import longest_hole
from chakrakit.sources.nsys import is_export, is_parquet_export
from chakrakit.sources.nsys import read_processes as read_nsys
from chakrakit.sources.perfetto import is_perfetto
from chakrakit.sources.perfetto import read_processes as read_perfetto
from chakrakit.sources.pytorch.linking import LinkOptions, LinkReport, link_files, workers_for
from chakrakit.sources.pytorch.read import (
    Kineto,
    RankFiles,
    RecordingPair,
    SourceFile,
    identify_head,
    pairs_of,
    rank_in_name,
    read_bytes,
    read_head,
)
from chakrakit.sources.rocpd import is_rocpd
from chakrakit.sources.rocpd import read_processes as read_rocpd
from chakrakit.sources.rocprof import is_rocprof
from chakrakit.sources.rocprof import read_processes as read_rocprof
from chakrakit.sources.snapshots import History, is_snapshot, memory_table, read_snapshot
from chakrakit.sources.tables import PARQUET
from chakrakit.sources.unread import cure_for
from chakrakit.sources.xla import Module, is_hlo, is_xplane, parse_hlo, read_devices
from chakrakit.trace.sets import RecordedStep, Run, as_recorded, recorded_step_of
from chakrakit.trace.validation import disagreements

_DAY_NS = 86_400 * 10**9
_SAME_JOB_NS = _DAY_NS
"""A history may end before the recorded steps begin, where those take no new memory, but not days before."""


class RecordingKind(StrEnum):
    """The recordings that can be linked."""

    PYTORCH = "PyTorch's observer or Kineto"
    NSYS = "Nsight Systems"
    ROCPD = "rocpd"
    ROCPROF = "rocprofv3"
    PERFETTO = "rocprofv3's Perfetto trace"
    FLIGHT_RECORDER = "flight recorder"
    NCCL_INSPECTOR = "NCCL Inspector"
    XPLANE = "XLA's profiler"
    FORWARD_PASSES = "Dynamo's forward passes"
    HLO = "an HLO module"
    SNAPSHOT = "a memory snapshot"


class Recognised(NamedTuple):
    """A file, plain or gzipped, as its first bytes show it."""

    path: Path
    format: RecordingKind | None
    """None if the file is not a recording."""
    pytorch: SourceFile | None = None
    """For PyTorch's files, the process and rank that the first bytes name."""
    cure: str | None = None
    """For a file that is known and not read, what to give in its place."""


def recognise(path: Path) -> Recognised:
    """The format of a file, from its first bytes."""
    try:
        head = read_head(path)
    except zlib.error:
        return Recognised(path, None)
    if cure := cure_for(path, head):
        return Recognised(path, None, cure=cure)
    format = next((r.format for r in RECORDINGS if r.recognises(head)), None)
    if head.startswith(PARQUET) and is_parquet_export(path.parent):
        format = RecordingKind.NSYS
    source = identify_head(path, head) if format == RecordingKind.PYTORCH else None
    return Recognised(path, format, source)


Linked = tuple[Run, LinkReport]
Linker = Callable[[list[Recognised], dict[str, str], LinkOptions], Linked]
"""Files of one format, those that were passed over with the reason, and how to link."""
Item = TypeVar("Item")


def link(inputs: Iterable[str | Path], options: LinkOptions | None = None) -> Linked:
    """Link recordings of all ranks into a Run.

    `inputs` are files and directories: PyTorch's observer and Kineto files, Nsight Systems' exports
    (SQLite, or a folder of Parquet files), rocprofv3's databases (rocpd), JSON and Perfetto traces, XLA's
    profiles (`xplane.pb`, with HLO modules beside them), PyTorch's flight recorder dumps, NCCL Inspector's
    lines, Dynamo's forward passes; plain or gzipped, recognised by their content. See
    `LinkOptions`. Returns the Run and a report of what was matched, inferred and left out.
    """
    link_options = options or LinkOptions()
    files = [recognise(path) for path in files_of([Path(p) for p in inputs])]
    by_format, ignored = _sorted(files)
    if not by_format:
        refuse_unread(files)
        raise FormatError(
            "no recording among the inputs; give files that PyTorch's profiler or flight recorder, "
            "Nsight Systems, rocprofv3, NCCL Inspector or Dynamo wrote",
            path=", ".join(map(str, inputs)) or None,
        )
    kind = _one_kind(by_format, ignored)
    programs = by_format.get(RecordingKind.HLO, []) if kind == RecordingKind.XPLANE else []
    run, report = _linker(kind)([*by_format[kind], *programs], ignored, link_options)
    if RecordingKind.SNAPSHOT in by_format:
        run = _with_memory(run, _paths(by_format[RecordingKind.SNAPSHOT]))
    return _doubted(run, report)


def refuse_unread(files: Sequence[Recognised]) -> None:
    """Of files that are no recordings, say of the first that is known what to give in its place."""
    for file in files:
        if file.cure is not None:
            raise FormatError(file.cure, path=str(file.path))


def _doubted(run: Run, report: LinkReport) -> Linked:
    """The run and its report, both with a word where the recording contradicts itself or has a long hole."""
    found = [f"{f.code}: {f.message}" for f in disagreements(run)]
    hole = longest_hole(run)
    if not found and not hole:
        return run, report
    return _with_step(run, report, disagreements=found, hole=hole)


def _with_step(run: Run, report: LinkReport, **known: Any) -> Linked:
    """The run and its report, with `known` written into the recorded step of both."""
    step = msgspec.structs.replace(recorded_step_of(run.card) or RecordedStep(), **known)
    return run.with_card(step.put(run.card)), msgspec.structs.replace(report, recording=step)


def _with_memory(run: Run, paths: list[Path]) -> Run:
    """The run with the allocator's histories as counters: of the rank in a file's name, else in order."""
    histories = [
        (path, history) for path in paths for history in read_snapshot(read_bytes(path), str(path))
    ]
    ranks_in_names = [rank_in_name(path) for path, _ in histories]
    by_name = len(set(ranks_in_names)) == len(ranks_in_names) and set(ranks_in_names) <= set(
        run.ranks
    )
    ranks = ranks_in_names if by_name else run.ranks
    if len(ranks) < len(histories):
        raise FormatError(
            f"{len(histories)} memory histories for {len(run.ranks)} ranks; give one for each rank",
            path=str(paths[0]),
        )
    for path, history in histories:
        _check_same_time(history, run, path)
    joined = {rank: history for rank, (_, history) in zip(ranks, histories, strict=False)}
    settings = as_recorded(run.card.settings)
    step = recorded_step_of(run.card)
    pace = step.step_ns / step.recorded_step_ns if step and step.recorded_step_ns else 1.0
    table = pa.table(memory_table(joined, run.epoch_ns, pace))
    return run.with_counters({"memory": table}).with_card(run.card.replace(settings=settings))


def _check_same_time(history: History, run: Run, path: Path) -> None:
    """Raises an error where a history was over long before the run, or began long after it."""
    end = run.epoch_ns + run.makespan_ns
    apart = max(run.epoch_ns - int(history.time.max()), int(history.time.min()) - end)
    if apart > _SAME_JOB_NS:
        raise FormatError(
            f"its memory history is {apart / _DAY_NS:,.0f} days away from the recording; give the snapshot "
            "of the same run, or link without it",
            path=str(path),
        )


def files_of(inputs: Sequence[Path]) -> list[Path]:
    """The files among these paths and in folders of them, hidden ones left out."""
    out: list[Path] = []
    for path in inputs:
        if path.is_dir():
            out += sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith("."))
        elif path.exists():
            out.append(path)
        else:
            raise FormatError("does not exist; give a file or a directory", path=str(path))
    return list(dict.fromkeys(out))


def _sorted(
    files: list[Recognised],
) -> tuple[dict[RecordingKind, list[Recognised]], dict[str, str]]:
    """Files by format, and those that are passed over with the reason why."""
    by_format: dict[RecordingKind, list[Recognised]] = {}
    ignored: dict[str, str] = {}
    for file in files:
        if file.format is None:
            ignored[str(file.path)] = file.cure or "not a recording of a known kind"
        else:
            by_format.setdefault(file.format, []).append(file)
    return by_format, ignored


_FULLNESS = (
    RecordingKind.PYTORCH,
    RecordingKind.NSYS,
    RecordingKind.ROCPD,
    RecordingKind.ROCPROF,
    RecordingKind.PERFETTO,
    RecordingKind.XPLANE,
    RecordingKind.FORWARD_PASSES,
    RecordingKind.FLIGHT_RECORDER,
    RecordingKind.NCCL_INSPECTOR,
)
"""Formats by how much they record: of recordings of several formats, only those of the first are linked."""


def _one_kind(
    by_format: dict[RecordingKind, list[Recognised]], ignored: dict[str, str]
) -> RecordingKind:
    kind = next((k for k in _FULLNESS if k in by_format), None)
    if kind is None:
        raise FormatError(
            "HLO modules and memory snapshots have no times of operators; give the recording of a run too",
            path=", ".join(str(f.path) for files in by_format.values() for f in files),
        )
    helps = {RecordingKind.SNAPSHOT} | (
        {RecordingKind.HLO} if kind == RecordingKind.XPLANE else set()
    )
    for format, files in by_format.items():
        if format != kind and format not in helps:
            ignored |= {str(f.path): f"{format}: link it apart from {kind}" for f in files}
    return kind


def _paths(files: list[Recognised]) -> list[Path]:
    return [file.path for file in files]


def _linker(format: RecordingKind) -> Linker:
    return next(r.link for r in RECORDINGS if r.format == format and r.link is not None)


def _pytorch(files: list[Recognised], ignored: dict[str, str], options: LinkOptions) -> Linked:
    sources = [file.pytorch for file in files if file.pytorch is not None]
    return link_files(pairs_of(sources, ignored), options)


def _processes(read: Callable[[Path], list[Kineto]]) -> Linker:
    """Links the processes that a reader finds in each file."""

    def linked(files: list[Recognised], ignored: dict[str, str], options: LinkOptions) -> Linked:
        return _activities(_events(read, _paths(files), options), ignored, options)

    return linked


def _nsys(files: list[Recognised], ignored: dict[str, str], options: LinkOptions) -> Linked:
    """Exports are SQLite files, or folders in which every table is a Parquet file."""
    exports = [p.parent if p.suffix == ".parquet" else p for p in _paths(files)]
    return _activities(_events(read_nsys, list(dict.fromkeys(exports)), options), ignored, options)


def _rocprof_processes(path: Path) -> list[Kineto]:
    return read_rocprof(read_bytes(path), str(path))


def _forward_processes(path: Path) -> list[Kineto]:
    return read_forward_passes(read_bytes(path), str(path))


def _forward_passes(
    files: list[Recognised], ignored: dict[str, str], options: LinkOptions
) -> Linked:
    """Link passes; the card says how many were not written."""
    recorded = _events(_forward_processes, _paths(files), options)
    run, report = _activities(recorded, ignored, options)
    unwritten = sum(kineto.left_out.get(UNWRITTEN, 0) for _, kineto in recorded)
    return _with_step(run, report, unwritten_steps=unwritten) if unwritten else (run, report)


def _perfetto_processes(path: Path) -> list[Kineto]:
    return read_perfetto(read_bytes(path), str(path))


def _profiles(files: list[Recognised], ignored: dict[str, str], options: LinkOptions) -> Linked:
    """Link XLA's profiles, one rank per device; HLO files are used where a profile holds no modules."""
    programs = _paths([file for file in files if file.format == RecordingKind.HLO])
    modules = [parse_hlo(read_bytes(p), str(p)) for p in programs]
    profiles = _paths([file for file in files if file.format != RecordingKind.HLO])
    numbered = _events(partial(_profiled_devices, modules=modules), profiles, options)
    devices = [device for _, (device, _) in numbered]
    ranks = devices if len(set(devices)) == len(devices) else list(range(len(devices)))
    return _activities([(path, kineto) for path, (_, kineto) in numbered], ignored, options, ranks)


def _profiled_devices(path: Path, modules: list[Module]) -> list[tuple[int, Kineto]]:
    return list(read_devices(read_bytes(path), str(path), modules).items())


def _events(
    read: Callable[[Path], list[Item]], paths: list[Path], options: LinkOptions
) -> list[tuple[Path, Item]]:
    """Every process or device of every file, each with its file's path; a file is read once."""
    if options.times:
        raise ConfigError("--times goes with PyTorch's observer files; these recordings have times")
    workers = workers_for([_size(path) for path in paths], options)
    read_files = zip(paths, spread(read, paths, workers), strict=True)
    return [(path, item) for path, items in read_files for item in items]


def _size(path: Path) -> int:
    return sum(p.stat().st_size for p in (path.iterdir() if path.is_dir() else [path]))


def _activities(
    recorded: Sequence[tuple[Path, Kineto]],
    ignored: dict[str, str],
    options: LinkOptions,
    numbers: Sequence[int] | None = None,
) -> Linked:
    """Link processes as ranks: by `numbers`, else by the rank in each file's name, else in order."""
    if not recorded:
        raise FormatError("no process in these recordings did anything; there is nothing to link")
    ranks_in_names = [rank_in_name(path) for path, _ in recorded]
    by_name = len(set(ranks_in_names)) == len(ranks_in_names) > 1 and min(ranks_in_names) >= 0
    ranks = numbers or (ranks_in_names if by_name else range(len(recorded)))
    pairs = [
        RecordingPair(rank, None, path, events=kineto)
        for rank, (path, kineto) in zip(ranks, recorded, strict=True)
    ]
    return link_files(RankFiles(sorted(pairs, key=lambda p: p.rank), ignored), options)


def _dumps(files: list[Recognised], ignored: dict[str, str], options: LinkOptions) -> Linked:
    def recordings() -> Iterable[CallRecording]:
        for place, path in enumerate(_paths(files)):
            calls = read_dump(read_bytes(path), str(path))
            rank = calls.rank if calls.rank >= 0 else _last_number(path)
            yield CallRecording(rank if rank >= 0 else place, str(path), calls)

    return link_calls(recordings(), RecordingKind.FLIGHT_RECORDER, ignored)


def _last_number(path: Path) -> int:
    """The rank in a dump's name, which ends in it: `nccl_trace_rank_7`, `dump7.json`."""
    numbers = re.findall(r"\d+", path.name.split(".json")[0].split(".pkl")[0].split(".pickle")[0])
    return int(numbers[-1]) if numbers else -1


def _inspectors(files: list[Recognised], ignored: dict[str, str], options: LinkOptions) -> Linked:
    processes = {str(p): read_inspector(read_bytes(p), str(p)) for p in _paths(files)}
    ranks = _inspected_ranks(processes)
    members = _members(processes, ranks)
    recordings = [
        CallRecording(ranks[path], path, _with_members(inspected.calls, members))
        for path, inspected in processes.items()
    ]
    return link_calls(recordings, RecordingKind.NCCL_INSPECTOR, ignored)


def _inspected_ranks(processes: dict[str, Inspected]) -> dict[str, int]:
    """A process' rank is its place in the largest communicator if all are in it, else its order."""
    size: dict[str, int] = {}
    for inspected in processes.values():
        size |= {name: ranks for name, (_, ranks) in inspected.places.items()}
    largest = max(size, key=lambda name: size[name])
    numbers = [inspected.places.get(largest, (-1, 0))[0] for inspected in processes.values()]
    if min(numbers) < 0 or len(set(numbers)) < len(numbers):
        numbers = list(range(len(processes)))
    return dict(zip(processes, numbers, strict=True))


def _members(processes: dict[str, Inspected], ranks: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """The members of each communicator, collected from all processes that name it."""
    places: dict[str, dict[int, int]] = {}
    for path, inspected in processes.items():
        for name, (place, _) in inspected.places.items():
            places.setdefault(name, {})[place] = ranks[path]
    return {name: tuple(rank_at[i] for i in sorted(rank_at)) for name, rank_at in places.items()}


def _with_members(calls: RecordedCalls, members: dict[str, tuple[int, ...]]) -> RecordedCalls:
    groups = [RecordedGroup(g.name, g.description, members.get(g.name, ())) for g in calls.groups]
    return replace(calls, groups=groups)


class RecordingFormat(NamedTuple):
    """A format of recordings: how it is recognised by its first bytes, and how its files are linked."""

    format: RecordingKind
    recognises: Callable[[bytes], bool]
    link: Linker | None = None
    """None for files that only help with recordings of other formats."""


def _is_pytorch(head: bytes) -> bool:
    return identify_head(Path(), head) is not None


RECORDINGS = (
    RecordingFormat(RecordingKind.ROCPD, is_rocpd, _processes(read_rocpd)),
    RecordingFormat(RecordingKind.NSYS, is_export, _nsys),
    RecordingFormat(RecordingKind.ROCPROF, is_rocprof, _processes(_rocprof_processes)),
    RecordingFormat(RecordingKind.NCCL_INSPECTOR, is_inspector, _inspectors),
    RecordingFormat(RecordingKind.FORWARD_PASSES, is_forward_passes, _forward_passes),
    RecordingFormat(RecordingKind.PYTORCH, _is_pytorch, _pytorch),
    RecordingFormat(RecordingKind.SNAPSHOT, is_snapshot),
    RecordingFormat(RecordingKind.FLIGHT_RECORDER, is_dump, _dumps),
    RecordingFormat(RecordingKind.XPLANE, is_xplane, _profiles),
    RecordingFormat(RecordingKind.PERFETTO, is_perfetto, _processes(_perfetto_processes)),
    RecordingFormat(RecordingKind.HLO, is_hlo),
)
"""The registry of recordings, in the order in which they are tried: formats that could be mistaken for others
come last (Kineto lists process groups under the same key as the flight recorder; rocpd and Nsight's exports
are both SQLite).
"""
