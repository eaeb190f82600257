"""Any tracer's events as the columns that Kineto's reader gives."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.errors import FormatError
from chakrakit.sources.activities import Activities, TextTable
from chakrakit.sources.pytorch.read import Kind


def test_events_keep_their_order_and_unknown_numbers_are_minus_one():
    events = Activities()
    first = events.add(Kind.KERNEL, ["k1", "k2"], [10, 20], [15, 30], stream=7, correlation=[1, 2])
    second = events.add(Kind.CALL, ["launch"], [5], [8], tid=3)
    found = events.kineto(base_ns=1_000)
    assert (first, second, len(found)) == (0, 2, 3)
    assert [found.texts[n] for n in found.name] == ["k1", "k2", "launch"]
    assert found.kind.tolist() == [Kind.KERNEL, Kind.KERNEL, Kind.CALL]
    assert found.duration.tolist() == [5, 10, 3]
    assert (found.stream.tolist(), found.correlation.tolist()) == ([7, 7, -1], [1, 2, -1])
    assert (found.tid.tolist(), found.base_ns) == ([-1, -1, 3], 1_000)


def test_a_lost_end_is_the_start():
    events = Activities()
    events.add(Kind.KERNEL, ["k"], [100], [0])
    assert events.kineto(0).end.tolist() == [100]


def test_facts_of_few_events_and_what_is_left_out():
    events = Activities()
    events.add(Kind.KERNEL, ["a", "b"], [0, 1], [1, 2], grid=["[1, 1, 1]", ""])
    events.say(1, "hlo_op", "dot.1")
    events.leave_out("markers", 3)
    events.leave_out("nothing", 0)
    found = events.kineto(0, host_name="node", truncated=True)
    assert found.extras.column("hlo_op") == {1: "dot.1"}
    assert [found.texts[n] for n in found.text_columns["grid"]] == ["[1, 1, 1]", ""]
    assert (found.left_out, found.host_name, found.truncated) == ({"markers": 3}, "node", True)


def test_no_events_are_no_rows():
    found = Activities().kineto(0)
    assert (len(found), found.kind.dtype, found.start.dtype) == (0, np.int8, np.int64)


def test_a_number_of_more_than_64_bits_is_an_error_of_the_file():
    with pytest.raises(FormatError, match=r"a number \(start\) does not fit into 64 bits") as error:
        Activities(path="report.json").add(Kind.KERNEL, ["k"], [1 << 70], [0])
    assert error.value.path == "report.json"


def test_a_time_that_no_clock_shows_is_an_error_of_the_file():
    events = Activities(path="report.json")
    events.add(Kind.KERNEL, ["k"], [1 << 62], [1 << 62])
    with pytest.raises(FormatError, match="event 0 has a time that no clock shows"):
        events.kineto(0)


def test_equal_texts_have_one_number_and_the_empty_one_is_zero():
    table = TextTable()
    assert table.numbers(["a", "", "b", "a"]).tolist() == [1, 0, 2, 1]
    assert table.number("b") == 2
    assert table.texts().strings == ["", "a", "b"]
