"""Changing a trace and writing it: the same edit of protobuf's messages gives the same file."""

from __future__ import annotations

import io
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakrakit.errors import TraceError
from chakrakit.trace.codecs import et
from chakrakit.trace.model import Member, Trace
from support import random_messages as random
from support.examples import examples
from support.oracle import bodies_of, file_of, message

seeds = st.integers(0, 2**32)


def read(data: bytes) -> Trace:
    return et.read(io.BufferedReader(io.BytesIO(data)), "test")


def written(trace: Trace) -> bytes:
    out = io.BytesIO()
    et.EtWriter(out).write(trace)
    return out.getvalue()


def nodes_of(data: bytes) -> list[Any]:
    return [message("Node").FromString(b) for b in list(bodies_of(data))[1:]]


def plain_nodes(rng: Random, count: int) -> list[Any]:
    """Distinct ids, dependencies on them and on nodes that are not there, no name twice."""
    nodes = []
    for i in range(count):
        node = random.node(rng)
        node.id = 10 + i
        for deps in (node.ctrl_deps, node.data_deps):
            del deps[:]
            deps.extend(rng.choice([*range(10, 10 + count), 5000]) for _ in range(rng.randrange(4)))
        names = {a.name: a for a in node.attr if a.name not in ("edge_kinds", "edge_lags_ns")}
        kept = [message("AttributeProto").FromString(a.SerializeToString()) for a in names.values()]
        del node.attr[:]
        node.attr.extend(kept)
        nodes.append(node)
    return nodes


def file(nodes: list[Any]) -> bytes:
    return file_of([b"", *(n.SerializeToString(deterministic=True) for n in nodes)])


@given(seeds)
@examples(100)
def test_selecting_rows_drops_the_edges_to_the_others(seed: int) -> None:
    rng = Random(seed)
    nodes = plain_nodes(rng, 12)
    rows = rng.sample(range(12), rng.randrange(13))
    kept = {nodes[r].id for r in rows}
    everyone = {n.id for n in nodes}
    expected = []
    for row in rows:
        node = message("Node").FromString(nodes[row].SerializeToString())
        for deps in (node.ctrl_deps, node.data_deps):
            left = [d for d in deps if d in kept or d not in everyone]
            del deps[:]
            deps.extend(left)
        expected.append(node)
    found = nodes_of(written(read(file(nodes)).select(np.array(rows, np.int64))))
    for node in (*found, *expected):  # the order among a node's dependencies says nothing
        node.ctrl_deps.sort()
        node.data_deps.sort()
    assert file(found) == file(expected)


def edit(nodes: list[Any], name: str, values: list[Any], member: str) -> None:
    for node, value in zip(nodes, values, strict=True):
        found = [a for a in node.attr if a.name == name]
        if value is None:
            kept = [a for a in node.attr if a.name != name]
            copies = [message("AttributeProto").FromString(a.SerializeToString()) for a in kept]
            del node.attr[:]
            node.attr.extend(copies)
            continue
        target = found[0] if found else node.attr.add(name=name)
        target.ClearField("doc_string")
        if member.endswith("_list"):
            getattr(target, member).SetInParent()
            del getattr(target, member).values[:]
            getattr(target, member).values.extend(value)
        else:
            setattr(target, member, value)


def simple_file(rng: Random, member: str, count: int = 30) -> list[Any]:
    nodes = [message("Node")(id=i + 1, name=f"n{i % 3}") for i in range(count)]
    for node in nodes:
        node.attr.add(name="before", int64_val=1)
        if rng.random() < 0.5:
            random.set_value(rng, node.attr.add(name="v"), member)
        node.attr.add(name="after", string_val="s")
    return nodes


NEW: dict[str, tuple[Callable[[Random], Any], str]] = {
    "integers": (lambda rng: rng.randrange(-(2**63), 2**63), "int64_val"),
    "reals": (lambda rng: rng.random(), "double_val"),
    "truths": (lambda rng: rng.random() < 0.5, "bool_val"),
    "texts": (lambda rng: "é" * rng.randrange(4), "string_val"),
    "bytes": (lambda rng: rng.randbytes(rng.randrange(4)), "bytes_val"),
    "lists": (lambda rng: [rng.randrange(9)] * rng.randrange(4), "int64_list"),
}


@pytest.mark.parametrize("kind", NEW)
@pytest.mark.parametrize("fresh", [True, False], ids=["new", "replaced"])
@given(seed=seeds)
@examples(15)
def test_setting_a_column_sets_the_attribute_where_it_is_not_null(
    kind: str, fresh: bool, seed: int
) -> None:
    rng = Random(seed)
    make, member = NEW[kind]
    nodes = simple_file(rng, member)
    values = [make(rng) if rng.random() < 0.7 else None for _ in nodes]
    if not any(v for v in values):
        values[0] = make(rng)
    name = "new" if fresh else "v"
    kinds = {"integers": pa.int64(), "lists": pa.list_(pa.int64()), "bytes": pa.binary()}
    array = pa.array(values, kinds.get(kind))
    trace = read(file(nodes)).with_columns({name: array})
    edit(nodes, name, values, member)
    assert written(trace) == file(nodes)


def test_removing_a_column_removes_the_attribute() -> None:
    nodes = simple_file(Random(1), "double_val")
    trace = read(file(nodes)).with_columns({"v": None})
    edit(nodes, "v", [None] * len(nodes), "")
    assert written(trace) == file(nodes)


@pytest.mark.parametrize("old", ["int32_val", "string_val", "double_list", "bool_val"])
def test_a_column_of_another_type_changes_the_member(old: str) -> None:
    nodes = simple_file(Random(2), old)
    trace = read(file(nodes)).with_columns({"v": [f"t{i}" for i in range(len(nodes))]})
    edit(nodes, "v", [f"t{i}" for i in range(len(nodes))], "string_val")
    assert written(trace) == file(nodes)


def test_the_member_stays_where_the_new_values_fit_it() -> None:
    nodes = simple_file(Random(3), "uint32_val")
    present = [bool(n.attr[1].name == "v") for n in nodes]
    trace = read(file(nodes)).with_columns({"v": pa.array([7 if p else None for p in present])})
    edit(nodes, "v", [7 if p else None for p in present], "uint32_val")
    assert written(trace) == file(nodes)


@pytest.mark.parametrize(
    ("old", "value"), [("int32_val", 2**40), ("uint32_val", -1), ("bool_val", 5)]
)
def test_the_member_changes_where_the_new_values_do_not_fit_it(old: str, value: int) -> None:
    nodes = simple_file(Random(3), old)
    trace = read(file(nodes)).with_columns({"v": [value] * len(nodes)})
    edit(nodes, "v", [value] * len(nodes), "int64_val")
    assert written(trace) == file(nodes)


def test_values_beyond_a_member_that_other_tools_expect_are_refused() -> None:
    trace = read(file(simple_file(Random(4), "int64_val")))
    with pytest.raises(TraceError, match="int32_val"):
        trace.with_columns({"comm_src": [2**40] * len(trace)})
    with pytest.raises(TraceError, match="uint32_val"):
        trace.with_columns({"v": [-1] * len(trace)}, {"v": Member.uint32_val})


def test_lists_with_holes_are_refused() -> None:
    trace = read(file(simple_file(Random(4), "int64_val")))
    with pytest.raises(TraceError, match="null"):
        written(trace.with_columns({"w": [[1, None]] * len(trace)}))


def test_a_value_kept_as_bytes_gives_way_to_the_column() -> None:
    nodes = [message("Node")(id=i + 1) for i in range(6)]
    for node in nodes:
        node.attr.add(name="first", doc_string="kept", int64_val=1)
        node.attr.add(name="v", doc_string="said otherwise", string_val="x")
        node.attr.add(name="last", doc_string="kept", int64_val=1)
    trace = read(file(nodes)).with_columns({"v": [1, 2, None, 4, 5, 6]})
    for node, value in zip(nodes, [1, 2, None, 4, 5, 6], strict=True):
        edit([node], "v", [None], "")
        if value:
            node.attr.add(name="v", int64_val=value)
    assert written(trace) == file(nodes)


@given(seeds)
@examples(60)
def test_traces_one_after_another(seed: int) -> None:
    rng = Random(seed)
    parts = [[random.node(rng) for _ in range(rng.randrange(1, 6))] for _ in range(3)]
    same_type = ("comm_size", "pg_name", "op_schema", "inputs")  # in every file
    for node in (n for part in parts for n in part):
        kept = [a.SerializeToString() for a in node.attr if a.name in same_type]
        del node.attr[:]
        node.attr.extend(message("AttributeProto").FromString(a) for a in kept)
    joined = Trace.concat(read(file(part)) for part in parts)
    assert written(joined) == file([n for part in parts for n in part])


def test_parts_that_disagree_on_a_type_are_refused() -> None:
    parts = [Trace.from_columns({"foo": [1]}), Trace.from_columns({"foo": ["x"]})]
    with pytest.raises(TraceError, match="foo"):
        Trace.concat(parts)


@pytest.mark.parametrize("keep", [set(), {"v"}, {"before", "after"}, {"v", "before", "after"}])
def test_attributes_that_get_no_column_are_kept_as_bytes(keep: set[str]) -> None:
    data = file(simple_file(Random(5), "int64_val"))
    trace = et.recast(read(data), keep)
    public = set(trace.nodes.column_names)
    assert {"v", "before", "after"} & public == keep
    assert written(trace) == data
