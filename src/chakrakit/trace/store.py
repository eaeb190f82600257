"""Where traces live: a file, a `prefix` of `prefix.N.et`, a directory, or `-`.

The directory form of a TraceSet or Run:

    NAME.N.et       the bodies (or .parquet); N is the lowest rank that runs the body
    ranks.parquet   rank, body, groups, peers, scale, timing; absent when every rank has its own body
    groups.json     {"1": [0, 1], …}
    card.json       who made it, and how
    times/          N.parquet, a file a timing class: start, end and what each node waited for
    counters/       NAME.parquet
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from chakrakit.errors import ChakraError, FormatError
from chakrakit.trace.card import Card, read_card, write_card
from chakrakit.trace.formats import Source, format_of, read_trace, scan_trace, write_trace
from chakrakit.trace.groups import Groups, groups_in, read_groups
from chakrakit.trace.run import Run, Times
from chakrakit.trace.streams import STDIO, open_input, replacing
from chakrakit.trace.trace import Trace
from chakrakit.trace.traceset import Binding, Body, TraceSet

RANKED = re.compile(
    r"(?P<prefix>.+)\.(?P<rank>\d{1,9})(?P<suffix>\.(et|parquet|json))(\.gz|\.zst)?$"
)
"""The name of one rank's file."""
_PLACEHOLDER = re.compile(r"\.N(?=\.(et|parquet|json|feeder\.json)(\.gz|\.zst)?$)")


def read(path: Source) -> TraceSet | Run:
    """Traces from wherever `path` points. Ranks are read from disk when they are first used."""
    if not isinstance(path, (str, os.PathLike)) or os.fspath(path) == STDIO:
        return _single(read_trace(path), 0)
    place = Path(path)
    if place.is_dir():
        return _read_directory(place)
    if place.exists():
        found = RANKED.match(place.name)
        return _single(read_trace(place), int(found["rank"]) if found else 0, groups_beside(place))
    files = ranked_files(place.parent, place.name)
    if not files:
        raise ChakraError(
            f"{path}: no such file or directory, and no {place.name}.N.et beside it; "
            "give a file, a prefix of prefix.N.et, a directory, or - for stdin"
        )
    return _from_files(files, _groups_for(place))


def ranked_files(folder: Path, prefix: str) -> dict[int, Path]:
    """`prefix.N.et` files (any format, any compression) by rank."""
    if not folder.is_dir():
        return {}
    found: dict[int, Path] = {}
    for file in sorted(folder.iterdir()):
        match = RANKED.match(file.name)
        if match and match["prefix"] == prefix and int(match["rank"]) not in found:
            found[int(match["rank"])] = file
    return dict(sorted(found.items()))


def rank_files(path: Source) -> dict[int, Source]:
    """The files behind a path by rank, without reading them; a single source is rank 0 or its N."""
    if not isinstance(path, (str, os.PathLike)) or os.fspath(path) == STDIO:
        return {0: path}
    place = Path(path)
    if place.is_dir():
        return dict(_body_files(place))
    if place.exists():
        match = RANKED.match(place.name)
        return {int(match["rank"]) if match else 0: place}
    files = ranked_files(place.parent, place.name)
    if not files:
        read(path)  # raises the error that says what would do
    return dict(files)


def _single(trace: Trace, rank: int, groups: Groups | None = None) -> TraceSet | Run:
    groups = (groups or Groups()).merged(groups_in(trace))
    kind = Run if trace.is_timed else TraceSet
    return kind([trace], {rank: Binding(0)}, groups)


def groups_beside(place: Path) -> Groups:
    """The groups that lie beside one rank's file."""
    match = RANKED.match(place.name)
    return _groups_for(place.with_name(match["prefix"])) if match else Groups()


def _groups_for(prefix: Path) -> Groups:
    """Groups in `prefix.json`, or in `groups.json` of the same directory."""
    for file in (prefix.with_name(prefix.name + ".json"), prefix.with_name("groups.json")):
        if file.is_file() and not _is_json_trace(file):
            return read_groups(file)
    return Groups()


def _is_json_trace(file: Path) -> bool:
    """Whether a `.json` beside the traces is a trace itself."""
    with open_input(file) as stream:
        head = stream.peek(256)[:256]
    return b'"format"' in head or b'"workload_graph"' in head or b'"nodes"' in head


def _from_files(
    files: Mapping[int, Path], groups: Groups, card: Card | None = None
) -> TraceSet | Run:
    bodies: list[Body] = [partial(read_trace, f) for f in files.values()]
    bindings = {rank: Binding(i) for i, rank in enumerate(files)}
    probe = _first_piece(next(iter(files.values())))
    card = card or Card(name=next(iter(files.values())).name.split(".")[0])
    kind = Run if probe.is_timed else TraceSet
    if not groups:
        groups = groups_in(probe)
    return kind(bodies, bindings, groups, card)


def _first_piece(file: Path) -> Trace:
    """Enough of a file to see whether it is timed."""
    pieces = scan_trace(file)
    try:
        return next(pieces)
    finally:
        pieces.close()  # type: ignore[attr-defined]


# --- the directory form -------------------------------------------------------------------------


def _body_files(folder: Path) -> dict[int, Path]:
    """The ranked files of a directory; all must have one prefix."""
    matches = [(m, f) for f in sorted(folder.iterdir()) if (m := RANKED.match(f.name))]
    prefixes = sorted({m["prefix"] for m, _ in matches})
    if len(prefixes) > 1:
        shown = ", ".join(prefixes[:4]) + (", …" if len(prefixes) > 4 else "")
        raise ChakraError(f"{folder}: holds several traces ({shown}); give one as {folder}/PREFIX")
    if not prefixes:
        return _lone_file(folder)
    return ranked_files(folder, prefixes[0])


def _lone_file(folder: Path) -> dict[int, Path]:
    files = [f for f in sorted(folder.iterdir()) if re.search(r"\.et(\.gz|\.zst)?$", f.name)]
    if len(files) != 1:
        raise ChakraError(f"{folder}: no NAME.N.et files in this directory")
    return {0: files[0]}


def _read_directory(folder: Path) -> TraceSet | Run:
    files = _body_files(folder)
    prefix = next(iter(files.values())).name.split(".")[0]
    groups = _groups_for(folder / prefix)
    card = read_card(folder / "card.json") if (folder / "card.json").is_file() else None
    if not (folder / "ranks.parquet").is_file():
        traces = _from_files(files, groups, card)
        return _with_times(traces, folder, None)
    ranks = _read_table(folder / "ranks.parquet")
    order = {rank: i for i, rank in enumerate(files)}
    bindings = {}
    for row in ranks.to_pylist():
        if row["body"] not in order:
            raise FormatError(f"rank {row['rank']} runs body {row['body']}, which is not there",
                              path=str(folder / "ranks.parquet"))  # fmt: skip
        bindings[row["rank"]] = Binding(
            order[row["body"]], dict(row["groups"] or []), dict(row["peers"] or []), row["scale"]
        )
    traces = TraceSet([partial(read_trace, f) for f in files.values()], bindings, groups, card)
    if card is not None and card.kind == "run":
        traces = Run(traces._bodies, bindings, groups, card)
    return _with_times(traces, folder, ranks)


def _with_times(traces: TraceSet, folder: Path, ranks: pa.Table | None) -> TraceSet | Run:
    """Adds `times/` and `counters/` where the directory has them."""
    files = sorted((folder / "times").glob("*.parquet"), key=lambda f: int(f.stem))
    counters = {f.stem: _read_table(f) for f in sorted((folder / "counters").glob("*.parquet"))}
    if not files:
        if isinstance(traces, Run):
            traces.counters = counters
        return traces
    times = [_times(_read_table(f)) for f in files]
    timing = None
    if ranks is not None:
        timing = dict(zip(ranks["rank"].to_pylist(), ranks["timing"].to_pylist(), strict=True))
    return Run(traces._bodies, traces.bindings, traces.groups, traces.card, times=times,
               timing=timing, counters=counters)  # fmt: skip


def _times(table: pa.Table) -> Times:
    columns = {c: table.column(c).to_numpy() for c in table.column_names}
    return Times(**columns)


def _read_table(file: Path) -> pa.Table:
    try:
        return pq.read_table(file)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"not a Parquet file: {error}", path=str(file)) from None


# --- writing ------------------------------------------------------------------------------------


def write(
    traces: TraceSet | Trace,
    path: str | os.PathLike[str],
    *,
    progress: Callable[[int], Any] | None = None,
) -> None:
    """Writes one rank to a file, or all ranks to `prefix.N.et` files or to a directory.

    With `.N.` in the name there is a file a rank and the groups go to `prefix.json`. A name without a
    format's suffix is a directory, which keeps everything. `progress` is called with each rank written.
    """
    if isinstance(traces, Trace):
        write_trace(traces, path)
        return
    target = os.fspath(path)
    if _PLACEHOLDER.search(target):
        _write_ranks(traces, target, progress)
        return
    if target == STDIO or re.search(r"\.(et|json|parquet)(\.gz|\.zst)?$", target):
        if len(traces) != 1:
            raise ChakraError(
                f"{target}: one file cannot hold {len(traces)} ranks; write a directory, or a file a "
                f"rank with a name like {Path(target).stem}.N.et"
            )
        write_trace(traces.trace(traces.ranks[0]), target)
        return
    _write_directory(traces, Path(target), progress)


def _write_ranks(traces: TraceSet, pattern: str, progress: Callable[[int], Any] | None) -> None:
    format_of(pattern)
    for rank in traces.ranks:
        write_trace(traces.trace(rank), _PLACEHOLDER.sub(f".{rank}", pattern))
        if progress:
            progress(rank)
    if traces.groups:
        prefix = pattern[: _PLACEHOLDER.search(pattern).start()]  # type: ignore[union-attr]
        _write_groups(traces.groups, Path(prefix + ".json"))


def _write_groups(groups: Groups, path: Path) -> None:
    import msgspec

    with replacing(path) as temporary:
        temporary.write_bytes(msgspec.json.encode({n: list(r) for n, r in groups.items()}) + b"\n")


def _write_directory(traces: TraceSet, target: Path, progress: Callable[[int], Any] | None) -> None:
    """Into a directory that appears whole, or not at all."""
    if target.is_dir() and any(target.iterdir()) and not (target / "card.json").is_file():
        raise ChakraError(f"{target}: is a directory with other things in it; give a new name")
    if target.exists() and not target.is_dir():
        raise ChakraError(f"{target}: exists and is not a directory")
    with _fresh_directory(target) as folder:
        numbers = _write_bodies(traces, folder, progress)
        _write_groups(traces.groups, folder / "groups.json")
        write_card(traces.card.replace(partial=list(traces.missing_ranks)), folder / "card.json")
        if _is_folded(traces):
            pq.write_table(_ranks_table(traces, numbers), folder / "ranks.parquet")
        if isinstance(traces, Run):
            _write_times(traces, folder)


@contextlib.contextmanager
def _fresh_directory(target: Path) -> Iterator[Path]:
    """A temporary directory that takes the target's place when the block ends well."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        if target.exists():
            shutil.rmtree(target)
        temporary.rename(target)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise ChakraError(f"{target}: cannot be written: {error.strerror or error}") from None
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _is_folded(traces: TraceSet) -> bool:
    own = [b.body for b in traces.bindings.values()]
    plain = all(b.is_plain for b in traces.bindings.values())
    timed = isinstance(traces, Run) and traces.times is not None
    return len(set(own)) < len(own) or not plain or timed


def _write_bodies(
    traces: TraceSet, folder: Path, progress: Callable[[int], Any] | None
) -> dict[int, int]:
    """Writes each body in use once; returns body → the number in its file name."""
    numbers: dict[int, int] = {}
    for rank in traces.ranks:
        body = traces.bindings[rank].body
        if body in numbers:
            continue
        numbers[body] = rank
        write_trace(traces.body_at(body), folder / f"{traces.card.name}.{rank}.et")
        if progress:
            progress(rank)
    return numbers


def _ranks_table(traces: TraceSet, numbers: Mapping[int, int]) -> pa.Table:
    bindings = traces.bindings.values()
    timing = traces.timing if isinstance(traces, Run) else {}
    return pa.table(
        {
            "rank": pa.array(traces.ranks, pa.int64()),
            "body": pa.array([numbers[b.body] for b in bindings], pa.int64()),
            "groups": pa.array([list(b.groups.items()) for b in bindings], pa.map_(pa.string(), pa.string())),
            "peers": pa.array([list(b.peers.items()) for b in bindings], pa.map_(pa.int64(), pa.int64())),
            "scale": pa.array([b.scale for b in bindings], pa.float64()),
            "timing": pa.array([timing.get(r, 0) for r in traces.ranks], pa.int64()),
        }
    )  # fmt: skip


def _write_times(run: Run, folder: Path) -> None:
    for number, times in enumerate(run.times or ()):
        (folder / "times").mkdir(exist_ok=True)
        columns = {n: a for n, a in vars(times).items() if a is not None}
        pq.write_table(
            pa.table(columns), folder / "times" / f"{number}.parquet", compression="zstd"
        )
    for name, table in run.counters.items():
        (folder / "counters").mkdir(exist_ok=True)
        pq.write_table(table, folder / "counters" / f"{name}.parquet", compression="zstd")
