"""Folding: classes whose copies end apart are split by those ends until all copies end together."""

from dataclasses import replace

import numpy as np

import chakrakit as ck
from chakrakit.machines import load_machine
from chakrakit.simulator.engine import Disturbance, Fault, native
from support.simulated import machine_of


def folded_and_alone(traces, machine, **options):
    made = native.SimulationOptions(**options)
    return native.run(traces, machine, made), native.run(traces, machine, replace(made, fold=False))


def ends_of(outcome):
    """The end of every row, one list per rank."""
    bounds = [(outcome.offset[c], outcome.offset[c + 1]) for c in outcome.classes.rank]
    return [outcome.end[a:b].tolist() for a, b in bounds]


def test_messages_that_a_tree_crosses_only_in_part_split_their_ranks():
    """An all-reduce in a tree loads some members' ports more than others', and messages pass beside it."""
    plan = ck.generate(model="llama-3.1-8b", pp=4, dp=8, layers=8, seq=512, global_batch=32)
    machine = load_machine("dgx-h100:32")
    # One rank per node: messages leave through the port that the tree uses.
    placed = [8 * i for i in range(32)]
    tree = native.Algorithms({"all-reduce": "double-tree"})
    folded, alone = folded_and_alone(plan.traces, machine, algorithms=tree, placement=tuple(placed))
    assert "split" in folded.why
    made = native.SimulationOptions(algorithms=tree, placement=tuple(placed))
    simulation = native.NativeSimulation(plan.traces, machine, made)
    again = simulation.run_again(made.work, folded)
    assert "split" not in again.why  # it begins with the classes of the first
    assert ends_of(again) == ends_of(folded)
    assert 1 < folded.classes.factor < 8
    assert ends_of(folded) == ends_of(alone)


def test_groups_on_a_slower_part_of_the_machine_are_split_from_their_like():
    t = ck.TraceBuilder()
    work = t.comp("w", duration_ns=1000)
    t.collective("c", ck.CollectiveType.ALL_REDUCE, 10**6, pg_name="g", deps=[work])
    groups = ck.Groups({str(g): [4 * g + i for i in range(4)] for g in range(4)})
    bindings = {r: ck.Binding(0, groups={"g": str(r // 4)}) for r in range(16)}
    traces = ck.TraceSet([t.build()], bindings, groups)
    slow = Disturbance(faults=(Fault("link", (8, 9), 0, 0.1),))
    folded, alone = folded_and_alone(traces, machine_of("ring", 16), disturbance=slow)
    assert folded.classes.count == 2
    assert ends_of(folded) == ends_of(alone)
    assert len(np.unique([e[-1] for e in ends_of(folded)])) == 2
