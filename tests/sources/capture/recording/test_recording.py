"""What one rank did, as plain data that crosses from one process to another."""

from __future__ import annotations

import msgspec

from chakrakit.sources.capture.recording import Comm, Group, Op, Recording, Signature


def test_a_recording_arrives_as_it_was_sent():
    signature = Signature("aten::mm", *[""] * 7, 128, 0, 96, "fp32", "matmul", False)
    sent = Recording(
        rank=3,
        world=8,
        ops=[Op(0, 0, 1, 2, [4], [5], comm=0, waits_for=0)],
        signatures=[signature],
        comms=[Comm(0, "0", 8, 8, "float32", in_splits=[1, 2])],
        groups=[Group("0", (0, 1), "world")],
        mail={"objects 0": b"\x80"},
    )
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=Recording) == sent


def test_two_recordings_share_no_lists():
    one, other = Recording(rank=0, world=2), Recording(rank=1, world=2)
    one.ops.append(Op(0, 0, 0, 0, [], []))
    assert other.ops == []
