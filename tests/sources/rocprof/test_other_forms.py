"""rocprofv3's databases and Perfetto traces: the same events as Kineto's give the same device work."""

from __future__ import annotations

import gzip
import sqlite3
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from chakrakit.errors import FormatError
from chakrakit.sources import link
from chakrakit.sources.perfetto import read_processes as read_perfetto
from chakrakit.sources.pytorch.linking import LinkOptions
from chakrakit.sources.pytorch.read import Kind, Kineto, read_bytes, read_kineto
from chakrakit.sources.rocpd import read_processes as read_rocpd
from support.commands import data
from support.paths import DATA
from support.perfetto_file import sdk_trace
from support.rocm_files import RocpdFile, perfetto_trace

RECORDED = LinkOptions(as_recorded=True)


@cache
def kineto() -> Kineto:
    return read_kineto(read_bytes(DATA / "pytorch" / "mlp_ddp_nccl_1" / "kineto_0.json.gz"))


def database(folder: Path, schema: int = 3) -> Path:
    file = RocpdFile(folder / "77_results.db", schema)
    file.write(kineto())
    file.close()
    return folder / "77_results.db"


def pftrace(folder: Path) -> Path:
    path = folder / "77_results.pftrace"
    path.write_bytes(perfetto_trace(kineto()))
    return path


def sdk_pftrace(folder: Path) -> Path:
    pytest.importorskip("perfetto")
    path = folder / "77_results.pftrace"
    path.write_bytes(sdk_trace(kineto()))
    return path


def packed(folder: Path) -> Path:
    path = folder / "results.db.gz"
    path.write_bytes(gzip.compress(database(folder).read_bytes()))
    (folder / "77_results.db").unlink()
    return path


FORMS: dict[str, Callable[[Path], Path]] = {
    "rocpd": database,
    "rocpd, schema 4": lambda folder: database(folder, 4),
    "rocpd, gzipped": packed,
    "Perfetto": pftrace,
    "Perfetto, by its own package": sdk_pftrace,
}


def work(trace: Kineto) -> Counter[tuple[str, int, int, int]]:
    """Time, stream and correlation of every kernel and copy, by name as far as all tools write it."""
    device = [e for e in range(len(trace)) if trace.kind[e] in (Kind.KERNEL, Kind.MEMCPY)]
    return Counter(
        (
            trace.texts[int(trace.name[e])].split(" (")[0],
            int(trace.end[e] - trace.start[e]),
            int(trace.stream[e]),
            int(trace.correlation[e]),
        )
        for e in device
    )


@pytest.mark.first(1)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_kineto_s_kernels_and_launches(form: str, tmp_path: Path) -> None:
    path = FORMS[form](tmp_path)
    (ours,) = read_perfetto(path.read_bytes()) if "Perfetto" in form else read_rocpd(path)
    assert work(ours) == work(kineto())
    _, report = link([path], RECORDED)
    (rank,) = report.ranks
    assert rank.edges["launch"] == rank.device_activities.linked == len(list(work(ours).elements()))


def test_grids_of_a_database_are_told_in_blocks(tmp_path: Path) -> None:
    (ours,) = read_rocpd(database(tmp_path))
    grids = [
        Counter(
            t.texts[g]
            for g, k in zip(t.text_columns["grid"], t.kind, strict=True)
            if k == Kind.KERNEL
        )
        for t in (ours, kineto())
    ]
    assert grids[0] == grids[1]


def test_two_recordings_in_one_database_are_two_ranks(tmp_path: Path) -> None:
    path = database(tmp_path)
    second = RocpdFile(path, number="_0298a7b6")
    second.write(kineto(), pid=78)
    second.close()
    assert [work(process) for process in read_rocpd(path)] == 2 * [work(kineto())]


@pytest.mark.parametrize("form", ["rocpd", "Perfetto", "Perfetto, by its own package"])
def test_one_command_opens_it_with_the_kernels_time(form: str, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    path = FORMS[form](tmp_path)
    sql = "SELECT sum(duration_ns) FROM nodes WHERE stream IS NOT NULL"
    total = sum(took * n for (_, took, *_), n in work(kineto()).items())
    assert data("query", path, sql)["rows"] == [[total]]


def test_a_database_without_later_columns_is_read(tmp_path: Path) -> None:
    path = tmp_path / "small.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table rocpd_string (id, string)")
        connection.execute("create table rocpd_info_kernel_symbol (id, display_name)")
        connection.execute("create table rocpd_kernel_dispatch (id, kernel_id, start, end)")
        connection.execute("insert into rocpd_info_kernel_symbol values (1, 'gemm')")
        connection.execute("insert into rocpd_kernel_dispatch values (1, 1, 1000, 5000)")
    connection.close()
    _, report = link([path], RECORDED)
    assert report.ranks[0].device_time_ns.linked == 4000


def test_what_holds_nothing_is_said(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    RocpdFile(path).close()
    with pytest.raises(FormatError, match="holds no kernels, copies or calls"):
        link([path])
    with pytest.raises(FormatError, match="holds no kernels, copies or calls of rocprofv3"):
        read_perfetto(b"")
    with pytest.raises(FormatError, match="a field runs past"):
        read_perfetto(perfetto_trace(kineto())[:5000])


def test_a_database_of_the_older_tool_is_named(tmp_path: Path) -> None:
    """rocmProfileData calls its tables alike; its calls and device work are elsewhere."""
    with sqlite3.connect(tmp_path / "trace.rpd") as tables:
        for name in ("string", "api", "op"):
            tables.execute(f"create table rocpd_{name} (id integer, start integer, end integer)")
    with pytest.raises(FormatError, match=r"rocmProfileData.*rocprofv3 --runtime-trace"):
        link([tmp_path / "trace.rpd"])
