"""Kineto's JSON as columns: exact nanoseconds, categories old and new."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.errors import FormatError
from chakrakit.sources import link
from chakrakit.sources.pytorch.read import Kind, check_clock, check_span, read_kineto
from chakrakit.trace.timing import CLOCK_NS, HORIZON_NS


def _kineto(*events: str) -> bytes:
    return ('{"traceEvents": [' + ",".join(events) + "]}").encode()


def _op(name: str, ts: str, dur: str) -> str:
    return (
        f'{{"ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 1, "tid": 1, "ts": {ts}, '
        f'"dur": {dur}, "args": {{"Record function id": 3}}}}'
    )


@pytest.mark.parametrize(
    ("ts", "dur", "start", "end"),
    [
        ("3857487213690.712", "0.001", 3857487213690712, 3857487213690713),
        ("3857487213690", "5", 3857487213690000, 3857487213695000),
        ("10.5", "0.0004", 10500, 10500),
        ("10.0006", "1", 10001, 11001),
        ("1.5e3", "2", 1500000, 1502000),
    ],
)
def test_times_are_exact_to_the_nanosecond(ts, dur, start, end):
    """Microseconds with decimals go to integers digit by digit; a double would lose the last."""
    k = read_kineto(_kineto(_op("a", ts, dur)))
    assert (int(k.start[0]), int(k.end[0])) == (start, end)


def test_categories_become_kinds_old_spelling_too():
    events = [_op("a", "1", "1").replace("cpu_op", c) for c in ("cpu_op", "Operator", "gpu_memset")]
    assert read_kineto(_kineto(*events)).kind.tolist() == [
        Kind.OPERATOR,
        Kind.OPERATOR,
        Kind.MEMSET,
    ]


def test_unicode_escapes_in_names():
    k = read_kineto(_kineto(_op("\\u00e9\\ud83d\\ude00\\n", "1", "1")))
    assert k.texts[k.name[0]] == "é😀\n"


def test_rows_of_mtia_run_on_the_process_and_thread_they_are_drawn_on(tmp_path):
    """Its device rows name neither device nor stream; a launch and its work share a correlation."""
    row = (
        '{{"ph": "X", "cat": "{}", "name": "{}", "pid": {}, "tid": {}, "ts": {}, "dur": {}, '
        '"args": {{"correlation": 5}}}}'
    )
    events = [
        _op("aten::mm", "1", "9"),
        row.format("mtia_runtime", "mtiaLaunchKernel", 1, 1, 2, 3),
        row.format("mtia_ccp_events", "fba_matmul", 3, 2, 6, 20),
        row.format("mtia_insight", "counter", 3, 2, 6, 1),
    ]
    kineto = read_kineto(_kineto(*events))
    assert kineto.kind.tolist()[:3] == [Kind.OPERATOR, Kind.CALL, Kind.KERNEL]
    assert (int(kineto.device[2]), int(kineto.stream[2])) == (3, 2)
    (tmp_path / "kineto.json").write_bytes(_kineto(*events))
    _, report = link([tmp_path])
    (rank,) = report.ranks
    assert (rank.device_time_ns.linked, rank.edges["launch"]) == (20_000, 1)


@pytest.mark.parametrize(
    ("start", "duration", "base", "problem"),
    [
        (CLOCK_NS, 0, 0, ""),
        (-CLOCK_NS, CLOCK_NS, CLOCK_NS, ""),
        (CLOCK_NS + 1, 0, 0, "event 1 has a time"),
        (-CLOCK_NS - 1, 0, 0, "event 1 has a time"),
        (0, -1, 0, "event 1 has a time"),
        (0, CLOCK_NS + 1, 0, "event 1 has a time"),
        (0, 0, -1, "its clock began at a time"),
        (0, 0, CLOCK_NS + 1, "its clock began at a time"),
    ],
)
def test_times_are_read_as_far_as_a_clock_goes(start, duration, base, problem):
    starts, durations = np.array([0, start, 0]), np.array([0, duration, 0])
    if not problem:
        check_clock(starts, durations, base, "file")
        return
    with pytest.raises(FormatError, match=f"{problem} that no clock shows"):
        check_clock(starts, durations, base, "file")


def test_an_event_far_from_the_others_is_named_with_its_days():
    day = 86_400 * 10**9
    starts = np.array([0, 10, 200 * day, 20])
    with pytest.raises(
        FormatError, match=r"event 2 is 200\.0 days from the others and lasts 3\.0; a"
    ):
        check_span(starts, np.array([5, 5, 3 * day, 5]), "file")
    check_span(np.array([0, HORIZON_NS - 5]), np.array([5, 5]), "file")
