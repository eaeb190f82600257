"""A sweep keeps what is finished, whatever happens to it, and never runs it twice."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from chakrakit.errors import ConfigError
from chakrakit.exploration.sweep import grid, measurement, read_study, sweep
from chakrakit.exploration.sweep.points import StudyPoint
from chakrakit.exploration.sweep.store import FinishedPoint, PointStore
from chakrakit.simulator.results import simulate
from chakrakit.workloads.generate import generate
from support.engines import CLUSTERS


def keys(folder: Path) -> list[str]:
    lines = (folder / "points.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line)["key"] for line in lines]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, study_text: str) -> Path:
    """A finished sweep of the tiny study."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "tiny.yaml").write_text(study_text)
    result = sweep(read_study(folder / "tiny.yaml"), folder / "out", jobs=2)
    assert (result.points, result.done, result.failed, result.reused) == (12, 12, 0, 0)
    assert result.table == str(folder / "out" / "table.parquet")
    return folder


@pytest.mark.slow
def test_a_row_says_what_the_simulator_says(done: Path) -> None:
    table = pq.read_table(done / "out" / "table.parquet")
    points = grid(read_study(done / "tiny.yaml")).points
    assert table.num_rows == len(points)
    for row, point in list(zip(table.to_pylist(), points, strict=True))[:4]:
        alone = simulate(generate(point.workload), point.machine.machine()).summary
        assert row["rung"] == alone.rung == "carried profile h200"
        assert row["step_ns"] == alone.makespan_ns
        assert row["tokens_per_s"] == pytest.approx(8 * 512 / (alone.makespan_ns * 1e-9))
        assert row["ranks"] == 8
        assert row["key"] == point.key
        assert (row["plan.tp"], row["machine"]) == (point.workload.plan.tp, point.machine.name)


@pytest.mark.slow
def test_a_slower_network_is_slower(done: Path) -> None:
    rows = pq.read_table(done / "out" / "table.parquet").to_pylist()
    assert all(b["step_ns"] > a["step_ns"] for a, b in zip(rows[::2], rows[1::2], strict=True))


@pytest.mark.slow
def test_what_is_finished_is_not_run_again(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (done / "out" / "table.parquet").read_bytes()
    monkeypatch.setattr(
        "chakrakit.exploration.sweep.sweep_run.each", lambda _f, items, *_: iter(list(items)[:0])
    )
    result = sweep(read_study(done / "tiny.yaml"), done / "out")
    assert (result.done, result.reused) == (12, 12)
    assert (done / "out" / "table.parquet").read_bytes() == before


@pytest.mark.slow
def test_a_larger_study_runs_only_what_is_new(done: Path) -> None:
    larger = done / "larger.yaml"
    larger.write_text(
        (done / "tiny.yaml").read_text().replace("[zero1, fsdp]", "[zero1, fsdp, ddp]")
    )
    result = sweep(read_study(larger), done / "out", jobs=2)
    assert (result.points, result.done, result.reused) == (18, 18, 12)
    assert len(keys(done / "out")) == len(set(keys(done / "out"))) == 18


@pytest.mark.slow
def test_a_failed_point_is_a_row_with_its_error(
    study_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays so, until it is asked to be tried again."""
    real = measurement.measure
    study = read_study(study_file)

    def fails(point: StudyPoint, cache: Path | None = None) -> measurement.SimulatedRow:
        if point.parameters["plan.tp"] == 2:
            raise ConfigError("two is a bad number")
        return real(point, None)

    folder = study_file.parent / "out"
    monkeypatch.setattr("chakrakit.exploration.sweep.sweep_run.measure", fails)
    result = sweep(study, folder, jobs=1)
    assert (result.done, result.failed, result.reused) == (8, 4, 0)
    rows = pq.read_table(result.table).to_pylist()
    assert {r["error"] for r in rows if r["status"] == "failed"} == {"two is a bad number"}
    assert all((r["step_ns"] is None) == (r["status"] == "failed") for r in rows)
    monkeypatch.undo()
    assert (sweep(study, folder, jobs=1).failed, sweep(study, folder, jobs=1).reused) == (4, 12)
    again = sweep(study, folder, jobs=1, retry=True)
    assert (again.done, again.failed, again.reused) == (12, 0, 8)


@pytest.mark.slow
def test_a_point_whose_worker_died_is_tried_again(done: Path, tmp_path: Path) -> None:
    """It says nothing about the point."""
    study = read_study(done / "tiny.yaml")
    with PointStore(tmp_path).writing() as writer:
        for i, point in enumerate(grid(study).points):
            kept = PointStore(done / "out").read()[point.key]
            writer.add(kept if i else FinishedPoint(key=point.key, error="died", died=True))
    result = sweep(study, tmp_path, jobs=1)
    assert (result.done, result.reused) == (12, 11)


@pytest.mark.slow
def test_passes_are_an_axis(study_file: Path) -> None:
    text = study_file.read_text().replace("[1, 2, 4]", "[2]").replace("[zero1, fsdp]", "[zero1]")
    study_file.write_text(text + "passes: [none, compact]\n")
    result = sweep(read_study(study_file), study_file.parent / "out", jobs=1)
    rows = pq.read_table(result.table).to_pylist()
    assert [(r["machine"], r["passes"]) for r in rows] == [
        ("dgx-h100", "none"),
        ("dgx-h100", "compact"),
        ("slow", "none"),
        ("slow", "compact"),
    ]
    assert all(r["status"] == "done" for r in rows)
    assert [r["tokens_per_s"] is None for r in rows] == [False, True, False, True]


def command(study: Path, folder: Path, *more: str) -> list[str]:
    code = "from chakrakit.commands import main; main()"
    return [sys.executable, "-c", code, "sweep", str(study), "-o", str(folder), "--json", *more]


def started(study: Path, folder: Path, points: int, *more: str) -> subprocess.Popen[bytes]:
    """A sweep in a process of its own, once it has finished some points."""
    process = subprocess.Popen(command(study, folder, *more), stdout=subprocess.PIPE)
    deadline = time.monotonic() + 60
    file = folder / "points.jsonl"
    while not file.exists() or file.read_bytes().count(b"\n") < points:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    return process


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_in_the_middle_nothing_is_lost_or_repeated(
    how: signal.Signals, study_file: Path, done: Path
) -> None:
    folder = study_file.parent / "out"
    process = started(study_file, folder, 3, "--jobs", "2")
    process.send_signal(how)
    assert process.wait(timeout=30) != 0
    had = keys(folder)
    assert 3 <= len(had) < 12
    resumed = subprocess.run(command(study_file, folder), capture_output=True, check=True)
    result = msgspec.json.decode(resumed.stdout)
    assert result == {
        "points": 12,
        "done": 12,
        "failed": 0,
        "over_memory": 0,
        "reused": len(had),
        "skipped": 0,
        "table": str(folder / "table.parquet"),
    }
    assert Counter(keys(folder)).most_common(1)[0][1] == 1
    assert keys(folder)[: len(had)] == had
    assert _same_table(folder, done / "out")


def _same_table(a: Path, b: Path) -> bool:
    """The study's twelve points, to the last bit; `b` may have more."""
    wanted = pq.read_table(a / "table.parquet").to_pylist()
    known = {r["key"]: r for r in pq.read_table(b / "table.parquet").to_pylist()}
    return len(wanted) == 12 and all(known[r["key"]] == r for r in wanted)


@pytest.mark.parametrize("engine", CLUSTERS)
def test_the_same_table_on_a_cluster_with_a_worker_killed(
    engine: str, study_file: Path, done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker, folder = study_file.parent / "killed", study_file.parent / "out"
    real = measurement.measure

    def once_killed(point: StudyPoint, cache: Path | None = None) -> measurement.SimulatedRow:
        if point.parameters["plan.tp"] == 2 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return real(point, cache)

    monkeypatch.setattr("chakrakit.exploration.sweep.sweep_run.measure", once_killed)
    result = sweep(read_study(study_file), folder, engine=engine, jobs=2)
    assert marker.exists()
    assert (result.done, result.failed) == (12, 0)
    assert _same_table(folder, done / "out")


def test_folders_and_tables_of_others_stay(done: Path, tmp_path: Path) -> None:
    """A folder that has the name of ours is not removed, and a table that no sweep wrote not replaced."""
    shutil.copytree(done / "out", tmp_path / "out")
    theirs = tmp_path / "out" / "bodies" / "mine"
    theirs.parent.mkdir()
    theirs.touch()
    study = read_study(done / "tiny.yaml")
    assert sweep(study, tmp_path / "out").reused == 12
    assert theirs.exists()
    (tmp_path / "out" / "points.jsonl").unlink()
    with pytest.raises(ConfigError, match=r"has a table.parquet that no sweep wrote"):
        sweep(study, tmp_path / "out")
