"""Traces as files, from Python: checked, converted, asked, packed and changed."""

from __future__ import annotations

from pathlib import Path

import pytest

import chakrakit as ck


@pytest.fixture
def traces() -> ck.TraceSet:
    t = ck.TraceBuilder()
    first = t.comp("gemm 1", duration_ns=1500)
    t.comp("gemm 2", duration_ns=500, deps=[first])
    return ck.TraceSet([t.build()] * 2)


def test_rows_of_a_query_are_cut_and_typed(traces: ck.TraceSet) -> None:
    pytest.importorskip("duckdb")
    found = ck.query(traces, "SELECT rank, name FROM nodes ORDER BY ALL", limit=3)
    assert found.rows == [[0, "gemm 1"], [0, "gemm 2"], [1, "gemm 1"]]
    assert found.truncated
    assert found.to_arrow().column_names == ["rank", "name"]
    assert "<td style='text-align:left'>gemm 2</td>" in found._repr_html_()


def test_a_name_that_no_node_has_is_guessed(traces: ck.TraceSet, tmp_path: Path) -> None:
    assert ck.export(traces, tmp_path / "a.dot", name="2$").nodes == 1
    with pytest.raises(
        ck.ConfigError, match="no node's name matches 'gem 1'; did you mean 'gemm 1'"
    ):
        ck.export(traces, tmp_path / "a.dot", name="gem 1")


def test_only_files_can_be_repaired(traces: ck.TraceSet, tmp_path: Path) -> None:
    assert ck.validate(traces).ok
    with pytest.raises(ck.ConfigError, match="give the path of the traces"):
        ck.validate(traces, output=tmp_path / "fixed")


def test_traces_are_packed_and_paths_are_checked(traces: ck.TraceSet, tmp_path: Path) -> None:
    packed = ck.bundle(traces, tmp_path / "w.chakra", fields=["description=small"])
    assert packed.ok
    assert ck.bundle(tmp_path / "w.chakra", extract=tmp_path / "w").card == packed.card
    with pytest.raises(ck.ConfigError, match="give `output` to pack traces"):
        ck.bundle(traces)


def test_passes_are_objects_words_or_a_file(traces: ck.TraceSet, tmp_path: Path) -> None:
    (tmp_path / "passes.yaml").write_text("- edit: {scale: 2}\n")
    done = ck.transform(
        traces, [ck.Edit(scale=0.5), "select{ranks=[1]}"], file=tmp_path / "passes.yaml"
    )
    assert [one.spec.partition("{")[0] for one in done.report.applied] == ["edit", "edit", "select"]
    assert done.traces.trace(1).duration_ns.tolist() == [1500, 500]
    with pytest.raises(ck.ConfigError, match="no pass is given"):
        ck.transform(traces)


def test_a_conversion_says_what_it_left_out(traces: ck.TraceSet, tmp_path: Path) -> None:
    ck.write(traces, tmp_path / "w.N.et")
    assert ck.convert(tmp_path / "w.0.et", tmp_path / "a.parquet").left_out == {}
    left = ck.convert(tmp_path / "w.0.et", tmp_path / "a.feeder.json").left_out
    assert left == {"duration_ns": 2}
    assert ck.info(tmp_path / "a.parquet").nodes == 2
