"""Measuring a study: every side chooses its setting on some seeds and is judged on others.

The seeds are the same for all sides, so that gains are paired. Points are measured here, on workers or on a
cluster, and kept in a file as they finish: a study that was killed goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import inspect
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from chakrakit.errors import ConfigError
from chakrakit.parallel import Progress, Workers, quiet, spread
from chakrakit.published.judged import Judged, Phase, Row, key_of
from chakrakit.published.named import named_study
from chakrakit.published.study import JUDGED_SEEDS, TUNING_SEEDS, Case, Setting, Study
from chakrakit.trace.files import AppendedLines, appending

POINTS = "points.jsonl"
RESERVED = ("phase", "case", "side", "setting", "seed", "error")
"""Columns of a table that no figure can be called."""
QUICK_JUDGED, QUICK_TUNING = JUDGED_SEEDS[:2], TUNING_SEEDS[:1]
"""A quick run is there to see that a study works; all seeds, and two for tuning, are for its verdict."""


@dataclass(frozen=True)
class Trial:
    """One measurement of a study; several sides may ask for the same."""

    study: str
    case: dict[str, Any]
    setting: dict[str, Any]
    seed: int

    @property
    def key(self) -> str:
        """The same for the same measurement."""
        return f"{key_of(self.case)} {key_of(self.setting)} {self.seed}"


class TrialResult(msgspec.Struct, frozen=True):
    """A point that was measured. Figures are text, as JSON knows no infinity."""

    key: str
    figures: dict[str, str]
    error: str = ""
    stamp: int = 0
    """Of the files of the study's family: a point of another version of them does not count."""


def stamp_of(study: Study) -> int:
    """Differs when the study's file does, or one beside it that it may use."""
    files = sorted(Path(inspect.getfile(study.measure)).parent.glob("*.py"))
    return zlib.crc32(b"".join(file.read_bytes() for file in files))


def measured(point: Trial) -> TrialResult:
    """Runs in a worker: a measurement that raises is a result like any other."""
    study = named_study(point.study)
    try:
        figures = study.measure(point.case, point.setting, point.seed)
        for name in set(RESERVED) & set(figures):
            raise ConfigError(f"a figure cannot be called {name!r}")
        return TrialResult(point.key, {name: repr(float(value)) for name, value in figures.items()})
    except Exception as error:
        text = " ".join(str(error).split())
        return TrialResult(point.key, {}, f"{point.key}: {type(error).__name__}: {text}")


class Points:
    """What is measured so far, and, where it is kept, the lines of the file that keeps it."""

    def __init__(
        self,
        workers: Workers | None,
        finished: dict[str, TrialResult],
        lines: AppendedLines | None = None,
        stamp: int = 0,
    ) -> None:
        self._workers = workers
        self._finished = finished
        self._lines = lines
        self._stamp = stamp

    def measure(self, points: Sequence[Trial], progress: Progress) -> None:
        """Measures those that are not yet."""
        left = {p.key: p for p in points if p.key not in self._finished}
        for done, one in enumerate(spread(measured, left.values(), self._workers), 1):
            self._keep(one)
            progress(len(points) - len(left) + done, len(points))

    def _keep(self, one: TrialResult) -> None:
        self._finished[one.key] = one
        if self._lines is None or one.error:
            return  # what raised is tried again
        self._lines.add(msgspec.json.encode(msgspec.structs.replace(one, stamp=self._stamp)))

    def row(self, phase: Phase, side: str, point: Trial) -> Row:
        """A measurement as a row of the study's table."""
        one = self._finished[point.key]
        figures = {name: float(text) for name, text in one.figures.items()}
        return Row(phase, point.case, side, point.setting, point.seed, figures, one.error)


@contextlib.contextmanager
def kept_points(study: Study, folder: Path | None, workers: Workers | None) -> Iterator[Points]:
    """Points that a folder keeps, where one is given: only one run at a time writes there."""
    if folder is None:
        yield Points(workers, {})
        return
    path, stamp = folder / POINTS, stamp_of(study)
    with appending(path, "study") as lines:
        yield Points(workers, _read(path, stamp), lines, stamp)


def _read(path: Path, stamp: int) -> dict[str, TrialResult]:
    """What an earlier run of the same study finished."""
    try:
        lines = [
            msgspec.json.decode(line, type=TrialResult) for line in path.read_bytes().splitlines()
        ]
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f"{path}: not the points of a study ({error}); remove the file, and they are measured again"
        ) from None
    return {one.key: one for one in lines if one.stamp == stamp}


def measure_study(
    study: Study,
    *,
    quick: bool = False,
    folder: Path | None = None,
    workers: Workers | None = None,
    progress: Progress = quiet,
) -> Judged:
    """Tunes every side, the idea without its key lines included, and judges it on other seeds."""
    with kept_points(study, folder, workers) as points:
        return _judged(study, points, quick, progress)


def _judged(study: Study, points: Points, quick: bool, progress: Progress) -> Judged:
    cases = [dict(case) for case in study.cases(quick)]
    sides = {**study.sides, **study.ablated()}
    tuning: Sequence[int] = QUICK_TUNING if quick else TUNING_SEEDS
    judging: Sequence[int] = QUICK_JUDGED if quick else range(study.judged_seeds)
    tries = [
        (side, point)
        for case in cases
        for side, settings in sides.items()
        if len(settings) > 1  # else there is nothing to choose
        for setting in settings
        for point in _points(study, case, setting, tuning)
    ]
    points.measure([p for _, p in tries], progress)
    rows = [points.row("tuning", side, point) for side, point in tries]
    final = [
        (side, point)
        for case in cases
        for side, settings in sides.items()
        for point in _points(study, case, _best(study, rows, case, side, settings), judging)
    ]
    points.measure([p for _, p in final], progress)
    return Judged(study, rows + [points.row("judged", side, point) for side, point in final])


def _points(study: Study, case: Case, setting: Setting, seeds: Iterable[int]) -> list[Trial]:
    return [Trial(study.id, dict(case), dict(setting), seed) for seed in seeds]


def _best(
    study: Study, rows: Sequence[Row], case: Case, side: str, choice: Sequence[Setting]
) -> Setting:
    """The setting with the best mean; of equals, and where all raised, the first."""
    if len(choice) == 1:
        return choice[0]
    name, direction = study.better
    worst = np.inf if direction == "min" else -np.inf
    values: dict[str, list[float]] = {}
    settings: dict[str, Setting] = {}
    for row in rows:
        if row.side == side and row.case == case:
            key = key_of(row.setting)
            settings[key] = row.setting
            values.setdefault(key, []).append(row.figures.get(name, worst))
    best = min if direction == "min" else max
    return settings[best(values, key=lambda key: float(np.mean(values[key])))]
