"""A sweep: run the points of a study that are not finished, keep each as it comes, write the table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa

from chakrakit.errors import ConfigError
from chakrakit.exploration.sweep.findings import is_serving, varied
from chakrakit.exploration.sweep.measurement import SimulatedRow, measure
from chakrakit.exploration.sweep.points import PointGrid, StudyPoint, grid, is_captured
from chakrakit.exploration.sweep.served import ServedRow
from chakrakit.exploration.sweep.store import (
    POINTS,
    FinishedPoint,
    PointStore,
    table_of,
    write_table,
)
from chakrakit.exploration.sweep.study import SweepStudy
from chakrakit.parallel import ItemOutcome, Progress, check_engine, each, quiet
from chakrakit.results import Bars, Result
from chakrakit.trace.files import claimed

_BODIES = "bodies"
"""Where points share traces while a sweep runs; gigabytes that nobody needs when it is over."""
_TABLE = "table.parquet"


class SweepResult(Result, msgspec.Struct, kw_only=True):
    """What `chakra sweep --json` prints."""

    points: int
    done: int
    failed: int
    reused: int
    """Of the points, those that an earlier sweep had finished."""
    skipped: int
    """Infeasible combinations, left out as the study asks."""
    over_memory: int = 0
    """Points that were timed and do not fit their devices: no list of the best has them."""
    table: str
    """The file that has one row per point."""

    def to_arrow(self) -> pa.Table:
        """One row per point: the values of its axes, and what it came to."""
        import pyarrow.parquet as pq

        return pq.read_table(self.table)

    def picture(self) -> Bars | None:
        """The step of every point that fits, or what each serves, best first."""
        table = self.to_arrow()
        names, served = varied(table), is_serving(table)
        figure = "output_tokens_per_s_per_device" if served else "step_ns"
        if figure not in table.column_names:
            return None
        rows = [
            row for row in table.to_pylist() if row[figure] and row.get("fits", True) is not False
        ]
        rows.sort(key=lambda row: -row[figure] if served else row[figure])
        bars = [(" ".join(str(row[n]) for n in names), *_bar(row[figure], served)) for row in rows]
        return Bars("tokens/s per device" if served else "steps", bars)


def _bar(value: float, served: bool) -> tuple[float, str]:
    return (value, f"{value:,.0f}") if served else (value, f"{value / 1e6:,.1f} ms")


def sweep(
    study: SweepStudy,
    folder: str | Path,
    *,
    engine: str = "local",
    jobs: int | None = None,
    retry: bool = False,
    allow_programs: bool = False,
    progress: Progress = quiet,
) -> SweepResult:
    """Runs what is left of a study, in any number of sittings; `retry` runs failed points again too.

    A study that captures names a program, which runs only if `allow_programs` says so. All points
    are checked before the first one runs. Each is kept the moment it is finished, so that
    nothing but the points that were running is lost when this is stopped, however that happens.
    """
    check_engine(engine)
    if not allow_programs:
        _refuse_programs(study)
    point_grid = grid(study)
    place = Path(folder)
    _refuse_others(place)
    store = PointStore(place)
    with store.writing() as writer, claimed(place / _BODIES, folder=True) as bodies:
        finished = store.read()
        point_of_key = {p.key: p for p in point_grid.points}
        reused = {k: f for k, f in finished.items() if k in point_of_key and not _again(f, retry)}
        todo = _ordered([p for k, p in point_of_key.items() if k not in reused], study)
        total, finished_weight = sum(p.weight for p in todo), 0
        run = partial(measure, cache=bodies.resolve())
        for outcome in each(run, todo, engine, jobs):
            point = todo[outcome.index]
            result = _finished_point(point, outcome)
            writer.add(result)
            finished[point.key] = result
            progress(finished_weight := finished_weight + point.weight, total)
        write_table(table_of(point_grid.points, finished), place / _TABLE)
    return _result(point_grid, finished, reused, place)


def _refuse_programs(study: SweepStudy) -> None:
    """A study is a file, which may come from anybody; a program that it names would run as this user."""
    if is_captured(study.text.workload):
        command = str(study.text.workload["capture"])[:200]
        raise study.lines.error(
            ("workload", "capture"),
            f"the study would run the program {command!r}; if it may, give --allow-programs "
            "(allow_programs=True in Python)",
        )


def _refuse_others(place: Path) -> None:
    """Every sweep keeps its points beside its table: a table without them is somebody else's."""
    if (place / _TABLE).exists() and not (place / POINTS).exists():
        raise ConfigError(f"{place}: has a {_TABLE} that no sweep wrote; give another -o")


def _again(point: FinishedPoint, retry: bool) -> bool:
    return point.died or (retry and point.figures is None)


def _ordered(points: list[StudyPoint], study: SweepStudy) -> list[StudyPoint]:
    """Machine by machine: whoever comes second to a workload finds its traces made."""
    number = {m.name: i for i, m in enumerate(study.machines)}
    return sorted(points, key=lambda p: number[p.machine.name])


def _finished_point(
    point: StudyPoint, outcome: ItemOutcome[SimulatedRow | ServedRow]
) -> FinishedPoint:
    row, served = outcome.value, None
    if isinstance(row, ServedRow):
        row, served = None, row
    return FinishedPoint(
        key=point.key, row=row, served=served, error=outcome.error, died=outcome.died
    )


def _over_memory(table: Path) -> int:
    import pyarrow.parquet as pq

    points = pq.read_table(table)
    fits = points["fits"].to_pylist() if "fits" in points.column_names else []
    return sum(one is False for one in fits)


def _result(
    point_grid: PointGrid,
    finished: Mapping[str, FinishedPoint],
    reused: Mapping[str, FinishedPoint],
    place: Path,
) -> SweepResult:
    succeeded = sum(finished[p.key].figures is not None for p in point_grid.points)
    return SweepResult(
        points=len(point_grid.points),
        done=succeeded,
        failed=len(point_grid.points) - succeeded,
        reused=sum(p.key in reused for p in point_grid.points),
        skipped=point_grid.skipped,
        over_memory=_over_memory(place / _TABLE),
        table=str(place / _TABLE),
    )
