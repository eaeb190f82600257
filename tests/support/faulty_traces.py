"""Traces with one fault each, written byte by byte."""

from __future__ import annotations

from chakrakit import CollectiveType, Member
from chakrakit.trace.model import wire
from support.paths import DATA

FEEDER_TRACE = DATA / "et" / "feeder_tests_chakra.0.et.gz"
COMP, SEND, RECV, COLL = 4, 5, 6, 7
AR = CollectiveType.ALL_REDUCE


def node(id=0, name="n", type=COMP, data=(), ctrl=(), **attributes):
    """One node as bytes. Attributes are (member, value), or bytes to be put there as they are."""
    out = wire.field_varint(1, id) + (wire.field_bytes(2, name.encode()) if name else b"")
    out += wire.field_varint(3, type)
    for field, ids in ((4, ctrl), (5, data)):
        if ids:
            out += wire.field_bytes(field, b"".join(wire.varint(i) for i in ids))
    for key, value in attributes.items():
        out += _attribute(key, value)
    return out


def _attribute(key, value):
    if key == "times":
        return b"".join(wire.field_varint(f, v) for f, v in value.items())
    if isinstance(value, bytes):
        return value
    return wire.field_bytes(10, wire.attribute(key, Member[value[0]], value[1]))


def trace_bytes(*nodes, header=b""):
    head = b"" if header is None else wire.frame(header)
    return head + b"".join(wire.frame(n) for n in nodes)


def i64(v):
    return ("int64_val", v)


COLLECTIVE = {"comm_type": i64(0), "comm_size": i64(8), "pg_name": ("string_val", "")}
MESSAGE = {"comm_size": i64(8), "comm_src": ("int32_val", 0), "comm_dst": ("int32_val", 1)}


def without(attributes, *names):
    return {k: v for k, v in attributes.items() if k not in names}


TWICE = wire.field_bytes(10, wire.attribute("num_ops", Member.int64_val, 1)) * 2
DOCUMENTED = wire.field_bytes(
    10, wire.attribute("num_ops", Member.int64_val, 1) + wire.field_bytes(2, b"why")
)

ONE_RANK = {
    "framing": trace_bytes(node())[:-2],
    "no-metadata": trace_bytes(node(id=1), header=None),
    "no-nodes": trace_bytes(),
    "model-state": trace_bytes(
        node(), header=wire.field_bytes(2, wire.attribute("model_state", Member.string_val, "[1]"))
    ),
    "unknown-fields": trace_bytes(node() + wire.field_bytes(99, b"x")),
    "invalid-type": trace_bytes(node(type=0)),
    "unknown-type": trace_bytes(node(type=42)),
    "empty-name": trace_bytes(node(name="")),
    "negative-duration": trace_bytes(node(duration_ns=i64(-1))),
    "time-range": trace_bytes(node(times={7: 2**64 - 5})),
    "duplicate-id": trace_bytes(node(3), node(3)),
    "dangling-data": trace_bytes(node(data=[9])),
    "dangling-control": trace_bytes(node(ctrl=[9])),
    "dangling-parent": trace_bytes(node(parent=("uint64_val", 9))),
    "parent-cycle": trace_bytes(node(parent=("uint64_val", 0))),
    "self-data": trace_bytes(node(data=[0])),
    "self-control": trace_bytes(node(ctrl=[0])),
    "duplicate-dependency": trace_bytes(node(0), node(1, data=[0, 0])),
    "cycle": trace_bytes(node(0, data=[1]), node(1, data=[0])),
    "control-cycle": trace_bytes(node(0, ctrl=[1]), node(1, data=[0])),
    "edge-kinds-length": trace_bytes(node(0), node(1, data=[0], edge_kinds=("bytes_val", b"\0\0"))),
    "edge-kinds-code": trace_bytes(node(0), node(1, data=[0], edge_kinds=("bytes_val", b"\x1f"))),
    "edge-lags-length": trace_bytes(
        node(0), node(1, data=[0], edge_lags_ns=("int64_list", [1, 2]))
    ),
    "attribute-member": trace_bytes(node(num_ops=("int32_val", 5))),
    "attribute-type": trace_bytes(
        node(type=COLL, **{**COLLECTIVE, "comm_size": ("string_val", "8")})
    ),
    "attribute-range": trace_bytes(node(tensor_size=("uint64_val", 2**64 - 1))),
    "attribute-empty": trace_bytes(
        node(num_ops=wire.field_bytes(10, wire.field_bytes(1, b"num_ops")))
    ),
    "attribute-twice": trace_bytes(node(num_ops=TWICE)),
    "attribute-raw": trace_bytes(node(num_ops=DOCUMENTED)),
    "negative-value": trace_bytes(node(num_ops=i64(-1))),
    "missing-tensor-size": trace_bytes(node(type=2)),
    "missing-comm-type": trace_bytes(node(type=COLL, **without(COLLECTIVE, "comm_type"))),
    "unknown-comm-type": trace_bytes(node(type=COLL, **{**COLLECTIVE, "comm_type": i64(77)})),
    "missing-comm-size": trace_bytes(node(type=COLL, **without(COLLECTIVE, "comm_size"))),
    "missing-group": trace_bytes(node(type=COLL, **without(COLLECTIVE, "pg_name"))),
    "missing-peer": trace_bytes(node(type=SEND, **without(MESSAGE, "comm_dst"))),
    "negative-peer": trace_bytes(node(type=SEND, **{**MESSAGE, "comm_dst": ("int32_val", -1)})),
    "no-groups": trace_bytes(node(type=COLL, **{**COLLECTIVE, "pg_name": ("string_val", "7")})),
}
