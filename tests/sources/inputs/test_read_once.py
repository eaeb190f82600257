"""However many ranks share a file, and however it is told what it is, it is read once."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import chakrakit as ck
from chakrakit.insight.rank import read_run
from chakrakit.sources import link
from chakrakit.sources.pytorch.linking import LinkOptions
from chakrakit.sources.pytorch.read import read_bytes, read_kineto
from chakrakit.sources.tables import SqliteTables
from support.job_traces import write_job
from support.nsys_file import NsysFile
from support.paths import DATA
from support.recorders import write_dumps

LOOKED_AT_AND_READ = 2
"""Times a recording is opened: for its first bytes, which tell what it is, and for all of it."""

_opened: Counter[str] | None = None


def _count(event: str, arguments: tuple[object, ...]) -> None:
    """Python tells of every file and database that is opened; hooks for that cannot be removed."""
    if _opened is not None and event in ("open", "sqlite3.connect"):
        _opened[Path(str(arguments[0]).split("?")[0]).name] += 1


sys.addaudithook(_count)


@pytest.fixture
def opened() -> Iterator[Counter[str]]:
    """How often each file is opened from here on, by name."""
    global _opened
    _opened = Counter()
    yield _opened
    _opened = None


def pytorch(name: str) -> Callable[[Path], None]:
    """One of the recordings kept with the tests."""

    def write(folder: Path) -> None:
        shutil.copytree(DATA / "pytorch" / name, folder, dirs_exist_ok=True)

    return write


def shared_card(folder: Path) -> None:
    pytorch("cnn_ddp_2")(folder)
    (folder / "card.json").write_text(json.dumps({"step_ms_back_to_back": 10}))


def rocprof(folder: Path) -> None:
    """Two processes with a kernel each."""
    kernel = {"start_timestamp": 0, "end_timestamp": 900, "dispatch_info": {"kernel_id": 5}}
    process = {"buffer_records": {"kernel_dispatch": [kernel]}}
    (folder / "results.json").write_text(json.dumps({"rocprofiler-sdk-tool": [process, process]}))


def nsys(folder: Path) -> None:
    """Two processes in one export."""
    source = DATA / "pytorch" / "decode_graph" / "kineto.json.gz"
    trace = read_kineto(read_bytes(source))
    file = NsysFile(folder / "report.sqlite", False)
    file.begin(trace.base_ns)
    for pid in (100, 101):
        file.write(trace, pid, int(trace.start.min()))
    file.close()


def profile(folder: Path) -> None:
    """A profile of XLA with the module that ran."""
    for name in ("run.xplane.pb.gz", "train_step.hlo.pb.gz"):
        shutil.copy(DATA / "xla" / name, folder / name)


def dumps(folder: Path) -> None:
    write_dumps(folder, ranks=3, calls=2)


def inspected(folder: Path) -> None:
    """Two ranks with a collective each."""
    for rank in range(2):
        said = {
            "header": {"id": "0xabc", "rank": rank, "n_ranks": 2, "nnodes": 1},
            "metadata": {"inspector_output_format_version": "v4.0", "hostname": "h", "pid": rank},
            "coll_perf": {
                "coll": "AllReduce",
                "coll_sn": 0,
                "coll_msg_size_bytes": 8,
                "coll_exec_time_us": 700.0,
                "event_trace_ts": {"coll_start": 0.0, "coll_stop": 700.0},
            },
        }
        (folder / f"inspector-{rank}.log").write_text(json.dumps(said) + "\n")


@pytest.mark.parametrize(
    ("write", "ranks"),
    [
        (pytorch("cnn_ddp_2"), 2),
        (pytorch("decode_graph"), 1),
        (pytorch("memory_history"), 1),
        (pytorch("moe_tiny"), 1),
        (rocprof, 2),
        (profile, 1),
        (dumps, 3),
        (inspected, 2),
    ],
    ids=["pairs", "capture", "snapshot", "observer", "rocprof", "xla", "flight", "inspector"],
)
def test_a_recording_is_looked_at_and_read(
    write: Callable[[Path], None], ranks: int, tmp_path: Path, opened: Counter[str]
) -> None:
    write(tmp_path)
    opened.clear()
    run, _ = link([tmp_path], LinkOptions(as_recorded=True))
    assert len(run.ranks) == ranks
    here = {file.name: opened[file.name] for file in tmp_path.iterdir()}
    assert here == dict.fromkeys(here, LOOKED_AT_AND_READ)


def test_an_export_of_several_processes_is_opened_once_and_each_table_read_once(
    tmp_path: Path, opened: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nsys(tmp_path)
    opened.clear()
    tables: Counter[str] = Counter()
    connected: Counter[str] = Counter()
    connect = sqlite3.connect

    def count_tables(self: SqliteTables, sql: str) -> list[object]:
        tables[sql] += 1
        return self._connection.execute(sql).fetchall()

    def count_connections(where: str, **options: object) -> sqlite3.Connection:
        connected[where] += 1
        return connect(where, **options)

    monkeypatch.setattr(SqliteTables, "_execute", count_tables)
    monkeypatch.setattr(sqlite3, "connect", count_connections)
    run, report = link([tmp_path], LinkOptions(as_recorded=True))
    assert [r.device_activities.linked > 0 for r in report.ranks] == [True, True]
    assert len(run.ranks) == 2
    assert list(connected.values()) == [1]
    assert tables.most_common(1)[0][1] == 1, tables.most_common(1)


@pytest.mark.parametrize(
    ("write", "card"),
    [(pytorch("mlp_ddp_nccl_1"), "card_0.json"), (shared_card, "card.json")],
    ids=["of a rank", "of a folder"],
)
def test_a_card_beside_recordings_is_read_once_for_all_ranks(
    write: Callable[[Path], None], card: str, tmp_path: Path, opened: Counter[str]
) -> None:
    """And looked at before, since any file among the inputs may be a recording."""
    write(tmp_path)
    opened.clear()
    link([tmp_path])
    assert opened[card] == LOOKED_AT_AND_READ
    assert opened["kineto_0.json.gz"] <= LOOKED_AT_AND_READ


def test_a_job_s_table_is_read_once(tmp_path: Path, opened: Counter[str]) -> None:
    """What it is, Arrow tells from its columns' names, which Python does not see."""
    path = write_job(tmp_path / "job.parquet")
    opened.clear()
    assert len(read_run(str(path)).ranks) == 4
    assert opened["job.parquet"] == 1


def test_a_run_s_card_and_times_are_read_once(tmp_path: Path, opened: Counter[str]) -> None:
    builder = ck.TraceBuilder()
    builder.comp("kernel", num_ops=10**9)
    simulated = ck.simulate(ck.TraceSet([builder.build()]), "dgx-h100")
    ck.write(simulated.run(), tmp_path / "run")
    opened.clear()
    ck.analyze(tmp_path / "run")
    assert opened["card.json"] == opened["0.parquet"] == 1
