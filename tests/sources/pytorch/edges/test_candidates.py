"""What could have held a row back, and what did."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.sources.pytorch.edges import Candidates, violations
from chakrakit.sources.pytorch.edges.candidates import EdgeList
from chakrakit.trace.model import EdgeForm, EdgeKind
from support.rescheduled import plan


def test_the_measured_start_of_everything_comes_out_again(two_kernels):
    rank = two_kernels.link()
    planned = {name: start for name, (start, _) in plan(rank).items()}
    assert planned == measured(rank)
    assert violations(rank.line, rank.edges, 0) == 0


def measured(rank):
    first = rank.line.start.min()
    return {rank.names[r]: (rank.line.start[r] - first) / 1000 for r in range(len(rank.line))}


def test_the_last_cause_takes_the_measured_lag_and_others_their_usual_one():
    """The launch lets row 2 start at 6 µs, the stream at 21: it started at 25 because of the stream."""
    causes = Candidates(np.array([0, 0, 25_000]), np.array([10_000, 20_000, 30_000]))
    causes.add(EdgeKind.LAUNCH, EdgeForm.START_START, [0], [2], 6_000)
    causes.add(EdgeKind.STREAM, EdgeForm.FINISH_START, [1], [2], 1_000)
    edges, refuted = causes.decide()
    assert list(zip(edges.src, edges.dst, edges.lag, strict=True)) == [(0, 2, 6_000), (1, 2, 5_000)]
    assert len(refuted) == 0


def test_a_usual_lag_never_exceeds_the_measured_one():
    """The launch took 5 µs where 6 are usual, and the stream overlapped by 1: neither is refuted."""
    causes = Candidates(np.array([20_000, 0, 25_000]), np.array([22_000, 26_000, 30_000]))
    causes.add(EdgeKind.LAUNCH, EdgeForm.START_START, [0], [2], 6_000)
    causes.add(EdgeKind.STREAM, EdgeForm.FINISH_START, [1], [2], 1_000)
    assert causes.decide()[0].lag.tolist() == [5_000, -1_000]


@pytest.mark.parametrize(("ended", "kept"), [(26_000, 1), (26_001, 0)])
def test_a_cause_that_ended_after_its_effect_began_is_refuted(ended, kept):
    """The clocks of host and device may disagree by a microsecond."""
    causes = Candidates(np.array([0, 25_000]), np.array([ended, 30_000]))
    causes.add(EdgeKind.EVENT, EdgeForm.FINISH_START, [0], [1], 1_000)
    edges, refuted = causes.decide()
    assert (len(edges), len(refuted)) == (kept, 1 - kept)


def test_nothing_to_decide():
    causes = Candidates(np.empty(0, np.int64), np.empty(0, np.int64))
    assert [len(edges) for edges in causes.decide()] == [0, 0]


def test_edges_gathered_in_pieces_keep_their_order_and_lags():
    gathered = EdgeList()
    gathered.add(EdgeKind.SYNC, [3], [4], 7, EdgeForm.FINISH_FINISH)
    gathered.add(EdgeKind.CALL, [0, 1], [1, 2], [5, 6], EdgeForm.START_START)
    edges = gathered.edges()
    assert list(zip(edges.src, edges.dst, edges.lag, strict=True)) == [
        (3, 4, 7),
        (0, 1, 5),
        (1, 2, 6),
    ]
