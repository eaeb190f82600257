"""Steps of a trace: as nodes say, or where work repeats."""

import numpy as np
import pytest

from chakrakit import TraceBuilder
from chakrakit.trace.model import EdgeKind
from chakrakit.trace.model.nesting import repeating_period


@pytest.mark.parametrize(
    ("names", "period"),
    [
        ("abcdabcdabcd", 4),
        ("abcdeabcde", 5),
        ("ababababab", 0),  # shorter than four: a loop inside a step
        ("abcdefgh", 0),
        ("", 0),
        ("abcdabcdaXcd", 0),  # one of eight differs: not alike enough
    ],
)
def test_where_names_repeat(names, period):
    assert repeating_period(np.frombuffer(names.encode(), np.uint8).astype(np.int32)) == period


def kernels(names, **fields):
    t = TraceBuilder()
    for i, name in enumerate(names):
        t.comp(name, start_time_ns=10 * i, duration_ns=5, stream=7, **fields)
    return t.build()


def test_marks_come_first():
    assert kernels("abcdabcd", step=3).step.tolist() == [3] * 8


def test_repetition_numbers_the_steps():
    assert kernels("abcdabcd").step.tolist() == [0] * 4 + [1] * 4


def test_without_either_there_are_no_steps():
    assert kernels("abcdefgh").step.tolist() == [-1] * 8


def test_without_a_device_the_hosts_innermost_rows_repeat():
    """Every `step` calls a, b, c and d; nothing else would repeat often enough to be numbered."""
    t = TraceBuilder()
    for i in range(2):
        t.comp("step", is_cpu_op=True, tid=1, start_ns=1000 * i, duration_ns=900)
        for k, name in enumerate("abcd"):
            start = 1000 * i + 100 * k + 1
            t.comp(name, is_cpu_op=True, tid=1, start_ns=start, duration_ns=50)
    assert t.build().step.tolist() == [0] * 5 + [1] * 5


def test_a_host_row_belongs_to_what_it_launches_next():
    """Host rows at 0, 40 and 80; the first two launch the first kernels of the two steps."""
    t = TraceBuilder()
    hosts = [
        t.comp("host", is_cpu_op=True, tid=1, start_time_ns=s, duration_ns=1) for s in (0, 40, 80)
    ]
    for i, name in enumerate("abcdabcd"):
        kernel = t.comp(name, start_time_ns=2 + 10 * i, duration_ns=5, stream=7)
        if i in (0, 4):
            t.edge(hosts[i // 4], kernel, EdgeKind.LAUNCH)
    assert t.build().step.tolist() == [0, 1, 1] + [0] * 4 + [1] * 4


def test_steps_that_work_told_stay_when_times_change():
    """The first step too, and rows that are in none."""
    trace = kernels("abcdabcd")
    later = trace.with_nesting().with_columns({"start_time_ns": [0] * 8})
    assert later.step.tolist() == trace.step.tolist() == [0] * 4 + [1] * 4
    assert later.has("step").all()
