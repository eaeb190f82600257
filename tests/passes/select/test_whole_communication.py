"""What one rank does not keep, the ranks it communicates with do not either."""

import numpy as np

from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet
from chakrakit.passes.select import whole_communication


def traces():
    bodies = []
    for rank in range(2):
        t = TraceBuilder()
        t.comp("mm", duration_ns=1)
        t.collective("sum", CollectiveType.ALL_REDUCE, 8, pg_name="1")
        if rank == 0:
            t.send("out", src=0, dst=1, size=8)
        else:
            t.recv("in", src=0, dst=1, size=8)
        bodies.append(t.build())
    return TraceSet(bodies, {0: Binding(0), 1: Binding(1)}, Groups({"1": [0, 1]}))


def kept(rank_0, rank_1):
    given = {0: np.array(rank_0), 1: np.array(rank_1)}
    return {r: mask.tolist() for r, mask in whole_communication(traces(), given).items()}


ALL = [True, True, True]


def test_everything_kept_stays():
    assert kept(ALL, ALL) == {0: ALL, 1: ALL}


def test_a_collective_goes_with_any_of_its_calls():
    assert kept(ALL, [True, False, True]) == {0: [True, False, True], 1: [True, False, True]}


def test_a_message_goes_with_either_end():
    assert kept([True, True, False], ALL) == {0: [True, True, False], 1: [True, True, False]}


def test_computation_is_nobody_elses():
    assert kept([False, True, True], ALL) == {0: [False, True, True], 1: ALL}
