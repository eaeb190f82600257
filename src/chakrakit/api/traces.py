"""Traces as files: what they hold, whether they are sound, in other formats, asked with SQL, changed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from chakrakit.api.inputs import Path_, Traces, traces_of, workers_of
from chakrakit.errors import ConfigError, nearest
from chakrakit.parallel import Progress, quiet
from chakrakit.passes.base import Pass, Transformed, parse, read_passes
from chakrakit.passes.base import transform as apply_passes
from chakrakit.results import SHOWN_ROWS, Facts, Result, counted, table_html
from chakrakit.trace.cards import fields_from, overlaid, read_card_file
from chakrakit.trace.codecs import Exported, Selection
from chakrakit.trace.codecs import export as export_graph
from chakrakit.trace.model import Trace
from chakrakit.trace.query import Info, describe, rows_of
from chakrakit.trace.query import query as run_query
from chakrakit.trace.sets import TraceSet
from chakrakit.trace.storage import BundleReport, check_bundle, extract_bundle, write, write_bundle
from chakrakit.trace.storage import convert as convert_files
from chakrakit.trace.validation import KEEP, ValidationReport, fix
from chakrakit.trace.validation import validate as check
from chakrakit.views.timeline import TimelineOptions, timeline_format, write_timeline


def info(path: Path_) -> Info:
    """Say what a trace holds: ranks, nodes, edges, types, groups, communication.

    Parameters
    ----------
    path
        A file, a prefix of `prefix.N.et`, a directory, or a bundle.

    Examples
    --------
    >>> _ = ck.write(ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces, "w")
    >>> ck.info("w").ranks
    2

    """
    return describe(os.fspath(path))


def validate(
    traces: Traces | Trace,
    *,
    output: Path_ | None = None,
    everything: bool = False,
    engine: str | None = None,
    jobs: int | None = None,
    progress: Progress = quiet,
) -> ValidationReport:
    """Check traces: framing, schema, graph, attributes, and ranks against each other.

    Parameters
    ----------
    traces
        A path, a Trace, a TraceSet or a Run.
    output
        Where the trace goes with the repairs that cannot change its meaning; what is then reported is
        that one. Needs a path as input.
    everything
        List all findings, not 20 of each kind and rank.
    engine, jobs
        Spread the ranks over workers: `local`, `ray` or `dask`, and how many at once.
    progress
        Called with the number of pieces read.

    Examples
    --------
    >>> ck.validate(ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces).ok
    True

    """
    keep = None if everything else KEEP
    workers = workers_of(engine, jobs)

    def read(piece: int) -> None:
        progress(piece, None)

    if output is None:
        return check(traces, keep=keep, progress=read, workers=workers)
    if isinstance(traces, Trace | TraceSet):
        raise ConfigError("repairs are made while a file is copied: give the path of the traces")
    return fix(traces, output, keep=keep, progress=read, workers=workers)


class Converted(Result, msgspec.Struct):
    """What a conversion could not keep."""

    left_out: dict[str, int]
    """Name → how many values the target's format has no place for."""


def convert(
    path: Path_, target: Path_, *, portable: bool = False, progress: Progress = quiet
) -> Converted:
    """Convert a trace; the target's name says the format.

    Parameters
    ----------
    path
        What to convert.
    target
        `out.et`, `.et.gz`, `.et.zst`, `.json`, `.feeder.json`, `.parquet`, any of these as `out.N.…` for one
        file per rank, or a directory.
    portable
        Rewrite a run so that readers of plain dependencies get the same schedule.
    progress
        Called with the bytes read, and with all of them where that is known.

    Examples
    --------
    >>> _ = ck.write(ck.generate(model="gpt3-125m", seq=128, global_batch=1).traces, "one")
    >>> ck.convert("one", "one.json").left_out
    {}

    """
    if portable:
        return Converted(write(transform(path, "portable").traces, target))
    return Converted(convert_files(path, target, progress))


class QueryResult(Result, msgspec.Struct):
    """The rows of a query."""

    columns: list[str]
    types: list[str]
    """Arrow's names of the columns' types."""
    rows: list[list[Any]]
    truncated: bool
    """Whether there were more rows than the limit."""

    def _repr_html_(self) -> str:
        more = f", the first {SHOWN_ROWS} shown" if len(self.rows) > SHOWN_ROWS else ""
        caption = f"{counted(len(self.rows), 'row')}{more}"
        return table_html(self.columns, self.rows[:SHOWN_ROWS], caption)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        cells = list(zip(*self.rows, strict=True)) or [()] * len(self.columns)
        return pa.table({n: list(c) for n, c in zip(self.columns, cells, strict=True)})


def query(
    traces: Traces,
    sql: str,
    *,
    limit: int | None = None,
    engine: str | None = None,
    jobs: int | None = None,
) -> QueryResult:
    """Ask with SQL (DuckDB): one SELECT over nodes, edges, collectives, calls, messages, ranks, groups.

    Parameters
    ----------
    traces
        A path, a TraceSet or a Run.
    sql
        One SELECT statement; it cannot reach files or the network.
    limit
        At most this many rows.
    engine, jobs
        Read the ranks on workers.

    Examples
    --------
    >>> traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces
    >>> ck.query(traces, "SELECT count(DISTINCT rank) AS ranks FROM nodes").rows
    [[2]]

    """
    most = None if limit is None else limit + 1
    table = run_query(traces, sql, most, workers_of(engine, jobs))
    more = limit is not None and table.num_rows > limit
    rows = rows_of(table.slice(0, limit) if more else table)
    return QueryResult(table.column_names, [str(k) for k in table.schema.types], rows, more)


def export(
    traces: Traces,
    target: Path_,
    *,
    rank: int | None = None,
    around: int | None = None,
    hops: int = 2,
    types: Sequence[str] = (),
    name: str | None = None,
    perfetto: bool = False,
    chrome: bool = False,
    flows: bool = True,
    node_size: int = 0,
    every_rank: bool = False,
) -> Exported:
    """Write one rank's graph (`.graphml`, `.dot`), or a run's timeline (`.pftrace`, `.json`).

    Parameters
    ----------
    traces
        A path, a TraceSet or a Run.
    target
        The file; its suffix says the format.
    rank, around, hops, types, name
        Of a graph: which rank, and only nodes near an id, of some types, or with a pattern in their name.
    perfetto, chrome, flows, node_size, every_rank
        Of a timeline: the format if the suffix does not say it, arrows, how many ranks a node has, and
        whether to draw every rank of more than 64 where one may stand for all that do the same.

    Examples
    --------
    >>> traces = ck.generate(model="gpt3-125m", seq=128, global_batch=1).traces
    >>> ck.export(traces, "w.dot", types=["COMP_NODE"]).nodes > 0
    True

    """
    if timeline := timeline_format(target, perfetto=perfetto, chrome=chrome):
        options = TimelineOptions(flows=flows, node_size=node_size, every_rank=every_rank)
        run = traces_of(traces, timed=True)
        return write_timeline(run, target, options, chrome=timeline == "chrome")
    found = traces_of(traces)
    trace = found.trace(found.ranks[0] if rank is None else rank)
    if name is not None and len(trace) and not Selection(name=name).rows(trace).any():
        known = dict.fromkeys(trace.names.to_pylist())
        raise ConfigError(f"no node's name matches {name!r}; {nearest(name, known)}")
    return export_graph(trace, target, Selection(around, hops, tuple(types), name))


def bundle(
    traces: Traces,
    output: Path_ | None = None,
    *,
    card: Path_ | None = None,
    fields: Iterable[str] = (),
    add: Iterable[Path_] = (),
    extract: Path_ | None = None,
    progress: Progress = quiet,
) -> BundleReport:
    """Pack traces and their workload's card into one file with checksums, or check and unpack one.

    Parameters
    ----------
    traces
        What to pack; a bundle to check where `output` is not given.
    output
        The bundle to make.
    card, fields, add
        The card's file, single fields of it (`workload.data.seq_len=4096`), and files to add to the bundle.
    extract
        A new directory to unpack the bundle into.
    progress
        Called with the number of bodies packed, of how many.

    Examples
    --------
    >>> traces = ck.generate(model="gpt3-125m", seq=128, global_batch=1).traces
    >>> ck.bundle(traces, "w.chakra").ok, ck.bundle("w.chakra").ok
    (True, True)

    """
    if output is None:
        if isinstance(traces, TraceSet):
            raise ConfigError("give `output` to pack traces; without it a bundle's path is checked")
        if extract is not None:
            extract_bundle(traces, extract)
        return check_bundle(traces)
    given = overlaid(read_card_file(Path(card)) if card else {}, fields_from(fields))
    found = traces_of(traces)
    done = count(1)
    with found.uncached():
        return write_bundle(
            found, output, given, list(add), lambda _rank: progress(next(done), found.body_count)
        )


@dataclass(frozen=True, eq=False, repr=False)
class TransformedTraces(Facts):
    """Changed traces, and what was done to them."""

    traces: TraceSet
    report: Transformed

    def facts(self) -> msgspec.Struct:
        """What each pass did."""
        return self.report


def transform(
    traces: Traces,
    passes: Iterable[Pass | str] | Pass | str = (),
    *,
    file: Path_ | None = None,
    output: Path_ | None = None,
) -> TransformedTraces:
    """Change traces, one pass after another.

    Parameters
    ----------
    traces
        A path, a TraceSet or a Run.
    passes
        Passes as objects (`ck.Edit(scale=0.5)`) or as the command line writes them (`"edit{scale=0.5}"`).
    file
        A YAML list of passes that come first.
    output
        Where to write the result.

    Examples
    --------
    >>> traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces
    >>> len(ck.transform(traces, "scale-ranks{ranks=8}").traces)
    8

    """
    given = [passes] if isinstance(passes, Pass | str) else list(passes)
    first = read_passes(Path(file)) if file else []
    chosen = [*first, *(p if isinstance(p, Pass) else parse(p) for p in given)]
    if not chosen:
        raise ConfigError("no pass is given; `chakra transform --list` shows them")
    changed, report = apply_passes(traces_of(traces), chosen)
    if output is not None:
        write(changed, output)
    return TransformedTraces(changed, report)
