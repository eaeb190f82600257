"""Measured collectives beside what is expected of the machine: what is slower, and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from chakrakit.machines.fabric import Machine
from chakrakit.machines.residuals import BETWEEN_NODES, Contribution, collective_group, interval_of
from chakrakit.simulator.collectives import GroupShape, ideal_seconds, shapes
from chakrakit.simulator.results.collective_table import (
    CollectiveRow,
    CollectiveTable,
    MeasuredTime,
    devices_of,
)


def beside_measured(
    table: CollectiveTable,
    machine: Machine,
    members: int | Sequence[int],
    measured_us: Mapping[int, float],
) -> CollectiveTable:
    """The table with the measured time of each size, and notes that name what lies outside its interval."""
    shape = shapes(machine, devices_of(machine, members)[None])[0]
    measured = [_beside(row, machine, shape, measured_us[row.bytes]) for row in table.rows]
    notes = [*_verdict(measured, table.rows), *table.notes]
    return msgspec.structs.replace(table, measured=measured, notes=notes)


def _beside(
    row: CollectiveRow, machine: Machine, shape: GroupShape, measured_us: float
) -> MeasuredTime:
    leaves = shape.span is not None and shape.span.nodes > 1
    system = BETWEEN_NODES if leaves else machine.name.partition(":")[0]
    seconds = row.time_us * 1e-6
    expected = Contribution(
        collective_group(system, row.collective, seconds),
        row.collective,
        seconds,
        ideal_seconds(row.collective, row.bytes, shape),
    )
    found = interval_of(seconds, [expected])
    low, high = (0.0, 0.0) if found is None else (found.low_ns / 1e3, found.high_ns / 1e3)
    return MeasuredTime(
        bytes=row.bytes,
        measured_us=measured_us,
        expected_us=row.time_us,
        ratio=measured_us / row.time_us,
        interval_us=None if found is None else (low, high),
        verdict=(
            "unknown"
            if found is None
            else "slower"
            if measured_us > high
            else "faster"
            if measured_us < low
            else "expected"
        ),
        busbw_gbs=row.busbw_gbs * row.time_us / measured_us,
    )


def _verdict(measured: Sequence[MeasuredTime], rows: Sequence[CollectiveRow]) -> list[str]:
    """What lies outside of its interval: runs of sizes that are slower, and of sizes that are faster."""
    if all(m.verdict == "unknown" for m in measured):
        return ["no interval is known for this machine and collective: judge by the ratios"]
    bus = {row.bytes: row.busbw_gbs for row in rows}
    notes = []
    for side in ("slower", "faster"):
        for part in _stretches(measured, side):
            far = (max if side == "slower" else min)(part, key=lambda m: m.ratio)
            sizes = f"{part[0].bytes:,}" + (f" to {part[-1].bytes:,}" if len(part) > 1 else "")
            notes.append(
                f"{side} than expected: {sizes} bytes, most at {far.bytes:,} with {far.ratio:.2f} times the "
                f"expected time; busbw {far.busbw_gbs:,.1f} for {bus[far.bytes]:,.1f} GB/s"
            )
    return notes or [f"as expected: all {len(measured)} sizes lie in their intervals"]


def _stretches(measured: Sequence[MeasuredTime], verdict: str) -> list[list[MeasuredTime]]:
    """The times of one verdict, those side by side together."""
    parts: list[list[MeasuredTime]] = []
    for i, each in enumerate(measured):
        if each.verdict == verdict and i and measured[i - 1].verdict == verdict:
            parts[-1].append(each)
        elif each.verdict == verdict:
            parts.append([each])
    return parts
