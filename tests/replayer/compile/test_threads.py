"""What a step must wait for on another thread of the host."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from chakrakit.replayer.compile.threads import add_needs
from chakrakit.replayer.plan import Call, Collective, Wait


def call(thread, reads, makes=(), free=()):
    made = [(slot, "float32", [1], [1], 0) for slot in makes]
    args = [{"slot": slot} for slot in reads]
    return Call(op="x", overload="", args=args, thread=thread, made=made, free=list(free))


def reduce(thread, slot, work=0, group=0):
    return Collective(
        op="all_reduce", group=group, work=work, inputs=[slot], outputs=[slot], thread=thread
    )


def needs(*steps, written=None, times=None):
    """All at the same time unless said otherwise; slot n lies in storage n."""
    versions = {slot: object() for slot in range(10)}
    start, end = times or (np.zeros(len(steps), int), np.full(len(steps), 100))
    seen = SimpleNamespace(trace=SimpleNamespace(start_ns=np.array(start), end_ns=np.array(end)))
    touched = [{id(versions[s]) for s in (written or {}).get(i, ())} for i in range(len(steps))]
    memory = SimpleNamespace(version_of=versions)
    add_needs(list(steps), list(range(len(steps))), touched, seen, memory)
    return [step.needs for step in steps]


def test_what_another_thread_made_is_waited_for():
    assert needs(call(0, [0], [1]), call(1, [1])) == [[], [0]]
    assert needs(call(0, [0], [1]), call(1, [0])) == [[], []]  # both only read
    assert needs(call(0, [0], [1]), call(0, [1])) == [[], []]  # one thread keeps its order


def test_what_is_changed_or_let_go_waits_for_those_who_read_it():
    assert needs(call(0, [0]), call(1, [0]), written={1: [0]}) == [[], [0]]
    assert needs(call(0, [0]), call(1, [], free=[0])) == [[], [0]]


def test_of_each_thread_only_the_last_is_named():
    found = needs(call(0, [0], [1]), call(0, [0], [2]), call(2, [0], [3]), call(1, [1, 2, 3]))
    assert found[3] == [1, 2]


def test_collectives_of_a_group_keep_their_order():
    assert needs(reduce(0, 1), reduce(1, 2)) == [[], [0]]
    assert needs(reduce(0, 1), reduce(1, 2, group=1)) == [[], []]


def test_a_wait_is_when_results_are_there():
    steps = (reduce(0, 1), Wait(work=0, thread=1), call(0, [1]))
    assert needs(*steps, written={0: [1]}) == [[], [0], [1]]


def test_what_others_finished_while_a_thread_paused_comes_before_its_next_step():
    """The backward pass begins at 60 ns, after what the main thread did until 50 ns."""
    found = needs(call(0, [0]), call(0, [1]), call(1, [2]), times=([0, 20, 60], [10, 50, 90]))
    assert found == [[], [], [1]]
