"""Turns files of measurements into a file for the simulator, and reports how well it fits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from chakrakit.errors import TraceError
from chakrakit.machines.aiconfigurator import performance_tables, profile_from_tables
from chakrakit.machines.calibrate import (
    merge_profiles,
    network_from_nccl_tests,
    profile_from_micro,
    profile_from_trace,
)
from chakrakit.machines.collective_tables import LibraryReport, calibrate_library
from chakrakit.machines.device import ClassModel, Profile, write_profile
from chakrakit.machines.fabric import Machine
from chakrakit.machines.operator_tables import is_operator_table, profile_from_operators
from chakrakit.results import Result
from chakrakit.trace.files import replacing


class FitReport(Result, msgspec.Struct, kw_only=True):
    """The fit of one class of a profile: errors in predicting each row from the others."""

    operation: str
    rows: int
    median_error: float | None
    error_90: float | None
    """Nine rows in ten have a smaller error."""


class RangeReport(Result, msgspec.Struct, kw_only=True):
    """One range of sizes of a network model."""

    collective: str
    ranks: int
    most_bytes: int
    alpha_us: float
    gb_per_s: float
    mean_error: float


class CalibrationReport(Result, msgspec.Struct, kw_only=True, omit_defaults=True):
    """What was fitted and how well: a profile's classes, a network model's ranges or a library."""

    fitted_on: list[str]
    classes: list[FitReport] = []
    ranges: list[RangeReport] = []
    collectives: list[LibraryReport] = []
    """The fit of a communication library's constants, by collective."""
    left_out: dict[str, int] = {}
    """Rows of tables that no class of a profile stands for, by file and reason."""


def calibrate_profile(sources: Sequence[Path], output: Path) -> CalibrationReport:
    """Writes the profile; returns the number of rows and the leave-one-out error of each class."""
    left_out: dict[str, int] = {}
    parts = [p for source in sources for p in _profiles(source, left_out)]
    profile = merge_profiles(parts, output.stem)
    if not any(profile.classes.values()):
        raise TraceError(
            f"{', '.join(str(s) for s in sources)}: no operation has both a shape and a time, so there "
            "is nothing to fit; give microbenchmarks or a linked trace (chakra link)"
        )
    write_profile(profile, output)
    classes = [_fit(name, ClassModel(tuple(rows))) for name, rows in profile.classes.items()]
    return CalibrationReport(fitted_on=profile.fitted_on, classes=classes, left_out=left_out)


def _profiles(source: Path, left_out: dict[str, int]) -> list[Profile]:
    if tables := performance_tables(source):
        kernels = profile_from_tables(tables)
        left_out |= kernels.left_out
        return [kernels.profile]
    if source.suffix == ".json" and source.is_file():
        read_profile = profile_from_operators if is_operator_table(source) else profile_from_micro
        return [read_profile(source)]
    from chakrakit.trace.storage import read

    return [profile_from_trace(trace, f"{source.name} rank {rank}") for rank, trace in read(source)]


def _fit(name: str, model: ClassModel) -> FitReport:
    few = len(model.rows) < 3
    missed = np.abs(np.expm1(model.leave_one_out)) if not few else np.zeros(1)
    return FitReport(
        operation=name,
        rows=len(model.rows),
        median_error=None if few else float(np.median(missed)),
        error_90=None if few else float(np.quantile(missed, 0.9)),
    )


def calibrate_network(sources: Sequence[Path], output: Path) -> CalibrationReport:
    """Writes the network model; returns its ranges."""
    model = network_from_nccl_tests(sources)
    with replacing(output) as temporary:
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(model), indent=1) + b"\n")
    ranges = [
        RangeReport(
            collective=name,
            ranks=ranks,
            most_bytes=round(r.most),
            alpha_us=r.alpha_us,
            gb_per_s=r.bytes_per_us / 1e3,
            mean_error=r.error,
        )
        for name, by_ranks in model.collectives.items()
        for ranks, parts in by_ranks.items()
        for r in parts
    ]
    return CalibrationReport(fitted_on=model.fitted_on, ranges=ranges)


def calibrate_collectives(
    sources: Sequence[Path], machine: Machine, output: Path
) -> CalibrationReport:
    """Writes the constants of the machine's communication library; returns how well they fit."""
    reports = calibrate_library(sources, machine, output)
    return CalibrationReport(fitted_on=[s.name for s in sources], collectives=reports)
