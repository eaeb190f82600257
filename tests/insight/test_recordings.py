"""Runs of communication alone on a board: numbers, states and signatures of every rank's calls."""

from __future__ import annotations

import numpy as np

import chakrakit as ck
from chakrakit.insight.diagnosis import board_of, is_recording
from chakrakit.insight.diagnosis.board import CallSignature
from chakrakit.trace.sets import Times, run_of

AR, A2A = ck.CollectiveType.ALL_REDUCE, ck.CollectiveType.ALL_TO_ALL


def recorded() -> ck.Run:
    """Two ranks of three; the second has not begun its last call."""
    bodies = []
    for rank in range(2):
        t = ck.TraceBuilder()
        t.collective("a", AR, 8, pg_name="g", comm_seq=4, comm_state="completed", comm_dtype="fp32")
        t.collective("b", A2A, 8 + rank, pg_name="g", comm_seq=5, comm_state="started")
        last = "scheduled" if rank else "started"
        t.collective("c", AR, 16, pg_name="g", comm_seq=5, comm_state=last, comm_dtype="fp32")
        bodies.append(t.build())
    times = {r: Times(np.array([0, 10, 20]) + r, np.array([5, 15, 25])) for r in range(2)}
    card = ck.Card(settings={"recorder": "flight recorder"})
    traces = ck.TraceSet(bodies, groups=ck.Groups({"g": [2, 0, 1]}), card=card)
    return run_of(traces, times, tick_ps=1000)


def test_calls_of_all_ranks_are_laid_out_as_they_were_issued() -> None:
    board = board_of(recorded())
    assert board.rank.tolist() == [0, 0, 0, 1, 1, 1]
    assert board.seq.tolist() == [4, 5, 5] * 2
    assert board.nth.tolist() == [0, 0, 1] * 2  # coalesced calls have one number
    assert board.state.tolist() == [2, 1, 1, 2, 1, 0]
    assert board.start.tolist() == [0, 10, 20, 1, 11, 21]
    assert board.last == {(0, 0): 5, (0, 1): 5}
    assert (board.members[0].tolist(), board.recorded.tolist()) == ([0, 1, 2], [0, 1])


def test_sizes_count_only_where_all_ranks_must_bring_the_same() -> None:
    board = board_of(recorded())
    assert board.sign[1] == board.sign[4]  # of an all-to-all, 8 and 9 bytes are alike
    assert board.signature(1) == CallSignature(int(A2A), board.signature(1).dtype, 0, 0)
    assert board.signature(0).size == 8
    assert board.signature(0) != board.signature(2)
    assert board.signature(0).dtype != board.signature(1).dtype


def test_only_what_a_recorder_of_communication_made_is_a_recording(two_ranks: ck.Run) -> None:
    assert is_recording(recorded())
    assert not is_recording(two_ranks)
