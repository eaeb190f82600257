"""What storage servers did, from the operations of all ranks."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np

import chakrakit as ck
from chakrakit.simulator.engine import StoredOperations
from chakrakit.simulator.results.summary import server_uses

US = 1_000_000
"""Picoseconds."""
MACHINE = SimpleNamespace(
    store_of_servers=lambda: [
        (SimpleNamespace(name="disk"), 0),
        (SimpleNamespace(name="disk"), 1),
        (SimpleNamespace(name="remote"), 0),
    ]
)


def test_each_server_that_was_used_has_its_own_figures():
    """Server 1 of the disks reads twice, the second time after 2 µs in the queue; the remote one writes."""
    done = StoredOperations(
        server=np.array([1, 1, 2]),
        writes=np.array([False, False, True]),
        bytes=np.array([10.0, 20.0, 30.0]),
        arrived=np.array([0, 1, 4]) * US,
        started=np.array([0, 3, 4]) * US,
        ended=np.array([3, 5, 9]) * US,
    )
    disk, remote = server_uses(SimpleNamespace(stored=done), MACHINE)
    assert (disk.store, disk.server, disk.operations) == ("disk", 1, 2)
    assert (disk.read_bytes, disk.written_bytes) == (30, 0)
    assert (disk.wait_ns, disk.longest_wait_ns, disk.busy_ns) == (2000, 2000, 5000)
    assert (disk.most_in_flight, disk.longest_queue) == (1, 1)
    assert (remote.store, remote.server, remote.written_bytes) == ("remote", 0, 30)
    assert (remote.busy_ns, remote.longest_queue) == (5000, 0)


def test_without_storage_operations_there_is_nothing_to_say():
    assert server_uses(SimpleNamespace(stored=None), MACHINE) == []


def test_no_interval_begins_before_storage_has_moved_its_bytes(tmp_path: Path) -> None:
    """A checkpoint of 1 GB at 1 GB/s, which the step waits for: no measured step is below a second."""
    machine = tmp_path / "m.yaml"
    machine.write_text("base: dgx-h100\nstorage: {disk: {kind: local, bandwidth: 1 GB/s}}\n")
    traces = ck.generate(model="gpt3-125m", dp=2, seq=64, global_batch=2).traces
    written = ck.transform(traces, ["storage{save=500000000, target=disk}"])
    summary = ck.simulate(written.traces, str(machine)).summary
    assert summary.interval_ns is not None
    assert 1e9 <= summary.interval_ns[0] <= summary.makespan_ns
