"""The engine's inputs own their arrays, and what does not fit together is refused before it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chakrakit.core as core

ROWS = 3


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def workload(**changes: Any) -> dict[str, Any]:
    """A chain of three rows of 10, 20 and 30 ps on one device."""
    arrays = {
        "src": i32(0, 1),
        "dst": i32(1, 2),
        "form": np.zeros(2, np.int8),
        "lag": i64(0, 0),
        "duration": i64(10, 20, 30),
        "kind": np.zeros(ROWS, np.int8),
        "lane": i32(-1, -1, -1),
        "order": i64(0, 1, 2),
        "priority": i32(0, 0, 0),
        "share": i32(0, 0, 0),
        "waves": i64(1, 1, 1),
        "demand": i32(0, 0, 0),
        "launch_of": i32(-1, -1, -1),
        "instance": i32(-1, -1, -1),
        "after": i64(),
        "release": i64(),
        "device": i32(0, 0, 0),
        "lane_kind": np.zeros(0, np.int8),
        "comm_slowdown": np.zeros(1),
        "fair": False,
        "queue_depth": 0,
        "needed": i32(),
        "overhead": i64(),
        "instance_jobs": i64(0),
        "job_plan": i32(),
        "job_gate": i32(),
        "job_order": i64(),
        "gate_slots": i32(),
        "job_priority": i32(),
        "job_weight": i32(),
        "fault_time": i64(),
        "fault_is_link": np.zeros(0, np.int8),
        "fault_target": i32(),
        "fault_factor": np.zeros(0),
    }
    return arrays | changes


NO_PLANS: dict[str, Any] = {
    "plan_steps": i64(0),
    "repeat": i64(),
    "after_offsets": i64(0),
    "after": i32(),
    "step_transfers": i64(0),
    "route": i32(),
    "bytes": np.zeros(0),
    "delay": i64(),
}
NO_LINKS: dict[str, Any] = {"bandwidth": np.zeros(0), "route_offsets": i64(0), "route_links": i32()}


def run(rows: core.SimWorkload) -> dict[str, Any]:
    return core.sim_run(
        rows, core.SimPlans(**NO_PLANS), core.SimTopology(**NO_LINKS), flow=True, pick=None
    )


def test_arrays_may_change_or_go_once_the_input_is_made() -> None:
    arrays = workload()
    rows = core.SimWorkload(**arrays)
    arrays["src"][:] = 1_000_000
    arrays["duration"][:] = -1
    del arrays
    assert run(rows)["end"].tolist() == [10, 30, 60]
    assert run(rows)["end"].tolist() == [10, 30, 60]
    assert rows.rows == ROWS


def test_arrays_of_another_type_or_stride_are_converted_and_kept() -> None:
    arrays = workload(duration=np.array([10, 20, 30], np.int32), lag=np.arange(4)[::2] * 0)
    assert run(core.SimWorkload(**arrays))["end"].tolist() == [10, 30, 60]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dst": i32(1)}, "dst has 1 entries; there are 2 edges"),
        ({"dst": i32(1, 3)}, r"dst\[1\] is 3; it must be from 0 to 2"),
        ({"duration": i64(1, -2, 3)}, r"duration\[1\] is -2; it must be from 0 to"),
        ({"instance_jobs": i64(0, 1)}, "instance_jobs has 2 entries"),
        ({"lane": i32(0, -1, -1)}, r"lane\[0\] is 0"),
    ],
)
def test_what_does_not_fit_together_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        core.SimWorkload(**workload(**changes))


def test_references_between_inputs_are_checked_before_the_run() -> None:
    rows = core.SimWorkload(
        **workload(needed=i32(1), overhead=i64(0), instance_jobs=i64(0, 1), job_plan=i32(5))
    )
    with pytest.raises(ValueError, match=r"job_plan\[0\] is 5"):
        run(rows)


def test_an_array_that_is_missing_or_unknown_is_refused() -> None:
    arrays = workload()
    del arrays["waves"]
    with pytest.raises(TypeError, match="incompatible function arguments"):
        core.SimWorkload(**arrays)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        core.SimWorkload(**workload(speed=i64(1)))
