"""The feeder's `workload_graph`: read as it is found, written as feeders want it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from chakrakit import CollectiveType, Trace, TraceBuilder, read, write
from chakrakit.errors import FormatError
from chakrakit.trace.codecs import read_trace
from support.paths import DATA

SAMPLE = DATA / "json" / "small_feeder.json"


def test_the_sample_is_read() -> None:
    trace = read(SAMPLE).trace(0)
    assert trace.ids.tolist()[:3] == [216, 217, 430]
    assert len(trace) == 7
    assert trace.column("duration_micros").tolist()[0] == 318
    assert trace.node(217).get("data_deps") == [216]
    assert trace.node(216).get("ctrl_deps") == [3]
    assert trace.node(430).get("is_cpu_op") is False


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    old = read(SAMPLE).trace(0)
    assert write(old, tmp_path / "a.feeder.json") == {}
    new = read(tmp_path / "a.feeder.json").trace(0)
    for name in ("id", "name", "type", "duration_micros", "data_deps", "ctrl_deps", "is_cpu_op"):
        assert new.table.column(name).to_pylist() == old.table.column(name).to_pylist(), name


def test_communication_has_every_key_the_feeder_reads(tmp_path: Path) -> None:
    t = TraceBuilder()
    t.collective("all", CollectiveType.ALL_REDUCE, 64, pg_name="3")
    write(t.build(), tmp_path / "a.feeder.json")
    (node,) = json.loads((tmp_path / "a.feeder.json").read_text())["workload_graph"]
    assert node == {
        "Id": 0,
        "Name": "all",
        "NodeType": 7,
        "ctrlDeps": [],
        "data_deps": [],
        "runtime": 0,
        "is_cpu_op": False,
        "tensor_size": 0,
        "comm_type": 0,
        "comm_priority": 0,
        "comm_size": 64,
        "comm_src": 0,
        "comm_dst": 0,
        "comm_tag": 0,
        "pg_name": "3",
    }


def test_what_the_form_has_no_place_for_is_counted(tmp_path: Path) -> None:
    trace = Trace.from_columns(
        {
            "name": ["a", "b"],
            "start_time_micros": [0, 4],
            "duration_ns": [1, None],
            "inputs_values": ["x", "y"],
        }
    )
    left_out = write(trace, tmp_path / "a.feeder.json")
    assert left_out == {"start_time_micros": 1, "duration_ns": 1, "inputs_values": 2}


def test_other_keys_become_attributes() -> None:
    text = b'{"workload_graph": [{"Id": 1, "stream": 4, "start_time_micros": 9, "_x": "y"}, {"Id": 2}]}'
    trace = read_trace(io.BytesIO(text))
    assert trace.node(1).attributes == {"stream": 4, "start_time_micros": 9, "_x": "y"}
    assert trace.node(2).attributes == {}


@pytest.mark.parametrize(
    ("graph", "problem"),
    [
        ("5", "should be a list of objects"),
        ("[5]", "should be a list of objects"),
        ("[{}]", "node number 0 of workload_graph has no Id"),
        ('[{"Id": -1}]', "'Id' of workload_graph"),
        ('[{"Id": true}]', "'Id' of workload_graph"),
        ('[{"Id": "1"}]', "'Id' of workload_graph"),
        ('[{"Id": 18446744073709551616}]', "'Id' of workload_graph"),
        ('[{"Id": 1, "data_deps": 4}]', "'data_deps' of workload_graph"),
        ('[{"Id": 1, "data_deps": [null]}]', "nulls inside its lists"),
        ('[{"Id": 1, "data_deps": null}]', "has nulls"),
        ('[{"Id": 1, "Name": 4}]', "'Name' of workload_graph"),
        ('[{"Id": 1, "runtime": "x"}]', "'runtime' of workload_graph"),
        ('[{"Id": 1, "comm_size": "x"}]', "'comm_size' should be int64"),
        ('[{"Id": 1, "comm_size": 1e30}]', "'comm_size' should be int64"),
        ('[{"Id": 1, "foo": {}}]', "no Chakra attribute can hold"),
        ('[{"Id": 1, "foo": [[1]]}]', "no Chakra attribute can hold"),
        ('[{"Id": 1, "foo": 1}, {"Id": 2, "foo": "x"}]', "'foo' of workload_graph"),
    ],
)
def test_a_wrong_graph_is_an_error_that_names_the_key(graph: str, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        read_trace(io.BytesIO(b'{"workload_graph": ' + graph.encode() + b"}"))


def test_a_key_without_a_name_is_refused_since_no_other_format_can_hold_it() -> None:
    graph = b'{"workload_graph": [{"Id": 0, "": 1}]}'
    with pytest.raises(FormatError, match="an attribute has no name"):
        read_trace(io.BytesIO(graph))
