"""What nodes hold, in the order in which a program runs."""

from types import SimpleNamespace

import numpy as np

from chakrakit.workloads.program.traces import peak_held


class Columns(SimpleNamespace):
    def __len__(self):
        return len(self.columns["alloc"])


def peak(alloc, free):
    return peak_held(Columns(columns={"alloc": np.array(alloc), "free": np.array(free)}))


def test_a_node_holds_what_it_makes_while_it_runs():
    """8, then 12 while the second still has what it frees."""
    assert peak([8, 4, 0], [0, 8, 4]) == 12


def test_nothing_is_held_by_nothing():
    assert peak([], []) == 0
    assert peak([0], [0]) == 0
