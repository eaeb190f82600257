"""JSON: ours loses nothing, the reference's is understood, and what is wrong is named."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from chakrakit import EdgeKind, Member, Metadata, Trace, TraceBuilder, read, write
from chakrakit.errors import FormatError
from chakrakit.trace.codecs import read_trace, scan_trace
from chakrakit.trace.model import wire

VALUES: dict[str, Any] = {
    "double": [0.1, float("inf"), -0.0],
    "float": [0.5, float("-inf")],
    "int32": [-(2**31), 7],
    "int64": [-(2**63), 2**63 - 1],
    "uint32": [2**32 - 1],
    "uint64": [2**64 - 1, 0],
    "sint32": [-5],
    "sint64": [-(2**63)],
    "fixed32": [2**32 - 1],
    "fixed64": [2**64 - 1],
    "sfixed32": [-(2**31)],
    "sfixed64": [-(2**63)],
    "bool": [True, False],
    "string": ['\u00e9\u2028\U0001f600"\\\n\t\x01', ""],
    "bytes": [b"\x00\xff", b""],
}


def every_kind() -> bytes:
    """An `.et` file with each of the 30 attribute value kinds, unknown fields and empty inputs."""
    out = wire.field_varint(1, 2**64 - 1) + wire.field_bytes(2, b"all")
    out += wire.field_bytes(8, b"")
    for kind, values in VALUES.items():
        out += wire.field_bytes(10, wire.attribute(kind, Member[f"{kind}_val"], values[0]))
        out += wire.field_bytes(10, wire.attribute(kind + "s", Member[f"{kind}_list"], values))
        out += wire.field_bytes(10, wire.attribute(kind + "0", Member[f"{kind}_list"], []))
    out += wire.field_bytes(99, b"unknown")
    header = wire.field_bytes(1, b"v") + wire.field_bytes(
        2, wire.attribute("pid", Member.uint64_val, 3)
    )
    return wire.frame(header) + wire.frame(out) + wire.frame(wire.field_varint(1, 1))


def test_every_kind_of_value_survives_to_the_byte(tmp_path: Path) -> None:
    (tmp_path / "a.et").write_bytes(every_kind())
    write(read(tmp_path / "a.et"), tmp_path / "a.x.json")
    json.loads((tmp_path / "a.x.json").read_text())  # one valid document
    write(read(tmp_path / "a.x.json"), tmp_path / "b.et")
    assert (tmp_path / "b.et").read_bytes() == every_kind()


@pytest.mark.parametrize(
    "layout", [{"indent": 2}, {"separators": (",", ":")}, {}, {"sort_keys": True}]
)
def test_our_document_laid_out_in_another_way_is_the_same_trace(
    tmp_path: Path, layout: dict
) -> None:
    (tmp_path / "a.et").write_bytes(every_kind())
    write(read(tmp_path / "a.et"), tmp_path / "x.json")
    document = json.loads((tmp_path / "x.json").read_text())
    (tmp_path / "y.json").write_text("\ufeff" * bool(layout) + json.dumps(document, **layout))
    write(read(tmp_path / "y.json"), tmp_path / "b.et")
    assert (tmp_path / "b.et").read_bytes() == every_kind()


@pytest.mark.parametrize("metadata", [Metadata(None), Metadata(b""), Metadata.of("1.0", pid=3)])
def test_no_header_is_not_an_empty_header(tmp_path: Path, metadata: Metadata) -> None:
    write(Trace.from_columns({"name": []}, metadata=metadata), tmp_path / "a.json")
    assert read(tmp_path / "a.json").trace(0).metadata == metadata


def test_kinds_forms_and_lags_survive(tmp_path: Path) -> None:
    t = TraceBuilder()
    a, b = t.comp("a"), t.comp("b")
    t.edge(a, b, EdgeKind.THREAD, lag_ns=-7)
    write(t.build(), tmp_path / "a.json")
    edges = read(tmp_path / "a.json").trace(0).edges
    assert (edges.kind[0], edges.lag[0], edges.ctrl[0]) == (EdgeKind.THREAD, -7, True)


@pytest.mark.slow
def test_an_attribute_of_two_types_far_apart_is_one_trace(tmp_path: Path) -> None:
    """The second type shows up long after the column was made: it is kept raw."""
    nodes = [{"id": i, "attr": [{"name": "x", "int64_val": i}]} for i in range(70_000)]
    nodes.append({"id": 70_000, "attr": [{"name": "x", "string_val": "odd"}]})
    document = {"format": "chakra-trace", "version": 1, "metadata": None, "nodes": nodes}
    trace = read_trace(io.BytesIO(json.dumps(document).encode()))
    assert trace.column("x", -1)[[0, 69_999, 70_000]].tolist() == [0, 69_999, -1]
    write(trace, tmp_path / "b.json")
    assert b'"string_val":"odd"' in (tmp_path / "b.json").read_bytes()


# What protobuf's MessageToJson makes of a header and nodes, one object after another.
REFERENCE = """{
  "version": "0.0.4",
  "attr": [{"name": "schema", "stringVal": "1.0.2"}]
}
{
  "name": "aten::mm",
  "type": "COMP_NODE",
  "durationMicros": "12",
  "startTimeMicros": "9007199254740993",
  "inputs": {"values": "[1]", "types": "['Int']"},
  "attr": [
    {"name": "is_cpu_op", "boolVal": true},
    {"name": "tensor_size", "uint64Val": "18446744073709551615"}
  ]
}{
  "id": "3",
  "name": "nccl \u00e9",
  "type": "COMM_COLL_NODE",
  "ctrlDeps": ["0"],
  "dataDeps": ["0", "7"],
  "attr": [
    {"name": "comm_size", "int64Val": "-5"},
    {"name": "involved_dim", "boolList": {"values": [true, false]}},
    {"name": "scale", "doubleVal": "Infinity"},
    {"name": "blob", "bytesVal": "AP8="},
    {"name": "nothing", "floatList": {}}
  ]
}
"""


@pytest.mark.parametrize(
    "text",
    [
        REFERENCE,
        REFERENCE.replace("durationMicros", "duration_micros")
        .replace("ctrlDeps", "ctrl_deps")
        .replace("boolVal", "bool_val")
        .replace("int64Val", "int64_val")
        .replace("boolList", "bool_list"),
    ],
    ids=["camelCase", "snake_case"],
)
def test_the_reference_jsonizers_objects_are_read(text: str) -> None:
    trace = read_trace(io.BytesIO(text.encode()))
    assert trace.metadata.attributes == {"schema": "1.0.2"}
    first, second = trace[0], trace[1]
    assert (first.id, first.name, first.type, first.get("duration_micros")) == (
        0,
        "aten::mm",
        "COMP_NODE",
        12,
    )
    assert first.get("start_time_micros") == 9007199254740993
    assert first.get("inputs_types") == "['Int']"
    assert first.get("is_cpu_op") is True
    assert (second.id, second.name, second.get("data_deps")) == (3, "nccl é", [0, 7])
    assert second.attributes == {
        "comm_size": -5,
        "involved_dim": [True, False],
        "scale": float("inf"),
        "blob": b"\x00\xff",
        "nothing": [],
    }


def test_objects_longer_than_a_block_are_read_and_letters_are_not_cut() -> None:
    name = "é" * 700_000
    text = "{}" + json.dumps({"id": 1, "name": name}, ensure_ascii=False) * 3
    trace = read_trace(io.BytesIO(b" " + text.encode()))
    assert trace.names.to_pylist() == [name] * 3


HEAD = '{"format": "chakra-trace", "version": 1, "metadata": null, "nodes": [\n'


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        ('{"id": -1}', "line 2: id is -1, not in 0..18446744073709551615"),
        ('{"id": 18446744073709551616}', "line 2: id is 18446744073709551616, not in"),
        ('{"id": ' + "9" * 400 + "}", "line 2: "),
        ('{"id": true}', "id should be an integer, not True"),
        ('{"id": 1.5}', "id should be an integer, not 1.5"),
        ('{"id": null}', "id should be an integer, not None"),
        ('{"name": 5}', "should be a string, not 5"),
        ('{"name": "\\ud800"}', "line 2: "),
        ('{"type": "NO_NODE"}', "type should be an integer, not 'NO_NODE'"),
        ('{"type": 2147483648}', "type is 2147483648, not in"),
        ('{"data_deps": "12"}', "data_deps should be a list, not '12'"),
        ('{"data_deps": [[1]]}', "data_deps should be an integer"),
        ('{"attr": {"name": "x"}}', "attr should be a list"),
        ('{"attr": ["x"]}', "an attribute should be an object, not 'x'"),
        (
            '{"attr": [{"name": "x", "int32_val": 2147483648}]}',
            "attribute 'x' is 2147483648, not in",
        ),
        (
            '{"attr": [{"name": "x", "int64_val": true}]}',
            "attribute 'x' should be an integer, not True",
        ),
        (
            '{"attr": [{"name": "x", "bool_val": 1}]}',
            "attribute 'x' should be true or false, not 1",
        ),
        ('{"attr": [{"name": "x", "double_val": {}}]}', "attribute 'x' should be a number"),
        ('{"attr": [{"name": "x", "float_val": 1e300}]}', "line 2: "),
        ('{"attr": [{"name": "x", "bytes_val": "?"}]}', "'?' is not base64"),
        ('{"attr": [{"name": "x", "string_list": "abc"}]}', "attribute 'x' should be a list"),
        ('{"attr": [{"name": "x", "no_val": 1}]}', "'no_val' is not a kind of value"),
        ('{"attr": [{"name": "x", "int64_val": 1, "bool_val": true}]}', "has several values"),
        ('{"attr": [{"name": "x", "raw": "/////w=="}]}', "odd.json"),
        ('{"unknown": "/////w=="}', "odd.json"),
        ('{"inputs": 3}', "inputs or outputs should be an object, not 3"),
        ('{"inputs": {"values": [1]}}', "should be a string"),
        ('{"idd": 3}', "'idd' has no place in a node"),
        ("[1]", "line 2: a node should be an object"),
        ('{"id": 1', "line 2: "),
        ('{"id": ' + "[" * 100_000 + "]" * 100_000 + "}", "line 2: "),
    ],
)
def test_a_wrong_node_is_an_error_that_says_where_and_what(
    tmp_path: Path, node: str, problem: str
) -> None:
    path = tmp_path / "odd.json"
    path.write_text(HEAD + node + "\n]}\n")
    with pytest.raises(FormatError) as error:
        read(path)
    assert problem in str(error.value)
    assert str(path) in str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (HEAD + '{"id": 1}\n', "cut off"),
        (HEAD + "]}\n{}", "text after the document"),
        (HEAD.replace("null", "5") + "]}", "the header should be an object"),
        (
            HEAD.replace("null", '{"attr": [{"name": "x", "raw": "/////w=="}]}') + "]}",
            "header is damaged",
        ),
        ('{"format": "other", "version": 1, "nodes": []}', "says it is 'other' version 1"),
        ('{"format": "chakra-trace", "version": 2, "nodes": []}', "version 2"),
        ('{"format": "chakra-trace", "version": 1, "nodes": {}}', '"nodes" should be a list'),
        ('{"schema": "1.1.1", "nodes": []}', "PyTorch execution trace"),
        ('{"traceEvents": []}', "Kineto"),
        ('{"hello": 1}', "'hello' has no place in the header"),
        ('{}{"id": 1}[]', "not an object"),
        ('{}\n{"id": 1}\n{"id": ', "line 3"),
        ('{"": 1}', "no place"),
        ('{"version": "\udcff"}', "not UTF-8"),
        ('{"a":' * 100_000, "line 1: nested far deeper"),
        ('{"version": ' + "9" * 6000 + "}", "line 1: a number of more digits"),
    ],
)
def test_a_wrong_document_is_an_error(text: str, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        list(scan_trace(io.BytesIO(text.encode(errors="surrogateescape"))))
