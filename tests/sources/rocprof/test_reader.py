"""rocprofv3's JSON: kernels by their symbols, calls by their correlation, other buffers counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chakrakit.errors import FormatError
from chakrakit.sources import link
from chakrakit.sources.pytorch.linking import LinkOptions
from chakrakit.sources.rocprof import read_processes

RECORDED = LinkOptions(as_recorded=True)


def dispatch(number: int, start: int, end: int, stream: int = 1) -> dict[str, Any]:
    size = {"x": 256, "y": 1, "z": 1}
    return {
        "kind": 2,
        "operation": 0,
        "thread_id": 7,
        "correlation_id": {"internal": number},
        "start_timestamp": start,
        "end_timestamp": end,
        "stream_id": {"handle": stream},
        "dispatch_info": {
            "agent_id": {"handle": 90},
            "queue_id": {"handle": 4},
            "kernel_id": 5,
            "workgroup_size": size,
            "grid_size": {"x": 1024, "y": 1, "z": 1},
        },
    }


def call(number: int, start: int, end: int) -> dict[str, Any]:
    return {
        "kind": 1,
        "operation": 0,
        "thread_id": 7,
        "correlation_id": {"internal": number},
        "start_timestamp": start,
        "end_timestamp": end,
    }


def recording(**buffers: list[dict[str, Any]]) -> dict[str, Any]:
    kinds = [
        {"kind": "NONE", "operations": []},
        {"kind": "HIP_RUNTIME_API", "operations": ["hipLaunchKernel"]},
    ]
    return {
        "rocprofiler-sdk-tool": [
            {
                "metadata": {"pid": 3, "node": {"hostname": "box"}},
                "agents": [
                    {"id": {"handle": 80}, "type": 1},
                    {"id": {"handle": 90}, "type": 2, "product_name": "MI300X"},
                ],
                "strings": {"buffer_records": kinds},
                "kernel_symbols": [{"kernel_id": 5, "formatted_kernel_name": "gemm"}],
                "buffer_records": buffers,
            }
        ]
    }


def written(folder: Path, said: dict[str, Any]) -> Path:
    path = folder / "results.json"
    path.write_text(json.dumps(said))
    return path


def test_kernels_follow_their_launches(tmp_path: Path) -> None:
    said = recording(
        hip_api=[call(1, 1000, 5000), call(2, 6000, 9000)],
        kernel_dispatch=[dispatch(1, 9_000, 29_000), dispatch(2, 30_000, 50_000)],
        scratch_memory=[{}],
    )

    run, report = link([written(tmp_path, said)], RECORDED)

    (rank,) = report.ranks
    assert rank.edges["launch"] == rank.device_activities.linked == 2
    assert rank.device_time_ns.linked == 40_000
    assert rank.left_out_events == {"scratch_memory": 1}
    assert rank.measured_span_ns == rank.scheduled_span_ns == 49_000
    assert run.trace(0).names.to_pylist() == ["hipLaunchKernel", "hipLaunchKernel", "gemm", "gemm"]


def test_a_recording_of_kernels_alone_is_a_run_too(tmp_path: Path) -> None:
    said = recording(kernel_dispatch=[dispatch(1, 0, 20_000), dispatch(2, 25_000, 50_000)])

    _, report = link([written(tmp_path, said)], RECORDED)

    (rank,) = report.ranks
    assert rank.measured_span_ns == rank.scheduled_span_ns == 50_000
    assert rank.orphans == 0


def test_grids_are_told_in_blocks() -> None:
    (trace,) = read_processes(json.dumps(recording(kernel_dispatch=[dispatch(1, 0, 9)])).encode())

    assert trace.texts[int(trace.text_columns["grid"][0])] == "[4, 1, 1]"


@pytest.mark.parametrize(
    "data",
    [
        b'{"rocprofiler-sdk-tool": [{"metadata": {}}]}',
        b'{"rocprofiler-sdk-tool": 3}',
        b'{"rocprofiler-sdk-tool": [{"buffer_records": {"kernel_dispatch": [{"kind"',
    ],
)
def test_damaged_files_end_in_one_error(data: bytes) -> None:
    with pytest.raises(FormatError, match="not a JSON file of rocprofv3"):
        read_processes(data)


def test_a_recording_in_which_nobody_did_anything_is_refused(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps(recording() | {"rocprofiler-sdk-tool": []}))

    with pytest.raises(FormatError, match="nothing to link"):
        link([tmp_path / "results.json"], RECORDED)
