"""Who made what another reads: tensors, and forward before backward."""

from __future__ import annotations

from chakrakit.trace.model import EdgeKind
from support.rescheduled import kinds, plan


def test_a_tensor_goes_from_its_last_writer_to_its_reader(recording):
    """Storage numbers come back after they are freed: an allocation begins a storage anew."""
    recording.device = "cpu"
    recording.op("aten::mul", 0, 5, writes=(1,))
    recording.op("aten::neg", 10, 5, reads=(1,), writes=(2,))
    recording.op("aten::empty", 20, 5, writes=(1,))
    recording.op("aten::exp", 30, 5, reads=(1,), writes=(3,))
    rank = recording.link()
    assert kinds(rank, EdgeKind.TENSOR) == [("aten::mul", "aten::neg")]


def test_a_tensor_edge_joins_kernels_on_different_streams(recording):
    recording.op("aten::mul", 0, 5, writes=(1,))
    recording.launch(1, start=10, dur=30, stream=7, corr=1, name="write")
    recording.op("aten::neg", 10, 5, reads=(1,))
    recording.launch(11, start=41, dur=5, stream=9, corr=2, name="read")
    rank = recording.link()
    assert kinds(rank, EdgeKind.TENSOR) == [("write", "read")]
    assert plan(rank, write=100)["read"][0] == 110
    assert plan(rank, without=EdgeKind.TENSOR, write=100)["read"][0] < 110


def test_forward_comes_before_backward(recording):
    recording.op("aten::mul", 0, 5)
    recording.op("MulBackward0", 50, 5, tid=2)
    for ph, tid, ts in (("s", 1, 0), ("f", 2, 50)):
        recording.events.append(
            {"ph": ph, "id": 4, "pid": 9, "tid": tid, "ts": ts, "cat": "fwdbwd", "name": "fwdbwd"}
        )
    rank = recording.link()
    assert kinds(rank, EdgeKind.AUTOGRAD) == [("aten::mul", "MulBackward0")]
    edges = rank.edges.without(EdgeKind.AUTOGRAD)
    assert len(edges) < len(rank.edges)
