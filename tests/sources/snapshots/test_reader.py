"""Memory snapshots: the allocator's history joins the run's memory."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import pytest

import chakrakit
from chakrakit.errors import FormatError
from chakrakit.insight import analyze
from chakrakit.sources import link
from chakrakit.sources.snapshots import read_snapshot
from support.paths import DATA

RECORDED = DATA / "pytorch" / "memory_history"


def test_the_peak_is_what_the_allocator_counted(tmp_path: Path) -> None:
    """`torch.cuda.max_memory_allocated()` said 194,402,304 bytes after the recorded steps."""
    run, _ = link([RECORDED])
    chakrakit.write(run, tmp_path / "run")

    found = analyze(chakrakit.read(tmp_path / "run")).memory

    assert found.peak_bytes == 194_402_304
    assert found.source == "the allocator's own history"
    (rank,) = found.ranks
    assert 0 <= rank.peak_ns <= run.makespan_ns


def test_history_is_counted_back_from_what_is_left() -> None:
    events = [("alloc", 100), ("alloc", 50), ("free_requested", 100), ("free_completed", 100)]
    said = {
        "segments": [{"device": 0, "total_size": 2**21, "allocated_size": 70}],
        "device_traces": [
            [{"action": a, "size": n, "time_us": i, "addr": 1} for i, (a, n) in enumerate(events)]
        ],
    }

    (history,) = read_snapshot(pickle.dumps(said))

    assert history.bytes.tolist() == [120, 170, 70]
    assert history.time.tolist() == [0, 1_000, 3_000]
    assert history.left_out == {"free_requested": 1}


def test_a_snapshot_without_history_says_how_to_get_one() -> None:
    with pytest.raises(FormatError, match="_record_memory_history"):
        read_snapshot(pickle.dumps({"segments": [], "device_traces": [[]]}))


@pytest.mark.parametrize("days", [-3, 3])
def test_a_history_of_another_time_is_refused(days: int, tmp_path: Path) -> None:
    """Its times would lie days before the run or after it."""
    for file in RECORDED.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    said = pickle.loads(gzip.decompress((RECORDED / "snapshot.pickle.gz").read_bytes()))
    for event in (e for events in said["device_traces"] for e in events):
        event["time_us"] += days * 86_400 * 10**6
    (tmp_path / "snapshot.pickle.gz").write_bytes(gzip.compress(pickle.dumps(said)))

    with pytest.raises(FormatError, match="3 days away from the recording"):
        link([tmp_path])


def test_a_snapshot_alone_is_no_recording(tmp_path: Path) -> None:
    snapshot = RECORDED / "snapshot.pickle.gz"
    (tmp_path / "snapshot.pickle").write_bytes(gzip.decompress(snapshot.read_bytes()))

    with pytest.raises(FormatError, match="have no times"):
        link([tmp_path])
