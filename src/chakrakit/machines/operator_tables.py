"""Makes profiles of operators that were timed one by one, each with a cold and with a warm cache."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import msgspec
import numpy as np

from chakrakit.configuration import LARGEST_WRITTEN, read_json
from chakrakit.errors import ConfigError
from chakrakit.machines.device import MeasuredRow, Profile
from chakrakit.operators import STREAMS, Operation, operation_of, read_call

CLOSE, SAME, SMALL = 0.35, 0.05, 1 << 20
"""Two rows are redundant within this many octaves in every dimension and this share of the time, which is
below what predictions miss by. An operator that moves fewer than SMALL bytes shows its latency only."""


class _Timed(msgspec.Struct, forbid_unknown_fields=True):
    """An operator call in the texts of execution traces, and its time in microseconds."""

    op: str
    shapes: str
    types: str
    us: float
    strides: str = ""
    values: str = ""
    warm: float = 0.0
    kernels: list[str] = []


class OperatorTimes(msgspec.Struct):
    """A file of timed operators."""

    rows: list[_Timed]
    gpu: str = ""
    cache_bytes: float = 0.0


def is_operator_table(path: Path) -> bool:
    """Whether a file holds timed operators, and not microbenchmarks in their short form."""
    with path.open("rb") as file:
        return b'"shapes"' in file.read(1 << 16)


def profile_from_operators(path: Path) -> Profile:
    """The profile of a file of timed operators (`OperatorTimes`)."""
    times = read_json(path, OperatorTimes, "a file of timed operators", LARGEST_WRITTEN)
    timings: dict[str, dict[tuple[int, ...], list[tuple[Operation, _Timed]]]] = {}
    for row in times.rows:
        if not row.us > 0:
            raise ConfigError(f"{path}: {row.op} {row.shapes} takes {row.us} us")
        call = read_call(
            row.op, row.shapes, row.types, row.strides, row.values, kernels=tuple(row.kernels)
        )
        if (operation := operation_of(call)) is not None:
            by_shape = timings.setdefault(operation.table or operation.kind, {})
            by_shape.setdefault(operation.shape, []).append((operation, row))
    classes = {name: thinned(_rows(shapes)) for name, shapes in timings.items()}
    _add_streams(classes)
    classes = {name: rows for name, rows in classes.items() if not _is_latency(name, rows)}
    return Profile(
        name=path.stem,
        device=times.gpu,
        fitted_on=[path.name],
        cache_bytes=times.cache_bytes,
        classes=classes,
    )


def _rows(shapes: dict[tuple[int, ...], list[tuple[Operation, _Timed]]]) -> list[MeasuredRow]:
    """One row per shape: the median of its times."""
    out = []
    for _, timings in sorted(shapes.items()):
        us = float(np.median([row.us for _, row in timings]))
        warm = float(np.median([row.warm or row.us for _, row in timings]))
        out.append(_row(timings[0][0], us, warm))
    return out


def _row(operation: Operation, us: float, warm: float) -> MeasuredRow:
    """A row without the fields that are 0 or equal to the cold time, which keeps the file small."""
    more = {"flops": operation.flops} if operation.flops else {}
    if warm < 0.99 * us:
        more["warm"] = round(warm, 3)
    return MeasuredRow(list(operation.shape), round(us, 3), bytes=operation.bytes, **more)


def thinned(rows: list[MeasuredRow]) -> list[MeasuredRow]:
    """The rows without those that lie close to another row of about the same time."""
    places = np.log2(np.maximum(1, np.array([row.shape for row in rows], np.float64)))
    sparse: list[int] = []
    kept = np.empty_like(places)
    for i, row in enumerate(rows):
        near = np.flatnonzero((np.abs(kept[: len(sparse)] - places[i]) < CLOSE).all(1))
        if not any(abs(rows[sparse[j]].us / row.us - 1) < SAME for j in near.tolist()):
            kept[len(sparse)] = places[i]
            sparse.append(i)
    return [rows[i] for i in sparse]


def _is_latency(name: str, rows: list[MeasuredRow]) -> bool:
    """Whether a class was timed only at small sizes, which show latency and no bandwidth."""
    streams = len(rows[0].shape) == 2 and "." not in name
    return streams and max(r.bytes for r in rows) < SMALL


def _add_streams(classes: dict[str, list[MeasuredRow]]) -> None:
    """Adds classes for operators that were not timed, from those that only stream through memory.

    Shapes are (bytes), and (elements, bytes, run) for strided memory.
    """
    plain: dict[int, list[MeasuredRow]] = defaultdict(list)
    for row in (r for name in STREAMS for r in classes.get(name, [])):
        plain[round(row.bytes)].append(row)
    if plain:
        classes["elementwise"] = [_median([size], rows) for size, rows in sorted(plain.items())]
    for tail in (".strided", ".broadcast"):
        alike: dict[tuple[int, ...], list[MeasuredRow]] = defaultdict(list)
        for row in (r for name in STREAMS for r in classes.get(name + tail, [])):
            alike[tuple(row.shape)].append(row)
        if alike:
            classes[f"elementwise{tail}"] = [_median(list(s), r) for s, r in sorted(alike.items())]


def _median(shape: list[int], rows: list[MeasuredRow]) -> MeasuredRow:
    us = float(np.median([r.us for r in rows]))
    warm = float(np.median([r.warm or r.us for r in rows]))
    return _row(Operation("elementwise", tuple(shape), 0.0, rows[0].bytes), us, warm)
