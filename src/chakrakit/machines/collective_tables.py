"""Reads measured collectives from nccl-tests logs or tables, and fits a library's constants to them.

A table is CSV or Parquet with one measurement per row: the collective, the number of members, bytes as
nccl-tests count them, and the time, whose column name ends with the unit (`time_us`, `latency_ms`, …).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from chakrakit.errors import FormatError
from chakrakit.machines.aiconfigurator import collective_measurements, performance_tables
from chakrakit.machines.calibrate import read_nccl_log
from chakrakit.machines.fabric import Machine, span_of
from chakrakit.machines.library import (
    ExchangeConstants,
    Library,
    Measurement,
    Protocol,
    Tuner,
    fit_library,
    predict,
)
from chakrakit.machines.measured_tables import collective_named, read_table
from chakrakit.operators import find_type
from chakrakit.results import Result
from chakrakit.trace.files import replacing

_COLLECTIVE = ("collective", "op", "operation")
_MEMBERS = ("members", "gpus", "ranks")
_SIZE = ("bytes", "size")
_TIME = ("time", "latency")
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_IGNORED = {
    "system",
    "nccl_version",
    "recorded_version",
    "sample",
    "elements",
    "count",
    "algorithm",
    "protocol",
    "algbw_gbs",
    "busbw_gbs",
    "redop",
    "root",
}
"""Columns that are allowed in a table and have no influence on the fit."""
_LARGE = 1 << 20
"""Bytes from which errors are also reported apart: below 1 MiB latency decides, above it bandwidth."""


class LibraryReport(Result, msgspec.Struct, kw_only=True):
    """How well the fitted constants agree with the measurements of one collective and group size."""

    collective: str
    members: int
    rows: int
    median_error: float
    """The median over all sizes, as a share of the measured time."""
    error_from_1mib: float | None


def read_measurements(sources: Sequence[Path]) -> list[Measurement]:
    """All measurements of the files; repeated ones are replaced by one with their median time."""
    seconds_by_call: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    for source in sources:
        for row in _measurements(source):
            seconds_by_call[row.collective, row.members, row.size].append(row.seconds)
    return [
        Measurement(*key, float(np.median(times))) for key, times in sorted(seconds_by_call.items())
    ]


def _measurements(source: Path) -> list[Measurement]:
    if tables := performance_tables(source):
        return [row for table in tables for row in collective_measurements(table)]
    return _table(source) if source.suffix in (".csv", ".parquet") else _log(source)


def calibrate_library(
    sources: Sequence[Path], machine: Machine, output: Path
) -> list[LibraryReport]:
    """Fits the machine's library to the measurements and writes its constants as JSON."""
    rows = read_measurements(sources)
    most = max((r.members for r in rows), default=0)
    machine.check_ranks(most)
    spans = {n: span_of(machine, np.arange(n)) for n in {r.members for r in rows}}
    library = fit_library(machine.library or plain_library(machine), rows, lambda n: spans[n])
    with replacing(output) as temporary:
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(library), indent=1) + b"\n")
    missed = [abs(predict(library, r, spans[r.members]) / r.seconds - 1) for r in rows]
    return _reports(rows, missed)


def plain_library(machine: Machine) -> Library:
    """Constants to start from where a machine has none: rings over its links at the tuner's latencies."""
    link = span_of(machine, np.arange(min(2, machine.size))).link
    return Library(
        name="calibrated",
        launch_us=5.0,
        ll=Protocol(hop_us=1.0, share=0.4, copy=0.7, busy=0.5),
        simple=Protocol(
            start_us=8.4, hop_us=5.7, share=0.8, copy=0.5, fill=0.1, in_flight=1e-4 * link
        ),
        exchange=ExchangeConstants(
            start_us=2.0, peer_us=0.5, low_latency_gbs=6.0, simple_us=10.0, flow_us=2.0, share=0.7,
            copy=0.1, fill=0.8, in_flight=3e-5 * link,
        ),
        tuner=Tuner(bus_gbs=0.8e-9 * link, low_latency_gbs=0.3e-9 * link, link="pcie"),
    )  # fmt: skip


def _reports(rows: Sequence[Measurement], missed: Sequence[float]) -> list[LibraryReport]:
    parts: dict[tuple[str, int], list[tuple[int, float]]] = defaultdict(list)
    for row, miss in zip(rows, missed, strict=True):
        parts[row.collective, row.members].append((row.size, miss))
    return [
        LibraryReport(
            collective=name,
            members=members,
            rows=len(part),
            median_error=float(np.median([m for _, m in part])),
            error_from_1mib=_median([m for size, m in part if size >= _LARGE]),
        )
        for (name, members), part in sorted(parts.items())
    ]


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None


_MOST, _LONGEST_S = 1 << 50, 86_400.0
"""Members or bytes (a pebibyte), and seconds (a day): a larger number is a mistake in the table."""


def _log(source: Path) -> list[Measurement]:
    runs = read_nccl_log(source)
    if min(ranks for _, ranks, _ in runs) < 2:
        raise FormatError("has one rank; give logs of two ranks or more", path=str(source))
    return [
        Measurement(name, ranks, int(size), us * 1e-6)
        for name, ranks, points in runs
        for size, us in points
    ]


# --- tables -------------------------------------------------------------------------------------


def _table(source: Path) -> list[Measurement]:
    columns = _columns(source)
    kind, members, size = (
        _column_named(columns, names, source) for names in (_COLLECTIVE, _MEMBERS, _SIZE)
    )
    time, unit = _time_column(columns, source)
    expected = {kind, members, size, time, "dtype", *_IGNORED}
    unexpected = [c for c in columns if c not in expected]
    if unexpected:
        raise FormatError(
            f"unknown column {unexpected[0]!r}; "
            "a table of collectives has collective, members, bytes, time_us",
            path=str(source),
        )
    values = zip(columns[kind], columns[members], columns[size], columns[time], strict=True)
    selected = _rows_of_half_types(columns)
    return [_row(source, i, *v, unit) for i, v in enumerate(values) if selected[i]]


def _rows_of_half_types(columns: dict[str, list[Any]]) -> list[bool]:
    """Which rows are used: all, or only those of 16-bit floats where a table has several element types.

    The constants of a library describe collectives of 16-bit elements.
    """
    types = columns.get("dtype")
    rows = len(next(iter(columns.values()), []))
    if types is None or len(set(types)) < 2:
        return [True] * rows
    elements = [find_type(str(t)) for t in types]
    two = [e is not None and (e.bits, e.kind) == (16, "float") for e in elements]
    return two if any(two) else [True] * rows


def _columns(source: Path) -> dict[str, list[Any]]:
    table = read_table(source)
    return {name: table.column(name).to_pylist() for name in table.column_names}


def _column_named(columns: dict[str, list[Any]], names: tuple[str, ...], source: Path) -> str:
    columns_present = [n for n in names if n in columns]
    if len(columns_present) != 1:
        raise FormatError(f"needs one column {' or '.join(names)}", path=str(source))
    return columns_present[0]


def _time_column(columns: dict[str, list[Any]], source: Path) -> tuple[str, float]:
    time_columns = [c for c in columns if c.partition("_")[0] in _TIME]
    if len(time_columns) != 1:
        raise FormatError("needs one column of times, such as time_us", path=str(source))
    unit = time_columns[0].partition("_")[2]
    if unit not in _UNITS:
        raise FormatError(
            f"column {time_columns[0]!r} has no unit of time; name it time_us, time_ms, time_s or time_ns",
            path=str(source),
        )
    return time_columns[0], _UNITS[unit]


def _row(
    source: Path,
    number: int,
    kind: object,
    members: object,
    size: object,
    time: object,
    unit: float,
) -> Measurement:
    where = f"row {number + 1}"
    name = collective_named(kind)
    if name is None:
        raise FormatError(f"{where}: {kind!r} is not a collective", path=str(source))
    for value, quantity, least in ((members, "members", 2), (size, "bytes", 1)):
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _MOST:
            raise FormatError(
                f"{where}: {quantity} is {value!r:.40}; it should be {least} or more",
                path=str(source),
            )
    if not isinstance(time, (int, float)) or not 0 < time * unit < _LONGEST_S:
        raise FormatError(
            f"{where}: a time of {time!r:.40}; it should be more than 0, and below a day",
            path=str(source),
        )
    return Measurement(name, int(members), int(size), float(time) * unit)  # type: ignore[call-overload]
