"""Finished points on disk: one line each, appended; a kill at any time loses none that was written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from chakrakit.errors import ConfigError
from chakrakit.exploration.sweep.measurement import SimulatedRow
from chakrakit.exploration.sweep.points import StudyPoint
from chakrakit.exploration.sweep.served import ServedRow, ServedWorkload
from chakrakit.trace.files import AppendedLines, appending, replacing

POINTS = "points.jsonl"


class FinishedPoint(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A point that was run: its row, or why there is none."""

    key: str
    row: SimulatedRow | None = None
    served: ServedRow | None = None
    """The row of a point that served requests."""
    error: str | None = None
    died: bool = False
    """Its worker died, which says little about the point: the next sweep tries it again."""

    @property
    def figures(self) -> SimulatedRow | ServedRow | None:
        """The row, whichever it is."""
        return self.row or self.served


class PointStore:
    """The file of finished points in a study's folder.

    Only one process writes it at a time. A last line without its end was being written when
    something was killed: it is cut off, and its point is run again.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / POINTS

    def read(self) -> dict[str, FinishedPoint]:
        """What is finished, by key; of several lines about a point the last counts."""
        if not self._path.exists():
            return {}
        finished: dict[str, FinishedPoint] = {}
        for number, line in enumerate(self._path.read_bytes().split(b"\n")[:-1], 1):
            try:
                point = msgspec.json.decode(line, type=FinishedPoint)
            except msgspec.MsgspecError as error:
                raise ConfigError(
                    f"{self._path}:{number}: not a finished point ({error}); remove the line, and its "
                    "point is run again"
                ) from None
            finished[point.key] = point
        return finished

    @contextlib.contextmanager
    def writing(self) -> Iterator[PointWriter]:
        """Opens it to append; a ConfigError if another sweep has it open."""
        with appending(self._path, "sweep") as lines:
            yield PointWriter(lines)


class PointWriter:
    """Appends finished points."""

    def __init__(self, lines: AppendedLines) -> None:
        self._lines = lines

    def add(self, point: FinishedPoint) -> None:
        """On disk when it returns."""
        self._lines.add(msgspec.json.encode(point))


# --- the table of a study: one row per point, its parameters first ------------------------------


_TYPES: dict[Any, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    str: pa.string(),
    float | None: pa.float64(),
}


def table_of(points: Sequence[StudyPoint], finished: Mapping[str, FinishedPoint]) -> pa.Table:
    """Parameters, status, error and figures of every finished point, in the study's order."""
    listed = [p for p in points if p.key in finished]
    names = list(dict.fromkeys(n for p in points for n in p.parameters))
    columns: dict[str, pa.Array] = {
        n: _column([p.parameters.get(n) for p in listed]) for n in names
    }
    results = [finished[p.key] for p in listed]
    columns["status"] = pa.array(["done" if f.figures else "failed" for f in results], pa.string())
    columns["error"] = pa.array([f.error for f in results], pa.string())
    row = ServedRow if isinstance(points[0].workload, ServedWorkload) else SimulatedRow
    for name, kind in get_type_hints(row).items():
        values = [getattr(f.figures, name) if f.figures else None for f in results]
        columns[name] = pa.array(values, _TYPES[kind])
    columns["key"] = pa.array([p.key for p in listed], pa.string())
    return pa.table(columns)


def _column(values: list[Any]) -> pa.Array:
    """Numbers as numbers; where an axis mixes kinds, or has lists and mappings, their JSON."""
    try:
        array = pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        array = None
    if array is not None and not pa.types.is_nested(array.type):
        return array
    texts = [
        v if v is None or isinstance(v, str) else msgspec.json.encode(v).decode() for v in values
    ]
    return pa.array(texts, pa.string())


def write_table(table: pa.Table, path: Path) -> None:
    """Writes Parquet under a temporary name, then moves it into place."""
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")
