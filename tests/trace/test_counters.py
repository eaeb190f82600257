"""Counters: typed tables with units, the same when written and read."""

import numpy as np
import pytest

from chakrakit import TraceBuilder, TraceSet, read, write
from chakrakit.errors import ChakraError, TraceError
from chakrakit.trace.sets import Counters, Times, run_of


def a_run(counters):
    t = TraceBuilder()
    t.comp("a", duration_ns=10)
    times = Times(np.array([0]), np.array([10]))
    return run_of(TraceSet([t.build()]), {0: times}, counters)


def test_a_series_has_its_unit_and_its_labels():
    table = {"rank": [0, 0, 1], "time_ns": [5, 0, 0], "queue": ["p", "p", "p"], "depth": [1, 2, 3]}
    [series] = Counters({"queue_depth": table}).series(0)
    assert (series.name, series.unit) == ("queue depth p", "items")
    assert series.time_ns.tolist() == [0, 5]
    assert series.value.tolist() == [2, 1]


def test_what_may_be_left_out_has_a_default():
    table = Counters({"links": {"link": ["0"], "bytes": [8], "busy_ns": [1]}})["links"]
    assert table.to_pylist() == [
        {
            "link": "0",
            "rank": -1,
            "src": "",
            "dst": "",
            "bytes": 8.0,
            "busy_ns": 1.0,
            "messages": -1,
            "bandwidth": 0.0,
            "utilization": 0.0,
            "full_rate": -1.0,
            "full_since_ns": 0.0,
        }
    ]
    assert table.schema.field("bytes").metadata == {b"unit": b"bytes"}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"rank": [0], "time": [0], "bytes": [1]}, "did you mean 'time_ns'"),
        ({"rank": [0], "bytes": [1]}, "needs 'time_ns'"),
        ({"rank": [0], "time_ns": ["x"], "bytes": [1]}, "counter 'memory'"),
        ({"rank": [None], "time_ns": [0], "bytes": [1]}, "nulls in 'rank'"),
    ],
)
def test_a_table_that_is_not_the_schemas_is_refused(table, said):
    with pytest.raises(TraceError, match=said):
        Counters({"memory": table})


def test_written_and_read_through_the_same_class(tmp_path):
    power = {"rank": [0, 0], "time_ns": [0, 10], "watts": [100.0, 50.0]}
    run = a_run({"power": power, "mine": {"x": [1]}})
    write(run, tmp_path / "run")
    found = read(tmp_path / "run").counters
    assert found["power"].equals(run.counters["power"])
    assert found["mine"].to_pylist() == [{"x": 1}]
    with pytest.raises(KeyError, match="did you mean 'power'"):
        found["powr"]


def test_a_damaged_table_is_refused_when_read(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    run = a_run({"power": {"rank": [0], "time_ns": [0], "watts": [1.0]}})
    write(run, tmp_path / "run")
    pq.write_table(pa.table({"rank": [0]}), tmp_path / "run" / "counters" / "power.parquet")
    with pytest.raises(ChakraError, match=r"counters.*needs 'time_ns'"):
        read(tmp_path / "run")
