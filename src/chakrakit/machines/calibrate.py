"""Fits profiles to microbenchmarks and linked traces, and network models to logs of nccl-tests."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from chakrakit.configuration import read_bounded, read_json
from chakrakit.errors import ConfigError, FormatError
from chakrakit.machines.device import MeasuredRow, Profile, operations_of
from chakrakit.operators import TYPES
from chakrakit.trace.model import Trace

_CLASSES = {
    "mm": "gemm",
    "mm_odd": "gemm_odd",
    "sdpa_causal": "attention",
    "sdpa_both": "attention_both",
    "add": "elementwise",
    "copy": "elementwise",
    "gelu": "elementwise",
    "one": "elementwise",
    "log_softmax": "softmax",
    "log_softmax_backward": "softmax_backward",
}
"""Microbenchmarks whose class has another name; a dtype at the end of the name is dropped."""
_BY_BYTES = {"elementwise", "sum", "mean", "adamw"}
"""Classes that only stream through memory: the number of bytes determines their time."""
_ROWS_OF_ELEMENTS = {"softmax_bf16", "layer_norm_bf16", "layer_norm", "layer_norm_backward"}
"""Benchmarks whose shape is (rows, elements of two bytes); the classes count bytes."""
_DTYPE = re.compile(f"_({'|'.join(t.name for t in TYPES if t.kind == 'float')})$")


class _MicroRow(msgspec.Struct):
    op: str
    shape: list[int]
    us: float
    flops: float = 0.0
    bytes: float = 0.0


class Micro(msgspec.Struct):
    """A file of microbenchmarks."""

    rows: list[_MicroRow]
    gpu: str = ""


def profile_from_micro(path: Path) -> Profile:
    """The profile of a file `{"gpu": …, "rows": [{"op", "shape", "us", "flops", "bytes"}]}`."""
    micro = read_json(path, Micro, "a file of microbenchmarks")
    classes: dict[str, list[MeasuredRow]] = defaultdict(list)
    for row in micro.rows:
        if row.us <= 0:
            raise ConfigError(f"{path}: {row.op} {row.shape} takes {row.us} us")
        if row.op in _ROWS_OF_ELEMENTS and len(row.shape) != 2:
            raise ConfigError(f"{path}: {row.op} {row.shape}; its shape is [rows, columns]")
        name = _DTYPE.sub("", row.op)
        classes[_CLASSES.get(name, name)].append(_row(row, _CLASSES.get(name, name)))
    _take_forward_out(classes)
    return Profile(name=path.stem, device=micro.gpu, fitted_on=[path.name], classes=dict(classes))


def _row(row: _MicroRow, kind: str) -> MeasuredRow:
    """A benchmark's row with the shape that its class of operations uses."""
    if kind in _BY_BYTES:
        return MeasuredRow([round(row.bytes)], row.us, 0.0, row.bytes)
    if row.op in _ROWS_OF_ELEMENTS:
        return MeasuredRow([row.shape[0], 2 * row.shape[1]], row.us, 0.0, row.bytes)
    return MeasuredRow(row.shape, row.us, row.flops, row.bytes)


def _take_forward_out(classes: dict[str, list[MeasuredRow]]) -> None:
    """Replaces attention timed forward and backward together by the backward part alone.

    That part is the time of both less the forward time of the same shape. Of the 7 matrix products of
    both passes the backward pass has 5, and it moves about two thirds of the bytes.
    """
    forward = {tuple(r.shape): r.us for r in classes.get("attention", [])}
    for row in classes.pop("attention_both", []):
        rest = row.us - forward.get(tuple(row.shape), row.us)
        if rest > 0:
            part = MeasuredRow(row.shape, rest, row.flops * 5 / 7, row.bytes * 2 / 3)
            classes["attention_backward"].append(part)


def profile_from_trace(trace: Trace, name: str) -> Profile:
    """A profile with the median time of every operation and shape of a linked trace."""
    times: dict[str, dict[tuple[int, ...], list[tuple[float, float, float]]]] = {}
    duration = trace.duration_ns
    for rows, op, *_ in operations_of(trace):
        total_us = float(duration[list(rows)].sum()) / 1000
        if op.shape and total_us > 0:
            times.setdefault(op.kind, {}).setdefault(op.shape, []).append(
                (total_us, op.flops, op.bytes)
            )
    classes = {
        kind: [
            MeasuredRow(
                list(shape),
                float(np.median([t[0] for t in measurements])),
                measurements[0][1],
                measurements[0][2],
            )
            for shape, measurements in shapes.items()
        ]
        for kind, shapes in times.items()
    }
    return Profile(name=name, fitted_on=[name], classes=classes, of_steps=True)


def merge_profiles(parts: Sequence[Profile], name: str) -> Profile:
    """All rows of all parts; where a class and shape occur twice, the first part's row is kept."""
    classes: dict[str, dict[tuple[int, ...], MeasuredRow]] = {}
    for part in parts:
        for kind, rows in part.classes.items():
            for row in rows:
                classes.setdefault(kind, {}).setdefault(tuple(row.shape), row)
    return Profile(
        name=name,
        device=next((p.device for p in parts if p.device), ""),
        fitted_on=[f for p in parts for f in p.fitted_on],
        of_steps=all(p.of_steps for p in parts),
        classes={kind: list(rows.values()) for kind, rows in classes.items()},
    )


# --- networks -----------------------------------------------------------------------------------


class SizeRange(msgspec.Struct):
    """time = alpha_us + size / bytes_per_us, for sizes up to `most` bytes."""

    most: float
    alpha_us: float
    bytes_per_us: Annotated[float, msgspec.Meta(gt=0)]
    error: float
    """Mean share by which the fit misses the log's times."""


class NetworkModel(msgspec.Struct, kw_only=True):
    """Measured collectives: by collective and number of ranks, ranges of sizes."""

    fitted_on: list[str] = []
    collectives: dict[str, dict[int, list[SizeRange]]] = {}

    def seconds(self, collective: str, members: int, size: int) -> float | None:
        """The time, or None for a collective or number of ranks that was not measured."""
        ranges = self.collectives.get(collective, {}).get(members)
        if not ranges:
            return None
        part = next((r for r in ranges if size <= r.most), ranges[-1])
        return max(0.0, part.alpha_us + size / part.bytes_per_us) * 1e-6


_TITLE = re.compile(
    r"(all_reduce|all_gather|reduce_scatter|alltoall|broadcast|reduce|sendrecv|gather|scatter)_perf"
)
_NAMES = {"alltoall": "all-to-all", "sendrecv": "message"}
_DEVICE_LINE = re.compile(r"#\s+Rank\s+\d+")
_LINE = re.compile(
    r"^(?:\[[^\]]*\](?:<\w+>)?:?|\d+:)?\s*(\d+)\s+\d+\s+\w+\s+\w+\s+-?\d+\s+([0-9.]+(?:e[+-]?\d+)?)\s"
)
"""A row: size, count, type, operation, root and time out of place, after what mpirun or srun writes first."""


def network_from_nccl_tests(paths: Sequence[Path]) -> NetworkModel:
    """The network model fitted to logs of nccl-tests: α and β by collective, ranks and size range."""
    model = NetworkModel(fitted_on=[p.name for p in paths])
    for name, ranks, points in (run for path in paths for run in read_nccl_log(path)):
        # nccl-tests counts an all-gather's whole output; a node's size is one rank's shard.
        scale = 1 / ranks if name in ("all-gather", "gather") else 1.0
        shards = [(size * scale, us) for size, us in points]
        model.collectives.setdefault(name, {})[ranks] = fit_ranges(shards)
    return model


_LEAST, _MOST = 1e-9, 1e15
"""Microseconds (a femtosecond, 31 years) or bytes (a petabyte): far from any measurement and overflow."""


def _number(text: str, path: Path) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.inf
    if not value < _MOST or 0 < value < _LEAST:
        raise FormatError(f"{text[:40]!r} is not a size or time", path=str(path))
    return value


def read_nccl_log(
    path: Path, collective: str = "", ranks: int = 0
) -> list[tuple[str, int, list[tuple[float, float]]]]:
    """The runs of a log: of each the collective, the number of ranks and the (bytes, us) points.

    Bytes are as nccl-tests count them. A log may hold several runs one after another, and lines may begin
    with what a launcher writes before them. `collective` and `ranks` are for runs that do not say theirs.
    """
    text = read_bounded(path).decode(errors="replace")
    named = _TITLE.search(path.name)
    runs: list[_LoggedRun] = [_LoggedRun(named[1] if named else "")]
    for line in text.splitlines():
        title, row = _TITLE.search(line), _LINE.match(line)
        if row is not None:
            runs[-1].points.append((_number(row[1], path), _number(row[2], path)))
        elif (title or _DEVICE_LINE.search(line)) and runs[-1].points:
            runs.append(_LoggedRun(runs[-1].name))
        if row is None and title:
            runs[-1].name = title[1]
        runs[-1].ranks += bool(_DEVICE_LINE.search(line))
    for run in runs:
        run.name, run.ranks = run.name or collective, run.ranks or ranks
    complete = [r.plain() for r in runs if r.name and r.ranks and r.has_points]
    if not complete:
        raise FormatError(_lacking(runs), path=str(path))
    return complete


def _lacking(runs: Sequence[_LoggedRun]) -> str:
    """Why no run of a log is complete, and the cure."""
    measured = [run for run in runs if run.has_points]
    if not measured:
        return "not a log of nccl-tests: it has no rows of size, count, type, redop, root and time"
    if not any(run.name for run in measured):
        return (
            "the log does not say which test it is of; name the file after it, as in all_reduce_perf.log, "
            "or compare it with `chakra collective all-reduce --against`"
        )
    return (
        "the log has no `# Rank` lines, which say how many devices took part; keep nccl-tests' whole output, "
        "or compare it with `chakra collective --against` and --members"
    )


@dataclass
class _LoggedRun:
    """One run of a log while it is read."""

    name: str
    ranks: int = 0
    points: list[tuple[float, float]] = field(default_factory=list)

    @property
    def has_points(self) -> bool:
        return any(size > 0 and us > 0 for size, us in self.points)

    def plain(self) -> tuple[str, int, list[tuple[float, float]]]:
        points = sorted((size, us) for size, us in self.points if size > 0 and us > 0)
        return _NAMES.get(self.name, self.name.replace("_", "-")), self.ranks, points


MOST_PLACES = 48
"""Places tried for a cut. nccl-tests writes about thirty sizes by default, so every place is tried; in
longer tables the places are thinned out, as the fits of three ranges grow with their square."""
LEAST_GAIN = 0.002
"""Share of the times by which one more range must improve the fit; smaller gains only follow noise."""


def fit_ranges(points: Sequence[tuple[float, float]], most: int = 3) -> list[SizeRange]:
    """Up to `most` ranges that fit the points best; one more only where it reduces the error by a fifth."""
    best = _fit([list(points)])
    for count in range(2, most + 1):
        options = [_fit(parts) for parts in _cuts(list(points), count)]
        if not options:
            break
        better = min(options, key=_miss)
        if _miss(better) < min(0.8 * _miss(best), _miss(best) - LEAST_GAIN):
            best = better
    return best


def _miss(ranges: list[SizeRange]) -> float:
    return sum(r.error for r in ranges) / len(ranges)


def _cuts(points: list[tuple[float, float]], count: int) -> list[list[list[tuple[float, float]]]]:
    """Ways to cut the points into `count` runs of at least three points; a sample where there are many."""
    if count == 1:
        return [[points]] if len(points) >= 3 else []
    places = range(3, len(points) - 2)
    return [
        [points[:k], *rest]
        for k in places[:: 1 + len(places) // MOST_PLACES]
        for rest in _cuts(points[k:], count - 1)
    ]


def _fit(parts: list[list[tuple[float, float]]]) -> list[SizeRange]:
    return [_line(part) for part in parts]


def _line(points: list[tuple[float, float]]) -> SizeRange:
    """A line fitted by least squares of the relative error, with neither α nor the slope negative."""
    size, us = (np.array(c) for c in zip(*points, strict=True))
    columns = np.stack([1 / us, size / us], 1)
    alpha, slope = np.linalg.lstsq(columns, np.ones(len(us)), rcond=None)[0]
    if slope <= 0:
        alpha, slope = float(np.exp(np.log(us).mean())), 1e-12
    if alpha < 0:
        alpha, slope = 0.0, float((us / size).mean())
    error = float(np.abs((alpha + size * slope) / us - 1).mean())
    return SizeRange(float(size.max()), float(alpha), float(1 / slope), error)
