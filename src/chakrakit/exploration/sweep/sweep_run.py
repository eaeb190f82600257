"""A sweep: run the points of a study that are not finished, keep each as it comes, write the table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.exploration.sweep.measurement import Row, measure
from chakrakit.exploration.sweep.points import Grid, Point, grid
from chakrakit.exploration.sweep.served import ServedRow
from chakrakit.exploration.sweep.store import POINTS, Finished, Store, table_of, write_table
from chakrakit.exploration.sweep.study import Study
from chakrakit.parallel import Outcome, Progress, check_engine, each, quiet
from chakrakit.results import Result
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
    """Combinations that cannot be, left out as the study asks."""
    table: str


def sweep(
    study: Study,
    folder: str | Path,
    *,
    engine: str = "local",
    jobs: int | None = None,
    retry: bool = False,
    progress: Progress = quiet,
) -> SweepResult:
    """Runs what is left of a study, in any number of sittings; `retry` runs failed points again too.

    All points are checked before the first one runs. Each is kept the moment it is finished, so that
    nothing but the points that were running is lost when this is stopped, however that happens.
    """
    check_engine(engine)
    made = grid(study)
    place = Path(folder)
    _refuse_others(place)
    store = Store(place)
    with store.writing() as writer, claimed(place / _BODIES, folder=True) as bodies:
        finished = store.read()
        wanted = {p.key: p for p in made.points}
        kept = {k: f for k, f in finished.items() if k in wanted and not _again(f, retry)}
        todo = _ordered([p for k, p in wanted.items() if k not in kept], study)
        total, done = sum(p.weight for p in todo), 0
        run = partial(measure, cache=bodies.resolve())
        for outcome in each(run, todo, engine, jobs):
            point = todo[outcome.index]
            one = _finished(point, outcome)
            writer.add(one)
            finished[point.key] = one
            progress(done := done + point.weight, total)
        write_table(table_of(made.points, finished), place / _TABLE)
    return _result(made, finished, kept, place)


def _refuse_others(place: Path) -> None:
    """Every sweep keeps its points beside its table: a table without them is somebody else's."""
    if (place / _TABLE).exists() and not (place / POINTS).exists():
        raise ConfigError(f"{place}: has a {_TABLE} that no sweep wrote; give another -o")


def _again(one: Finished, retry: bool) -> bool:
    return one.died or (retry and one.figures is None)


def _ordered(points: list[Point], study: Study) -> list[Point]:
    """Machine by machine: whoever comes second to a workload finds its traces made."""
    number = {m.name: i for i, m in enumerate(study.machines)}
    return sorted(points, key=lambda p: number[p.machine.name])


def _finished(point: Point, outcome: Outcome[Row | ServedRow]) -> Finished:
    row, served = outcome.value, None
    if isinstance(row, ServedRow):
        row, served = None, row
    return Finished(key=point.key, row=row, served=served, error=outcome.error, died=outcome.died)


def _result(
    made: Grid, finished: Mapping[str, Finished], kept: Mapping[str, Finished], place: Path
) -> SweepResult:
    done = sum(finished[p.key].figures is not None for p in made.points)
    return SweepResult(
        points=len(made.points),
        done=done,
        failed=len(made.points) - done,
        reused=sum(p.key in kept for p in made.points),
        skipped=made.skipped,
        table=str(place / _TABLE),
    )
