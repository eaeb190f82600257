"""Nsight Systems exports: the same events through Kineto and nsys give the same run."""

from __future__ import annotations

import gzip
import sqlite3
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest

from chakrakit.errors import FormatError
from chakrakit.insight import analyze
from chakrakit.sources import link
from chakrakit.sources.nsys import read_processes
from chakrakit.sources.opening import raw_at
from chakrakit.sources.pytorch.linking import LinkOptions
from chakrakit.sources.pytorch.read import Kind, Kineto, read_bytes, read_kineto
from support.commands import data
from support.nsys_file import NsysFile, parquet_tables
from support.paths import DATA

RECORDED = LinkOptions(as_recorded=True)


def kineto() -> Kineto:
    return read_kineto(read_bytes(DATA / "pytorch" / "mlp_ddp_nccl_1" / "kineto_0.json.gz"))


def export(path: Path, *traces: Kineto, old: bool = False, late_ns: int = 0) -> Path:
    file = NsysFile(path, old)
    base = min(int(t.start.min()) for t in traces)
    file.begin(traces[0].base_ns + base + late_ns)
    for i, trace in enumerate(traces):
        file.write(trace, 100 + i, base)
    file.close()
    return path


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[tuple, tuple]:
    """The same recording linked from Kineto's file and from nsys' export."""
    folder = tmp_path_factory.mktemp("nsys")
    source = DATA / "pytorch" / "mlp_ddp_nccl_1" / "kineto_0.json.gz"
    (folder / "kineto.json.gz").write_bytes(source.read_bytes())
    trace = read_kineto(read_bytes(source))
    export(folder / "report.sqlite", trace)
    return link([folder / "kineto.json.gz"], RECORDED), link([folder / "report.sqlite"], RECORDED)


def test_both_ways_have_the_same_device_work(both: tuple[tuple, tuple]) -> None:
    (ours, _), (theirs, report) = both
    times = []
    for run in (ours, theirs):
        trace = run.trace(0)
        device = trace.has("stream")
        names = np.array(trace.names.to_pylist(), object)[device]
        spent: dict[str, int] = {}
        for name, took in zip(names, trace.duration_ns[device].tolist(), strict=True):
            spent[name] = spent.get(name, 0) + took
        times.append(spent)
    assert times[0] == times[1]
    assert report.ranks[0].edge_violations == 0


def test_both_ways_have_the_same_edges_and_schedule(both: tuple[tuple, tuple]) -> None:
    (_, ours), (_, theirs) = both
    a, b = ours.ranks[0], theirs.ranks[0]
    for kind in ("launch", "stream", "thread", "call", "sync"):
        assert a.edges.get(kind) == b.edges.get(kind), kind
    assert a.scheduled_span_ns == b.scheduled_span_ns
    assert a.waits == b.waits
    assert a.collectives == b.collectives


def test_both_ways_are_analyzed_alike(both: tuple[tuple, tuple]) -> None:
    (ours, _), (theirs, _) = both
    a, b = analyze(ours), analyze(theirs)
    assert a.span_ns == b.span_ns
    assert msgspec.to_builtins(a.ranks) == msgspec.to_builtins(b.ranks)
    kernels = [{(k.name, k.time_ns) for k in x.operators.kernels} for x in (a, b)]
    assert kernels[0] == kernels[1]


def test_processes_of_one_export_are_ranks_whose_collectives_meet(tmp_path: Path) -> None:
    trace = kineto()
    run, report = link([export(tmp_path / "two.sqlite", trace, trace)], RECORDED)

    assert [r.rank for r in report.ranks] == [0, 1]
    assert report.clock["rule"] == "same clock"
    calls = run.collectives.instances.column("ranks").to_pylist()
    assert calls
    assert set(calls) == {2}


def test_files_of_two_ranks_are_aligned_by_their_sessions(tmp_path: Path) -> None:
    trace = kineto()
    export(tmp_path / "rank0.sqlite", trace)
    export(tmp_path / "rank1.sqlite", trace, late_ns=5_000)
    run, report = link([tmp_path], RECORDED)

    assert [r.rank for r in report.ranks] == [0, 1]
    assert set(run.collectives.instances.column("ranks").to_pylist()) == {2}


def test_an_export_without_newer_columns_and_tables_is_read(tmp_path: Path) -> None:
    path = export(tmp_path / "old.sqlite", kineto(), old=True)
    with sqlite3.connect(path) as connection:
        for table in ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"):
            connection.execute(f"drop table {table}")

    _, report = link([path], RECORDED)

    assert report.ranks[0].device_activities.linked == report.ranks[0].device_activities.in_ > 0
    assert report.ranks[0].annotations == 0


def test_kernels_have_the_grid_they_were_launched_with(tmp_path: Path) -> None:
    traces = kineto(), read_processes(export(tmp_path / "a.sqlite", kineto()))[0]
    launched = [
        Counter(
            (trace.texts[grid], trace.texts[block])
            for kind, grid, block in zip(
                trace.kind, trace.text_columns["grid"], trace.text_columns["block"], strict=True
            )
            if kind == Kind.KERNEL
        )
        for trace in traces
    ]
    assert launched[0] == launched[1]
    assert len(launched[0]) > 1


def test_compressed_exports_are_read(tmp_path: Path) -> None:
    plain = export(tmp_path / "a.sqlite", kineto())
    packed = tmp_path / "b.sqlite.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))

    ours, theirs = ([len(k) for k in read_processes(path)] for path in (packed, plain))
    assert ours == theirs == [3650]


def test_a_folder_of_parquet_tables_is_the_same_export(tmp_path: Path, monkeypatch) -> None:
    """Opened by one command, and without a table and a column that an older version does not write."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    export(tmp_path / "a.sqlite", kineto())
    folder = parquet_tables(tmp_path / "a.sqlite", tmp_path / "a_pqtdir")
    raw = raw_at(folder)
    assert raw is not None
    assert raw.description == "1 recording of Nsight Systems"
    infos = [data("info", path) for path in (tmp_path / "a.sqlite", folder)]
    assert [info["nodes"] for info in infos] == [infos[0]["nodes"]] * 2
    assert infos[0]["communication"] == infos[1]["communication"]
    kernels = folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    pq.write_table(pq.read_table(kernels).drop(["graphNodeId", "gridX"]), kernels)
    (folder / "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION.parquet").unlink()
    _, report = link([folder], RECORDED)
    assert report.ranks[0].device_activities.linked == report.ranks[0].device_activities.in_ > 0


def _other(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("create table other (a)")


def _empty(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("create table StringIds (id, value)")


def _words(path: Path) -> None:
    export(path, kineto())
    with sqlite3.connect(path) as connection:
        connection.execute("update CUPTI_ACTIVITY_KIND_KERNEL set start = 'soon'")


def _cut(path: Path) -> None:
    export(path, kineto())
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 3])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (_other, "not an export of Nsight Systems"),
        (_empty, "neither GPU activities nor CUDA calls"),
        (_words, "is not a whole number"),
        (_cut, "cannot be read|malformed"),
    ],
)
def test_damaged_exports_end_in_one_error(tmp_path: Path, make, says: str) -> None:
    make(tmp_path / "bad.sqlite")

    with pytest.raises(FormatError, match=says):
        link([tmp_path / "bad.sqlite"])
