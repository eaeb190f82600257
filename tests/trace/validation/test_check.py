"""Validation from end to end: one fault is one finding, damage hides nothing, clean traces have none."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chakrakit as ck
from chakrakit import Metadata, NodeType
from chakrakit.trace.validation import codes
from support.examples import examples
from support.faulty_traces import FEEDER_TRACE, ONE_RANK, node, trace_bytes


@pytest.mark.parametrize("code", ONE_RANK)
def test_a_file_with_one_fault_has_one_finding(code, tmp_path):
    file = tmp_path / "t.et"
    file.write_bytes(ONE_RANK[code])
    report = ck.validate(file)
    assert report.counts == {code: 1}
    assert report.ok == (codes.by_name()[code].severity != "error")


def test_a_broken_group_file_is_a_finding(tmp_path):
    (tmp_path / "t.0.et").write_bytes(trace_bytes(node()))
    (tmp_path / "t.json").write_text('{"1": [0, 0]}')
    assert ck.validate(tmp_path / "t.0.et").counts == {"groups-file": 1}
    assert ck.validate(tmp_path / "t").counts == {"groups-file": 1}


def test_many_alike_are_counted_and_a_few_are_listed():
    report = ck.validate(FEEDER_TRACE)
    assert report.counts["dangling-control"] == 1277
    listed = [f for f in report.findings if f.code == "dangling-control"]
    assert len(listed) == 21
    assert sum(f.count for f in listed) == 1277
    assert (
        len(
            [
                f
                for f in ck.validate(FEEDER_TRACE, everything=True).findings
                if f.code == "dangling-control"
            ]
        )
        == 1277
    )


def test_a_damaged_rank_does_not_hide_the_others(tmp_path):
    (tmp_path / "w.0.et").write_bytes(ONE_RANK["framing"])
    (tmp_path / "w.1.et").write_bytes(ONE_RANK["dangling-data"])
    report = ck.validate(tmp_path / "w")
    assert report.counts == {"framing": 1, "dangling-data": 1}
    framing = report.findings[0]
    assert (framing.rank, framing.offset) == (0, 1)


def test_truncation_at_every_byte_is_a_finding_or_a_shorter_trace(tmp_path):
    whole = trace_bytes(node(0), node(1, data=[0]), header=Metadata.of("1").raw)
    for size in range(len(whole)):
        (tmp_path / "t.et").write_bytes(whole[:size])
        assert set(ck.validate(tmp_path / "t.et").counts) <= {"framing", "no-nodes"}


@pytest.mark.slow
@examples(50)
@given(st.data())
def test_random_valid_traces_are_ok(data):
    n = data.draw(st.integers(1, 40))
    order = data.draw(st.permutations(range(n)))
    ids = data.draw(st.lists(st.integers(0, 2**64 - 1), min_size=n, max_size=n, unique=True))
    deps = [
        sorted(data.draw(st.sets(st.sampled_from(ids[:i]), max_size=4))) if i else []
        for i in range(n)
    ]
    table = {
        "id": pa.array([ids[i] for i in order], pa.uint64()),
        "name": [f"n{i}" for i in order],
        "type": [int(NodeType.COMP_NODE)] * n,
        "data_deps": pa.array([deps[i] for i in order], pa.list_(pa.uint64())),
    }
    report = ck.validate(ck.Trace.from_columns(table))
    assert report.counts == {}
