"""Repairs: what is repaired, what is left alone, and what stays as it was."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chakrakit as ck
from chakrakit import Binding
from chakrakit.trace.validation import codes, fix
from chakrakit.trace.validation.check import BodiesToCheck, check
from chakrakit.trace.validation.findings import Findings
from chakrakit.trace.validation.fixes import Fixer
from support.examples import examples
from support.faulty_traces import COMP, FEEDER_TRACE, ONE_RANK, node, trace_bytes


def test_the_feeder_trace_is_ok_after_repair(tmp_path):
    report = fix(FEEDER_TRACE, tmp_path / "fixed.0.et.zst")
    assert report.ok
    assert report.counts == {"missing-comm-type": 14, "missing-comm-size": 14, "missing-group": 21}
    repaired = {r.code: r.count for r in report.repairs}
    assert repaired == {"dangling-control": 1277, "self-control": 383, "control-cycle": 554}
    before, after = (ck.read(p).trace(0) for p in (FEEDER_TRACE, tmp_path / "fixed.0.et.zst"))
    kept = [c for c in before.nodes.column_names if c != "ctrl_deps"]
    assert before.nodes.select(kept).equals(after.nodes.select(kept))
    assert after.graph.is_acyclic


REPAIRED = [c.name for c in codes.CODES if c.repaired]


@pytest.mark.parametrize("code", REPAIRED)
@pytest.mark.parametrize("suffix", [".et", ".json", ".parquet"])
def test_what_can_be_repaired_is_repaired(code, suffix, tmp_path):
    file, out = tmp_path / "t.et", tmp_path / f"out{suffix}"
    file.write_bytes(ONE_RANK[code])
    report = fix(file, out)
    assert report.counts == {}
    assert [(r.code, r.count) for r in report.repairs] == [(code, 1)]


@pytest.mark.parametrize(
    "code", ["dangling-data", "self-data", "cycle", "attribute-type", "no-metadata"]
)
def test_what_cannot_be_repaired_is_left_alone(code, tmp_path):
    file, out = tmp_path / "t.et", tmp_path / "out.et"
    file.write_bytes(ONE_RANK[code])
    assert fix(file, out).counts == {code: 1}
    assert out.read_bytes() == file.read_bytes()


def test_kinds_and_lags_stay_with_their_dependencies(tmp_path):
    file, out = tmp_path / "t.et", tmp_path / "out.et"
    file.write_bytes(
        trace_bytes(
            node(0),
            node(1),
            node(
                2,
                data=[0, 1],
                ctrl=[9, 0],
                edge_kinds=("bytes_val", bytes([2, 4, 1, 5])),
                edge_lags_ns=("int64_list", [10, 20, 30, 40]),
            ),
        )
    )
    assert fix(file, out).counts == {}
    fixed = ck.read(out).trace(0)[2]
    assert fixed.get("ctrl_deps") == [0]
    assert fixed.get("edge_kinds") == bytes([2, 4, 5])
    assert fixed.get("edge_lags_ns") == [10, 20, 40]


def test_a_set_is_repaired_into_a_directory(tmp_path):
    for rank in range(2):
        (tmp_path / f"w.{rank}.et").write_bytes(ONE_RANK["dangling-control"])
    report = fix(tmp_path / "w", tmp_path / "out")
    assert report.counts == {}
    assert [(r.rank, r.count) for r in report.repairs] == [(0, 1), (1, 1)]
    assert ck.read(tmp_path / "out").ranks == (0, 1)


@pytest.mark.slow
@examples(80)
@given(st.integers(0, 2**32 - 1))
def test_circles_are_found_across_pieces_and_repair_leaves_none(seed):
    """Data dependencies without circles, control dependencies at random, rows in any order."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    ids, rank = rng.permutation(200)[:n].astype(np.uint64), rng.permutation(n)
    data, ctrl = ([set() for _ in range(n)] for _ in range(2))
    for a, b in rng.integers(0, n, (2 * n, 2)):
        if rank[a] < rank[b]:
            data[b].add(int(ids[a]))
    for a, b in rng.integers(0, n, (3, 2)):
        if a != b:
            ctrl[b].add(int(ids[a]))
    lists = {"data_deps": data, "ctrl_deps": ctrl}
    trace = ck.Trace.from_columns(
        {
            "id": ids,
            "name": ["x"] * n,
            "type": [COMP] * n,
            **{
                k: pa.array([sorted(s) for s in v], pa.list_(pa.uint64())) for k, v in lists.items()
            },
        }
    )
    findings = Findings()
    pieces = [trace_slice(trace, at, 7) for at in range(0, n, 7)]
    checked = check(BodiesToCheck([lambda: pieces], {0: Binding(0)}), findings, lambda _: None)
    assert findings.report(1).ok == trace.graph.is_acyclic
    fixer = Fixer(0, checked.dangling[0], checked.circular[0])
    assert ck.Trace.concat(map(fixer.fixed, pieces)).graph.is_acyclic


def trace_slice(trace, at, rows):
    return ck.Trace(trace.table.slice(at, rows), trace.layouts, trace.metadata)
