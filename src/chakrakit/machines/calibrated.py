"""From files of measurements to a file for the simulator, with a table of how well it fits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from chakrakit.machines.calibrate import (
    merge_profiles,
    network_from_nccl_tests,
    profile_from_micro,
    profile_from_trace,
)
from chakrakit.machines.profile import ClassModel, Profile, write_profile


def calibrate_profile(sources: Sequence[Path], output: Path) -> list[dict[str, Any]]:
    """Writes the profile; returns each class with its rows and leave-one-out error."""
    parts = [p for source in sources for p in _profiles(source)]
    profile = merge_profiles(parts, output.stem)
    write_profile(profile, output)
    return [_fit_row(name, ClassModel(tuple(rows))) for name, rows in profile.classes.items()]


def _profiles(source: Path) -> list[Profile]:
    if source.suffix == ".json" and source.is_file():
        return [profile_from_micro(source)]
    from chakrakit.trace.store import read

    return [profile_from_trace(trace, f"{source.name} rank {rank}") for rank, trace in read(source)]


def _fit_row(name: str, model: ClassModel) -> dict[str, Any]:
    missed = np.abs(np.expm1(model.leave_one_out)) if len(model.rows) > 2 else np.array([np.nan])
    return {
        "class": name,
        "rows": len(model.rows),
        "median error": f"{np.median(missed):.1%}",
        "90 % below": f"{np.quantile(missed, 0.9):.1%}",
    }


def calibrate_network(sources: Sequence[Path], output: Path) -> list[dict[str, Any]]:
    """Writes the network model; returns its ranges."""
    model = network_from_nccl_tests(sources)
    output.write_bytes(msgspec.json.format(msgspec.json.encode(model), indent=1) + b"\n")
    return [
        {"collective": name, "ranks": ranks, "up to bytes": round(r.most), "alpha us": f"{r.alpha_us:.2f}",
         "GB/s": f"{r.bytes_per_us / 1e3:.2f}", "mean error": f"{r.error:.1%}"}
        for name, by_ranks in model.collectives.items()
        for ranks, ranges in by_ranks.items()
        for r in ranges
    ]  # fmt: skip
