"""The directory form of a TraceSet or Run: bodies once, and small tables of what differs.

NAME.N.et       the bodies (or .parquet); N is the lowest rank that runs the body
ranks.parquet   rank, body, groups, peers, scale, timing; absent when every rank has its own body
groups.json     {"1": [0, 1], …}
card.json       who made it, and how
times/          N.parquet, one file per timing class: start, end and what each node waited for
counters/       NAME.parquet
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from chakrakit.errors import ChakraError, FormatError, TraceError
from chakrakit.trace.codecs import read_trace, write_trace
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.files import (
    claimed,
    followed,
    read_parquet,
    remove_empty,
    replacing,
    take_place,
)
from chakrakit.trace.sets import (
    SCHEMAS,
    Card,
    Counters,
    Run,
    Times,
    TraceSet,
    check_length,
    read_card,
    write_card,
)
from chakrakit.trace.storage.places import RANKED, Place, files_in, groups_beside, prefix_of

_RANKS = pa.schema(
    {
        "rank": pa.int64(),
        "body": pa.int64(),
        "groups": pa.map_(pa.string(), pa.string()),
        "peers": pa.map_(pa.int64(), pa.int64()),
        "scale": pa.float64(),
        "timing": pa.int64(),
    }
)
_TIMES = {
    "start": pa.int64(),
    "end": pa.int64(),
    "binding_row": pa.int32(),
    "binding_rank": pa.int32(),
    "reason": pa.int8(),
}
_COUNTERS = "counters"
_TIMES_FILE = re.compile(r"\d+\.parquet")
_OURS = {"ranks.parquet", "requests.parquet", "groups.json", "card.json", "times", "counters"}

Opened = Callable[[Mapping[int, Place], Groups, Card | None], TraceSet]


# --- reading ------------------------------------------------------------------------------------


def read_directory(folder: Place, files: Mapping[int, Place], plain: Opened) -> TraceSet:
    """The set in a directory with these bodies; `plain` makes one where each rank has its own."""
    groups = groups_beside(folder, prefix_of(next(iter(files.values()))))
    card = read_card(folder / "card.json") if (folder / "card.json").is_file() else None
    table = folder / "ranks.parquet"
    if not table.is_file():
        return _with_times(plain(files, groups, card), folder, None)
    ranks = read_table(table, _RANKS)
    if not ranks.num_rows:
        raise FormatError("lists no ranks", path=str(table))
    count = ranks.num_rows
    _give_back(count)
    with _blamed(table):
        bindings = _bindings(ranks, {rank: i for i, rank in enumerate(files)})
        ranks = ranks.select(["rank", "timing"]) if _tables(folder / "times") else None
        _give_back(count)
        kind = Run if card is not None and card.kind == "run" else TraceSet
        traces = kind([partial(read_trace, f) for f in files.values()], bindings, groups, card)
    return _with_times(traces, folder, ranks)


_MANY_RANKS = 1 << 16
"""With fewer ranks there is little to give back: some 60 MB of a million, 4 MB of these."""


def _give_back(ranks: int) -> None:
    """Returns what Arrow took to read so many ranks and no longer needs, a fifth of all for a million."""
    if ranks >= _MANY_RANKS:
        pa.default_memory_pool().release_unused()


def _bindings(ranks: pa.Table, order: Mapping[int, int]) -> dict[int, Binding]:
    """The binding of each rank; ranks that differ in nothing share one, since there may be a million."""
    bindings: dict[int, Binding] = {}
    shared: dict[tuple[Any, ...], Binding] = {}
    for rank, body, groups, peers, scale in _rows(ranks):
        if body not in order:
            raise TraceError(f"rank {rank} runs body {body}, which is not there")
        if rank in bindings:
            raise TraceError(f"rank {rank} is there twice")
        key = (body, tuple(groups), tuple(peers), scale)
        if key not in shared:
            shared[key] = Binding(order[body], dict(groups), dict(peers), scale)
        bindings[rank] = shared[key]
    return bindings


def _rows(ranks: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Rank, body, groups, peers and scale of each row; some at a time, since there may be a million."""
    for part in ranks.to_batches(max_chunksize=1 << 16):
        columns = (part.column(n) for n in ("rank", "body", "groups", "peers", "scale"))
        yield from zip(*map(_values, columns), strict=True)


def _values(column: pa.Array) -> list[Any]:
    """A column as a list; maps that are all empty, as those of plain ranks, are not looked at one by one."""
    if pa.types.is_map(column.type) and not len(column.keys):
        return [()] * len(column)
    return column.to_pylist()  # type: ignore[no-any-return]


def _with_times(traces: TraceSet, folder: Place, ranks: pa.Table | None) -> TraceSet:
    """Adds `times/` and `counters/` where the directory has them."""
    files = sorted(_tables(folder / "times"), key=lambda f: (len(f.stem), f.stem))
    with _blamed(folder / "counters"):
        counters = Counters({f.stem: read_table(f) for f in _tables(folder / "counters")})
    if not files:
        return traces.with_counters(counters) if isinstance(traces, Run) else traces
    if [f.stem for f in files] != [str(i) for i in range(len(files))]:
        raise FormatError("should hold 0.parquet, 1.parquet, …", path=str(folder / "times"))
    timing = None
    if ranks is not None:
        timing = dict(zip(ranks["rank"].to_pylist(), ranks["timing"].to_pylist(), strict=True))
    with _blamed(folder):
        return Run(
            traces.bodies,
            traces.bindings,
            traces.groups,
            traces.card,
            times=[_times(f) for f in files],
            timing=timing,
            counters=counters,
        )


def _tables(folder: Place) -> list[Place]:
    return [f for f in files_in(folder) if f.name.endswith(".parquet")]


def _times(file: Place) -> Times:
    table = read_table(file)
    names = [n for n in _TIMES if n in table.column_names or n in ("start", "end")]
    typed = _with_schema(table, pa.schema([(n, _TIMES[n]) for n in names]), file)
    return Times(**{n: typed.column(n).to_numpy() for n in names})


def read_table(file: Place, schema: pa.Schema | None = None) -> pa.Table:
    """A Parquet file; with a schema, exactly its columns in their types and without nulls."""
    with _read_as_parquet(file), file.open("rb") as stream:
        table = read_parquet(stream, str(file), "Parquet table")
    return table if schema is None else _with_schema(table, schema, file)


def _with_schema(table: pa.Table, schema: pa.Schema, file: Place) -> pa.Table:
    """The columns of a schema in their types, none of them absent or with nulls."""
    for name in schema.names:
        if name not in table.column_names:
            raise FormatError(f"has no column {name!r}", path=str(file))
        if table.column(name).null_count:
            raise FormatError(f"has nulls in column {name!r}", path=str(file))
    with _read_as_parquet(file):
        return table.select(schema.names).cast(schema)


@contextlib.contextmanager
def _read_as_parquet(file: Place) -> Iterator[None]:
    """Turns Arrow's errors into a FormatError that names the file."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FormatError(f"not the Parquet table it should be: {reason}", path=str(file)) from None


@contextlib.contextmanager
def _blamed(path: object) -> Iterator[None]:
    """Turns a TraceError about the content into a FormatError that names its place."""
    try:
        yield
    except TraceError as error:
        raise FormatError(str(error), path=str(path)) from None


# --- writing ------------------------------------------------------------------------------------


def write_directory(
    traces: TraceSet,
    target: Path,
    step: Callable[[int], Any] = lambda _rank: None,
    requests: pa.Table | None = None,
) -> None:
    """Writes a directory, which appears whole or not at all; calls `step` with each body's rank.

    A run that served requests has their table beside it.
    """
    check_directory(target)
    with fresh_directory(target) as folder:
        fill_directory(traces, folder, traces.card, step)
        if requests is not None:
            _write_table(requests, folder / "requests.parquet")


def write_directories(sets: Mapping[str, TraceSet], target: Path) -> None:
    """Writes several sets as directories of one folder, which appears whole and holds nothing else."""
    existing = sorted(f.name for f in target.iterdir()) if target.is_dir() else []
    foreign = [name for name in existing if name not in sets]
    if foreign:
        raise ChakraError(f"{target}: holds other things ({foreign[0]}); give a new name")
    for name in existing:
        check_directory(target / name)
    with fresh_directory(target) as folder:
        for name, traces in sets.items():
            write_directory(traces, folder / name)


def fill_directory(
    traces: TraceSet, folder: Path, card: Card, step: Callable[[int], Any], suffix: str = ".et"
) -> None:
    """Writes everything into an empty directory; bodies in the format that `suffix` says."""
    if not len(traces):
        raise ChakraError("there are no ranks to write")
    numbers = _write_bodies(traces, folder, step, suffix)
    write_groups(traces.groups, folder / "groups.json")
    write_card(_completed_card(card, traces), folder / "card.json")
    if _is_folded(traces):
        _write_table(_ranks_table(traces, numbers), folder / "ranks.parquet", "snappy")
    if isinstance(traces, Run):
        _write_times(traces, folder)


def _completed_card(card: Card, traces: TraceSet) -> Card:
    """The card as a directory has it: with missing ranks and the names of the tables of counters."""
    extra = {k: v for k, v in card.extra.items() if k != _COUNTERS}
    if isinstance(traces, Run) and traces.counters:
        extra[_COUNTERS] = sorted(traces.counters)
    return card.replace(partial=list(traces.missing_ranks), extra=extra)


def write_groups(groups: Groups, path: Path) -> None:
    """Writes a group file."""
    with replacing(path) as temporary:
        temporary.write_bytes(msgspec.json.encode({n: list(r) for n, r in groups.items()}) + b"\n")


def check_directory(target: Path) -> None:
    """Refuses to replace a directory that holds anything chakrakit did not write."""
    if target.exists() and not target.is_dir():
        raise ChakraError(f"{target}: exists and is not a directory")
    existing = sorted(f.name for f in target.iterdir()) if target.is_dir() else []
    foreign = _not_ours(target, existing)
    if foreign:
        example = foreign[0]
        raise ChakraError(
            f"{target}: is a directory with other things in it ({example}); give a new name"
        )


def _not_ours(target: Path, existing: list[str]) -> list[str]:
    """What is in a directory that chakrakit did not write there."""
    if not existing:
        return []
    try:
        card = read_card(target / "card.json")
    except ChakraError:
        return existing
    name = re.escape(file_name(card.name))
    bodies = [n for n in existing if RANKED.fullmatch(n) and re.match(rf"{name}\.\d+\.", n)]
    foreign = [n for n in existing if n not in _OURS and n not in bodies]
    counters = {f"{n}.parquet" for n in card.extra.get(_COUNTERS, SCHEMAS)}
    foreign += [f"times/{n}" for n in _inside(target / "times") if not _TIMES_FILE.fullmatch(n)]
    foreign += [f"counters/{n}" for n in _inside(target / "counters") if n not in counters]
    return foreign or ([] if bodies else existing)


def _inside(folder: Path) -> list[str]:
    return sorted(f.name for f in folder.iterdir()) if folder.is_dir() else []


@contextlib.contextmanager
def fresh_directory(target: Path) -> Iterator[Path]:
    """A temporary directory that takes the target's place when the block ends well."""
    target = followed(target)
    missing = [folder for folder in target.parents if not folder.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with claimed(target, folder=True) as temporary:
            yield temporary
            take_place(temporary, target)
    except BaseException as error:
        remove_empty(missing)
        if isinstance(error, OSError):
            raise ChakraError(f"{target}: cannot be written: {error.strerror or error}") from None
        raise


def _is_folded(traces: TraceSet) -> bool:
    bodies = [b.body for b in traces.bindings.values()]
    plain = all(b.is_plain for b in traces.bindings.values())
    timed = isinstance(traces, Run) and traces.times is not None
    return len(set(bodies)) < len(bodies) or not plain or timed


def _write_bodies(
    traces: TraceSet, folder: Path, step: Callable[[int], Any], suffix: str
) -> dict[int, int]:
    """Writes each body in use once; returns body → the number in its file name."""
    name = file_name(traces.card.name)
    numbers: dict[int, int] = {}
    for rank in traces.ranks:
        body = traces.bindings[rank].body
        if body not in numbers:
            numbers[body] = rank
            trace = traces.body_at(body)
            if isinstance(traces, Run) and traces.times is not None:
                check_length(len(traces.times[traces.timing[rank]].start), len(trace), rank)
            write_trace(trace, folder / f"{name}.{rank}{suffix}")
            step(rank)
    return numbers


def file_name(name: str) -> str:
    """A card's name as the beginning of a file name: it may come from a file, so it is not trusted."""
    return re.sub(r"[^\w.+-]", "_", name).strip(".")[:100] or "trace"


def _ranks_table(traces: TraceSet, numbers: Mapping[int, int]) -> pa.Table:
    bindings = traces.bindings.values()
    timing = traces.timing if isinstance(traces, Run) else {}
    rows = (
        traces.ranks,
        [numbers[b.body] for b in bindings],
        [list(b.groups.items()) for b in bindings],
        [list(b.peers.items()) for b in bindings],
        [b.scale for b in bindings],
        [timing.get(r, 0) for r in traces.ranks],
    )
    return pa.table([pa.array(v, f.type) for v, f in zip(rows, _RANKS, strict=True)], schema=_RANKS)


def _write_times(run: Run, folder: Path) -> None:
    for number, times in enumerate(run.times or ()):
        columns = {n: pa.array(a, _TIMES[n]) for n, a in vars(times).items() if a is not None}
        _write_table(pa.table(columns), folder / "times" / f"{number}.parquet")
    for name, table in run.counters.items():
        if file_name(name) != name:
            raise ChakraError(f"{name!r} cannot be the name of a counter; use letters and digits")
        _write_table(table, folder / "counters" / f"{name}.parquet")


def _write_table(table: pa.Table, file: Path, compression: str = "zstd") -> None:
    import pyarrow.parquet as pq  # with file systems and TLS, which reading needs none of

    file.parent.mkdir(exist_ok=True)
    with file.open("wb") as stream:  # of a path that is not UTF-8 Arrow makes nothing
        pq.write_table(table, stream, compression=compression)
