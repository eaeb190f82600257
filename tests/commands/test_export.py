"""`chakra export` of one rank's graph."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import chakrakit as ck
from support.commands import chakra


def test_export_one_rank(place: Path) -> None:
    done = chakra("export", place / "t", place / "g.dot", "--type", "COMM_COLL_NODE")
    assert done.exit_code == 0
    assert "note: rank 0 of 2; --rank chooses another" in done.stderr
    assert "1 nodes and 0 edges" in done.stderr
    done = chakra(
        "export", place / "t", place / "g.graphml", "--rank", "1", "--around", "0", "--json"
    )
    assert json.loads(done.stdout) == {
        "nodes": 2,
        "edges": 1,
        "dangling": 0,
        "folded": 0,
        "left_out": {},
    }
    assert chakra("export", place / "t", place / "g.dot", "--rank", "9").exit_code == 2


def test_a_name_that_no_node_has_is_guessed(traces: ck.TraceSet, tmp_path: Path) -> None:
    assert ck.export(traces, tmp_path / "a.dot", name="2$").nodes == 1
    with pytest.raises(
        ck.ConfigError, match="no node's name matches 'gem 1'; did you mean 'gemm 1'"
    ):
        ck.export(traces, tmp_path / "a.dot", name="gem 1")


def test_a_timeline_is_of_one_rank_where_one_is_chosen(runs: Path, tmp_path: Path) -> None:
    whole, one = (ck.export(runs / "fast", tmp_path / "t.json", rank=rank) for rank in (None, 1))
    assert one.nodes * len(ck.read(runs / "fast")) == whole.nodes
    with pytest.raises(ck.ChakraError, match="no rank 99"):
        ck.export(runs / "fast", tmp_path / "t.pftrace", rank=99)
    with pytest.raises(ck.ChakraError, match="--name is for graphs"):
        ck.export(runs / "fast", tmp_path / "t.pftrace", name="mlp")
