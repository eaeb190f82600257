"""Profiles from operators timed one by one, each with a cold and with a warm cache."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import msgspec
import numpy as np

from chakrakit.errors import ConfigError, FormatError
from chakrakit.machines.device import Profile, Row
from chakrakit.machines.operations import Operation, operation_of, read_call

_STREAMS = ("add", "mul", "copy", "sub", "div")
"""Operators that only stream through memory; together they are what any other one is taken for."""


class _Timed(msgspec.Struct):
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


def is_operator_table(content: bytes) -> bool:
    """Whether a file holds timed operators and not the short form of microbenchmarks."""
    return b'"shapes"' in content[:4096]


def profile_from_operators(path: Path) -> Profile:
    """`{"gpu", "rows": [{"op", "shapes", "types", "strides", "values", "us", "warm"}]}` as a profile."""
    try:
        times = msgspec.json.decode(path.read_bytes(), type=OperatorTimes)
    except msgspec.MsgspecError as error:
        raise FormatError(f"not a file of timed operators: {error}", path=str(path)) from None
    seen: dict[str, dict[tuple[int, ...], list[tuple[Operation, _Timed]]]] = {}
    for row in times.rows:
        if not row.us > 0:
            raise ConfigError(f"{path}: {row.op} {row.shapes} takes {row.us} us")
        call = read_call(row.op, row.shapes, row.types, row.strides, row.values, kernels=tuple(row.kernels))
        if (found := operation_of(call)) is not None:
            by_shape = seen.setdefault(found.table or found.kind, {})
            by_shape.setdefault(found.shape, []).append((found, row))
    classes = {name: _rows(shapes) for name, shapes in seen.items()}
    _add_streams(classes)
    return Profile(
        name=path.stem, device=times.gpu, fitted_on=[path.name], cache_bytes=times.cache_bytes, classes=classes
    )


def _rows(shapes: dict[tuple[int, ...], list[tuple[Operation, _Timed]]]) -> list[Row]:
    """One row per shape: the median of its times."""
    out = []
    for shape, found in sorted(shapes.items()):
        us = float(np.median([row.us for _, row in found]))
        warm = float(np.median([row.warm or row.us for _, row in found]))
        first = found[0][0]
        out.append(Row(list(shape), round(us, 3), first.flops, first.bytes, round(min(us, warm), 3)))
    return out


def _add_streams(classes: dict[str, list[Row]]) -> None:
    """Classes for operators that nobody timed: (bytes), and (elements, bytes, run) where memory is strided."""
    plain: dict[int, list[Row]] = defaultdict(list)
    for row in (r for name in _STREAMS for r in classes.get(name, [])):
        plain[round(row.bytes)].append(row)
    classes["elementwise"] = [_median([size], rows) for size, rows in sorted(plain.items())]
    runs: dict[tuple[int, ...], list[Row]] = defaultdict(list)
    for row in (r for name in _STREAMS for r in classes.get(f"{name}.strided", [])):
        runs[tuple(row.shape)].append(row)
    if runs:
        classes["elementwise.strided"] = [_median(list(s), rows) for s, rows in sorted(runs.items())]


def _median(shape: list[int], rows: list[Row]) -> Row:
    us, warm = (round(float(np.median(v)), 3) for v in zip(*((r.us, r.warm) for r in rows), strict=True))
    return Row(shape, us, 0.0, rows[0].bytes, warm)
